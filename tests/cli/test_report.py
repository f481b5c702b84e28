"""`regress-gate report`: stored runs for other programs, and back."""

import json

import pytest

from regress_gate.errors import ExitCode

FORMS = ("llm-d", "long", "long-json")


@pytest.fixture
def stored(gate):
    assert gate.import_starts("0.19.1").code == ExitCode.PASS
    return gate


def baselines(gate, *options):
    found = gate("baseline", "list", "--format", "json", *options).json["baselines"]
    return [
        (held["version"], held["testbed"], held["runs"], held["trials"]) for held in found if held["testbed"] == "lab"
    ]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_printed_is_imported_from_standard_input_as_the_same_runs(stored, form):
    printed = stored("report", "v0.19.1", "--testbed", "lab", "--format", form)
    assert (printed.code, printed.err) == (ExitCode.PASS, "")
    elsewhere = ("--store", f"sqlite:///{stored.directory}/elsewhere.db")
    assert stored("import", "-", *elsewhere, stdin=printed.out).code == ExitCode.PASS
    assert baselines(stored, *elsewhere) == baselines(stored) != []
    assert stored("report", "v0.19.1", "--testbed", "lab", "--format", form, *elsewhere).out == printed.out


@pytest.mark.parametrize("form", FORMS)
def test_files_of_a_folder_are_imported_too(stored, form):
    written = stored("report", "0.19.1", "--testbed", "lab", "--format", form, "--to", "out")
    assert written.code == ExitCode.PASS
    assert sorted(written.out.splitlines()) == sorted(
        f"out/{path.name}" for path in (stored.directory / "out").iterdir()
    )
    elsewhere = ("--store", f"sqlite:///{stored.directory}/elsewhere.db")
    assert stored("import", "out", *elsewhere).code == ExitCode.PASS
    assert baselines(stored, *elsewhere) == baselines(stored)


def test_an_llm_d_report_is_one_trial(stored):
    stored("report", "0.19.1", "--testbed", "lab", "--to", "out")
    trials = [json.loads(path.read_text()) for path in sorted((stored.directory / "out").iterdir())]
    assert len(trials) == baselines(stored)[0][3]
    assert {report["version"] for report in trials} == {"0.2.1"}


def test_a_version_that_is_not_stored_is_said_so(stored):
    outcome = stored("report", "0.18.0")
    assert outcome.code == ExitCode.NO_DATA
    assert "no stored runs for 0.18.0" in outcome.error


def test_another_testbed_or_suite_is_another_thing(stored):
    assert stored("report", "0.19.1", "--testbed", "elsewhere").code == ExitCode.NO_DATA
    assert stored("report", "0.19.1", "--suite", "imported@1", "--testbed", "lab").code == ExitCode.PASS


def test_a_folder_that_cannot_be_made_is_an_error(stored):
    (stored.directory / "file").write_text("x")
    assert "cannot be made" in stored("report", "0.19.1", "--to", "file/below").error
