"""Estimate contrasts, which are weighted sums of the series' losses, from run-level values.

A contrast is a column of weights over the series. Applied to every run it gives one score a run, and everything
follows from the scores. The estimate is the difference of the sides' means. Its variance is that of the scores between
server starts: it is found from the runs compared, from earlier sessions, and from similar contrasts
(`variances.moderate_variances`). Where the sides were not measured side by side, offsets between sessions are added
(`variances.session_spread`). The run is the unit: this module knows nothing of requests.

Assumptions: scores are roughly normal on the analysis scale, and runs are independent. Each side may have its own
spread (B. L. Welch 1947, doi 10.1093/biomet/34.1-2.28). With sides of equal size, the degrees of freedom follow from
how the variance is shared between them, averaged over similar contrasts. With unequal sizes they are those of the
smaller side, because the fractional ones gave too many false alarms there (2 runs against 10).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc, stdtr

from regress_gate.stats.variances import (
    NO_SESSIONS,
    SessionSpread,
    mean_square_correlation,
    moderate_variances,
    session_spread,
)

Floats = npt.NDArray[np.float64]

_FEW = 3
"""Similar contrasts that are needed to estimate each side's share of the variance."""
_SUSPICION = 0.25
"""Chance that the present spread is called larger than the earlier one although it is not. Only the present one is then
used."""


@dataclass(frozen=True, slots=True, eq=False)
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
    sessions = [session @ weights for session in measurements.earlier if len(session)]
    before = [session - session.mean(axis=0) for session in sessions if len(session) > 1]
    known = sum(len(each) - 1 for each in before)
    if known:
        rows += before
        earlier = np.maximum(sum((each**2).sum(axis=0) for each in before) / known, least)
    alike = mean_square_correlation(np.vstack(rows), freedom + known)
    if known:
        quiet = not _is_noisier(variances / earlier, freedom / alike, known / alike)
        within = (freedom * variances + known * earlier) / (freedom + known)
        if measurements.apart:
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
    before = [session - session.mean(axis=0) for session in measurements.earlier if len(session) > 1]
    return np.vstack([today, *before]), freedom + sum(len(each) - 1 for each in before)


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
