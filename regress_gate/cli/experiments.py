"""Plans of experiments: a new one, one that goes on after it was interrupted, and what an interruption says of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING

import click

from regress_gate.cli.measuring import DEFAULT_RUNS, Amount
from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.bench.experiment.plan import Plan
    from regress_gate.cli.measuring import Assignment
    from regress_gate.store.holdings import Experiment
    from regress_gate.store.repository import Repository


def find_plan(
    store: "Repository", wanted: "Assignment", amount: Amount, *, most_blocks: int | None = None
) -> "tuple[Plan, bool]":
    """The plan to carry out, and whether it was begun before. Raises InputError when there is nothing to resume.

    `most_blocks` is that of a new plan; one that goes on keeps its own, as the levels of its looks depend on it.
    """
    from regress_gate.bench.experiment.plan import Plan, new_experiment_id, suite_digest
    from regress_gate.model.run import SuiteRef

    suite = SuiteRef(wanted.suite.name, wanted.suite.version)
    texts = {side: str(version) for side, version in wanted.versions.items()}
    if amount.resume:
        for experiment in store.experiments():
            plan = _plan_of(experiment)
            if plan is None or experiment.ended is not None:
                continue
            if (plan.suite, plan.testbed, dict(plan.versions)) == (suite, wanted.testbed.name, texts):
                _check_resumable(plan, wanted, amount)
                _check_files(store, plan, wanted)
                return plan, True
        raise InputError(
            f"there is no unfinished experiment of {' and '.join(dict.fromkeys(texts.values()))} with {suite} on "
            f"{wanted.testbed.name}",
            todo="leave --resume out",
        )
    return Plan(
        experiment=new_experiment_id(datetime.now(UTC)),
        suite=suite,
        suite_digest=suite_digest(wanted.suite),
        testbed=wanted.testbed.name,
        versions=texts,
        blocks=amount.runs or DEFAULT_RUNS,
        trials=amount.trials or wanted.suite.trials,
        resident=bool(amount.resident),
        driver=amount.driver,
        most_blocks=most_blocks,
    ), False


def _plan_of(experiment: "Experiment") -> "Plan | None":
    """None for one that another version of this program wrote: only that one can go on with it."""
    from regress_gate.bench.experiment.plan import Plan

    try:
        return Plan.from_document(experiment.plan)
    except (KeyError, TypeError, ValueError):
        return None


def _check_resumable(plan: "Plan", wanted: "Assignment", amount: Amount) -> None:
    """Raises InputError for what would make the rest of an experiment another one than its beginning."""
    from regress_gate.bench.experiment.plan import suite_digest

    if plan.suite_digest != suite_digest(wanted.suite):
        raise InputError(
            f"suite {plan.suite} has been edited since the experiment began",
            todo="raise its version and begin anew without --resume",
        )
    for flag, given, begun in (
        ("--runs", amount.runs, plan.most_blocks or plan.blocks),
        ("--trials", amount.trials, plan.trials),
        ("--resident", amount.resident, plan.resident),
        ("--driver", amount.driver, plan.driver),
    ):
        if given is not None and given != begun:
            raise InputError(f"{flag} differs from the experiment that is to be resumed", todo=f"leave {flag} out")


def _check_files(store: "Repository", plan: "Plan", wanted: "Assignment") -> None:
    """Raises InputError where a file of recorded prompts is not the one that the experiment began with."""
    from regress_gate.bench.suite_run import load_workloads

    now = {scenario.name: workload.dataset for scenario, workload in load_workloads(wanted.suite)}
    for run in store.runs(testbed=plan.testbed, suite=plan.suite):
        if run.place is None or run.place.experiment != plan.experiment:
            continue
        for trial in run.trials:
            dataset, before = now[trial.scenario], trial.workload.get("dataset_sha256")
            if dataset is not None and before != dataset.sha256:
                what, todo = "has changed since the experiment began", "put it back, or begin anew without --resume"
                raise InputError(what, where=dataset.file, todo=todo)


def begin_experiment(store: "Repository", plan: "Plan") -> None:
    """From here on it can be resumed."""
    from regress_gate.store.holdings import Experiment

    store.begin_experiment(Experiment(plan.experiment, datetime.now(UTC), plan.as_document()))


@contextmanager
def interruptible(store: "Repository", plan: "Plan") -> Iterator[None]:
    """SIGTERM and a terminal that goes away end like Ctrl-C: servers are stopped, and it is said how to go on."""
    import signal

    def interrupt(_: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):  # asyncio puts in its own, which ends what it runs in good order
            handler(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        _say_how_to_go_on(store, plan)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say_how_to_go_on(store: "Repository", plan: "Plan") -> None:
    from regress_gate.bench.experiment.runner import held_runs
    from regress_gate.ingest.text import plural

    if any(experiment.id == plan.experiment for experiment in store.experiments()):
        held = plural(len(held_runs(plan, store)), "run")
        click.echo(f"interrupted: {held} of this experiment stored; go on with --resume", err=True)
