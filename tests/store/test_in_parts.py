"""What a store holds does not depend on how its results came: at once, in parts, in another order, some again."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.run import AUTO_LABEL_PREFIX, Answer, Conditions, Outputs, Run, RunKey, Trial
from regress_gate.model.testbed import Testbed
from regress_gate.store import writer
from regress_gate.store.repository import Repository, open_store
from tests.factories.stored_runs import make_run, make_trial

NOON = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
RESULTS = 8
VERSIONS = ("0.19.0", "0.19.0+cpu")
FACTS: tuple[dict[str, Any], ...] = (
    {},
    {"libraries": {"torch": "2.9.0"}},
    {"metrics": {"startup_time": 30.0}, "conditions": Conditions(0.25)},
    {"outputs": Outputs("short@1", (Answer("p1", ("a",), (-0.5,)),))},
    {"started": NOON - timedelta(seconds=0.5)},
)
"""Of one run: any of them go together."""
TESTBEDS = (Testbed("lab"), Testbed("lab", cpu="EPYC"), Testbed("lab", memory_bytes=2**36), Testbed("attic"))
NEW_DRIVERS = tuple(replace(testbed, driver=driver) for testbed in TESTBEDS for driver in ("570", "580"))
LABELS = st.sampled_from(["run1", "run2"])


def trial(number: int, ordinal: int = 1) -> Trial:
    """The result of that number; some do not say when they were made, and the first is not the earliest."""
    started = None if number % 4 == 3 else NOON + timedelta(minutes=5 * number % 7, milliseconds=number * 250)
    return make_trial(f"file{number}", f"c{number % 2}", ordinal, started=started)


def run_of(label: str, version: str, testbed: Testbed, trials: Sequence[Trial], facts: dict[str, Any]) -> Run:
    """As an import makes it: a run has started with its first trial, where nobody says it."""
    first = min((made.started for made in trials if made.started is not None), default=None)
    return make_run(label, *trials, version=version, testbed=testbed, **{"started": first, **facts})


@st.composite
def any_runs(draw: st.DrawFn) -> list[Run]:
    """Results that come again in other runs, ordinals that are taken, facts that come later, testbeds that change."""
    some = st.lists(st.integers(0, RESULTS - 1), max_size=4, unique=True)
    return [
        run_of(
            draw(LABELS),
            draw(st.sampled_from(VERSIONS)),
            draw(st.sampled_from(NEW_DRIVERS)),
            [trial(number, draw(st.integers(1, 3))) for number in draw(some)],
            draw(st.sampled_from(FACTS)),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]


@st.composite
def runs_in_any_order(draw: st.DrawFn) -> list[Run]:
    """Each result always of one run, and facts apart from results."""
    made = []
    for _ in range(draw(st.integers(1, 6))):
        half = draw(st.integers(0, 1))
        numbers = draw(st.lists(st.sampled_from(range(half, RESULTS, 2)), min_size=1, max_size=3, unique=True))
        place = (f"run{half}", VERSIONS[half], TESTBEDS[0])
        made.append(run_of(*place, [trial(number) for number in numbers], {}))
        made.append(run_of(*place[:2], draw(st.sampled_from(TESTBEDS[:3])), [], draw(st.sampled_from(FACTS))))
    return made


@contextmanager
def new_store() -> Iterator[Repository]:
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/store.db", create=True) as store:
        yield store


def held(store: Repository) -> list[Run]:
    return [replace(run, id=None) for run in store.runs()]


def without_ordinals(runs: Sequence[Run]) -> dict[RunKey, Run]:
    """Which of two trials is the second is a matter of which came first."""
    bare = [
        replace(
            run, trials=tuple(sorted((replace(one, ordinal=0) for one in run.trials), key=lambda one: one.source.path))
        )
        for run in runs
    ]
    return {run.key: run for run in bare}


def parts(runs: Sequence[Run], ends: Sequence[int]) -> Iterator[Sequence[Run]]:
    cuts = [0, *sorted(end % (len(runs) + 1) for end in ends), len(runs)]
    return (runs[begin:end] for begin, end in pairwise(cuts))


@settings(max_examples=40)
@given(
    before=any_runs() | st.just([]),
    runs=any_runs(),
    ends=st.lists(st.integers(0, 6), max_size=3),
    batch=st.sampled_from([1, 2, 1000]),
)
def test_runs_come_to_the_same_at_once_and_in_parts(
    before: list[Run], runs: list[Run], ends: list[int], batch: int
) -> None:
    with new_store() as together, new_store() as apart:
        together.add_runs(before)
        apart.add_runs(before)
        at_once = together.add_runs(runs)
        with patch.object(writer, "_BATCH", batch):
            added = [apart.add_runs(part) for part in parts(runs, ends)]
        assert held(apart) == held(together)
        assert apart.inventory() == together.inventory()
        assert sum(part.trials for part in added) == at_once.trials
        assert sum(len(part.duplicates) for part in added) == len(at_once.duplicates)
        assert apart.holds(runs).keys() == together.holds(runs).keys()


@settings(max_examples=40)
@given(runs=runs_in_any_order(), data=st.data())
def test_runs_come_to_the_same_in_any_order_and_again(runs: list[Run], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(runs))
    with new_store() as straight, new_store() as otherwise:
        straight.add_runs(runs)
        for part in parts(shuffled, data.draw(st.lists(st.integers(0, 9), max_size=2))):
            otherwise.add_runs(part)
        known = held(otherwise)
        assert without_ordinals(known) == without_ordinals(held(straight))
        again = otherwise.add_runs([*runs, *shuffled])
        assert (again.new, again.trials) == ((), 0)
        assert held(otherwise) == known


@pytest.mark.parametrize("order", [1, -1])
def test_an_earlier_trial_of_a_run_is_when_it_started(store: Repository, order: int) -> None:
    for minutes in (10, 5, 20)[::order]:
        made = make_trial(f"{minutes}", started=NOON + timedelta(minutes=minutes))
        store.add_runs([make_run("run1", made, started=made.started)])
    assert [run.started for run in store.runs()] == [NOON + timedelta(minutes=5)]


@pytest.mark.parametrize("order", [1, -1])
def test_a_stated_start_replaces_that_of_the_first_trial(store: Repository, order: int) -> None:
    said = make_run("run1", make_trial("a", started=NOON), started=NOON - timedelta(minutes=2))
    told = make_run("run1", make_trial("b", started=NOON - timedelta(minutes=3)), started=NOON - timedelta(minutes=3))
    for run in (said, told)[::order]:
        store.add_runs([run])
    assert [run.started for run in store.runs()] == [said.started]


def test_two_stated_starts_of_a_run_contradict_each_other(store: Repository) -> None:
    runs = [
        make_run("run1", make_trial(name, started=NOON), started=NOON - timedelta(minutes=minutes))
        for minutes, name in ((2, "a"), (3, "b"))
    ]
    with pytest.raises(InputError, match="started is 2026-07-24T11:58:00Z in the store and 2026-07-24T11:57:00Z here"):
        store.add_runs(runs)


def test_the_first_answers_of_a_run_are_kept_where_two_come_at_once(store: Repository) -> None:
    first, second = (Outputs("short@1", (Answer(name, ("a",), (-0.5,)),)) for name in ("p1", "p2"))
    store.add_runs(
        [make_run("run1", make_trial("a"), outputs=first), make_run("run1", make_trial("b"), outputs=second)]
    )
    assert [run.outputs for run in store.runs()] == [first]


class TestRunsThatNobodyNamed:
    """Their labels are made of what was imported together."""

    ONE, BOTH = AUTO_LABEL_PREFIX + "1", AUTO_LABEL_PREFIX + "2"

    def labels(self, *imports: Sequence[Run]) -> dict[str, list[str]]:
        """The results of each run that is stored in the end."""
        with new_store() as store:
            for runs in imports:
                store.add_runs(runs)
            return {run.label: [made.source.path or "" for made in run.trials] for run in store.runs()}

    def test_a_result_that_comes_with_one_that_is_stored_is_of_its_run(self) -> None:
        both = make_run(self.BOTH, trial(0), trial(2, 2))
        assert self.labels([make_run(self.ONE, trial(0))], [both]) == {self.ONE: ["file0.json", "file2.json"]}

    def test_one_that_comes_alone_is_not(self) -> None:
        found = self.labels([make_run(self.ONE, trial(0))], [make_run(self.BOTH, trial(2))])
        assert found == {self.ONE: ["file0.json"], self.BOTH: ["file2.json"]}

    def test_nor_one_that_comes_with_those_of_two_runs(self) -> None:
        first = [make_run(self.ONE, trial(0)), make_run(AUTO_LABEL_PREFIX + "3", trial(1))]
        found = self.labels(first, [make_run(self.BOTH, trial(0), trial(1), trial(2, 2))])
        assert found[self.BOTH] == ["file2.json"]

    @pytest.mark.parametrize(("stored", "asked"), [("run1", BOTH), (ONE, "run1")])
    def test_a_named_run_keeps_its_name(self, stored: str, asked: str) -> None:
        found = self.labels([make_run(stored, trial(0))], [make_run(asked, trial(0), trial(2, 2))])
        assert found == {stored: ["file0.json"], asked: ["file2.json"]}

    def test_another_version_is_another_run(self) -> None:
        other = make_run(self.BOTH, trial(0), trial(2, 2), version="0.20.0")
        found = self.labels([make_run(self.ONE, trial(0))], [other])
        assert found == {self.ONE: ["file0.json"], self.BOTH: ["file2.json"]}
