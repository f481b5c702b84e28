"""Stop a plan early: after each block, decide whether more blocks are needed.

`decide_stop` reads the result that would be printed now and decides nothing again. Interim analyses make no false alarm
likelier, because the statistics behind that result know how many blocks were planned.

`why_futile` predicts whether the remaining blocks could still decide. Model: until the end of the plan an interval's
half-width falls with the square root of the runs and with the quantile of t, and the estimate stays where it is, or at
no loss where that is better. A series is out of reach when it could then neither be shown to be within its margin nor
to be a regression. One such series is enough for the gate not to pass, because a pass needs all of them; wherever a
loss is likely, the gate might still fail, and measuring goes on.

Assumptions, each chosen so that measuring goes on when in doubt: the true spread is so small that the observed one
would be seen in only one of fifty cases over all undecided series (by the chi-squared distribution of a variance, with
Bonferroni's correction); a fraction's interval shrinks as that of one without any failure does; the degrees of freedom
are few (a side's runs less one); and the corrections over many series and many analyses cost nothing. Stopping for
futility is not binding: it makes no false alarm likelier, because it can only take away chances to fail (C. Jennison
and B. W. Turnbull, Group Sequential Methods, 1999, chapter 10). Of simulated experiments of eight blocks in which
nothing changed, at most 2.5 % were stopped that would have passed, at any spread (tests/gate/test_early_stopping.py).
Limits: a spread that shrinks as the machine becomes quieter is not foreseen.

`expect_stop` predicts after which block a plan will probably stop, from the expected spread. A pass needs all series,
so the slowest series says when an unchanged version is shown to be one. A loss of twice the margin may be in any series
of a ratio metric, so it is assumed in the one where it is found last; of a fraction, twice the margin is a few requests
more, and found late. Each is the first analysis that shows it with a probability of POWER. Limits: that all series are
shown at once is less likely than that the slowest is; a series may be found at an earlier, lucky analysis; the gain
from covariate adjustment is not foreseen. So it is a guide for people who wait, not for what can be shown at all
(`planning`).
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from scipy.special import chdtri, stdtrit

from regress_gate.model.metric import Direction, Scale
from regress_gate.model.result import ReasonCode, Result, SeriesResult, Verdict
from regress_gate.stats.design import (
    FIRST_ANALYSIS,
    ExpectedSeries,
    InterimStage,
    detectable_change,
    nominal_level,
    shown_within,
)
from regress_gate.text import plural

PLAUSIBLE_P_VALUE = 0.2
"""p-value of "not worse" below which a loss of half the margin may become a regression with more blocks."""
SMALL_SPREAD_CHANCE = 0.02
"""Chance of an observed spread that exceeds the true one by the factor that is allowed for."""


def why_futile(undecided: Sequence[SeriesResult], *, made: int, most: int) -> str | None:
    """Why the blocks that are left would most probably not decide; None when they may.

    `undecided` are the gated series without a verdict after `made` of at `most` blocks, which is the larger number.
    """
    # Of many series, one looks noisy by chance: the correction keeps that from stopping what would pass.
    chance = SMALL_SPREAD_CHANCE / max(1, len(undecided))
    reaches = {series.name: _smallest_half_width(series, most - made, chance) for series in undecided}
    if any(_may_fail(series, reaches[series.name]) for series in undecided):
        return None
    lacking = [
        (reach / _margin_as_loss(series), series)
        for series in undecided
        if (reach := _half_width_too_large(series, reaches))
    ]
    if not lacking:
        return None
    _, worst = max(lacking, key=lambda pair: pair[0])
    others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    their = "their margins" if others else "its margin"
    return f"{worst.name}{others} cannot be shown within {their} with {plural(most, 'block')}{_spread_text(worst)}"


def _smallest_half_width(series: SeriesResult, more: int, chance: float) -> float | None:
    """The least half-width, as a loss, of the interval after so many more runs a side; None if not known.

    That of a fraction of which no request is counted shrinks with the number of runs, not with its root.
    """
    runs = min(series.baseline.runs, series.candidate.runs)
    if series.change is None or series.interval is None or series.interval[1] is None or runs < 2:
        return None
    now = _as_loss(series.interval[1], series) - _as_loss(series.change, series)
    tail, freedom = (1 + series.confidence) / 2, 2 * (runs - 1)
    quantiles = float(stdtrit(runs + more - 1, tail) / stdtrit(runs - 1, tail))
    luck = math.sqrt(freedom / float(chdtri(freedom, chance)))
    shrinks = runs / (runs + more)
    return now * (shrinks if series.scale is Scale.DIFFERENCE else math.sqrt(shrinks)) * quantiles * luck


def _half_width_too_large(series: SeriesResult, reaches: dict[str, float | None]) -> float | None:
    """The half-width, if even no loss would not be shown within the margin with it; else None."""
    reach = reaches[series.name]
    if reach is None or series.change is None:
        return None
    return reach if min(0.0, _as_loss(series.change, series)) + reach >= _margin_as_loss(series) else None


def _may_fail(series: SeriesResult, reach: float | None) -> bool:
    if series.change is None or series.change < series.margin / 2:
        return False
    likely = series.p_worse is not None and series.p_worse < PLAUSIBLE_P_VALUE
    return likely or (reach is not None and _as_loss(series.change, series) > reach)


def _margin_as_loss(series: SeriesResult) -> float:
    return _as_loss(series.margin, series)


def _as_loss(change: float, series: SeriesResult) -> float:
    """From the reported scale to that on which intervals are symmetric: logarithms of a ratio metric."""
    if series.scale is Scale.DIFFERENCE:
        return change
    inside = 1 + change if series.direction is Direction.LOWER else 1 - change
    if inside <= 0:  # everything is lost or gained, within the precision of a float
        return math.copysign(math.inf, change)
    return math.log(inside) if series.direction is Direction.LOWER else -math.log(inside)


def _spread_text(series: SeriesResult) -> str:
    """The spread between runs of one version. Of fractions, which may all be zero, there is no relative spread."""
    cvs = [side.cv for side in (series.baseline, series.candidate) if side.cv is not None]
    if series.scale is Scale.DIFFERENCE or not cvs:
        return ""
    return f" (spread {math.sqrt(sum(cv * cv for cv in cvs) / len(cvs)):.0%})"


_OPEN_REASONS = (
    ReasonCode.INCOMPARABLE, ReasonCode.MISSING_SERIES, ReasonCode.NO_GATED_SERIES, ReasonCode.SLO_UNCLEAR,
)  # fmt: skip
"""Reasons that another block may remove, and that are neither a pass nor a failure of a series."""

_MAX_NAMED_SERIES = 3
"""Series that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class StopDecision:
    stops: bool
    text: str
    """Why, in one clause."""


