"""`regress-gate calibrate`: one version against itself. What scatters is the meter's noise, and nothing may fail."""

from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.measuring import Amount, measure_options
from regress_gate.cli.options import CONTEXT, place_options, settings_from, store_options
from regress_gate.cli.provisioning import make_provisioner, provision_options, provisioning_from
from regress_gate.errors import ExitCode

if TYPE_CHECKING:
    from regress_gate.bench.experiment.plan import Plan
    from regress_gate.cli.measuring import Subject
    from regress_gate.cli.settings import Settings
    from regress_gate.model.result import Result
    from regress_gate.model.run import Run
    from regress_gate.store.repository import Repository

RUNS_SHOWN = (3, 5, 10, 20)
"""Runs a side for which the smallest loss that would be found is shown."""


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

    The runs are stored: later plans know from them what a number of runs can show. Exits 1 when the gate would have
    failed the version against itself, which means that this machine's numbers cannot be believed.
    """
    from regress_gate.bench.experiment.plan import BASELINE, CANDIDATE
    from regress_gate.cli.compare_measure import explain
    from regress_gate.cli.live import live_on_stderr
    from regress_gate.cli.measuring import carry_out, find_plan, interruptible, subject
    from regress_gate.store.repository import open_store

    amount = Amount.taken_from(options)
    settings = settings_from(options)
    provisioning = provisioning_from(options, settings)
    what = subject(settings, {BASELINE: version, CANDIDATE: version}, provisioning)
    provisioner = make_provisioner(provisioning, accelerator=what.testbed.accelerator, environ=settings.environment)
    with open_store(str(settings.store_url.value), create=True) as store:
        plan, is_resumed = find_plan(store, what, amount)
        with interruptible(store, plan), live_on_stderr(quiet=quiet) as live:
            outcome = carry_out(store, plan, what, amount, provisioner, live, is_resumed=is_resumed)
        explain(outcome)
        runs = _runs(store, plan)
    result = _judge(settings, what, runs)
    shown = _document(settings, what, runs, result)
    if format_ == "json":
        from regress_gate.cli.text import json_text

        click.echo(json_text(shown))
    else:
        _print(what, shown)
    if shown["failed_runs"] or shown["runs"] < len(what.versions):
        return ExitCode.COULD_NOT_MEASURE
    return ExitCode.FAIL if result.decision == "fail" else ExitCode.PASS


def _runs(store: "Repository", plan: "Plan") -> "list[Run]":
    found = store.runs(testbed=plan.testbed, suite=plan.suite)
    return [run for run in found if run.place is not None and run.place.experiment == plan.experiment]


def _judge(settings: "Settings", what: "Subject", runs: "list[Run]") -> "Result":
    """The gate on the two sides, as if they were two versions."""
    from datetime import UTC, datetime

    from regress_gate.gate.decide import decide_compare
    from regress_gate.gate.sides import make_side
    from regress_gate.model.run import SuiteRef

    version = next(iter(what.versions.values()))
    sides = [
        make_side(version, [run for run in runs if run.place and run.place.side == side], what.suite.conditions)
        for side in what.versions
    ]
    return decide_compare(
        sides[0],
        sides[1],
        suite=SuiteRef(what.suite.name, what.suite.version),
        definition=what.suite,
        policy=settings.policy(what.suite.gate),
        waivers=(),
        findings=(),
        now=datetime.now(UTC),
    )


def _document(settings: "Settings", what: "Subject", runs: "list[Run]", result: "Result") -> dict[str, Any]:
    from regress_gate.gate.planning import plan_runs, series_effects
    from regress_gate.gate.sides import make_side

    version = next(iter(what.versions.values()))
    side = make_side(version, runs, what.suite.conditions)
    policy = settings.policy(what.suite.gate)
    names = [scenario.name for scenario in what.suite.scenarios]
    plans = {n: plan_runs(side.counted, policy, blocks=0, have=n, scenarios=names) for n in RUNS_SHOWN}
    effects = series_effects(side.counted)
    known = {each.name: each for each in result.series}
    series = []
    for each in plans[RUNS_SHOWN[0]].series:
        place = effects.get((each.scenario, each.metric))
        judged = known.get(each.name)
        series.append(
            {
                "scenario": each.scenario,
                "metric": each.metric,
                "margin": each.margin,
                "run_cv": each.run_cv,
                "runs": len(side.counted),
                "detectable_change": {
                    str(n): next(s["detectable_change"] for s in plan.as_document()["series"] if _is(s, each))
                    for n, plan in plans.items()
                },
                "change": judged.change if judged else None,
                "interval": judged.interval if judged else None,
                "second_in_block": None if place is None else [place.second, *place.second_interval],
                "drift_per_block": None if place is None else [place.drift, *place.drift_interval],
            }
        )
    minutes = plans[RUNS_SHOWN[0]].seconds_a_block
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


def _is(entry: dict[str, Any], each: Any) -> bool:
    return (entry["scenario"], entry["metric"]) == (each.scenario, each.metric)


def _print(what: "Subject", shown: dict[str, Any]) -> None:
    from regress_gate.cli.text import columns, plain

    said = {"pass": "passes", "fail": "FAILS", "inconclusive": "stays undecided"}[shown["decision"]]
    click.echo(f"{shown['version']} against itself {said}: {plain('; '.join(shown['reasons']))}")
    block = "" if shown["minutes_a_block"] is None else f", {shown['minutes_a_block']:.1f} minutes a block"
    void = f", {len(shown['void_runs'])} void" if shown["void_runs"] else ""
    click.echo(f"{shown['runs']} runs count{void} on {plain(what.testbed.name)}, {shown['suite']}{block}\n")
    head = ("SERIES", "SPREAD", "MARGIN", *(f"n={n}" for n in RUNS_SHOWN), "SECOND", "A BLOCK")
    rows = [
        (
            f"{each['scenario']}/{each['metric']}",
            f"{each['run_cv']:.1%}",
            f"{each['margin']:.0%}",
            *(_percent(value) for value in each["detectable_change"].values()),
            _effect(each["second_in_block"]),
            _effect(each["drift_per_block"]),
        )
        for each in sorted(shown["series"], key=lambda each: -each["run_cv"])
    ]
    click.echo(columns(head, rows))
    click.echo(
        "\nSPREAD is between runs. n=5: the loss that five runs a side find, four times in five. SECOND: the effect of "
        "being\nstarted second in a block; A BLOCK: drift from block to block; * where a 95 % interval leaves out zero."
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


def _effect(found: list[float] | None) -> str:
    if found is None:
        return "-"
    middle, low, high = found
    return f"{middle:+.1%}{'*' if low > 0 or high < 0 else ''}"
