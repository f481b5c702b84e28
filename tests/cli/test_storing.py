"""`import`, `baseline` and `db`: what goes into the store, comes out of it, and what can go wrong with one."""

import json
import os
import sqlite3
import time
from datetime import UTC, datetime

import pytest

from regress_gate.paths import logs_directory
from regress_gate.store.repository import open_store
from regress_gate.store.schema import REVISION_TABLE
from regress_gate.store.store_interface import StoredExperiment
from tests.factories.serve_results import detailed as detailed_result
from tests.factories.serve_results import made_up, write
from tests.factories.server_starts import result, write_starts


def held(gate, *options):
    """Version, testbed, suite and runs of what the user's own store holds."""
    listed = gate("baseline", "list", "--format", "json", *options).json["baselines"]
    return [
        (entry["version"], entry["testbed"], entry["suite"]["name"], entry["runs"])
        for entry in listed
        if entry["origin"] == "store"
    ]


@pytest.fixture
def stored(gate):
    """Three versions; the first is pinned."""
    for version in ("0.19.1", "0.20.0", "0.21.0"):
        assert gate.import_starts(version, starts=2).code == 0
    assert gate("baseline", "pin", "v0.19.1").out == "0.19.1 is pinned\n"
    return gate


class TestImport:
    FLAGS = ("--version", "v0.20.0", "--testbed", "lab", "--scenario", "chat")

    def test_what_is_stored_is_said_and_can_be_listed(self, gate):
        write_starts(gate.directory / "results", starts=3)
        done = gate("import", "results", *self.FLAGS, "--run-per-file")
        assert (done.code, done.err) == (0, "")
        assert f"stored 3 trials in 3 new runs in {gate.store} (run:1, run:2, run:3)" in done.out
        assert held(gate) == [("0.20.0", "lab", "imported", 3)]

    def test_the_same_file_twice_adds_nothing_and_says_so(self, gate):
        write_starts(gate.directory / "results", starts=3)
        gate("import", "results", *self.FLAGS, "--run-per-file")
        before = held(gate)
        again = gate("import", "results", *self.FLAGS, "--run-per-file")
        assert again.code == 0
        assert f"stored 0 trials in 0 new runs in {gate.store}; 3 results stored already, left as they are" in again.out
        assert again.err == ""
        assert held(gate) == before

    def test_results_that_are_stored_elsewhere_stay_there_and_that_is_said(self, gate):
        write_starts(gate.directory / "results", starts=3)
        gate("import", "results", "--version", "v0.20.0", "--testbed", "lba", "--scenario", "chat")
        again = gate("import", "results", *self.FLAGS, "--run-per-file")
        assert held(gate) == [("0.20.0", "lba", "imported", 1)]
        assert "stay in run:1 of 0.20.0 on lba, where they were stored before" in again.err
        assert "`regress-gate baseline prune 0.20.0 --testbed lba` deletes what is stored there" in again.err
        assert gate("baseline", "prune", "0.20.0", "--testbed", "lba", "--yes").code == 0
        assert gate("import", "results", *self.FLAGS, "--run-per-file").err == ""
        assert held(gate) == [("0.20.0", "lab", "imported", 3)]

    def test_what_was_one_run_and_should_be_several_is_said(self, gate):
        write_starts(gate.directory / "results", starts=3)
        gate("import", "results", *self.FLAGS)
        assert "stay in run:1 of 0.20.0 on lab" in gate("import", "results", *self.FLAGS, "--run-per-file").err

    def test_a_folder_that_has_grown_is_imported_again_without_a_word_on_what_was_there(self, gate):
        write_starts(gate.directory / "results", starts=3)
        gate("import", str(gate.directory / "results" / "start1.json"), *self.FLAGS)
        again = gate("import", "results", *self.FLAGS)
        assert "stay in" not in again.err

    def test_unrelated_files_are_not_counted_with_the_refusals(self, gate):
        write_starts(gate.directory / "results", starts=1)
        write(gate.directory / "results" / "broken.json", '{"date": "2026", "completed": ')
        write(gate.directory / "results" / "server.log", "INFO started")
        done = gate("import", "results", *self.FLAGS)
        assert done.err.splitlines()[-1] == "1 of 2 results was refused"

    def test_what_is_refused_is_named_and_what_is_good_is_stored(self, gate):
        write_starts(gate.directory / "results", starts=2)
        write(gate.directory / "results" / "broken.json", '{"date": "2026", "completed": ')
        write(gate.directory / "results" / "negative.json", result(duration=-1))
        done = gate("import", "results", *self.FLAGS, "--run-per-file")
        assert done.code == 2
        assert "refused  results/broken.json: " in done.err
        assert "refused  results/negative.json: " in done.err
        assert done.err.splitlines()[-1] == "2 of 4 results were refused"
        assert held(gate) == [("0.20.0", "lab", "imported", 2)]

    def test_a_dry_run_stores_nothing_and_exits_0_when_all_would_be_stored(self, gate):
        write_starts(gate.directory / "results", starts=2)
        done = gate("import", "results", *self.FLAGS, "--run-per-file", "--dry-run")
        assert (done.code, done.err) == (0, "")
        assert "would store 2 trials in 2 runs; nothing was stored" in done.out
        assert not gate.store.exists()

    def test_a_dry_run_exits_2_when_something_would_be_refused(self, gate):
        write_starts(gate.directory / "results", starts=2)
        write(gate.directory / "results" / "broken.json", '{"date": "2026", "completed": ')
        assert gate("import", "results", *self.FLAGS, "--dry-run").code == 2
        assert not gate.store.exists()

    def test_facts_that_no_file_and_no_flag_gives_are_asked_for_in_one_line(self, gate):
        write_starts(gate.directory / "results", starts=2)
        refused = gate("import", "results")
        assert refused.code == 2
        assert "--version" in refused.error
        assert "--testbed" in refused.error
        assert not gate.store.exists()

    def test_quiet_says_only_what_was_refused(self, gate):
        write_starts(gate.directory / "results", starts=2)
        done = gate("import", "results", *self.FLAGS, "-q")
        assert (done.code, done.out, done.err) == (0, "", "")

    def test_results_can_come_through_a_pipe(self, gate):
        done = gate("import", "-", *self.FLAGS, stdin=json.dumps(result()))
        assert done.code == 0
        assert held(gate) == [("0.20.0", "lab", "imported", 1)]

    @pytest.mark.parametrize("what", ["empty", "missing.json", "missing-*.json"])
    def test_nothing_to_import_is_an_error(self, gate, what):
        (gate.directory / "empty").mkdir()
        done = gate("import", what, *self.FLAGS)
        assert (done.code, done.out) == (2, "")
        assert what in done.err

    def test_the_testbed_of_the_configuration_is_used(self, gate):
        (gate.directory / "regress-gate.toml").write_text("[defaults]\ntestbed = 'cellar'\n")
        write_starts(gate.directory / "results", starts=2)
        assert gate("import", "results", "--version", "v0.20.0", "--scenario", "chat").code == 0
        assert held(gate) == [("0.20.0", "cellar", "imported", 1)]


