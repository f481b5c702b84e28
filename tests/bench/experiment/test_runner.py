"""A plan is carried out unit by unit: what is void is made again, what fails ends it, what is missing is resumed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regress_gate.bench.experiment import experiment_runner
from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE, SINGLE, ExperimentPlan, ServerGroup, Slot
from regress_gate.bench.experiment.experiment_runner import (
    RUN_ATTEMPTS,
    ExperimentControl,
    ExperimentEnd,
    ExperimentOutcome,
    run_experiment,
)
from regress_gate.bench.experiment.run_maker import ExperimentSetup, ExperimentSide, MadeRun
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.model.run import BlockPosition, Run, RunFailure, SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import StoredExperiment
from tests.factories.stored_runs import make_trial

VERSIONS = {BASELINE: "0.19.0", CANDIDATE: "0.19.1", SINGLE: "0.19.1"}
WORKLOAD = {"input_len": 8, "output_len": 8, "num_requests": 4, "concurrency": 1}
FAILURE = RunFailure("died_at_start", "the server died", ("ImportError: libcudart",), 2.0)


def make_suite(*models: str) -> Suite:
    scenarios = [
        {"name": f"s{number}", "server": {"model": model}, "workload": WORKLOAD}
        for number, model in enumerate(models, 1)
    ]
    return Suite.model_validate({"name": "small", "version": "1", "description": "…", "scenarios": scenarios})


@dataclass
class Maker:
    """Stands for servers and load: makes a run for each slot at once, as `how` says, and keeps what was asked for."""

    how: Callable[[Slot, int], dict[str, Any]] = lambda _slot, _made: {}
    """What differs in the run of a slot; `made` counts all that were made before."""
    asked: list[tuple[Slot, ...]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def __call__(
        self,
        slots: tuple[Slot, ...],
        group: ServerGroup,
        _workloads: Any,
        _sides: Any,
        bench: ExperimentSetup,
        *,
        experiment: str,
        attempt: int,
    ) -> list[MadeRun]:
        self.asked.append(tuple(slots))
        return [MadeRun(slot, self._run(slot, group, bench, experiment, attempt)) for slot in slots]

    def _run(self, slot: Slot, group: ServerGroup, bench: ExperimentSetup, experiment: str, attempt: int) -> Run:
        label = f"{experiment}/{slot.block}-{slot.side}/{slot.group}/{attempt}"
        differs = self.how(slot, len(self.labels))
        self.labels.append(label)
        trials = tuple(
            make_trial(f"{label} {scenario.name} {ordinal}", scenario.name, ordinal)
            for scenario in group.scenarios
            for ordinal in range(1, bench.trials + 1)
        )
        run = Run(
            version=Version.parse(VERSIONS[slot.side]),
            testbed=bench.testbed,
            suite=bench.suite,
            label=label,
            trials=() if "failure" in differs else trials,
            started=datetime.now(UTC),  # a run of an experiment starts after it
            place=BlockPosition(
                experiment, slot.block, slot.position, slot.side, len(self.asked[-1]) > 1, group=group.name
            ),
        )
        return replace(run, **differs)


def nothing_is_sent(*_: Any, **__: Any) -> Any:
    raise AssertionError


@dataclass
class World:
    store: Repository
    maker: Maker
    suite: Suite = field(default_factory=lambda: make_suite("m"))

    def plan(self, **given: Any) -> ExperimentPlan:
        """A plan that has been begun."""
        facts = {
            "experiment": "e1",
            "suite": SuiteRef("small", "1"),
            "suite_digest": "0" * 64,
            "testbed": "lab",
            "versions": {SINGLE: "0.19.1"},
            "blocks": 3,
            "trials": 1,
            "resident": False,
            **given,
        }
        plan = ExperimentPlan(**facts)
        self.store.begin_experiment(StoredExperiment(plan.experiment, datetime.now(UTC), plan.as_document()))
        return plan

    def carry_out(
        self, plan: ExperimentPlan, *, why_void: Callable[[Run], str | None] = lambda _run: None, **more: Any
    ) -> ExperimentOutcome:
        bench = ExperimentSetup(
            suite=plan.suite,
            testbed=Testbed("lab"),
            trials=plan.trials,
            meter=nothing_is_sent,
            gpus=(),
            ready_within=60.0,
            logs=Path(),
            say=lambda _text: None,
        )
        sides: dict[str, ExperimentSide] = {}
        return run_experiment(plan, self.suite, sides, bench, self.store, ExperimentControl(why_void, **more))

    def places(self) -> list[tuple[int, str]]:
        runs = sorted(self.store.runs(), key=lambda run: run.id or 0)
        return [(run.place.block, run.place.side) for run in runs if run.place is not None]

    def is_ended(self) -> bool:
        (experiment,) = self.store.experiments()
        return experiment.ended is not None


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    maker = Maker()
    monkeypatch.setattr(experiment_runner, "make_runs", maker)
    with open_store(f"sqlite:///{tmp_path / 'store.db'}", create=True) as store:
        yield World(store, maker)


BOTH = {BASELINE: "0.19.0", CANDIDATE: "0.19.1"}


class TestComplete:
    def test_all_runs_of_a_plan_are_made_in_its_order_and_then_it_is_ended(self, world: World) -> None:
        outcome = world.carry_out(world.plan(versions=BOTH, blocks=2))
        assert (outcome.ending, outcome.missing) == (ExperimentEnd.COMPLETE, 0)
        assert world.places() == [(1, BASELINE), (1, CANDIDATE), (2, CANDIDATE), (2, BASELINE)]
        assert [entry.id for entry in outcome.stored] == [1, 2, 3, 4]
        assert world.is_ended()

    def test_each_run_is_reported_by_its_own_number_whatever_the_order_of_storing(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add = world.store.add_runs
        monkeypatch.setattr(world.store, "add_runs", lambda runs, **how: add(reversed(list(runs)), **how))
        outcome = world.carry_out(world.plan(versions=BOTH, blocks=1, resident=True))
        assert {entry.id: entry.made.run.label for entry in outcome.stored} == {
            run.id: run.label for run in world.store.runs()
        }

    def test_runs_keep_of_what_suite_they_are_and_how_their_version_was_got(self, world: World) -> None:
        world.carry_out(world.plan(blocks=1), way="venv")
        (run,) = world.store.runs()
        assert run.place is not None
        assert (run.place.suite_digest, run.place.way) == ("0" * 64, "venv")

    def test_servers_of_a_suite_are_measured_one_after_the_other_with_their_own_scenarios(self, world: World) -> None:
        world.suite = make_suite("a", "b")
        world.carry_out(world.plan(blocks=1))
        runs = world.store.runs()
        assert [[trial.scenario for trial in run.trials] for run in runs] == [["s1"], ["s2"]]

    def test_runs_keep_the_number_of_planned_analyses(self, world: World) -> None:
        world.carry_out(world.plan(versions=BOTH, blocks=1, most_blocks=6))
        assert [run.place.most_blocks for run in world.store.runs() if run.place] == [6, 6]

    def test_each_stored_run_is_reported_with_the_progress(self, world: World) -> None:
        told: list[tuple[int, int, int]] = []
        world.carry_out(world.plan(), on_stored=lambda entry, done, units: told.append((entry.id, done, units)))
        assert told == [(1, 1, 3), (2, 2, 3), (3, 3, 3)]

    def test_what_is_done_before_each_start_is_done(self, world: World) -> None:
        looks: list[int] = []
        world.carry_out(world.plan(), before_unit=lambda: looks.append(len(world.maker.asked)))
        assert looks == [0, 1, 2]

    def test_resident_servers_are_made_and_stored_together(self, world: World) -> None:
        world.carry_out(world.plan(versions=BOTH, blocks=2, resident=True))
        assert [[slot.side for slot in slots] for slots in world.maker.asked] == [
            [BASELINE, CANDIDATE],
            [CANDIDATE, BASELINE],
        ]
        assert len(world.places()) == 4


class TestVoid:
    def test_a_void_run_is_kept_and_made_again(self, world: World) -> None:
        plan = world.plan(blocks=2)
        outcome = world.carry_out(plan, why_void=lambda run: "busy" if run.label == world.maker.labels[0] else None)
        assert outcome.ending is ExperimentEnd.COMPLETE
        assert world.places() == [(1, SINGLE), (1, SINGLE), (2, SINGLE)]
        assert [entry.void for entry in outcome.stored] == ["busy", None, None]
        assert len(set(world.maker.labels)) == 3

    def test_why_a_run_does_not_count_is_stored_with_it(self, world: World) -> None:
        world.maker.how = lambda _slot, made: {"trials": ()} if made == 1 else {}
        world.carry_out(world.plan(), why_void=lambda run: "busy" if run.label == world.maker.labels[0] else None)
        runs = sorted(world.store.runs(), key=lambda run: run.id or 0)
        assert [run.void for run in runs] == ["busy", "0 of 1 trials of s1 could be used", None, None, None]

    def test_a_failed_run_stays_evidence_when_the_run_beside_it_does_not_count(self, world: World) -> None:
        world.maker.how = lambda slot, _made: {"failure": FAILURE} if slot.side == CANDIDATE else {}
        plan = world.plan(versions=BOTH, blocks=1, resident=True)
        world.carry_out(plan, why_void=lambda run: "busy" if run.failure is None else None)
        (failed, *_) = world.store.runs(version=Version.parse("0.19.1"))
        assert (failed.failure, failed.void) == (FAILURE, None)

    def test_after_three_tries_it_is_left_and_the_others_are_made(self, world: World) -> None:
        plan = world.plan(blocks=2)
        outcome = world.carry_out(plan, why_void=lambda run: "busy" if run.place and run.place.block == 1 else None)
        assert (outcome.ending, outcome.missing) == (ExperimentEnd.DISTURBED, 1)
        assert world.places() == [(1, SINGLE)] * RUN_ATTEMPTS + [(2, SINGLE)]
        assert not world.is_ended()

    def test_another_call_tries_again_under_new_labels(self, world: World) -> None:
        plan = world.plan(blocks=1)
        world.carry_out(plan, why_void=lambda _run: "busy")
        outcome = world.carry_out(plan, why_void=lambda run: None if run.label.endswith("/4") else "busy")
        assert outcome.ending is ExperimentEnd.COMPLETE
        assert len({run.key for run in world.store.runs()}) == RUN_ATTEMPTS + 1

    def test_a_run_in_which_trials_measured_the_client_is_not_whole_and_made_again(self, world: World) -> None:
        world.maker.how = lambda _slot, made: {"trials": ()} if made == 0 else {}
        outcome = world.carry_out(world.plan(blocks=1))
        assert outcome.ending is ExperimentEnd.COMPLETE
        assert [entry.void for entry in outcome.stored] == ["0 of 1 trials of s1 could be used", None]

    def test_when_one_of_two_resident_runs_is_void_both_are_made_again(self, world: World) -> None:
        plan = world.plan(versions=BOTH, blocks=1, resident=True)
        outcome = world.carry_out(plan, why_void=lambda run: "busy" if run.label == world.maker.labels[0] else None)
        assert outcome.ending is ExperimentEnd.COMPLETE
        assert [slot.side for slots in world.maker.asked for slot in slots] == [BASELINE, CANDIDATE] * 2
        assert [entry.void for entry in outcome.stored] == [
            "busy",
            "made beside a run that does not count: busy",
            None,
            None,
        ]


class Asked:
    """Who is asked between blocks: wants no more of them once so many were asked about."""

    def __init__(self, world: World, *, enough: int | None = None) -> None:
        self.world = world
        self.enough = enough
        self.places: list[list[tuple[int, str]]] = []
        """What was stored each time."""

    def __call__(self) -> str | None:
        self.places.append(self.world.places())
        return "it is decided" if len(self.places) == self.enough else None


class TestStopped:
    def test_an_interim_analysis_follows_every_block(self, world: World) -> None:
        asked = Asked(world)
        outcome = world.carry_out(world.plan(versions=BOTH, blocks=4), after_block=asked)
        assert [len(places) for places in asked.places] == [2, 4, 6]
        assert outcome.ending is ExperimentEnd.COMPLETE

    @pytest.mark.parametrize("resident", [False, True])
    def test_a_stopped_experiment_makes_no_more_runs_and_is_ended(self, world: World, resident: bool) -> None:
        plan = world.plan(versions=BOTH, blocks=5, resident=resident)
        outcome = world.carry_out(plan, after_block=Asked(world, enough=2))
        assert (outcome.ending, outcome.why) == (ExperimentEnd.STOPPED, "it is decided")
        assert [block for block, _ in world.places()] == [1, 1, 2, 2]
        assert world.is_ended()

    def test_a_block_is_whole_when_all_servers_of_the_suite_were_measured_on_both_sides(self, world: World) -> None:
        world.suite = make_suite("a", "b")
        asked = Asked(world, enough=1)
        world.carry_out(world.plan(versions=BOTH, blocks=2), after_block=asked)
        assert [block for block, _ in asked.places[0]] == [1, 1, 1, 1]

    def test_a_void_run_is_made_again_before_the_interim_analysis(self, world: World) -> None:
        asked = Asked(world)
        plan = world.plan(versions=BOTH, blocks=2)
        world.carry_out(
            plan, after_block=asked, why_void=lambda run: "busy" if run.label in world.maker.labels[1:2] else None
        )
        assert asked.places == [[(1, BASELINE), (1, CANDIDATE), (1, CANDIDATE)]]

    def test_a_block_that_is_given_up_is_not_analysed(self, world: World) -> None:
        asked = Asked(world)
        plan = world.plan(versions=BOTH, blocks=3)
        world.carry_out(
            plan, after_block=asked, why_void=lambda run: "busy" if run.place and run.place.block == 1 else None
        )
        assert [places[-1][0] for places in asked.places] == [2]

    def test_a_block_with_a_failed_server_is_not_analysed(self, world: World) -> None:
        world.maker.how = lambda slot, _made: {"failure": FAILURE} if (slot.block, slot.side) == (1, CANDIDATE) else {}
        asked = Asked(world)
        world.carry_out(world.plan(versions=BOTH, blocks=3), after_block=asked)
        assert [len(places) for places in asked.places] == [4]

    def test_a_resumed_experiment_is_analysed_before_its_first_block(self, world: World) -> None:
        def interrupt(_slot: Slot, made: int) -> dict[str, Any]:
            if made == 3:
                raise KeyboardInterrupt
            return {}

        world.maker.how = interrupt
        plan = world.plan(versions=BOTH, blocks=4)
        with pytest.raises(KeyboardInterrupt):
            world.carry_out(plan)
        outcome = world.carry_out(plan, after_block=Asked(world, enough=1))
        assert (outcome.ending, outcome.stored) == (ExperimentEnd.STOPPED, ())
        assert world.is_ended()

    def test_half_a_block_is_not_analysed(self, world: World) -> None:
        def interrupt(_slot: Slot, made: int) -> dict[str, Any]:
            if made == 1:
                raise KeyboardInterrupt
            return {}

        world.maker.how = interrupt
        plan = world.plan(versions=BOTH, blocks=2)
        with pytest.raises(KeyboardInterrupt):
            world.carry_out(plan)
        world.maker.how = lambda _slot, _made: {}
        asked = Asked(world)
        world.carry_out(plan, after_block=asked)
        assert [len(places) for places in asked.places] == [2]


class TestFailing:
    def test_two_failed_starts_of_a_side_end_the_plan(self, world: World) -> None:
        world.maker.how = lambda slot, _made: {"failure": FAILURE} if slot.side == CANDIDATE else {}
        outcome = world.carry_out(world.plan(versions=BOTH, blocks=5))
        assert outcome.ending is ExperimentEnd.FAILING
        assert world.places() == [(1, BASELINE), (1, CANDIDATE), (2, CANDIDATE)]
        assert outcome.missing == 7
        assert [run.failure for run in world.store.runs(version=Version.parse("0.19.1"))] == [FAILURE, FAILURE]

    def test_one_failed_start_counts_and_the_plan_goes_on(self, world: World) -> None:
        world.maker.how = lambda _slot, made: {"failure": FAILURE} if made == 1 else {}
        outcome = world.carry_out(world.plan(blocks=4))
        assert outcome.ending is ExperimentEnd.COMPLETE
        assert len(world.places()) == 4

    def test_failures_of_a_side_count_in_a_row_whatever_the_other_does_between(self, world: World) -> None:
        world.maker.how = lambda slot, _made: {"failure": FAILURE} if slot.side == BASELINE and slot.block != 2 else {}
        outcome = world.carry_out(world.plan(versions=BOTH, blocks=4))
        assert outcome.ending is ExperimentEnd.FAILING
        assert world.places()[-1] == (4, BASELINE)


class TestResume:
    def test_what_is_stored_stays_when_the_next_run_cannot_be_made(self, world: World) -> None:
        def fail(_slot: Slot, made: int) -> dict[str, Any]:
            if made == 2:
                raise LoadError("no server answers")
            return {}

        world.maker.how = fail
        plan = world.plan(blocks=4)
        with pytest.raises(LoadError):
            world.carry_out(plan)
        assert world.places() == [(1, SINGLE), (2, SINGLE)]
        world.maker.how = lambda _slot, _made: {}
        assert world.carry_out(plan).ending is ExperimentEnd.COMPLETE
        assert world.places() == [(block, SINGLE) for block in (1, 2, 3, 4)]

    def test_nothing_is_stored_of_a_unit_that_was_interrupted(self, world: World) -> None:
        def interrupt(_slot: Slot, made: int) -> dict[str, Any]:
            if made == 3:  # the second server of the second block
                raise KeyboardInterrupt
            return {}

        world.maker.how = interrupt
        plan = world.plan(versions=BOTH, blocks=2, resident=True)
        with pytest.raises(KeyboardInterrupt):
            world.carry_out(plan)
        assert world.places() == [(1, BASELINE), (1, CANDIDATE)]
        assert not world.is_ended()

    def test_a_finished_plan_makes_nothing_more(self, world: World) -> None:
        plan = world.plan()
        world.carry_out(plan)
        again = world.carry_out(plan)
        assert (again.ending, again.stored) == (ExperimentEnd.COMPLETE, ())

    def test_runs_of_other_experiments_are_not_taken_for_its_own(self, world: World) -> None:
        world.carry_out(world.plan())
        outcome = world.carry_out(world.plan(experiment="e2"))
        assert len(outcome.stored) == 3
        assert len(world.places()) == 6


class TestBudget:
    @pytest.fixture
    def clock(self, world: World, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """Each unit takes ten seconds."""
        now = [0.0]
        monkeypatch.setattr(experiment_runner, "time", SimpleNamespace(monotonic=lambda: now[0]))

        def take(_slot: Slot, _made: int) -> dict[str, Any]:
            now[0] += 10.0
            return {}

        world.maker.how = take
        return now

    @pytest.mark.usefixtures("clock")
    def test_nothing_is_begun_that_would_end_too_late(self, world: World) -> None:
        outcome = world.carry_out(world.plan(blocks=9), until=35.0)
        assert (outcome.ending, outcome.missing) == (ExperimentEnd.BUDGET, 6)
        assert len(outcome.stored) == 3
        assert not world.is_ended()

    @pytest.mark.usefixtures("clock")
    @pytest.mark.parametrize("until", [1.0, 15.0, 25.0, 39.0])
    def test_a_whole_block_is_made_however_little_time_there_is(self, world: World, until: float) -> None:
        outcome = world.carry_out(world.plan(versions=BOTH, blocks=2), until=until)
        assert (outcome.ending, outcome.missing) == (ExperimentEnd.BUDGET, 2)
        assert world.places() == [(1, BASELINE), (1, CANDIDATE)]

    @pytest.mark.usefixtures("clock")
    def test_a_block_is_begun_when_all_of_its_servers_fit(self, world: World) -> None:
        outcome = world.carry_out(world.plan(versions=BOTH, blocks=3), until=45.0)
        assert (outcome.ending, outcome.missing) == (ExperimentEnd.BUDGET, 2)
        assert world.places()[2:] == [(2, CANDIDATE), (2, BASELINE)]

    @pytest.mark.usefixtures("clock")
    def test_void_runs_of_the_first_block_are_made_again_beyond_the_time(self, world: World) -> None:
        plan = world.plan(versions=BOTH, blocks=2)
        outcome = world.carry_out(
            plan, until=1.0, why_void=lambda run: "busy" if run.label == world.maker.labels[0] else None
        )
        assert outcome.ending is ExperimentEnd.BUDGET
        assert [entry.void for entry in outcome.stored] == ["busy", None, None]

    @pytest.mark.usefixtures("clock")
    def test_each_run_keeps_how_long_it_took(self, world: World) -> None:
        world.carry_out(world.plan(blocks=2))
        assert [run.place.seconds for run in world.store.runs() if run.place] == [10.0, 10.0]
