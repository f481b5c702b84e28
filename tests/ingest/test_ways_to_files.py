"""By which of several ways a file is reached, alone or among others, changes nothing of what it is."""

import gzip
import json
import os
import zipfile
from pathlib import Path

import pytest

from regress_gate.ingest.interface import FileOutcome
from tests.factories.serve_results import import_all, made_up, plain, write

NO_RESULTS = "a folder without benchmark results"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a link in it that leads back to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    return tmp_path


def outcomes(*paths: str | Path) -> dict[str, tuple[FileOutcome, str | None]]:
    return {report.path: (report.outcome, report.reason) for report in import_all(*map(Path, paths)).files}


def text_of(way: str, here: Path, path: str) -> str:
    return {"relative": path, "dotted": f"./{path}", "absolute": f"{here}/{path}", "linked": f"link/{path}"}[way]


WAYS = ("relative", "dotted", "absolute", "linked")


@pytest.mark.parametrize("way", WAYS)
def test_one_set_of_conditions_is_of_one_run_by_whatever_way_it_is_reached(here: Path, way: str) -> None:
    write(here / "a" / "conditions.json", {"startup_s": 3.0})
    for seed in (1, 2):
        write(here / "a" / f"r{seed}.json", plain(made_up(seed)))
    (run,) = import_all(Path("a/r1.json"), Path(text_of(way, here, "a/r2.json"))).runs
    assert len(run.trials) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_sweeps_summary_is_known_by_whatever_way_its_runs_are_reached(here: Path, way: str) -> None:
    runs = [plain(made_up(number), run_number=number) for number in range(2)]
    write(here / "sweep" / "summary.json", runs)
    for number, run in enumerate(runs):
        write(here / "sweep" / "z" / f"run={number}.json", run)
    found = outcomes("sweep/summary.json", text_of(way, here, "sweep/z"))
    outcome, reason = found["sweep/summary.json"]
    assert (outcome, len(found)) == (FileOutcome.SKIPPED, 3)
    assert reason == "a summary of the sweep's run=N.json files, which are read themselves"


def test_a_sweep_in_the_current_folder_is_read_once(here: Path) -> None:
    (here / "link").unlink()
    run = plain(made_up(1), run_number=0)
    write(here / "summary.json", [run])
    write(here / "z" / "run=0.json", run)
    assert {path: outcome for path, (outcome, _) in outcomes(".").items()} == {
        "summary.json": FileOutcome.SKIPPED,
        "z/run=0.json": FileOutcome.STORED,
    }


@pytest.mark.parametrize("argument", ["notes", "./notes", "notes/", "notes/.", "link/notes"])
def test_a_folder_without_results_is_an_error_however_it_is_written(here: Path, argument: str) -> None:
    write(here / "notes" / "readme.md", "nothing here")
    write(here / "r.json", plain(made_up()))
    for company in ([], [here / "r.json"]):
        found = import_all(argument, *company).files  # type: ignore[arg-type]
        assert [report.reason for report in found if report.outcome is FileOutcome.REFUSED] == [NO_RESULTS]


def test_a_folder_of_copies_is_none_without_results(here: Path) -> None:
    for folder in ("first", "second"):
        write(here / folder / "r.json", plain(made_up()))
    with zipfile.ZipFile(here / "third.zip", "w") as made:
        made.write("first/r.json")
    assert [outcome for outcome, _ in outcomes("first", "second", "third.zip").values()] == [
        FileOutcome.STORED,
        FileOutcome.SKIPPED,
        FileOutcome.SKIPPED,
    ]


def test_what_is_left_out_is_reported_once(here: Path) -> None:
    write(here / "a" / "r.json", plain(made_up()))
    (here / "a" / "nowhere").symlink_to("gone")
    with zipfile.ZipFile(here / "a" / "z.zip", "w") as made:
        made.writestr("inner.zip", "PK")
    paths = ("a", "./a", here / "a", "link/a", "a/z.zip", here / "a/z.zip")
    assert [report.path for report in import_all(*paths).files] == ["a/nowhere", "a/r.json", "a/z.zip!inner.zip"]  # type: ignore[arg-type]


def test_a_packed_archive_is_the_same_in_a_folder_and_by_its_name(here: Path) -> None:
    write(here / "a" / "x.zip.gz", b"\x1f\x8b")
    assert outcomes("a/x.zip.gz")["a/x.zip.gz"] == outcomes("a")["a/x.zip.gz"]


def test_files_of_one_name_in_several_archives_are_several_files(here: Path) -> None:
    for seed in (1, 2, 3):
        with zipfile.ZipFile(here / f"{seed}.zip", "w") as made:
            made.writestr("r.json", json.dumps(plain(made_up(seed))))
            made.writestr("conditions.json", json.dumps({"startup_s": 10.0 + seed}))
    (here / "link").unlink()
    for paths in (["."], ["2.zip", "1.zip", "3.zip"]):
        runs = import_all(*map(Path, paths)).runs
        assert [run.metrics["startup_time"] for run in runs] == [11.0, 12.0, 13.0]
        assert len({run.trials[0].metrics["ttft_mean"] for run in runs}) == 3


def test_what_lies_in_a_folder_that_cannot_be_listed_is_known_by_its_name(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(_folder: str) -> list[str]:
        raise PermissionError

    path = write(here / "a" / "r.json", plain(made_up()))
    write(here / "a" / "conditions.json", {"startup_s": 3.0})
    monkeypatch.setattr(os, "listdir", listed)
    assert [run.metrics["startup_time"] for run in import_all(path).runs] == [3.0]


@pytest.mark.parametrize("ending", ["", ".gz", ".GZ"])
def test_conditions_are_known_packed_and_in_capitals(here: Path, ending: str) -> None:
    write(here / "a" / "r.json", plain(made_up()))
    data = b'{"startup_s": 3.0}'
    write(here / "a" / f"conditions.json{ending}", gzip.compress(data) if ending else data)
    assert [run.metrics["startup_time"] for run in import_all(here / "a").runs] == [3.0]
