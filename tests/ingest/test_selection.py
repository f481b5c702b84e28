"""Folders, globs, links and bystanders: which files are looked at, and what is said of the others."""

import gzip
import io
import json
import os
import resource
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from regress_gate.errors import InputError
from regress_gate.files import open_regular
from regress_gate.ingest import content, importer, selection, unpacking
from regress_gate.ingest.interface import FileOutcome
from regress_gate.ingest.parsing import NotJsonError
from regress_gate.text import natural_key
from tests.factories.serve_results import console, import_all, made_up, plain, write


def verdicts(tmp_path, *paths):
    found = import_all(*(paths or (tmp_path,))).files
    return {report.path.removeprefix(f"{tmp_path}/"): (report.outcome, report.reason) for report in found}


def test_bystanders_in_a_folder_are_skipped_but_a_named_one_is_refused(tmp_path):
    write(tmp_path / "r.json", plain(made_up()))
    log = write(tmp_path / "server.log", "[INFO] started\n")
    unknown = "not a benchmark result of a known tool"
    assert verdicts(tmp_path)["server.log"] == (FileOutcome.SKIPPED, unknown)
    assert verdicts(tmp_path, log)["server.log"] == (FileOutcome.REFUSED, unknown)


def test_a_broken_result_in_a_folder_is_no_bystander(tmp_path):
    write(tmp_path / "r.json", '{"model_id": "x", ')
    assert verdicts(tmp_path)["r.json"][0] is FileOutcome.REFUSED


def test_hidden_files_and_folders_are_not_looked_at(tmp_path):
    write(tmp_path / ".cache" / "r.json", plain(made_up(1)))
    write(tmp_path / ".r.json", plain(made_up(2)))
    write(tmp_path / "r.json", plain(made_up(3)))
    assert set(verdicts(tmp_path)) == {"r.json"}


def test_a_folder_without_results_is_an_error(tmp_path):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "notes" / "readme.md", "nothing here")
    assert verdicts(tmp_path, tmp_path / "empty")["empty"] == (FileOutcome.REFUSED, "a folder without files")
    assert verdicts(tmp_path, tmp_path / "notes")["notes"] == (
        FileOutcome.REFUSED,
        "a folder without benchmark results",
    )


def test_an_empty_log_is_a_bystander_and_an_empty_result_is_an_error(tmp_path):
    write(tmp_path / "r.json", plain(made_up(1)))
    write(tmp_path / "lost.json", "")
    write(tmp_path / "stderr.txt", "")
    found = verdicts(tmp_path)
    assert found["stderr.txt"] == (FileOutcome.SKIPPED, "empty")
    assert found["lost.json"] == (FileOutcome.REFUSED, "empty; the benchmark did not write its result")


def test_links_that_go_in_circles_end(tmp_path):
    write(tmp_path / "a" / "r.json", plain(made_up()))
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "nowhere").symlink_to(tmp_path / "gone")
    found = verdicts(tmp_path)
    assert found["a/r.json"] == (FileOutcome.STORED, None)
    assert found["a/nowhere"] == (FileOutcome.SKIPPED, "a broken link")
    assert len(found) == 2


def test_a_literal_glob_is_expanded(tmp_path):
    write(tmp_path / "x" / "r1.json", plain(made_up(1)))
    write(tmp_path / "y" / "r2.json", plain(made_up(2)))
    assert set(verdicts(tmp_path, tmp_path / "**" / "r*.json")) == {"x/r1.json", "y/r2.json"}


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path):
    path = write(tmp_path / "r[1].json", plain(made_up()))
    assert verdicts(tmp_path, path)["r[1].json"] == (FileOutcome.STORED, None)


def test_a_dash_is_standard_input(monkeypatch):
    text = console(made_up()).replace("====\n", "====\n", 1)
    said = "Namespace(model='org/tiny', num_prompts=12)\n" + text
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(said.encode())))
    assert [(report.path, report.outcome) for report in import_all("-").files] == [("-", FileOutcome.STORED)]


