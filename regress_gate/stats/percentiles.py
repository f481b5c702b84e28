"""A variance-reduced percentile of the requests of a run, adjusted by what the same prompts did in the other runs.

The 99th percentile of 200 requests rests on three of them. But request i is the same prompt in every run of both sides,
and most of what makes a request slow is its prompt, which all runs together show. The remaining noise has one shape for
all runs of a side. Model, on logarithms: request = level of the run + slope of the side x prompt effect + noise of the
side. A side's percentile is taken over every pairing of a prompt with the noise of any request of the side, not only
over the pairings that happened. A prompt's effect is the mean of its requests in all runs, with those far from their
median bounded (one step of P. J. Huber 1964, doi 10.1214/aoms/1177703732): of ten requests with normal noise it errs by
a seventh less than their median, and by still less where a few take far longer.

That is one number a side. Each run's part in it is its jackknife pseudo-value (J. W. Tukey 1958, Ann. Math. Statist.
29:614): the difference between the side's percentile with and without the run. So the values scatter as the percentile
is uncertain, and used as run-level values they give the right standard error (tests/stats simulates it).

It finds a change of level, one that grows with the prompt, and one of the noise, tail included. It dilutes a change
that only affects what is slow already, so the percentile of the plain requests has to be checked beside it (see
`comparison`). Not for reporting: the percentile that is reported is that of the requests.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_FAR = 4.5
"""Times the median distance of a request from what is usual for its prompt: three standard deviations, if normal."""
_CLOSE = 1e-10
"""Tolerance of the bisection, in logarithms."""


def variance_reduced_percentiles(baseline: Floats, candidate: Floats, tail: float) -> tuple[Floats, Floats]:
    """Each of shape (runs,): the side's percentile with a share of `tail` beyond it, as pseudo-values of its runs.

    Both sides have shape (runs, requests): logarithms, the columns being the same prompts in every run. Their means
    are what is compared; a single one says nothing of its run.
    """
    logs = np.vstack([baseline, candidate])
    levels = logs.mean(axis=1)
    centred = logs - levels[:, None]
    prompts = _prompt_effects(centred)
    spread = float(prompts @ prompts)
    slopes = (centred @ prompts) / spread if spread > 0 else np.zeros(len(logs))
    count = len(baseline)
    sides = (slice(None, count), slice(count, None))
    left, right = (levels[side] + _pseudo_values(centred[side], slopes[side], prompts, tail) for side in sides)
    return left, right


def _prompt_effects(centred: Floats) -> Floats:
    """Shape (requests,), with a mean of zero."""
    usual = np.median(centred, axis=0)
    off = centred - usual
    far = _FAR * float(np.median(np.abs(off)))
    effects = usual + np.clip(off, -far, far).mean(axis=0)
    return np.asarray(effects - effects.mean())


def _pseudo_values(centred: Floats, slopes: Floats, prompts: Floats, tail: float) -> Floats:
    """Shape (runs,): of the percentile above a run's level."""
    runs = len(centred)
    whole = _percentile(centred, float(slopes.mean()), prompts, tail) if runs else 0.0
    if runs < 2:
        return np.full(runs, whole)
    without = [
        _percentile(np.delete(centred, run, axis=0), float(np.delete(slopes, run).mean()), prompts, tail)
        for run in range(runs)
    ]
    return runs * whole - (runs - 1) * np.array(without)


def _percentile(centred: Floats, slope: float, prompts: Floats, tail: float) -> float:
    """Of all sums of a prompt's effect and what is left of a request, by bisection, because there are very many."""
    effects = slope * prompts
    left = np.sort((centred - effects).ravel())
    beyond = int(tail * (len(effects) * len(left) - 1))
    low, high = float(effects.min() + left[0]), float(effects.max() + left[-1])
    while high - low > _CLOSE and low < (middle := (low + high) / 2) < high:
        above = len(effects) * len(left) - int(np.searchsorted(left, middle - effects, side="right").sum())
        low, high = (middle, high) if above > beyond else (low, middle)
    return high
