"""What is measured once per server start belongs to the run, whichever of its results says it."""

from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.importer import read_paths
from regress_gate.ingest.interface import FileOutcome
from tests.ingest.formats.long_tables import as_csv, rows


def import_table(folder, *tables):
    (folder / "table.csv").write_bytes(as_csv([row for table in tables for row in table]))
    return read_paths([folder / "table.csv"], IdentityFlags.parse())


def test_a_metric_of_the_run_is_no_metric_of_a_trial(tmp_path):
    start = ("startup_time", 51.25, "s")
    intake = import_table(tmp_path, rows(("ttft_mean", 0.05, "s"), start), rows(("ttft_mean", 0.052, "s"), trial=2))
    (run,) = intake.runs
    assert run.metrics == {"startup_time": 51.25}
    assert [trial.metrics for trial in run.trials] == [
        {"ttft_mean": 0.05, "failed_requests": 0.0},
        {"ttft_mean": 0.052, "failed_requests": 0.0},
    ]


def test_a_server_that_started_twice_is_not_one_run(tmp_path):
    intake = import_table(
        tmp_path,
        rows(("ttft_mean", 0.05, "s"), ("startup_time", 51, "s")),
        rows(("ttft_mean", 0.052, "s"), ("startup_time", 60, "s"), trial=2),
    )
    first, second = intake.files
    assert (first.outcome, second.outcome) == (FileOutcome.STORED, FileOutcome.REFUSED)
    assert "startup_time is 60 here and 51 in other results of run a" in second.reason
    assert len(intake.runs[0].trials) == 1
