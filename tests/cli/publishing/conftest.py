"""Runs of a workflow, as GitHub makes them: variables, an event file, a token, and the fake GitHub behind it."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regress_gate import github as client_module
from regress_gate.model.result import Decision, Result
from regress_gate.report.views.result_view import ResultView
from tests.cli.conftest import Gate
from tests.cli.conftest import Outcome as Ended
from tests.factories.results import failing, inconclusive_one_run_a_side, passing
from tests.fake_github.server import GitHub, serving
from tests.fake_github.state import READ_ONLY, WRITE, State

REPO = "team/serving"
FORK = "stranger/serving"
SHA = "a" * 40
PULL = 7
OTHER_PULL = 8
"""Of somebody else, to which nothing may be written."""
SOURCE_RUN = 555
PINS = {
    "schema_version": "1",
    "baseline": "0.19.0",
    "candidate": "0.19.1",
    "moved": [{"from": "0.19.0", "to": "0.19.1", "file": "deploy/vllm.yaml", "line": 12, "kind": "image", "text": ""}],
    "pins": [],
    "why": "",
}
UNMOVED = {**PINS, "baseline": None, "candidate": None, "moved": [], "why": "no pin of a vLLM version moved"}
RESULTS = {"pass": passing, "fail": failing, "inconclusive": inconclusive_one_run_a_side}


def as_json(result: Result) -> bytes:
    return json.dumps(ResultView(result).data()).encode()


def result_of(decision: str) -> bytes:
    result = RESULTS[decision]()
    assert result.decision is Decision(decision)
    return as_json(result)


@dataclass(frozen=True)
class Published:
    """What one call left behind, beside what GitHub holds."""

    ended: Ended
    summary: str
    outputs: dict[str, str]

    @property
    def code(self) -> int:
        return self.ended.code


class Workflow:
    def __init__(self, gate: Gate, github: GitHub, monkeypatch: pytest.MonkeyPatch):
        self.gate, self.github, self.state = gate, github, github.state
        self.environment = monkeypatch
        self.counter = itertools.count()
        for name, value in {
            "GITHUB_REPOSITORY": REPO,
            "GITHUB_API_URL": github.url,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_RUN_ID": "1234",
            "GITHUB_ACTOR": "somebody",
            "NO_PROXY": "127.0.0.1,localhost",
        }.items():
            monkeypatch.setenv(name, value)

    def set(self, event: str, content: Any, *, token: str = "writer", sha: str = SHA) -> None:
        path = self.gate.directory / f"event-{next(self.counter)}.json"
        path.write_text(json.dumps(content))
        for name, value in {
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(path),
            "GITHUB_SHA": sha,
            "GITHUB_TOKEN": token,
        }.items():
            self.environment.setenv(name, value)

    def pull_request(self, origin: str = "same", *, number: int = PULL, sha: str = SHA) -> None:
        """The unprivileged run. `GITHUB_SHA` is that of a merge that GitHub made."""
        head = {"sha": sha, "ref": "bump", "repo": {"full_name": FORK if origin == "fork" else REPO}}
        sender = "dependabot[bot]" if origin == "dependabot" else "somebody"
        pull = {"number": number, "head": head, "base": {"repo": {"full_name": REPO}}}
        event = {"pull_request": pull, "sender": {"login": sender}}
        self.set("pull_request", event, token="writer" if origin == "same" else "reader", sha="f" * 40)

    def workflow_run(
        self, origin: str = "fork", files: dict[str, bytes] | None = None, *, sha: str = SHA, **fields: Any
    ) -> None:
        """The privileged run, with what the unprivileged one uploaded; None: nothing."""
        self.state.repositories[REPO]["artifacts"].clear()
        if files is not None:
            self.state.add_artifact(REPO, SOURCE_RUN, "regress-gate", files)
        run = {
            "id": SOURCE_RUN,
            "event": "pull_request",
            "conclusion": "success",
            "head_sha": sha,
            "head_branch": "bump",
            "head_repository": {"full_name": FORK if origin == "fork" else REPO},
            "pull_requests": [],
            **fields,
        }
        self.set("workflow_run", {"workflow_run": run}, sha="e" * 40)

    def __call__(self, *arguments: object) -> Published:
        number = next(self.counter)
        summary, output = (self.gate.directory / f"{name}-{number}" for name in ("summary", "output"))
        self.environment.setenv("GITHUB_STEP_SUMMARY", str(summary))
        self.environment.setenv("GITHUB_OUTPUT", str(output))
        ended = self.gate("ci", "publish", *arguments)
        return Published(ended, _text(summary), read_outputs(_text(output)))

    def file(self, name: str, content: bytes | dict[str, Any]) -> Path:
        path = self.gate.directory / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    @property
    def comments(self) -> list[dict[str, Any]]:
        return self.state.comments(REPO, PULL)

    @property
    def checks(self) -> list[dict[str, Any]]:
        return self.state.repositories[REPO]["check_runs"]

    @property
    def check(self) -> dict[str, Any]:
        """The one that GitHub shows."""
        return self.checks[-1]

    def written_elsewhere(self) -> list[str]:
        """Paths of writes that concern neither the pull request nor its commit."""
        own = {f"/repos/{REPO}/issues/{PULL}/comments", f"/repos/{REPO}/check-runs"}
        own |= {f"/repos/{REPO}/issues/comments/{one['id']}" for one in self.comments}
        own |= {f"/repos/{REPO}/check-runs/{one['id']}" for one in self.checks if one["head_sha"] == SHA}
        assert {one["head_sha"] for one in self.checks} <= {SHA}
        return [one["path"] for one in self.state.writes() if one["path"] not in own]


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def read_outputs(text: str) -> dict[str, str]:
    """As the runner reads the file: `name<<END`, lines, `END`."""
    outputs, lines = {}, iter(text.split("\n")[:-1])
    for line in lines:
        name, _, end = line.partition("<<")
        assert name
        assert end
        outputs[name] = "\n".join(itertools.takewhile(lambda one, end=end: one != end, lines))  # type: ignore[misc]
    return outputs


def a_state() -> State:
    state = State()
    state.add_repository(REPO)
    state.add_token("writer", REPO, WRITE)
    state.add_token("reader", REPO, READ_ONLY)
    return state


@pytest.fixture
def workflow(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workflow]:
    monkeypatch.setattr(client_module, "SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.setattr(client_module.GitHub, "pause", lambda client, seconds: None)  # noqa: ARG005
    state = a_state()
    with serving(GitHub(state=state)) as github:
        yield Workflow(gate, github, monkeypatch)


@pytest.fixture
def pull(workflow: Workflow) -> Workflow:
    """With a pull request of the repository itself, and one of somebody else."""
    workflow.state.add_pull(REPO, PULL, sha=SHA)
    workflow.state.add_pull(REPO, OTHER_PULL, sha="b" * 40, branch="other")
    return workflow
