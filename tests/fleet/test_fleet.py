"""Blocks on several hosts, each a real worker process: each once, whatever becomes of the workers."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from regress_gate.app.fleet import open_fleet
from regress_gate.app.settings import Settings
from regress_gate.model.run import SuiteRef
from tests.bench.fleet.test_fleet_loop import Told
from tests.cli.measuring.test_bisect import SLOWER
from tests.cli.test_compare_hosts import stored
from tests.cli.test_fleet_status import nights
from tests.fleet.conftest import FleetLab
from tests.fleet.local_executor import LocalExecutor, LocalTask, kill_worker

pytestmark = pytest.mark.slow


def test_each_block_is_made_whole_by_one_host(lab: FleetLab, engine: Callable[..., LocalExecutor]) -> None:
    executor = engine("a", "b")
    made = lab("run", "0.19.0", "--runs", "4")
    assert made.code == 0
    assert sorted(run.place.block for run in lab.runs() if run.place) == [1, 2, 3, 4]
    assert {run.testbed.name for run in lab.runs()} == {"a", "b"}
    assert executor.closed
    assert lab.servers() == []


def test_a_worker_that_is_killed_leaves_no_server_and_its_block_is_made_again(
    lab: FleetLab, engine: Callable[..., LocalExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = engine("a", "b")
    killed: list[LocalTask] = []
    look = executor.look

    def kill_first(task: LocalTask) -> object:
        if task.name != "survey" and not killed and lab.servers():
            killed.append(task)
            kill_worker(task)
        return look(task)

    monkeypatch.setattr(executor, "look", kill_first)
    made = lab("run", "0.19.0", "--runs", "2")
    assert made.code == 0
    assert "was lost on" in made.err
    assert sorted(run.place.block for run in lab.runs() if run.place) == [1, 2]
    assert lab.servers() == []


def test_a_calibration_is_of_one_host(lab: FleetLab, engine: Callable[..., LocalExecutor]) -> None:
    executor = engine("a", "b", "c")
    made = lab("calibrate", "0.19.0", "--runs", "2", "--testbed", "[bc]")
    assert made.code in (0, 1), made.err
    assert {run.testbed.name for run in lab.runs()} == {"b"}
    assert {task.host for task in executor.blocks} == {"b"}


def test_a_host_that_stepped_away_is_named_before_it_measures(
    lab: FleetLab, engine: Callable[..., LocalExecutor]
) -> None:
    engine("h0", "h1", "h2")
    suite = SuiteRef("small", "1")
    stored(lab.gate, [replace(run, suite=suite) for run in nights(20, step_at=12)])
    told = Told()
    with open_fleet(Settings(store_flag=str(lab.gate.store), suite_flag=str(lab.suite)), "ray", told):
        assert any("h0 stepped away from the others of its class in small@1" in line for line in told.warnings)


def test_a_search_stays_on_one_host(lab: FleetLab, engine: Callable[..., LocalExecutor]) -> None:
    executor = engine("a", "b")
    lab.behave({"0.19.0": [], "0.19.1": SLOWER})
    words = (
        "bisect",
        "0.19.0",
        "0.19.1",
        "--metric",
        "tpot_median",
        "--releases-only",
        "--offline",
        "--format",
        "json",
    )
    found = lab(*words)
    assert found.code == 0, found.out + found.err
    answer = json.loads(found.out)
    assert answer["first_bad"]["version"] == "0.19.1"
    assert answer["stages"][0]["runs_made"] == 4  # in virtual time: what a step that exceeds all noise takes
    assert {run.testbed.name for run in lab.runs()} == {"a"}
    assert {task.host for task in executor.blocks} == {"a"}


def test_a_watch_measures_on_one_host(lab: FleetLab, engine: Callable[..., LocalExecutor]) -> None:
    engine("a", "b")
    lab.gate("baseline", "pin", "0.19.0", "--unmeasured")
    seen = lab("watch", "--build", "0.19.1", "--offline", "--runs", "2", "--quiet")
    assert seen.code in (0, 3), seen.err
    assert {run.testbed.name for run in lab.runs()} == {"a"}
    assert {str(run.version) for run in lab.runs()} == {"0.19.0", "0.19.1"}
