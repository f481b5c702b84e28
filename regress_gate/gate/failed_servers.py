"""Servers that failed: what they mean for the decision.

A candidate that does not serve where the baseline does is worse, whatever its speed while it runs. There is no size to
cap, so no waiver covers it.
"""

from collections.abc import Sequence

from regress_gate.gate.replicates import SERVER_GROUP
from regress_gate.gate.sides import ComparisonSide
from regress_gate.model.result import FailedRun, Reason, ReasonCode
from regress_gate.model.run import Run

_MAX_LOG_LINES = 3
"""Log lines that a reason quotes; the result has all that were kept."""


def failed_runs(baseline: ComparisonSide, candidate: ComparisonSide) -> list[FailedRun]:
    return [
        FailedRun(
            side=name,
            run=run.label if run.id is None else f"run:{run.id} ({run.label})",
            kind=run.failure.kind,
            text=run.failure.text,
            lines=list(run.failure.lines),
        )
        for side, name in ((baseline, "baseline"), (candidate, "candidate"))
        for run in side.failed
        if run.failure is not None
    ]


def weigh_server_failures(
    baseline: ComparisonSide, candidate: ComparisonSide, *, comparable: bool
) -> tuple[list[Reason], list[str]]:
    """The reasons and the remarks that failed servers give, for each server of the suite.

    A failure of the candidate comes from the version only if every start of the baseline served. If the baseline failed
    too, or ran on another machine, that may be the cause as well; then a candidate that failed more often is not shown
    to be no worse.
    """
    reasons, remarks = [], list[str]()
    for group in sorted({_group(run) for run in (*baseline.failed, *candidate.failed)}):
        ours, theirs = _starts(baseline, group), _starts(candidate, group)
        failed, theirs_failed = _failed(ours), _failed(theirs)
        which = "" if group == SERVER_GROUP else f" ({group})"
        theirs_text = f"{len(theirs_failed)} of {len(theirs)} server starts of {candidate.version}{which} failed"
        ours_text = f"{len(failed)} of {len(ours)} server starts of {baseline.version}{which} failed"
        counted = any(_group(run) == group for run in baseline.counted)
        if not theirs_failed:
            remarks.append(f"{ours_text} (baseline): {_last_failure_text(failed)}")
        elif failed:
            remarks += [
                f"{ours_text} (baseline): {_last_failure_text(failed)}",
                f"{theirs_text} (candidate): {_last_failure_text(theirs_failed)}",
            ]
            if len(theirs_failed) * len(ours) > len(failed) * len(theirs):
                text = f"{theirs_text}, and {ours_text}: a failure on both sides may not come from the version"
                reasons.append(Reason(code=ReasonCode.INCOMPARABLE, text=text))
        elif not counted or not comparable:
            remarks.append(
                f"{theirs_text} (candidate), with no baseline to compare that with: {_last_failure_text(theirs_failed)}"
            )
        else:
            served = "the only one" if len(ours) == 1 else f"all {len(ours)}"
            text = f"{theirs_text}, where {served} of {baseline.version} served: {_last_failure_text(theirs_failed)}"
            reasons.append(Reason(code=ReasonCode.SERVER_FAILED, text=text))
    return reasons, remarks


def _group(run: Run) -> str:
    return SERVER_GROUP if run.place is None else run.place.group


def _starts(side: ComparisonSide, group: str) -> list[Run]:
    return [run for run in side.runs if _group(run) == group]


def _failed(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if run.failure is not None]


def _last_failure_text(failed: Sequence[Run]) -> str:
    """The last failure, with the server's own log lines."""
    failure = failed[-1].failure
    if failure is None:
        return ""
    lines = " | ".join(failure.lines[:_MAX_LOG_LINES])
    return failure.text + (f": {lines}" if lines else "")
