"""Two versions, many series: the border of the statistics towards the gate.

The run is the unit of replication. Each series gets an estimated loss with a two-sided interval and a one-sided
p-value; `regression` is controlled family-wise over the gated series (Holm), while `equivalent` must be shown for
every one of them (intersection-union), so it needs no correction. See docs/statistics.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regress_gate.model.result import Verdict
from regress_gate.stats.estimate import Estimate, SeriesData, estimate, margin_as_loss, to_change
from regress_gate.stats.multiplicity import holm
from regress_gate.stats.power import MAX_RUNS, runs_to_resolve


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is known of one series. `change` and `interval` are on the reported scale, positive for worse."""

    change: float | None
    interval: tuple[float, float] | None
    p_worse: float | None
    q_worse: float | None
    """Adjusted over the gated series, or over the others for a series that does not gate."""
    verdict: Verdict
    runs_needed: int | None
    notes: tuple[str, ...] = ()


def compare(
    series: Sequence[SeriesData], *, false_alarm_budget: float, confidence: float, expected_cv: float
) -> list[Comparison]:
    """Judge all series of one gate together; the result has their order.

    `expected_cv` is only used to say how many runs a first comparison needs, never to decide.
    """
    estimates = [estimate(data) for data in series]
    worse = [None if found is None else found.p_worse() for found in estimates]
    better = [None if found is None else found.p_better() for found in estimates]
    gated = [data.gated for data in series]
    q_worse, q_better = _adjust(worse, gated), _adjust(better, gated)
    family = max(1, sum(p is not None and gates for p, gates in zip(worse, gated, strict=True)))
    results = []
    for data, found, p, q, q_up in zip(series, estimates, worse, q_worse, q_better, strict=True):
        if found is None:
            results.append(Comparison(None, None, None, None, Verdict.INCONCLUSIVE, None, (_no_estimate(data),)))
            continue
        limits = found.interval(confidence)
        interval = None if limits is None else (to_change(limits[0], data), to_change(limits[1], data))
        change = to_change(found.loss, data)
        verdict = _verdict(data, change, interval, q, q_up, false_alarm_budget)
        needed, notes = None, list[str]()
        if verdict is Verdict.INCONCLUSIVE:
            needed, notes = _runs_needed(data, found, change, false_alarm_budget / family, confidence, expected_cv)
        results.append(Comparison(change, interval, p, q, verdict, needed, tuple(notes)))
    return results


def _adjust(p_values: Sequence[float | None], gated: Sequence[bool]) -> list[float | None]:
    """Holm's correction within the gated series and, apart from them, within the others."""
    adjusted: list[float | None] = [None] * len(p_values)
    for group in (True, False):
        members = [(i, p) for i, p in enumerate(p_values) if p is not None and gated[i] is group]
        for (index, _), q in zip(members, holm([p for _, p in members]), strict=True):
            adjusted[index] = q
    return adjusted


def _verdict(
    data: SeriesData,
    change: float,
    interval: tuple[float, float] | None,
    q_worse: float | None,
    q_better: float | None,
    budget: float,
) -> Verdict:
    if interval is None or q_worse is None or q_better is None:
        return Verdict.INCONCLUSIVE
    if interval[1] < data.margin:
        return Verdict.IMPROVEMENT if q_better <= budget and change < 0 else Verdict.EQUIVALENT
    if q_worse <= budget and change >= data.margin / 2:
        return Verdict.REGRESSION
    return Verdict.INCONCLUSIVE


def _no_estimate(data: SeriesData) -> str:
    if not len(data.baseline) or not len(data.candidate):
        return f"not measured on the {'candidate' if len(data.baseline) else 'baseline'}"
    return "a value is zero or negative: no ratio can be formed"


def _runs_needed(
    data: SeriesData, found: Estimate, change: float, error: float, confidence: float, expected_cv: float
) -> tuple[int | None, list[str]]:
    """The smaller number of runs that would show either verdict, if the present estimate were true."""
    have = max(len(data.baseline), len(data.candidate))
    notes = []
    run_sd, bound, loss = found.run_sd, margin_as_loss(data), found.loss
    if found.standard_error is None:
        notes.append("at least two runs a side are needed to tell luck from change")
        loss = 0.0  # a single pair says nothing about the loss: plan for the unchanged case
    if run_sd is None or run_sd == 0.0:
        run_sd = expected_cv
        notes.append(f"runs needed assume a run-to-run spread of {expected_cv:.0%}")
    tail = (1 - confidence) / 2
    options = [runs_to_resolve(bound - loss, run_sd, tail)]
    if found.standard_error is not None and change >= data.margin / 2:
        options.append(runs_to_resolve(loss, run_sd, error))
    reachable = [option for option in options if option is not None]
    if not reachable:
        notes.append(f"more than {MAX_RUNS} runs a side would be needed: widen the margin or quieten the machine")
        return None, notes
    return max(min(reachable), have + 1, 2), notes
