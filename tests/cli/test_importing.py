"""`import` beyond the plain case: what it would do, which reader it asks, and runs that must not count."""

import json
import subprocess
import sys

import pytest

from regress_gate.ingest.interface import Certainty
from regress_gate.ingest.registry import READERS
from regress_gate.store.repository import open_store
from tests.factories.serve_results import console, made_up, plain, write
from tests.factories.server_starts import result, write_starts

FLAGS = ("--version", "v0.20.0", "--testbed", "lab", "--scenario", "chat")


def stored_runs(gate):
    """In the order in which they started."""
    with open_store(f"sqlite:///{gate.store}", create=False) as store:
        return sorted(store.runs(), key=lambda run: run.started)


def test_a_dry_run_shows_what_would_become_of_each_file(gate):
    write(gate.directory / "r" / "a.json", result())
    write(gate.directory / "r" / "b.json", result(duration=-1))
    write(gate.directory / "r" / "c.log", "started")
    done = gate("import", "r", *FLAGS, "--run", "3", "--dry-run")
    assert done.code == 2
    assert done.out.splitlines()[:6] == [
        "store r/a.json",
        "  a vllm-serve result",
        "  version   0.20.0",
        "  scenario  chat",
        "  run       3, trial 1",
        "  metrics   ttft (mean, median, p99), tpot (mean, median, p99), itl (mean,",
    ]
    assert "skip r/c.log\n  not a benchmark result of a known tool\n" in done.out
    assert "refuse r/b.json\n  duration is -1 s\n  format  vllm-serve\n" in done.err
    assert not gate.store.exists()


