"""A steadier percentile of the requests of a run, by what the same prompts did in the other runs.

The 99th percentile of 200 requests rests on three of them. But request i is the same prompt in every run of both
sides, and most of what makes a request slow is its prompt: that is known from all runs together. Model, on logarithms:
request = level of the run + slope of the run x prompt effect + noise of the run, whose shape is whatever the run's own
residuals show. A run's percentile is then taken over every pairing of prompt and residual, not only over those that
happened: the distribution that the run's requests were drawn from.

It finds a change of level, one that grows with the prompt, and one of the noise, tail included. It dilutes a change
that only hits what is slow already, so the percentile of the plain requests has to be looked at beside it (see
`comparison`). Not for reporting: the percentile that is reported is that of the requests.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def steadied_percentile(logs: Floats, tail: float) -> Floats:
    """Shape (runs,): logarithm of each run's percentile with a share of `tail` beyond it.

    `logs` has shape (runs, requests): logarithms, the columns being the same prompts in every run.
    """
    centred = logs - np.median(logs, axis=1, keepdims=True)
    prompts = np.median(centred, axis=0) if len(logs) > 2 else centred.mean(axis=0)
    prompts = prompts - prompts.mean()
    spread = float(prompts @ prompts)
    slopes = (centred @ prompts) / spread if spread > 0 else np.zeros(len(logs))
    return np.array(
        [
            _percentile_of_sums(slope * prompts, run - slope * prompts, tail)
            for slope, run in zip(slopes, logs, strict=True)
        ]
    )


def _percentile_of_sums(left: Floats, right: Floats, tail: float) -> float:
    """Of all sums of one value of each, shape (n,) both: by bisection, because there are n² of them."""
    left, right = np.sort(left), np.sort(right)
    beyond = int(tail * (len(left) * len(right) - 1))
    low, high = float(left[0] + right[0]), float(left[-1] + right[-1])
    while low < (middle := (low + high) / 2) < high:
        above = len(left) * len(right) - int(np.searchsorted(right, middle - left, side="right").sum())
        low, high = (middle, high) if above > beyond else (low, middle)
    return high
