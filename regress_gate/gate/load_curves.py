"""Throughput against latency of both versions, over the loads at which the same traffic was sent.

Loads are those of scenarios that differ in nothing else than their concurrency or request rate, and the rates around a
capacity. A closed loop and an open one are never one curve: at a rate above what a server can take, the length of the
test decides its latency. Each point is a level over fresh servers, as an objective's is, and requests that failed count
as never answered. Only for pictures: what a promise decides is `objectives`' matter.
"""

import json
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from regress_gate.gate.objectives import is_meant, level_out, supports_statistic, value_of_all_requests
from regress_gate.gate.replicates import server_group, shared_trials
from regress_gate.model.metric import PROMISE_KEY, metric
from regress_gate.model.policy import Policy, objective_limit
from regress_gate.model.result import LoadCurveOut, LoadPointOut, ObjectiveSide
from regress_gate.model.run import Run, Trial
from regress_gate.stats.design import InterimStage, nominal_level
from regress_gate.stats.estimate import Level, estimate_level, least_spread

_LENGTHS = ("mean_input_tokens", "mean_output_tokens")
_BESIDE_TRAFFIC = frozenset(
    ["request_rate", "max_concurrency", "num_prompts", "seed", "warmup_requests", "prompts_sha256", "slo", *_LENGTHS]
) | {PROMISE_KEY}
"""Keys of a workload in which loads of the same traffic may differ."""
_SAME_LENGTH = 1.1
"""Factor between mean lengths up to which random lengths are the same traffic."""
_PERCENTILES = {0.9: "p90", 0.95: "p95", 0.99: "p99"}

Load = Literal["concurrency", "request_rate"]


@dataclass(slots=True)
class _Traffic:
    """What was sent at several loads."""

    load: Load
    lengths: tuple[float | None, ...]
    scenarios: dict[float, str] = field(default_factory=dict)
    """The scenario at each load."""
    promises: set[tuple[str, float, float]] = field(default_factory=set)
    """Latency, limit in seconds and the share of requests that keep it, of the scenarios that have one."""


def load_curves(
    baseline: Sequence[Run],
    candidate: Sequence[Run],
    policy: Policy,
    *,
    incomparable: Container[str] = (),
    interim: InterimStage | None = None,
) -> list[LoadCurveOut]:
    """One for each traffic that was sent at several loads, and each latency of it. Takes the runs that count.

    `incomparable`: scenarios that are not the same on both sides.
    """
    confidence = 1 - 2 * nominal_level((1 - policy.confidence) / 2, interim)
    ordinals = shared_trials((*baseline, *candidate))
    sides = [_by_load(runs, ordinals) for runs in (baseline, candidate)]
    curves = []
    for traffic in _traffics((*baseline, *candidate), incomparable):
        if len(traffic.scenarios) < 2:
            continue
        keys = [(scenario, traffic.load, load) for load, scenario in sorted(traffic.scenarios.items())]
        trials = [trial for side in sides for key in keys for _, run in side[key] for trial in run]
        throughput = next((name for name in _THROUGHPUTS if _is_known(name, trials)), None)
        latencies = [] if throughput is None else _latencies(traffic, policy, trials)
        for latency, limit in latencies:
            points = [_point(key, sides, (str(throughput), latency), confidence) for key in keys]
            known = [point for point in points if _is_shown(point)]
            if len(known) > 1:
                curves.append(
                    LoadCurveOut(
                        load=traffic.load,
                        throughput=str(throughput),
                        latency=latency,
                        limit=limit,
                        confidence=confidence,
                        points=known,
                    )
                )
    return curves


_THROUGHPUTS = ("output_throughput", "request_throughput")
_Key = tuple[str, Load, float]
"""Scenario, kind of load, and load."""
_RunTrials = tuple[str, Sequence[Trial]]
"""Where a run was made, and its trials at one load."""
_TrialsByLoad = Mapping[_Key, Sequence[_RunTrials]]


def _load_of(trial: Trial) -> tuple[Load, float] | None:
    """None where all requests were sent at once, or nothing is said of it."""
    load: Load = "concurrency" if trial.workload.get("request_rate") is None else "request_rate"
    value = trial.workload.get("max_concurrency" if load == "concurrency" else load)
    return (load, float(value)) if isinstance(value, int | float) and 0 < value < math.inf else None


def _traffics(runs: Iterable[Run], incomparable: Container[str]) -> list[_Traffic]:
    found: dict[str, list[_Traffic]] = defaultdict(list)
    seen: set[tuple[str, str, float]] = set()
    for run in runs:
        for trial in run.trials:
            load = None if trial.scenario in incomparable else _load_of(trial)
            if load is None or (key := (server_group(run), trial.scenario, load[1])) in seen:
                continue
            seen.add(key)
            kinds = found[_sent(run, trial, load[0])]
            lengths = tuple(map(trial.workload.get, _LENGTHS))
            traffic = next((one for one in kinds if _is_alike(one, lengths, load[1], trial.scenario)), None)
            if traffic is None:
                kinds.append(traffic := _Traffic(load[0], lengths))
            traffic.scenarios[load[1]] = trial.scenario
            traffic.promises.update(_promises(trial))
    return [traffic for kinds in found.values() for traffic in kinds]


