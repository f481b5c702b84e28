"""Estimate contrasts, which are weighted sums of the series' losses, from run-level values.

A contrast is a column of weights over the series. Applied to every run it gives one score a run, and everything
follows from the scores. The estimate is the difference of the sides' means. Its variance is that of the scores between
server starts: it is found from the runs compared, from earlier sessions, and from similar contrasts
(`moderate_variances`). Where the sides were not measured side by side, offsets between sessions are added
(`session_spread`). The run is the unit: this module knows nothing of requests.

Assumptions: scores are roughly normal on the analysis scale, and runs are independent. Each side may have its own
spread (B. L. Welch 1947, doi 10.1093/biomet/34.1-2.28). With sides of equal size, the degrees of freedom follow from
how the variance is shared between them, averaged over similar contrasts. With unequal sizes they are those of the
smaller side, because the fractional ones gave too many false alarms there (2 runs against 10).

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
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, fdtrc, polygamma, stdtr

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


_FEW = 3
"""Similar contrasts that are needed to estimate each side's share of the variance."""
_SUSPICION = 0.25
"""Chance that the present spread is called larger than the earlier one although it is not. Only the present one is then
used."""


@dataclass(frozen=True, eq=False)
class Measurements:
    """Run-level losses of m series: on the analysis scale, larger is worse."""

    baseline: Floats
    """Shape (runs, m)."""
    candidate: Floats
    """Shape (runs, m); with `paired`, row i was measured in the same block as the baseline's row i."""
    paired: bool = False
    apart: bool = False
    """Whether the sides were measured in different sessions."""
    earlier: tuple[Floats, ...] = ()
    """Earlier sessions, each (runs, m): runs of one version made together."""

    @cached_property
    def earlier_deviations(self) -> Floats:
        """Shape (n, m): the runs of all earlier sessions that have several, less the mean of their session."""
        several = [session - session.mean(axis=0) for session in self.earlier if len(session) > 1]
        return np.concatenate(several) if several else np.empty((0, self.baseline.shape[1]))

    @cached_property
    def earlier_freedom(self) -> int:
        """Degrees of freedom of these deviations."""
        return sum(len(session) - 1 for session in self.earlier if len(session) > 1)


@dataclass(frozen=True, slots=True, eq=False)
class ContrastEvidence:
    """Estimates of q similar contrasts, and how sure they are."""

    estimate: Floats
    """Shape (q,)."""
    run_variance: Floats
    """Shape (q,): of a score between runs."""
    freedom: Floats
    """Shape (q,): degrees of freedom behind each variance."""
    per_run: float
    """Variance of an estimate, without that of sessions, as a multiple of `run_variance`."""
    sessions: SessionSpread = NO_SESSIONS

    def p_above(self, bound: Floats | float) -> Floats:
        """Shape (q,): one-sided p-values of "the true value is at most `bound`"."""
        return self._tail(-(self.estimate - bound))

    def p_below(self, bound: Floats | float) -> Floats:
        """Shape (q,): one-sided p-values of "the true value is at least `bound`"."""
        return self._tail(self.estimate - bound)

    def limit(self, tail: float) -> Floats:
        """Shape (q,): how far above its estimate a true value may lie, with a probability of `tail` for more."""
        low, high = np.zeros(len(self.estimate)), np.full(len(self.estimate), 1.0)
        errors = self._errors().max(axis=1)
        while (self._tail(-high * errors) > tail).any():
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            beyond = self._tail(-middle * errors) > tail
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        return np.asarray(high * errors)

    def _errors(self) -> Floats:
        """Standard errors, shape (q, ratios)."""
        factors = self.per_run + 2 * self.sessions.ratios
        return np.sqrt(self.run_variance[:, None] * factors[None, :])

    def _tail(self, distance: Floats) -> Floats:
        """P(T < distance / error), averaged over what the sessions may be."""
        return np.asarray(
            stdtr(self.freedom[:, None], distance[:, None] / self._errors()) @ self.sessions.probabilities
        )


