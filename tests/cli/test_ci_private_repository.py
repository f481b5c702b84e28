"""`ci versions` in the shallow checkout of a private repository: the commit before the change is fetched with a login.

The login is in the configuration of git, as actions/checkout leaves it, or in the environment, as the action gives it.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Gate
from tests.cli.test_ci_versions import NEW, OLD
from tests.factories.git_checkout import Checkout
from tests.factories.scripts import load_script
from tests.fake_github.git_http import GitServer, serving_git

TOKEN = "ghs_a0b1c2d3e4f5"


class PrivateCheckout:
    """What actions/checkout makes of a pull request of a private repository: one commit, and no login yet."""

    def __init__(self, directory: Path, server: GitServer, origin: Checkout):
        self.server, self.directory = server, directory
        base = origin.commit({"requirements.txt": f"vllm=={OLD}\n"})
        origin.git("checkout", "--quiet", "-b", "bump")
        head = origin.commit({"requirements.txt": f"vllm=={NEW}\n"})
        origin.git("checkout", "--quiet", "--detach", base)
        origin.git("merge", "--quiet", "--no-ff", "--message", "merge", "bump")
        merge = origin.git("rev-parse", "HEAD")
        self.clone = Checkout.new(directory / "clone")
        self.clone.git("remote", "add", "origin", f"{server.url}/origin")
        login = f"http.{server.url}/.extraheader={server.header}"
        self.clone.git("-c", login, "fetch", "--quiet", "--depth=1", "origin", merge)
        self.clone.git("checkout", "--quiet", "--detach", merge)
        server.statuses.clear()
        self.event = directory / "event.json"
        self.event.write_text(json.dumps({"pull_request": {"base": {"sha": base}, "head": {"sha": head}}}))

    def configure(self, file: str) -> Path:
        """Write the login where actions/checkout does: `.git/config` up to v5, a file in RUNNER_TEMP that it includes
        since v6."""
        config = self.clone.root / ".git" / "config"
        if file != "config":
            self.clone.git("config", f"includeIf.gitdir:{self.clone.root}/.git.path", str(self.directory / file))
            config = self.directory / file
        self.clone.git("config", "--file", str(config), f"http.{self.server.url}/.extraheader", self.server.header)
        return config


@pytest.fixture
def private(gate: Gate, repo: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[PrivateCheckout]:  # noqa: ARG001 - its environment
    origin = Checkout.new(tmp_path / "served" / "origin")
    with serving_git(GitServer(tmp_path / "served", TOKEN)) as server:
        checkout = PrivateCheckout(tmp_path, server, origin)
        monkeypatch.chdir(checkout.clone.root)
        monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
        monkeypatch.setenv("GITHUB_EVENT_PATH", str(checkout.event))
        yield checkout


def assert_tells_no_token(private: PrivateCheckout, said: str, *, except_in: Path | None = None) -> None:
    secrets = (TOKEN, private.server.header.split()[-1])
    texts = {file: file.read_bytes() for file in private.directory.rglob("*") if file.is_file() and file != except_in}
    assert [secret for secret in secrets if secret in said] == []
    assert [file for file, content in texts.items() if any(one.encode() in content for one in secrets)] == []


@pytest.mark.parametrize("file", ["config", "git-credentials.config"])
def test_the_login_that_the_checkout_kept_is_used_and_told_to_nobody(
    gate: Gate, private: PrivateCheckout, file: str
) -> None:
    config = private.configure(file)
    done = gate("ci", "versions", "--format", "json")
    assert (done.code, done.json["baseline"], done.json["candidate"]) == (0, OLD, NEW), done.err
    assert set(private.server.statuses) == {200}
    assert_tells_no_token(private, done.out + done.err, except_in=config)


@pytest.mark.parametrize("kept", ["config", "git-credentials.config", None])
def test_the_login_of_the_action_works_beside_one_that_the_checkout_kept(
    gate: Gate, private: PrivateCheckout, monkeypatch: pytest.MonkeyPatch, kept: str | None
) -> None:
    config = private.configure(kept) if kept else None
    for name, value in load_script("ci/gate.py").git_credential(private.server.url, TOKEN).items():
        monkeypatch.setenv(name, value)
    done = gate("ci", "versions", "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert set(private.server.statuses) == {200}  # two logins at once are answered with 400
    assert_tells_no_token(private, done.out, except_in=config)


def test_without_a_login_one_line_says_that_there_is_none(gate: Gate, private: PrivateCheckout) -> None:
    done = gate("ci", "versions")
    assert (done.code, done.out) == (2, "")
    assert "to compare with is not in this checkout and was not fetched (the server wants a login" in done.error
    assert "fetch-depth: 0" in done.error
    assert set(private.server.statuses) == {401}


def test_a_login_that_is_refused_is_not_told_either(
    gate: Gate, private: PrivateCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    private.server.token = "ghs_another"
    private.clone.git("remote", "set-url", "origin", f"http://x-access-token:{TOKEN}@{private.server.url[7:]}/origin")
    config = private.clone.root / ".git" / "config"
    monkeypatch.setenv("GIT_TRACE_CURL", "1")
    done = gate("ci", "versions")
    assert done.code == 2
    assert "the server wants a login" in done.error
    assert_tells_no_token(private, done.err, except_in=config)
