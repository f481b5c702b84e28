"""Find which of many series got worse, with one false-alarm budget for all tests of a gate.

A regression may be in one series, in one scenario, in one metric over all scenarios (a tail), or in everything. Each of
these is a group of series that is tested as one, by a weighted mean of their losses; metrics weigh by the inverse of
their usual variance. The budget is split between the four kinds of groups and evenly within each kind. Holm's rule with
weights (1979, Scand. J. Statist. 6:65-70) adjusts the p-values. So the chance that anything is called worse when
nothing is, is at most the budget, whatever the dependence between series.

Covariate adjustment: a run that was lucky was lucky in every scenario, so the *other* scenarios distinguish luck from
loss. Series and scenarios are tested relative to the rest, with one coefficient for all similar groups (least squares
over the runs' deviations). Where the rest itself has changed, nothing is subtracted, because an improvement elsewhere
is not a loss here. As a second guard, nothing is called worse that would not be significant in its own plain test.
Weights that are fitted to runs underestimate the spread of these same runs, so there are few of them: free covariances
gave 13 to 50 % false alarms where these keep the promise (tests/stats).

A group's test shows that the group got worse. Its series are then named by their own tests, each at the budget: which
series of the group it is, is controlled less strictly than that there is one.

`family_members`, `with_history` and `make_family` choose which series of a gate are one family. A family needs all its
series in all its runs, and history helps only as far as all its series have one. Not for the series that are left out
(`comparison`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import fdtrc

from regress_gate.model.metric import Scale
from regress_gate.stats.contrasts import ContrastEvidence, Measurements, deviations_of, weigh_contrasts
from regress_gate.stats.design import InterimStage
from regress_gate.stats.estimate import SeriesData

Floats = npt.NDArray[np.float64]


def holm(p_values: Sequence[float]) -> list[float]:
    """Family-wise adjusted p-values by the step-down rule of Holm (1979, Scand. J. Statist. 6:65-70).

    Valid under any dependence between the series. Same order and length as the input; each is in [0, 1].
    """
    return [float(q) for q in weighted_holm(np.asarray(p_values, dtype=np.float64), np.ones(len(p_values)))]


def weighted_holm(p_values: Floats, weights: Floats) -> Floats:
    """As `holm`, where some tests get a larger part of the budget: `weights`, positive, same shape.

    At each step the weights of what has not been rejected yet share the whole budget (Holm's section 4).
    """
    order = np.argsort(p_values / weights, kind="stable")
    left = weights[order][::-1].cumsum()[::-1]
    stepped = np.maximum.accumulate(p_values[order] / weights[order] * left)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


Ints = npt.NDArray[np.int64]

_SHARES = {"series": 0.25, "scenario": 0.30, "metric": 0.10, "all": 0.35}
"""Shares of the budget by kind of group. The share of a kind that does not occur goes to the others."""
_REST_MOVED, _REST_STILL = 0.01, 0.10
"""Two-sided p-values of "the rest has not changed" below which no adjustment is made, and above which it is made
in full; in proportion between."""
_PARTS = 10.0
"""Factor on the p-value of a change among the parts of the rest, compared with that of their mean."""
_DOUBT = 3.0
"""Weight of the prior belief that the rest predicts nothing, in degrees of freedom."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Series that were all measured in all runs."""

    found: Measurements
    scenarios: Ints
    """Shape (m,): a number for each scenario; negative for a series of no group, such as what a server does once."""
    metrics: Ints
    """Shape (m,): a number for each metric, from 0."""
    floor: Floats
    """Shape (m,): the least variance between runs that is assumed."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kind:
    """Groups of one kind that share their variance."""

    share: float
    """Of the budget, for each of them."""
    groups: tuple[Ints, ...]
    inside: Floats
    """Shape (m, groups): weights that make a group's mean loss."""
    rest: Floats
    """Shape (m, groups): weights of the rest it is compared with; a column of zeros where there is none."""
    parts: Ints
    """Shape (m,): a number for each part of the rest, none of which may have changed."""


def own_evidence(family: Family) -> tuple[ContrastEvidence, ...]:
    """The evidence on every series by itself; one ContrastEvidence a metric, its series in the order of the family."""
    identity = np.eye(len(family.metrics))
    return tuple(
        weigh_contrasts(family.found, identity[:, family.metrics == metric], family.floor)
        for metric in range(int(family.metrics.max()) + 1)
    )


def spread_over(family: Family, parts: Sequence[Floats]) -> Floats:
    """Puts values that come metric by metric back into the order of the family."""
    whole = np.empty(len(family.metrics))
    for metric, values in enumerate(parts):
        whole[family.metrics == metric] = values
    return whole


def adjusted_p_values(family: Family, others: Sequence[float] = (), *, better: bool = False) -> tuple[Floats, Floats]:
    """Family-wise adjusted p-values of "this series did not get worse" (with `better`, improve).

    `others` are p-values of series that share the budget but cannot be part of the family. Returns those of the family,
    shape (m,), and of the others, in their order.
    """
    if better:
        family = _mirrored(family)
    own = own_evidence(family)
    plain = spread_over(family, [each.p_above(0.0) for each in own])
    kinds = _kinds(family, own, len(others))
    groups = [group for kind in kinds for group in kind.groups]
    still = _RestTrust(family)
    p_values = np.concatenate([*(_p_values(family, kind, still) for kind in kinds), others])
    alone = next(kind.share for kind in kinds)
    shares = np.concatenate([*(np.full(len(kind.groups), kind.share) for kind in kinds), np.full(len(others), alone)])
    adjusted_shares = weighted_holm(p_values, shares)
    adjusted = np.ones(len(plain))
    for group, q in zip(groups, adjusted_shares[: len(groups)], strict=True):
        adjusted[group] = np.minimum(adjusted[group], np.maximum(q, plain[group]))
    return adjusted, adjusted_shares[len(groups) :]


def _mirrored(family: Family) -> Family:
    measurements = family.found
    earlier = tuple(-session for session in measurements.earlier)
    return replace(
        family,
        found=replace(
            measurements, baseline=-measurements.baseline, candidate=-measurements.candidate, earlier=earlier
        ),
    )


def _kinds(family: Family, own: Sequence[ContrastEvidence], others: int) -> list[_Kind]:
    """The battery: first the series, then whatever groups there are that are not one of those already."""
    everything = np.arange(len(family.metrics))
    usual = np.array([np.exp(np.log(each.run_variance).mean()) for each in own])
    weights = np.where(family.scenarios >= 0, 1 / usual[family.metrics], 0.0)
    grouped = everything[family.scenarios >= 0]
    scenarios = _groups(grouped, family.scenarios)
    metrics = _groups(grouped, family.metrics)
    of_scenarios = np.column_stack([_mean_weights(weights, group) for group in scenarios]) if scenarios else None
    comparisons: list[tuple[str, list[Ints], Floats, Floats]] = []
    series = [np.array([index]) for index in everything]
    comparisons.append(
        ("series", series, np.eye(len(everything)), _rest_weights(family.scenarios, series, scenarios, of_scenarios))
    )
    if 1 < len(scenarios) < len(grouped) and of_scenarios is not None:
        rest = _rest_weights(family.scenarios, scenarios, scenarios, of_scenarios)
        comparisons.append(("scenario", scenarios, of_scenarios, rest))
    if 1 < len(metrics) < len(grouped):
        of_metrics = np.column_stack([_mean_weights(weights, group) for group in metrics])
        rest = np.column_stack([_mean_weights(weights, np.setdiff1d(grouped, group)) for group in metrics])
        comparisons.append(("metric", metrics, of_metrics, rest))
    if len(grouped) > 1:
        comparisons.append(("all", [grouped], _mean_weights(weights, grouped)[:, None], np.zeros((len(everything), 1))))
    total = sum(_SHARES[kind] for kind, *_ in comparisons)
    kinds = []
    for kind, groups, inside, rest in comparisons:
        count = len(groups) + (others if kind == "series" else 0)
        for alike in _groups_alike(family, kind, groups):
            members = tuple(groups[index] for index in alike)
            parts = family.metrics if kind == "metric" else family.scenarios
            kinds.append(_Kind(_SHARES[kind] / total / count, members, inside[:, alike], rest[:, alike], parts))
    return kinds


def _groups(grouped: Ints, labels: Ints) -> list[Ints]:
    return [grouped[labels[grouped] == label] for label in np.unique(labels[grouped])]


def _mean_weights(weights: Floats, group: Ints) -> Floats:
    """Shape (m,): weights of a group's weighted mean."""
    column = np.zeros(len(weights))
    column[group] = weights[group] / weights[group].sum()
    return column


def _rest_weights(labels: Ints, groups: Sequence[Ints], scenarios: Sequence[Ints], columns: Floats | None) -> Floats:
    """Shape (m, groups): for each the mean over all scenarios but its own; zeros for what is of no scenario."""
    rest = np.zeros((len(labels), len(groups)))
    if columns is None or len(scenarios) < 2:
        return rest
    whole = columns.sum(axis=1)
    of_label = {
        labels[each[0]]: (whole - column) / (len(scenarios) - 1)
        for each, column in zip(scenarios, columns.T, strict=True)
    }
    for at, group in enumerate(groups):
        rest[:, at] = of_label.get(labels[group[0]], 0.0)
    return rest


def _groups_alike(family: Family, kind: str, groups: Sequence[Ints]) -> list[Ints]:
    """Which groups can share their variance: series of one metric; scenarios with the same metrics."""
    if kind == "metric":
        return [np.array([index]) for index in range(len(groups))]
    signatures = [tuple(sorted(family.metrics[group])) for group in groups]
    return [
        np.array([index for index, each in enumerate(signatures) if each == one]) for one in dict.fromkeys(signatures)
    ]


def _p_values(family: Family, kind: _Kind, still: "_RestTrust") -> Floats:
    """One-sided, of "the group's mean loss is not positive", adjusted by the rest."""
    held = kind.rest.any(axis=0)
    if not held.any():
        return weigh_contrasts(family.found, kind.inside, family.floor).p_above(0.0)
    deviations, freedom = deviations_of(family.found)
    ours, theirs = deviations @ kind.inside[:, held], deviations @ kind.rest[:, held]
    explained = float((theirs**2).sum())
    slope = float((ours * theirs).sum()) / explained if explained > 0 else 0.0
    slope = min(1.0, max(0.0, slope)) * freedom / (freedom + _DOUBT)
    trusts = still.trust(kind.rest, kind.parts)
    p_values = np.ones(len(trusts))
    for trust in np.unique(trusts):
        # All groups at the same trust, so that only similar contrasts share their variances.
        alike = weigh_contrasts(family.found, kind.inside - slope * trust * kind.rest, family.floor)
        p_values[trusts == trust] = alike.p_above(0.0)[trusts == trust]
    return p_values


class _RestTrust:
    """How far each rest can be trusted not to have changed itself. Several groups are compared with the same rest."""

    def __init__(self, family: Family):
        self._family = family
        self._known: dict[bytes, float] = {}

    def trust(self, rest: Floats, parts: Ints) -> Floats:
        """Shape (groups,): from 0, where the rest or a part of it has clearly changed, to 1; 0 where there is no
        rest."""
        return np.array([self._of(column, parts) if column.any() else 0.0 for column in rest.T])

    def _of(self, column: Floats, parts: Ints) -> float:
        key = column.tobytes()
        if key not in self._known:
            moved = weigh_contrasts(self._family.found, column[:, None], self._family.floor)
            p_value = 2 * min(float(moved.p_above(0.0)[0]), float(moved.p_below(0.0)[0]))
            p_value = min(p_value, _PARTS * self._alike(column, parts))
            self._known[key] = float(np.clip((p_value - _REST_MOVED) / (_REST_STILL - _REST_MOVED), 0.0, 1.0))
        return self._known[key]

    def _alike(self, column: Floats, parts: Ints) -> float:
        """p-value of "all parts changed alike": when half of them improved, their mean hardly shows it."""
        names = np.unique(parts[column != 0])
        if len(names) < 2:
            return 1.0
        means = np.where(parts[:, None] == names, column[:, None], 0.0)
        means = means / means.sum(axis=0)
        evidence = weigh_contrasts(self._family.found, means - means.mean(axis=1, keepdims=True), self._family.floor)
        ratio = float((evidence.estimate**2 / evidence.run_variance).mean() / evidence.per_run)
        return float(fdtrc(len(names) - 1, evidence.freedom.min(), ratio))


@dataclass(frozen=True, slots=True)
class MeasurementDesign:
    """How the runs of all series were measured."""

    paired: bool = False
    """Value i of either side was measured in the same block."""
    apart: bool = False
    """The sides were measured in different sessions."""
    earlier: tuple[tuple[Floats, ...], ...] = ()
    """Earlier sessions of one version each; each holds, for every series in order, values of shape (runs,), NaN where
    there is none. For paired measurements: logarithms of the ratio of the two sides of earlier blocks."""
    interim: InterimStage | None = None
    """None: the data are analysed once, at the end."""


def family_members(series: Sequence[SeriesData]) -> list[int]:
    """Ratio metrics that every run of both sides has, at least two a side; the commonest shape where they differ."""
    whole = [
        index
        for index, data in enumerate(series)
        if data.scale is Scale.RATIO
        and data.capacities is None
        and min(len(data.baseline), len(data.candidate)) > 1
        and _has_logarithm(np.concatenate([data.baseline, data.candidate])).all()
    ]
    shapes = [(len(series[index].baseline), len(series[index].candidate)) for index in whole]
    if not shapes:
        return []
    commonest = max(shapes, key=lambda shape: (shapes.count(shape), shape))
    return [index for index, shape in zip(whole, shapes, strict=True) if shape == commonest]


def with_history(places: Sequence[int], design: MeasurementDesign) -> list[bool]:
    """For each of the series at `places` whether it is one of those that use history best: the most values in rows
    that have all of them.

    So a new metric, or a scenario that earlier runs lacked, does not cost the others their history. All of them, if
    there is no history.
    """
    rows = [_history_rows(session, places, design) for session in design.earlier if places]
    usable = np.vstack([np.isfinite(each) for each in rows]) if rows else np.zeros((0, len(places)), dtype=bool)
    patterns = np.unique(usable[usable.any(axis=1)], axis=0)
    if not len(patterns):
        return [True] * len(places)
    best = max(patterns, key=lambda each: (each.sum() * usable[:, each].all(axis=1).sum(), each.sum()))
    return [bool(kept) for kept in best]


def make_family(series: Sequence[SeriesData], places: Sequence[int], design: MeasurementDesign) -> Family:
    """Of series that `family_members` accepts together; `places`: their positions among all series of the gate."""
    signs = np.array([data.sign for data in series])
    sides = [
        signs * np.log(np.column_stack([getattr(data, side) for data in series])) for side in ("baseline", "candidate")
    ]
    earlier = []
    for session in design.earlier:
        values = _history_rows(session, places, design)
        whole = values[np.isfinite(values).all(axis=1)]
        if len(whole):
            earlier.append(signs * whole)
    measurements = Measurements(sides[0], sides[1], design.paired, design.apart, tuple(earlier))
    metrics = [data.metric or f"#{index}" for index, data in enumerate(series)]
    scenarios = [data.scenario for data in series]
    named = [name for name in dict.fromkeys(scenarios) if name is not None]
    return Family(
        measurements,
        np.array([-1 if name is None else named.index(name) for name in scenarios]),
        np.array([list(dict.fromkeys(metrics)).index(name) for name in metrics]),
        np.array([data.min_cv**2 for data in series]),
    )


def _has_logarithm(values: Floats) -> npt.NDArray[np.bool_]:
    return np.isfinite(values) & (values > 0)


def _history_rows(session: tuple[Floats, ...], places: Sequence[int], design: MeasurementDesign) -> Floats:
    """Shape (runs, places): an earlier session in logarithms, on the scale of one run; NaN where there is none."""
    values = np.column_stack([session[place] for place in places])
    if design.paired:
        logs = np.where(np.isfinite(values), values, np.nan) / np.sqrt(2)
    else:
        known = _has_logarithm(values)
        logs = np.where(known, np.log(np.where(known, values, 1.0)), np.nan)
    return np.asarray(logs)
