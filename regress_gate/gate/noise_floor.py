"""What earlier runs of a suite show of each series: how it scatters, and the effects of order and time on it.

Not for what that means for a plan (`planning`).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regress_gate.gate.accuracy import compare_outputs
from regress_gate.gate.replicates import SeriesKey, SeriesValues, run_level_values
from regress_gate.model.metric import Metric, Scale, metric
from regress_gate.model.run import Run
from regress_gate.model.version import Version
from regress_gate.stats.estimate import least_spread
from regress_gate.stats.multiplicity import holm
from regress_gate.stats.order_effects import OrderEffects, estimate_order_effects
from regress_gate.stats.power import PooledNoise, pooled_noise


@dataclass(frozen=True, slots=True)
class SeriesSpread:
    """The spread of one series that can be compared."""

    noise: PooledNoise | None
    """Pooled over versions; None where none has two runs."""
    level: float
    """Mean over all runs, of all versions."""
    requests: float
    """Of a run, on average."""
    smallest_trial: int | None
    """Requests; None for what is not measured per trial."""


@dataclass(frozen=True, slots=True)
class AdjustedEffect:
    """An effect of order or time on one series, with its p-value adjusted over all that were asked for."""

    size: float
    """A relative change of the value; positive is a larger value."""
    interval: tuple[float, float]
    """At 95 %, of this effect alone."""
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class AdjustedEffects:
    second_in_block: AdjustedEffect
    drift_per_block: AdjustedEffect


def series_spread(runs: Sequence[Run]) -> dict[SeriesKey, SeriesSpread]:
    """Every series that a comparison of two of the versions would have. A ratio metric with a value that is not
    positive has none."""
    by_version: dict[Version, list[Run]] = defaultdict(list)
    for run in runs:
        by_version[run.version].append(run)
    groups: dict[SeriesKey, list[SeriesValues]] = defaultdict(list)
    for same in by_version.values():
        for key, values in run_level_values(same).items():
            groups[key].append(values)
        # As a comparison does on its baseline's side: a version's answers compared with themselves.
        for scenario, found in compare_outputs(same, same).items():
            for name, per_run in found.baseline.items():
                groups[scenario, name].append(SeriesValues(per_run))
    spreads = {key: _spread(metric(key[1]), found) for key, found in groups.items()}
    return {key: spread for key, spread in spreads.items() if spread is not None}


def _spread(known: Metric, groups: Sequence[SeriesValues]) -> SeriesSpread | None:
    arrays = [np.asarray(values.per_run, dtype=np.float64) for values in groups]
    pooled = np.concatenate(arrays)
    if known.scale is Scale.RATIO and pooled.min() <= 0:
        return None
    trials = [values.smallest_trial for values in groups if values.smallest_trial is not None]
    return SeriesSpread(
        noise=pooled_noise(arrays, known.scale),
        level=float(pooled.mean()),
        requests=sum(values.requests for values in groups) / len(pooled),
        smallest_trial=min(trials, default=None),
    )


def series_effects(runs: Sequence[Run]) -> dict[SeriesKey, OrderEffects]:
    """The effects of order and time within one experiment of two sides, for ratio metrics."""
    rows: dict[SeriesKey, list[tuple[float, str, int, bool]]] = defaultdict(list)
    for run in runs:
        if run.place is None:
            continue
        # If a suite has several servers, a block runs both sides of one server, then both sides of the next.
        is_second = run.place.position % 2 == 0
        for key, values in run_level_values([run]).items():
            if metric(key[1]).scale is Scale.RATIO:
                rows[key].append((values.per_run[0], str(run.version), run.place.block, is_second))
    effects = {}
    for key, found in rows.items():
        numbers, versions, blocks, second = zip(*found, strict=True)
        effects[key] = estimate_order_effects(
            np.array(numbers), versions, blocks, second, min_cv=least_spread(metric(key[1]))
        )
    return {key: found for key, found in effects.items() if found is not None}


def adjusted_effects(runs: Sequence[Run], keys: Sequence[SeriesKey]) -> dict[SeriesKey, AdjustedEffects]:
    """Those of `keys` that the runs can show. All are one family: their p-values are adjusted together (Holm)."""
    effects = {key: found for key, found in series_effects(runs).items() if key in keys}
    flat = [effect for found in effects.values() for effect in (found.second, found.drift)]
    adjusted = [
        AdjustedEffect(effect.size, effect.interval, p_adjusted)
        for effect, p_adjusted in zip(flat, holm([effect.p_value for effect in flat]), strict=True)
    ]
    return {
        key: AdjustedEffects(second, drift)
        for key, second, drift in zip(effects, adjusted[::2], adjusted[1::2], strict=True)
    }
