"""Better variances: borrowed from similar series, and between measuring sessions.

`moderate_variances` borrows between similar series. A variance from three runs a side is off by a factor of two as
often as not, and ten similar series of the same runs know more. Model: the variances of similar series are drawn from a
scaled inverse chi-squared distribution, fitted by the moments of their logarithms. The posterior mean is used, with the
degrees of freedom of both (G. K. Smyth 2004, doi 10.2202/1544-6115.1027). His series are independent; ours share the
luck of their runs, so all ten may be too small together. The degrees of freedom are therefore capped by what the mean
of correlated variances can have: for normal values, two variances correlate as the square of what their values do.

A series that is clearly noisier than the others keeps its own variance and degrees of freedom. Shrunk towards the
others, it would be called worse at 5 % in more than 10 % of cases. Between clearly and not at all it borrows in
proportion, because in most gates one of ten similar series looks noisy by chance. Not for series that differ: the fit
would find that they differ, and borrow nothing.

`session_spread` estimates how far two measuring sessions of one version lie apart, beyond the spread within each. On
another day everything may be one per cent slower, and repeated runs of that day never show it; earlier sessions do.
Model: session offsets are normal, with `ratio` times the variance of a run. With s sessions of k runs each, the mean
squares between and within sessions have a ratio that is 1 + k·ratio times an F variable (one-way random-effects
analysis of variance). The prior gives two thirds to "no offset"; ratios up to 10 share the rest evenly (log-uniform),
and larger ones are less likely. The result is the whole posterior: a p-value is the mean over the ratios, so
uncertainty widens it. Not for sides that were measured side by side in blocks: the session cancels in their difference.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, fdtrc, polygamma

Floats = npt.NDArray[np.float64]

_LEAST = 3
"""Similar series that are needed to fit a distribution."""
_MOST_PRIOR = 200.0
"""Degrees of freedom beyond which a variance counts as known."""
_NOISIER, _ALIKE = 0.02, 0.20
"""Chance of a series like the others to look so noisy: below the first it borrows nothing, above the second in full; in
proportion between. Then a series that scatters 1.25 to 3 times as much is called worse at 5 % in at most 8.4 % of
cases."""
_ROUNDING = 1e-9
"""As a share of the largest deviations: below it, values are taken as equal."""


def moderate_variances(variances: Floats, freedom: float, *, alike: float) -> tuple[Floats, Floats]:
    """Posterior variances of q similar series and the degrees of freedom that each then has, both of shape (q,).

    `variances` has shape (q,) and is positive, each with `freedom` degrees of freedom; `alike` is the mean squared
    correlation of the series' values over all q² pairs, from 1/q (independent) to 1 (the same series).
    """
    if len(variances) < _LEAST:
        return variances, np.full(len(variances), freedom)
    prior_freedom, prior = _fit_prior(variances, freedom)
    prior_freedom = min(prior_freedom, max(0.0, freedom / alike - freedom))
    if prior_freedom == 0:
        return variances, np.full(len(variances), freedom)
    chance = fdtrc(freedom, prior_freedom, variances / prior)
    borrowed = prior_freedom * np.clip((chance - _NOISIER) / (_ALIKE - _NOISIER), 0.0, 1.0)
    return (borrowed * prior + freedom * variances) / (borrowed + freedom), borrowed + freedom


def mean_square_correlation(deviations: Floats, freedom: float) -> float:
    """Over all pairs of columns of `deviations` (n, q), each pair of a column with itself counted as 1.

    A sample correlation of independent values has the mean square 1/freedom, which is taken off. Columns that never
    differ correlate with nothing and are left out.
    """
    sizes = np.sqrt((deviations**2).sum(axis=0))
    varying = deviations[:, sizes > _ROUNDING * sizes.max()]
    columns = varying.shape[1]
    if columns < 2:
        return 1.0
    squares = np.corrcoef(varying, rowvar=False) ** 2
    observed = float((squares.sum() - columns) / (columns * (columns - 1)))
    true = max(0.0, (observed - 1 / freedom) / (1 - 1 / freedom)) if freedom > 1 else 1.0
    return float((1 + (columns - 1) * true) / columns)


def _fit_prior(variances: Floats, freedom: float) -> tuple[float, float]:
    """Degrees of freedom and scale of the prior, by mean and variance of the logarithms (Smyth's section 6.2)."""
    logs = np.log(variances) - digamma(freedom / 2) + np.log(freedom / 2)
    excess = float(logs.var(ddof=1) - polygamma(1, freedom / 2))
    if excess <= 0:
        return _MOST_PRIOR, float(variances.mean())
    half = _inverse_trigamma(excess)
    prior = float(np.exp(logs.mean() + digamma(half) - np.log(half)))
    return min(2 * half, _MOST_PRIOR), prior


def _inverse_trigamma(value: float) -> float:
    """Newton's method on 1/trigamma, which is nearly straight: it converges from below for every positive value."""
    solution = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, solution))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, solution))
        solution += step
        if abs(step) < 1e-8 * solution:
            break
    return solution


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
