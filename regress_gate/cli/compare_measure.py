"""`compare --measure` and `--plan`: how many blocks are missing, what they cost and can show, and making them."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from regress_gate.cli.measuring import DEFAULT_RUNS, Amount, assignment
from regress_gate.cli.provisioning import make_provisioner
from regress_gate.errors import ExitCode, InputError, RegressGateError

if TYPE_CHECKING:
    from regress_gate.cli.measuring import Assignment
    from regress_gate.cli.settings import Settings
    from regress_gate.gate.planning import RunPlan
    from regress_gate.model.provisioning import ProvisionConfig
    from regress_gate.model.run import Run
    from regress_gate.model.version import Ref, Version


class NotMeasuredError(RegressGateError):
    """A side has nothing that could be compared, although it was measured: no verdict, and no lack of stored data."""

    exit_code = ExitCode.COULD_NOT_MEASURE


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

    A side that fails to serve is no error here: its failed runs are stored, and the gate weighs them. Raises
    NotMeasuredError when a side has neither those nor a run that counts.
    """
    from regress_gate.bench.experiment.plan import BASELINE, CANDIDATE
    from regress_gate.cli.carrying_out import carry_out
    from regress_gate.cli.experiments import find_plan, interruptible
    from regress_gate.cli.live import live_on_stderr
    from regress_gate.cli.plan_text import print_plan
    from regress_gate.cli.telling import explain
    from regress_gate.model.version import Ref
    from regress_gate.store.repository import open_store

    sides = {BASELINE: baseline, CANDIDATE: candidate}
    what = assignment(settings, sides, provisioning, plan_only=plan_only)
    if what.versions[BASELINE] == what.versions[CANDIDATE]:
        raise InputError("both sides are one version", todo="use `regress-gate calibrate` for the noise of one version")
    plan = plan_blocks(settings, what, amount)
    if plan_only:
        print_plan(what, plan, amount, format_)
        return None
    built = {side: _built(settings, what, side) for side in what.versions}
    if plan.blocks or amount.resume:
        provisioner = make_provisioner(provisioning, accelerator=what.testbed.accelerator, environ=settings.environment)
        with open_store(str(settings.store_url.value), create=True) as store:
            todo, is_resumed = find_plan(store, what, amount if amount.resume else replace(amount, runs=plan.blocks))
            with interruptible(store, todo), live_on_stderr(quiet=quiet) as live:
                outcome = carry_out(store, todo, what, amount, provisioner, live, is_resumed=is_resumed)
        explain(outcome)
        built |= {entry.made.slot.side: entry.made.run.version for entry in outcome.stored}
        for version in built.values():
            _check_measured(settings, what, version)
    elif not quiet:
        click.echo(f"both sides have {plan.runs_a_side} runs that count; nothing was measured", err=True)
    refs = Ref.parse(str(built[BASELINE])), Ref.parse(str(built[CANDIDATE]))
    return Measured(refs, str(settings.suite.value or what.suite.name), what.testbed.name)


def measure_both_running(
    settings: "Settings", baseline: str, candidate: str, urls: tuple[str, ...], amount: Amount, *, quiet: bool
) -> Measured:
    """Measure two servers that run already, taking turns: one run of each. Raises NotMeasuredError for one without."""
    from regress_gate.cli.running_servers import Wanted, measure_servers
    from regress_gate.model.version import Ref, Version

    if len(urls) != 2:
        raise InputError(f"--url was given {len(urls)} times", todo="give BASE's server, then CAND's")
    versions = (baseline, candidate)
    wanted = [Wanted(Version.parse(text), url) for text, url in zip(versions, urls, strict=True)]
    done = measure_servers(settings, wanted, amount, quiet=quiet)
    for line in () if quiet else done.stored:
        click.echo(line, err=True)
    if done.unmeasured:  # what is stored of it from earlier says nothing of what was asked for now
        raise NotMeasuredError(f"{done.unmeasured[0]} could not be measured: no trial could be used")
    left, right = (Ref.parse(str(version)) for version in done.versions)
    return Measured((left, right), done.suite, done.testbed)


def plan_blocks(settings: "Settings", what: "Assignment", amount: Amount) -> "RunPlan":
    """The blocks that are missing of the runs asked for, within the budget, and what they can show.

    Where not one block fits the budget, one is planned all the same: the budget itself will end it.
    """
    from regress_gate.gate.planning import plan_runs

    earlier = counted_runs(settings, what)
    have = _whole_blocks(earlier, what)
    blocks = max(0, (amount.runs or DEFAULT_RUNS) - have)
    policy = settings.policy(what.suite.gate)
    plan = plan_runs(earlier, policy, what.suite, blocks=blocks, have=have)
    if amount.budget is not None and plan.seconds_a_block:
        fitting = max(1, int(amount.budget / plan.seconds_a_block))
        if fitting < blocks:
            plan = plan_runs(earlier, policy, what.suite, blocks=fitting, have=have)
    return plan


def _whole_blocks(earlier: "list[Run]", what: "Assignment") -> int:
    """Blocks in which both versions count: what a comparison takes. Where the suite wants several servers, the one
    that has the fewest decides."""
    from regress_gate.bench.experiment.plan import server_groups
    from regress_gate.gate.pairing import side_by_side

    baseline, candidate = (
        [run for run in earlier if run.place is not None and run.version.matches(version)]
        for version in what.versions.values()
    )
    return min(
        side_by_side(
            [run for run in baseline if run.place and run.place.group == group.name],
            [run for run in candidate if run.place and run.place.group == group.name],
        ).blocks
        for group in server_groups(what.suite)
    )


def counted_runs(settings: "Settings", what: "Assignment") -> "list[Run]":
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


def _check_measured(settings: "Settings", what: "Assignment", version: "Version") -> None:
    """Raises NotMeasuredError for a version of which every run is void, and none failed."""
    from regress_gate.gate.sides import make_side
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.library import open_library

    with open_library(str(settings.store_url.value)) as library:
        ref = SuiteRef(what.suite.name, what.suite.version)
        runs = library.runs(version=version, testbed=what.testbed.name, suite=ref)
    side = make_side(version, runs, what.suite.conditions)
    if not side.counted and not side.failed:
        why = f": {side.void[-1].reason}" if side.void else ""
        raise NotMeasuredError(f"{version} could not be measured{why}; quieten the machine, then go on with --resume")


def _built(settings: "Settings", what: "Assignment", side: str) -> "Version":
    """The build that is stored for a side, where what was asked for left something open."""
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.library import open_library

    wanted = what.versions[side]
    with open_library(str(settings.store_url.value)) as library:
        runs = library.runs(
            version=wanted, testbed=what.testbed.name, suite=SuiteRef(what.suite.name, what.suite.version)
        )
    return runs[-1].version if runs else wanted
