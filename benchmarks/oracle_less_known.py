"""Oracles that know less: what is lost by having to find out one thing more. Part of `oracle.py`.

All know how series correlate. The first does not know how much those of a metric scatter, in one number a metric; the
second not how much each series does, and moderates what it finds as the product. They find it from the runs that are
compared and, of means, from ten earlier sessions of two runs. The third does not know whether days differ either, and
asks those sessions with the product's prior. The last believes a variance-reduced percentile only where the product
does, and goes by the plain one, of which it knows the spread, where not. Levels are the product's.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from regress_gate.model.policy import Policy
from regress_gate.stats.comparison import SUSPECT_P_VALUE
from regress_gate.stats.contrasts import (
    NO_SESSIONS,
    ContrastEvidence,
    SessionSpread,
    moderate_variances,
    session_spread,
)

SESSIONS, SESSION_RUNS = 10, 2
"""Earlier ones, of which the harness tells."""
LESS_KNOWN = (
    ("all known but one scale a metric", {"each": False, "days": False, "doubts": False}),
    ("nor that the series of a metric scatter alike", {"each": True, "days": False, "doubts": False}),
    ("nor whether days differ", {"each": True, "days": True, "doubts": False}),
    ("and variance-reduced percentiles doubted as ours are", {"each": True, "days": True, "doubts": True}),
)


def less_known(
    world, rng: np.random.Generator, runs: int, gates: int, *, each: bool, days: bool, doubts: bool
) -> float:
    """Share of unchanged gates that pass; `world` is that of `oracle.py`."""
    tail = (1 - Policy().confidence) / 2
    root = np.linalg.cholesky(world.covariance)
    plain_errors = np.sqrt(np.diag(world.covariance) * 2 / runs)
    passes = 0
    for _ in range(gates):
        sides = rng.normal(size=(2, runs, len(root))) @ root.T
        scores = sides @ world.estimator.T
        earlier = rng.normal(size=(SESSIONS, SESSION_RUNS, len(root))) @ root.T @ world.estimator.T
        estimates, plain = (form[1].mean(axis=0) - form[0].mean(axis=0) for form in (scores, sides))
        spread, known, shown = NO_SESSIONS, 1.0, True
        for kind in np.unique(world.kind):  # of a variable, the mean goes before the percentile
            of, margin = world.kind == kind, world.margins[world.kind == kind][0]
            is_mean = kind % 3 == 0
            variance, freedom = _scale(world, of, [*scores, *(earlier if is_mean else ())], each=each)
            if is_mean and days:
                spread, known = _days(world, of, earlier, variance), variance.mean()
            ratios = SessionSpread(spread.ratios * known / variance.mean(), spread.probabilities)
            found = ContrastEvidence(estimates[of], variance, freedom, 2 / runs, ratios)
            within = estimates[of] + found.limit(tail) < margin
            if doubts and not is_mean:
                rows = np.arange(kind, len(root), len(root) // world.cells)
                common_error = np.sqrt(world.covariance[np.ix_(rows, rows)].mean() * 2 / runs)
                believed = ndtr(-plain[rows] / plain_errors[rows]) >= SUSPECT_P_VALUE
                believed &= plain[rows].mean() - ndtri(tail) * common_error < margin
                within = np.where(believed, within, plain[rows] - ndtri(tail) * plain_errors[rows] < margin)
            shown = shown and bool(within.all())
        passes += shown
    return passes / gates


def _alike(world, of: np.ndarray) -> float:
    """Mean squared correlation of one metric's series."""
    errors = world.errors[np.ix_(of, of)]
    sizes = np.sqrt(np.diag(errors))
    return float(((errors / np.outer(sizes, sizes)) ** 2).mean())


def _scale(world, of: np.ndarray, groups: list[np.ndarray], *, each: bool) -> tuple[np.ndarray, np.ndarray]:
    """Variances between runs of one metric's series, and their degrees of freedom, from groups (runs, m) of runs."""
    known = np.diag(world.errors)[of]
    freedom = sum(len(runs) - 1 for runs in groups)
    found = sum(((runs[:, of] - runs[:, of].mean(axis=0)) ** 2).sum(axis=0) for runs in groups) / freedom
    if each:
        return moderate_variances(found, freedom, alike=_alike(world, of))
    return known * (found / known).mean(), np.full(len(known), freedom / _alike(world, of))


def _days(world, of: np.ndarray, earlier: np.ndarray, within: np.ndarray) -> SessionSpread:
    means = earlier[:, :, of].mean(axis=1)
    ratio = float((SESSION_RUNS * means.var(axis=0, ddof=1) / within).mean())
    freedoms = [count / _alike(world, of) for count in (SESSIONS - 1, SESSIONS * (SESSION_RUNS - 1))]
    return session_spread(ratio, 1.0, between_freedom=freedoms[0], within_freedom=freedoms[1], runs=SESSION_RUNS)
