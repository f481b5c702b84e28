"""The workflow for a machine with an accelerator: nothing is measured for a fork, and every check run is concluded."""

from collections.abc import Iterator

import psutil
import pytest

from tests.workflows.conftest import CHANGES, Team

pytestmark = pytest.mark.workflows

SUITE = """\
name: serving
version: 1
description: One small scenario.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: [tpot_median, failed_requests]}
scenarios:
  - name: c4
    server: {model: fake, engine_args: {enforce_eager: true}}
    workload: {input_len: 16, output_len: 6, concurrency: 4, num_requests: 6, warmup_requests: 2}
"""


@pytest.fixture
def measuring(team: Team) -> Iterator[Team]:
    """The team with a suite, and a store and locks of its own on the machine. What a killed runner leaves is ended."""
    team.variables["REGRESS_GATE_STORE"] = str(team.directory / "store.db")
    team.variables["REGRESS_GATE_LOCKS"] = str(team.directory)
    yield team
    for process in psutil.process_iter():
        try:
            if process.environ().get("REGRESS_GATE_LOCKS") == str(team.directory):
                process.kill()
        except psutil.Error:
            continue


def open_pull_request(team: Team, launch_line: str, who: str = "same") -> None:
    before, after = CHANGES["pass"]
    settings = before["regress-gate.toml"] + f"[provision]\nway = 'command'\ncommand = '{launch_line}'\n"
    files = {"regress-gate.toml": settings, "serving.yaml": SUITE}
    team.open_pull_request(before | files, after | files, who=who)


def test_a_machine_that_cannot_measure_is_no_verdict(measuring: Team) -> None:
    open_pull_request(measuring, "no-such-program {version} {port}")
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert run.failed == ["OWNER/regress-gate"], run.text
    assert measuring.conclusions == {
        "regress-gate: known-issues": "success",
        "regress-gate: measured": "action_required",
    }
    (comment,) = measuring.comments
    assert "no-such-program" in comment["body"]


def test_a_cancelled_measurement_is_concluded(measuring: Team) -> None:
    open_pull_request(measuring, 'sh -c "sleep 600" {version} {port}')
    run = measuring.run("measure-on-gpu.yml", write=True, cancel_after="$ regress-gate compare 0.19.0 0.19.1 --measure")
    assert measuring.conclusions == {
        "regress-gate: known-issues": "success",
        "regress-gate: measured": "action_required",
    }, run.text
    assert run.code != 0


def test_a_fork_reaches_neither_job(measuring: Team) -> None:
    open_pull_request(measuring, "touch /tmp/reached", who="fork")
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert (run.code, run.steps, measuring.state.requests) == (0, {}, [])


def test_a_move_that_is_known_to_be_bad_costs_no_measurement(measuring: Team) -> None:
    measuring.open_pull_request(*CHANGES["fail"])
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert {ids[0] for ids in run.steps} == {"known-issues"}
    assert measuring.conclusions == {"regress-gate: known-issues": "failure"}
