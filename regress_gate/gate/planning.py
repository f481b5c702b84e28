"""What a number of runs will cost and can show, from what earlier runs of the same suite on the same testbed showed."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regress_gate.gate.series import run_level_values
from regress_gate.model.metric import Scale, metric
from regress_gate.model.policy import Policy
from regress_gate.model.run import Run
from regress_gate.model.version import Version
from regress_gate.stats.noise import Effects, Noise, detectable_loss, loss_as_change, place_effects, pooled_noise
from regress_gate.stats.power import POWER


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    scenario: str
    metric: str
    margin: float
    run_cv: float
    """Standard deviation between runs: relative, or of fractions for a difference metric."""
    noise_runs: int
    """Runs behind it; 0: the policy's expectation."""
    detectable: float
    """The smallest loss that is found, on the reported scale; infinite for a single run."""
    shown_within: float
    """The smallest margin that an unchanged version is shown to keep."""

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric}"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What `--plan` says."""

    blocks: int
    runs_a_side: int
    """After the blocks, with what is stored already."""
    seconds_a_block: float | None
    """None: no run of this suite was made by the tool on this testbed yet."""
    series: tuple[SeriesPlan, ...]

    @property
    def seconds(self) -> float | None:
        return None if self.seconds_a_block is None else self.blocks * self.seconds_a_block

    def as_document(self) -> dict[str, Any]:
        def finite(value: float) -> float | None:
            return value if np.isfinite(value) else None

        return {
            "blocks": self.blocks,
            "runs_a_side": self.runs_a_side,
            "minutes_a_block": None if self.seconds_a_block is None else round(self.seconds_a_block / 60, 2),
            "minutes": None if self.seconds is None else round(self.seconds / 60, 2),
            "power": POWER,
            "series": [
                {
                    "scenario": each.scenario,
                    "metric": each.metric,
                    "margin": each.margin,
                    "run_cv": each.run_cv,
                    "noise_runs": each.noise_runs,
                    "detectable_change": finite(each.detectable),
                    "shown_within": finite(each.shown_within),
                }
                for each in self.series
            ],
        }


def plan_runs(
    earlier: Sequence[Run],
    policy: Policy,
    *,
    blocks: int,
    have: int,
    scenarios: Iterable[str],
    sides: int = 2,
) -> RunPlan:
    """`earlier` are the runs of the suite on the testbed that count, of any version; `have` those a side already.

    Where there are none, the policy's expected spread stands in for theirs, for its gated metrics of `scenarios`.
    """
    noise = series_noise(earlier)
    runs = have + blocks
    gated = {key: found for key, found in noise.items() if policy.gates(key[1])}
    if not gated:
        names = [name for name in policy.metrics if "*" not in name]
        keys = [(scenario, name) for scenario in scenarios for name in names if not metric(name).per_run]
        gated = {key: Noise(policy.expected_cv, -1) for key in keys if metric(key[1]).scale is Scale.RATIO}
    error = policy.false_alarm_budget / max(1, len(gated))
    tail = (1 - policy.confidence) / 2
    series = [
        SeriesPlan(
            scenario=scenario,
            metric=name,
            margin=policy.margin(name),
            run_cv=found.run_sd,
            noise_runs=found.degrees_of_freedom + 1,
            detectable=_change(detectable_loss(found.run_sd, runs, error), name),
            shown_within=_change(detectable_loss(found.run_sd, runs, tail), name),
        )
        for (scenario, name), found in gated.items()
    ]
    seconds = [run.place.seconds for run in earlier if run.place is not None and run.place.seconds is not None]
    groups = len({run.place.group for run in earlier if run.place is not None}) or 1
    a_block = sides * groups * sum(seconds) / len(seconds) if seconds else None
    return RunPlan(blocks, runs, a_block, tuple(series))


def series_noise(runs: Sequence[Run]) -> dict[tuple[str, str], Noise]:
    """By scenario and metric: the spread between the runs of one version, pooled over versions."""
    by_version: dict[Version, list[Run]] = defaultdict(list)
    for run in runs:
        by_version[run.version].append(run)
    groups: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for same in by_version.values():
        for key, values in run_level_values(same).items():
            groups[key].append(np.asarray(values.per_run, dtype=np.float64))
    found = {key: pooled_noise(arrays, metric(key[1]).scale) for key, arrays in groups.items()}
    return {key: noise for key, noise in found.items() if noise is not None}


def series_effects(runs: Sequence[Run]) -> dict[tuple[str, str], Effects]:
    """By scenario and metric: what order and time did within an experiment."""
    placed = [(run, run.place) for run in runs if run.place is not None]
    values: dict[tuple[str, str], list[tuple[float, str, int, int]]] = defaultdict(list)
    for run, place in placed:
        for key, entry in run_level_values([run]).items():
            if metric(key[1]).scale is Scale.RATIO:
                values[key].append((entry.per_run[0], place.side, place.block, place.position))
    effects = {}
    for key, rows in values.items():
        numbers, sides, blocks, positions = zip(*rows, strict=True)
        effects[key] = place_effects(np.array(numbers), sides, blocks, positions)
    return {key: found for key, found in effects.items() if found is not None}


def _change(loss: float, name: str) -> float:
    known = metric(name)
    return loss_as_change(loss, known.direction, known.scale)
