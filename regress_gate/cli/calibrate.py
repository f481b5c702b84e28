"""`regress-gate calibrate`: one version against itself. What scatters is the meter's noise, and nothing may fail."""

from typing import TYPE_CHECKING, Any

import click

from regress_gate.app.measurement_task import MeasurementAmount, make_task
from regress_gate.app.provisioning import make_provisioner, provisioning_from
from regress_gate.cli.options import (
    CONTEXT,
    measure_options,
    place_options,
    provision_options,
    settings_from,
    store_options,
)
from regress_gate.cli.plan_text import SENSELESS, percent
from regress_gate.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regress_gate.app.measurement_task import MeasurementTask
    from regress_gate.app.settings import Settings
    from regress_gate.model.result import Result
    from regress_gate.model.run import Run

RUNS_SHOWN = (3, 5, 10)
"""Runs a side for which the smallest loss that would be found is shown."""
STAR = 0.05
"""Chance that any of all effects of order and time is starred where there is none."""


@click.command(
    context_settings=CONTEXT, epilog="Example: regress-gate calibrate v0.19.1 --suite cpu-tiny --runs 5 --budget 30m"
)
@click.argument("version")
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@measure_options
@provision_options
@place_options
@store_options
def calibrate(
    version: str,
    format_: str,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> int:
    """Measure VERSION against itself, in blocks as `compare --measure` would, and say how much each series scatters.

    The runs are stored: later plans know from them what a number of runs can show. Exits 0; 1 when the gate would have
    failed the version against itself, which by chance alone happens in at most 5 % of calibrations: calibrate again,
    and if it fails again, do not believe this machine's numbers; 4 when a server failed or too little was measured.
    """
    from regress_gate.app.experiment import explain_outcome, find_plan, interruptible, run_experiment
    from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE
    from regress_gate.bench.experiment.experiment_runner import find_plan_runs
    from regress_gate.cli.progress import live_on_stderr
    from regress_gate.store.repository import open_store

    amount = MeasurementAmount.taken_from(options)
    settings = settings_from(options)
    provisioning = provisioning_from(options, settings)
    what = make_task(settings, {BASELINE: version, CANDIDATE: version}, provisioning)
    provisioner = make_provisioner(provisioning, accelerator=what.testbed.accelerator, environ=settings.environment)
    with open_store(str(settings.store_url.value), create=True) as store:
        plan, is_resumed = find_plan(store, what, amount)
        with interruptible(store, plan), live_on_stderr(quiet=quiet) as live:
            outcome = run_experiment(store, plan, what, amount, provisioner, live, is_resumed=is_resumed)
        explain_outcome(outcome)
        runs = find_plan_runs(plan, store)
    result = _judge(settings, what, runs)
    shown = _document(settings, what, runs, result)
    if format_ == "json":
        from regress_gate.report.render.plain_text import json_text

        click.echo(json_text(shown))
    else:
        _print(shown)
    if shown["failed_runs"] or shown["runs"] < len(what.versions):
        return ExitCode.COULD_NOT_MEASURE
    return ExitCode.FAIL if result.decision == "fail" else ExitCode.PASS


def _judge(settings: "Settings", what: "MeasurementTask", runs: "list[Run]") -> "Result":
    """The gate on the two sides, as if they were two versions."""
    from datetime import UTC, datetime

    from regress_gate.gate.decide import GateInput, GateRules, decide_compare
    from regress_gate.gate.sides import make_side
    from regress_gate.model.run import SuiteRef

    version = next(iter(what.versions.values()))
    sides = [
        make_side(version, [run for run in runs if run.place and run.place.side == side], what.suite.conditions)
        for side in what.versions
    ]
    given = GateInput(
        baseline=sides[0],
        candidate=sides[1],
        suite=SuiteRef(what.suite.name, what.suite.version),
        definition=what.suite,
    )
    return decide_compare(given, GateRules(policy=settings.policy(what.suite.gate), now=datetime.now(UTC)))


def _document(settings: "Settings", what: "MeasurementTask", runs: "list[Run]", result: "Result") -> dict[str, Any]:
    """What `--format json` prints.

    `version`, `suite`, `testbed`; `decision` and `reasons` of the gate on the version against itself; `runs` that
    count, `void_runs` (why each), `failed_runs` (how many), `minutes_a_block` (null: unknown); and for each gated
    series its `scenario`, `metric`, `margin`, `run_cv` (spread between runs), `noise_runs` (runs behind it),
    `detectable_change` and `shown_within` (by runs a side; null: none is large enough), `change` and `interval` of one
    side against the other, and `second_in_block` and `drift_per_block` (null: not known) with `effect` (relative,
    positive for a larger value), `interval` (95 %), and `p_adjusted` (over all effects listed).
    """
    from regress_gate.gate.planning import plan_runs
    from regress_gate.gate.sides import make_side

    version = next(iter(what.versions.values()))
    side = make_side(version, runs, what.suite.conditions)
    policy = settings.policy(what.suite.gate)
    plans = {n: plan_runs(side.counted, policy, what.suite, blocks=0, have=n) for n in RUNS_SHOWN}
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
        "version": str(version),
        "suite": f"{what.suite.name}@{what.suite.version}",
        "testbed": what.testbed.name,
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


def _effects(runs: "Sequence[Run]", keys: list[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Of these series, as they are printed."""
    from regress_gate.gate.noise_floor import adjusted_effects

    return {
        key: {
            name: {"effect": effect.size, "interval": list(effect.interval), "p_adjusted": effect.p_adjusted}
            for name, effect in (("second_in_block", found.second_in_block), ("drift_per_block", found.drift_per_block))
        }
        for key, found in adjusted_effects(runs, keys).items()
    }


def _print(shown: dict[str, Any]) -> None:
    from regress_gate.report.render.plain_text import columns, plain

    said = {"pass": "passes", "fail": "FAILS", "inconclusive": "stays undecided"}[shown["decision"]]
    click.echo(f"{plain(shown['version'])} against itself {said}: {plain('; '.join(shown['reasons']))}")
    parts = [f"{shown['runs']} runs count"]
    parts += [f"{len(shown['void_runs'])} void ({plain(shown['void_runs'][0])})"] if shown["void_runs"] else []
    parts += [f"{shown['failed_runs']} failed"] if shown["failed_runs"] else []
    parts += [] if shown["minutes_a_block"] is None else [f"{shown['minutes_a_block']:.1f} minutes a block"]
    click.echo(f"{plain(shown['suite'])} on {plain(shown['testbed'])}: {', '.join(parts)}")
    if not shown["series"]:
        click.echo("\nNo series has two runs that count, so nothing is known of its spread.")
        return
    head = ("SERIES", "SPREAD", "MARGIN", *(f"n={n}".rjust(4) for n in RUNS_SHOWN), " SECOND", "A BLOCK")
    rows = [
        (
            f"{each['scenario']}/{each['metric']}",
            percent(each["run_cv"]),
            percent(each["margin"]),
            *(_short(value) for value in each["detectable_change"].values()),
            _effect(each["second_in_block"]),
            _effect(each["drift_per_block"]),
        )
        for each in sorted(shown["series"], key=lambda each: -each["run_cv"])
    ]
    click.echo(f"\n{columns(head, rows)}\n")
    click.echo(_LEGEND)


_LEGEND = """\
SPREAD   between server starts, relative (of fractions for failures and answers)
n=5      the smallest loss that is called a regression with five runs a side,
         four times in five; `none` where no loss is large enough
SECOND   effect of being started second in a block
A BLOCK  drift from block to block; both are positive for larger values, which
         need not be worse; `*`: shown to be there, over all series together"""


def _short(loss: float | None) -> str:
    """Four signs wide: there are three of them in a row."""
    if loss is None or loss >= SENSELESS:
        return "none"
    return (f"{loss:.1%}" if loss < 0.0995 else f"{loss:.0%}").rjust(4)


def _effect(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-".rjust(6)
    return f"{found['effect']:+.1%}".rjust(6) + ("*" if found["p_adjusted"] <= STAR else "")