class TestExport:
    def test_export_import_and_export_again_give_the_same_bytes(self, stored):
        write(stored.directory / "detailed.json", detailed_result(made_up(failed=2)))
        stored("import", "detailed.json", "--version", "v0.22.0+cu129", "--testbed", "lab", "--scenario", "chat")
        assert stored("baseline", "export", "--to", "one").code == 0
        files = sorted((stored.directory / "one").iterdir())
        assert len(files) == 4
        done = stored("baseline", "import", *files, "--store", "other.db")
        assert done.out.startswith("7 runs added, 0 extended, 7 trials; 0 results were stored already")
        assert stored("baseline", "export", "--to", "two", "--store", "other.db").code == 0
        for path in files:
            assert (stored.directory / "two" / path.name).read_bytes() == path.read_bytes()

    def test_importing_an_export_twice_adds_nothing(self, stored):
        stored("baseline", "export", "--to", "one")
        before = held(stored)
        again = stored("baseline", "import", *(stored.directory / "one").iterdir())
        assert again.out.startswith("0 runs added, 0 extended, 0 trials; 6 results were stored already")
        assert held(stored) == before

    def test_of_several_files_one_that_is_wrong_stores_none(self, stored):
        stored("baseline", "export", "--to", "one")
        (stored.directory / "one" / "zz.json").write_text('{"schema": "regress-gate-baseline/1",\n "versoin": {}}')
        refused = stored("baseline", "import", *sorted((stored.directory / "one").iterdir()), "--store", "other.db")
        assert refused.code == 2
        assert "zz.json" in refused.error
        assert not (stored.directory / "other.db").exists()

    def test_one_version_can_be_chosen(self, stored):
        done = stored("baseline", "export", "v0.20.0", "--to", "one")
        assert done.out == "one/0.20.0__lab__imported@1.json: 2 runs\n"

    @pytest.mark.parametrize("arguments", [["v9.9.9"], ["--testbed", "nowhere"], ["--suite", "chat@1"]])
    def test_what_is_not_there_is_exit_5(self, stored, arguments):
        refused = stored("baseline", "export", *arguments)
        assert refused.code == 5
        assert "regress-gate baseline list" in refused.error

    def test_a_place_that_cannot_be_written_is_an_error(self, stored):
        (stored.directory / "file").write_text("")
        refused = stored("baseline", "export", "--to", "file/below")
        assert refused.code == 2
        assert refused.error.startswith("file/below: cannot be made (")


