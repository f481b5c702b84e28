"""A store that grows: what is counted once, which runs are the newest, and that reading them does not read the rest."""

import sqlite3
from collections import Counter
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from regress_gate.errors import InputError
from regress_gate.model.run import BlockPosition, Run, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store.combined import CombinedStore, ShippedBaselines
from regress_gate.store.database import Database, migrate_store, upgrade_schema
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import RECENT_RUNS, RECENT_SESSIONS, Holding, StoreLocation, choose_recent_runs
from tests.factories.stored_runs import SUITE, baselines, make_run, make_trial

DAY = datetime(2026, 1, 1, 9, tzinfo=UTC)
WHERE = {"testbed": "lab", "suite": SUITE}


def on_day(day: int, label: str, *, version: str = "0.19.0", **changes: object) -> Run:
    trial = make_trial(f"{version} {day} {label}", metrics={"ttft_median": 0.1, "tpot_median": 0.01})
    return make_run(f"{day}-{label}", trial, version=version, started=DAY + timedelta(days=day), **changes)


def in_block(day: int, block: int, side: str, *, version: str = "0.19.0") -> Run:
    place = BlockPosition(f"e{day}", block, 1, side)
    return on_day(day, f"{block}-{side}", version=version, place=place)


def counted(runs: list[Run]) -> Counter[tuple[object, ...]]:
    """What an inventory has to say, from the runs themselves."""
    held: dict[tuple[Version, str, SuiteRef], list[Run]] = {}
    for run in runs:
        held.setdefault((run.version, run.testbed.name, run.suite), []).append(run)
    return Counter(
        (*key, len(same), sum(len(run.trials) for run in same), len({t.scenario for run in same for t in run.trials}))
        for key, same in held.items()
    )


def listed(holdings: list[Holding]) -> Counter[tuple[object, ...]]:
    return Counter((h.version, h.testbed, h.suite, h.runs, h.trials, h.scenarios) for h in holdings)


