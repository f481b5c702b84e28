"""What a comparison over several hosts says of each of them: its blocks, its level, its change, and whether it is odd.

The decision takes the blocks of all hosts as pairs, so a host's level cancels (`series_comparison`). This is beside it:
the mean over the series that gate, each weighted by the inverse of its usual variance, as the statistics of all series
together have it.

`class_status` says the same of hosts without a comparison, from their newest runs of any version: how they scatter, how
far apart they are, and whether one has stepped away from the others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri

from regress_gate.gate.replicates import Replicates, run_level_values, shared_trials
from regress_gate.gate.sides import run_start, sides_by_version
from regress_gate.model.metric import CAPACITY, Direction, Scale, metric
from regress_gate.model.policy import Policy
from regress_gate.model.result import HostOut
from regress_gate.model.run import Run
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import REPORTED_FACTS
from regress_gate.model.version import Version
from regress_gate.stats.changepoints import detect
from regress_gate.stats.design import nominal_level
from regress_gate.stats.estimate import SeriesData
from regress_gate.stats.hosts import (
    FittedLevels,
    HostMeans,
    find_deviating,
    find_outlying,
    fit_levels,
    host_means,
)
from regress_gate.stats.multiplicity import family_members

Floats = npt.NDArray[np.float64]

_MOST_NAMED = 6
"""Hosts that a text names."""
_LEAST_STEP = 0.02
"""Steps of a host's level that are smaller are not told."""
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def compare_hosts(replicates: Replicates, series: Sequence[SeriesData], policy: Policy) -> list[HostOut]:
    """One for each host, by name; empty for a single host, or for runs that are in no blocks.

    `series` are those that were compared, with one value for each row of the replicates.
    """
    rows = sorted({*replicates.baseline, *replicates.candidate})
    names = sorted({testbed for _, _, testbed in rows})
    if not replicates.paired or len(names) < 2:
        return []
    hosts = np.array([names.index(testbed) for _, _, testbed in rows])
    gating = [one for one in series if one.gated and one.scenario is not None]
    whole = [gating[index] for index in family_members(gating) if len(gating[index].baseline) == len(rows)]
    if not whole:
        return [HostOut(name=name, blocks=int((hosts == at).sum())) for at, name in enumerate(names)]
    ours, theirs = (
        np.column_stack([one.sign * np.log(getattr(one, side)) for one in whole]) for side in ("baseline", "candidate")
    )
    least = np.array([2 * one.min_cv**2 for one in whole])
    weights = _usual_weights(host_means(theirs - ours, hosts, least), whole)
    levels = host_means((ours @ weights)[:, None], hosts, (weights**2 @ least / 2)[None])
    scores = np.column_stack([(theirs - ours) @ weights, theirs - ours])
    changes = host_means(scores, hosts, np.concatenate([[weights**2 @ least], least]))
    notes = _notes(levels, changes, [f"{one.scenario}/{one.metric}" for one in whole], replicates, policy)
    level, level_half = levels.relative(policy.confidence)
    change, change_half = changes.absolute(policy.confidence)
    return [
        HostOut(
            name=name,
            blocks=int(levels.blocks[at]),
            level=_share(level[at, 0]),
            level_interval=_interval(level, level_half, at),
            change=_share(change[at, 0]),
            change_interval=_interval(change, change_half, at),
            notes=notes[at],
        )
        for at, name in enumerate(names)
    ]


def host_warnings(hosts: Sequence[HostOut], runs: Iterable[Run]) -> list[str]:
    """Hosts that differ from the others, and facts of machines of one class that are not the same on all."""
    warnings = [f"{host.name} {note}" for host in hosts for note in host.notes]
    if not hosts:
        return warnings
    for fact in REPORTED_FACTS:
        found: dict[str, set[str]] = {}
        for run in runs:
            if (value := getattr(run.testbed, fact)) is not None:
                found.setdefault(value, set()).add(run.testbed.name)
        if len(found) > 1:
            listed = "; ".join(f"{value} on {_some(names)}" for value, names in sorted(found.items()))
            warnings.append(f"{fact} is not the same on all hosts: {listed}")
    return warnings


