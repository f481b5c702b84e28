"""What a number of runs will cost and can show, from earlier runs of the same suite on the same testbed.

`series_spread` and `series_effects` say how each series scatters, and what order and time in an experiment did to it.
Not for which runs are made, or in which order.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from regress_gate.bench.experiment.experiment_plan import LEVELS, MOST_PROBES, server_groups
from regress_gate.gate.accuracy import SCORES, compare_outputs, outputs_scenario
from regress_gate.gate.early_stopping import ExpectedStop, expect_stop
from regress_gate.gate.replicates import SERVER_GROUP, SeriesKey, SeriesValues, run_level_values
from regress_gate.model.metric import (
    CAPACITY,
    LATENCIES,
    METRICS,
    PROMISE_KEY,
    STATISTICS,
    TURN_TTFTS,
    Metric,
    Scale,
    metric,
)
from regress_gate.model.policy import Policy
from regress_gate.model.run import Run
from regress_gate.model.suite import Suite, Workload
from regress_gate.model.version import Version
from regress_gate.stats.design import (
    POWER,
    ExpectedSeries,
    InterimStage,
    PooledNoise,
    detectable_change,
    nominal_level,
    pooled_noise,
    shown_within,
)
from regress_gate.stats.estimate import least_spread
from regress_gate.stats.linear_models import OrderEffects, estimate_order_effects
from regress_gate.stats.multiplicity import holm


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
        for scenario, comparison in compare_outputs(same, same).items():
            for name, per_run in comparison.baseline.items():
                groups[scenario, name].append(SeriesValues(per_run))
    spreads = {key: _spread(metric(key[1]), group) for key, group in groups.items()}
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
    for key, entries in rows.items():
        numbers, versions, blocks, second = zip(*entries, strict=True)
        effects[key] = estimate_order_effects(
            np.array(numbers), versions, blocks, second, min_cv=least_spread(metric(key[1]))
        )
    return {key: effect for key, effect in effects.items() if effect is not None}


def adjusted_effects(runs: Sequence[Run], keys: Sequence[SeriesKey]) -> dict[SeriesKey, AdjustedEffects]:
    """Those of `keys` that the runs can show. All are one family: their p-values are adjusted together (Holm)."""
    effects = {key: estimates for key, estimates in series_effects(runs).items() if key in keys}
    flat = [effect for estimates in effects.values() for effect in (estimates.second, estimates.drift)]
    adjusted = [
        AdjustedEffect(effect.size, effect.interval, p_adjusted)
        for effect, p_adjusted in zip(flat, holm([effect.p_value for effect in flat]), strict=True)
    ]
    return {
        key: AdjustedEffects(second, drift)
        for key, second, drift in zip(effects, adjusted[::2], adjusted[1::2], strict=True)
    }


_SIDES = 2
_ASSUMED_SIZE_CV = 0.01
"""Of memory and KV-cache tokens before any run: the same build takes nearly the same at each start."""


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """The plan for one gated series by itself. That all series of a gate are shown at once is less likely."""

    scenario: str
    metric: str
    margin: float
    run_cv: float
    """Standard deviation between runs: relative, or of fractions for a difference metric."""
    noise_runs: int
    """Runs behind it; 0 if there are none and the policy's expectation is used."""
    detectable: float
    """The smallest loss that is called a regression with a probability of POWER; infinite if there is none."""
    shown_within: float
    """The smallest margin that an unchanged version is shown to keep, with the same probability."""

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric}"

    @property
    def stays_undecided(self) -> bool:
        """Whether an unchanged version is shown to be one in fewer than four of five cases."""
        return self.shown_within > self.margin


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """What a scenario's capacity takes."""

    scenario: str
    requests: int
    """Of each probe of the search, and at each rate in each run."""
    is_searched: bool
    """Whether no stored run has its rates, so that they are searched on one more server start."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What `--plan` says."""

    blocks: int
    runs_a_side: int
    """After the blocks, with what is stored already."""
    seconds_a_block: float | None
    """None: no run of this suite was made by the tool on this testbed yet, and the suite has no estimate."""
    series: tuple[SeriesPlan, ...]
    """Those that gate."""
    estimated_by: str | None = None
    """Where the time comes from, if it is the suite's estimate; None: from runs."""
    gpus: int | None = None
    """GPUs that a run keeps, if the suite says so."""
    likely_end: ExpectedStop | None = None
    """For a plan with interim analyses, where `blocks` is the largest number; None if all blocks are made."""
    capacities: tuple[CapacityPlan, ...] = ()
    hosts: int = 1
    """That make blocks at the same time."""

    @property
    def stops_early(self) -> bool:
        return self.likely_end is not None

    @property
    def searches(self) -> bool:
        return self.blocks > 0 and any(each.is_searched for each in self.capacities)

    @property
    def seconds(self) -> float | None:
        """With the search of capacities: a run whose trials are as many as the probes may be, with one of the
        candidate."""
        if self.seconds_a_block is None:
            return None
        return math.ceil(self.blocks / self.hosts) * self.seconds_a_block + self._search_seconds(self.seconds_a_block)

    def _search_seconds(self, seconds_a_block: float) -> float:
        return seconds_a_block / _SIDES * (MOST_PROBES + 1) / len(LEVELS) if self.searches else 0.0

    @property
    def gpu_minutes(self) -> float | None:
        if self.seconds_a_block is None or self.gpus is None:
            return None
        seconds = self.blocks * self.seconds_a_block + self._search_seconds(self.seconds_a_block)
        return seconds / 60 * self.gpus

    def as_document(self) -> dict[str, Any]:
        """As `compare --plan --format json` prints it under the key `plan`.

        `blocks` to be made, `runs_a_side` after them, `minutes_a_block` and `minutes` (null: not known yet),
        `capacities` (each `scenario` whose capacity is measured, the `requests` at each rate and probe, and
        whether the rates are still to be searched, `is_searched`), `estimated_by` (where they come from before
        any run; null: from runs) and `gpu_minutes` (null: not known); `likely_end` (null: all blocks are made)
        with the block after which it will probably end where nothing changed (`unchanged`) and where one series
        `lost` twice its margin, each null where the last block will probably not show it; `power` (the
        probability behind the changes), and for each gated series its `scenario`, `metric`, `margin`, `run_cv`
        (spread between runs), `noise_runs` (runs behind that; 0: assumed), `detectable_change` and
        `shown_within` (null: no change is large enough). Changes and margins as in the result: fractions,
        positive for worse.
        """
        return {
            "blocks": self.blocks,
            "runs_a_side": self.runs_a_side,
            "likely_end": None if self.likely_end is None else asdict(self.likely_end),
            "minutes_a_block": None if self.seconds_a_block is None else round(self.seconds_a_block / 60, 2),
            "minutes": None if self.seconds is None else round(self.seconds / 60, 2),
            "estimated_by": self.estimated_by,
            "gpu_minutes": None if self.gpu_minutes is None else round(self.gpu_minutes, 1),
            "capacities": [asdict(each) for each in self.capacities],
            "power": POWER,
            "series": [
                {
                    "scenario": each.scenario,
                    "metric": each.metric,
                    "margin": each.margin,
                    "run_cv": each.run_cv,
                    "noise_runs": each.noise_runs,
                    "detectable_change": each.detectable if math.isfinite(each.detectable) else None,
                    "shown_within": each.shown_within if math.isfinite(each.shown_within) else None,
                }
                for each in self.series
            ],
        }


