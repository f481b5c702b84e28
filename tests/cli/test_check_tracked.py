"""`check` reads what the last `issues sync` saw, where that is newer than the record."""

from datetime import UTC, datetime

import pytest
import yaml

from tests.fake_github.server import BOT, GitHub, closed, serving

MOVE = ("check", "v0.19.1", "--from", "v0.19.0")
DEPLOYMENT = ("--accelerator", "H200", "--model", "deepseek-ai/DeepSeek-R1", "--engine-arg", "enable_expert_parallel")


@pytest.fixture
def github(monkeypatch):
    with serving(GitHub()) as server:
        monkeypatch.setenv("REGRESS_GATE_GITHUB_API", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("GITHUB_TOKEN", raising=False)
        yield server


def sync(gate, github, *events, **fields):
    """A sync of the one shipped record whose thread is 28882."""
    one = gate.directory / "one"
    one.mkdir(exist_ok=True)
    data = gate("issues", "show", "28882", "--format", "json").json
    (one / "VLLM-28882.yaml").write_text(yaml.safe_dump(data))
    github.issue(28882, *events, **fields)
    assert gate("issues", "sync", "--directory", "one").code == 0


def status(gate):
    done = gate(*MOVE, *DEPLOYMENT, "--format", "json")
    (found,) = [issue for issue in done.json["known_issues"] if issue["id"] == "VLLM-28882"]
    return found["status"], found["status_why"]


def test_a_thread_that_was_opened_again_is_open(gate, github):
    assert status(gate)[0] == "closed_unfixed"
    sync(gate, github, state_reason="reopened")
    today = datetime.now(UTC).date()
    assert status(gate) == ("open", f"reopened, no fix known (tracker seen {today})")


def test_a_thread_that_the_inactivity_bot_closed_is_not_fixed(gate, github):
    bot = closed("2026-04-21T00:00:00Z", BOT)
    sync(gate, github, bot, state="closed", state_reason="completed", labels=[{"name": "stale"}])
    found, why = status(gate)
    assert found == "closed_unfixed"
    assert why.startswith("closed by the inactivity bot, no fix known")


def test_another_servers_word_is_not_mixed_in(gate, github, monkeypatch):
    sync(gate, github, state_reason="reopened")
    monkeypatch.delenv("REGRESS_GATE_GITHUB_API")
    assert status(gate)[0] == "closed_unfixed"