def _usual_weights(changes: HostMeans, series: Sequence[SeriesData]) -> Floats:
    """Shape (series,), adding up to 1. Variances are averaged within a metric: weights that are fitted to few blocks
    would make the same blocks look quieter than they are."""
    if not changes.freedom:
        return np.full(len(series), 1 / len(series))
    logs = np.log(changes.variance)
    metrics = [one.metric for one in series]
    usual = np.array([np.exp(logs[[each == name for each in metrics]].mean()) for name in metrics])
    return np.asarray(1 / usual / (1 / usual).sum())


def _notes(
    levels: HostMeans, changes: HostMeans, names: Sequence[str], replicates: Replicates, policy: Policy
) -> list[list[str]]:
    notes: list[list[str]] = [[] for _ in range(len(levels.means))]
    budget = nominal_level(policy.false_alarm_budget, replicates.interim)
    for one in find_deviating(changes, budget):
        what = "over all series" if one.score == 0 else f"of {names[one.score - 1]}"
        own = float(changes.means[one.host, one.score])
        notes[one.host].append(
            f"differs from the other hosts by more than chance allows: its change {what} is "
            f"{_words(own)}, theirs {_words(own - one.difference)}"
        )
    centred, _ = levels.relative(policy.confidence)
    for host in find_outlying([float(level) for level in levels.means[:, 0]], budget):
        notes[host].append(
            f"lies apart from the other hosts: its baseline is {_words(float(centred[host, 0]))} "
            "than the hosts' mean, more than they differ among each other"
        )
    return notes


def _words(loss: float) -> str:
    share = _share(loss)
    return f"{abs(share):.1%} {'worse' if share >= 0 else 'better'}"


def _share(loss: float) -> float:
    """Of a loss in logarithms: +0.05 is 5 % slower."""
    return math.expm1(loss)


