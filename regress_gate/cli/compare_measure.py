"""`compare --measure` and `--plan`: how many blocks are missing, what they cost and can show, and making them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from regress_gate.cli.measuring import DEFAULT_RUNS, Amount, carry_out, find_plan, interruptible, subject
from regress_gate.cli.provisioning import make_provisioner
from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.bench.experiment.runner import Outcome
    from regress_gate.cli.measuring import Subject
    from regress_gate.cli.settings import Settings
    from regress_gate.gate.planning import RunPlan
    from regress_gate.model.provisioning import ProvisionConfig
    from regress_gate.model.run import Run
    from regress_gate.model.version import Ref, Version


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured, and so what is to be compared."""

    refs: "tuple[Ref, Ref]"
    suite: str
    """As it was asked for: a name or a path."""
    testbed: str


def measure_both(
    settings: "Settings",
    baseline: str,
    candidate: str,
    amount: Amount,
    provisioning: "ProvisionConfig",
    *,
    plan_only: bool,
    format_: str,
    quiet: bool,
) -> Measured | None:
    """Make the blocks that are missing; None when only the plan was asked for, which is then printed.

    A side that fails to serve is no error here: its failed runs are stored, and the gate weighs them.
    """
    from regress_gate.bench.experiment.plan import BASELINE, CANDIDATE
    from regress_gate.cli.live import live_on_stderr
    from regress_gate.cli.plan_text import print_plan
    from regress_gate.model.version import Ref
    from regress_gate.store.repository import open_store

    what = subject(settings, {BASELINE: baseline, CANDIDATE: candidate}, provisioning)
    if what.versions[BASELINE] == what.versions[CANDIDATE]:
        raise InputError("both sides are one version", todo="use `regress-gate calibrate` for the noise of one version")
    plan = plan_blocks(settings, what, amount)
    if plan_only:
        print_plan(what, plan, amount, format_)
        return None
    if plan.blocks or amount.resume:
        provisioner = make_provisioner(provisioning, accelerator=what.testbed.accelerator, environ=settings.environment)
        with open_store(str(settings.store_url.value), create=True) as store:
            todo, is_resumed = find_plan(store, what, replace(amount, runs=plan.blocks))
            with interruptible(store, todo), live_on_stderr(quiet=quiet) as live:
                live.expect(plan.seconds)
                outcome = carry_out(store, todo, what, amount, provisioner, live, is_resumed=is_resumed)
        explain(outcome)
    elif not quiet:
        click.echo(f"both sides have {plan.runs_a_side} runs that count; nothing was measured", err=True)
    refs = Ref.parse(str(_built(settings, what, BASELINE))), Ref.parse(str(_built(settings, what, CANDIDATE)))
    return Measured(refs, str(settings.suite.value or what.suite.name), what.testbed.name)


def measure_both_running(
    settings: "Settings", baseline: str, candidate: str, urls: tuple[str, ...], amount: Amount, *, quiet: bool
) -> Measured:
    """Measure two servers that run already, taking turns: one run of each."""
    from regress_gate.cli.running_servers import Wanted, measure_servers
    from regress_gate.model.version import Ref, Version

    if len(urls) != 2:
        raise InputError(f"--url was given {len(urls)} times", todo="give BASE's server, then CAND's")
    versions = (baseline, candidate)
    wanted = [Wanted(Version.parse(text), url) for text, url in zip(versions, urls, strict=True)]
    outcome = measure_servers(settings, wanted, amount, quiet=quiet)
    for line in () if quiet else outcome.stored:
        click.echo(line, err=True)
    left, right = (Ref.parse(str(version)) for version in outcome.versions)
    return Measured((left, right), outcome.suite, outcome.testbed)


def plan_blocks(settings: "Settings", what: "Subject", amount: Amount) -> "RunPlan":
    """The blocks that are missing of the runs asked for, within the budget, and what they can show.

    Where not one block fits the budget, one is planned all the same: the budget itself will end it.
    """
    from regress_gate.gate.planning import plan_runs

    earlier = counted_runs(settings, what)
    have = min(_have(earlier, what, side) for side in what.versions)
    blocks = max(0, (amount.runs or DEFAULT_RUNS) - have)
    policy = settings.policy(what.suite.gate)
    plan = plan_runs(earlier, policy, what.suite, blocks=blocks, have=have)
    if amount.budget is not None and plan.seconds_a_block:
        fitting = max(1, int(amount.budget / plan.seconds_a_block))
        if fitting < blocks:
            plan = plan_runs(earlier, policy, what.suite, blocks=fitting, have=have)
    return plan


def _have(earlier: "list[Run]", what: "Subject", side: str) -> int:
    """Runs of a side. Where the suite wants several servers a run has only some scenarios: the scenario that has the
    fewest counts."""
    own = [run for run in earlier if run.version.matches(what.versions[side])]
    measured = [{trial.scenario for trial in run.trials} for run in own]
    return min(sum(scenario.name in names for names in measured) for scenario in what.suite.scenarios)


def counted_runs(settings: "Settings", what: "Subject") -> "list[Run]":
    """Runs of any version that count, of the suite on this testbed: stored ones and shipped ones."""
    from regress_gate.gate.sides import make_side
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.library import open_library

    with open_library(str(settings.store_url.value)) as library:
        runs = library.runs(testbed=what.testbed.name, suite=SuiteRef(what.suite.name, what.suite.version))
    by_version: dict[Version, list[Run]] = {}
    for run in runs:
        by_version.setdefault(run.version, []).append(run)
    return [
        run for version, same in by_version.items() for run in make_side(version, same, what.suite.conditions).counted
    ]


def explain(outcome: "Outcome") -> None:
    """What an experiment that is not complete lacks, on standard error."""
    from regress_gate.bench.experiment.runner import Ending

    match outcome.ending:
        case Ending.BUDGET:
            click.echo(f"the budget is used up; {outcome.missing} runs are missing (--resume goes on)", err=True)
        case Ending.DISTURBED:
            click.echo(f"{outcome.missing} runs were void at every try: quieten the machine and --resume", err=True)
        case Ending.FAILING:
            click.echo("one side fails again and again; nothing more is measured", err=True)


def _built(settings: "Settings", what: "Subject", side: str) -> "Version":
    """The build that was measured for a side, where what was asked for left something open."""
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.library import open_library

    wanted = what.versions[side]
    with open_library(str(settings.store_url.value)) as library:
        runs = library.runs(
            version=wanted, testbed=what.testbed.name, suite=SuiteRef(what.suite.name, what.suite.version)
        )
    return runs[-1].version if runs else wanted
