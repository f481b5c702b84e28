"""Variance-reduced percentiles, where all runs sent the same requests and recorded each of them.

Not for the percentile that is reported, which is that of a run's own requests.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from regress_gate.gate.replicates import Replicates
from regress_gate.model.metric import metric
from regress_gate.model.run import Run
from regress_gate.model.samples import Samples
from regress_gate.stats.percentiles import variance_reduced_percentiles

Floats = npt.NDArray[np.float64]


def _decoding_seconds(samples: Samples) -> Floats:
    """Shape (n,): seconds from the first token to the last."""
    total = np.concatenate([[0.0], np.cumsum(samples.itl)])
    return np.asarray(total[samples.itl_start[1:]] - total[samples.itl_start[:-1]])


def _end_to_end_seconds(samples: Samples) -> Floats:
    """Shape (n,): seconds to the last token; 0 where the client kept no gaps, so that it is not known."""
    known = (np.diff(samples.itl_start) > 0) | (samples.output_tokens <= 1)
    return np.where(known, samples.ttft + _decoding_seconds(samples), 0.0)


REQUEST_LATENCIES: dict[str, Callable[[Samples], Floats]] = {
    "ttft": lambda samples: samples.ttft,
    "tpot": lambda samples: _decoding_seconds(samples) / np.maximum(samples.output_tokens - 1, 1),
    "e2el": _end_to_end_seconds,
}
"""Latencies that every request has."""


def needs_samples(names: Sequence[str]) -> bool:
    """Whether a percentile among these metrics has a variance-reduced form."""
    return any(metric(name).tail is not None and name.rpartition("_")[0] in REQUEST_LATENCIES for name in names)


def variance_reduced_percentile(
    made: Replicates, key: tuple[str, str], ordinals: Mapping[str, set[int]]
) -> tuple[Floats, Floats] | None:
    """The percentile in logarithms, as values of the rows of both sides; None where the requests do not allow it.

    Every run must have recorded the same number of requests, with the same prompt lengths in the same order.
    """
    scenario, name = key
    known, measure = metric(name), REQUEST_LATENCIES.get(name.rpartition("_")[0])
    rows = [runs for side in (made.baseline, made.candidate) for runs in side.values()]
    if known.tail is None or measure is None or any(len(runs) != 1 for runs in rows):
        return None
    found = []
    for ordinal in sorted(ordinals.get(scenario, ())):
        samples = [_samples(runs[0], scenario, ordinal) for runs in rows]
        logs = _same_requests([each for each in samples if each is not None], measure)
        if logs is None or len(logs) != len(rows) or logs.shape[1] < known.min_requests:
            return None
        count = len(made.baseline)
        found.append(np.concatenate(variance_reduced_percentiles(logs[:count], logs[count:], known.tail)))
    if not found:
        return None
    values = np.mean(found, axis=0)
    return values[: len(made.baseline)], values[len(made.baseline) :]


def _samples(run: Run, scenario: str, ordinal: int) -> Samples | None:
    trials = (trial for trial in run.trials if trial.scenario == scenario and trial.ordinal == ordinal)
    return next((trial.samples for trial in trials), None)


def _same_requests(samples: Sequence[Samples], measure: Callable[[Samples], Floats]) -> Floats | None:
    """Shape (runs, requests): logarithms of those that all runs answered; None where prompts differ."""
    if not samples or any(len(each) != len(samples[0]) for each in samples):
        return None
    if any((each.input_tokens != samples[0].input_tokens).any() for each in samples):
        return None
    values = np.vstack([measure(each) for each in samples])
    usable = np.all([each.ok for each in samples], axis=0) & (values > 0).all(axis=0)
    return np.log(values[:, usable])
