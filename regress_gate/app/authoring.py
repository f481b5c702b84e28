"""Files that people write: suites, records of known issues, waivers. Makes new ones and checks those that exist.

No file is overwritten, and what stands in a configuration file stays byte for byte.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from regress_gate.app.settings import CONFIG_NAME, PYPROJECT, Settings, read_config, toml_string
from regress_gate.errors import InputError
from regress_gate.files import create_file, read_bounded, write_output_file
from regress_gate.known.records.curation import ReportedCase, draft_id, draft_record, lint_records
from regress_gate.known.records.loading import SUFFIX, load_records, record_files
from regress_gate.model.documents import LintMessage
from regress_gate.model.issue import CodeCondition
from regress_gate.model.policy import Waiver
from regress_gate.paths import shipped_directory
from regress_gate.suites import is_suite_path, suite_template
from regress_gate.suites.lint import lint_suite
from regress_gate.suites.vllm_ci import convert_definition, is_definition, suite_text
from regress_gate.text import sanitise

MAX_BYTES = 16 * 1024 * 1024
"""Of a test definition of vLLM's CI."""


@dataclass(frozen=True, slots=True)
class LintReport:
    messages: Sequence[LintMessage]
    files: int
    unshown: Sequence[LintMessage] = ()
    """Events of records that are shown neither by code nor by a named commit: worth a look, and not counted."""

    @property
    def errors(self) -> int:
        return sum(message.severity == "error" for message in self.messages)

    @property
    def warnings(self) -> int:
        return len(self.messages) - self.errors


# Suites


def new_suite(file: Path) -> None:
    """Write a commented suite to begin with, named by its file. Raises InputError."""
    if not is_suite_path(file.name):
        raise InputError("a suite is a YAML file", where=file, todo=f"call it {file.name}.yaml")
    create_file(file, suite_template(_suite_name(file.stem) or "my-suite"), todo="name another file")


def lint_suites(files: Sequence[Path]) -> LintReport:
    """All errors and warnings of suite files; a file that cannot be read is an error among them."""
    from regress_gate.app.recorded_traffic import trace_error  # with the load client, which the others do not need

    known = {name for record in load_records() for name in (record.id, *record.aliases)}
    messages = [message for file in files for message in lint_suite(file, known, trace_error=trace_error)]
    return LintReport(messages, len(files))


@dataclass(frozen=True, slots=True)
class ConvertedDefinition:
    """A test definition of vLLM's CI, made into the text of a suite."""

    file: Path
    name: str
    """Of the suite."""
    text: str | None
    """None: the definition has no test that a suite can express."""
    scenarios: int
    left_out: tuple[str, ...]
    """Tests and scenarios that are not in the suite, each with the reason."""


def convert_definitions(files: Sequence[Path]) -> list[ConvertedDefinition]:
    """A suite for each definition. Raises InputError for a file that is none, and if two suites had the same name."""
    return [_convert(file, name) for file, name in zip(files, _suite_names(files), strict=True)]


def write_suites(definitions: Sequence[ConvertedDefinition], directory: Path) -> Iterator[Path]:
    """Write each suite to a new file of the directory; yields the paths that were written."""
    for definition in definitions:
        if definition.text is not None:
            path = directory / f"{definition.name}.yaml"
            create_file(path, definition.text, todo="give another folder", with_folder=True)
            yield path


def _convert(file: Path, name: str) -> ConvertedDefinition:
    converted = convert_definition(_read_definition(file), name, file.name)
    if converted.suite is None:
        return ConvertedDefinition(file, name, None, 0, converted.left_out)
    comments = ["The temperature is 0 where vLLM's CI leaves it to the client's or the server's default."]
    comments += [f"Left out: {sanitise(reason)}" for reason in converted.left_out]
    text = suite_text(converted.suite, comments)
    return ConvertedDefinition(file, name, text, len(converted.suite["scenarios"]), converted.left_out)


def _suite_names(files: Sequence[Path]) -> Iterator[str]:
    """A name for each file's suite: its stem, with the folder's name before it where two would be the same."""
    stems = [_suite_name(file.stem) or "imported" for file in files]
    longer = [_suite_name(f"{file.resolve().parent.name}-{file.stem}") or "imported" for file in files]
    for index, (stem, long) in enumerate(zip(stems, longer, strict=True)):
        is_unique = stems.count(stem) == 1
        if not is_unique and longer.count(long) > 1:
            raise InputError("would be two suites of one name", where=files[index], todo="import one of them at a time")
        yield stem if is_unique else long


