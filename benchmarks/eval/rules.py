"""The gate's own decision as rules for the scoring harness of two-version comparisons.

Nothing is decided here: series, requests and earlier sessions are handed to `regress_gate.stats` as the gate hands
them, with the default policy, and its verdicts are handed back. See benchmarks/README.md for how to run it.
"""

from dataclasses import replace

import numpy as np

from regress_gate.gate.early_stopping import why_futile
from regress_gate.model.metric import METRICS, Direction, Scale
from regress_gate.model.policy import Policy
from regress_gate.model.result import SeriesResult, SideSummary, Verdict
from regress_gate.stats.comparison import Comparison, compare_series
from regress_gate.stats.design import InterimStage
from regress_gate.stats.estimate import SeriesData, variance_reduced_percentiles
from regress_gate.stats.multiplicity import MeasurementDesign

MOST_BLOCKS = 10
WORDS = {
    Verdict.REGRESSION: "fail",
    Verdict.WITHIN_MARGIN: "pass",
    Verdict.IMPROVEMENT: "pass",
    Verdict.UNDECIDED: "inconclusive",
}


def judge(family, interim: InterimStage | None = None) -> list[Comparison]:
    """What the gate says of a harness family; larger is worse for all of its metrics."""
    policy = Policy()
    history = family.history()
    earlier = tuple(tuple(history[j, s] for j in range(len(history))) for s in range(history.shape[1]))
    return compare_series(
        [_series(family, j) for j in range(len(family.metrics))],
        false_alarm_budget=policy.false_alarm_budget,
        confidence=policy.confidence,
        expected_cv=policy.expected_cv,
        design=MeasurementDesign(apart=True, earlier=earlier, interim=interim),
    )


def _series(family, j: int) -> SeriesData:
    data = _plain(family, j)
    if family.metrics[j][1] != "p99":
        return data
    found = variance_reduced_percentiles(np.log(family.requests(0, j)), np.log(family.requests(1, j)), 0.01)
    return replace(data, variance_reduced=found)


def _plain(family, j: int) -> SeriesData:
    variable, statistic, cell = family.metrics[j]
    return SeriesData(
        family.runs(0, j),
        family.runs(1, j),
        Direction.LOWER,
        Scale.RATIO,
        family.margin(j),
        scenario=f"load {cell}",
        metric=f"{'ttft' if variable % 2 == 0 else 'tpot'}_{statistic}",
    )


def fixed(family) -> list[str]:
    return [WORDS[each.verdict] for each in judge(family)]


def sequential(family, stream) -> list[str]:
    """As `compare --measure` goes: a look after every block, until the answer stands or is out of reach."""
    while True:
        found = judge(family, InterimStage(family.R, MOST_BLOCKS))
        open_ = [_as_reported(family, j, each) for j, each in enumerate(found) if each.verdict is Verdict.UNDECIDED]
        if not open_ or any(each.verdict is Verdict.REGRESSION for each in found) or family.R >= MOST_BLOCKS:
            break
        if why_futile(open_, made=family.R, most=MOST_BLOCKS) or not stream.more():
            break
    return [WORDS[each.verdict] for each in found]


def _as_reported(family, j: int, found: Comparison) -> SeriesResult:
    data = _plain(family, j)
    sides = [SideSummary(mean=None, runs=family.R) for _ in range(2)]
    return SeriesResult(
        scenario=data.scenario,
        metric=data.metric,
        unit=METRICS[data.metric].unit,
        direction=data.direction,
        scale=data.scale,
        gated=True,
        baseline=sides[0],
        candidate=sides[1],
        change=found.change,
        interval=found.interval,
        confidence=Policy().confidence,
        p_worse=found.p_worse,
        q_worse=found.q_worse,
        margin=data.margin,
        verdict=found.verdict,
    )


sequential.sequential = True

RULES = {"regress-gate": fixed, "regress-gate, sequential": sequential}
