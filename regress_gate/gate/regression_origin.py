"""Where in the version history a regression came from: with the candidate, or with an older version before it.

A regression that a comparison has shown is a step between two ends. Versions between them that were measured on the
same testbed and suite are put on their side of the step (`stats.step_position`). The step is then between the last
version before it and the first after it. Of a long history, the versions nearest to the candidate are read
(`choose_history`); where all of them have the step, it came with the first of them at the latest. If a version older
than the baseline is at the candidate's level, the baseline may be the exception. Changes no verdict: a loss counts,
whichever version caused it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from regress_gate.gate.history import order_sides
from regress_gate.gate.replicates import pair_runs, run_level_values, shared_trials
from regress_gate.gate.sides import ComparisonSide, compare_sides
from regress_gate.model.metric import Scale, metric
from regress_gate.model.policy import Policy
from regress_gate.model.result import ChangePointOut, Result, SeriesResult, Verdict, VersionLevelOut
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Version
from regress_gate.stats.estimate import least_spread
from regress_gate.stats.linear_models import StepEnds, StepPosition, step_positions
from regress_gate.store.store_interface import Holding

_LATEST = datetime.max.replace(tzinfo=UTC)


HISTORY_VERSIONS = 24
"""Other versions that are read at most, to find where a regression came from."""
_NEAREST_OLDER = 4
"""Of them before the baseline: the nearest may not be comparable."""
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class HistoryChoice:
    """Which of the stored versions are read to find where a regression came from."""

    read: tuple[Version, ...]
    unread: tuple[Version, ...] = ()
    """Versions between the baseline and the first that is read after it."""


def choose_history(held: Sequence[Holding], baseline: Version, candidate: Version) -> HistoryChoice:
    """Of what is held of one testbed and suite, both versions among it: everything, if that is not too much; else the
    versions nearest to the candidate, back to the baseline, and the nearest before that."""
    ends = baseline, candidate
    times: dict[Version, datetime] = {}
    for each in held:
        times[each.version] = min(times.get(each.version, each.first or _LATEST), each.first or _LATEST)
    others = [version for version in times if version not in ends]
    if len(others) <= HISTORY_VERSIONS or not all(end in times for end in ends):
        return HistoryChoice(tuple(others[:HISTORY_VERSIONS]))

    def place(version: Version) -> tuple[object, str]:
        return (times[version] if version.order_key is None else version.order_key), str(version)

    line = sorted(
        (v for v in times if (v.order_key is None, v.variant) == (baseline.order_key is None, baseline.variant)),
        key=place,
    )
    if candidate not in line:
        return HistoryChoice(())
    first, last = sorted((line.index(baseline), line.index(candidate)))
    between, before, after = line[first + 1 : last], line[:first][::-1], line[last + 1 :]
    if line[first] == candidate:  # a downgrade: the baseline is the newer one
        between, before = between[::-1], after
    older = before[:_NEAREST_OLDER]
    kept = between[-(HISTORY_VERSIONS - len(older)) :]
    return HistoryChoice((*kept, *older), tuple(between[: len(between) - len(kept)]))


@dataclass(frozen=True, slots=True)
class VersionLevel:
    """A version of the history with what it measured of a series."""

    version: Version
    per_run: tuple[float, ...]
    position: StepPosition | None
    """On which side of the regression it is; None for a version without the series."""

    def as_out(self, scale: Scale) -> VersionLevelOut:
        mean = lowest = highest = None
        if self.per_run:
            values = np.array(self.per_run)
            lowest, highest = float(values.min()), float(values.max())
            mean = float(np.exp(np.log(values).mean()) if scale is Scale.RATIO and lowest > 0 else values.mean())
        position = None if self.position is None else self.position.value
        return VersionLevelOut(
            version=str(self.version),
            runs=len(self.per_run),
            mean=mean,
            lowest=lowest,
            highest=highest,
            position=position,
        )


@dataclass(frozen=True, slots=True)
class RegressionOrigin:
    """Where in the history a regression of the candidate came from."""

    series: str
    """`scenario/metric`."""
    baseline: Version
    after: Version
    """The last version that is shown to be without it."""
    at: Version
    """The first that is shown to have it, with none shown to be without it since; else the candidate."""
    untold: tuple[Version, ...]
    """Versions between the two whose runs do not show on which side they are, or were not read."""
    candidate: Version
    before_baseline: Version | None
    """The nearest version before the baseline, if it is shown to be at the candidate's level."""
    levels: tuple[VersionLevel, ...] = ()
    """The versions that were looked at, from before the baseline to the candidate."""

    @property
    def is_older(self) -> bool:
        """Whether an older version is shown to have it."""
        return self.at != self.candidate

    @property
    def says_something(self) -> bool:
        """Whether it says more than the comparison itself, that the candidate is worse than the baseline."""
        return self.after != self.baseline or self.is_older or bool(self.untold) or self.before_baseline is not None

    @property
    def text(self) -> str:
        untold = ", ".join(map(str, self.untold[:_MAX_NAMED]))
        untold += f" and {len(self.untold) - _MAX_NAMED} more" if len(self.untold) > _MAX_NAMED else ""
        if self.is_older and not untold:
            text = f"this step came with {self.at}, not with {self.candidate}"
        elif self.is_older:
            text = f"this step came after {self.after} and with {self.at} at the latest, not with {self.candidate}"
        elif untold:
            text = f"this step came after {self.after}; the runs of {untold} do not show whether they have it"
        elif self.after != self.baseline:
            text = f"this step came with {self.candidate}: {self.after} is without it"
        else:
            text = ""
        if self.before_baseline is None:
            return text
        earlier = f"{self.before_baseline}, before the baseline, was at the level of {self.candidate}"
        return f"{text}; {earlier}" if text else earlier

    def as_out(self) -> ChangePointOut:
        """An entry of the result's `change_points`."""
        scale = metric(self.series.rpartition("/")[2]).scale
        return ChangePointOut(
            series=self.series,
            kind="step",
            version=str(self.at),
            after=str(self.after),
            untold=[str(version) for version in self.untold],
            is_candidates=not self.is_older,
            before_baseline=None if self.before_baseline is None else str(self.before_baseline),
            text=self.text,
            versions=[level.as_out(scale) for level in self.levels],
        )


