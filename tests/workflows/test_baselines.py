"""The four ways to keep baselines between runs, by the workflows of their pages: what one run leaves, another compares.

The measurements are the real ones of `baselines/`. Each workflow has the rights that it asks for, and no more.
"""

import re
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.workflows.conftest import CPU_NAMES, GPU_NAMES, NAME, PAGES, Team, deployment
from tests.workflows.runner import ROOT, Run, program

pytestmark = pytest.mark.workflows

CPU = {"accelerator": "cpu", "model": "meta-llama/Llama-3.1-8B-Instruct"}
FILES = {version: ROOT / "baselines" / f"{version}+cpu__cpu-2core__cpu-tiny@1.json" for version in ("0.19.0", "0.19.1")}
MEASURES = """\
name: measured
on: pull_request
permissions: {}
jobs:
  measure:
    runs-on: ubuntu-24.04
    timeout-minutes: 15
    permissions:
      contents: read
    outputs:
      decision: ${{ steps.gate.outputs.decision }}
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
      - id: gate
        run: echo decision=fail >>"$GITHUB_OUTPUT"
      - uses: actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1
        with:
          name: baselines
          path: baselines
"""
"""Leaves what a measurement on a machine leaves, in a moment."""


def keeping_job() -> str:
    """The job that docs/baselines-on-a-branch.md adds to a measurement."""
    found = re.search(r"^```yaml\n(  keep:\n.*?)^```", PAGES["baselines-on-a-branch.yml"].read_text(), re.M | re.S)
    assert found
    return found[1]


def permissions(text: str, job: str) -> Mapping[str, str]:
    asked: Mapping[str, str] = yaml.safe_load(text)["jobs"][job]["permissions"]
    return asked


@pytest.fixture
def comparing(team: Team) -> Team:
    """The team with the pages' workflows, for the measurements that there are; its pull request moves vLLM."""
    team.edits |= {name: (GPU_NAMES, CPU_NAMES) for name in PAGES if name != "shown.yml"}
    return team


def open_pull_request(team: Team, *, with_files: bool) -> None:
    measured = {f"baselines/{file.name}": file.read_text() for file in FILES.values()} if with_files else {}
    team.open_pull_request(deployment("0.19.0", **CPU) | measured, deployment("0.19.1", **CPU))


def compare(team: Team, name: str) -> Run:
    return team.run(name, permissions=permissions(team.workflows()[name], "gate"))


def assert_compared(team: Team, run: Run) -> None:
    assert run.failed == [], run.text
    assert "38 gated series" in run.summary
    assert team.conclusions == {"regress-gate: upgrade": "success"}
    assert list(team.runner.directory.glob("data/**/*.db")) == []  # nothing stays on the machine


def test_files_in_the_repository(comparing: Team) -> None:
    open_pull_request(comparing, with_files=True)
    assert_compared(comparing, compare(comparing, "baselines-in-files.yml"))


def test_a_database_by_a_secret_which_a_fork_is_not_given(comparing: Team) -> None:
    store = comparing.directory / "team.db"
    command = [program("regress-gate"), "baseline", "import", "--store", store, *FILES.values()]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    comparing.secrets["REGRESS_GATE_STORE"] = f"sqlite:///{store}"
    open_pull_request(comparing, with_files=False)
    assert_compared(comparing, compare(comparing, "postgresql.yml"))
    del comparing.secrets["REGRESS_GATE_STORE"]
    run = compare(comparing, "postgresql.yml")
    assert run.failed == ["OWNER/regress-gate"]
    assert "input store is empty: this run is not given the secret" in run.text


def test_a_branch_that_one_job_writes_and_that_stops_a_comparison_when_it_is_damaged(comparing: Team) -> None:
    open_pull_request(comparing, with_files=True)
    workflow = comparing.clone / ".github" / "workflows" / "measured.yml"
    workflow.write_text(MEASURES + keeping_job())
    run = comparing.run("measured.yml", permissions=permissions(workflow.read_text(), "keep"))
    assert run.code == 0, run.text
    assert comparing.state.files(NAME, "regress-gate-data")
    open_pull_request(comparing, with_files=False)
    assert_compared(comparing, compare(comparing, "baselines-on-a-branch.yml"))
    for blob in comparing.state.repositories[NAME]["objects"].values():
        if "content" in blob:
            blob["content"] = blob["content"][:40]
    run = compare(comparing, "baselines-on-a-branch.yml")
    assert [name.partition(" --store")[0] for name in run.failed] == [
        "regress-gate baseline import --from-branch regress-gate-data"
    ]


def test_an_artifact_of_the_run_that_a_person_has_named(comparing: Team) -> None:
    open_pull_request(comparing, with_files=True)
    workflow = comparing.clone / ".github" / "workflows" / "measured.yml"
    workflow.write_text(MEASURES)
    assert comparing.run("measured.yml").code == 0
    open_pull_request(comparing, with_files=False)
    comparing.settings["BASELINES_RUN"] = "1001"
    assert_compared(comparing, compare(comparing, "baselines-in-artifacts.yml"))
    comparing.settings["BASELINES_RUN"] = "77"
    run = compare(comparing, "baselines-in-artifacts.yml")
    assert run.failed == ["actions/download-artifact"], run.text


def test_the_linters_have_nothing_to_say_of_the_workflows_on_pages(tmp_path: Any) -> None:
    files = []
    for name, page in PAGES.items():
        for number, text in enumerate(re.findall(r"^```yaml\n(name: .*?)^```", page.read_text(), re.M | re.S)):
            files.append(tmp_path / f"{number}-{name}")
            files[-1].write_text(text)
    files.append(tmp_path / "keep.yml")
    files[-1].write_text(MEASURES + keeping_job())
    for command in (["actionlint"], ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"]):
        line = [program(command[0]), *command[1:], *map(str, files)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
