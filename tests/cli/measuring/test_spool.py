"""Runs of a machine that does not reach the store: kept in files, and brought in later, as often as one likes."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from regress_gate.errors import ExitCode
from regress_gate.store.repository import open_store
from tests.cli.measuring.test_interrupted import read_until

pytestmark = pytest.mark.slow


@pytest.fixture
def spool(lab) -> Path:
    lab.simulate_load()
    return lab.gate.directory / "spool"


def spooled_files(spool: Path) -> list[Path]:
    return sorted(path for path in spool.rglob("*.json") if not path.name.startswith("."))


def measure(lab, spool: Path, *more: object):
    return lab("run", "0.19.1", "--spool", spool, *more)


def test_runs_of_a_spool_are_stored_once_however_often_they_are_brought(lab, spool):
    assert measure(lab, spool, "--runs", 2).code == 0
    assert lab.runs() == []
    assert len(spooled_files(spool)) == 2
    assert lab.gate("import", spool).code == 0
    brought = lab.runs()
    assert lab.gate("import", spool).code == 0
    assert measure(lab, spool, "--runs", 1).code == 0
    assert len(spooled_files(spool)) == 3
    report = lab.gate("import", spool, "--format", "json")
    assert len(json.loads(report.out)["stored"]["new_runs"]) == 1
    assert [run.key for run in lab.runs()][:2] == [run.key for run in brought]
    assert len(lab.runs()) == 3


def test_what_is_brought_is_what_was_measured_requests_and_answers_included(lab, spool):
    assert measure(lab, spool, "--runs", 1).code == 0
    lab.gate("import", spool)
    with open_store(f"sqlite:///{spool}/.store.db", create=False) as store:
        (measured,) = store.runs(with_samples=True)
    (brought,) = lab.runs()
    for field in ("ttft", "itl", "itl_start", "input_tokens", "output_tokens", "ok", "start"):
        mine, theirs = (getattr(run.trials[0].samples, field) for run in (brought, measured))
        assert np.array_equal(mine, theirs)
    assert (brought.key, brought.place, brought.conditions, brought.outputs) == (
        measured.key,
        measured.place,
        measured.conditions,
        measured.outputs,
    )


def test_a_comparison_of_brought_blocks_decides_as_on_the_machine_that_measured_them(lab, spool):
    words = ("compare", "0.19.0", "0.19.1", "--format", "json")
    there = lab(*words, "--spool", spool, "--measure", "--runs", 3, "--all-blocks")
    lab.gate("import", spool)
    here = lab.gate(*words, "--testbed", "lab", "--suite", lab.suite)
    assert (there.code, here.code) == (ExitCode.PASS, ExitCode.PASS)
    assert json.loads(here.out)["series"] == json.loads(there.out)["series"]


def test_a_start_that_failed_is_brought_too(lab, spool):
    lab.behave({"0.19.1": ["--die-at-start"]})
    assert measure(lab, spool, "--runs", 1).code == ExitCode.COULD_NOT_MEASURE
    brought = lab.gate("import", spool)
    assert (brought.code, "no result (its server failed" in brought.out) == (0, True)
    assert lab.gate("import", spool).code == 0
    assert [run.failure is not None for run in lab.runs()] == [True]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_measured_before_an_interruption_is_not_lost(lab, spool, number):
    with lab.start("run", "0.19.1", "--runs", 3, "--spool", spool) as process:
        read_until(process, "run:1 ")
        read_until(process, "measuring")
        os.kill(process.pid, number)
        process.communicate(timeout=60)
    assert measure(lab, spool, "--resume").code == 0
    lab.gate("import", spool)
    assert [run.place.block for run in lab.runs()] == [1, 2, 3]


def test_a_damaged_file_is_refused_and_costs_no_other(lab, spool):
    assert measure(lab, spool, "--runs", 2).code == 0
    _, damaged = spooled_files(spool)
    damaged.write_text(damaged.read_text()[:500])
    report = lab.gate("import", spool)
    assert report.code == ExitCode.USAGE
    assert damaged.name in report.err
    assert len(lab.runs()) == 1


def test_what_contradicts_a_file_is_refused(lab, spool):
    assert measure(lab, spool, "--runs", 1).code == 0
    report = lab.gate("import", spool, "--version", "0.19.0")
    assert (report.code, "--version says 0.19.0" in report.err) == (ExitCode.USAGE, True)
    other = lab.gate("import", spool, "--testbed", "other")
    assert (other.code, "measured on lab, whatever --testbed says" in other.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("run", "0.19.1", "--store", "here.db"), "leave --store out"),
        (("compare", "0.19.0", "0.19.1"), "give --measure too"),
    ],
)
def test_a_spool_without_a_measurement_of_its_own_is_refused(lab, spool, words, error):
    refused = lab(*words, "--spool", spool)
    assert (refused.code, error in refused.err) == (ExitCode.USAGE, True)
    assert not spool.exists()
