"""Two versions, many series: the border of the statistics towards the gate.

The run is the unit of replication. Each series gets an estimated loss with a two-sided interval and a one-sided
p-value; `regression` is controlled family-wise over the gated series (`family`), while `equivalent` must be shown for
every one of them (intersection-union), so it needs no correction. See docs/statistics.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from regress_gate.model.metric import Scale
from regress_gate.model.result import Verdict
from regress_gate.stats.estimate import SeriesData, estimate, margin_as_loss, to_change
from regress_gate.stats.evidence import Evidence, Measurements, weigh
from regress_gate.stats.family import Family, adjusted_p_values, own_evidence
from regress_gate.stats.multiplicity import holm
from regress_gate.stats.power import MAX_RUNS, runs_to_resolve
from regress_gate.stats.sequential import Looks, level

Floats = npt.NDArray[np.float64]

_SUSPECT = 0.005
"""One-sided p-value of the plain percentile from which the steadied one is not believed."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How the runs of all series were made."""

    paired: bool = False
    """Value i of either side was measured in the same block."""
    apart: bool = False
    """The sides were measured in different sessions."""
    earlier: tuple[tuple[Floats, ...], ...] = ()
    """Earlier sessions of one version each; each holds, for every series in order, values of shape (runs,), NaN where
    there is none. For paired measurements: logarithms of the ratio of the two sides of earlier blocks."""
    looks: Looks | None = None
    """None: the evidence is seen once, at its end."""


ORDINARY = Circumstances()


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


@dataclass(frozen=True, slots=True)
class _Found:
    """On the analysis scale."""

    loss: float
    interval: tuple[float, float] | None = None
    p_worse: float | None = None
    p_better: float | None = None
    run_sd: float | None = None
    q_worse: float | None = None
    q_better: float | None = None
    steadied: tuple[float, float, float] | None = None
    """Of a percentile with a steadied form: loss, lower and upper limit by that."""

    def within(self, margin: float) -> "_Found":
        """By the steadied form, where that shows what the plain one cannot: that the loss is below the margin."""
        if self.steadied is None or self.interval is None or self.interval[1] < margin or self.steadied[2] >= margin:
            return self
        loss, low, high = self.steadied
        return replace(self, loss=loss, interval=(low, high))


def compare(
    series: Sequence[SeriesData],
    *,
    false_alarm_budget: float,
    confidence: float,
    expected_cv: float,
    circumstances: Circumstances = ORDINARY,
) -> list[Comparison]:
    """Judge all series of one gate together; the result has their order.

    `expected_cv` is only used to say how many runs a first comparison needs, never to decide.
    """
    budget = level(false_alarm_budget, circumstances.looks)
    tail = level((1 - confidence) / 2, circumstances.looks)
    found: list[_Found | None] = [None] * len(series)
    for gates in (True, False):
        members = [index for index, data in enumerate(series) if data.gated is gates]
        for index, each in zip(
            members, _judge([series[i] for i in members], members, tail, circumstances), strict=True
        ):
            found[index] = each
    family = max(1, sum(each is not None and data.gated for data, each in zip(series, found, strict=True)))
    results = []
    for data, each in zip(series, found, strict=True):
        if each is None:
            results.append(Comparison(None, None, None, None, Verdict.INCONCLUSIVE, None, (_no_estimate(data),)))
            continue
        plain, each = each, each.within(margin_as_loss(data))
        limits = each.interval
        interval = None if limits is None else (to_change(limits[0], data), to_change(limits[1], data))
        change = to_change(each.loss, data)
        verdict = _verdict(data, change, interval, each.q_worse, each.q_better, budget)
        needed, notes = None, list[str]()
        if each is not plain:
            notes.append(
                f"by what the same prompts did in all runs; taken by itself {to_change(plain.loss, data):+.1%}"
            )
        if verdict is Verdict.INCONCLUSIVE:
            needed, remarks = _runs_needed(data, each, change, budget / family, tail, expected_cv)
            notes += remarks
        results.append(Comparison(change, interval, each.p_worse, each.q_worse, verdict, needed, tuple(notes)))
    return results


