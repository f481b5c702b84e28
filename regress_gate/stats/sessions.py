"""How far two measuring sessions of one version lie apart, beyond the spread within each.

Measured on another day, everything may be one per cent slower, and repeating a run on that day never shows it. Earlier
sessions do. Model: session offsets are normal, their variance `ratio` times that of a run; with s sessions, k runs
each, the mean squares between and within sessions then have a ratio that is 1 + k·ratio times an F variable (the
one-way random-effects analysis of variance). The prior says that with a probability of about two thirds there is no
offset, else that every ratio up to 10 is as likely (log-uniform) and larger ones are less so. What is returned is the
whole posterior: a p-value is the mean of those at each ratio, so that not knowing widens it.

Not for sides measured side by side in blocks: nothing of a session is left in their difference.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_RATIOS = np.geomspace(0.1, 1000.0, 33)
_WEIGHTS = 0.3 / 17 * np.minimum(1.0, 10.0 / _RATIOS)
"""Prior probability of each: 0.3 for all ratios up to 10, of which there are 17, and falling beyond. Where the grid
ends too soon, the days of a quiet machine are taken for versions; where it is flat, those of a loud one are."""
_NO_OFFSET = 1.0 - float(_WEIGHTS.sum())


@dataclass(frozen=True, slots=True, eq=False)
class SessionSpread:
    """Posterior of the variance between sessions as a multiple of the variance between runs."""

    ratios: Floats
    """Shape (g,)."""
    probabilities: Floats
    """Shape (g,), adding up to 1."""


NO_SESSIONS = SessionSpread(np.zeros(1), np.ones(1))
"""Of sides that were measured together, or of which nothing is known."""


def session_spread(
    between: float, within: float, *, between_freedom: float, within_freedom: float, runs: float
) -> SessionSpread:
    """From the mean squares between and within sessions of `runs` runs each."""
    grid = np.concatenate([[0.0], _RATIOS])
    prior = np.concatenate([[_NO_OFFSET], _WEIGHTS])
    lift = 1 + runs * grid
    logs = np.log(prior) + _log_density(between / within / lift, between_freedom, within_freedom) - np.log(lift)
    weights = np.exp(logs - logs.max())
    return SessionSpread(grid, weights / weights.sum())


def _log_density(ratio: Floats, above: float, below: float) -> Floats:
    """Of F with these degrees of freedom, but for a constant."""
    return np.asarray((above / 2 - 1) * np.log(ratio) - (above + below) / 2 * np.log1p(above * ratio / below))
