"""Calibrate: measure one version against itself and say how much each series scatters."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from regress_gate.app.experiment import measure_task
from regress_gate.app.measurement_task import MeasurementTask, make_task
from regress_gate.app.settings import MeasurementAmount, ProgressReporter, Settings
from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE
from regress_gate.bench.fleet.fleet import Fleet
from regress_gate.gate.decide import GateInput, GateRules, decide_compare
from regress_gate.gate.planning import adjusted_effects, plan_runs
from regress_gate.gate.sides import make_side
from regress_gate.model.config import ProvisionConfig
from regress_gate.model.result import Result
from regress_gate.model.run import Run, SuiteRef

RUNS_SHOWN = (3, 5, 10)
"""Runs a side for which the smallest detectable loss is given."""


def calibrate_version(
    settings: Settings,
    version: str,
    amount: MeasurementAmount,
    provisioning: ProvisionConfig,
    progress: ProgressReporter,
    *,
    fleet: Fleet | None = None,
) -> dict[str, Any]:
    """Measure a version against itself, in blocks; the object that `calibrate --format json` prints.

    `version`, `suite`, `testbed`; `decision` and `reasons` of the gate on the version against itself; `runs` that
    count, `void_runs` (the reason of each), `failed_runs` (how many), `minutes_a_block` (null: unknown); and for each
    gated series its `scenario`, `metric`, `margin`, `run_cv` (spread between runs), `noise_runs` (runs behind it),
    `detectable_change` and `shown_within` (by runs a side; null: none is large enough), `change` and `interval` of one
    side against the other, and `second_in_block` and `drift_per_block` (null: unknown) with `effect` (relative,
    positive for a larger value), `interval` (95 %), and `p_adjusted` (over all effects listed).
    """
    task = make_task(settings, {BASELINE: version, CANDIDATE: version}, provisioning, fleet=fleet)
    runs = measure_task(settings, task, amount, progress).runs
    return _document(settings, task, runs, _decide(settings, task, runs))


def _decide(settings: Settings, task: MeasurementTask, runs: list[Run]) -> Result:
    """The gate on the two sides, as on two versions."""
    version = next(iter(task.versions.values()))
    sides = [
        make_side(version, [run for run in runs if run.place and run.place.side == side], task.suite.conditions)
        for side in task.versions
    ]
    given = GateInput(
        baseline=sides[0],
        candidate=sides[1],
        suite=SuiteRef(task.suite.name, task.suite.version),
        definition=task.suite,
    )
    return decide_compare(given, GateRules(policy=settings.policy(task.suite.gate), now=datetime.now(UTC)))


def _document(settings: Settings, task: MeasurementTask, runs: list[Run], result: Result) -> dict[str, Any]:
    version = next(iter(task.versions.values()))
    side = make_side(version, runs, task.suite.conditions)
    policy = settings.policy(task.suite.gate)
    plans = {n: plan_runs(side.counted, policy, task.suite, blocks=0, have=n) for n in RUNS_SHOWN}
    documents = {n: {_key(each): each for each in plan.as_document()["series"]} for n, plan in plans.items()}
    first = plans[RUNS_SHOWN[0]]
    known = {each.name: each for each in result.series}
    seen = [each for each in first.series if each.noise_runs]
    effects = _effects(side.counted, [(each.scenario, each.metric) for each in seen])
    series = []
    for each in seen:
        key = each.scenario, each.metric
        judged = known.get(each.name)
        series.append(
            {
                "scenario": each.scenario,
                "metric": each.metric,
                "margin": each.margin,
                "run_cv": each.run_cv,
                "noise_runs": each.noise_runs,
                "detectable_change": {str(n): of_plan[key]["detectable_change"] for n, of_plan in documents.items()},
                "shown_within": {str(n): of_plan[key]["shown_within"] for n, of_plan in documents.items()},
                "change": judged.change if judged else None,
                "interval": judged.interval if judged else None,
                **effects.get(key, {"second_in_block": None, "drift_per_block": None}),
            }
        )
    minutes = first.seconds_a_block
    return {
        "schema_version": "1",
        "version": str(version),
        "suite": f"{task.suite.name}@{task.suite.version}",
        "testbed": task.testbed.name,
        "decision": result.decision.value,
        "reasons": [reason.text for reason in result.reasons],
        "runs": len(side.counted),
        "void_runs": [void.reason for void in side.void],
        "failed_runs": len(side.failed),
        "minutes_a_block": None if minutes is None else round(minutes / 60, 2),
        "series": series,
    }


def _key(entry: dict[str, Any]) -> tuple[str, str]:
    return entry["scenario"], entry["metric"]


def _effects(runs: Sequence[Run], keys: list[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The effects of order and time on these series."""
    return {
        key: {
            name: {"effect": effect.size, "interval": list(effect.interval), "p_adjusted": effect.p_adjusted}
            for name, effect in (
                ("second_in_block", effects.second_in_block),
                ("drift_per_block", effects.drift_per_block),
            )
        }
        for key, effects in adjusted_effects(runs, keys).items()
    }
