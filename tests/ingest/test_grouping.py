"""Which results make a run. Repeats from one server are not independent, so runs are never split on a guess."""

import shutil

import pytest

from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.interface import FileOutcome
from tests.factories.serve_results import detailed, import_all, made_up, plain, write

PER_FILE = IdentityFlags.parse(version="0.19.1", testbed="box", run_per_file=True)


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / f"r{seed}.json", plain(made_up(seed))) for seed in (1, 2, 10)]


def refusals(intake):
    return [report.reason for report in intake.files if report.outcome is FileOutcome.REFUSED]


def test_files_of_one_import_are_one_run_and_that_is_said(files):
    intake = import_all(*files)
    (run,) = intake.runs
    assert [trial.ordinal for trial in run.trials] == [1, 2, 3]
    assert "3 results of 0.19.1 taken as one server run" in intake.notes[0]


def test_the_order_is_natural_and_does_not_depend_on_the_arguments(files):
    (run,) = import_all(*reversed(files)).runs
    assert [trial.source.path.rsplit("/", 1)[1] for trial in run.trials] == ["r1.json", "r2.json", "r10.json"]


def test_an_automatic_label_depends_only_on_the_set_of_files(files):
    label = import_all(*files).runs[0].label
    assert import_all(*reversed(files)).runs[0].label == label
    assert import_all(*files[:2]).runs[0].label != label


def test_every_file_can_be_a_run_of_its_own(files):
    first, second = import_all(*files, flags=PER_FILE), import_all(files[1], flags=PER_FILE)
    assert len({run.label for run in first.runs}) == 3
    assert second.runs[0].label in {run.label for run in first.runs}
    assert first.notes == ()


def test_run_per_file_contradicts_a_stated_run(files):
    write(files[0].parent / "conditions.json", {"run": 1})
    assert all("contradicts --run-per-file" in reason for reason in refusals(import_all(*files, flags=PER_FILE)))


def test_folders_with_their_own_conditions_are_their_own_runs(tmp_path):
    for number in (1, 2):
        write(tmp_path / str(number) / "r.json", plain(made_up(number)))
        write(tmp_path / str(number) / "conditions.json", {"startup_s": 10.0 + number})
    assert sorted(run.metrics["startup_time"] for run in import_all(tmp_path).runs) == [11.0, 12.0]


def test_one_run_cannot_have_two_sets_of_conditions(tmp_path):
    for number in (1, 2):
        write(tmp_path / str(number) / "r.json", plain(made_up(number)))
        write(tmp_path / str(number) / "conditions.json", {"run": 1, "startup_s": 10.0 + number})
    (reason,) = refusals(import_all(tmp_path))
    assert "run 1 has two sets of conditions" in reason


@pytest.mark.parametrize(
    "other",
    [
        {"concurrency": 8},
        {"rate": 3.0},
        {"requests": 20},
        {"model": "org/other"},
        {"tokens": 16},
    ],
)
def test_one_scenario_cannot_be_two_workloads(tmp_path, other):
    write(tmp_path / "a.json", plain(made_up(1)))
    write(tmp_path / "b.json", plain(made_up(2, **other)))
    (reason,) = refusals(import_all(tmp_path, flags=IdentityFlags.parse(version="1.0", testbed="b", scenario="chat")))
    assert "scenario chat would be two workloads" in reason
    assert "a.json" in reason


def test_one_scenario_cannot_be_two_workloads_where_the_first_file_is_silent(tmp_path):
    silent = {key: value for key, value in plain(made_up(1)).items() if key != "burstiness"}
    write(tmp_path / "a.json", silent)
    write(tmp_path / "b.json", plain(made_up(2)))
    write(tmp_path / "c.json", {**plain(made_up(3)), "burstiness": 2.0})
    (reason,) = refusals(import_all(tmp_path, flags=IdentityFlags.parse(version="1.0", testbed="b", scenario="chat")))
    assert "burstiness is 2 here and 1 in " in reason
    assert "b.json" in reason
    assert reason.endswith("by --pattern with {scenario} or one import for each")


def test_one_scenario_cannot_hold_numbers_of_two_definitions(tmp_path):
    for number, client in enumerate(("0.14.0", "0.32.0"), 1):
        write(tmp_path / f"{number}.json", {**plain(made_up(number)), "client_version": client})
    (reason,) = refusals(import_all(tmp_path, flags=IdentityFlags.parse(version="1.0", testbed="b", scenario="chat")))
    assert "chat would hold numbers of two definitions, vllm-bench-0.20 here and vllm-bench-0.7 in" in reason
    assert "1.json; give each workload a scenario of its own" in reason


def test_a_trial_cannot_be_given_twice(tmp_path):
    for name, seed in (("x", 1), ("y", 2)):
        write(tmp_path / name / "r1.json", plain(made_up(seed)))
    intake = import_all(tmp_path, flags=IdentityFlags.parse(version="1.0", testbed="b", pattern="r{trial}.json"))
    (reason,) = refusals(intake)
    assert "trial 1 of tiny-c4-inf-n12 is also" in reason


def test_trials_without_a_number_take_the_free_ones(tmp_path):
    write(tmp_path / "a.json", plain(made_up(1)))
    write(tmp_path / "b.json", plain(made_up(2), trial="1"))
    (run,) = import_all(tmp_path).runs
    assert [trial.ordinal for trial in run.trials] == [2, 1]


def test_a_file_named_twice_is_read_once(files, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(files[0])
    assert len(import_all(files[0], files[0], link).runs[0].trials) == 1


def test_a_copy_of_a_file_is_skipped(files, tmp_path):
    shutil.copy(files[0], tmp_path / "s1.json")
    intake = import_all(*files, tmp_path / "s1.json")
    assert len(intake.runs[0].trials) == 3
    (copy,) = [report for report in intake.files if report.outcome is FileOutcome.SKIPPED]
    assert "the same bytes as" in copy.reason


def test_a_copy_under_another_version_is_an_error(tmp_path):
    for version in ("0.19.0", "0.19.1"):
        write(tmp_path / version / "r.json", detailed(made_up()))
    flags = IdentityFlags.parse(testbed="box", pattern="{version}/*.json")
    (reason,) = refusals(import_all(tmp_path, flags=flags))
    assert "its version is 0.19.1 here and 0.19.0 there: one is misplaced" in reason


def test_the_same_result_saved_in_two_ways_counts_once(tmp_path):
    made = plain(made_up())
    write(tmp_path / "a.json", made)
    write(tmp_path / "b.json", {**made, "label": "again"})
    assert len(import_all(tmp_path).runs[0].trials) == 1


def test_the_same_numbers_under_another_version_are_an_error(tmp_path):
    for version in ("0.19.0", "0.19.1"):
        write(tmp_path / version / "r.json", {**plain(made_up()), "label": version})
    flags = IdentityFlags.parse(testbed="box", pattern="{version}/*.json")
    (reason,) = refusals(import_all(tmp_path, flags=flags))
    assert "the same numbers as" in reason
