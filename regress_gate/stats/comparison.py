"""Compare two versions on many series: the interface of the statistics to the gate.

The run is the unit of replication. Each series gets an estimated loss with a two-sided interval and a one-sided
p-value. `regression` is controlled family-wise over the gated series (`multiplicity`). `within_margin` must be shown
for every one of them (intersection-union), so it needs no correction. See docs/statistics.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from regress_gate.model.result import Verdict
from regress_gate.stats.capacity import Capacity, capacity_loss
from regress_gate.stats.contrasts import ContrastEvidence, Measurements, weigh_contrasts
from regress_gate.stats.design import MAX_RUNS, nominal_level, runs_to_resolve
from regress_gate.stats.estimate import SeriesData, estimate, margin_as_loss, to_change
from regress_gate.stats.multiplicity import (
    Family,
    MeasurementDesign,
    adjusted_p_values,
    family_members,
    holm,
    make_family,
    own_evidence,
    with_history,
)

Floats = npt.NDArray[np.float64]

SUSPECT_P_VALUE = 0.005
"""One-sided p-value of the plain percentile below which the variance-reduced one is not used."""


DEFAULT_DESIGN = MeasurementDesign()


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
class _SeriesAssessment:
    """On the analysis scale."""

    loss: float
    interval: tuple[float, float] | None = None
    p_worse: float | None = None
    p_better: float | None = None
    run_sd: float | None = None
    q_worse: float | None = None
    q_better: float | None = None
    variance_reduced: tuple[float, float, float] | None = None
    """Loss, lower and upper limit of the variance-reduced form of a percentile, where it has one."""

    def within(self, margin: float) -> "_SeriesAssessment":
        """The assessment that decides: the variance-reduced one where it is the surer one and the two disagree on the
        margin.

        The choice must not depend on which of them would pass: 8 % of percentiles that were worse by just the margin
        passed the better of two tests at 5 %.
        """
        if self.variance_reduced is None or self.interval is None:
            return self
        loss, low, high = self.variance_reduced
        if (high < margin) == (self.interval[1] < margin) or high - low >= self.interval[1] - self.interval[0]:
            return self
        return replace(self, loss=loss, interval=(low, high))


def compare_series(
    series: Sequence[SeriesData],
    *,
    false_alarm_budget: float,
    confidence: float,
    expected_cv: float,
    design: MeasurementDesign = DEFAULT_DESIGN,
) -> list[Comparison]:
    """Judge all series of one gate together; the result has their order.

    `expected_cv` says only how many runs a first comparison needs; it never decides.
    """
    budget = nominal_level(false_alarm_budget, design.interim)
    tail = nominal_level((1 - confidence) / 2, design.interim)
    assessments: list[_SeriesAssessment | None] = [None] * len(series)
    for gates in (True, False):
        members = [index for index, data in enumerate(series) if data.gated is gates]
        for index, each in zip(
            members, _assess_family([series[i] for i in members], members, tail, design), strict=True
        ):
            assessments[index] = each
    family = max(1, sum(each is not None and data.gated for data, each in zip(series, assessments, strict=True)))
    others = any(data.gated and not _is_without_failures(data) for data in series)
    results = []
    for data, each in zip(series, assessments, strict=True):
        if each is None:
            results.append(Comparison(None, None, None, None, Verdict.UNDECIDED, None, (_why_no_estimate(data),)))
            continue
        plain, each = each, each.within(margin_as_loss(data))
        limits = each.interval
        interval = None if limits is None else (to_change(limits[0], data), to_change(limits[1], data))
        change = to_change(each.loss, data)
        verdict = _verdict(data, change, interval, each.q_worse, each.q_better, budget)
        needed, notes = None, list[str]()
        if verdict is Verdict.UNDECIDED and others and _is_without_failures(data):
            verdict = Verdict.WITHIN_MARGIN
            notes.append(_without_failures_text(data))
        if each is not plain:
            notes.append(
                f"variance-reduced by the same prompts of all runs; without that {to_change(plain.loss, data):+.1%}"
            )
        if verdict is Verdict.UNDECIDED:
            needed, remarks = _runs_needed(data, each, change, budget / family, tail, expected_cv)
            notes += remarks
        results.append(Comparison(change, interval, each.p_worse, each.q_worse, verdict, needed, tuple(notes)))
    return results


def _assess_family(
    series: Sequence[SeriesData], places: Sequence[int], tail: float, design: MeasurementDesign
) -> list[_SeriesAssessment | None]:
    """One family: all series that gate, or all that do not. `places`: their positions among all series."""
    members = family_members(series)
    known = with_history([places[index] for index in members], design)
    inside = [index for index, is_known in zip(members, known, strict=True) if is_known]
    strangers = [index for index, is_known in zip(members, known, strict=True) if not is_known]
    assessments: list[_SeriesAssessment | None] = [None] * len(series)
    for index in set(range(len(series))) - set(members):
        assessments[index] = _assess_alone(series[index], places[index], tail, design)
    family = _family_of(series, places, inside, design) if inside else None
    if strangers:
        apart = _assess_together(
            [series[i] for i in strangers],
            _family_of(series, places, strangers, design),
            tail,
            offsets_of=family,
        )
        for index, each in zip(strangers, apart, strict=True):
            assessments[index] = each
    others = {index: each for index, each in enumerate(assessments) if each is not None and each.p_worse is not None}
    worse, better = ([getattr(each, name) for each in others.values()] for name in ("p_worse", "p_better"))
    if family is not None:
        q_worse, q_worse_others = adjusted_p_values(family, worse)
        q_better, q_better_others = adjusted_p_values(family, better, better=True)
        found_inside = _assess_together([series[i] for i in inside], family, tail)
        for index, each, up, down in zip(inside, found_inside, q_worse, q_better, strict=True):
            assessments[index] = replace(each, q_worse=float(up), q_better=float(down))
    else:
        q_worse_others, q_better_others = (np.array(holm(p)) for p in (worse, better))
    for index, up, down in zip(others, q_worse_others, q_better_others, strict=True):
        assessments[index] = replace(others[index], q_worse=float(up), q_better=float(down))
    return assessments


def _family_of(
    series: Sequence[SeriesData], places: Sequence[int], indices: Sequence[int], design: MeasurementDesign
) -> Family:
    return make_family([series[index] for index in indices], [places[index] for index in indices], design)


def _assess_together(
    series: Sequence[SeriesData], family: Family, tail: float, *, offsets_of: Family | None = None
) -> list[_SeriesAssessment]:
    """Every series' own evidence, in order; percentiles with a variance-reduced form also by that.

    `offsets_of`: the family whose session offsets are used, where that is not the series' own.
    """
    results = [_SeriesAssessment(0.0)] * len(series)
    for metric, own in enumerate(own_evidence(family)):
        if offsets_of is not None:
            own = _with_common_offsets(own, offsets_of)
        members = [int(index) for index in np.flatnonzero(family.metrics == metric)]
        limits, worse, better = own.limit(tail), own.p_above(0.0), own.p_below(0.0)
        for at, index in enumerate(members):
            loss = float(own.estimate[at])
            results[index] = _SeriesAssessment(
                loss,
                (loss - float(limits[at]), loss + float(limits[at])),
                float(worse[at]),
                float(better[at]),
                float(np.sqrt(own.run_variance[at])),
            )
        if all(series[index].variance_reduced is not None for index in members):
            variance_reduced = _variance_reduced(
                [series[index] for index in members], family, members, own, tail, offsets_of or family
            )
            for index, triple in zip(members, variance_reduced, strict=True):
                results[index] = replace(results[index], variance_reduced=triple)
    return results


def _variance_reduced(
    series: Sequence[SeriesData],
    family: Family,
    members: list[int],
    own: ContrastEvidence,
    tail: float,
    offsets_of: Family,
) -> list[tuple[float, float, float] | None]:
    """Loss and limits of one metric's percentiles from their variance-reduced form; None where it is not used.

    The variance-reduced percentile dilutes a change of the slowest requests alone. So the plain percentile, averaged
    over the scenarios, has to keep the margin too, and must not be suspect by itself.
    """
    pairs = [data.variance_reduced for data in series if data.variance_reduced is not None]
    sides = [np.column_stack([pair[side] for pair in pairs]) for side in (0, 1)]
    measurements = Measurements(sides[0], sides[1], family.found.paired, family.found.apart)
    variance_reduced = _with_common_offsets(
        weigh_contrasts(measurements, np.eye(len(series)), family.floor[members]), offsets_of
    )
    weights = np.zeros((len(family.metrics), 1))
    weights[members] = 1 / len(members)
    mean = weigh_contrasts(family.found, weights, family.floor)
    if offsets_of is not family:
        mean = _with_common_offsets(mean, offsets_of)
    common = float(mean.estimate[0] + mean.limit(tail)[0])
    limits, suspect = variance_reduced.limit(tail), own.p_above(0.0) < SUSPECT_P_VALUE
    within = np.array([common < margin_as_loss(data) for data in series])
    return [
        (float(loss), float(loss - limit), float(loss + limit)) if believed else None
        for loss, limit, believed in zip(variance_reduced.estimate, limits, within & ~suspect, strict=True)
    ]


def _with_common_offsets(own: ContrastEvidence, family: Family) -> ContrastEvidence:
    """Evidence with the session offsets of the whole family, for series that earlier sessions lack."""
    grouped = (family.scenarios >= 0).astype(np.float64)
    common = weigh_contrasts(family.found, (grouped / max(grouped.sum(), 1.0))[:, None], family.floor)
    ratios = common.sessions.ratios * common.run_variance[0] / own.run_variance.mean()
    return replace(own, sessions=replace(common.sessions, ratios=ratios))


def _assess_alone(data: SeriesData, place: int, tail: float, design: MeasurementDesign) -> _SeriesAssessment | None:
    """Assess a series that cannot be in the family: one that some runs lack, a difference of fractions, a capacity."""
    if data.capacities is not None:
        return _assess_capacity(data, *data.capacities, tail, paired=design.paired)
    whole = replace(_whole_blocks(data) if design.paired else data.without_gaps(), variance_reduced=None)
    if family_members([whole]):
        return _assess_together([whole], make_family([whole], [place], design), tail)[0]
    estimated = estimate(data.without_gaps())
    if estimated is None:
        return None
    return _SeriesAssessment(
        estimated.loss, estimated.interval(1 - 2 * tail), estimated.p_worse(), estimated.p_better(), estimated.run_sd
    )


def _assess_capacity(
    data: SeriesData, baseline: Sequence[Capacity], candidate: Sequence[Capacity], tail: float, *, paired: bool
) -> _SeriesAssessment | None:
    """None where the servers bound the loss on neither side. A loss that is bounded on one side is that bound."""
    if not baseline or not candidate:
        return None
    found = capacity_loss(baseline, candidate, paired=paired, confidence=1 - 2 * tail, min_cv=data.min_cv)
    bounds = [loss for loss in (found.least, found.most) if math.isfinite(loss)]
    if not bounds:
        return None
    spreads = [np.var(np.log([each.load for each in side]), ddof=1) for side in (baseline, candidate) if len(side) > 1]
    run_sd = float(np.sqrt(np.mean(spreads))) if spreads else None
    return _SeriesAssessment(bounds[0], found.interval, found.p_worse, found.p_better, run_sd)


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
        return Verdict.UNDECIDED
    if interval[1] < data.margin:
        return Verdict.IMPROVEMENT if q_better <= budget and change < 0 else Verdict.WITHIN_MARGIN
    if q_worse <= budget and change >= data.margin / 2:
        return Verdict.REGRESSION
    return Verdict.UNDECIDED


def _is_without_failures(data: SeriesData) -> bool:
    """Whether no request failed on either side. Then there is no loss to be shown, and more runs would show none: the
    other series of the gate say whether there are enough of them."""
    if data.metric != "failed_requests" or not len(data.baseline) or not len(data.candidate):
        return False
    return not data.baseline.any() and not data.candidate.any()


def _without_failures_text(data: SeriesData) -> str:
    fewest = min(data.baseline_requests, data.candidate_requests)
    text = "no request failed on either side"
    # The rule of three: with no event among n, the rate is below 3/n at 95 %.
    return (
        f"{text}; of {fewest} requests, a rate of up to {min(1.0, 3 / fewest):.1%} would show none" if fewest else text
    )


def _why_no_estimate(data: SeriesData) -> str:
    data = data.without_gaps()
    if data.capacities is not None and all(data.capacities):
        return "no ratio of capacities can be formed: the rates that were sent lie on one side of them"
    if not len(data.baseline) or not len(data.candidate):
        return f"not measured on the {'candidate' if len(data.baseline) else 'baseline'}"
    if data.is_infinite:
        return "a value is infinite: measure that run again"
    return "a value is zero or negative: no ratio can be formed"


def _runs_needed(
    data: SeriesData, assessment: _SeriesAssessment, change: float, error: float, tail: float, expected_cv: float
) -> tuple[int | None, list[str]]:
    """The smaller number of runs that would show either verdict, if the present estimate were true."""
    have = max(len(data.baseline), len(data.candidate))
    notes = []
    run_sd, bound, loss = assessment.run_sd, margin_as_loss(data), assessment.loss
    if assessment.interval is None:
        notes.append("at least two runs a side are needed to estimate the spread")
        loss = 0.0  # one pair shows nothing about the loss: plan for an unchanged version
    if run_sd is None or run_sd == 0.0:
        run_sd = expected_cv
        notes.append(f"runs needed assume a run-to-run spread of {expected_cv:.0%}")
    options = [runs_to_resolve(bound - loss, run_sd, tail)]
    if assessment.interval is not None and change >= data.margin / 2:
        options.append(runs_to_resolve(loss, run_sd, error))
    reachable = [option for option in options if option is not None]
    if not reachable:
        notes.append(f"more than {MAX_RUNS} runs a side would be needed: use a wider margin or a quieter machine")
        return None, notes
    return max(min(reachable), have + 1, 2), notes
