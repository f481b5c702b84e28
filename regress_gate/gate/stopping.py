"""Whether a decision that is made after some of the blocks of a plan stands, so that no more have to be measured.

Reads the result that would be printed now, and judges nothing again: that looking often makes no false alarm likelier
is the matter of the statistics behind that result, which know of the blocks that were allowed for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regress_gate.gate.futility import why_futile
from regress_gate.model.result import ReasonCode, Result, SeriesResult, Verdict

_UNSETTLED = (ReasonCode.INCOMPARABLE, ReasonCode.MISSING_SERIES, ReasonCode.NO_GATED_SERIES)
"""What another block may mend, and what neither passes nor fails by a series."""

_NAMED = 3
"""Regressions that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Look:
    stops: bool
    text: str
    """What is known now: a clause."""


def look(result: Result, *, made: int, most: int) -> Look:
    """What the decision after `made` of at `most` blocks means for the others.

    A series that is a regression stands, and so does a pass of all series. Reasons that no measurement could change
    (known issues, removed arguments, failed starts) end nothing: who measures wants to know about the speed, too.
    """
    codes = {reason.code for reason in result.reasons}
    if ReasonCode.REGRESSION in codes:
        return Look(True, _regressions(result))
    gated = [series for series in result.series if series.gated and series.baseline.runs and series.candidate.runs]
    if ReasonCode.UNDECIDED not in codes:
        unsettled = next((reason.text for reason in result.reasons if reason.code in _UNSETTLED), None)
        return Look(False, unsettled) if unsettled else Look(True, _all_shown(result, gated))
    waived = {reason.series for reason in result.reasons if reason.code is ReasonCode.WAIVED}
    undecided = [series for series in gated if series.verdict is Verdict.INCONCLUSIVE and series.name not in waived]
    futile = why_futile(undecided, made=made, most=most) if made < most else None
    if futile is not None:
        return Look(True, futile)
    return Look(False, f"{len(undecided)} of {len(gated)} gated series undecided")


def _regressions(result: Result) -> str:
    found = [reason for reason in result.reasons if reason.code is ReasonCode.REGRESSION]
    names = [reason.series for reason in found if reason.series is not None]
    if not names:  # a scenario in which nothing was served has no series to name
        return found[0].text
    listed = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"{listed} {'is' if len(names) == 1 else 'are'} worse"


def _all_shown(result: Result, gated: Sequence[SeriesResult]) -> str:
    waived = sum(reason.code is ReasonCode.WAIVED for reason in result.reasons)
    series = "the only gated series is" if len(gated) == 1 else f"all {len(gated)} gated series are"
    return f"{series} within {'its margin' if len(gated) == 1 else 'their margins'}" + (
        f" or waived ({waived})" if waived else ""
    )
