"""What a million output tokens cost on both versions, where the user names the price of an hour of a GPU.

Only where the server sets the pace: the throughput of a closed loop, and the rate that a capacity promises. At a given
request rate the arrivals set it, whatever the server could do. The change of a cost is that of the throughput, with the
same interval over server starts. Without such an interval there is no cost; nor is there one where the number of GPUs
is not known. Not for the decision, and not for what else a deployment costs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regress_gate.gate.replicates import run_level_values, shared_trials
from regress_gate.model.deployment import device_count
from regress_gate.model.metric import CAPACITY
from regress_gate.model.result import CostOut, Move, ObjectiveSide, SeriesResult
from regress_gate.model.run import Run, Trial
from regress_gate.model.suite import Suite
from regress_gate.stats.estimate import MIN_TIMING_CV, estimate_level

_TOKENS = 1_000_000
_HOUR = 3600.0
_SERIES = (CAPACITY, "output_throughput")


@dataclass(frozen=True, slots=True)
class CostInput:
    """What the costs are calculated from."""

    gpu_hour: float
    """Price of one GPU for an hour, in any currency; above zero."""
    baseline: Sequence[Run]
    """Runs that count."""
    candidate: Sequence[Run]
    definition: Suite | None
    move: Move | None


def find_costs(given: CostInput, series: Sequence[SeriesResult]) -> list[CostOut]:
    """One for each scenario in which the server sets the pace, the cheapest first."""
    found = [cost for one in series if one.metric in _SERIES and (cost := _cost(given, one)) is not None]
    return sorted(found, key=lambda cost: (cost.basis != CAPACITY, cost.baseline.level or float("inf"), cost.scenario))


def no_cost_text(given: CostInput) -> str:
    """Why there is none."""
    if any(_gpus(given, scenario) is not None for scenario in _scenarios((*given.baseline, *given.candidate))):
        return "no cost is given: no closed loop or capacity has a throughput with an interval on both sides"
    return "no cost is given: how many GPUs a server uses is not known, or it uses none"


def _scenarios(runs: Iterable[Run]) -> set[str]:
    return {trial.scenario for run in runs for trial in run.trials}


def _cost(given: CostInput, one: SeriesResult) -> CostOut | None:
    if one.change is None or one.interval is None or not one.change < 1:
        return None
    low, high = one.interval
    gpus = _gpus(given, one.scenario)
    if low is None or high is None or not high < 1 or gpus is None:
        return None
    sides = [_tokens_a_second(runs, one) for runs in (given.baseline, given.candidate)]
    if not all(sides):
        return None
    costs = [given.gpu_hour * gpus / _HOUR * _TOKENS / np.array([value for _, value in side]) for side in sides]
    levels = [
        estimate_level(
            own, confidence=one.confidence, alike=[other], min_cv=MIN_TIMING_CV, hosts=[host for host, _ in side]
        )
        for own, other, side in ((costs[0], costs[1], sides[0]), (costs[1], costs[0], sides[1]))
    ]
    if any(level.interval is None for level in levels):
        return None
    baseline, candidate = (ObjectiveSide(level=each.value, interval=each.interval, runs=each.runs) for each in levels)
    change, least, most = (loss / (1 - loss) for loss in (one.change, low, high))
    return CostOut(
        scenario=one.scenario,
        basis=one.metric,
        gpu_hour=given.gpu_hour,
        gpus=gpus,
        baseline=baseline,
        candidate=candidate,
        change=change,
        interval=(least, most),
        confidence=one.confidence,
        text=_text(one.scenario, given.move, change, (least, most), (baseline, candidate)),
    )


def _text(
    scenario: str,
    move: Move | None,
    change: float,
    interval: tuple[float, float],
    sides: tuple[ObjectiveSide, ObjectiveSide],
) -> str:
    low, high = interval
    what = {Move.UPGRADE: "upgrade", Move.DOWNGRADE: "downgrade"}.get(move or Move.SAME, "move")
    starts = f"{sides[0].runs} and {sides[1].runs} server starts"
    unit = "per million output tokens"
    if high < 0:
        return f"{scenario}: the {what} saves {-change:.1%} [{-high:.1%}, {-low:.1%}] {unit} ({starts})"
    if low > 0:
        return f"{scenario}: the {what} costs {change:.1%} [{low:.1%}, {high:.1%}] more {unit} ({starts})"
    return (
        f"{scenario}: neither a saving nor a loss {unit} is shown: {change:+.1%} [{low:+.1%}, {high:+.1%}] ({starts})"
    )


# Throughput


def _tokens_a_second(runs: Sequence[Run], one: SeriesResult) -> list[tuple[str, float]]:
    """Of each server start, with its host. Empty where one is not known, or where the arrivals set the pace."""
    trials = [trial for run in runs for trial in run.trials if trial.scenario == one.scenario]
    is_capacity = one.metric == CAPACITY
    if not is_capacity and any(trial.workload.get("request_rate") is not None for trial in trials):
        return []
    tokens = _tokens_a_request(trials) if is_capacity else 1.0
    ordinals = shared_trials(runs)
    found = [(run.testbed.name, run_level_values([run], ordinals).get((one.scenario, one.metric))) for run in runs]
    values = [(host, sum(v.per_run) / len(v.per_run)) for host, v in found if v is not None and v.per_run]
    if tokens is None or not values or min(value for _, value in values) <= 0:
        return []
    return [(host, value * tokens) for host, value in values]


def _tokens_a_request(trials: Sequence[Trial]) -> float | None:
    """Output tokens: as measured, else as asked for where answers have that length exactly."""
    counts = [
        trial.workload.get("mean_output_tokens")
        or (trial.workload.get("output_len") if trial.workload.get("ignore_eos", True) else None)
        for trial in trials
    ]
    known = [float(count) for count in counts if isinstance(count, int | float) and count > 0]
    return sum(known) / len(known) if known and len(known) == len(counts) else None


# GPUs


def _gpus(given: CostInput, scenario: str) -> int | None:
    """GPUs of the server of a scenario: as it said at its start, else as the suite starts it, else those of the
    testbed. None: not known, not the same for all, or none."""
    runs = [
        run for run in (*given.baseline, *given.candidate) if any(trial.scenario == scenario for trial in run.trials)
    ]
    if any((run.testbed.accelerator or "").lower() == "cpu" or run.testbed.accelerator_count == 0 for run in runs):
        return None
    counts = {_of_server(run) or _of_suite(given.definition, scenario) or run.testbed.accelerator_count for run in runs}
    return counts.pop() if len(counts) == 1 else None


def _of_server(run: Run) -> int | None:
    config = run.server.get("config")
    return device_count(config) if isinstance(config, Mapping) and "tensor_parallel_size" in config else None


def _of_suite(definition: Suite | None, scenario: str) -> int | None:
    servers = [] if definition is None else [each.server for each in definition.scenarios if each.name == scenario]
    return device_count(servers[0].engine_args) if servers else None