class TestListing:
    def test_shipped_baselines_are_listed_before_there_is_a_store(self, gate):
        listed = gate("baseline", "list")
        assert listed.code == 0
        assert len(listed.out.splitlines()) == 5
        assert listed.out.splitlines()[0].split()[:4] == ["version", "testbed", "suite", "runs"]

    def test_a_version_is_shown_run_by_run_with_where_its_numbers_came_from(self, stored):
        shown = stored("baseline", "show", "v0.20.0")
        assert shown.out.splitlines()[1].startswith("run:3")
        assert "read as vllm-serve" in shown.out

    def test_failures_without_a_count_are_not_shown_as_none(self, gate):
        table = "version,testbed,scenario,run,metric,value,completed\n0.19.1,lab,chat,a,ttft_mean,0.05,200\n"
        write(gate.directory / "t.csv", table)
        gate("import", "t.csv")
        assert " 200       ?       " in gate("baseline", "show", "v0.19.1", "--testbed", "lab").out
        (run,) = gate("baseline", "show", "v0.19.1", "--testbed", "lab", "--format", "json").json["runs"]
        assert (run["requests"], run["failed"]) == (200, None)

    def test_a_version_that_is_not_there_is_exit_5(self, stored):
        assert stored("baseline", "show", "v9.9.9").code == 5
        refused = stored("baseline", "pin", "v9.9.9")
        assert (refused.code, "--unmeasured" in refused.error) == (5, True)
        assert stored("baseline", "pin", "v9.9.9", "--unmeasured").out == "9.9.9 is pinned\n"

    def test_nothing_matching_a_filter_is_no_error(self, stored):
        assert stored("baseline", "list", "--testbed", "nowhere").code == 0