def test_broken_json_on_standard_input_says_so(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"model_id": ')))
    assert "cut off" in import_all("-").files[0].reason


def test_an_unreadable_file_is_refused(tmp_path):
    path = write(tmp_path / "r.json", plain(made_up()))
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads what it may not, but no unmapped memory
        path = Path("/proc/self/mem")
    (report,) = import_all(path).files
    assert report.outcome is FileOutcome.REFUSED
    assert report.reason.startswith(("not readable: Permission denied", "not readable: Input/output error"))


def test_copies_in_other_forms_beside_a_result_are_skipped(tmp_path):
    write(tmp_path / "r.json", plain(made_up()))
    write(tmp_path / "r.pytorch.json", [{"metric": {"name": "x", "benchmark_values": [1]}}])
    write(tmp_path / "r.commands", {"server_command": "vllm serve"})
    found = verdicts(tmp_path)
    assert found["r.json"][0] is FileOutcome.STORED
    assert found["r.pytorch.json"][0] is FileOutcome.SKIPPED
    assert found["r.commands"][0] is FileOutcome.SKIPPED


def test_progress_is_reported(tmp_path):
    for seed in (1, 2):
        write(tmp_path / f"r{seed}.json", plain(made_up(seed)))
    told: list[tuple[int, int]] = []
    import_all(tmp_path, progress=lambda done, total: told.append((done, total)))
    assert told == [(0, 2), (1, 2), (2, 2)]


def test_progress_is_reported_while_a_long_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "STREAMED_FROM", 3000)
    monkeypatch.setattr(unpacking, "SMALL", 3000)
    told: list[tuple[int, int]] = []
    import_all(lines(tmp_path), progress=lambda done, total: told.append((done, total)))
    assert told.count((0, 1)) > 2
    assert told[-1] == (1, 1)


def test_numbers_in_names_sort_as_numbers():
    names = ["run=10", "run=9", "run", "run=9b", "run=²"]
    assert sorted(names, key=natural_key)[:4] == ["run", "run=9", "run=9b", "run=10"]


def test_pipes_and_devices_are_never_opened(tmp_path):
    pipe = tmp_path / "r" / "pipe.json"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    write(tmp_path / "r" / "r.json", plain(made_up()))
    (tmp_path / "r" / "zero.json").symlink_to("/dev/zero")
    found = verdicts(tmp_path, tmp_path / "r")
    assert found["r/pipe.json"] == found["r/zero.json"] == (FileOutcome.SKIPPED, "a pipe or device, not a file")
    assert found["r/r.json"][0] is FileOutcome.STORED
    named = (FileOutcome.REFUSED, "a pipe or device, not a file; use - for standard input")
    assert verdicts(tmp_path, pipe, Path("/dev/zero")) == {"r/pipe.json": named, "/dev/zero": named}


def test_a_file_that_becomes_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(tmp_path / "pipe")


def test_a_link_in_a_circle_is_an_error(tmp_path):
    (tmp_path / "a.json").symlink_to(tmp_path / "a.json")
    assert verdicts(tmp_path, tmp_path / "a.json")["a.json"] == (FileOutcome.REFUSED, "a broken link")


def test_more_files_than_anybody_means_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(selection, "MAX_FILES", 5)
    for number in range(6):
        write(tmp_path / f"r{number}.json", "{}")
    with pytest.raises(InputError, match=r"more than 5 files; import them in parts"):
        import_all(tmp_path)


def test_more_results_than_anybody_means_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(importer, "MAX_RESULTS", 2)
    path = write(tmp_path / "r.json", "\n".join(json.dumps(plain(made_up(seed))) for seed in range(3)))
    assert verdicts(tmp_path, path)["r.json"] == (FileOutcome.REFUSED, "holds more than 2 results; split it")


def lines(folder: Path) -> Path:
    return write(folder / "r.jsonl", "\n".join(json.dumps(plain(made_up(seed))) for seed in range(9)))


def test_a_file_that_grows_while_it_is_hashed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "STREAMED_FROM", 3000)
    monkeypatch.setattr(unpacking, "SMALL", 3000)
    path = lines(tmp_path)
    calls = iter(range(9))
    monkeypatch.setattr(content, "_stamp", lambda _file: (next(calls),))
    (report,) = import_all(path).files
    assert (report.outcome, report.reason) == (FileOutcome.REFUSED, content._CHANGED)


def test_a_file_that_grows_before_it_is_read_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(content, "STREAMED_FROM", 3000)
    monkeypatch.setattr(unpacking, "SMALL", 3000)
    path = lines(tmp_path)
    found = content.read_content("r.jsonl", partial(path.open, "rb"))
    assert len(list(found.each())) == 9
    with path.open("a") as file:
        file.write("\n" + json.dumps(plain(made_up(10))))
    with pytest.raises(NotJsonError, match="the file changed while it was read"):
        list(found.each())


def test_many_files_need_few_handles(tmp_path):
    for seed in range(60):
        write(tmp_path / f"r{seed}.json", plain(made_up(seed)))
        write(tmp_path / f"p{seed}.json.gz", gzip.compress(json.dumps(plain(made_up(100 + seed))).encode()))
        with zipfile.ZipFile(tmp_path / f"z{seed}.zip", "w") as made:
            made.writestr("r.json", json.dumps(plain(made_up(200 + seed))))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    there = len(os.listdir("/dev/fd"))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (there + 20, hard))
    try:
        assert len(import_all(tmp_path).runs[0].trials) == 180
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