def _judge(
    series: Sequence[SeriesData], places: Sequence[int], tail: float, circumstances: Circumstances
) -> list[_Found | None]:
    """One family: all series that gate, or all that do not. `places`: their positions among all series."""
    inside = _family_members(series)
    outside = [index for index in range(len(series)) if index not in set(inside)]
    found: list[_Found | None] = [None] * len(series)
    for index in outside:
        found[index] = _alone(series[index], places[index], tail, circumstances)
    others = {index: each for index in outside if (each := found[index]) is not None and each.p_worse is not None}
    worse, better = ([getattr(each, name) for each in others.values()] for name in ("p_worse", "p_better"))
    if inside:
        family = _family([series[i] for i in inside], [places[i] for i in inside], circumstances)
        found_inside = _together([series[i] for i in inside], family, tail)
        q_worse, q_worse_others = adjusted_p_values(family, worse)
        q_better, q_better_others = adjusted_p_values(family, better, better=True)
        for index, each, up, down in zip(inside, found_inside, q_worse, q_better, strict=True):
            found[index] = replace(each, q_worse=float(up), q_better=float(down))
    else:
        q_worse_others, q_better_others = (np.array(holm(p)) for p in (worse, better))
    for index, up, down in zip(others, q_worse_others, q_better_others, strict=True):
        found[index] = replace(others[index], q_worse=float(up), q_better=float(down))
    return found


def _family_members(series: Sequence[SeriesData]) -> list[int]:
    """Ratio metrics that every run of both sides has, at least two a side; the commonest shape where they differ."""
    whole = [
        index
        for index, data in enumerate(series)
        if data.scale is Scale.RATIO
        and min(len(data.baseline), len(data.candidate)) > 1
        and (np.concatenate([data.baseline, data.candidate]) > 0).all()
    ]
    shapes = [(len(series[index].baseline), len(series[index].candidate)) for index in whole]
    if not shapes:
        return []
    commonest = max(shapes, key=lambda shape: (shapes.count(shape), shape))
    return [index for index, shape in zip(whole, shapes, strict=True) if shape == commonest]


def _family(series: Sequence[SeriesData], places: Sequence[int], circumstances: Circumstances) -> Family:
    signs = np.array([data.sign for data in series])
    sides = [
        signs * np.log(np.column_stack([getattr(data, side) for data in series])) for side in ("baseline", "candidate")
    ]
    earlier = []
    for session in circumstances.earlier:
        values = np.column_stack([session[place] for place in places])
        whole = values[(np.isfinite(values) & (circumstances.paired | (values > 0))).all(axis=1)]
        if len(whole):
            earlier.append(signs * (whole / np.sqrt(2) if circumstances.paired else np.log(whole)))
    found = Measurements(sides[0], sides[1], circumstances.paired, circumstances.apart, tuple(earlier))
    metrics = [data.metric or f"#{index}" for index, data in enumerate(series)]
    scenarios = [data.scenario for data in series]
    named = [name for name in dict.fromkeys(scenarios) if name is not None]
    return Family(
        found,
        np.array([-1 if name is None else named.index(name) for name in scenarios]),
        np.array([list(dict.fromkeys(metrics)).index(name) for name in metrics]),
        np.array([data.min_cv**2 for data in series]),
    )


def _together(series: Sequence[SeriesData], family: Family, tail: float) -> list[_Found]:
    """Every series' own evidence, in order; percentiles with a steadied form also by that."""
    results = [_Found(0.0)] * len(series)
    for metric, own in enumerate(own_evidence(family)):
        members = [int(index) for index in np.flatnonzero(family.metrics == metric)]
        limits, worse, better = own.limit(tail), own.p_above(0.0), own.p_below(0.0)
        for at, index in enumerate(members):
            loss = float(own.estimate[at])
            results[index] = _Found(
                loss,
                (loss - float(limits[at]), loss + float(limits[at])),
                float(worse[at]),
                float(better[at]),
                float(np.sqrt(own.run_variance[at])),
            )
        if all(series[index].steadied is not None for index in members):
            steadied = _steadied([series[index] for index in members], family, members, own, tail)
            for index, triple in zip(members, steadied, strict=True):
                results[index] = replace(results[index], steadied=triple)
    return results


