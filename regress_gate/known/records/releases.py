"""Releases of vLLM and the days on which they were published, as shipped with this program.

The table (releases.json) contains the regular releases from 0.5.5 on, but not every patch release. Not for: releases
after the table was made (`release_index`).
"""

import json
from datetime import date
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.model.version import Version

_TABLE = Path(__file__).with_name("releases.json")


@cache
def shipped_releases() -> dict[Pep440, date]:
    """Release to its day of publication."""
    return parse_releases(json.loads(_TABLE.read_text(encoding="utf-8"))["released"])


@cache
def table_date() -> date:
    """The day on which the shipped table was made."""
    return date.fromisoformat(json.loads(_TABLE.read_text(encoding="utf-8"))["seen"])


def beyond_records_text(version: Version) -> str:
    """A sentence for a release that is newer than the table, and so than the records; else empty."""
    newest = max(shipped_releases())
    if version.order_key is None or version.order_key <= newest:
        return ""
    day = shipped_releases()[newest].isoformat()
    return (
        f"{version} is newer than the records, which know releases up to {newest} of {day}; its own issues are in none."
    )


def parse_releases(table: dict[str, str]) -> dict[Pep440, date]:
    """Final releases and their days; invalid entries are left out."""
    found = {}
    for text, day in table.items():
        try:
            version, published = Pep440(text), date.fromisoformat(day)
        except (InvalidVersion, ValueError, TypeError):
            continue
        if not version.is_prerelease and version.local is None:
            found[version] = published
    return found


def release_date(version: str) -> date | None:
    """The day on which a release was published; None if the shipped table does not have it."""
    try:
        return shipped_releases().get(Pep440(version))
    except InvalidVersion:
        return None
