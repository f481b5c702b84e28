"""Servers that failed: what they mean for the decision.

A candidate that does not serve where the baseline does is worse, whatever its speed is while it lives.
"""

from collections.abc import Sequence

from regress_gate.gate.sides import Side
from regress_gate.model.result import FailedRun, Reason, ReasonCode
from regress_gate.model.run import Run

_LINES = 3
"""Of a server's own words in a reason; all that are kept are in the result."""


def failed_runs(baseline: Side, candidate: Side) -> list[FailedRun]:
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


def weigh_failures(baseline: Side, candidate: Side) -> tuple[list[Reason], list[str]]:
    """The reason that a failing candidate gives, and what else has to be said of failures.

    Only where every start of the baseline served is a failure of the candidate the version's. Where the baseline
    failed too, machine or configuration may be at fault, and failures decide nothing.
    """
    warnings = []
    if baseline.failed:
        warnings.append(f"{_starts(baseline)} of {baseline.version} (baseline) failed: {_what(baseline.failed)}")
        if candidate.failed:
            warnings.append(
                f"{_starts(candidate)} of {candidate.version} (candidate) failed: {_what(candidate.failed)}"
            )
        return [], warnings
    if not candidate.failed or not baseline.counted:
        return [], [f"{_starts(candidate)} of {candidate.version} (candidate) failed"] if candidate.failed else []
    served = len(baseline.runs)
    text = (
        f"{_starts(candidate)} of {candidate.version} failed, where "
        f"{'the only one' if served == 1 else f'all {served}'} of {baseline.version} served: {_what(candidate.failed)}"
    )
    return [Reason(code=ReasonCode.SERVER_FAILED, text=text)], warnings


def _starts(side: Side) -> str:
    return f"{len(side.failed)} of {len(side.runs)} server starts"


def _what(failed: Sequence[Run]) -> str:
    failure = failed[-1].failure
    if failure is None:
        return ""
    lines = " | ".join(failure.lines[:_LINES])
    return failure.text + (f": {lines}" if lines else "")
