"""The hooks with the real pre-commit: it installs the tool from this repository and runs it while a commit is made."""

import os
import re
import subprocess

import pytest
import yaml

from tests.factories.git_checkout import Checkout
from tests.workflows.runner import ROOT, export_action, program

pytestmark = pytest.mark.workflows

PAGE = ROOT / "docs" / "ci-versions.md"

CONFIG = """\
repos:
  - repo: {repository}
    rev: {revision}
    hooks:
      - id: regress-gate-check
        args: [--accelerator, H200, --model, mistralai/Mixtral-8x7B-v0.1, --quantization, none]
      - id: regress-gate-issues-lint
        args: [known_issues]
"""


def test_the_page_shows_a_configuration_that_pre_commit_takes_and_can_move(tmp_path):
    (shown,) = re.findall(r"^```yaml\n(repos:\n.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / "config.yaml").write_text(shown)
    (repository,) = yaml.safe_load(shown)["repos"]
    # pre-commit installs a revision once, and never looks whether a moving tag such as v1 has moved.
    assert re.fullmatch(r"v\d+\.\d+\.\d+", repository["rev"])
    known = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for hook in repository["hooks"]} <= known
    command = [program("pre-commit"), "validate-config", tmp_path / "config.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_commit_is_stopped_by_the_version_that_it_moves_to(tmp_path):
    source = Checkout.new(tmp_path / "source")
    export_action(source.root)
    revision = source.commit()
    repo = Checkout.new(tmp_path / "team")
    config = CONFIG.format(repository=source.root, revision=revision)
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n", ".pre-commit-config.yaml": config})
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "REGRESS_GATE_"))}
    variables["PRE_COMMIT_HOME"] = str(tmp_path / "home")

    def pre_commit(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pre-commit", *arguments], cwd=repo.root, env=variables, capture_output=True, text=True, check=False
        )

    def stage(path: str, content: str) -> subprocess.CompletedProcess[str]:
        repo.write(path, content)
        repo.git("add", "--all")
        done = pre_commit("run", "--color", "never")
        repo.git("commit", "--quiet", "--message", "change")
        return done

    installed = pre_commit("install-hooks")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    unrelated = stage("app.py", "x = 1\n")
    assert unrelated.returncode == 0, unrelated.stdout
    stopped = stage("Dockerfile", "FROM vllm/vllm-openai:v0.20.0\n")
    assert stopped.returncode == 1
    assert "Dockerfile:1 moved from 0.19.1 to 0.20.0" in stopped.stdout
    assert "VLLM-41306" in stopped.stdout
    linted = stage("known_issues/VLLM-1.yaml", "id: VLLM-1\n")
    assert "records of known vLLM issues" in linted.stdout
    assert linted.returncode == 1
