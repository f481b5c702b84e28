"""The loop over a fleet stores each block once and whole, whatever becomes of hosts and attempts."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE, ExperimentPlan
from regress_gate.bench.experiment.experiment_runner import (
    AfterBlock,
    ExperimentControl,
    ExperimentEnd,
    ExperimentOutcome,
)
from regress_gate.bench.fleet import fleet as fleet_module
from regress_gate.bench.fleet import fleet_loop
from regress_gate.bench.fleet.block_task import BlockResult, attempt_of
from regress_gate.bench.fleet.executor import FleetError, FleetHost, TaskReport, TaskState
from regress_gate.bench.fleet.fleet import HOST_LOSSES, Fleet, FleetMember
from regress_gate.bench.fleet.fleet_loop import AFTER_DECISION, BLOCK_ATTEMPTS, run_on_fleet
from regress_gate.errors import InputError, StoreAwayError, StoreError
from regress_gate.gate.comparison_choice import check_one_class
from regress_gate.model.run import BlockPosition, Run, RunFailure, SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import database as store_database
from regress_gate.store.database import Patience
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import StoredExperiment
from tests.factories.stored_runs import make_trial

VERSIONS = {BASELINE: "0.19.0", CANDIDATE: "0.19.1"}
WORKLOAD = {"input_len": 8, "output_len": 8, "num_requests": 4, "concurrency": 1}
SMALL = Suite.model_validate(
    {
        "name": "small",
        "version": "1",
        "description": "…",
        "scenarios": [{"name": "c1", "server": {"model": "m"}, "workload": WORKLOAD}],
    }
)
FAILURE = RunFailure("died_at_start", "the server died", ("ImportError: libcudart",), 2.0)


def machine(name: str, **facts: Any) -> Testbed:
    known = {"accelerator": "H100", "accelerator_count": 1, "cpu": "x", "cpu_count": 2, "memory_bytes": 2**37}
    return Testbed(name, **{**known, **facts})


def make_block(host: str, block: int, attempt: int, **differs: Any) -> BlockResult:
    """A run of each version; `differs` has, by side, what is different in its run."""
    runs = []
    for position, (side, version) in enumerate(VERSIONS.items(), 1):
        label = f"e1/{block}-{side}"
        run = Run(
            version=Version.parse(version),
            testbed=machine(host),
            suite=SuiteRef("small", "1"),
            label=label,
            trials=(make_trial(f"{host} {label} {attempt}"),),
            started=datetime.now(UTC),
            place=BlockPosition("e1", block, position, side, False, group="server"),
        )
        changed = differs.get(side, {})
        runs.append(replace(run, **changed, **({"trials": ()} if "failure" in changed else {})))
    return BlockResult(machine(host), tuple(runs))


Deed = Callable[[str, int, int], "BlockResult | str | TaskState | None"]
"""What becomes of a block on a host at an attempt: its result, a text for a loss, a state, or None: it runs on."""


@dataclass
class Engine:
    """An engine whose tasks end at the second look, as `deed` says."""

    names: list[str]
    deed: Deed = make_block
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    begun: list[dict[str, Any]] = field(default_factory=list)
    cancelled: list[dict[str, Any]] = field(default_factory=list)

    def hosts(self) -> list[FleetHost]:
        return [FleetHost(name, name) for name in self.names]

    def submit(self, host: FleetHost, task: str, name: str, *, alone: bool, seconds: float | None) -> dict[str, Any]:  # noqa: ARG002
        handle = {**json.loads(task), "host": host.id, "looks": 0, "over": False}
        self.begun.append(handle)
        return handle

    def look(self, handle: dict[str, Any]) -> TaskReport:
        handle["looks"] += 1
        if "block" not in handle:
            handle["over"] = True
            testbed = machine(handle["host"], **self.facts.get(handle["host"], {}))
            return TaskReport(TaskState.DONE, text=BlockResult(testbed).as_text())
        deed = self.deed(handle["host"], handle["block"], handle["attempt"]) if handle["looks"] > 1 else None
        if deed is None or isinstance(deed, TaskState):
            return TaskReport(deed or TaskState.RUNNING)
        handle["over"] = True
        if isinstance(deed, str):
            return TaskReport(TaskState.LOST, text=deed)
        return TaskReport(TaskState.DONE, text=deed.as_text())

    def cancel(self, handle: dict[str, Any]) -> None:
        if not handle["over"]:
            self.cancelled.append(handle)

    def close(self) -> None: ...

    @property
    def blocks(self) -> list[dict[str, Any]]:
        return [task for task in self.begun if "block" in task]


class Told:
    """What the loop said."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def host(self, name: str, text: str | None) -> None: ...

    def note(self, text: str) -> None: ...

    def say(self, text: str) -> None: ...

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@dataclass
class World:
    store: Repository
    told: Told = field(default_factory=Told)

    def fleet(self, engine: Engine, *wanted: str) -> Fleet:
        names = wanted or ("*",)
        is_wanted = (lambda name: name in wanted) if wanted else (lambda _name: True)
        fleet = Fleet(engine, names, lambda _: "{}", is_wanted, check_one_class, self.told)
        fleet.survey()
        return fleet

    def run(
        self, engine: Engine, *, blocks: int = 4, after_block: AfterBlock | None = None, budget: float | None = None
    ) -> ExperimentOutcome:
        plan = ExperimentPlan(
            "e1", SuiteRef("small", "1"), "0" * 64, "*", VERSIONS, blocks, 1, resident=False, hosts=("*",)
        )
        if not self.store.experiments():
            self.store.begin_experiment(StoredExperiment("e1", datetime.now(UTC), plan.as_document()))
        until = None if budget is None else time.monotonic() + budget
        control = ExperimentControl(why_void=lambda run: run.void, after_block=after_block, until=until)

        def task(_: FleetMember, block: int, attempt: int, __: Any) -> str:
            return json.dumps({"block": block, "attempt": attempt})

        return run_on_fleet(plan, SMALL, self.fleet(engine), self.store, control, task)

    def blocks(self, *, counted: bool = True) -> list[int]:
        """The block of each stored run that counts, or does not."""
        return sorted(run.place.block for run in self.store.runs() if run.place and (run.void is None) is counted)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for module in (fleet_loop, fleet_module):
        monkeypatch.setattr(module, "_POLL", 0)
    for name in ("_LIST_EVERY", "LOSS_REST"):
        monkeypatch.setattr(fleet_module, name, 0)
    with open_store(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        yield World(store)


def test_each_block_is_made_once_and_hosts_work_side_by_side(world: World) -> None:
    engine = Engine(["a", "b", "c"])
    outcome = world.run(engine, blocks=6)
    assert outcome.ending is ExperimentEnd.COMPLETE
    assert world.blocks() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert [task["host"] for task in engine.blocks] == ["a", "b", "c", "a", "b", "c"]
    assert engine.cancelled == []


def test_a_lost_block_is_made_again_and_its_loss_is_no_evidence(world: World) -> None:
    engine = Engine(["a", "b"], lambda host, block, attempt: make_block(host, block, attempt) if attempt > 1 else "off")
    outcome = world.run(engine, blocks=2)
    assert outcome.ending is ExperimentEnd.COMPLETE
    assert world.blocks() == [1, 1, 2, 2]
    assert world.blocks(counted=False) == []
    assert [run.failure for run in world.store.runs()] == [None] * 4
    assert {attempt_of(run) for run in world.store.runs()} == {2}


def test_a_host_that_loses_every_task_is_left_out_and_the_others_go_on(world: World) -> None:
    engine = Engine(["a", "b"], lambda host, *more: "off" if host == "a" else make_block(host, *more))
    assert world.run(engine, blocks=8).ending is ExperimentEnd.COMPLETE
    assert sum(task["host"] == "a" for task in engine.blocks) == HOST_LOSSES
    assert {run.testbed.name for run in world.store.runs()} == {"b"}
    assert any("a is left out: 3 tasks came to nothing" in line for line in world.told.warnings)


def test_a_block_that_is_lost_everywhere_ends_the_attempts_not_the_others(world: World) -> None:
    hosts = [f"h{number}" for number in range(8)]
    engine = Engine(hosts, lambda host, block, attempt: "off" if block == 2 else make_block(host, block, attempt))
    outcome = world.run(engine, blocks=3)
    assert outcome.ending is ExperimentEnd.LOST
    assert outcome.missing == 2
    assert world.blocks() == [1, 1, 3, 3]
    assert sum(task["block"] == 2 for task in engine.blocks) == BLOCK_ATTEMPTS


def test_a_late_result_of_an_attempt_that_was_given_up_changes_nothing(world: World) -> None:
    engine = Engine(["a", "b"], lambda host, *more: "off" if more == (1, 1) else make_block(host, *more))
    world.run(engine, blocks=1)
    before = [(run.id, run.label, run.void) for run in world.store.runs()]
    late = make_block("a", 1, 1)
    engine.deed = lambda *_: late  # the first attempt ends after all
    assert world.run(engine, blocks=1).ending is ExperimentEnd.COMPLETE
    assert [(run.id, run.label, run.void) for run in world.store.runs()] == before


def test_a_block_counts_as_a_whole_or_not_at_all(world: World) -> None:
    void = {CANDIDATE: {"void": "others used the machine"}}
    engine = Engine(["a"], lambda host, *more: make_block(host, *more, **void))
    outcome = world.run(engine, blocks=1)
    assert outcome.ending is ExperimentEnd.DISTURBED
    assert world.blocks() == []
    assert {run.void for run in world.store.runs()} == {
        "others used the machine",
        "another run of its block does not count",
    }
    engine.deed = make_block
    engine.names = ["b"]
    assert world.run(engine, blocks=1).ending is ExperimentEnd.COMPLETE
    assert {run.testbed.name for run in world.store.runs() if run.void is None} == {"b"}
    assert [attempt_of(run) for run in world.store.runs() if run.void is None] == [2, 2]


def test_the_decision_cancels_what_is_no_longer_needed(world: World) -> None:
    looks: list[int] = []

    def after_block() -> str | None:
        looks.append(len(world.blocks()))
        return "clear" if len(looks) == 2 else None

    engine = Engine(["a", "b", "c"], lambda host, *more: None if host == "c" else make_block(host, *more))
    outcome = world.run(engine, blocks=9, after_block=after_block)
    assert (outcome.ending, outcome.why) == (ExperimentEnd.STOPPED, "clear")
    assert looks == [2, 4]
    assert [task["host"] for task in engine.cancelled] == ["c"]


def test_a_block_that_ends_after_the_decision_is_kept_but_does_not_count(world: World) -> None:
    outcome = world.run(Engine(["a", "b"]), blocks=4, after_block=lambda: "clear")
    assert outcome.ending is ExperimentEnd.STOPPED
    assert world.blocks() == [1, 1]
    assert {run.void for run in world.store.runs() if run.void} == {AFTER_DECISION}


def test_failures_of_one_version_end_the_experiment(world: World) -> None:
    failing = {CANDIDATE: {"failure": FAILURE}}
    engine = Engine(["a", "b"], lambda host, *more: make_block(host, *more, **failing))
    assert world.run(engine, blocks=6).ending is ExperimentEnd.FAILING
    assert len(engine.blocks) <= 3


def test_a_host_that_cannot_measure_is_no_evidence_and_without_others_the_reason_is_told(world: World) -> None:
    engine = Engine(["a"], lambda *_: BlockResult(error="no space left on device"))
    with pytest.raises(FleetError, match="no space left on device"):
        world.run(engine, blocks=2)
    assert world.store.runs() == []


def test_a_trouble_that_passes_costs_an_attempt_and_no_host(world: World) -> None:
    def deed(host: str, block: int, attempt: int) -> BlockResult:
        return make_block(host, block, attempt) if attempt > 1 else BlockResult(error="the index does not answer")

    assert world.run(Engine(["a"], deed), blocks=2).ending is ExperimentEnd.COMPLETE
    assert world.blocks() == [1, 1, 2, 2]


def test_a_block_that_waits_for_a_busy_host_is_made_by_another(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_loop, "WAIT_FOR_HOST", 0)
    engine = Engine(["a", "b"], lambda host, *more: TaskState.WAITING if host == "a" else make_block(host, *more))
    assert world.run(engine, blocks=3).ending is ExperimentEnd.COMPLETE
    assert {run.testbed.name for run in world.store.runs()} == {"b"}
    assert {task["host"] for task in engine.cancelled} == {"a"}


def test_a_busy_host_does_not_keep_a_measurement_beyond_its_budget(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_loop, "WAIT_FOR_HOST", 0)
    outcome = world.run(Engine(["a"], lambda *_: TaskState.WAITING), blocks=1, budget=0.0)
    assert outcome.ending is ExperimentEnd.BUDGET


def test_a_host_on_which_nothing_starts_is_at_fault_where_others_serve(world: World) -> None:
    broken = {side: {"failure": FAILURE} for side in VERSIONS}
    engine = Engine(["a", "b"], lambda host, *more: make_block(host, *more, **(broken if host == "a" else {})))
    assert world.run(engine, blocks=6).ending is ExperimentEnd.COMPLETE
    assert sum(task["host"] == "a" for task in engine.blocks) == 1
    assert any("a is left out: no server of any version works there" in line for line in world.told.warnings)


def test_hosts_that_come_later_are_of_the_class_that_began(world: World) -> None:
    engine = Engine(["a"], facts={"b": {"accelerator": "A100"}})

    def deed(host: str, block: int, attempt: int) -> BlockResult:
        engine.names = ["b"] if block == 1 else engine.names
        return make_block(host, block, attempt)

    engine.deed = deed
    with pytest.raises(FleetError, match="b: a and b are not of one class: accelerator is H100 and A100"):
        world.run(engine, blocks=3)
    assert {run.testbed.name for run in world.store.runs()} == {"a"}
    with pytest.raises(InputError, match="accelerator is H100 and A100"):
        world.run(engine, blocks=3)


def test_what_is_missing_is_made_after_an_interruption(world: World) -> None:
    def interrupt() -> str | None:
        raise KeyboardInterrupt

    engine = Engine(["a", "b"])
    with pytest.raises(KeyboardInterrupt):
        world.run(engine, blocks=4, after_block=interrupt)
    assert world.blocks() == [1, 1]
    assert world.run(engine, blocks=4).ending is ExperimentEnd.COMPLETE
    assert world.blocks() == [1, 1, 2, 2, 3, 3, 4, 4]


def test_a_testbed_never_has_two_blocks_at_once(world: World) -> None:
    """A lost host may be back under another id before the engine has noticed the loss."""
    engine = Engine(["a"])
    fleet = world.fleet(engine)
    fleet.members[0].block = 1
    twin = replace(fleet.members[0], host=FleetHost("a-again", "a"), block=None, handle=None)
    fleet.members.append(twin)
    assert fleet.idle() == []


def test_hosts_of_two_classes_are_refused_with_the_first_difference(world: World) -> None:
    engine = Engine(["a", "b"], facts={"b": {"accelerator": "A100"}})
    with pytest.raises(InputError, match="a and b are not of one class: accelerator is H100 and A100"):
        world.fleet(engine)


def test_only_hosts_that_were_asked_for_take_part(world: World) -> None:
    assert [each.name for each in world.fleet(Engine(["a", "b", "c"]), "a", "c").testbeds] == ["a", "c"]
    with pytest.raises(FleetError, match="no host that is x"):
        world.fleet(Engine(["a"]), "x")


def test_a_store_that_is_away_is_waited_for_and_is_no_fault_of_a_host(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_database, "_FIRST_REST", 0)
    world.store._patience = Patience(world.told.warn)
    tries = iter(range(10**6))

    @contextmanager
    def away_twice_of_three(write: Callable[[], Any]) -> Iterator[Any]:
        if next(tries) % 3:
            raise StoreAwayError("the server is away")
        with write() as connection:
            yield connection

    run, database = world.run, world.store._database
    assert run(Engine(["a"]), blocks=1).ending is ExperimentEnd.COMPLETE
    for name in ("reading", "writing"):
        own = getattr(database, name)
        monkeypatch.setattr(database, name, partial(away_twice_of_three, own))
    engine = Engine(["a", "b"])
    assert run(engine, blocks=3, after_block=lambda: None).ending is ExperimentEnd.COMPLETE
    monkeypatch.undo()
    assert world.blocks() == [1, 1, 2, 2, 3, 3]
    assert [task["block"] for task in engine.blocks] == [2, 3]
    assert {line.partition(";")[0] for line in world.told.warnings} == {"the server is away", "the store answers again"}


def test_a_store_that_stays_away_ends_the_measurement_and_leaves_no_host_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: Testbed) -> None:
        raise StoreError("the store is gone")

    monkeypatch.setattr(world.store, "check_testbed", gone)
    engine = Engine(["a", "b"])
    with pytest.raises(StoreError, match="the store is gone"):
        world.run(engine)
    assert world.told.warnings == []
    assert len(engine.cancelled) == 1, "what the other host makes is of no use any more"
