"""The job of ci/gitlab.yml, line by line, with the variables that GitLab sets for a merge request."""

import json
from xml.etree import ElementTree

import pytest
import yaml

from tests.cli.conftest import ROOT

JOB = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())["vllm-upgrade-gate"]
COMPOSE = """\
services:
  chat:
    image: vllm/vllm-openai:v{version}
    command: --model mistralai/Mixtral-8x7B-v0.1
"""
SETTINGS = '[deployment]\naccelerator = "H200"\nquantization = "none"\n'


@pytest.mark.parametrize(
    ("version", "code", "decision"), [("0.19.0", 0, "pass"), ("0.20.0", 1, "fail"), ("0.33.0", 3, "inconclusive")]
)
def test_a_merge_request_is_answered_by_exit_code_and_test_report(gate, repo, monkeypatch, version, code, decision):
    before = repo.commit(
        {JOB["variables"]["DEPLOYMENT"]: COMPOSE.format(version="0.19.1"), "regress-gate.toml": SETTINGS}
    )
    repo.commit({JOB["variables"]["DEPLOYMENT"]: COMPOSE.format(version=version)})
    for name, value in {"GITLAB_CI": "true", "CI_MERGE_REQUEST_DIFF_BASE_SHA": before, **JOB["variables"]}.items():
        monkeypatch.setenv(name, str(value))
    done = gate.shell("set -e\n" + "\n".join(JOB["script"]))
    assert done.code == code, done.err
    assert (code in JOB["allow_failure"]["exit_codes"]) is (decision == "inconclusive")
    (report,) = (repo.root / name for name in [JOB["artifacts"]["reports"]["junit"]])
    assert ElementTree.parse(report).getroot().tag == "testsuites"
    moved, result = (json.loads((repo.root / name).read_text()) for name in JOB["artifacts"]["paths"])
    assert (moved["candidate"], result["decision"]) == (version, decision)


def test_a_clone_of_another_user_is_read_because_the_job_says_so(gate, repo, monkeypatch):
    """GitLab's helper clones as root; the image runs as a user of its own."""
    before = repo.commit({JOB["variables"]["DEPLOYMENT"]: COMPOSE.format(version="0.19.1")})
    repo.commit({"README.md": "# Described\n"})
    variables = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": before, "CI_PROJECT_DIR": str(repo.root), **JOB["variables"]}
    for name, value in {"GITLAB_CI": "true", "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", **variables}.items():
        monkeypatch.setenv(name, str(value))
    refused = gate.shell("set -e\n" + "\n".join(JOB["script"]))
    assert refused.code == 2
    assert "belongs to another user, so git does not read it" in refused.err
    done = gate.shell("set -e\n" + "\n".join([*JOB["before_script"], *JOB["script"]]))
    assert done.code == 0, done.err


def test_a_merge_request_that_moves_no_pin_passes(gate, repo, monkeypatch):
    before = repo.commit({JOB["variables"]["DEPLOYMENT"]: COMPOSE.format(version="0.19.1")})
    repo.commit({"README.md": "# Described\n"})
    for name, value in {"GITLAB_CI": "true", "CI_MERGE_REQUEST_DIFF_BASE_SHA": before, **JOB["variables"]}.items():
        monkeypatch.setenv(name, str(value))
    assert gate.shell("set -e\n" + "\n".join(JOB["script"])).code == 0
