"""What `issues sync` and `issues verify` print: lines for people, JSON for programs."""

from typing import TYPE_CHECKING, Any

from regress_gate.report.render.plain_text import json_text, plain

if TYPE_CHECKING:
    from regress_gate.github import GitHub
    from regress_gate.known.tracker.snapshot import Snapshot, Thread
    from regress_gate.known.tracker.sync import SyncResult, ThreadChange
    from regress_gate.known.tracker.verification import VerificationResult
    from regress_gate.model.version import Version


def cached_text(snapshot: "Snapshot", format_: str) -> str:
    """What the last syncs saw, as a list or as JSON."""
    threads = sorted(snapshot.threads.items())
    if format_ == "json":
        data = [{"thread": key, "state": _state(thread), "seen": thread.seen.isoformat()} for key, thread in threads]
        return json_text({"schema_version": "1", "threads": data})
    if not threads:
        return "no thread was seen yet: run `regress-gate issues sync` without --offline"
    lines = [f"{key}  {_state(thread)}, seen {thread.seen.date().isoformat()}" for key, thread in threads]
    return "\n".join(plain(line) for line in lines)


def _state(thread: "Thread") -> str:
    return thread.state + (f" ({thread.reason})" if thread.reason else "")


def _change_text(change: "ThreadChange") -> str:
    thread = change.thread
    if change.reverts:
        return f"{_state(thread)}, a fix is reverted by {', '.join(change.reverts)}"
    fixes = ", ".join(f"{pull.key} (merged {pull.merged.date().isoformat()})" for pull in thread.fixes)
    return _state(thread) + (f", fixed by {fixes}" if fixes else "")


def sync_json(outcome: "SyncResult", api: "GitHub") -> dict[str, Any]:
    return {
        "schema_version": "1",
        "complete": outcome.complete,
        "stopped": outcome.stopped,
        "threads": {"seen": outcome.looked, "wanted": outcome.wanted},
        "transfer": {
            "requests": api.counts.requests,
            "bodies": api.counts.bodies,
            "unchanged": api.counts.unchanged,
            "body_bytes": api.counts.body_bytes,
        },
        "changes": [
            {"id": seen.issue.id, "change": seen.kind.value, "url": seen.thread.url, "text": _change_text(seen)}
            for seen in outcome.changes
        ],
        "problems": [{"id": issue.id, "text": text} for issue, text in outcome.problems],
    }


def sync_lines(outcome: "SyncResult", api: "GitHub", *, first: bool) -> list[str]:
    counts = api.counts
    answers = f"{counts.bodies} with a body ({counts.body_bytes / 1000:.0f} kB), {counts.unchanged} unchanged"
    lines = [f"{outcome.looked} of {outcome.wanted} threads seen; {counts.requests} answers: {answers}"]
    if first:
        states = [seen.thread.state for seen in outcome.changes if seen.kind == "new"]
        told = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states)))
        return [*lines, f"first sync: {told}"] if told else lines
    lines += [plain(f"{seen.kind.value:<9} {seen.issue.id:<12} {_change_text(seen)}") for seen in outcome.changes]
    lines += [plain(f"not seen  {issue.id:<12} {text}") for issue, text in outcome.problems]
    if not outcome.changes and outcome.complete:
        lines.append("nothing has changed")
    return lines


def verify_json(found: "VerificationResult", candidate: "Version", api: "GitHub") -> dict[str, Any]:
    return {
        "schema_version": "1",
        "candidate": {"version": str(candidate)},
        "stopped": api.stopped,
        "may_apply": found.may_apply,
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
            for one in found.issues
        ],
    }


def verify_lines(found: "VerificationResult", candidate: "Version") -> list[str]:
    lines = []
    for one in found.issues:
        lines.append(plain(f"{one.status.value:<21} {one.issue.id:<12} {one.issue.summary}"))
        lines.append(plain(f"{'':<21} {one.status_why}"))
    if not found.issues:
        lines.append(f"no known issue of {plain(candidate)} is known to apply to this deployment")
    if found.may_apply:
        lines.append(f"{found.may_apply} more may apply: tell more of the deployment, or add --all")
    return lines