def decide_stop(result: Result, *, made: int, most: int) -> StopDecision:
    """Whether the plan stops after `made` of at `most` blocks.

    It stops for a regression and for a pass of all series. Reasons that no measurement can change (known issues,
    removed arguments, failed starts) do not stop it: the user also wants to know the speed.
    """
    codes = {reason.code for reason in result.reasons}
    if ReasonCode.REGRESSION in codes:
        return StopDecision(True, _regressions_text(result))
    broken = next((reason.text for reason in result.reasons if reason.code is ReasonCode.SLO_BROKEN), None)
    if broken is not None:
        return StopDecision(True, broken)
    gated = [series for series in result.series if series.gated and series.baseline.runs and series.candidate.runs]
    if ReasonCode.UNDECIDED not in codes:
        unsettled = next((reason.text for reason in result.reasons if reason.code in _OPEN_REASONS), None)
        return StopDecision(False, unsettled) if unsettled else StopDecision(True, _all_shown_text(result, gated))
    waived = {reason.series for reason in result.reasons if reason.code is ReasonCode.WAIVED}
    undecided = [series for series in gated if series.verdict is Verdict.UNDECIDED and series.name not in waived]
    futile = why_futile(undecided, made=made, most=most) if made < most else None
    if futile is not None:
        return StopDecision(True, futile)
    return StopDecision(False, f"{len(undecided)} of {len(gated)} gated series undecided")


def _regressions_text(result: Result) -> str:
    regressions = [reason for reason in result.reasons if reason.code is ReasonCode.REGRESSION]
    names = [reason.series for reason in regressions if reason.series is not None]
    if not names:  # a scenario in which nothing was served has no series
        return regressions[0].text
    listed = ", ".join(names[:_MAX_NAMED_SERIES]) + (
        f" and {len(names) - _MAX_NAMED_SERIES} more" if len(names) > _MAX_NAMED_SERIES else ""
    )
    return f"{listed} {'is' if len(names) == 1 else 'are'} worse"


def _all_shown_text(result: Result, gated: Sequence[SeriesResult]) -> str:
    waived = sum(reason.code is ReasonCode.WAIVED for reason in result.reasons)
    series = "the only gated series is" if len(gated) == 1 else f"all {len(gated)} gated series are"
    return f"{series} within {'its margin' if len(gated) == 1 else 'their margins'}" + (
        f" or waived ({waived})" if waived else ""
    )


@dataclass(frozen=True, slots=True)
class ExpectedStop:
    """The block after which a plan will probably stop, stored ones included. None: probably not even after the last."""

    unchanged: int | None
    """Where nothing changed."""
    lost: int | None
    """Where one series lost twice its margin."""


def expect_stop(
    series: Collection[ExpectedSeries], *, have: int, most: int, error: float, confidence: float
) -> ExpectedStop:
    """`error` is one-sided and of one series, `confidence` of a two-sided interval, both over all analyses together."""

    def shown(blocks: int) -> bool:
        within = 1 - 2 * nominal_level((1 - confidence) / 2, InterimStage(blocks, most))
        return all(shown_within(each, blocks, confidence=within) <= each.margin for each in series)

    def found(blocks: int) -> bool:
        looks = InterimStage(blocks, most)
        now, within = nominal_level(error, looks), 1 - 2 * nominal_level((1 - confidence) / 2, looks)
        ratios = [each for each in series if each.scale is Scale.RATIO]
        return all(
            detectable_change(each, blocks, error=now, confidence=within) <= 2 * each.margin
            for each in ratios or series
        )

    looks = range(max(have + 1, FIRST_ANALYSIS), most + 1)
    return ExpectedStop(_first_sufficient(looks, shown), _first_sufficient(looks, found))


def _first_sufficient(looks: range, is_enough: Callable[[int], bool]) -> int | None:
    """The first analysis that is enough. More blocks stay enough, so it can be bisected."""
    at = bisect_left(looks, True, key=is_enough)
    return looks[at] if at < len(looks) else None