class TestPinAndPrune:
    def test_a_pinned_version_survives(self, stored):
        done = stored("baseline", "prune", "v0.19.1", "--yes")
        assert (done.code, done.out) == (0, "nothing to prune: 0.19.1 is pinned\n")
        assert len(held(stored)) == 3

    def test_all_but_the_newest_go_and_pinned_ones_stay(self, stored):
        done = stored("baseline", "prune", "--keep", "1", "--yes")
        assert done.out.splitlines()[-1] == "deleted 2 runs"
        assert {entry[0] for entry in held(stored)} == {"0.19.1", "0.21.0"}

    def test_a_dry_run_says_what_would_go_and_deletes_nothing(self, stored):
        before = stored.bytes_of_store()
        done = stored("baseline", "prune", "v0.20.0", "--dry-run")
        assert done.out == "0.20.0 on lab, imported@1: 2 runs\n"
        assert stored.bytes_of_store() == before

    @pytest.mark.parametrize(("answer", "left"), [("n\n", 3), ("\n", 3), ("y\n", 2)])
    def test_it_asks_and_only_a_yes_deletes(self, stored, answer, left):
        done = stored("baseline", "prune", "v0.20.0", stdin=answer)
        assert done.code == 0
        assert "delete these?" in done.err
        assert len(held(stored)) == left

    def test_without_a_terminal_nothing_is_deleted(self, stored):
        refused = stored("baseline", "prune", "v0.20.0", stdin="")
        assert refused.code == 2
        assert "--yes" in refused.err.splitlines()[-1]
        assert len(held(stored)) == 3

    def test_a_pin_can_be_taken_away(self, stored):
        assert stored("baseline", "pin", "v0.19.1").out == "0.19.1 was pinned already\n"
        assert stored("baseline", "unpin", "v0.19.1").code == 0
        refused = stored("baseline", "unpin", "v0.19.1")
        assert (refused.code, "pinned: nothing" in refused.error) == (2, True)
        assert stored("baseline", "prune", "v0.19.1", "--yes").out.endswith("deleted 2 runs\n")

    def test_a_shipped_version_can_be_pinned_before_anything_is_stored(self, gate):
        assert gate("baseline", "pin", "v0.24.0").code == 0
        assert gate("compare", "pinned", "v0.32.0").code == 0

    def test_an_unknown_suite_is_an_error_that_lists_those_there_are(self, stored):
        refused = stored("baseline", "prune", "v0.20.0", "--suite", "chat", "--yes")
        assert refused.code == 2
        assert "imported@1" in refused.error
        assert len(held(stored)) == 3


class TestDatabase:
    def test_info_says_where_the_store_is_and_what_it_holds(self, stored):
        shown = stored("db", "info").out
        assert shown.startswith(f"{stored.store} (REGRESS_GATE_STORE), schema ")
        assert "3 builds, 1 testbed, 1 suite, 6 runs, 6 trials" in shown
        assert "1 pin" in shown

    def test_info_before_there_is_a_store(self, gate):
        assert "there is no store yet" in gate("db", "info").out

    def test_a_backup_is_a_store_with_the_same_content_and_never_replaces_a_file(self, stored):
        assert stored("db", "backup", "copy.db").out == "copied to copy.db\n"
        assert held(stored, "--store", "copy.db") == held(stored)
        refused = stored("db", "backup", "copy.db")
        assert (refused.code, "already there" in refused.error) == (2, True)

    def test_migrating_a_current_store_changes_nothing(self, stored):
        before = stored.bytes_of_store()
        assert stored("db", "migrate").out.startswith("already at schema ")
        assert stored.bytes_of_store() == before

    def test_the_log_says_who_did_what(self, stored, monkeypatch):
        monkeypatch.setenv("REGRESS_GATE_ACTOR", "ana\x1b[31m of <b>ops</b>")
        stored("baseline", "unpin", "v0.19.1")
        stored("baseline", "prune", "v0.20.0", "--yes")
        lines = stored("db", "log", "--limit", "2").out.splitlines()
        assert lines[0].split()[:3] == ["when", "(UTC)", "who"]
        assert [line.rsplit("  ", 1)[1] for line in lines[1:]] == [
            "prune 2 runs: 0.20.0 on lab, imported@1",
            "unpin 0.19.1",
        ]
        assert all("ana of <b>ops</b>" in line for line in lines[1:])
        assert "ana of &lt;b&gt;ops&lt;/b&gt;" in stored("db", "log", "--format", "html").out
        entries = stored("db", "log", "--format", "json").json["entries"]
        assert [entry["kind"] for entry in entries] == ["prune", "unpin", "pin", *["import"] * 3, "create"]
        assert entries[0]["places"] == [{"version": "0.20.0", "testbed": "lab", "suite": "imported@1"}]
        assert stored("db", "log", "--since", "2999-01-01").out == "the log has no such entry\n"

    def test_pruning_by_age_shows_first_what_goes_and_what_stays(self, stored):
        asked = ("db", "prune", "--older-than", "1s")
        shown = stored(*asked, "--dry-run").out.splitlines()
        assert shown[:2] == ["0.20.0 on lab, imported@1: 2 runs", "0.21.0 on lab, imported@1: 2 runs"]
        assert shown[2].startswith("4 runs of 0 experiments and 0 comparisons from before ")
        assert shown[3:] == ["kept: 2 runs, pinned, or measured beside what is pinned"]
        assert stored(*asked, stdin="n\n").out.endswith("nothing was deleted\n")
        assert stored(*asked, stdin="").code == 2
        assert len(held(stored)) == 3
        assert stored(*asked, "--keep", "1", "--dry-run").out.startswith("0.20.0 on lab, imported@1: 2 runs\n2 runs of")
        assert stored(*asked, "--yes").out.endswith("deleted 4 runs\n")
        assert held(stored) == [("0.19.1", "lab", "imported", 2)]

    def test_old_logs_of_servers_go_but_not_those_of_an_experiment_that_stays(self, stored):
        logs = logs_directory()
        for name, age in (("e1", 100), ("e2", 100), ("young", 0)):
            (logs / name).mkdir(parents=True)
            (logs / name / "server.log").write_text("x" * 2**20)
            when = time.time() - age * 86400
            for path in (logs / name / "server.log", logs / name):
                os.utime(path, (when, when))
        elsewhere = stored.directory / "elsewhere"
        (logs / "e1").rename(elsewhere)
        (logs / "e1").symlink_to(elsewhere)
        (logs / "e3").mkdir()
        os.utime(logs / "e3", (0, 0))
        with open_store(f"sqlite:///{stored.store}", create=False) as store:
            store.begin_experiment(StoredExperiment("e3", datetime.now(UTC), {}))
        shown = stored("db", "prune", "--older-than", "30d", "--keep", "9", "--dry-run").out
        assert "logs of 1 experiment on this machine, 1.0 MiB" in shown
        assert stored("db", "prune", "--older-than", "30d", "--keep", "9", "--yes").code == 0
        assert {path.name for path in logs.iterdir()} == {"e1", "e3", "young"}
        assert (elsewhere / "server.log").exists()

    def test_there_is_no_log_without_a_store(self, gate):
        refused = gate("db", "log")
        assert (refused.code, "there is no store" in refused.error) == (4, True)


