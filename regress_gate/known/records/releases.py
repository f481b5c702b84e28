"""The releases of vLLM and their days: a shipped table, and newer ones from a package index.

The table (releases.json) has all releases from 0.5.0 on, with the day (UTC) of their first file. The index from the
configuration is asked for the project's JSON document at most once a day; its answer is kept in the user's cache
directory. Withdrawn ("yanked") releases are left out. Without an index only the table is used, and a note names the day
from which releases are unknown.

Which releases have each issue, by the `code` of its record, is a second table: `issues verify --builds` makes it. It
is kept beside the records as builds.json, so that the linter can say which events the code shows. Not for evaluating a
condition (`known.matching.versions`).
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.version import InvalidVersion
from packaging.version import Version as Pep440
from pydantic import AfterValidator, Field, ValidationError

from regress_gate.errors import InputError
from regress_gate.files import read_bounded, read_url, replace_file
from regress_gate.known.matching.versions import affects
from regress_gate.model.documents import StrictModel
from regress_gate.model.issue import Event, KnownIssue
from regress_gate.model.version import Version
from regress_gate.redaction import redact_url

_TABLE = Path(__file__).with_name("releases.json")


@cache
def shipped_releases() -> dict[Pep440, date]:
    """Release to its day of publication."""
    return parse_releases(json.loads(_TABLE.read_text(encoding="utf-8"))["released"])


@cache
def table_date() -> date:
    """The day on which the shipped table was made."""
    return date.fromisoformat(json.loads(_TABLE.read_text(encoding="utf-8"))["seen"])


def nearest_release(key: Pep440, releases: Collection[Pep440]) -> Pep440:
    """The release that was probably meant: the next older one, or the next newer one if only that is of its series."""
    older = max((release for release in releases if release <= key), default=None)
    newer = min((release for release in releases if release > key), default=None)
    if older is None or (newer is not None and older.release[:2] != key.release[:2] == newer.release[:2]):
        return newer if newer is not None else key
    return older


def parse_releases(table: dict[str, str]) -> dict[Pep440, date]:
    """Final releases and their days; invalid entries are left out."""
    releases = {}
    for text, day in table.items():
        try:
            version, published = Pep440(text), date.fromisoformat(day)
        except (InvalidVersion, ValueError, TypeError):
            continue
        if not version.is_prerelease and version.local is None:
            releases[version] = published
    return releases


def release_date(version: str) -> date | None:
    """The day on which a release was published; None if the shipped table does not have it."""
    try:
        return shipped_releases().get(Pep440(version))
    except InvalidVersion:
        return None


FRESH = timedelta(days=1)
TIMEOUT = 15.0
"""Seconds."""
MAX_BYTES = 64 * 1024 * 1024
"""Of one answer; the whole history of a large project has a tenth."""


@dataclass(frozen=True, slots=True)
class KnownReleases:
    days: Mapping[Pep440, date]
    """Final release to its day of publication."""
    note: str | None = None
    """What is unknown, in one line."""


def find_releases(url: str | None, cache: Path, *, now: datetime, offline: bool) -> KnownReleases:
    """The newest available list. `cache` is a file, which may be missing or read-only."""
    if url is None:
        todo = "name an index with release_index in [check]"
        return KnownReleases(shipped_releases(), f"releases after {table_date().isoformat()} are not known; {todo}")
    kept = _read_cache(cache, url)
    if kept is not None and timedelta(0) <= now - kept[0] < FRESH:
        return KnownReleases({**shipped_releases(), **kept[1]})
    known = {**shipped_releases(), **(kept[1] if kept else {})}
    since = max(table_date(), kept[0].date()) if kept else table_date()
    if offline:
        return KnownReleases(known, f"offline: releases after {since.isoformat()} are not known")
    try:
        table = _parse_index(json.loads(read_url(url, MAX_BYTES, timeout=TIMEOUT)))
    except (OSError, ValueError) as error:  # URLError is an OSError
        # The words beside a status are the server's, which may repeat what was asked for.
        reason = f"status {error.code}" if hasattr(error, "code") else getattr(error, "reason", error)
        return KnownReleases(
            known, f"{redact_url(url)} does not answer ({reason}): releases after {since.isoformat()} are not known"
        )
    releases = parse_releases(table)
    if not releases:
        why = f"{redact_url(url)} lists no release"
        return KnownReleases(known, f"{why}: those after {since.isoformat()} are not known")
    _write_cache(cache, {"index": _index_key(url), "asked": now.astimezone(UTC).isoformat(), "released": table})
    withdrawn = shipped_releases().keys() - releases.keys()
    return KnownReleases({**{v: day for v, day in shipped_releases().items() if v not in withdrawn}, **releases})


def _parse_index(document: Any) -> dict[str, str]:
    """Version to the day of its first file in the index's answer, without withdrawn files."""
    releases = document.get("releases") if isinstance(document, dict) else None
    table: dict[str, str] = {}
    for version, files in (releases if isinstance(releases, dict) else {}).items():
        days = [
            str(file.get("upload_time", ""))[:10]
            for file in (files if isinstance(files, list) else [])
            if isinstance(file, dict) and not file.get("yanked")
        ]
        if days:
            table[str(version)] = min(days)
    return table


