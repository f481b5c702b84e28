"""Records as Open Source Vulnerability documents, for other tools (ossf.github.io/osv-schema, version 1.7).

Fields that OSV lacks go into `database_specific`. One of them is severity: OSV's is a CVSS vector, which does not fit a
regression. GIT ranges with abbreviated commits are left out, because OSV requires full ids. A range with both `fixed`
and `last_affected` is split, because OSV allows only one of them in a range. The OSV project has not registered the
prefix `VLLM`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from regress_gate.model.issue import Affected, Event, KnownIssue, Range
from regress_gate.report.render.json import json_text

SCHEMA_VERSION = "1.7.0"
_OSV = {"id", "aliases", "summary", "details", "references", "affected"}


def render(records: Sequence[KnownIssue]) -> str:
    """A list of OSV documents."""
    return json_text([osv_document(record) for record in records]) + "\n"


def osv_document(issue: KnownIssue) -> dict[str, Any]:
    """One record as JSON values, keys in the order of OSV's description."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "id": issue.id,
        "modified": f"{issue.reviewed.isoformat()}T00:00:00Z",
    }
    if issue.aliases:
        document["aliases"] = list(issue.aliases)
    document["summary"] = issue.summary
    document["details"] = issue.details or issue.summary
    document["affected"] = [_affected(entry) for entry in issue.affected]
    document["references"] = [reference.model_dump() for reference in issue.references]
    document["database_specific"] = issue.model_dump(
        mode="json", exclude=_OSV, exclude_none=True, exclude_defaults=True
    )
    return document


def _affected(entry: Affected) -> dict[str, Any]:
    package = {**entry.package.model_dump(), "purl": f"pkg:pypi/{entry.package.name}"}
    if entry.package.ecosystem != "PyPI":
        del package["purl"]
    return {"package": package, "ranges": [part for whole in entry.ranges for part in _ranges(whole)]}


def _ranges(whole: Range) -> Iterator[dict[str, Any]]:
    if whole.type == "GIT" and any(event.value != "0" and len(event.value) != 40 for event in whole.events):
        return
    kinds = {name for event in whole.events for name in event.model_fields_set}
    parts = list(_turns(whole.events)) if {"fixed", "last_affected"} <= kinds else [whole.events]
    for events in parts:
        shared: dict[str, Any] = {"type": whole.type}
        if whole.repo is not None:
            shared["repo"] = whole.repo
        yield {**shared, "events": [event.model_dump(exclude_none=True) for event in events]}


def _turns(events: list[Event]) -> Iterator[list[Event]]:
    """Each introduction with what ends it."""
    turn: list[Event] = []
    for event in events:
        if event.introduced and turn:
            yield turn
            turn = []
        turn.append(event)
    yield turn
