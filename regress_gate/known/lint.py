"""Everything that is wrong or doubtful in a directory of records, in one pass that stops at no bad file.

Loading answers "can this record be used?"; linting answers "should it be believed?". What only a person or the
network can tell (does the thread say so? is the fix in the tag?) is not checked here.
"""

import re
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

from regress_gate.errors import InputError
from regress_gate.known import names
from regress_gate.known.ranges import event_key
from regress_gate.known.records import SUFFIX, read_document, read_issue, record_files
from regress_gate.model.complaint import Complaint, Found
from regress_gate.model.documents import Document, Location
from regress_gate.model.issue import IssueKind, KnownIssue, Range, Reference, Scope

REVIEW_AFTER = timedelta(days=180)
TRACKER = "https://github.com/vllm-project/vllm"


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


def _tracker(issue: KnownIssue, today: date) -> Iterator[Found]:
    url, state, reason = issue.tracker.url, issue.tracker.state, issue.tracker.state_reason
    if number := re.fullmatch(r"VLLM-(\d+)", issue.id):
        threads = [f"{TRACKER}/{kind}/{number[1]}" for kind in ("issues", "pull")]
        if url not in threads:
            yield ("tracker", "url"), f"{issue.id} is tracked at {threads[0]}, not at {url}", "error"
    if Reference(type="REPORT", url=url) not in issue.references:
        yield ("references",), f"the tracker {url} is not among the references as REPORT", "error"
    if state == "closed" and reason is None:
        yield ("tracker", "state"), "closed without state_reason: say why, or `unknown`", "warning"
    if state == "open" and reason not in (None, "reopened", "unknown"):
        yield ("tracker", "state_reason"), f"an open thread has no reason {reason!r}", "error"
    if issue.tracker.checked > today:
        yield ("tracker", "checked"), f"checked in the future ({issue.tracker.checked})", "error"


def _review(issue: KnownIssue, today: date) -> Iterator[Found]:
    if issue.reviewed > today:
        yield ("reviewed",), f"reviewed in the future ({issue.reviewed})", "error"
    elif today - issue.reviewed > REVIEW_AFTER:
        yield ("reviewed",), f"last reviewed {issue.reviewed}, over {REVIEW_AFTER.days} days ago", "warning"


def _versions(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001 (all checks are called alike)
    ranges = [
        (("affected", at, "ranges", index), part)
        for at, entry in enumerate(issue.affected)
        for index, part in enumerate(entry.ranges)
    ]
    for location, part in ranges:
        yield from _events(part, location)
    events = [event for _, part in ranges for event in part.events]
    if any(event.fixed for event in events) and not any(link.type == "FIX" for link in issue.references):
        yield ("references",), "there is a fixed event, but no FIX reference that shows it", "error"
    if not any(part.type == "ECOSYSTEM" for _, part in ranges):
        yield ("affected",), "no ECOSYSTEM range: the record can be matched against no release", "warning"
    if not issue.version_regression and not any(event.introduced == "0" for event in events):
        what = 'not a version regression, yet introduced after version "0": a move across it would be reported as new'
        yield ("version_regression",), what, "warning"


def _events(part: Range, location: Location) -> Iterator[Found]:
    """Events stand in order and take turns: introduced, fixed (or last_affected), introduced, …"""
    before, open_ = None, False
    for index, event in enumerate(part.events):
        here = (*location, "events", index)
        if bool(event.introduced) == open_:
            yield here, f"{event.value}: introduced and fixed (or last_affected) must take turns", "error"
        open_ = bool(event.introduced)
        if part.type == "ECOSYSTEM":
            key = event_key(event)
            # A single affected version is introduced and last affected at once; a fix must come after.
            if before is not None and (key < before or (key == before and not event.last_affected)):
                yield here, f"{event.value} is not after the event before it", "error"
            before = key


def _signature(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001
    for index, part in enumerate(issue.signature):
        if part.change is None:
            continue
        low, high = part.change
        fits = {"worse": low > 0, "better": high < 0, "unchanged": low <= 0 <= high}[part.direction]
        if not fits:
            what = f"direction {part.direction} does not fit the change [{low:g}, {high:g}]; positive means worse"
            yield ("signature", index, "change"), what, "error"
    if issue.kind is IssueKind.PERFORMANCE and not issue.signature:
        yield ("kind",), "a performance issue without a signature cannot be joined with measurements", "warning"


def _scope(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001
    scope = issue.scope
    if scope == Scope() and issue.kind not in (IssueKind.DEFAULT_CHANGE, IssueKind.REMOVED_FLAG):
        yield ("scope",), "the scope is empty: the record applies to everybody", "warning"
    for field in ("accelerator", "model", "quantization"):
        for index, pattern in enumerate(getattr(scope, field) or []):
            yield from _pattern(field, pattern, ("scope", field, index))
    for key, allowed in (scope.engine_args or {}).items():
        if names.canonical_args({key: True}) != {key: True}:
            what = f"engine argument {key}: write its full name, with underscores and no leading dashes or no_"
            yield ("scope", "engine_args", key), what, "error"
        if allowed == []:
            yield ("scope", "engine_args", key), f"engine argument {key}: an empty list never holds", "error"
    for key, values in (scope.env or {}).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            yield ("scope", "env", key), f"{key!r} is no name of an environment variable", "error"
        if values == []:
            yield ("scope", "env", key), f"variable {key}: an empty list never holds", "error"


def _pattern(field: str, pattern: str, location: Location) -> Iterator[Found]:
    if not pattern.strip("*? /"):
        yield location, f"{field} pattern {pattern!r} matches everything: leave the key out", "error"
    elif pattern.count("[") != pattern.count("]"):
        yield location, f"{field} pattern {pattern!r} has an unfinished [", "error"
    elif field == "accelerator" and "[" in pattern:
        yield location, f"accelerator pattern {pattern!r}: write a part's name, with * or ? and no [", "error"


def _workarounds(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001
    """A workaround that is also what the scope asks for could never be told from the trouble."""
    scope_args, scope_env = issue.scope.engine_args or {}, issue.scope.env or {}
    for index, workaround in enumerate(issue.workarounds):
        for key, value in names.canonical_args(workaround.engine_args or {}).items():
            wanted = scope_args.get(key, [])
            if any(names.same_value(value, one) for one in (wanted if isinstance(wanted, list) else [wanted])):
                what = f"the workaround {key}={value} is what the scope asks for"
                yield ("workarounds", index, "engine_args"), what, "error"
        for key, text in (workaround.env or {}).items():
            allowed = scope_env.get(key, [])
            if any(names.same_variable(text, one) for one in (allowed if isinstance(allowed, list) else [allowed])):
                what = f"the workaround {key}={text} is what the scope asks for"
                yield ("workarounds", index, "env"), what, "error"


_CHECKS: tuple[Callable[[KnownIssue, date], Iterator[Found]], ...] = (
    _tracker,
    _review,
    _versions,
    _signature,
    _scope,
    _workarounds,
)