def add_regression_origins(
    result: Result,
    baseline: ComparisonSide,
    candidate: ComparisonSide,
    history: Sequence[ComparisonSide],
    policy: Policy,
    limits: ConditionLimits,
    unread: Sequence[Version] = (),
) -> Result:
    """The result with the origin of each regression in `change_points` and in the notes of its series, and a warning
    where the candidate is not the cause. The decision stays."""
    pairing = pair_runs(baseline.counted, candidate.counted)
    ends = replace(baseline, counted=pairing.baseline), replace(candidate, counted=pairing.candidate)
    origins = find_regression_origins(*ends, history, result.series, policy, limits, unread)
    if not origins:
        return result
    texts = {origin.series: origin.text for origin in origins}
    return result.model_copy(
        update={
            "series": [
                one.model_copy(update={"notes": [*one.notes, texts[one.name]]}) if one.name in texts else one
                for one in result.series
            ],
            "warnings": [*result.warnings, *_warnings(origins, len(_regressed(result.series)))],
            "change_points": [*result.change_points, *(origin.as_out() for origin in origins)],
        }
    )


def _warnings(origins: Sequence[RegressionOrigin], regressions: int) -> list[str]:
    """How many of the regressions did not come with the candidate; the notes of the series say more."""
    candidate, baseline = origins[0].candidate, origins[0].baseline
    warnings = []
    if older := [origin.at for origin in origins if origin.is_older]:
        text = f"{len(older)} of {regressions} regressions did not come with {candidate}"
        warnings.append(f"{text}: already there in {_names(older)}")
    if earlier := [origin.before_baseline for origin in origins if origin.before_baseline is not None]:
        text = f"in {len(earlier)} of {regressions} regressions {_names(earlier)} was at the level of {candidate}"
        warnings.append(f"{text}: {baseline} may be the exception")
    return warnings


def _names(versions: Sequence[Version]) -> str:
    return ", ".join(dict.fromkeys(map(str, versions)))


def _regressed(series: Sequence[SeriesResult]) -> list[SeriesResult]:
    return [one for one in series if one.verdict is Verdict.REGRESSION]


