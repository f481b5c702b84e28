"""The hooks of .pre-commit-hooks.yaml, called as pre-commit calls them: in a real repository, during a commit."""

import re
import shlex
import sys

import pytest
import yaml

from tests.cli.conftest import ROOT
from tests.pins.forms import FORMS

HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}


@pytest.fixture(autouse=True)
def in_pre_commit(monkeypatch, repo):  # noqa: ARG001 - which takes the variables of a surrounding pre-commit away
    monkeypatch.setenv("PRE_COMMIT", "1")


def run_hook(gate, id_, *arguments):
    program, *rest = shlex.split(HOOKS[id_]["entry"])
    assert program == "regress-gate"
    return gate(*rest, *arguments)


def test_the_hooks_have_the_promised_names_and_install_from_the_checkout():
    assert set(HOOKS) == {"regress-gate-check", "regress-gate-issues-lint"}
    assert all(hook["language"] == "python" and hook["pass_filenames"] is False for hook in HOOKS.values())


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_check_is_called_for_every_file_that_may_pin_vllm(form):
    assert not re.search(HOOKS["regress-gate-check"]["exclude"], form.path)


@pytest.mark.parametrize("path", ["README.md", "docs/guide.rst", "notebook.ipynb", "logo.PNG"])
def test_the_check_is_not_called_for_documentation(path):
    assert re.search(HOOKS["regress-gate-check"]["exclude"], path)


def test_a_commit_that_moves_no_version_passes(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n"})
    repo.write("Dockerfile", "FROM vllm/vllm-openai:v0.19.1\nENV A=1\n")
    repo.git("add", "--all")
    done = run_hook(gate, "regress-gate-check")
    assert (done.code, done.err) == (0, "regress-gate: note: no vLLM version moved\n")


def test_the_check_exits_as_check_does(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n"})
    repo.write("Dockerfile", "FROM vllm/vllm-openai:v0.20.0\n")
    repo.git("add", "--all")
    facts = ("--accelerator", "H200", "--model", "mistralai/Mixtral-8x7B-v0.1", "--quantization", "none")
    done = run_hook(gate, "regress-gate-check", *facts)
    assert done.code == gate("check", "v0.20.0", "--from", "v0.19.1", *facts).code == 1
    assert "VLLM-41306" in done.out


def test_a_commit_is_compared_with_the_one_before_it_and_not_with_the_branch(gate, repo):
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.18.0\n"})
    repo.git("checkout", "--quiet", "-b", "bump")
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n"})
    repo.write("Dockerfile", "FROM vllm/vllm-openai:v0.19.1\nENV A=1\n")
    assert run_hook(gate, "regress-gate-check").err == "regress-gate: note: no vLLM version moved\n"


def test_a_range_of_commits_is_compared_as_a_whole(gate, repo, monkeypatch):
    first = repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.18.0\n"})
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.0\n"})
    last = repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.1\n"})
    repo.write("Dockerfile", "FROM vllm/vllm-openai:v0.32.0\n")
    monkeypatch.setenv("PRE_COMMIT_FROM_REF", first)
    monkeypatch.setenv("PRE_COMMIT_TO_REF", last)
    assert "Dockerfile:1 moved from 0.18.0 to 0.19.1" in run_hook(gate, "regress-gate-check").err


def test_in_a_git_hook_the_index_of_the_commit_counts(gate, repo):
    """`git commit FILE` makes a commit from an index of its own, which git names in the environment of the hook."""
    repo.commit({"Dockerfile": "FROM vllm/vllm-openai:v0.19.0\n"})
    hook = repo.write(
        ".git/hooks/pre-commit", f'#!/bin/sh\nexec "{sys.executable}" -m regress_gate ci check --report-only -q\n'
    )
    hook.chmod(0o755)
    repo.write("Dockerfile", "FROM vllm/vllm-openai:v0.19.1\n")
    repo.git("commit", "--quiet", "--message", "one file", "Dockerfile")
    assert gate("ci", "versions", "--base", "HEAD~1", "--head", "HEAD").out.startswith("vLLM 0.19.0 → 0.19.1\n")


def test_the_records_are_linted(gate, repo):
    repo.commit({"known_issues/VLLM-1.yaml": "id: VLLM-1\n"})
    assert run_hook(gate, "regress-gate-issues-lint", "known_issues").code == 2
    assert run_hook(gate, "regress-gate-issues-lint").code == 0
