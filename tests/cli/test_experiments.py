"""Experiments that are begun and gone on with: the rest must be measured as the beginning was."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from regress_gate.app import experiment as carrying_out
from regress_gate.app.experiment import interruptible
from regress_gate.app.experiment_plans import begin_experiment, find_plan
from regress_gate.app.measurement_task import MeasurementTask
from regress_gate.app.settings import MeasurementAmount
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.errors import InputError
from regress_gate.model.config import ProvisionConfig
from regress_gate.model.run import BlockPosition, SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import StoredExperiment
from regress_gate.suites import load_suite
from tests.cli.conftest import Gate
from tests.factories.runs import make_run, make_trial

NEW = MeasurementAmount(ready_within=60.0)
RESUME = replace(NEW, resume=True)


@pytest.fixture
def store(gate: Gate) -> Iterator[Repository]:
    with open_store(f"sqlite:///{gate.store}", create=True) as opened:
        yield opened


@pytest.fixture
def wanted() -> MeasurementTask:
    versions = {"single": Version.parse("0.19.1")}
    return MeasurementTask(load_suite("cpu-tiny"), Testbed("lab"), versions, ProvisionConfig(), {})


def begin(store: Repository, wanted: MeasurementTask, *, most_blocks: int | None = None, **amount: Any) -> str:
    plan, is_resumed = find_plan(store, wanted, replace(NEW, **amount), most_blocks=most_blocks)
    assert not is_resumed
    begin_experiment(store, plan)
    return plan.experiment


def test_an_experiment_goes_on_as_it_was_planned(store: Repository, wanted: MeasurementTask) -> None:
    experiment = begin(store, wanted, runs=7, trials=2, resident=True, driver="guidellm")
    plan, is_resumed = find_plan(store, wanted, RESUME)
    assert is_resumed
    assert plan.experiment == experiment
    assert (plan.blocks, plan.trials, plan.resident, plan.driver) == (7, 2, True, "guidellm")


@pytest.mark.parametrize(
    ("flag", "differs"),
    [
        ("--runs", {"runs": 8}),
        ("--trials", {"trials": 3}),
        ("--resident", {"resident": True}),
        ("--driver", {"driver": "guidellm"}),
        ("--lock-clocks", {"lock_clocks": 1410}),
    ],
)
def test_what_would_make_the_rest_another_experiment_is_refused(
    store: Repository, wanted: MeasurementTask, flag: str, differs: dict[str, Any]
) -> None:
    begin(store, wanted, runs=7, trials=2)
    with pytest.raises(InputError, match=f"{flag} differs from the experiment .*; leave {flag} out"):
        find_plan(store, wanted, replace(RESUME, **differs))
    assert find_plan(store, wanted, replace(RESUME, runs=7, trials=2, resident=False))[1]


def test_another_file_of_recorded_prompts_would_make_the_rest_another_experiment(
    store: Repository, wanted: MeasurementTask, gate: Gate
) -> None:
    file = gate.directory / "mine.jsonl"
    dataset = {"format": "custom", "file": str(file)}
    workload = {"dataset": dataset, "num_requests": 1, "concurrency": 1}
    scenario = {"name": "c8", "server": {"model": "tiny"}, "workload": workload}
    suite = {"name": "mine", "version": 1, "description": "Recorded.", "scenarios": [scenario]}
    wanted = replace(wanted, suite=Suite.model_validate(suite))
    file.write_text('{"prompt": "a", "output_tokens": 4}')
    experiment = begin(store, wanted, runs=2)
    before = make_trial(workload={"dataset_sha256": hashlib.sha256(file.read_bytes()).hexdigest()})
    place = BlockPosition(experiment, 1, 1, "single")
    store.add_runs([make_run("1", "0.19.1", before, testbed=wanted.testbed, suite=SuiteRef("mine", "1"), place=place)])
    assert find_plan(store, wanted, RESUME)[1]
    file.write_text('{"prompt": "b", "output_tokens": 400}')
    with pytest.raises(InputError, match="has changed since the experiment began; put it back, or begin anew"):
        find_plan(store, wanted, RESUME)


def test_the_blocks_that_were_allowed_for_stay_those(store: Repository, wanted: MeasurementTask) -> None:
    """The levels of the looks that were made already depend on them."""
    begin(store, wanted, runs=4, most_blocks=6)  # two were stored before
    for runs in (None, 6):
        plan, _ = find_plan(store, wanted, replace(RESUME, runs=runs), most_blocks=9)
        assert (plan.blocks, plan.most_blocks) == (4, 6)
    with pytest.raises(InputError, match="--runs differs from the experiment"):
        find_plan(store, wanted, replace(RESUME, runs=9))


def test_what_was_begun_to_be_looked_at_once_stays_so(store: Repository, wanted: MeasurementTask) -> None:
    begin(store, wanted, runs=4)
    assert find_plan(store, wanted, RESUME, most_blocks=6)[0].most_blocks is None


def test_what_measured_the_beginning_measures_the_rest(
    store: Repository, wanted: MeasurementTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(driver: str | None, _: Any) -> Any:
        raise LoadError(f"asked for {driver}")

    monkeypatch.setattr(carrying_out, "choose_meter", asked)
    begin(store, wanted, driver="guidellm")
    plan, _ = find_plan(store, wanted, RESUME)
    provisioner: Any = None
    with pytest.raises(LoadError, match="asked for guidellm"), progress_on_stderr(quiet=True) as live:
        carrying_out.run_experiment(store, plan, wanted, RESUME, provisioner, live, is_resumed=True)


def test_a_suite_that_was_edited_since_is_refused(store: Repository, wanted: MeasurementTask) -> None:
    begin(store, wanted)
    edited = replace(wanted, suite=wanted.suite.model_copy(update={"request_timeout": 7.0}))
    with pytest.raises(InputError, match="has been edited since the experiment began"):
        find_plan(store, edited, RESUME)


@pytest.mark.parametrize("document", [{}, {"experiment": "old", "suite": {}}, {"unknown": 1}])
def test_plans_of_another_version_of_the_program_are_ignored(
    store: Repository, wanted: MeasurementTask, document: dict[str, Any]
) -> None:
    experiment = begin(store, wanted)
    store.begin_experiment(StoredExperiment("old", datetime.now(UTC), document))
    assert find_plan(store, wanted, RESUME)[0].experiment == experiment


def test_how_to_go_on_is_said_only_of_what_was_begun(
    store: Repository, wanted: MeasurementTask, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, _ = find_plan(store, wanted, NEW)
    with (
        pytest.raises(KeyboardInterrupt),
        progress_on_stderr(quiet=True) as progress,
        interruptible(store, plan, progress),
    ):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""
    begin_experiment(store, plan)
    with (
        pytest.raises(KeyboardInterrupt),
        progress_on_stderr(quiet=True) as progress,
        interruptible(store, plan, progress),
    ):
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "interrupted: 0 runs of this experiment stored; go on with --resume\n"