def find_regression_origins(
    baseline: ComparisonSide,
    candidate: ComparisonSide,
    history: Sequence[ComparisonSide],
    series: Sequence[SeriesResult],
    policy: Policy,
    limits: ConditionLimits,
    unread: Sequence[Version] = (),
) -> list[RegressionOrigin]:
    """The origin of each regression among `series` that the history has measured.

    `history`: other versions of the same suite and testbed. Those that are not comparable, of another variant, or
    without an order relative to the two ends are left out. `unread`: versions between the baseline and the first of
    the history after it.
    """
    regressed = _regressed(series)
    if not regressed or baseline.version == candidate.version:
        return []
    between, older = _neighbours_in_history(
        baseline, candidate, _comparable_sides(baseline, candidate, history, limits)
    )
    others = [*between, *older]
    chain = [baseline, candidate, *others]
    ordinals = shared_trials(run for side in chain for run in side.counted)
    values = [run_level_values(side.counted, ordinals) for side in chain]
    error = policy.false_alarm_budget / len(regressed)
    origins = []
    for one in regressed:
        key = one.scenario, one.metric
        per_side = [tuple(each[key].per_run) if key in each else () for each in values]
        stands = _positions(per_side, one.metric, error)
        placed = [(side.version, place) for side, place in zip(others, stands, strict=True)]
        if any(place is not None for place in stands):
            origin = _origin(one.name, baseline.version, candidate.version, placed, len(between), unread)
            positions = [StepPosition.BEFORE, StepPosition.AFTER, *stands]
            first, last, *rest = map(VersionLevel, (side.version for side in chain), per_side, positions)
            origins.append(replace(origin, levels=(*rest[len(between) :], first, *rest[: len(between)], last)))
    return [origin for origin in origins if origin.says_something]


def _comparable_sides(
    baseline: ComparisonSide, candidate: ComparisonSide, history: Sequence[ComparisonSide], limits: ConditionLimits
) -> list[ComparisonSide]:
    return [
        side
        for side in history
        if side.counted
        and side.version not in (baseline.version, candidate.version)
        and all(compare_sides(end, side, limits).comparable for end in (baseline, candidate))
    ]


def _neighbours_in_history(
    baseline: ComparisonSide, candidate: ComparisonSide, others: Sequence[ComparisonSide]
) -> tuple[list[ComparisonSide], list[ComparisonSide]]:
    """Those between the two, from the baseline on, and the nearest before the baseline."""
    for line in order_sides([baseline, candidate, *others]).values():
        places = {side.version: place for place, side in enumerate(line)}
        if baseline.version in places and candidate.version in places:
            begin, end = places[baseline.version], places[candidate.version]
            if begin < end:
                return line[begin + 1 : end], line[:begin][-1:]
            return line[end + 1 : begin][::-1], line[begin + 1 :][:1]
    return [], []


def _positions(per_side: Sequence[Sequence[float]], name: str, error: float) -> list[StepPosition | None]:
    """Of all but the two ends, which come first; None for a version without this series."""
    arrays = [np.asarray(values, dtype=np.float64) for values in per_side]
    known = metric(name)
    there = [array for array in arrays if len(array)]
    if known.scale is Scale.RATIO:
        if any(array.min() <= 0 for array in there):
            return [None] * (len(arrays) - 2)
        arrays = [np.log(array) for array in arrays]
    before, after, *others = arrays
    measured = [array for array in others if len(array)]
    if not (len(before) and len(after) and measured):
        return [None] * len(others)
    positions = iter(step_positions(StepEnds(before, after), measured, error=error, least_sd=least_spread(known)))
    return [next(positions) if len(array) else None for array in others]


def _origin(
    name: str,
    baseline: Version,
    candidate: Version,
    placed: Sequence[tuple[Version, StepPosition | None]],
    between: int,
    unread: Sequence[Version],
) -> RegressionOrigin:
    """`placed`: the versions between the two, of which there are `between`, and then the one before the baseline."""
    after, at, untold = baseline, candidate, list(unread)
    for version, position in placed[:between]:
        if position is StepPosition.BEFORE:
            after, at, untold = version, candidate, []
        elif position is StepPosition.AFTER and at == candidate:
            at = version
        elif position is StepPosition.UNKNOWN and at == candidate:
            untold.append(version)
    earlier = next((version for version, position in placed[between:] if position is StepPosition.AFTER), None)
    return RegressionOrigin(name, baseline, after, at, tuple(untold), candidate, earlier)
