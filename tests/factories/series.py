"""Runs made to order: logarithms of what scenarios x metrics would measure, with luck that a run's series share."""

from collections.abc import Sequence

import numpy as np

from regress_gate.model.metric import Direction, Scale
from regress_gate.stats.comparison import DEFAULT_DESIGN, Comparison, compare_series
from regress_gate.stats.design import InterimStage
from regress_gate.stats.estimate import SeriesData
from regress_gate.stats.multiplicity import MeasurementDesign

BUDGET = 0.05
CONFIDENCE = 0.90


def draw_runs(rng, runs, *, cv=0.01, scenarios=10, metrics=4, shares=(0.5, 0.3, 0.2)):
    """Shape (runs, scenarios, metrics). `shares` of the variance: common to a run, to its scenario, to nothing else."""
    common = rng.normal(size=(runs, 1, 1))
    of_scenario = rng.normal(size=(runs, scenarios, 1))
    own = rng.normal(size=(runs, scenarios, metrics))
    return cv * sum(np.sqrt(share) * part for share, part in zip(shares, (common, of_scenario, own), strict=True))


def as_series(baseline, candidate, *, margin=0.05, gated=True, direction=Direction.LOWER) -> list[SeriesData]:
    """From logarithms of shape (runs, scenarios, metrics), in the order scenario by scenario."""
    return [
        SeriesData(
            np.exp(baseline[:, scenario, metric]),
            np.exp(candidate[:, scenario, metric]),
            direction,
            Scale.RATIO,
            margin,
            gated,
            scenario=f"s{scenario}",
            metric=f"m{metric}",
        )
        for scenario in range(baseline.shape[1])
        for metric in range(baseline.shape[2])
    ]


def as_sessions(sessions, *, paired=False):
    """Earlier sessions, each of shape (runs, scenarios, metrics): logarithms, of ratios where paired."""
    return tuple(tuple((each if paired else np.exp(each)).reshape(len(each), -1).T) for each in sessions)


def judge(series: Sequence[SeriesData], design: MeasurementDesign = DEFAULT_DESIGN) -> list[Comparison]:
    return compare_series(
        series,
        false_alarm_budget=BUDGET,
        confidence=CONFIDENCE,
        expected_cv=0.05,
        design=design,
    )


def judge_runs(
    baseline, candidate, *, margin=0.05, paired=False, apart=False, earlier=(), interim: InterimStage | None = None
):
    known = MeasurementDesign(paired, apart, as_sessions(earlier, paired=paired), interim)
    return judge(as_series(baseline, candidate, margin=margin), known)
