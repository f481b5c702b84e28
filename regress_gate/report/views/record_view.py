"""Records of known issues: the list of all, and one as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regress_gate.known.matching.versions import range_text
from regress_gate.known.records.releases import BuildProof, spans_of
from regress_gate.known.threads import published_kind, shown_address
from regress_gate.model.issue import VLLM_REPO, Change, Fix, KnownIssue
from regress_gate.report.document import Code, Detail, Document, Line, Link, Pair, Pairs, View
from regress_gate.report.views import wording
from regress_gate.report.views.list_view import ListView, value_text
from regress_gate.text import plural


def issue_records(records: Sequence[KnownIssue]) -> ListView:
    return ListView(
        titles=("id", "severity", "kind", "affected", "tracker", "summary"),
        rows=[
            (one.id, one.severity.value, one.kind.value, range_text(one), _tracker(one), one.summary) for one in records
        ],
        name="Known issues",
        values={"schema_version": "1", "issues": [one.model_dump(mode="json", exclude_none=True) for one in records]},
    )


def proved_records(
    proofs: Sequence[BuildProof], releases: Sequence[str], problems: Mapping[str, str], notes: Sequence[str] = ()
) -> ListView:
    """For each record the releases that have the fault by their code, beside what its events say."""
    wrong = sum(bool(proof.disagreements) for proof in proofs)
    counts = f"{plural(len(proofs), 'record')} in {plural(len(releases), 'release')}"
    return ListView(
        titles=("id", "in the code of", "by its events", "they disagree on", "not known"),
        rows=[
            (
                proof.issue.id,
                _spans(proof.spans(True)) or "no release",
                range_text(proof.issue),
                _spans(spans_of(proof.disagreements, releases)),
                _spans(proof.spans(None)),
            )
            for proof in proofs
        ],
        name="Known issues in published builds",
        values={
            "schema_version": "1",
            "releases": list(releases),
            "not_read": dict(problems),
            "records": {
                proof.issue.id: {
                    "has_fault": proof.spans(True),
                    "unknown": proof.spans(None),
                    "disagreements": proof.disagreements,
                }
                for proof in proofs
            },
        },
        empty="no record has `code`",
        notes=[f"{counts}: the events of {wrong or 'none'} disagree with the code", *notes],
    )


def _spans(spans: Sequence[tuple[str, str]]) -> str:
    return ", ".join(first if first == last else f"{first} to {last}" for first, last in spans)


@dataclass(frozen=True, slots=True)
class IssueRecordView(View):
    record: KnownIssue

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        record = self.record
        return Document(f"{record.id}: {record.summary}", (Pairs(tuple(_pairs(record))),), name="Known issue")

    def data(self) -> dict[str, Any]:
        return self.record.model_dump(mode="json", exclude_none=True)


def _pairs(record: KnownIssue) -> list[Pair]:
    no_regression = "" if record.version_regression else " (no regression between versions)"
    pairs = [
        Pair("kind", f"{record.kind}, severity {record.severity}, confidence {record.confidence}"),
        Pair("affected", f"{range_text(record)}{no_regression}"),
        _tracker_pair(record),
    ]
    scope = record.scope.model_dump(exclude_none=True)
    pairs += _several("scope", [f"{key}: {value_text(value)}" for key, value in scope.items()] or ["every deployment"])
    signature = []
    for part in record.signature:
        size = "" if part.change is None else f" by {_size(*part.change)}"
        region = "" if part.workload is None else f" at {value_text(part.workload.model_dump(exclude_none=True))}"
        signature.append(f"{part.metric} {part.direction}{size}{region}")
    pairs += _several("signature", signature)
    pairs += _several("brought by", [_change(change) for change in record.changes.introduced_by])
    pairs += _several("fixed by", [_change(change) for change in record.changes.fixed_by])
    pairs += _several("in the code if", [condition.text for condition in record.code])
    for fix in record.workarounds:
        settings: list[Line] = [Code(flag) for flag in wording.flags(fix.engine_args or {}, fix.env or {})]
        settings += [f"costs: {fix.cost}"] if fix.cost else []
        pairs.append(Pair("workaround", fix.text, tuple(settings)))
    if record.details:
        pairs.append(Pair("details", record.details))
    pairs.append(Pair("evidence", record.evidence))
    pairs += [Pair(reference.type.lower(), Link(shown_address(reference.url))) for reference in record.references]
    return [*pairs, Pair("reviewed", str(record.reviewed))]


def _several(label: str, lines: Sequence[Line]) -> list[Pair]:
    return [Pair(label, lines[0], tuple(lines[1:]))] if lines else []


def _tracker_pair(record: KnownIssue) -> Pair:
    address, day = Link(shown_address(record.tracker.url)), record.tracker.checked
    if kind := published_kind(record.tracker.url):
        return Pair(kind, (f"no thread; read {day}: ", address))
    return Pair("tracker", (f"{_tracker(record)}, seen {day}: ", address))


def _tracker(record: KnownIssue) -> str:
    if published_kind(record.tracker.url):
        return "no thread"
    reason = record.tracker.state_reason
    return record.tracker.state + (f" ({reason})" if reason else "")


def _change(change: Change) -> str:
    """`#44220, commit 1234567, merged 2026-06-02; reverted by #46070`."""
    parts = [
        f"#{change.pull}" if change.pull else None,
        f"commit {change.commit}" if change.commit else None,
        f"merged {change.merged}" if change.merged else None,
        None if change.repo == VLLM_REPO else f"of {change.repo}",
    ]
    text = ", ".join(part for part in parts if part)
    back = change.reverted_by if isinstance(change, Fix) else None
    return f"{text}; reverted by {_change(back)}" if back else text


def _size(low: float, high: float) -> str:
    """`50 %`, `5 to 21 %`: the direction says whether it is a loss or a gain."""
    ends = sorted({f"{abs(end) * 100:.3g}" for end in (low, high)}, key=float)
    return f"{' to '.join(ends)} %"