def truncated(path):
    path.write_bytes(path.read_bytes()[:5000] + b"\0" * 3000)


def no_database(path):
    path.write_bytes(b"this is no database, but it is long enough to be taken for one" * 100)


def somebody_elses(path):
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()


def a_directory(path):
    path.unlink()
    path.mkdir()


def of_a_newer_program(path):
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE {REVISION_TABLE} SET version_num = '9999'")
    connection.close()


@pytest.mark.parametrize(
    ("harm", "code", "hint"),
    [
        (truncated, 4, "damaged"),
        (no_database, 4, "not a SQLite database"),
        (somebody_elses, 4, "not a regress-gate store (it holds 'recipes')"),
        (a_directory, 4, "cannot be opened"),
        (of_a_newer_program, 2, "written by a newer regress-gate"),
    ],
)
@pytest.mark.parametrize(
    "arguments",
    [
        ["baseline", "list"],
        ["compare", "v0.19.1", "v0.20.0", "--testbed", "lab"],
        ["baseline", "prune", "v0.20.0", "--yes"],
        ["import", "results", "--version", "v0.22.0", "--testbed", "lab"],
    ],
    ids=lambda arguments: arguments[0] + arguments[1],
)
def test_a_store_that_cannot_be_used_is_one_line_and_is_left_as_it_is(gate, harm, code, hint, arguments):
    gate.import_starts("0.20.0", starts=2)
    write_starts(gate.directory / "results", starts=1)
    harm(gate.store)
    before = gate.store.read_bytes() if gate.store.is_file() else None
    refused = gate(*arguments)
    assert refused.code == code
    assert refused.err.splitlines()[-1].startswith(f"regress-gate: error: {gate.store}: ")
    assert hint in refused.err
    assert (gate.store.read_bytes() if gate.store.is_file() else None) == before
