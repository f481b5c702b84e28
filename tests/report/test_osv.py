"""Records as OSV documents: valid by OSV's rules, evaluated by them as by us, with nothing of ours lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from packaging.version import Version as Pep440

from regress_gate.known.matching.versions import affects
from regress_gate.known.records.loading import load_records
from regress_gate.model.issue import KnownIssue
from regress_gate.model.version import Version
from regress_gate.report.render.osv import osv_document
from tests.factories.records import REPO, ROOT, affected, record, record_data

SCHEMA = Draft202012Validator(json.loads(Path(__file__).with_name("osv.schema.json").read_text(encoding="utf-8")))
SHA = "4" * 40
SHIPPED = load_records(ROOT / "known_issues")


def osv(**changes: Any) -> dict[str, Any]:
    document = osv_document(record(**changes))
    SCHEMA.validate(document)
    return document


def ranges(document: dict[str, Any]) -> list[list[dict[str, str]]]:
    return [part["events"] for entry in document["affected"] for part in entry["ranges"]]


@pytest.mark.parametrize("issue", SHIPPED, ids=lambda issue: issue.id)
def test_every_shipped_record_is_valid(issue: KnownIssue) -> None:
    SCHEMA.validate(osv_document(issue))


def test_osvs_fields_are_osvs() -> None:
    document = osv(aliases=["SITE-7"])
    assert document["id"] == "VLLM-1"
    assert document["modified"] == "2026-11-20T00:00:00Z"
    assert document["aliases"] == ["SITE-7"]
    assert document["affected"][0]["package"] == {"ecosystem": "PyPI", "name": "vllm", "purl": "pkg:pypi/vllm"}
    assert document["references"][0] == {"type": "REPORT", "url": f"{REPO}/issues/1"}


def test_fields_that_osv_lacks_are_exported_too() -> None:
    code = [{"argument": "moe_backend", "default": None}]
    own = osv(code=code)["database_specific"]
    assert own["code"] == code
    assert own["scope"] == {"accelerator": ["H200"], "model": ["org/Model*"]}
    assert own["severity"] == "high"
    assert own["workarounds"] == record_data()["workarounds"]


def test_commits_are_exported_whole_or_not_at_all() -> None:
    whole = osv(affected=[affected({"introduced": "0.20.0"}, commits=({"introduced": SHA},))])
    assert ranges(whole) == [[{"introduced": "0.20.0"}], [{"introduced": SHA}]]
    short = osv(affected=[affected({"introduced": "0.20.0"}, commits=({"introduced": "4444444"},))])
    assert ranges(short) == [[{"introduced": "0.20.0"}]]


def test_a_range_with_both_kinds_of_ends_is_split() -> None:
    events = ({"introduced": "0.1.0"}, {"last_affected": "0.2.0"}, {"introduced": "0.3.0"}, {"fixed": "0.4.0"})
    assert ranges(osv(affected=[affected(*events)])) == [list(events[:2]), list(events[2:])]


def evaluate(document: dict[str, Any], version: str) -> bool:
    """OSV's own evaluation, as its page describes it: within a range the events are taken in their order."""
    hit = False
    for events in ranges(document):
        inside = False
        for event in sorted(events, key=lambda event: Pep440(next(iter(event.values())))):
            ((kind, value),) = event.items()
            at, wanted = Pep440(value), Pep440(version)
            if kind == "introduced" and wanted >= at:
                inside = True
            elif (kind == "fixed" and wanted >= at) or (kind == "last_affected" and wanted > at):
                inside = False
        hit = hit or inside
    return hit


@pytest.mark.parametrize("version", ["0.6.3", "0.11.2", "0.19.1", "0.20.0", "0.24.0", "0.33.0"])
def test_another_tool_finds_the_same_versions_affected(version: str) -> None:
    for issue in SHIPPED:
        if all(part.type == "ECOSYSTEM" for entry in issue.affected for part in entry.ranges):
            assert evaluate(osv_document(issue), version) is affects(issue, Version.parse(version)), issue.id