def plan_runs(
    earlier: Sequence[Run], policy: Policy, suite: Suite, *, blocks: int, have: int, stops_early: bool = False
) -> RunPlan:
    """`earlier` are the runs of the suite on the testbed that count, of any version; `have` those a side already.

    What can be shown is what the last analysis shows; in a plan that `stops_early`, at its levels.

    Only series that the suite can produce are planned, of those that gate. What was never measured is assumed to
    scatter as the policy expects.
    """
    possible = _possible_series(suite, policy)
    measured = {
        key: spread
        for key, spread in series_spread(earlier).items()
        if key in possible and _supported(metric(key[1]), spread.smallest_trial)
    }
    seen = {trial.scenario for run in earlier for trial in run.trials}
    servers = {SERVER_GROUP if run.place is None else run.place.group for run in earlier}
    seen |= servers | {outputs_scenario(server) for server in servers}
    gated = measured | {key: spread for key, spread in possible.items() if key[0] not in seen}
    runs = have + blocks
    # One-sided, and the first step of Holm's correction: what one regression among unchanged series has to pass.
    error, confidence = policy.false_alarm_budget / max(1, len(gated)), policy.confidence
    expected = {(name, known): _expected(metric(known), spread, policy) for (name, known), spread in gated.items()}
    end = None
    if stops_early:
        end = expect_stop(set(expected.values()), have=have, most=runs, error=error, confidence=confidence)
        last = InterimStage(runs, runs)
        error, confidence = nominal_level(error, last), 1 - 2 * nominal_level((1 - confidence) / 2, last)
    series = [
        SeriesPlan(
            scenario=name,
            metric=measured,
            margin=each.margin,
            run_cv=each.run_sd,
            noise_runs=noise.runs if (noise := gated[name, measured].noise) else 0,
            detectable=detectable_change(each, runs, error=error, confidence=confidence),
            shown_within=shown_within(each, runs, confidence=confidence),
        )
        for (name, measured), each in expected.items()
    ]
    seconds, cost = _seconds_a_block(earlier, suite), suite.cost
    estimated = None if cost is None or seconds is not None else cost.source
    if cost is not None and seconds is None:
        seconds = _SIDES * cost.minutes * 60
    gpus, capacities = None if cost is None else cost.gpus, tuple(_capacities(suite, earlier))
    return RunPlan(blocks, runs, seconds, tuple(series), estimated, gpus, end, capacities)