def _steadied(
    series: Sequence[SeriesData], family: Family, members: list[int], own: Evidence, tail: float
) -> list[tuple[float, float, float] | None]:
    """Loss and limits of one metric's percentiles from their steadied form; None where that is not to be believed.

    The steadied percentile dilutes a change of nothing but the slowest requests. So the plain one, averaged over the
    scenarios, has to keep the upper limit too, and must not by itself be suspect.
    """
    pairs = [data.steadied for data in series if data.steadied is not None]
    sides = [np.column_stack([pair[side] for pair in pairs]) for side in (0, 1)]
    found = Measurements(sides[0], sides[1], family.found.paired, family.found.apart)
    steadied = _with_common_offsets(weigh(found, np.eye(len(series)), family.floor[members]), family)
    weights = np.zeros((len(family.metrics), 1))
    weights[members] = 1 / len(members)
    mean = weigh(family.found, weights, family.floor)
    common = float(mean.estimate[0] + mean.limit(tail)[0])
    limits, suspect = steadied.limit(tail), own.p_above(0.0) < _SUSPECT
    return [
        None if doubt else (float(loss), float(loss - limit), max(float(loss + limit), common))
        for loss, limit, doubt in zip(steadied.estimate, limits, suspect, strict=True)
    ]


def _with_common_offsets(steadied: Evidence, family: Family) -> Evidence:
    """Earlier sessions have no steadied percentiles: what separates sessions is taken from all series together."""
    grouped = (family.scenarios >= 0).astype(np.float64)
    common = weigh(family.found, (grouped / max(grouped.sum(), 1.0))[:, None], family.floor)
    ratios = common.sessions.ratios * common.run_variance[0] / steadied.run_variance.mean()
    return replace(steadied, sessions=replace(common.sessions, ratios=ratios))


def _alone(data: SeriesData, place: int, tail: float, circumstances: Circumstances) -> _Found | None:
    """A series that cannot be part of the family: one that some runs lack, or a difference of fractions."""
    whole = replace(_whole_blocks(data) if circumstances.paired else data.without_gaps(), steadied=None)
    if _family_members([whole]):
        return _together([whole], _family([whole], [place], circumstances), tail)[0]
    found = estimate(data.without_gaps())
    if found is None:
        return None
    return _Found(found.loss, found.interval(1 - 2 * tail), found.p_worse(), found.p_better(), found.run_sd)


def _whole_blocks(data: SeriesData) -> SeriesData:
    if len(data.baseline) != len(data.candidate):
        return data.without_gaps()
    whole = ~np.isnan(data.baseline + data.candidate)
    return replace(data, baseline=data.baseline[whole], candidate=data.candidate[whole])


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
    data = data.without_gaps()
    if not len(data.baseline) or not len(data.candidate):
        return f"not measured on the {'candidate' if len(data.baseline) else 'baseline'}"
    return "a value is zero or negative: no ratio can be formed"


def _runs_needed(
    data: SeriesData, found: _Found, change: float, error: float, tail: float, expected_cv: float
) -> tuple[int | None, list[str]]:
    """The smaller number of runs that would show either verdict, if the present estimate were true."""
    have = max(len(data.baseline), len(data.candidate))
    notes = []
    run_sd, bound, loss = found.run_sd, margin_as_loss(data), found.loss
    if found.interval is None:
        notes.append("at least two runs a side are needed to tell luck from change")
        loss = 0.0  # a single pair says nothing about the loss: plan for the unchanged case
    if run_sd is None or run_sd == 0.0:
        run_sd = expected_cv
        notes.append(f"runs needed assume a run-to-run spread of {expected_cv:.0%}")
    options = [runs_to_resolve(bound - loss, run_sd, tail)]
    if found.interval is not None and change >= data.margin / 2:
        options.append(runs_to_resolve(loss, run_sd, error))
    reachable = [option for option in options if option is not None]
    if not reachable:
        notes.append(f"more than {MAX_RUNS} runs a side would be needed: widen the margin or quieten the machine")
        return None, notes
    return max(min(reachable), have + 1, 2), notes
