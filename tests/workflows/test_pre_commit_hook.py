"""The hooks with the real pre-commit: it installs the tool from this repository and runs it while a commit is made."""

import os
import subprocess

import pytest

from tests.factories.git_checkout import Checkout
from tests.workflows.runner import export_action

pytestmark = pytest.mark.workflows

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