def _capacities(suite: Suite, earlier: Sequence[Run]) -> Iterator[CapacityPlan]:
    known = {trial.scenario for run in earlier for trial in run.trials if PROMISE_KEY in trial.workload}
    for scenario in suite.scenarios:
        if scenario.workload.capacity is not None:
            yield CapacityPlan(scenario.name, scenario.workload.num_requests or 0, scenario.name not in known)


def _expected(known: Metric, spread: SeriesSpread, policy: Policy) -> ExpectedSeries:
    # Failures and answers are expected to be equal between runs; drawing requests still makes failures scatter.
    assumed = policy.expected_cv if known.scale is Scale.RATIO else 0.0
    if known.unit in ("bytes", "tokens"):
        assumed = min(assumed, _ASSUMED_SIZE_CV)
    return ExpectedSeries(
        direction=known.direction,
        scale=known.scale,
        margin=policy.margin(known.name),
        run_sd=spread.noise.run_sd if spread.noise else assumed,
        min_cv=least_spread(known),
        level=spread.level,
        requests=spread.requests,
    )


def _possible_series(suite: Suite, policy: Policy) -> dict[SeriesKey, SeriesSpread]:
    """The gated series that runs of the suite will have, with what is known of them before any run."""
    series: dict[SeriesKey, SeriesSpread] = {}
    for scenario in suite.scenarios:
        requests = scenario.workload.num_requests or 0
        spread = SeriesSpread(noise=None, level=0.0, requests=requests * suite.trials, smallest_trial=requests or None)
        series |= {
            # Before any run, all requests are expected to keep their objectives.
            (scenario.name, name): replace(spread, level=1.0) if name == "slo_attainment" else spread
            for name in _metrics_of(scenario.workload)
            if policy.gates(name) and _supported(metric(name), spread.smallest_trial)
        }
    once = SeriesSpread(noise=None, level=0.0, requests=0.0, smallest_trial=None)
    for group in server_groups(suite):
        series |= {(group.name, name): once for name in _SERVER_METRICS if policy.gates(name)}
        if all(scenario.workload.is_streamed for scenario in group.scenarios):
            answers = replace(once, level=1.0)
            series |= {(outputs_scenario(group.name), name): answers for name in SCORES if policy.gates(name)}
    return series


_SERVER_METRICS = ("startup_time", "peak_memory", "kv_cache_tokens")


def _metrics_of(workload: Workload) -> list[str]:
    """What the load client measures of a workload, in the order of the catalogue."""
    if workload.capacity is not None:
        return [CAPACITY]
    if not workload.is_streamed:
        families, others = ["e2el"], {"request_throughput", "total_throughput", "failed_requests"}
    else:
        families = [family for family in LATENCIES if family not in ("tpot", "itl") or workload.output_len != 1]
        others = {"request_throughput", "output_throughput", "total_throughput", "failed_requests"}
    names = {f"{family}_{statistic}" for family in families for statistic in STATISTICS} | others
    names |= {"goodput", "slo_attainment"} if workload.slo is not None else set()
    names |= (
        {f"{part}_{name}" for part in TURN_TTFTS for name in ("mean", "median")} if workload.conversation else set()
    )
    return [name for name in METRICS if name in names]


def _supported(known: Metric, smallest_trial: int | None) -> bool:
    """Whether the trials have enough requests for the percentile to gate."""
    return known.tail is None or smallest_trial is None or smallest_trial >= known.min_requests


def _seconds_a_block(earlier: Sequence[Run], suite: Suite) -> float | None:
    """Of both sides of every server that the suite wants; a server that was never started is assumed to be average."""
    by_group: dict[str, list[float]] = {}
    for run in earlier:
        if run.place is not None and run.place.seconds is not None:
            by_group.setdefault(run.place.group, []).append(run.place.seconds)
    if not by_group:
        return None
    servers = [scenario.server for scenario in suite.scenarios]
    wanted = len([server for at, server in enumerate(servers) if server not in servers[:at]])
    means = [sum(seconds) / len(seconds) for seconds in by_group.values()]
    return _SIDES * sum(means) * wanted / len(means)
