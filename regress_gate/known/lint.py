"""Everything that is wrong or doubtful in a directory of records, in one pass that stops at no bad file.

Loading answers "can this record be used?"; linting answers "should it be believed?". What only a person or the
network can tell (does the thread say so? is the fix in the tag?) is not checked here.
"""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.known.lint_scope import scope, workarounds
from regress_gate.known.lint_thread import references, review, signature, texts, tracker
from regress_gate.known.lint_versions import changes, versions
from regress_gate.known.records import SUFFIX, read_document, read_issue, record_files
from regress_gate.model.complaint import Complaint, Found
from regress_gate.model.documents import Document, Location
from regress_gate.model.issue import KnownIssue

_CHECKS: tuple[Callable[[KnownIssue, date], Iterator[Found]], ...] = (
    tracker,
    review,
    references,
    texts,
    versions,
    changes,
    signature,
    scope,
    workarounds,
)


def lint(directory: Path, *, today: date) -> list[Complaint]:
    """All complaints, by file and line. Raises InputError when the directory itself cannot be listed."""
    complaints = list(_strange_files(directory))
    records: list[tuple[Path, Document, KnownIssue]] = []
    for path in record_files(directory):
        try:
            document = read_document(path)
            records.append((path, document, read_issue(document)))
        except InputError as error:
            complaints.append(Complaint(path, error.line, error.what, "error"))
    for path, document, issue in records:
        if path.name != issue.id + SUFFIX:
            what = f"the file is not named by its id: call it {issue.id}{SUFFIX}"
            complaints.append(Complaint(path, document.line(("id",)), what, "error"))
        for check in _CHECKS:
            for location, what, severity in check(issue, today):
                complaints.append(Complaint(path, document.line(location), what, severity))
    complaints.extend(_shared_names(records))
    return sorted(complaints, key=lambda complaint: (complaint.file, complaint.line or 0, complaint.what))


def _strange_files(directory: Path) -> Iterator[Complaint]:
    record_files(directory)  # says so when there is no such directory
    for path in directory.iterdir():
        if path.suffix == ".yml":
            yield Complaint(path, None, f"is not loaded: call it {path.stem}{SUFFIX}", "error")


def _shared_names(records: list[tuple[Path, Document, KnownIssue]]) -> Iterator[Complaint]:
    """Ids, aliases and tracker threads that more than one record claims."""
    owners: dict[str, Path] = {}
    for path, document, issue in records:
        claims: list[tuple[Location, str]] = [(("id",), issue.id), (("tracker", "url"), issue.tracker.url)]
        claims += [(("aliases", index), alias) for index, alias in enumerate(issue.aliases)]
        own: set[str] = set()
        for location, name in claims:
            key = name.casefold().rstrip("/")
            if (first := owners.setdefault(key, path)) != path:
                yield Complaint(path, document.line(location), f"{name} already belongs to {first.name}", "error")
            elif key in own:
                yield Complaint(path, document.line(location), f"alias {name} is given twice, or is the id", "error")
            own.add(key)
