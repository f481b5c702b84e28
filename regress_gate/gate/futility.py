"""Whether going on measuring could still decide: a prediction, from what the blocks so far show.

Model: between now and the end of the plan an interval's half-width falls with the square root of the runs and with the
quantile of t, and the estimate stays where it is, or at no loss where that is better. A series is out of reach when it
could neither be shown to be within its margin then nor to be a regression. One such series is enough for the gate not
to pass, because a pass needs all of them; that it might still fail is held open wherever a loss is in sight.

Assumptions, each chosen so that measuring goes on when in doubt: the true spread is one that would look as large as
what was found in only one of fifty times (by the chi-squared distribution of a variance), the degrees of freedom are
few (a side's runs less one), and neither the correction over many series nor that over many looks costs anything.
Stopping for futility is not binding: it makes no false alarm likelier, because it can only take away chances to fail
(C. Jennison and B. W. Turnbull, Group Sequential Methods, 1999, chapter 10).

With these, of simulated experiments of eight blocks in which nothing changed, at most 2.5 % were stopped that would
have passed, at any spread (tests/gate/test_futility.py). Limits: a spread that shrinks as the machine quietens is not
foreseen. Not for deciding, which `decide` does.
"""

import math
from collections.abc import Sequence

from scipy.special import chdtri, stdtrit

from regress_gate.model.metric import Direction, Scale
from regress_gate.model.result import SeriesResult

PLAUSIBLE = 0.2
"""p-value of "not worse" below which a loss of half the margin may become a regression with more blocks."""
LUCK = 0.02
"""Chance of a spread being found that exceeds the true one by the factor which is allowed for."""


def why_futile(undecided: Sequence[SeriesResult], *, made: int, most: int) -> str | None:
    """Why the blocks that are left would most probably not decide; None when they may.

    `undecided` are the gated series without a verdict after `made` of at `most` blocks, more than which there are.
    """
    reaches = {series.name: _reach(series, most - made) for series in undecided}
    if any(_may_fail(series, reaches[series.name]) for series in undecided):
        return None
    lacking = [(reach / _margin(series), series) for series in undecided if (reach := _lacks(series, reaches))]
    if not lacking:
        return None
    _, worst = max(lacking, key=lambda pair: pair[0])
    others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    their = "their margins" if others else "its margin"
    return f"{worst.name}{others} cannot be shown within {their} with {most} blocks{_spread(worst)}"


def _reach(series: SeriesResult, more: int) -> float | None:
    """The least half-width, as a loss, that the interval may have after so many more runs a side; None: not known."""
    runs = min(series.baseline.runs, series.candidate.runs)
    if series.change is None or series.interval is None or series.interval[1] is None or runs < 2:
        return None
    now = _loss(series.interval[1], series) - _loss(series.change, series)
    tail, freedom = (1 + series.confidence) / 2, 2 * (runs - 1)
    quantiles = float(stdtrit(runs + more - 1, tail) / stdtrit(runs - 1, tail))
    luck = math.sqrt(freedom / float(chdtri(freedom, LUCK)))
    return now * math.sqrt(runs / (runs + more)) * quantiles * luck


def _lacks(series: SeriesResult, reaches: dict[str, float | None]) -> float | None:
    """The half-width with which even no loss would not be shown within the margin; None where it may be."""
    reach = reaches[series.name]
    if reach is None or series.change is None:
        return None
    return reach if min(0.0, _loss(series.change, series)) + reach >= _margin(series) else None


def _may_fail(series: SeriesResult, reach: float | None) -> bool:
    if series.change is None or series.change < series.margin / 2:
        return False
    likely = series.p_worse is not None and series.p_worse < PLAUSIBLE
    return likely or (reach is not None and _loss(series.change, series) > reach)


def _margin(series: SeriesResult) -> float:
    return _loss(series.margin, series)


def _loss(change: float, series: SeriesResult) -> float:
    """From the reported scale to that on which intervals are symmetric: logarithms of a ratio metric."""
    if series.scale is Scale.DIFFERENCE:
        return change
    inside = 1 + change if series.direction is Direction.LOWER else 1 - change
    if inside <= 0:  # all is lost or gained, as far as a float tells
        return math.copysign(math.inf, change)
    return math.log(inside) if series.direction is Direction.LOWER else -math.log(inside)


def _spread(series: SeriesResult) -> str:
    """Between runs of one version. Of fractions, which may all be zero, a relative one says nothing."""
    cvs = [side.cv for side in (series.baseline, series.candidate) if side.cv is not None]
    if series.scale is Scale.DIFFERENCE or not cvs:
        return ""
    return f" (spread {math.sqrt(sum(cv * cv for cv in cvs) / len(cvs)):.0%})"
