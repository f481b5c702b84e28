"""Folders that `vllm bench sweep` writes: every run once."""

import pytest

from regress_gate.ingest.interface import FileOutcome
from tests.factories.serve_results import Result, import_all, made_up, plain, write


def cell(seed: int, number: int, **swept: object) -> Result:
    return {**plain(made_up(seed)), "run_number": number, **swept}


@pytest.fixture
def tree(tmp_path):
    top = tmp_path / "experiment"
    for seqs in (16, 32):
        folder = top / f"SERVE-max_num_seqs={seqs}-BENCH-max_concurrency=4"
        runs = [cell(seqs + number, number, max_num_seqs=seqs) for number in range(3)]
        for number, run in enumerate(runs):
            write(folder / f"run={number}.json", run)
        write(folder / "summary.json", runs)
        write(folder / "warmup.json", cell(99 + seqs, -1, max_num_seqs=seqs))
        write(folder / "run=3.failure.json", {"error": "out of memory"})
    write(top / "summary.csv", "run_number,mean_ttft_ms\n0,1.0\n")
    return top


def test_the_runs_of_a_cell_are_trials_and_nothing_counts_twice(tree):
    intake = import_all(tree)
    (run,) = intake.runs
    assert {(trial.scenario, trial.ordinal) for trial in run.trials} == {
        (f"tiny-c4-inf-n12-max_num_seqs={seqs}", ordinal) for seqs in (16, 32) for ordinal in (1, 2, 3)
    }
    assert len(run.trials) == 6
    assert intake.complete


def test_what_is_left_out_is_reported(tree):
    skipped = {
        report.path.rsplit("/", 1)[1]: report.reason
        for report in import_all(tree).files
        if report.outcome is FileOutcome.SKIPPED
    }
    assert set(skipped) == {"summary.json", "summary.csv", "warmup.json", "run=3.failure.json"}
    assert "read themselves" in skipped["summary.json"]


def test_a_summary_alone_is_read_as_the_list_of_its_runs(tree):
    (run,) = import_all(next(tree.rglob("summary.json"))).runs
    assert [trial.ordinal for trial in run.trials] == [1, 2, 3]
    assert {trial.source.format for trial in run.trials} == {"vllm-sweep"}


def test_a_glob_of_one_cell_counts_nothing_twice(tree):
    folder = next(tree.glob("SERVE*"))
    assert len(import_all(*folder.glob("*.json")).runs[0].trials) == 3


def test_the_warm_up_is_known_by_its_number_under_any_name(tmp_path):
    (report,) = import_all(write(tmp_path / "first.json", cell(1, -1))).files
    assert (report.outcome, report.reason) == (FileOutcome.SKIPPED, "the warm-up of a sweep (run_number −1)")


def test_swept_parameters_are_part_of_the_workload(tree):
    trial = import_all(tree).runs[0].trials[0]
    assert trial.workload["max_num_seqs"] == 16