class TestInventory:
    @settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(first=baselines(), second=baselines())
    def test_counts_what_is_stored_after_every_import(
        self, first: list[Run], second: list[Run], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        path = tmp_path_factory.mktemp("store") / "store.db"
        with open_store(f"sqlite:///{path}", create=True) as store:
            for runs in (first, first, second):
                with suppress(InputError):  # contradicting facts of two imports: the whole import is refused
                    store.add_runs(runs)
                assert listed(store.inventory()) == counted(store.runs())

    def test_counts_again_when_runs_grow_and_go(self, store: Repository) -> None:
        first, second = make_trial("a", "c1"), make_trial("b", "c4")
        store.add_runs([make_run("1", first), make_run("2", make_trial("c", "c1"))])
        store.add_runs([make_run("1", second)])
        [held] = store.inventory()
        assert (held.runs, held.trials, held.scenarios) == (2, 3, 2)
        store.add_runs([make_run("1", make_trial("d"), version="0.20.0")])
        store.prune(version=Version.parse("0.19.0+cpu"))
        assert listed(store.inventory()) == counted(store.runs())

    def test_of_some_versions_has_only_these(self, store: Repository) -> None:
        store.add_runs([make_run("1", make_trial(name), version=name) for name in ("0.19.0+cpu", "0.19.0", "0.20.0")])
        found = store.inventory([Version.parse("0.19.0")])
        assert [str(held.version) for held in found] == ["0.19.0", "0.19.0+cpu"]
        assert store.inventory([Version.parse("commit:1234567")]) == []

    def test_of_an_older_store_is_counted_by_the_migration(self, url: str) -> None:
        database = Database(StoreLocation.parse(url), create=True)
        upgrade_schema(database, "0004")
        with database.writing(lock=False) as connection:
            for statement in (
                "INSERT INTO build (id, number, commit_id, variant) VALUES (1, '0.19.0', '', 'cpu')",
                "INSERT INTO testbed (id, name, facts) VALUES (1, 'lab', '{}')",
                "INSERT INTO suite (id, name, version) VALUES (1, 'chat', '1')",
                *(
                    "INSERT INTO run (id, build_id, testbed_id, suite_id, label, started, conditions, libraries,"
                    f" metrics) VALUES ({run}, 1, 1, 1, '{run}', '2026-01-0{run}T00:00:00Z', '{{}}', '{{}}', '{{}}')"
                    for run in (1, 2, 3)
                ),
                *(
                    "INSERT INTO trial (id, run_id, scenario, ordinal, completed, failed, started, conditions,"
                    f" workload, metrics) VALUES ({trial}, {run}, 'c{trial}', 1, 1, 0, {start}, '{{}}', '{{}}', '{{}}')"
                    for trial, run, start in ((1, 1, "'2026-02-01T00:00:00Z'"), (2, 1, "NULL"), (3, 2, "NULL"))
                ),
                *(
                    "INSERT INTO source (trial_id, sha256, position, path, format, imported_at)"
                    f" VALUES ({trial}, '{trial}', 0, 'p', 'f', '2026-03-0{trial}T00:00:00Z')"
                    for trial in (1, 2, 3)
                ),
            ):
                connection.exec_driver_sql(statement)
        database.close()
        assert migrate_store(url)[0] == "0004"
        with open_store(url, create=False) as store:
            [held] = store.inventory()
            assert (held.runs, held.trials, held.scenarios) == (3, 3, 3)
            assert (held.first, held.last) == (datetime(2026, 1, 3, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC))


class TestRecentRuns:
    def test_are_those_of_the_newest_sessions(self, store: Repository) -> None:
        days = RECENT_SESSIONS + 6
        store.add_runs(on_day(day, label) for day in range(days) for label in "ab")
        store.add_runs([on_day(200, "x", testbed=Testbed("attic")), on_day(200, "y", suite=SuiteRef("other", "1"))])
        found = store.recent_runs(**WHERE, paired=False)
        assert {run.label for run in found} == {f"{day}-{label}" for day in range(6, days) for label in "ab"}

    def test_are_never_more_than_a_number(self, store: Repository) -> None:
        store.add_runs(on_day(1, f"{number:03d}") for number in range(RECENT_RUNS + 10))
        assert len(store.recent_runs(**WHERE, paired=False)) == RECENT_RUNS

    def test_leave_out_those_that_are_compared(self, store: Repository) -> None:
        store.add_runs(on_day(day, "a") for day in range(RECENT_SESSIONS + 2))
        newest = [run for run in store.runs() if run.label == f"{RECENT_SESSIONS + 1}-a"]
        found = store.recent_runs(**WHERE, paired=False, without=[newest[0].id or 0])
        assert len(found) == RECENT_SESSIONS
        assert newest[0] not in found

    def test_for_blocks_are_blocks_however_many_other_runs_are_newer(self, store: Repository) -> None:
        blocks = [in_block(1, block, side) for block in (1, 2) for side in ("baseline", "candidate")]
        store.add_runs([*blocks, in_block(2, 1, "single")])
        store.add_runs(on_day(day, label) for day in range(3, 3 + RECENT_SESSIONS) for label in "ab")
        assert {run.label for run in store.recent_runs(**WHERE, paired=True)} == {run.label for run in blocks}

    def test_without_a_time_are_the_oldest(self, store: Repository) -> None:
        undated = make_run("undated", make_trial("u"), version="0.19.0", place=BlockPosition("e0", 1, 1, "baseline"))
        store.add_runs([undated, on_day(1, "a")])
        assert {run.label for run in store.recent_runs(**WHERE, paired=False)} == {"undated", "1-a"}
        store.add_runs(on_day(day, "a") for day in range(2, 2 + RECENT_SESSIONS))
        assert "undated" not in {run.label for run in store.recent_runs(**WHERE, paired=False)}

    def test_have_only_the_metrics_that_are_asked_for(self, store: Repository) -> None:
        store.add_runs([on_day(1, "a")])
        [run] = store.recent_runs(**WHERE, paired=False, metrics={"ttft_median"})
        assert [dict(trial.metrics) for trial in run.trials] == [{"ttft_median": 0.1}]
        [whole] = store.recent_runs(**WHERE, paired=False)
        assert whole == store.runs()[0]

    def test_are_chosen_alike_in_memory(self, store: Repository) -> None:
        runs = [on_day(day, label) for day in range(RECENT_SESSIONS + 6) for label in "ab"]
        runs += [in_block(day, 1, side) for day in range(3) for side in ("baseline", "candidate")]
        store.add_runs(runs)
        for paired in (False, True):
            stored = store.recent_runs(**WHERE, paired=paired)
            chosen = choose_recent_runs(store.runs(), paired=paired)
            assert {run.label for run in stored} == {run.label for run in chosen}

    def test_of_store_and_shipped_files_are_those_of_both(self, store: Repository, tmp_path: Path) -> None:
        (tmp_path / "none").mkdir()
        store.add_runs(on_day(day, "a") for day in range(3))
        runs = store.runs()
        both = CombinedStore(store, ShippedBaselines(tmp_path / "none"))
        found = both.recent_runs(**WHERE, paired=False, without=runs[:1])
        assert found == runs[1:]

    def test_are_found_by_an_index(self, sqlite_url: str, tmp_path: Path) -> None:
        with open_store(sqlite_url, create=True) as store:
            store.add_runs([on_day(1, "a")])
        with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
            plan = connection.execute(
                "EXPLAIN QUERY PLAN SELECT id FROM run WHERE testbed_id = 1 AND suite_id = 1 AND started IS NOT NULL "
                "ORDER BY started DESC, id DESC LIMIT 9"
            ).fetchall()
        [(*_, what)] = plan
        assert "run_by_start" in what
        assert "SEARCH" in what


class TestRunsByVersion:
    def test_are_all_runs_one_version_after_the_other(self, store: Repository) -> None:
        names = ("0.20.0", "0.9.1", "0.19.0+cpu", "0.19.0")
        store.add_runs(on_day(day, label, version=name) for day, name in enumerate(names) for label in "ab")
        store.add_runs([on_day(1, "elsewhere", testbed=Testbed("attic"))])
        groups = list(store.runs_by_version(**WHERE, metrics={"ttft_median"}))
        assert [str(group[0].version) for group in groups] == ["0.9.1", "0.19.0", "0.19.0+cpu", "0.20.0"]
        assert all(len({run.version for run in group}) == 1 for group in groups)
        assert [run.key for group in groups for run in group] == [run.key for run in store.runs(**WHERE)]
        assert {name for group in groups for run in group for t in run.trials for name in t.metrics} == {"ttft_median"}

    def test_of_nothing_are_none(self, store: Repository) -> None:
        assert list(store.runs_by_version(**WHERE, metrics=())) == []


class TestExperimentRuns:
    def test_are_those_of_one_experiment(self, store: Repository) -> None:
        store.add_runs(in_block(day, 1, side) for day in (1, 2) for side in ("baseline", "candidate"))
        store.add_runs([on_day(3, "a")])
        assert {run.label for run in store.experiment_runs("e2", **WHERE)} == {"2-1-baseline", "2-1-candidate"}
        assert store.experiment_runs("e9", **WHERE) == []


class TestRunsOfCounterTests:
    TESTED = SUITE.counter_test("0123456789ab")

    @pytest.fixture(autouse=True)
    def runs(self, store: Repository) -> None:
        beside = SUITE.counter_test()
        store.add_runs([on_day(1, "plain"), on_day(2, "tested", suite=self.TESTED), on_day(2, "beside", suite=beside)])

    def test_are_read_only_by_who_names_their_suite_or_number(self, store: Repository) -> None:
        assert [run.label for run in store.runs()] == ["1-plain"]
        assert [run.label for run in store.runs(version=Version.parse("0.19.0"))] == ["1-plain"]
        assert [held.suite for held in store.inventory()] == [SUITE]
        (tested,) = store.runs(suite=self.TESTED)
        assert tested.id is not None
        assert store.run(tested.id) == tested
        assert store.recent_runs(**WHERE, paired=False)[-1].label == "1-plain"

    def test_are_deleted_with_those_of_their_version(self, store: Repository) -> None:
        store.prune(version=Version.parse("0.19.0"))
        assert store.runs(suite=self.TESTED) == []