def weigh_contrasts(measurements: Measurements, weights: Floats, floor: Floats) -> ContrastEvidence:
    """Estimate the similar contrasts that are the columns of `weights` (m, q).

    `floor`: shape (m,), the least variance between runs that each series is assumed to have.
    """
    ours, theirs = measurements.baseline @ weights, measurements.candidate @ weights
    estimate = theirs.mean(axis=0) - ours.mean(axis=0)
    least = floor @ weights**2
    per_run = 1 / len(ours) + 1 / len(theirs)
    whole = _baseline_share(measurements.baseline, measurements.candidate)
    deviations, variances, freedom = _present_spread(ours, theirs, measurements.paired, per_run, whole)
    if freedom < 1:
        return ContrastEvidence(estimate, np.full(len(estimate), np.inf), np.ones(len(estimate)), per_run)
    variances = np.maximum(variances, least)
    rows, offsets = [deviations], NO_SESSIONS
    known = measurements.earlier_freedom
    if known:
        before = measurements.earlier_deviations @ weights
        rows.append(before)
        earlier = np.maximum((before**2).sum(axis=0) / known, least)
    alike = mean_square_correlation(np.vstack(rows), freedom + known)
    if known:
        quiet = not _is_noisier(variances / earlier, freedom / alike, known / alike)
        within = (freedom * variances + known * earlier) / (freedom + known)
        if measurements.apart:
            sessions = [session @ weights for session in measurements.earlier if len(session)]
            offsets = _session_offsets(sessions, within if quiet else earlier, freedom * quiet + known, least, alike)
        if quiet:
            variances, freedom = within, freedom + known
    return ContrastEvidence(estimate, *moderate_variances(variances, freedom, alike=alike), per_run, offsets)


def deviations_of(measurements: Measurements) -> tuple[Floats, float]:
    """All runs' deviations from what is estimated or from their session, shape (n, m), and their degrees of freedom."""
    whole = _baseline_share(measurements.baseline, measurements.candidate)
    per_run = 1 / len(measurements.baseline) + 1 / len(measurements.candidate)
    today, _, freedom = _present_spread(
        measurements.baseline, measurements.candidate, measurements.paired, per_run, whole
    )
    return np.vstack([today, measurements.earlier_deviations]), freedom + measurements.earlier_freedom


def _present_spread(
    ours: Floats, theirs: Floats, paired: bool, per_run: float, whole: float
) -> tuple[Floats, Floats, float]:
    """Deviations from what is estimated (n, q), variances between runs (q,), and their degrees of freedom.

    `whole` is the baseline's share of the variance over all series, used where there are too few contrasts to estimate
    it.
    """
    if paired:
        # Half of a difference's variance is that of a run: an effect of the block on both of its runs cancels.
        deviations = (theirs - ours) / np.sqrt(2)
        deviations = deviations - deviations.mean(axis=0)
        freedom = len(deviations) - 1
        return deviations, (deviations**2).sum(axis=0) / max(freedom, 1), freedom
    sides = [ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)]
    rows = np.vstack(sides)
    smaller = min(len(ours), len(theirs)) - 1
    if smaller < 1:
        return rows, np.full(ours.shape[1], np.inf), 0.0
    parts = [(side**2).sum(axis=0) / (len(side) - 1) / len(side) for side in sides]
    variances = (parts[0] + parts[1]) / per_run
    if len(ours) != len(theirs):
        return rows, variances, float(smaller)
    share = _baseline_share(ours, theirs) if ours.shape[1] >= _FEW else whole
    return rows, variances, smaller / (share**2 + (1 - share) ** 2)


def _baseline_share(ours: Floats, theirs: Floats) -> float:
    """Of the variance between runs, the baseline's, on average over columns that vary."""
    left, right = ours.var(axis=0), theirs.var(axis=0)
    varies = left + right > 0
    return float((left[varies] / (left + right)[varies]).mean()) if varies.any() else 0.5


def _is_noisier(ratios: Floats, freedom: float, earlier_freedom: float) -> bool:
    """Whether today's variances are larger than those of earlier sessions, by the mean ratio of like contrasts."""
    ratio = float(np.exp(np.log(ratios).mean()))
    return bool(fdtrc(freedom, earlier_freedom, ratio) < _SUSPICION)


def _session_offsets(
    sessions: list[Floats], within: Floats, freedom: float, least: Floats, alike: float
) -> SessionSpread:
    if len(sessions) < 3:
        return NO_SESSIONS
    runs = np.array([len(session) for session in sessions], dtype=np.float64)
    means = np.vstack([session.mean(axis=0) for session in sessions])
    overall = (runs @ means) / runs.sum()
    between = np.maximum((runs @ (means - overall) ** 2) / (len(sessions) - 1), least)
    # Of unequal sessions, the number of runs that makes the expectation right.
    size = (runs.sum() - (runs**2).sum() / runs.sum()) / (len(sessions) - 1)
    ratio = float(np.exp(np.log(between / within).mean()))
    return session_spread(
        ratio,
        1.0,
        between_freedom=(len(sessions) - 1) / mean_square_correlation(means, len(sessions) - 1),
        within_freedom=freedom / alike,
        runs=float(size),
    )
