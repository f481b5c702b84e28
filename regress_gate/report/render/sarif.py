"""The findings of a result as SARIF 2.1.0, for GitHub's code scanning and for editors.

A rule is a known issue or a reason of the gate. A result stands at the line of the deployment file that sets the
version; without a deployment file at `regress-gate.toml`, because GitHub refuses results without a place. Limits are
GitHub's: a file beyond one of them is refused as a whole. Sources: OASIS SARIF 2.1.0 with errata 01, and GitHub's page
"SARIF support for code scanning".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from regress_gate.report.document import View
from regress_gate.report.findings import STANDARD_PLACE, Finding, Findings, Location, Rule
from regress_gate.report.render.output_formats import RenderOptions, findings_of
from regress_gate.text import clip, one_line

MOST_RESULTS = 5000
"""What GitHub keeps of one run. It accepts 25,000, but which it keeps is its choice."""
MOST_TAGS = 10
_MOST_TITLE = 1000
_MOST_TEXT = 4000
_MOST_ID = 255
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_WEB_ADDRESS = re.compile(r"https://[\w.-]+(?:/[\w./~%+-]*)?(?:#[\w-]*)?", re.ASCII)


def render(view: View, options: RenderOptions) -> str:  # noqa: ARG001 - the same for every reader
    found = findings_of(view, "sarif")
    kept = found.findings[:MOST_RESULTS]
    rules: dict[str, Rule] = {}
    for finding in kept:
        rules.setdefault(_rule_id(finding.rule), finding.rule)
    places = {name: place for place, name in enumerate(rules)}
    driver = {
        "name": "regress-gate",
        "version": _line(found.tool_version),
        "rules": [_rule(name, rule) for name, rule in rules.items()],
    }
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"regress-gate/{found.category}/"},
        "invocations": [_invocation(found, len(kept))],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, places) for finding in kept],
    }
    # Every text in it is clean: `json_text` would look for more for seconds.
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False) + "\n"


def _invocation(found: Findings, kept: int) -> dict[str, Any]:
    notifications = [_notification("note", f"{found.headline}. {found.advice}")]
    if left_out := len(found.findings) - kept:
        text = f"{left_out} of {len(found.findings)} findings are left out, the mildest: GitHub keeps {MOST_RESULTS}"
        notifications.append(_notification("warning", text))
    invocation: dict[str, Any] = {"executionSuccessful": True, "toolExecutionNotifications": notifications}
    if found.created is not None:
        invocation["endTimeUtc"] = found.created.strftime("%Y-%m-%dT%H:%M:%SZ")
    return invocation


def _notification(level: str, text: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": _message(text)}}


def _rule(name: str, rule: Rule) -> dict[str, Any]:
    text = rule.text or rule.title
    described: dict[str, Any] = {
        "id": name,
        "shortDescription": {"text": _message(rule.title, _MOST_TITLE)},
        "fullDescription": {"text": _message(text, _MOST_TITLE)},
        "help": {"text": _message(text)},
        "defaultConfiguration": {"level": rule.level.value},
        "properties": {"tags": list(dict.fromkeys(map(_line, rule.tags)))[:MOST_TAGS]},
    }
    if rule.url is not None and _WEB_ADDRESS.fullmatch(rule.url):
        described["helpUri"] = rule.url
    return described


def _result(finding: Finding, places: dict[str, int]) -> dict[str, Any]:
    name = _rule_id(finding.rule)
    mark = fingerprint(finding.fingerprint)
    result: dict[str, Any] = {
        "ruleId": name,
        "ruleIndex": places[name],
        "level": finding.level.value,
        "message": {"text": _message("\n".join((finding.text, *finding.details)))},
        "locations": [_location(finding)],
        # GitHub matches alerts by the second alone; its upload action would make that one of the line's text.
        "partialFingerprints": {"regressGate/v1": mark, "primaryLocationLineHash": f"{mark}:1"},
    }
    if finding.suppression is not None:
        waived = {"kind": "external", "status": "accepted", "justification": _message(finding.suppression.text)}
        result["suppressions"] = [waived]
    return result


def fingerprint(parts: Sequence[str]) -> str:
    """A short name for these parts; different parts have different names."""
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()[:32]


def _location(finding: Finding) -> dict[str, Any]:
    place = finding.location.in_repository() if finding.location else Location(STANDARD_PLACE)
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file)}
    if place.line is not None:
        physical["region"] = {"startLine": place.line}
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.subject:
        location["logicalLocations"] = [{"fullyQualifiedName": _line(finding.subject)}]
    return location


def _artifact(file: str) -> dict[str, Any]:
    """The address of a file: relative to the repository, or absolute where it lies outside."""
    path = quote(file.encode("utf-8", "surrogateescape"), safe="/")
    return {"uri": f"file://{path}"} if path.startswith("/") else {"uri": path, "uriBaseId": "%SRCROOT%"}


def _rule_id(rule: Rule) -> str:
    return clip(_line(rule.id) or "unnamed", _MOST_ID)


def _line(text: str) -> str:
    return one_line(text)


def _message(text: str, longest: int = _MOST_TEXT) -> str:
    """Plain text: what SARIF would take for a link (`[text](address)`) is parted."""
    lines = (one_line(line).replace("](", "] (") for line in text.split("\n"))
    return clip("\n".join(line for line in lines if line), longest) or "-"
