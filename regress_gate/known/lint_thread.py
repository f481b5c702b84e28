"""What a record says of its thread, its own age, its references and its measured effect."""

import re
from collections.abc import Iterator
from datetime import date, timedelta

from regress_gate.model.complaint import Found
from regress_gate.model.documents import Location
from regress_gate.model.issue import VLLM_REPO, IssueKind, KnownIssue, Reference

REVIEW_AFTER = timedelta(days=180)
PLACEHOLDER = "TODO"
"""What `issues new` writes where a curator has to."""


def tracker(issue: KnownIssue, today: date) -> Iterator[Found]:
    url, state, reason = issue.tracker.url, issue.tracker.state, issue.tracker.state_reason
    if number := re.fullmatch(r"VLLM-(\d+)", issue.id):
        threads = [f"{VLLM_REPO}/{kind}/{number[1]}" for kind in ("issues", "pull")]
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


def review(issue: KnownIssue, today: date) -> Iterator[Found]:
    if issue.reviewed > today:
        yield ("reviewed",), f"reviewed in the future ({issue.reviewed})", "error"
    elif today - issue.reviewed > REVIEW_AFTER:
        yield ("reviewed",), f"last reviewed {issue.reviewed}, over {REVIEW_AFTER.days} days ago", "warning"


def references(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001 (all checks are called alike)
    seen: set[tuple[str, str]] = set()
    for index, reference in enumerate(issue.references):
        link = (reference.type, reference.url.rstrip("/"))
        if link in seen:
            yield ("references", index, "url"), f"{link[1]} is given twice as {link[0]}", "error"
        seen.add(link)


def texts(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001
    """Places that a draft left open."""
    named: dict[Location, str | None] = {
        ("summary",): issue.summary,
        ("details",): issue.details,
        ("evidence",): issue.evidence,
        **{("scope", "accelerator", index): text for index, text in enumerate(issue.scope.accelerator or [])},
        **{("scope", "model", index): text for index, text in enumerate(issue.scope.model or [])},
        **{("workarounds", index, "text"): fix.text for index, fix in enumerate(issue.workarounds)},
    }
    for location, text in named.items():
        if text is not None and PLACEHOLDER in text:
            key = next(part for part in reversed(location) if isinstance(part, str))
            yield location, f"{key} still has a {PLACEHOLDER}", "error"


def signature(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001
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