def _sent(run: Run, trial: Trial, load: Load) -> str:
    """The server and everything that was sent, but for the load. The rates of a capacity are one scenario's."""
    kept: dict[str, Any] = {key: value for key, value in trial.workload.items() if key not in _BESIDE_TRAFFIC}
    kept["scenario"] = trial.scenario if PROMISE_KEY in trial.workload else None
    if load == "request_rate":
        kept["limit"] = trial.workload.get("max_concurrency")
    return json.dumps([server_group(run), load, kept], sort_keys=True, default=str)


def _is_alike(traffic: _Traffic, lengths: Sequence[object], load: float, scenario: str) -> bool:
    """Two scenarios with one load differ in something else, whatever that is."""
    if traffic.scenarios.get(load, scenario) != scenario:
        return False
    for one, other in zip(traffic.lengths, lengths, strict=True):
        if isinstance(one, int | float) and isinstance(other, int | float):
            low, high = sorted((one, other))
            if high > _SAME_LENGTH * low:
                return False
    return True


def _promises(trial: Trial) -> Iterable[tuple[str, float, float]]:
    slo, share = trial.workload.get("slo"), trial.workload.get(PROMISE_KEY, 0.99)
    for latency, limit in slo.items() if isinstance(slo, Mapping) else ():
        if isinstance(limit, int | float) and isinstance(share, float):
            yield latency, float(limit), share


def _by_load(runs: Iterable[Run], ordinals: Mapping[str, set[int]]) -> _TrialsByLoad:
    found: dict[_Key, list[_RunTrials]] = defaultdict(list)
    for run in runs:
        here: dict[_Key, list[Trial]] = defaultdict(list)
        for trial in run.trials:
            counts = PROMISE_KEY in trial.workload or trial.ordinal in ordinals[trial.scenario]
            if counts and (load := _load_of(trial)) is not None:
                here[trial.scenario, *load].append(trial)
        for key, trials in here.items():
            found[key].append((run.testbed.name, trials))
    return found


def _is_known(name: str, trials: Iterable[Trial]) -> bool:
    return any(name in trial.metrics and supports_statistic(trial, name) for trial in trials)


def _latencies(traffic: _Traffic, policy: Policy, trials: Sequence[Trial]) -> list[tuple[str, float | None]]:
    """What a curve is drawn of, with its limit: what the policy promises, else the scenarios, else the medians."""
    promised: dict[str, tuple[str, float]] = {}
    for latency, limit, share in sorted(traffic.promises):
        if sum(one[0] == latency for one in traffic.promises) == 1:
            statistic = next((name for level, name in _PERCENTILES.items() if share <= level), "p99")
            promised[latency] = f"{latency}_{statistic}", limit
    for key, limit_text in policy.slo.items():
        name = key.rpartition("/")[2]
        latency, _, _ = name.rpartition("_")
        if metric(name).unit == "s" and all(is_meant(key, one, name) for one in traffic.scenarios.values()):
            promised[latency] = name, objective_limit(key, limit_text)
    shown: list[tuple[str, float | None]] = []
    for latency in ("ttft", "tpot", "e2el"):
        if latency in promised and _is_known(promised[latency][0], trials):
            shown.append(promised[latency])
        elif (latency != "e2el" or not shown) and _is_known(median := f"{latency}_median", trials):
            shown.append((median, None))
    return shown


def _point(key: _Key, sides: Sequence[_TrialsByLoad], names: tuple[str, str], confidence: float) -> LoadPointOut:
    baseline, candidate = ([_level(key, sides, side, name, confidence) for name in names] for side in (0, 1))
    return LoadPointOut(
        load=key[2],
        scenario=key[0],
        baseline_throughput=baseline[0],
        baseline_latency=baseline[1],
        candidate_throughput=candidate[0],
        candidate_latency=candidate[1],
    )


def _is_shown(point: LoadPointOut) -> bool:
    """Whether at least one side has a place."""
    sides = (
        (point.baseline_throughput, point.baseline_latency),
        (point.candidate_throughput, point.candidate_latency),
    )
    return any(throughput.level is not None and latency.level is not None for throughput, latency in sides)


def _level(key: _Key, sides: Sequence[_TrialsByLoad], side: int, name: str, confidence: float) -> ObjectiveSide:
    values = [_values(each[key], name) if key in each else [] for each in sides]
    own, other = (np.array(each) for each in (values[side], values[1 - side]))
    level: Level | None = None
    if len(own):
        alike = [other[np.isfinite(other)]]
        hosts = [host for host, _ in sides[side][key]]
        least = least_spread(metric(name))
        level = estimate_level(own, confidence=confidence, alike=alike, min_cv=least, hosts=hosts)
    return level_out(level)


def _values(runs: Sequence[_RunTrials], name: str) -> list[float]:
    """One for each run: the mean over its trials. Empty where a run's is not known: the rest would be a choice."""
    known = metric(name)
    means = []
    for _, trials in runs:
        values = [
            value_of_all_requests(trial, trial.metrics, known)[0] if supports_statistic(trial, name) else None
            for trial in trials
        ]
        numbers = [value for value in values if value is not None and value > 0]
        if len(numbers) < len(values):
            return []
        means.append(sum(numbers) / len(numbers))
    return means