def _interval(values: Floats, half: Floats | None, at: int) -> tuple[float, float] | None:
    if half is None:
        return None
    return _share(float(values[at, 0] - half[at, 0])), _share(float(values[at, 0] + half[at, 0]))


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _MOST_NAMED
    return ", ".join(ordered[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


# Without a comparison


@dataclass(frozen=True, slots=True)
class HostStep:
    """A host's level stepped away from the others'."""

    since: datetime | None
    """When the first session after it began."""
    change: float
    """+0.05: 5 % slower than before, relative to the others."""
    interval: tuple[float, float] | None
    probability: float


@dataclass(frozen=True, slots=True)
class HostStatus:
    name: str
    runs: int
    """Those that were looked at: the newest."""
    void: int
    """Of these."""
    failed: int
    """Of these, servers that failed."""
    sessions: int
    """In which runs count."""
    noise: float | None = None
    """Coefficient of variation between runs of one version in one session, the median of all series. None: no session
    has two."""
    noise_interval: tuple[float, float] | None = None
    noise_runs: int = 0
    """Runs behind it."""
    level: float | None = None
    """How much slower it is than the mean of the hosts of its class. None: alone, or without a version in common."""
    level_interval: tuple[float, float] | None = None
    """None: no session more than the hosts and versions need."""
    steps: tuple[HostStep, ...] = ()


@dataclass(slots=True)
class _Session:
    """Runs of one version on one host that were made together."""

    host: str
    version: Version
    values: list[Floats]
    """Of each run, over the series: logarithms in which larger is worse."""
    started: datetime | None


def class_status(runs: Mapping[str, Sequence[Run]], limits: ConditionLimits, policy: Policy) -> list[HostStatus]:
    """Of the hosts of one class, by name, from their newest runs of one suite."""
    sides = {host: sides_by_version(own, limits) for host, own in runs.items()}
    counted = {host: [run for side in own for run in side.counted] for host, own in sides.items()}
    sessions = _sessions(counted, policy)
    measured = sorted({one.host for one in sessions})
    fitted = None
    if len(measured) > 1:
        versions = sorted({str(one.version) for one in sessions})
        fitted = fit_levels(
            np.array([np.mean(one.values) for one in sessions]),
            np.array([measured.index(one.host) for one in sessions]),
            np.array([versions.index(str(one.version)) for one in sessions]),
            policy.confidence,
        )
    found = []
    for host, own in sides.items():
        noise = _noise([one for one in sessions if one.host == host], policy.confidence)
        status = HostStatus(
            name=host,
            runs=len(runs[host]),
            void=sum(len(side.void) for side in own),
            failed=sum(len(side.failed) for side in own),
            sessions=len({run.session for run in counted[host]}),
            noise=noise[0],
            noise_interval=noise[1],
            noise_runs=noise[2],
        )
        if fitted is not None and host in measured:
            status = _with_level(status, fitted, measured.index(host), sessions)
        found.append(status)
    return found


def _sessions(counted: Mapping[str, Sequence[Run]], policy: Policy) -> list[_Session]:
    """In the order of time. Only series that most runs have, and the runs that have all of these."""
    everything = [run for runs in counted.values() for run in runs]
    ordinals = shared_trials(everything)
    tables = {id(run): run_level_values([run], ordinals) for run in everything}
    have = Counter(
        key
        for table in tables.values()
        for key, values in table.items()
        if policy.gates(key[1]) and _is_timing(key[1]) and min(values.per_run, default=0.0) > 0
    )
    keys = sorted(key for key, count in have.items() if 2 * count > len(everything))
    signs = np.array([1.0 if metric(name).direction is Direction.LOWER else -1.0 for _, name in keys])
    sessions: dict[tuple[str, object, Version], _Session] = {}
    for host, runs in counted.items():
        for run in runs:
            means = [table[key].per_run if (table := tables[id(run)]) and key in table else [] for key in keys]
            if not keys or any(min(values, default=0.0) <= 0 for values in means):
                continue
            values = signs * np.log([sum(each) / len(each) for each in means])
            one = sessions.setdefault((host, run.session, run.version), _Session(host, run.version, [], run_start(run)))
            one.values.append(values)
    return sorted(sessions.values(), key=lambda one: one.started or _EARLIEST)


def _is_timing(name: str) -> bool:
    known = metric(name)
    return known.scale is Scale.RATIO and not known.per_run and name != CAPACITY


def _noise(sessions: Sequence[_Session], confidence: float) -> tuple[float | None, tuple[float, float] | None, int]:
    several = [np.vstack(one.values) for one in sessions if len(one.values) > 1]
    freedom = sum(len(values) - 1 for values in several)
    if not freedom:
        return None, None, 0
    squares = sum(((values - values.mean(axis=0)) ** 2).sum(axis=0) for values in several)
    noise = float(np.median(np.sqrt(squares / freedom)))
    low, high = (
        noise * math.sqrt(freedom / float(chdtri(freedom, tail)))
        for tail in ((1 - confidence) / 2, (1 + confidence) / 2)
    )
    return noise, (low, high), sum(map(len, several))


def _with_level(status: HostStatus, fitted: FittedLevels, at: int, sessions: Sequence[_Session]) -> HostStatus:
    level = float(fitted.levels[at])
    interval = None
    if fitted.half is not None:
        interval = _share(level - float(fitted.half[at])), _share(level + float(fitted.half[at]))
    own = [place for place, one in enumerate(sessions) if one.host == status.name]
    steps = [
        HostStep(sessions[own[point.index]].started, point.change, point.change_interval, point.probability)
        for point in detect(np.exp(fitted.own[own]), min_change=_LEAST_STEP)
        if point.change is not None
    ]
    return replace(status, level=_share(level), level_interval=interval, steps=tuple(steps))
