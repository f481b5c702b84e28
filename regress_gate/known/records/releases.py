"""The releases of vLLM and their days: a shipped table, and newer ones from a package index.

The table (releases.json) has all releases from 0.5.0 on, with the day (UTC) of their first file. The index from the
configuration is asked for the project's JSON document at most once a day; its answer is kept in the user's cache
directory. Withdrawn ("yanked") releases are left out. Without an index only the table is used, and a note names the day
from which releases are unknown.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.files import read_url, replace_file
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
