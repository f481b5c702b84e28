"""From the margin of the evidence to the probability that the series changed here.

The margin is how far the log likelihood ratio of a change lies beyond what is asked (see `judge`). That the change is
real *and* within five points of the index was found to follow a logistic curve in it: fitted to 2,421 reported steps on
2,920 simulated series (levels, steps, several steps and changes of spread under log-normal, heavy-tailed, spiky,
autoregressive and drifting noise of 0.5 to 8 %), a quarter of which did not change. Limits: it holds for such a
mixture; where hardly any series changes, or noise is of another kind, it promises too much. Ramps, changes of spread
and the last two to four points take the curve over from steps.
"""

import math

from regress_gate.errors import InputError

_AT_ZERO = 0.754
_SLOPE = 0.308
_HIGHEST = 30.0
DEFAULT = 0.68
"""The curve at margin 0: what is asked by default. More false alarms below, more missed changes above."""


def of_margin(margin: float) -> float:
    return 1.0 / (1.0 + math.exp(-(_AT_ZERO + _SLOPE * min(_HIGHEST, margin))))


def extra_evidence(probability: float) -> float:
    """What to add to the default demands so that nothing below `probability` is reported."""
    if not 0.0 < probability < 1.0:
        raise InputError(f"the least probability to report is {probability}", todo="choose one between 0 and 1")
    return (math.log(probability / (1.0 - probability)) - math.log(DEFAULT / (1.0 - DEFAULT))) / _SLOPE
