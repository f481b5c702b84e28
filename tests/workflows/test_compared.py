"""What a comparison of measurements answers that lie in the repository, by the workflow of its page; without a GPU.

The measurements are the real ones of `baselines/`.
"""

import pytest

from tests.workflows.conftest import CPU_NAMES, GPU_NAMES, Team, deployment
from tests.workflows.runner import ROOT

pytestmark = pytest.mark.workflows

CPU = {"accelerator": "cpu", "model": "meta-llama/Llama-3.1-8B-Instruct"}
WORKFLOW = "baselines-in-files.yml"


@pytest.fixture
def comparing(team: Team) -> Team:
    """The team with the page's workflow, for the measurements that there are."""
    team.edits[WORKFLOW] = (GPU_NAMES, CPU_NAMES)
    return team


def move(team: Team, base: str, candidate: str) -> None:
    measured = {f"baselines/{file.name}": file.read_text() for file in (ROOT / "baselines").glob("*.json")}
    assert measured
    team.open_pull_request(deployment(base, **CPU) | measured, deployment(candidate, **CPU))


@pytest.mark.parametrize(
    ("base", "candidate", "code", "conclusion", "said"),
    [
        ("0.19.0", "0.19.1", 0, "success", "38 gated series"),
        ("0.19.1", "0.24.0", 1, "failure", "peak_memory"),
        ("0.19.1", "0.32.0", 3, "neutral", "undecided"),
        ("0.19.1", "0.20.0", 5, "action_required", "no stored runs for 0.20.0"),
    ],
)
def test_stored_measurements_decide(
    comparing: Team, base: str, candidate: str, code: int, conclusion: str, said: str
) -> None:
    move(comparing, base, candidate)
    run = comparing.run(WORKFLOW, write=True)
    assert run.failed == (["OWNER/regress-gate"] if code else []), run.text
    assert not code or f"exit status {code}" in run.text
    assert comparing.conclusions == {"regress-gate: upgrade": conclusion}
    assert said in run.summary
    assert len(comparing.comments) == (code != 0)
    assert list(comparing.runner.directory.glob("data/**/*.db")) == []  # what a pull request brings along stays nowhere