@pytest.mark.parametrize("width", [40, 60, 200])
def test_a_dry_run_is_not_wider_than_the_terminal(gate, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    write(gate.directory / "r" / "a.json", result(failed=3))
    done = gate("import", "r", *FLAGS, "--dry-run")
    about_files = done.out.splitlines()[:-1]
    assert max(map(len, about_files)) <= width


def test_the_same_as_json_stores_only_without_dry_run(gate):
    write(gate.directory / "r" / "a.json", result())
    write(gate.directory / "r" / "b.json", "{")
    done = gate("import", "r", *FLAGS, "--dry-run", "--format", "json")
    assert done.code == 2
    assert (done.json["runs"], done.json["trials"], done.json["stored"], done.json["complete"]) == (1, 1, None, False)
    assert not gate.store.exists()
    good, bad = done.json["files"]
    assert (good["path"], good["outcome"], good["format"], good["trial"]) == ("r/a.json", "stored", "vllm-serve", 1)
    assert "ttft_mean" in good["metrics"]
    assert bad["outcome"] == "refused"
    assert "cut off" in bad["reason"]
    assert gate("import", "r", *FLAGS, "--format", "json").json["stored"]["trials"] == 1


def test_a_page_holds_files_refusals_and_what_was_stored_in_one_piece(gate):
    write(gate.directory / "r" / "a.json", result())
    write(gate.directory / "r" / "b<i>.json", "{")
    done = gate("import", "r", *FLAGS, "--format", "markdown")
    assert done.code == 2
    assert "| read | r/a.json: vllm-serve, 0.20.0 chat run" in done.out
    assert "| refused | r/b&#60;i&#62;.json: " in done.out
    assert done.out.splitlines()[-1].startswith("stored 1 trial in 1 new run in ")
    assert done.err == "1 of 2 results was refused\n"


def test_a_long_list_of_files_is_cut_and_says_so_on_its_stream(gate):
    for number in range(25):
        write(gate.directory / "r" / f"{number}.json", plain(made_up(number)))
    shown = gate("import", "r", *FLAGS).out.splitlines()
    assert [line.startswith("read  r/") for line in shown[:20]] == [True] * 20
    assert shown[20] == "…     and 5 more (-v lists them)"
    assert gate("import", "r", *FLAGS, "-v").out.count("read  r/") == 25


def test_the_formats_are_listed(gate):
    done = gate("import", "--list-formats")
    assert done.code == 0
    for reader in READERS:
        assert f"{reader.name}: {reader.tool}\n" in done.out
        assert all(f"    {generation.which}\n" in done.out for generation in reader.generations)


def test_a_reader_can_be_forced(gate):
    write(gate.directory / "r" / "a.json", result())
    write(gate.directory / "r" / "b.txt", console(made_up()))
    done = gate("import", "r", *FLAGS, "--from", "vllm-serve", "-v")
    assert done.code == 0
    assert "skipped  r/b.txt: not recognised as vllm-serve (--from)" in done.out


def test_a_forced_reader_refuses_a_named_file_that_is_none_of_its_own(gate):
    path = write(gate.directory / "a.json", result())
    done = gate("import", path, *FLAGS, "--from", "vllm-sweep")
    assert done.code == 2
    assert "holds no result of vllm-sweep" in done.err


def test_an_unknown_reader_is_an_error_that_names_the_nearest(gate):
    assert "did you mean 'vllm-serve'" in gate("import", "r", *FLAGS, "--from", "vllm-serv").error
    assert "known: vllm-serve" in gate("import", "r", *FLAGS, "--from", "excel").error


class Twin:
    """Claims what vllm-serve claims."""

    name = "twin"
    tool = "a tool that writes the same"
    bare_constants = False
    generations = ()

    def recognises(self, content):
        return Certainty.SURE if content.documents else Certainty.NO


def test_a_file_that_two_readers_claim_is_refused_and_both_are_named(gate, monkeypatch):
    monkeypatch.setattr("regress_gate.ingest.importer.READERS", (*READERS, Twin()))
    write(gate.directory / "a.json", result())
    done = gate("import", "a.json", *FLAGS)
    assert done.code == 2
    assert "a.json: could be vllm-serve and twin; say which with --from" in done.err
    assert gate("import", "a.json", *FLAGS, "--from", "vllm-serve").code == 0


class Broken(Twin):
    """A reader with a fault of its own."""

    name = "broken"

    def recognises(self, content):
        return Certainty.SURE if content.name == "b.json" else Certainty.NO

    def read(self, _content, _context):
        raise KeyError("itl\x1b[31m")


def test_a_fault_of_a_reader_refuses_one_file_by_name_and_the_others_are_stored(gate, monkeypatch):
    monkeypatch.setattr("regress_gate.ingest.importer.READERS", (*READERS, Broken()))
    write(gate.directory / "r" / "a.json", result())
    write(gate.directory / "r" / "b.json", '{"of": "no other reader"}')
    done = gate("import", "r", *FLAGS)
    assert done.code == 2
    refusal = "refused  r/b.json: internal error of the reader broken, please report it (KeyError: 'itl\\x1b[31m')"
    assert done.err.splitlines() == [refusal, "1 of 2 results was refused"]
    assert len(stored_runs(gate)) == 1


def test_a_fault_while_a_file_is_recognised_refuses_that_file_alone(gate, monkeypatch):
    class Confused(Twin):
        def recognises(self, content):
            return Certainty.SURE if content.documents[0]["missing"] else Certainty.NO

    monkeypatch.setattr("regress_gate.ingest.importer.READERS", (Confused(),))
    write(gate.directory / "a.json", result())
    done = gate("import", "a.json", *FLAGS)
    assert done.code == 2
    assert "a.json: internal error while it was recognised, please report it (KeyError: 'missing')" in done.err


def test_the_first_run_after_a_cold_start_is_kept_and_does_not_count(gate):
    write_starts(gate.directory / "r", starts=4)
    done = gate("import", "r", *FLAGS, "--run-per-file", "--first-run", "cold")
    assert done.code == 0
    (note,) = done.err.splitlines()
    assert "of 0.20.0 on lab is the first run after a cold start (--first-run cold)" in note
    assert [run.void is not None for run in stored_runs(gate)] == [True, False, False, False]


def test_which_run_was_cold_is_not_guessed(gate):
    write_starts(gate.directory / "r", starts=3)
    for path in (gate.directory / "r").iterdir():
        data = json.loads(path.read_text())
        path.write_text(json.dumps({key: value for key, value in data.items() if key != "date"}))
    refused = gate("import", "r", *FLAGS, "--run-per-file", "--first-run", "cold")
    assert refused.code == 2
    assert "--first-run: which of 3 runs of 0.20.0 on lab was first is not known; number the runs" in refused.error
    numbered = (*FLAGS, "--pattern", "start{run}.json", "--first-run", "cold")
    assert "run 1 of 0.20.0" in gate("import", "r", *numbered).err


def test_the_clients_version_is_kept(gate):
    write(gate.directory / "a.json", result())
    gate("import", "a.json", *FLAGS, "--client-version", "0.19.0")
    (run,) = stored_runs(gate)
    assert run.trials[0].source.client_version == "0.19.0"


def test_a_folder_that_grows_is_one_run_as_if_it_were_imported_at_once(gate):
    """Nobody says which server start its files are of, so they are no independent evidence, today or tomorrow."""
    for number in range(3):
        write(gate.directory / "r" / f"{number}.json", plain(made_up(number)))
        assert gate("import", "r", *FLAGS).code == 0
    (run,) = stored_runs(gate)
    assert len(run.trials) == 3


def test_one_reason_for_many_files_is_given_once(gate):
    for number in range(5):
        write(gate.directory / "r" / f"{number}.json", plain(made_up(number)))
    done = gate("import", "r", *FLAGS, "--pattern", "{version}/{run}.txt")
    assert done.code == 2
    refusal, hint, count = done.err.splitlines()
    assert refusal.startswith("refused  5 results (r/0.json, r/1.json, r/2.json, …): its path does not end like ")
    assert (hint, count) == ("…        -v lists every file", "5 of 5 results were refused")
    assert gate("import", "r", *FLAGS, "--pattern", "{version}/{run}.txt", "-v").err.count("refused  r/") == 5


def test_what_differs_among_grouped_results_is_left_out(gate):
    for number in range(5):
        content = {**plain(made_up(number, concurrency=number + 1)), "vllm_version": "0.19.1", "run": "7"}
        write(gate.directory / "r" / f"{number}.json", content)
    done = gate("import", "r", "--testbed", "lab", "--run-per-file", "--dry-run")
    assert "refuse 5 results (r/0.json, r/1.json, r/2.json, …)\n" in done.err
    assert "version  0.19.1" in done.err
    assert "scenario" not in done.err


def test_a_dry_run_shows_what_is_stored_already(gate):
    write(gate.directory / "r" / "a.json", result())
    gate("import", "r", *FLAGS, "--run-per-file")
    before = gate.store.read_bytes()
    write(gate.directory / "r" / "b.json", plain(made_up(2)))
    done = gate("import", "r", *FLAGS, "--run-per-file", "--dry-run")
    told = f"would store 1 trial in 1 run; 1 result stored already in {gate.store} (run:1); "
    assert done.out.splitlines()[-1] == told + "nothing was stored (--dry-run)"
    assert gate.store.read_bytes() == before


def test_a_dry_run_goes_on_where_the_store_cannot_be_read(gate):
    write(gate.directory / "r" / "a.json", result())
    gate.store.write_text("not a database at all, but long enough to be read\n" * 50)
    done = gate("import", "r", *FLAGS, "--dry-run")
    assert done.code == 0
    assert "note: what is stored already is not known: " in done.err
    assert done.out.splitlines()[-1] == "would store 1 trial in 1 run; nothing was stored (--dry-run)"


def test_results_without_single_requests_are_imported_without_the_heavy_libraries(gate):
    write(gate.directory / "a.json", {key: value for key, value in result().items() if not isinstance(value, list)})
    code = (
        "import sys\nfrom regress_gate.cli.main import run\n"
        "try:\n    run(sys.argv[1:])\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted({'numpy', 'pydantic', 'alembic', 'yaml'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "import", "a.json", *FLAGS, "--store", str(gate.store), "-q"]
    done = subprocess.run(command, cwd=gate.directory, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert len(stored_runs(gate)) == 1