def _index_key(url: str) -> str:
    """Which index was asked: the address itself may hold a password."""
    return hashlib.sha256(url.encode()).hexdigest()


def _read_cache(cache: Path, url: str) -> tuple[datetime, dict[Pep440, date]] | None:
    try:
        document = json.loads(cache.read_text(encoding="utf-8"))
        fetched = datetime.fromisoformat(document["asked"])
        if document["index"] != _index_key(url) or fetched.tzinfo is None:
            return None
        return fetched, parse_releases(document["released"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InvalidVersion):
        return None  # nothing kept, or nothing that we wrote


def _write_cache(cache: Path, document: dict[str, Any]) -> None:
    try:
        cache.parent.mkdir(parents=True, exist_ok=True)
        replace_file(cache, json.dumps(document))
    except OSError:
        pass  # the next call asks again


# Which releases have an issue

BUILDS_NAME = "builds.json"
BUILDS_COMMAND = "regress-gate issues verify --builds --write"
_MAX_TABLE_BYTES = 4 << 20


def _release(text: str) -> str:
    try:
        return str(Pep440(text))
    except InvalidVersion:
        raise ValueError(f"{text!r} is not a release") from None


Release = Annotated[str, AfterValidator(_release)]
Span = tuple[Release, Release]
"""The first and the last of neighbouring releases."""


class CodeAnswers(StrictModel):
    """What the source of the releases says of one record."""

    code: str
    """`code_digest` of the conditions that were evaluated."""
    has_fault: list[Span]
    unknown: list[Span] = Field(default_factory=list)


class BuildTable(StrictModel):
    """The content of builds.json."""

    schema_version: Literal["1"] = "1"
    made_by: str = BUILDS_COMMAND
    made: date
    releases: list[Release]
    """The oldest first."""
    records: dict[str, CodeAnswers]

    def answers(self, issue: KnownIssue) -> dict[str, bool | None] | None:
        """Release to whether it has the fault (None: not known); None if this code was not evaluated."""
        entry = self.records.get(issue.id)
        if entry is None or entry.code != code_digest(issue):
            return None
        answers: dict[str, bool | None] = dict.fromkeys(self.releases, False)
        answers.update(dict.fromkeys(self._within(entry.has_fault), True))
        answers.update(dict.fromkeys(self._within(entry.unknown), None))
        return answers

    def _within(self, spans: Iterable[Span]) -> Iterator[str]:
        for first, last in spans:
            yield from (one for one in self.releases if Pep440(first) <= Pep440(one) <= Pep440(last))


@dataclass(frozen=True, slots=True)
class BuildProof:
    """The answers of the releases for one record, beside its events."""

    issue: KnownIssue
    answers: Mapping[str, bool | None]
    """Release, the oldest first, to whether its source has the fault."""

    def spans(self, answer: bool | None) -> list[Span]:
        """Neighbouring releases with this answer."""
        return spans_of([one for one, found in self.answers.items() if found is answer], list(self.answers))

    @property
    def disagreements(self) -> list[str]:
        """Releases of which the events say the opposite of the code."""
        wrong = []
        for release, found in self.answers.items():
            by_events = affects(self.issue, Version.parse(release))
            if found is not None and by_events is not None and found is not by_events:
                wrong.append(release)
        return wrong

    def shows(self, event: Event) -> bool:
        """Whether the code changes between the release of the event and its neighbour, as the event says."""
        releases = list(self.answers)
        later = [one for one in releases if Pep440(one) >= event.key]
        older = [one for one in releases if Pep440(one) < event.key]
        if event.last_affected:
            older = [one for one in releases if Pep440(one) <= event.key]
            later = [one for one in releases if Pep440(one) > event.key]
        if not later or not older:
            return False
        before, after = self.answers[older[-1]], self.answers[later[0]]
        return (before, after) == ((False, True) if event.introduced else (True, False))


def code_digest(issue: KnownIssue) -> str:
    """Changes with the conditions of a record, and with nothing else."""
    text = json.dumps([condition.model_dump(mode="json") for condition in issue.code], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def spans_of(chosen: Sequence[str], releases: Sequence[str]) -> list[Span]:
    """The chosen ones of a row of releases, neighbours joined."""
    spans: list[Span] = []
    for place, release in enumerate(releases):
        if release not in chosen:
            continue
        if spans and place and releases[place - 1] == spans[-1][1]:
            spans[-1] = (spans[-1][0], release)
        else:
            spans.append((release, release))
    return spans


def table_text(proofs: Sequence[BuildProof], releases: Sequence[str], made: date) -> str:
    """The text of builds.json; a line is a record."""
    records = {
        proof.issue.id: CodeAnswers(
            code=code_digest(proof.issue), has_fault=proof.spans(True), unknown=proof.spans(None)
        ).model_dump(mode="json", exclude_defaults=True)
        for proof in sorted(proofs, key=lambda proof: proof.issue.id)
    }
    head = {"schema_version": "1", "made_by": BUILDS_COMMAND, "made": made.isoformat(), "releases": list(releases)}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    entries = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in records.items())
    body = f"{{\n{entries}\n }}" if entries else "{}"
    return "{\n" + ",\n".join([*lines, f' "records": {body}']) + "\n}\n"


def load_builds(directory: Path) -> BuildTable | None:
    """The table of a directory of records; None if there is none. Raises InputError for a file that is no table."""
    path = directory / BUILDS_NAME
    if not path.exists():
        return None
    try:
        return BuildTable.model_validate_json(read_bounded(path, _MAX_TABLE_BYTES) or b"")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from None
    except ValidationError:
        raise InputError("is no table of builds", where=path, todo=f"make it again: {BUILDS_COMMAND}") from None


def names_commit(issue: KnownIssue, event: Event) -> bool:
    """Whether the record names a commit, by which `issues verify` can look the event up in the history of the tags.
    That the commit exists is not looked up here."""
    ranges = [part for entry in issue.affected for part in entry.ranges if part.type == "GIT"]
    if event.introduced:
        changes = [change for change in issue.changes.introduced_by if change.commit]
        return bool(changes) or any(one.introduced not in (None, "0") for part in ranges for one in part.events)
    fixes = [change for change in issue.changes.fixed_by if change.commit and change.reverted_by is None]
    return bool(fixes) or any(one.fixed for part in ranges for one in part.events)
