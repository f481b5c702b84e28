"""The workflow for a machine with an accelerator: nothing is measured for a fork, and every check run is concluded.

What is measured there serves as vLLM does, without a model.
"""

import json

import pytest

from tests.workflows.conftest import CHANGES, SERVES, STEADY, SUITE, TEAM_STORE, Team, deployment
from tests.workflows.runner import ROOT

pytestmark = pytest.mark.workflows

MOVE = "0.19.0", "0.19.1"
MEASURES = "$ regress-gate compare 0.19.0 0.19.1 --measure"
UNANSWERED = {"regress-gate: known-issues": "success", "regress-gate: measured": "action_required"}


def open_pull_request(team: Team, launch_line: str, who: str = "same") -> None:
    # On CPUs, as the machine that measures here: what it shows of a deployment on GPUs is nothing.
    before, after = (
        deployment(version, accelerator="cpu", model="meta-llama/Llama-3.1-8B-Instruct") for version in MOVE
    )
    settings = before["regress-gate.toml"] + f"[provision]\nway = 'command'\ncommand = '{launch_line}'\n"
    files = {"regress-gate.toml": settings, "serving.yaml": SUITE}
    team.open_pull_request(before | files, after | files, who=who)


def behave(team: Team, candidate: list[str]) -> None:
    """How the candidate serves; the base serves steadily."""
    behaviour = team.directory / "behaviour.json"
    behaviour.write_text(json.dumps({"0.19.0": STEADY, "0.19.1": candidate}))
    team.variables["FAKE_VLLM_BEHAVIOUR"] = str(behaviour)


def test_a_finished_measurement_is_answered_and_leaves_a_baseline_to_commit(measuring: Team) -> None:
    behave(measuring, STEADY)
    open_pull_request(measuring, SERVES)
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert run.code == 0, run.text
    assert measuring.conclusions == {"regress-gate: known-issues": "success", "regress-gate: measured": "success"}
    assert measuring.comments == []
    result = json.loads(run.artifact("regress-gate-measured")["gate.json"])
    assert result["decision"] == "pass"
    assert [one["metric"] for one in result["series"] if one["gated"]] == ["tpot_median"]
    baselines = [json.loads(text) for text in run.artifact("baselines").values()]
    assert sorted(one["version"]["number"] for one in baselines) == ["0.19.0", "0.19.1"]
    assert {len(one["runs"]) for one in baselines} == {result["candidate"]["runs"]}
    assert result["candidate"]["runs"] >= 2


def test_a_candidate_that_does_not_serve_fails(measuring: Team) -> None:
    behave(measuring, ["--die-at-start=import"])
    open_pull_request(measuring, SERVES)
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert run.failed == ["OWNER/regress-gate"], run.text
    assert measuring.conclusions == {"regress-gate: known-issues": "success", "regress-gate: measured": "failure"}
    (comment,) = measuring.comments
    assert "0.19.1 does not serve" in comment["body"]


def test_a_run_that_is_not_given_the_secret_of_the_store_measures_nothing(measuring: Team) -> None:
    behave(measuring, STEADY)
    open_pull_request(measuring, SERVES, who="dependabot")
    del measuring.secrets["REGRESS_GATE_STORE"]
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert run.failed == ["OWNER/regress-gate"], run.text
    assert "REGRESS_GATE_STORE is empty: this run is not given the secret" in run.text
    assert "--measure" not in run.log
    assert list(measuring.runner.directory.glob("data/**/*.db")) == []


def test_a_machine_that_cannot_measure_is_no_verdict(measuring: Team) -> None:
    open_pull_request(measuring, "no-such-program {version} {port}")
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert run.failed == ["OWNER/regress-gate"], run.text
    assert measuring.conclusions == UNANSWERED
    (comment,) = measuring.comments
    assert "no-such-program" in comment["body"]


def test_a_cancelled_measurement_is_concluded(measuring: Team) -> None:
    open_pull_request(measuring, 'sh -c "sleep 600" {version} {port}')
    run = measuring.run("measure-on-gpu.yml", write=True, cancel_after=MEASURES)
    assert measuring.conclusions == UNANSWERED, run.text
    assert run.code != 0


def test_a_killed_measurement_is_concluded(measuring: Team) -> None:
    open_pull_request(measuring, 'sh -c "sleep 600" {version} {port}')
    run = measuring.run("measure-on-gpu.yml", write=True, kill_after=MEASURES)
    assert measuring.conclusions == UNANSWERED, run.text
    (comment,) = measuring.comments
    assert "the job was cancelled or killed; run it again to go on" in comment["body"]
    assert run.failed == ["OWNER/regress-gate"]
    assert "conclude" not in {ids[0] for ids in run.steps}  # that would be a second answer


def test_a_job_whose_machine_is_lost_is_concluded_by_another_one(measuring: Team) -> None:
    text = (ROOT / "ci" / "measure-on-gpu.yml").read_text()
    head, _, rest = text.partition(TEAM_STORE)
    lost = f"{head}    steps: [{{run: exit 1}}]\n  conclude:{rest.partition('  conclude:')[2]}"
    measuring.edits["measure-on-gpu.yml"] = (text, lost)
    open_pull_request(measuring, SERVES)
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert measuring.conclusions == UNANSWERED, run.text
    (comment,) = measuring.comments
    assert "the job on the machine ended without an answer (failure)" in comment["body"]
    assert "--measure" not in run.log


def test_a_fork_reaches_neither_job(measuring: Team) -> None:
    open_pull_request(measuring, "touch /tmp/reached", who="fork")
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert (run.code, run.steps, measuring.state.requests) == (0, {}, [])


def test_a_move_that_is_known_to_be_bad_costs_no_measurement(measuring: Team) -> None:
    measuring.open_pull_request(*CHANGES["fail"])
    run = measuring.run("measure-on-gpu.yml", write=True)
    assert {ids[0] for ids in run.steps} == {"known-issues"}
    assert measuring.conclusions == {"regress-gate: known-issues": "failure"}
