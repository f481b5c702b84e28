"""What the linters say of the workflows, of those to copy as of our own, and what no linter knows."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.workflows.conftest import PAGES, read_page
from tests.workflows.runner import ROOT, program, uses

pytestmark = pytest.mark.workflows

OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TO_COPY = sorted(file for file in (ROOT / "ci").glob("*.yml") if file.name != "gitlab.yml")
WORKFLOWS = [*OWN, *TO_COPY]
ACTION = ROOT / "action.yml"
JUSTIFIED = {
    # The half that may write has to be started by the end of the other one, and runs nothing of it.
    ("upgrade-gate-comment.yml", "dangerous-triggers"): 1,
}


def call(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def test_actionlint_has_nothing_to_say() -> None:
    assert call(program("actionlint"), "-config-file", ROOT / ".github" / "actionlint.yaml", *WORKFLOWS) == ""


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("vendor.github-actions", [ACTION]),
        ("vendor.gitlab-ci", [ROOT / "ci" / "gitlab.yml"]),
        ("vendor.dependabot", [ROOT / ".github" / "dependabot.yml"]),
    ],
)
def test_the_published_schemas_hold(schema: str, files: list[Path]) -> None:
    call(program("check-jsonschema"), "--builtin-schema", schema, *files)


def zizmor(*flags: str) -> list[dict[str, Any]]:
    files = (*WORKFLOWS, ACTION, ROOT / ".github" / "dependabot.yml")
    found: list[dict[str, Any]] = json.loads(
        call(program("zizmor"), "--offline", "--no-exit-codes", "--quiet", "--format", "json", *flags, *files)
    )
    return found


def test_zizmor_finds_nothing_but_what_is_justified() -> None:
    assert zizmor() == []
    found: dict[tuple[str, str], int] = {}
    for finding in zizmor("--no-ignores"):
        place = finding["locations"][0]["symbolic"]["key"]["Local"]["verbatim_path"]
        key = Path(place).name, finding["ident"]
        found[key] = found.get(key, 0) + 1
    assert found == JUSTIFIED


def test_every_action_is_pinned_to_one_commit_whose_version_stands_beside_it() -> None:
    pins: dict[str, set[tuple[str, str]]] = {}
    for file in (*WORKFLOWS, ACTION):
        text = file.read_text(encoding="utf-8")
        for one in uses(read(file)):
            if one.startswith(("./", "$/")):
                continue
            name, _, commit = one.partition("@")
            (version,) = {found[1] for found in re.finditer(re.escape(one) + r" # (v[0-9.]+)", text)}
            assert re.fullmatch("[0-9a-f]{40}", commit), one
            pins.setdefault("/".join(name.split("/")[:2]), set()).add((commit, version))
    assert {name: len(found) for name, found in pins.items()} == dict.fromkeys(pins, 1)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_every_job_has_a_time_limit_and_says_what_it_may_do(file: Path) -> None:
    document = read(file)
    assert document["permissions"] == {}
    for name, job in document["jobs"].items():
        assert "permissions" in job, name
        assert "timeout-minutes" in job or "uses" in job, name
    for step in (step for job in document["jobs"].values() for step in job.get("steps", ())):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", ["upgrade-gate.yml", *PAGES])
def test_a_newer_commit_of_a_pull_request_ends_the_run_for_the_older_one(name: str) -> None:
    text = read_page(PAGES[name]) if name in PAGES else (ROOT / "ci" / name).read_text(encoding="utf-8")
    assert yaml.safe_load(text)["concurrency"] == {
        "group": "upgrade-gate-${{ github.ref }}",  # of a pull request, or of a group in a merge queue
        "cancel-in-progress": True,
    }


def test_no_workflow_to_copy_needs_more_than_an_owner_and_a_commit_to_be_put_in() -> None:
    for file in TO_COPY:
        owners = {one for one in uses(read(file)) if not one.startswith("actions/")}
        assert owners == {f"OWNER/regress-gate@{'0' * 40}"}, file.name


def test_the_action_gives_its_inputs_to_no_shell() -> None:
    for step in read(ACTION)["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_the_page_names_every_input_and_output() -> None:
    page = (ROOT / "ci" / "README.md").read_text(encoding="utf-8")
    action = read(ACTION)
    for name in (*action["inputs"], *action["outputs"]):
        assert f"`{name}`" in page, name


def test_the_scripts_are_valid_shell() -> None:
    for script in (ROOT / "ci").glob("*.sh"):
        call("bash", "-n", script)


def test_the_curators_workflow_reads_the_changed_records_that_carry_code_and_fails_with_the_command(
    tmp_path: Path,
) -> None:
    step = next(
        one
        for one in read(ROOT / ".github/workflows/records.yml")["jobs"]["builds"]["steps"]
        if "BASE" in one.get("env", {})
    )
    records, tools, calls = tmp_path / "known_issues", tmp_path / "tools", tmp_path / "calls"
    records.mkdir()
    tools.mkdir()
    (tools / "regress-gate").write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexit 1\n')
    (tools / "regress-gate").chmod(0o755)

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *words]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    def run(base: str) -> int:
        environ = {"PATH": f"{tools}:{os.environ['PATH']}", "BASE": base}
        assert step["shell"] == "bash"  # as the runner starts it:
        shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        return subprocess.run(shell, cwd=tmp_path, env=environ, check=False).returncode

    (records / "A-1.yaml").write_text("id: A-1\ncode:\n")
    git("init", "-q")
    git("add", "known_issues")
    git("commit", "-qm", "before")
    base = git("rev-parse", "HEAD")
    (records / "A-2.yaml").write_text("id: A-2\ncode:\n")
    (records / "A-3.yaml").write_text("id: A-3\n")
    git("add", "known_issues")
    git("commit", "-qm", "after")
    assert (run(base), calls.read_text()) == (1, "issues verify --builds --quiet A-2\n")
    calls.write_text("")
    assert (run(""), calls.read_text()) == (1, "issues verify --builds --quiet\n")
