"""Killed after any request, and run again: one comment, one decision, nothing left open."""

import subprocess
import sys

import pytest

from tests.cli.publishing.conftest import PULL, Workflow, result_of

REQUESTS = 4
"""Of a run whose check is open: look for the check, conclude it, look for the comment, make it."""


@pytest.mark.parametrize("number", range(REQUESTS))
def test_a_killed_run_is_finished_by_the_next_one(pull: Workflow, number: int) -> None:
    pull.pull_request()
    pull("--started")
    result = pull.file("gate.json", result_of("fail"))
    before = len(pull.state.requests)
    command = [sys.executable, "-m", "regress_gate", "ci", "publish", "--result", str(result)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        pull.state.faults.append({"skip": number, "apply": True, "kill": process.pid})
        assert process.wait(60) == -9
    assert len(pull.state.requests) == before + number + 1
    done = pull("--result", result)
    assert done.code == 0, done.ended.err
    assert [one["issue"] for one in pull.comments] == [PULL]
    assert [one["conclusion"] for one in pull.checks] == ["failure"]


def test_that_many_requests_are_made(pull: Workflow) -> None:
    pull.pull_request()
    pull("--started")
    before = len(pull.state.requests)
    pull("--result", pull.file("gate.json", result_of("fail")))
    assert len(pull.state.requests) == before + REQUESTS
