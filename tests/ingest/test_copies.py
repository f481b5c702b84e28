"""The same numbers are one measurement, but only numbers that do not come again by chance."""

from pathlib import Path

import pytest

from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.interface import FileOutcome, FileReport
from tests.factories.serve_results import import_all, made_up, plain, write

BOX = IdentityFlags.parse(testbed="box")
PLACES = ("0.19.1,a,r1", "0.19.1,a,r2", "0.19.1,b,r1", "0.20.0,a,r1")


def reports(folder: Path, metric: str, value: float) -> tuple[FileReport, ...]:
    """On a table with that value for two runs, two scenarios and two versions."""
    rows = [f"{place},{metric},{value!r}" for place in PLACES]
    path = write(folder / "table.csv", "\n".join(["version,scenario,run,metric,value", *rows]))
    return import_all(path, flags=BOX).files


@pytest.mark.parametrize(
    ("metric", "value"), [("accuracy_gsm8k", 0.8), ("kv_cache_tokens", 123456789012), ("startup_time", 12.5)]
)
def test_scores_sizes_and_coarse_times_come_again_by_chance(tmp_path: Path, metric: str, value: float) -> None:
    found = reports(tmp_path, metric, value)
    assert [report.outcome for report in found] == [FileOutcome.STORED] * 4
    assert {(report.version, report.scenario, report.run) for report in found} == {
        tuple(place.split(",")) for place in PLACES
    }


def test_an_exact_time_does_not_come_again(tmp_path: Path) -> None:
    stored, *others = reports(tmp_path, "startup_time", 12.529876543211)
    assert stored.outcome is FileOutcome.STORED
    assert all("one is misplaced" in (report.reason or "") for report in others)


def test_the_same_score_in_two_files_is_two_results(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.csv", f"version,scenario,metric,value,run\n0.19.1,s,accuracy_x,0.5,{name}\n")
    assert [run.trials[0].metrics for run in import_all(tmp_path, flags=BOX).runs] == [{"accuracy_x": 0.5}] * 2


def test_a_copy_of_a_copy_is_one_too(tmp_path: Path) -> None:
    made = plain(made_up())
    write(tmp_path / "a.json", made)
    for name in ("b", "c"):
        write(tmp_path / f"{name}.json", {**made, "label": "again"})
    found = import_all(tmp_path).files
    assert [report.outcome for report in found] == [FileOutcome.STORED, FileOutcome.SKIPPED, FileOutcome.SKIPPED]
    assert str(found[2].reason).startswith("the same bytes as")
