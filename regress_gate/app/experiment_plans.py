"""The experiment of a task as the store holds it: found again if it is unfinished, planned anew if not, and begun."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from regress_gate.app.measurement_task import MeasurementTask
from regress_gate.app.settings import DEFAULT_RUNS, MeasurementAmount
from regress_gate.bench.experiment.experiment_plan import ExperimentPlan, new_experiment_id, suite_digest
from regress_gate.bench.experiment.experiment_runner import find_plan_runs
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.errors import InputError
from regress_gate.model.run import SuiteRef
from regress_gate.store.change_log import place
from regress_gate.store.repository import Repository
from regress_gate.store.store_interface import StoredExperiment


def find_plan(
    store: Repository, task: MeasurementTask, amount: MeasurementAmount, *, most_blocks: int | None = None
) -> tuple[ExperimentPlan, bool]:
    """The plan, and whether it is resumed. Raises InputError if there is nothing to resume.

    `most_blocks` is for a new plan. A resumed plan keeps its own: the levels of its interim analyses depend on it.
    """
    suite = SuiteRef(task.suite.name, task.suite.version)
    texts = {side: str(version) for side, version in task.versions.items()}
    if amount.resume or amount.resume_if_any:
        begun = find_unfinished(store, task)
        if begun is not None:
            _check_resumable(begun, task, amount)
            _check_files(store, begun, task)
            return begun, True
    if amount.resume:
        raise InputError(
            f"there is no unfinished experiment of {' and '.join(dict.fromkeys(texts.values()))} with {suite} on "
            f"{task.place}",
            todo="leave --resume out",
        )
    return ExperimentPlan(
        experiment=new_experiment_id(datetime.now(UTC)),
        suite=suite,
        suite_digest=suite_digest(task.suite),
        testbed=task.place,
        versions=texts,
        blocks=amount.runs or DEFAULT_RUNS,
        trials=amount.trials or task.suite.trials,
        resident=bool(amount.resident),
        driver=amount.driver,
        most_blocks=most_blocks,
        counter_test=task.counter_test,
        hosts=task.hosts,
        lock_clocks=amount.lock_clocks,
    ), False


def find_unfinished(store: Repository, task: MeasurementTask) -> ExperimentPlan | None:
    """The experiment of the task that was interrupted; None if there is none."""
    return next(_task_plans(task, store.experiments(unfinished_only=True)), None)


def find_counter_test(store: Repository, task: MeasurementTask) -> ExperimentPlan | None:
    """The newest experiment of a task with a counter-test, ended or not, with the suite as it is now."""
    digest = suite_digest(task.suite)
    return next((plan for plan in _task_plans(task, store.experiments()) if plan.suite_digest == digest), None)


def _task_plans(task: MeasurementTask, experiments: Iterable[StoredExperiment]) -> Iterator[ExperimentPlan]:
    texts = {side: str(version) for side, version in task.versions.items()}
    wanted = SuiteRef(task.suite.name, task.suite.version), task.place, texts, task.counter_test, task.hosts
    for experiment in experiments:
        plan = _plan_of(experiment)
        if plan is None:
            continue
        if (plan.suite, plan.testbed, dict(plan.versions), plan.counter_test, plan.hosts) == wanted:
            yield plan


def _plan_of(experiment: StoredExperiment) -> ExperimentPlan | None:
    """None for a plan of another version of this program, which only that version can resume."""
    try:
        return ExperimentPlan.from_document(experiment.plan)
    except (KeyError, TypeError, ValueError):
        return None


def _check_resumable(plan: ExperimentPlan, task: MeasurementTask, amount: MeasurementAmount) -> None:
    """Raises InputError for options that differ from those of the experiment's beginning."""
    if plan.suite_digest != suite_digest(task.suite):
        raise InputError(
            f"suite {plan.suite}, or a trace of it, has been edited since the experiment began",
            todo="raise its version and begin anew without --resume",
        )
    for flag, given, begun in (
        ("--runs", amount.runs, plan.most_blocks or plan.blocks),
        ("--trials", amount.trials, plan.trials),
        ("--resident", amount.resident, plan.resident),
        ("--driver", amount.driver, plan.driver),
        ("--lock-clocks", amount.lock_clocks, plan.lock_clocks),
    ):
        if given is not None and given != begun:
            raise InputError(f"{flag} differs from the experiment that is to be resumed", todo=f"leave {flag} out")


def _check_files(store: Repository, plan: ExperimentPlan, task: MeasurementTask) -> None:
    """Raises InputError if a file of recorded prompts has changed since the experiment began."""
    now = {scenario.name: workload.dataset for scenario, workload in load_workloads(task.suite)}
    for run in find_plan_runs(plan, store):
        for trial in run.trials:
            dataset, before = now[trial.scenario], trial.workload.get("dataset_sha256")
            if dataset is not None and before != dataset.sha256:
                what, todo = "has changed since the experiment began", "put it back, or begin anew without --resume"
                raise InputError(what, where=dataset.file, todo=todo)


def begin_experiment(store: Repository, plan: ExperimentPlan) -> None:
    """Store the plan, so that the experiment can be resumed."""
    places = [place(version, plan.testbed, plan.suite_of(side)) for side, version in plan.versions.items()]
    store.begin_experiment(StoredExperiment(plan.experiment, datetime.now(UTC), plan.as_document()), places)