def _suite_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text).lstrip("._-")[:80]


def _read_definition(file: Path) -> Any:
    try:
        data = read_bounded(file, MAX_BYTES)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=file) from None
    if data is None:
        raise InputError("larger than 16 MiB, which no test definition is", where=file)
    try:
        definition = json.loads(data)
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", where=file, line=error.lineno) from None
    except (ValueError, RecursionError):
        raise InputError("not valid JSON: not UTF-8, or nested too deeply", where=file) from None
    if not is_definition(definition):
        raise InputError(
            "is no test definition of vLLM's CI", where=file, todo="give serving-tests.json or one like it"
        )
    return definition


# Records of known issues


def lint_issue_records(directory: Path | None) -> LintReport:
    """All errors and warnings of a directory of records, by default the shipped one. Raises InputError."""
    where = directory or shipped_directory("known_issues")
    unshown: list[LintMessage] = []
    return LintReport(lint_records(where, today=today(), unshown=unshown), len(record_files(where)), unshown)


def draft_issue_record(
    url: str,
    directory: Path | None,
    *,
    with_folder: bool = False,
    fix: str | None = None,
    conditions: Sequence[CodeCondition] = (),
    case: ReportedCase | None = None,
) -> tuple[str, Path | None]:
    """The text of a new record of a thread, and the file of `directory` that it was written to (None: no directory).

    `conditions` are proposed for its `code`, by the diff of `fix`; `case` is what the thread says of itself. A
    missing directory is made only `with_folder`: one that a person names may be misspelt. Raises InputError for any
    other address, and if the file exists.
    """
    text = draft_record(url, today=today(), fix=fix, conditions=conditions, case=case)
    if directory is None:
        return text, None
    path = directory / (draft_id(url) + SUFFIX)
    create_file(path, text, todo="it is the record of this thread: edit it", with_folder=with_folder)
    return text, path


# Waivers


def make_waiver(finding: str, *, until: date, max_change: float, owner: str, reason: str) -> Waiver:
    """Raises InputError for a value that a waiver cannot have."""
    try:
        return Waiver(finding=finding, until=until, max_change=max_change, owner=owner, reason=reason)
    except ValidationError as failure:
        error = failure.errors()[0]
        raise InputError(f"{error['loc'][0]}: {error['msg']}", where="waive add") from None


def add_waiver(settings: Settings, waiver: Waiver) -> Path:
    """Add a waiver at the end of the configuration file, which is made if there is none; returns the file.

    Raises InputError for a waiver that has expired, and if the file's own waivers leave no room for a table.
    """
    if waiver.is_expired(today()):
        raise InputError(f"{waiver.until} is over", where="--until", todo="name a day to come")
    path = settings.file[0] or Path(CONFIG_NAME)
    before = path.read_bytes().decode() if path.exists() else ""
    table = "tool.regress-gate.waivers" if path.name == PYPROJECT else "waivers"
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    after = before + (gap + _waiver_table(waiver, table)).replace("\n", "\r\n" if "\r\n" in before else "\n")
    try:
        read_config(after, path)
    except InputError:
        todo = f"write them as [[{table}]] tables"
        raise InputError("no waiver can be added below the existing ones", where=path, todo=todo) from None
    write_output_file(path, after)
    return path


def ending_waivers(settings: Settings, within_days: int) -> list[Waiver]:
    """Waivers that have expired, or that expire within so many days."""
    horizon = today() + timedelta(days=within_days)
    return [
        waiver for waiver in settings.waivers if waiver.is_expired(today()) or (within_days and waiver.until <= horizon)
    ]


def today() -> date:
    """In UTC."""
    return datetime.now(UTC).date()


def _waiver_table(waiver: Waiver, table: str) -> str:
    lines = [
        f"[[{table}]]",
        f"finding = {toml_string(waiver.finding)}",
        f"until = {waiver.until.isoformat()}",
        f"max_change = {waiver.max_change!r}",
        f"owner = {toml_string(waiver.owner)}",
        f"reason = {toml_string(waiver.reason)}",
        "",
    ]
    return "\n".join(lines)
