"""`compare --measure` and `--plan`: how many blocks are missing, what they cost and can show, and making them until
the decision stands. Not for the looks at the data after each block, which are `looking`'s.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from regress_gate.app.interim_analysis import built_version, counted_runs, whole_blocks
from regress_gate.app.measurement_task import DEFAULT_BLOCKS, MeasurementAmount, make_task
from regress_gate.app.provisioning import make_provisioner
from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.app.interim_analysis import DecideComparison, InterimAnalysis
    from regress_gate.app.measurement_task import MeasurementTask
    from regress_gate.app.settings import Settings
    from regress_gate.bench.experiment.experiment_runner import ExperimentOutcome
    from regress_gate.bench.provision.interface import Provisioner
    from regress_gate.gate.planning import RunPlan
    from regress_gate.model.config import ProvisionConfig
    from regress_gate.model.version import Ref, Version


class NotMeasuredError(RegressGateError):
    """A side has nothing that could be compared, although it was measured: no verdict, and no lack of stored data."""

    exit_code = ExitCode.COULD_NOT_MEASURE


@dataclass(frozen=True, slots=True)
class MeasuredComparison:
    """What was measured, and so what is to be compared."""

    refs: "tuple[Ref, Ref]"
    suite: str
    """As it was asked for: a name or a path."""
    testbed: str


def measure_comparison(
    settings: "Settings",
    baseline: str,
    candidate: str,
    amount: MeasurementAmount,
    provisioning: "ProvisionConfig",
    *,
    decide: "DecideComparison | None" = None,
    plan_only: bool,
    format_: str,
    quiet: bool,
) -> MeasuredComparison | None:
    """Make the blocks that are missing, or as many of them as `decide`, asked after each, needs for its answer; None
    when only the plan was asked for, which is then printed. Without `decide` all blocks are made.

    A side that fails to serve is no error here: its failed runs are stored, and the gate weighs them. Raises
    NotMeasuredError when a side has neither those nor a run that counts.
    """
    from regress_gate.app.interim_analysis import InterimAnalysis
    from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE
    from regress_gate.cli.plan_text import print_plan
    from regress_gate.model.version import Ref
    from regress_gate.report.render.plain_text import plain

    sides = {BASELINE: baseline, CANDIDATE: candidate}
    what = make_task(settings, sides, provisioning, plan_only=plan_only)
    if what.versions[BASELINE] == what.versions[CANDIDATE]:
        raise InputError("both sides are one version", todo="use `regress-gate calibrate` for the noise of one version")
    looks = None if decide is None else InterimAnalysis(settings, what, decide)
    plan = plan_blocks(settings, what, amount, stops_early=looks is not None)
    standing = None
    if looks is not None and plan.blocks and not amount.resume:
        standing = looks.standing(plan.runs_a_side)
    if standing is not None:
        have = plan.runs_a_side - plan.blocks
        plan = plan_blocks(settings, what, replace(amount, runs=have), stops_early=False)
    if plan_only:
        print_plan(what, plan, amount, format_)
        return None
    built = {side: built_version(settings, what, side) for side in what.versions}
    if plan.blocks or amount.resume:
        provisioner = make_provisioner(provisioning, accelerator=what.testbed.accelerator, environ=settings.environment)
        outcome = _measure(settings, what, amount, plan, provisioner, looks, quiet=quiet)
        built |= {entry.made.slot.side: entry.made.run.version for entry in outcome.stored}
        for version in built.values():
            _check_measured(settings, what, version)
    elif not quiet:
        known = standing or f"both sides have {plural(plan.runs_a_side, 'run that counts', 'runs that count')}"
        hint = "" if standing is None else " (--all-blocks measures all the same)"
        click.echo(f"{plain(known)}; nothing was measured{hint}", err=True)
    refs = Ref.parse(str(built[BASELINE])), Ref.parse(str(built[CANDIDATE]))
    return MeasuredComparison(refs, str(settings.suite.value or what.suite.name), what.testbed.name)


def _measure(
    settings: "Settings",
    what: "MeasurementTask",
    amount: MeasurementAmount,
    plan: "RunPlan",
    provisioner: "Provisioner",
    looks: "InterimAnalysis | None",
    *,
    quiet: bool,
) -> "ExperimentOutcome":
    from regress_gate.app.experiment import explain_outcome, find_plan, interruptible, run_experiment
    from regress_gate.cli.progress import live_on_stderr
    from regress_gate.store.repository import open_store

    with open_store(str(settings.store_url.value), create=True) as store:
        todo, is_resumed = find_plan(
            store,
            what,
            amount if amount.resume else replace(amount, runs=plan.blocks),
            most_blocks=None if looks is None else plan.runs_a_side,
        )
        if todo.most_blocks is None:  # begun to be looked at once, and its runs say so
            looks = None
        with interruptible(store, todo), live_on_stderr(quiet=quiet) as live:
            after_block = None if looks is None else looks.after_block(store, todo, live)
            outcome = run_experiment(
                store, todo, what, amount, provisioner, live, is_resumed=is_resumed, after_block=after_block
            )
    explain_outcome(outcome)
    return outcome


def measure_running_comparison(
    settings: "Settings",
    baseline: str,
    candidate: str,
    urls: tuple[str, ...],
    amount: MeasurementAmount,
    *,
    quiet: bool,
) -> MeasuredComparison:
    """Measure two servers that run already, taking turns: one run of each. Raises NotMeasuredError for one without."""
    from regress_gate.cli.running_servers import ServerTarget, measure_servers
    from regress_gate.model.version import Ref, Version

    if len(urls) != 2:
        raise InputError(f"--url was given {plural(len(urls), 'time')}", todo="give BASE's server, then CAND's")
    versions = (baseline, candidate)
    wanted = [ServerTarget(Version.parse(text), url) for text, url in zip(versions, urls, strict=True)]
    done = measure_servers(settings, wanted, amount, quiet=quiet)
    for line in () if quiet else done.stored:
        click.echo(line, err=True)
    if done.unmeasured:  # what is stored of it from earlier says nothing of what was asked for now
        raise NotMeasuredError(f"{done.unmeasured[0]} could not be measured: no trial could be used")
    left, right = (Ref.parse(str(version)) for version in done.versions)
    return MeasuredComparison((left, right), done.suite, done.testbed)


def plan_blocks(
    settings: "Settings", what: "MeasurementTask", amount: MeasurementAmount, *, stops_early: bool
) -> "RunPlan":
    """The blocks that are missing of the runs asked for, within the budget, and what they can show.

    Where not one block fits the budget, one is planned all the same: the budget itself will end it.
    """
    from regress_gate.gate.planning import plan_runs

    earlier = counted_runs(settings, what)
    have = whole_blocks(earlier, what)
    blocks = max(0, (amount.runs or DEFAULT_BLOCKS) - have)
    policy = settings.policy(what.suite.gate)
    plan = plan_runs(earlier, policy, what.suite, blocks=blocks, have=have, stops_early=stops_early)
    if amount.budget is not None and plan.seconds_a_block:
        fitting = max(1, int(amount.budget / plan.seconds_a_block))
        if fitting < blocks:
            plan = plan_runs(earlier, policy, what.suite, blocks=fitting, have=have, stops_early=stops_early)
    return plan


def _check_measured(settings: "Settings", what: "MeasurementTask", version: "Version") -> None:
    """Raises NotMeasuredError for a version of which every run is void, and none failed."""
    from regress_gate.gate.sides import make_side
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.combined import open_combined_store

    with open_combined_store(str(settings.store_url.value)) as library:
        ref = SuiteRef(what.suite.name, what.suite.version)
        runs = library.runs(version=version, testbed=what.testbed.name, suite=ref)
    side = make_side(version, runs, what.suite.conditions)
    if not side.counted and not side.failed:
        why = f": {side.void[-1].reason}" if side.void else ""
        raise NotMeasuredError(f"{version} could not be measured{why}; quieten the machine, then go on with --resume")
