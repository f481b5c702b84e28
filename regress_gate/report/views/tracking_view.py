"""The reports of `issues sync`, `issues verify` and `issues discover`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regress_gate.known.threads import SIGNS
from regress_gate.report.document import Block, Column, Detail, Document, Link, Pair, Pairs, Paragraph, Row, Table, View
from regress_gate.report.views.list_view import ListView
from regress_gate.text import plural

if TYPE_CHECKING:
    from datetime import date

    from regress_gate.github import TransferCounts
    from regress_gate.known.tracker.snapshot import Snapshot, Thread
    from regress_gate.known.tracker.sync import Candidate, SyncResult, ThreadChange
    from regress_gate.known.tracker.verification import VerificationResult
    from regress_gate.model.version import Version


def seen_threads(snapshot: Snapshot) -> ListView:
    """What the last syncs saw."""
    threads = sorted(snapshot.threads.items())
    return ListView(
        titles=("thread", "state", "seen"),
        rows=[(key, _state(thread), thread.seen.date().isoformat()) for key, thread in threads],
        name="Threads of known issues",
        values={
            "schema_version": "1",
            "threads": [
                {"thread": key, "state": _state(thread), "seen": thread.seen.isoformat()} for key, thread in threads
            ],
        },
        empty="no thread was seen yet: run `regress-gate issues sync` without --offline",
    )


def _state(thread: Thread) -> str:
    return thread.state + (f" ({thread.reason})" if thread.reason else "")


def _change_text(change: ThreadChange) -> str:
    thread = change.thread
    if change.reverts:
        return f"{_state(thread)}, a fix is reverted by {', '.join(change.reverts)}"
    fixes = ", ".join(f"{pull.key} (merged {pull.merged.date().isoformat()})" for pull in thread.fixes)
    return _state(thread) + (f", fixed by {fixes}" if fixes else "")


def _lines(rows: Sequence[Row]) -> Table:
    """One line each, so that `grep` works on them."""
    return Table.of((Column(), Column(), Column()), tuple(rows), is_wrapped=False)


@dataclass(frozen=True, slots=True)
class SyncView(View):
    """What has changed on the tracker since the sync before."""

    outcome: SyncResult
    counts: TransferCounts
    is_first: bool

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        outcome, counts = self.outcome, self.counts
        answers = f"{counts.bodies} with a body ({counts.body_bytes / 1000:.0f} kB), {counts.unchanged} unchanged"
        title = f"{outcome.looked} of {plural(outcome.wanted, 'thread')} seen; {counts.requests} answers: {answers}"
        return Document(
            title, tuple(self._first_states() if self.is_first else self._changes()), name="Changes on the tracker"
        )

    def _first_states(self) -> list[Block]:
        states = [seen.thread.state for seen in self.outcome.changes if seen.kind == "new"]
        text = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states)))
        return [Paragraph(f"first sync: {text}")] if text else []

    def _changes(self) -> list[Block]:
        outcome = self.outcome
        rows = [Row((seen.kind.value, seen.issue.id, _change_text(seen))) for seen in outcome.changes]
        rows += [Row(("not seen", issue.id, text)) for issue, text in outcome.problems]
        is_unchanged = not outcome.changes and outcome.complete
        return [
            *([_lines(rows)] if rows else []),
            *([Paragraph("nothing has changed")] if is_unchanged else []),
        ]

    def data(self) -> dict[str, Any]:
        outcome, counts = self.outcome, self.counts
        return {
            "schema_version": "1",
            "complete": outcome.complete,
            "stopped": outcome.stopped,
            "threads": {"seen": outcome.looked, "wanted": outcome.wanted},
            "transfer": {
                "requests": counts.requests,
                "bodies": counts.bodies,
                "unchanged": counts.unchanged,
                "body_bytes": counts.body_bytes,
            },
            "changes": [
                {"id": seen.issue.id, "change": seen.kind.value, "url": seen.thread.url, "text": _change_text(seen)}
                for seen in outcome.changes
            ],
            "problems": [{"id": issue.id, "text": text} for issue, text in outcome.problems],
        }


@dataclass(frozen=True, slots=True)
class VerificationView(View):
    """Whether a build has the fixes of the issues that apply to a deployment."""

    verification: VerificationResult
    candidate: Version
    stopped: str | None
    """Why not everything could be looked up; None: everything was."""

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        verification = self.verification
        rows: list[Row] = []
        for one in verification.issues:
            rows += [Row((one.status.value, one.issue.id, one.issue.summary)), Row(("", "", one.status_why))]
        blocks: list[Block] = [_lines(rows)] if rows else []
        if not rows:
            blocks.append(Paragraph(f"no known issue of {self.candidate} is known to apply to this deployment"))
        if verification.may_apply:
            text = f"{verification.may_apply} more may apply: give more facts about the deployment, or add --all"
            blocks.append(Paragraph(text))
        return Document("", tuple(blocks), name=f"Known issues in the build of {self.candidate}")

    def data(self) -> dict[str, Any]:
        return {
            "schema_version": "1",
            "candidate": {"version": str(self.candidate)},
            "stopped": self.stopped,
            "may_apply": self.verification.may_apply,
            "issues": [
                {
                    "id": one.issue.id,
                    "summary": one.issue.summary,
                    "kind": one.issue.kind.value,
                    "severity": one.issue.severity.value,
                    "url": one.issue.tracker.url,
                    "applies": one.applies.value,
                    "why": one.why,
                    "status": one.status.value,
                    "status_why": one.status_why,
                }
                for one in self.verification.issues
            ],
        }


@dataclass(frozen=True, slots=True)
class DiscoveryView(View):
    """Threads that no record covers, those most like a regression first."""

    candidates: Sequence[Candidate]
    """As many as are to be shown."""
    total: int
    """Candidates in all."""
    since: date
    searched: int | None
    """Threads in the answers of this search; None: GitHub was not asked."""
    kept: int
    """Threads with any sign since that day, also of earlier searches."""
    problem: str | None = None
    drafts: Sequence[str] = ()
    """Files that were written."""
    left: Sequence[str] = ()
    """Files of drafts that were there already."""

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        blocks: list[Block] = [Pairs((_candidate_pair(one),)) for one in self.candidates]
        if not self.candidates:
            blocks.append(Paragraph("none that looks like a regression between versions"))
        if self.total > len(self.candidates):
            blocks.append(Paragraph(f"{self.total - len(self.candidates)} more; --limit {self.total} shows all"))
        if self.drafts:
            blocks.append(Paragraph(f"drafts, each with TODOs that `issues lint` refuses: {', '.join(self.drafts)}"))
        if self.left:
            blocks.append(Paragraph(f"there already, and left as they are: {', '.join(self.left)}"))
        if self.problem is not None:
            blocks.append(Paragraph(f"not complete: {self.problem}"))
        read = "nothing asked (offline)" if self.searched is None else f"{plural(self.searched, 'thread')} read"
        title = f"{plural(self.total, 'candidate')} since {self.since.isoformat()} that no record covers; {read}"
        return Document(title, tuple(blocks), name="Candidates for records")

    def data(self) -> dict[str, Any]:
        return {
            "schema_version": "1",
            "since": self.since.isoformat(),
            "complete": self.problem is None and self.searched is not None,
            "problem": self.problem,
            "threads": {"searched": self.searched, "with_signs": self.kept},
            "total": self.total,
            "candidates": [
                {
                    "url": one.thread.url,
                    "title": one.thread.title,
                    "kind": "pull" if one.thread.is_pull else "issue",
                    "state": one.thread.state,
                    "created": one.thread.created.date().isoformat(),
                    "labels": one.thread.labels,
                    "versions": one.thread.versions,
                    "score": one.score,
                    "signs": [
                        {"sign": name, "points": SIGNS[name].points, "text": SIGNS[name].text} for name in one.signs
                    ],
                    "fixed_by": list(one.fixed_by),
                    "reverted_by": list(one.reverted_by),
                }
                for one in self.candidates
            ],
            "drafts": list(self.drafts),
        }


def _candidate_pair(candidate: Candidate) -> Pair:
    thread = candidate.thread
    facts = [f"{'pull request' if thread.is_pull else 'issue'}, {thread.state}, {thread.created.date().isoformat()}"]
    facts += [f"names {', '.join(thread.versions[:4])}"] if thread.versions else []
    facts += [f"fixed by {', '.join(candidate.fixed_by)}"] if candidate.fixed_by else []
    facts += [f"reverted by {', '.join(candidate.reverted_by)}"] if candidate.reverted_by else []
    why = ", ".join(f"{SIGNS[name].points:+g} {SIGNS[name].text}" for name in candidate.signs)
    return Pair(f"{candidate.score:g}", thread.title, (Link(thread.url), "; ".join(facts), why))
