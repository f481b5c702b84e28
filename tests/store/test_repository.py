"""What the store keeps, how it is asked, and what becomes of results that it already knows."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from regress_gate.errors import InputError
from regress_gate.model.run import Answer, Conditions, Outputs, Run, RunKey, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store import writer
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import DuplicateResult, HoldingOrigin, RunMismatch, StoredExperiment
from tests.factories.stored_runs import (
    LAB,
    SUITE,
    baselines,
    make_run,
    make_samples,
    make_source,
    make_trial,
    plain_samples,
)


def test_a_stored_run_comes_back_as_it_was(store: Repository) -> None:
    trial = make_trial(
        "a",
        conditions=Conditions(0.25),
        started=datetime(2026, 7, 24, 9, 0, 0, 123456, tzinfo=UTC),
        source=make_source("a", tool="vllm bench serve", client_version="0.32.0", command="vllm bench serve --x"),
    )
    run = make_run(
        "run1",
        trial,
        started=datetime(2026, 7, 24, 8, 59, tzinfo=UTC),
        conditions=Conditions(0.5),
        libraries={"torch": "2.9.0"},
        metrics={"startup_time": 28.82},
    )
    added = store.add_runs([run])
    assert store.runs() == [replace(run, id=added.new[0])]
    assert store.run(added.new[0]) == replace(run, id=added.new[0])
    assert store.run(added.new[0] + 1) is None


def test_samples_come_only_when_asked_for(store: Repository) -> None:
    samples = make_samples(start=True)
    [id_] = store.add_runs([make_run("run1", make_trial("a", samples=samples), make_trial("b"))]).new
    assert [trial.samples for run in store.runs() for trial in run.trials] == [None, None]
    [with_samples, without] = store.runs(with_samples=True)[0].trials
    assert plain_samples(with_samples.samples) == plain_samples(samples)
    assert without.samples is None
    [again] = [run for run in [store.run(id_, with_samples=True)] if run is not None]
    assert plain_samples(again.trials[0].samples) == plain_samples(samples)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=baselines())
def test_every_run_with_its_samples_comes_back(runs: list[Run], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("store") / "store.db"
    with open_store(f"sqlite:///{path}", create=True) as store:
        store.add_runs(runs)
        found = {run.key: run for run in store.runs(with_samples=True)}
    assert found.keys() == {run.key for run in runs}
    for run in runs:
        stored = found[run.key]
        assert replace(stored, id=None, trials=()) == replace(run, trials=())
        trials = {(trial.scenario, trial.ordinal): trial for trial in stored.trials}
        assert len(trials) == len(run.trials)
        for trial in run.trials:
            again = trials[trial.scenario, trial.ordinal]
            assert replace(again, samples=None) == replace(trial, samples=None)
            assert plain_samples(again.samples) == plain_samples(trial.samples)


def test_times_come_back_in_utc(store: Repository) -> None:
    berlin = timezone(timedelta(hours=2))
    store.add_runs(
        [
            make_run("aware", started=datetime(2026, 7, 24, 12, 0, tzinfo=berlin)),
            make_run("naive", started=datetime(2026, 7, 24, 11, 0)),  # noqa: DTZ001
        ]
    )
    assert [run.started for run in store.runs()] == [
        datetime(2026, 7, 24, 10, 0, tzinfo=UTC),
        datetime(2026, 7, 24, 11, 0, tzinfo=UTC),
    ]


def test_runs_are_found_by_what_the_version_leaves_open(store: Repository) -> None:
    for number, version in enumerate(["0.19.0+cpu", "0.19.0+cu129", "0.19.1", "0.20.0rc1.dev7+g0123abc"]):
        store.add_runs([make_run("run1", make_trial(str(number)), version=version)])

    def found(text: str) -> list[str]:
        return [str(run.version) for run in store.runs(version=Version.parse(text))]

    assert found("0.19.0") == ["0.19.0+cpu", "0.19.0+cu129"]
    assert found("0.19.0+cpu") == ["0.19.0+cpu"]
    assert found("commit:0123abc") == ["0.20.0rc1.dev7+g0123abc"]
    assert found("commit:0123abcdef") == ["0.20.0rc1.dev7+g0123abc"]
    assert found("commit:fffffff") == found("0.18.0") == []


def test_runs_are_found_by_testbed_and_suite(store: Repository) -> None:
    other = SuiteRef("imported", "2")
    store.add_runs([make_run("a"), make_run("b", testbed=Testbed("attic")), make_run("c", suite=other)])
    assert [run.label for run in store.runs(testbed="attic")] == ["b"]
    assert [run.label for run in store.runs(suite=other)] == ["c"]
    assert [run.label for run in store.runs(testbed="lab", suite=SUITE)] == ["a"]
    assert store.runs(testbed="nowhere") == []


def test_the_same_file_twice_adds_nothing_and_names_its_run(store: Repository) -> None:
    run = make_run("run1", make_trial("a"), make_trial("b"))
    first = store.add_runs([run])
    again = store.add_runs([make_run("another label", *run.trials, version="0.32.0", testbed=Testbed("attic"))])
    assert (again.new, again.extended, again.trials) == ((), (), 0)
    assert again.duplicates == (DuplicateResult("a.json", 0, first.new[0]), DuplicateResult("b.json", 0, first.new[0]))
    asked = RunKey(Version.parse("0.32.0"), "attic", SUITE, "another label")
    assert again.mismatches == (RunMismatch(first.new[0], run.key, asked),)
    assert store.add_runs([run]).mismatches == ()
    assert [found.label for found in store.runs()] == ["run1"]
    assert store.info().testbeds == store.info().builds == 1


def test_the_same_file_twice_in_one_import_is_stored_once(store: Repository) -> None:
    added = store.add_runs([make_run("run1", make_trial("a")), make_run("run2", make_trial("a"))])
    assert added.trials == 1
    assert added.duplicates == (DuplicateResult("a.json", 0, None),)
    assert [run.label for run in store.runs()] == ["run1"]


def test_two_results_of_one_file_are_two_trials(store: Repository) -> None:
    trials = [make_trial("a", ordinal=n, source=make_source("a", position=n)) for n in (1, 2)]
    assert store.add_runs([make_run("run1", *trials)]).trials == 2


def test_new_trials_join_the_run_that_is_there(store: Repository) -> None:
    first = store.add_runs([make_run("run1", make_trial("a"))])
    second = store.add_runs([make_run("run1", make_trial("a"), make_trial("b", "c4"))])
    assert (second.new, second.extended, second.trials) == ((), first.new, 1)
    assert [(trial.scenario, trial.ordinal) for trial in store.runs()[0].trials] == [("c1", 1), ("c4", 1)]


def test_a_taken_ordinal_becomes_the_next_free_one(store: Repository) -> None:
    store.add_runs([make_run("run1", make_trial("a"), make_trial("b"))])
    store.add_runs([make_run("run1", make_trial("c"))])
    assert [(trial.ordinal, trial.source.path) for trial in store.runs()[0].trials] == [
        (1, "a.json"),
        (2, "b.json"),
        (3, "c.json"),
    ]


def test_facts_fill_in_what_is_missing(store: Repository) -> None:
    started = datetime(2026, 7, 24, tzinfo=UTC)
    store.add_runs([make_run("run1", make_trial("a"), libraries={"torch": "2.9.0"}, metrics={"startup_time": 30.0})])
    added = store.add_runs(
        [make_run("run1", started=started, conditions=Conditions(0.1), libraries={"triton": "3.5"}, metrics={"x": 1.0})]
    )
    assert len(added.extended) == 1
    [run] = store.runs()
    assert (run.started, run.conditions) == (started, Conditions(0.1))
    assert (run.libraries, run.metrics) == ({"torch": "2.9.0", "triton": "3.5"}, {"startup_time": 30.0, "x": 1.0})


def test_the_same_facts_again_change_nothing(store: Repository) -> None:
    run = make_run("run1", libraries={"torch": "2.9.0"})
    store.add_runs([run])
    assert store.add_runs([run]).extended == ()


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"libraries": {"torch": "2.10.0"}}, "torch is 2.9.0 in the store and 2.10.0 here"),
        ({"metrics": {"startup_time": 31.0}}, "startup_time is 30.0 in the store and 31.0 here"),
        ({"conditions": Conditions(0.2)}, "outside_cpu_cores is 0.1 in the store and 0.2 here"),
        ({"started": datetime(2026, 7, 25, tzinfo=UTC)}, "started is 2026-07-24T00:00:00Z in the store"),
    ],
)
def test_facts_that_contradict_are_refused_with_both_values(
    store: Repository, facts: dict[str, Any], complaint: str
) -> None:
    known: dict[str, Any] = {
        "libraries": {"torch": "2.9.0"},
        "metrics": {"startup_time": 30.0},
        "conditions": Conditions(0.1),
        "started": datetime(2026, 7, 24, tzinfo=UTC),
    }
    store.add_runs([make_run("run1", make_trial("a"), **known)])
    before = store.runs()
    with pytest.raises(InputError, match=complaint) as failure:
        store.add_runs([make_run("run2", make_trial("b")), make_run("run1", make_trial("c"), **facts)])
    assert str(failure.value).startswith("c.json: run 'run1' of 0.19.0+cpu: ")
    assert store.runs() == before, "all or nothing: run2 must not be there either"


def test_a_testbed_learns_facts_and_keeps_them(store: Repository) -> None:
    store.add_runs([make_run("run1", make_trial("a"), testbed=Testbed("lab", cpu="EPYC"))])
    store.add_runs([make_run("run2", make_trial("b"), testbed=Testbed("lab", memory_bytes=64_000_000_000))])
    store.add_runs([make_run("run3", make_trial("c"), testbed=Testbed("lab", memory_bytes=64_100_000_000))])
    assert {run.testbed for run in store.runs()} == {Testbed("lab", cpu="EPYC", memory_bytes=64_000_000_000)}


def test_a_testbed_that_contradicts_itself_is_refused(store: Repository) -> None:
    store.add_runs([make_run("run1", make_trial("a"), testbed=Testbed("lab", cpu="EPYC"))])
    with pytest.raises(InputError, match="testbed 'lab': cpu is EPYC in the store and Xeon here"):
        store.add_runs([make_run("run2", make_trial("b"), testbed=Testbed("lab", cpu="Xeon"))])


def test_a_run_without_trials_is_kept(store: Repository) -> None:
    store.add_runs([make_run("crashed", metrics={"startup_time": 3.0})])
    assert [(run.label, run.trials) for run in store.runs()] == [("crashed", ())]
    assert store.inventory()[0].first is None


def test_an_empty_import_is_not_an_error(store: Repository) -> None:
    assert store.add_runs([]).new == ()
    assert [len(held) for held in (store.runs(), store.inventory(), store.pinned())] == [0, 0, 0]


def test_an_import_that_fails_halfway_leaves_nothing(store: Repository) -> None:
    def runs() -> Iterator[Run]:
        for number in range(500):
            yield make_run(f"run{number}", make_trial(str(number)))
        raise InputError("the 501st file is broken")

    with pytest.raises(InputError, match="501st"):
        store.add_runs(runs())
    assert store.runs() == []
    assert store.info().testbeds == 0


def test_many_runs_are_stored_in_one_import(store: Repository) -> None:
    added = store.add_runs(make_run(f"run{number}", make_trial(str(number))) for number in range(1001))
    assert len(added.new) == added.trials == 1001
    assert [run.label for run in store.runs()][:3] == ["run0", "run1", "run2"]


def test_the_inventory_lists_the_holdings(store: Repository) -> None:
    early, late = datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 7, 2, tzinfo=UTC)
    store.add_runs(
        [
            make_run("run1", make_trial("a", started=late), make_trial("b", "c4", started=early)),
            make_run("run2", make_trial("c", started=early)),
            make_run("run1", make_trial("d"), version="0.20.0"),
        ]
    )
    store.pin(Version.parse("0.19.0"))
    [first, second] = store.inventory()
    assert (str(first.version), first.runs, first.trials, first.scenarios) == ("0.19.0+cpu", 2, 3, 2)
    assert (first.first, first.last, first.pinned, first.origin) == (early, late, True, HoldingOrigin.STORE)
    assert second.first == second.last == store.runs(version=second.version)[0].trials[0].source.imported_at
    assert not second.pinned


def test_pins_are_listed_newest_first_and_need_no_runs(store: Repository) -> None:
    old, new = Version.parse("0.19.0"), Version.parse("0.20.0+cpu")
    assert store.pin(old)
    assert store.pin(new)
    assert not store.pin(new), "it is pinned already"
    assert [pin.version for pin in store.pinned()] == [new, old]
    assert not store.pin(old)
    assert [pin.version for pin in store.pinned()] == [old, new], "back to an earlier version"
    assert store.unpin(new)
    assert not store.unpin(new)
    assert [pin.version for pin in store.pinned()] == [old]


@pytest.fixture
def held(store: Repository) -> Repository:
    """Three versions measured on three days, the oldest pinned, and one of them on another testbed as well."""
    for day, version in enumerate(["0.19.0", "0.19.1", "0.20.0"], 1):
        started = datetime(2026, 7, day, tzinfo=UTC)
        trial = make_trial(version, started=started, samples=make_samples())
        store.add_runs([make_run("run1", trial, version=version)])
    store.add_runs([make_run("run1", make_trial("x"), version="0.19.1", testbed=Testbed("attic"))])
    store.pin(Version.parse("0.19.0"))
    return store


def holdings(store: Repository) -> list[tuple[str, str]]:
    return [(str(holding.version), holding.testbed) for holding in store.inventory()]


def test_pruning_keeps_the_newest_of_each_testbed_and_what_is_pinned(held: Repository) -> None:
    gone = held.prune(keep=1)
    assert [(str(holding.version), holding.testbed) for holding in gone] == [("0.19.1", "lab")]
    assert holdings(held) == [("0.19.0", "lab"), ("0.19.1", "attic"), ("0.20.0", "lab")]


def test_pruning_one_version_takes_all_that_belongs_to_it(held: Repository) -> None:
    held.prune(version=Version.parse("0.19.1"))
    assert holdings(held) == [("0.19.0", "lab"), ("0.20.0", "lab")]
    info = held.info()
    assert (info.builds, info.testbeds, info.runs, info.trials, info.samples) == (2, 1, 2, 2, 2)


def test_pruning_never_takes_what_is_pinned(held: Repository) -> None:
    assert held.prune(version=Version.parse("0.19.0")) == []
    held.prune()
    assert holdings(held) == [("0.19.0", "lab")]


def test_a_dry_run_reports_the_same_and_deletes_nothing(held: Repository) -> None:
    before = holdings(held)
    would_go = held.prune(testbed="lab", suite=SUITE, dry_run=True)
    assert holdings(held) == before
    assert held.prune(testbed="lab", suite=SUITE) == would_go != []


def test_what_was_pruned_can_be_imported_again_under_a_new_number(held: Repository) -> None:
    [before] = held.runs(version=Version.parse("0.20.0"))
    held.prune(version=before.version)
    added = held.add_runs([before])
    assert added.duplicates == ()
    assert before.id is not None
    assert added.new[0] > before.id, "run:N must not come to mean another run"


def test_pruning_gives_space_back(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with open_store(url, create=True) as store:
        samples = make_samples([[gap / 997 for gap in range(20_000)]])
        store.add_runs([make_run(f"run{n}", make_trial(str(n), samples=samples)) for n in range(20)])
        full = store.info().size
        store.prune()
    with open_store(url, create=False) as store:
        assert store.info().size < full / 2  # type: ignore[operator]


def test_a_backup_is_a_store_of_its_own(tmp_path: Path, sqlite_url: str) -> None:
    copy = tmp_path / "copy.db"
    with open_store(sqlite_url, create=True) as store:
        store.add_runs([make_run("run1", make_trial("a"))])
        store.backup(copy)
        before = store.runs()
        store.prune()
    with open_store(f"sqlite:///{copy}", create=False) as backup:
        assert backup.runs() == before


def test_a_backup_replaces_no_file(tmp_path: Path, sqlite_url: str) -> None:
    taken = tmp_path / "taken"
    taken.write_text("precious")
    with open_store(sqlite_url, create=True) as store, pytest.raises(InputError, match="already there"):
        store.backup(taken)
    assert taken.read_text() == "precious"


def test_a_backup_into_a_missing_directory_is_an_input_error(tmp_path: Path, sqlite_url: str) -> None:
    with open_store(sqlite_url, create=True) as store, pytest.raises(InputError, match="directory does not exist"):
        store.backup(tmp_path / "missing" / "copy.db")


def test_info_counts_and_names_the_place(store: Repository) -> None:
    store.add_runs([make_run("run1", make_trial("a", samples=make_samples()), make_trial("b"), testbed=LAB)])
    info = store.info()
    assert (info.builds, info.testbeds, info.suites, info.runs, info.trials, info.samples) == (1, 1, 1, 1, 2, 1)
    assert info.location == store.location.shown
    assert store.location.path is None or (info.size or 0) > 0


def test_an_experiment_is_open_until_it_is_ended(store: Repository) -> None:
    begun = datetime(2026, 7, 24, 10, 0, tzinfo=UTC)
    store.begin_experiment(StoredExperiment("e1", begun, {"versions": ["0.19.0", "0.19.1"], "blocks": 5}))
    store.begin_experiment(StoredExperiment("e2", begun + timedelta(hours=1), {}))
    store.end_experiment("e1", begun + timedelta(minutes=40))

    assert [(found.id, found.plan, found.ended) for found in store.experiments()] == [
        ("e2", {}, None),
        ("e1", {"versions": ["0.19.0", "0.19.1"], "blocks": 5}, begun + timedelta(minutes=40)),
    ]


def test_the_answers_of_a_run_are_kept_once(store: Repository) -> None:
    answered = make_run("run1", outputs=Outputs("short@1", (Answer("p1", ("a",), (-0.5,)),)))
    store.add_runs([answered])
    store.add_runs([replace(answered, outputs=Outputs("short@1", ()))])

    assert [run.outputs for run in store.runs()] == [answered.outputs]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("was_empty", [True, False])
def test_how_many_runs_are_stored_together_changes_nothing(
    store: Repository, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, size: int, was_empty: bool
) -> None:
    # A run that comes again, a result that comes again, a taken ordinal, another version and another testbed.
    runs = [
        make_run("run1", make_trial("a"), make_trial("b", "c2")),
        make_run("run2", make_trial("c")),
        make_run("run1", make_trial("d"), libraries={"torch": "2.9.0"}),
        make_run("run3", make_trial("a"), make_trial("e")),
        make_run("run1", make_trial("f"), version="0.20.0"),
        make_run("run1", make_trial("g"), version="0.20.0", testbed=Testbed("other")),
        make_run("run2", make_trial("c", "c2")),
    ]
    before = [] if was_empty else [make_run("run2", make_trial("h")), make_run("run0", make_trial("e"))]
    with open_store(sqlite_url.replace("store.db", "together.db"), create=True) as together:
        for some in (before, runs):
            together.add_runs(some)
        store.add_runs(before)
        monkeypatch.setattr(writer, "_BATCH", size)
        added = store.add_runs(runs)
        assert store.runs() == together.runs()
        assert store.holds(runs) == together.holds(runs)
    assert (added.trials, len(added.duplicates)) == ((7, 2) if was_empty else (6, 3))
    assert [run.label for run in store.runs() if run.id in added.extended] == ([] if was_empty else ["run2"])


def test_a_store_knows_which_results_it_has(store: Repository) -> None:
    held = make_run("run1", make_trial("a", source=make_source("a", position=3)))
    [id_] = store.add_runs([held]).new
    other = make_run("run2", make_trial("a", source=make_source("a", position=4)), make_trial("b"))
    assert store.holds([held, other]) == {(held.trials[0].source.sha256, 3): id_}
