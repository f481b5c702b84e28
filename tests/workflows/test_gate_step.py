"""The step itself, without a runner around it: what it refuses, what it keeps to itself, and how it ends."""

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.cli.publishing.conftest import read_outputs
from tests.factories.scripts import load_script
from tests.workflows.runner import ROOT

USUAL = {"MODE": "check", "COMMENT": "on-change", "CHECK_RUN": "true", "REPORT_ONLY": "false", "SARIF": "false"}
USUAL |= {"STORE": "default"}
TELLS = f"""#!{sys.executable}
import json, os, sys, time
arguments = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    kept = ("GITHUB_TOKEN", "REGRESS_GATE_STORE", "GIT_CONFIG_VALUE_1", "INPUT_TOKEN", "PYTHONPATH")
    calls.write(json.dumps([arguments, {{name: os.environ[name] for name in kept if name in os.environ}}]) + "\\n")
BEHAVIOUR
"""
ANSWERS = """
if arguments[0] in ("check", "compare"):
    path = next(one for one in arguments if one.startswith("json:")).removeprefix("json:")
    json.dump({"decision": "pass", "recommended": None}, open(path, "w"))
    print("::error::of a hostile text")
"""


@pytest.fixture
def step(tmp_path: Path) -> Callable[..., Any]:
    """Runs ci/gate.py with these inputs and a regress-gate that records how it is called, then behaves as told."""

    def run(behaviour: str = ANSWERS, *, before: Any = None, **inputs: str) -> Any:
        program = tmp_path / "environment" / "bin" / "regress-gate"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(TELLS.replace("BEHAVIOUR", behaviour))
        program.chmod(0o755)
        for name in ("calls", "outputs"):
            (tmp_path / name).write_text("")
        variables = {f"INPUT_{name.upper()}": value for name, value in (USUAL | {"token": "secret"} | inputs).items()}
        process = subprocess.Popen(
            [sys.executable, "-I", ROOT / "ci" / "gate.py"],
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": "/elsewhere",
                "REGRESS_GATE_ENVIRONMENT": str(tmp_path / "environment"),
                "RUNNER_TEMP": str(tmp_path),
                "GITHUB_OUTPUT": str(tmp_path / "outputs"),
                "CALLS": str(tmp_path / "calls"),
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if before is not None:
            before(process)
        output, _ = process.communicate(timeout=60)
        calls = [json.loads(line) for line in (tmp_path / "calls").read_text().splitlines()]
        return process.returncode, output, calls

    return run


BOTH = {"base": "0.19.1", "candidate": "0.20.0"}


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        ({"base": "--config=x", "candidate": "1"}, "base looks like a flag"),
        ({"baselines": "baselines/*.json\n-x", "mode": "compare"}, "baselines looks like a flag"),
        ({"deployment": "a\nb"}, "deployment is not one line"),
        ({"deployment": "a\x1b[31m"}, "deployment is not one line"),
        ({"name": "known issues"}, "name is one word"),
        ({"mode": "measuer"}, "mode is one of check, compare, measure, publish, install"),
        ({"report_only": "yes"}, "report-only is one of true, false"),
        ({"suite": "serving.yaml"}, "suite is for mode compare or measure, not check"),
        ({"candidate": "0.20.0"}, "base and candidate go together"),
        ({"store": "", "mode": "measure"}, "store is empty: this run is not given the secret"),
    ],
)
def test_inputs_that_cannot_be_meant_are_refused_and_the_check_run_says_why(
    step: Callable[..., Any], inputs: dict[str, str], why: str
) -> None:
    code, output, calls = step(**inputs)
    assert code == 2
    # Without a usable name there is no check run to conclude.
    assert [arguments[:3] for arguments, _ in calls] == [["ci", "publish", "--could-not-measure"]] * (
        "name" not in inputs
    )
    assert all(why in arguments[3] for arguments, _ in calls)
    assert output.startswith("::error title=regress-gate::input " if "together" not in why else "::error")
    assert why in output


def test_to_install_asks_and_writes_nothing(step: Callable[..., Any]) -> None:
    assert step(mode="install") == (0, "", [])
    code, output, calls = step(mode="install", suite="serving.yaml")
    assert (code, "suite is for mode compare or measure, not install" in output, calls) == (2, True, [])


def test_only_what_writes_to_github_gets_the_token(step: Callable[..., Any]) -> None:
    code, _, calls = step(**BOTH, mode="compare", store="postgresql://somewhere/gate")
    assert code == 0
    assert [arguments[:3] for arguments, _ in calls] == [
        ["ci", "publish", "--started"],
        ["compare", "0.19.1", "0.20.0"],
        ["ci", "publish", "--result"],
    ]
    writer = {"GITHUB_TOKEN": "secret", "GIT_CONFIG_VALUE_1": "AUTHORIZATION: basic eC1hY2Nlc3MtdG9rZW46c2VjcmV0"}
    assert [kept for _, kept in calls] == [writer, {"REGRESS_GATE_STORE": "postgresql://somewhere/gate"}, writer]


def test_what_the_gate_prints_is_no_command_to_the_runner(step: Callable[..., Any]) -> None:
    _, output, _ = step(**BOTH)
    lines = output.splitlines()
    at = lines.index("::error::of a hostile text")
    opened = next(line for line in reversed(lines[:at]) if line.startswith("::stop-commands::"))
    assert lines[at + 1] == f"::{opened.removeprefix('::stop-commands::')}::"


def test_the_last_error_is_the_reason_for_no_decision(step: Callable[..., Any]) -> None:
    fails = "if arguments[0] == 'check': sys.exit('regress-gate: error: the disk is full; make room')"
    code, _, calls = step(fails, **BOTH)
    assert code == 1  # of sys.exit with a text; the program's own code is passed on
    assert calls[-1][0][:4] == ["ci", "publish", "--could-not-measure", "the disk is full; make room"]


def test_the_reason_names_no_folder_of_the_job(step: Callable[..., Any], tmp_path: Path) -> None:
    fails = f"if arguments[0] == 'check': sys.exit('regress-gate: error: {tmp_path}/regress-gate.toml:1: unknown key')"
    _, _, calls = step(fails, **BOTH)
    assert calls[-1][0][3] == "regress-gate.toml:1: unknown key"


@pytest.mark.parametrize(
    ("code", "published", "expected"),
    [(0, 0, 0), (1, 0, 1), (3, 4, 3), (0, 4, 4)],
    ids=["pass", "fail", "inconclusive and unwritten", "pass and unwritten"],
)
def test_the_exit_code_is_the_gates_and_an_answer_that_nobody_gets_is_no_pass(
    step: Callable[..., Any], code: int, published: int, expected: int
) -> None:
    behaviour = f"{ANSWERS}    sys.exit({code})\nif '--result' in arguments: sys.exit({published})"
    assert step(behaviour, **BOTH)[0] == expected


def test_a_cancelled_job_stops_the_measurement_and_concludes_the_check(step: Callable[..., Any]) -> None:
    def cancel(process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 30
        while "measuring" not in (line := process.stdout.readline()) and time.monotonic() < deadline:  # type: ignore[union-attr]
            pass
        assert "measuring" in line
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)  # what comes after 7.5 s does not keep it from its last words

    measures = """
if arguments[0] == "compare":
    try:
        print("measuring", file=sys.stderr, flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        with open(os.environ["CALLS"], "a") as calls:
            calls.write(json.dumps([["stopped"], {}]) + "\\n")
        sys.exit(130)
"""
    code, _, calls = step(measures, before=cancel, **BOTH, mode="measure")
    assert code == 130
    assert sorted(arguments[0] for arguments, _ in calls) == ["ci", "ci", "compare", "stopped"]
    (concluded,) = (arguments for arguments, _ in calls if "--could-not-measure" in arguments)
    assert concluded[3] == "the job was cancelled before there was a result"


def outputs_of(tmp_path: Path) -> dict[str, str]:
    return read_outputs((tmp_path / "outputs").read_text())


def test_a_result_that_was_cut_off_is_no_verdict(step: Callable[..., Any], tmp_path: Path) -> None:
    cut = ANSWERS.replace(
        'json.dump({"decision": "pass", "recommended": None}, open(path, "w"))', 'open(path, "w").write("{")'
    )
    assert cut != ANSWERS
    code, output, calls = step(cut, **BOTH)
    assert code == 4
    assert "JSONDecodeError" in output
    assert calls[-1][0][:3] == ["ci", "publish", "--could-not-measure"]
    assert outputs_of(tmp_path)["exit-code"] == "4"
    assert not outputs_of(tmp_path)["decision"]


def test_a_program_that_cannot_be_started_is_no_verdict(step: Callable[..., Any], tmp_path: Path) -> None:
    gone = "if '--started' in arguments: os.unlink(sys.argv[0])"
    code, output, calls = step(gone, **BOTH)
    assert (code, len(calls)) == (4, 1)
    assert "FileNotFoundError" in output
    assert "exit-code" not in outputs_of(tmp_path)  # nothing was concluded: that is for another job


@pytest.mark.parametrize("during", ["compare", "--result"])
def test_a_killed_step_gives_no_exit_code_by_which_another_job_knows_that_nothing_was_concluded(
    step: Callable[..., Any], tmp_path: Path, during: str
) -> None:
    def kill(process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 30
        while "at work" not in (line := process.stdout.readline()) and time.monotonic() < deadline:  # type: ignore[union-attr]
            pass
        assert "at work" in line
        process.kill()

    waits = f"""
if {during!r} in arguments:
    print("at work", file=sys.stderr, flush=True)
    time.sleep(3)
"""
    code, _, calls = step(ANSWERS + waits, before=kill, **BOTH, mode="measure")
    assert code == -signal.SIGKILL
    assert calls[0][0][:3] == ["ci", "publish", "--started"]
    assert "exit-code" not in outputs_of(tmp_path)


def test_baselines_of_the_checkout_go_into_a_store_of_the_job(step: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "baselines").mkdir()
    for name in ("a.json", "b.json"):
        (tmp_path / "baselines" / name).write_text("{}")
    _, _, calls = step(**BOTH, mode="compare", baselines="baselines/*.json")
    imported = next(call for call in calls if call[0][0] == "baseline")
    assert imported[0] == ["baseline", "import", "--", "baselines/a.json", "baselines/b.json"]
    assert Path(imported[1]["REGRESS_GATE_STORE"]).is_relative_to(tmp_path)
    code, output, _ = step(**BOTH, mode="compare", baselines="nowhere/*.json")
    assert code == 2
    assert "no file fits input baselines: nowhere/*.json" in output


# The installation


@pytest.fixture
def install() -> ModuleType:
    return load_script("ci/install.py")


def test_an_environment_is_known_by_all_that_it_is_made_of(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_TOOL_CACHE", str(tmp_path / "tools"))
    root = tmp_path / "checkout"
    for name in (*install.PARTS[:3], "regress_gate/__pycache__"):
        (root / name).mkdir(parents=True)
    for name in ("constraints.txt", "pyproject.toml", "regress_gate/a.py", "regress_gate/__pycache__/a.pyc"):
        (root / name).write_text("1")
    monkeypatch.setattr(install, "ROOT", root)
    before = install.plan()
    assert before["ready"] == "false"
    (root / "regress_gate" / "__pycache__" / "a.pyc").write_text("2")
    assert install.plan() == before
    for name in ("constraints.txt", "regress_gate/a.py"):
        (root / name).write_text("2")
        assert install.plan()["key"] != before["key"]
        (root / name).write_text("1")
    Path(before["path"]).mkdir(parents=True)
    assert install.plan()["ready"] == "false"  # an installation that was interrupted
    (Path(before["path"]) / install.MARKER).touch()
    assert install.plan()["ready"] == "true"


def test_a_version_that_is_named_comes_from_the_index_into_an_environment_of_its_own(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNNER_TOOL_CACHE", str(tmp_path))
    for name in ("GITHUB_OUTPUT", "GITHUB_PATH"):
        monkeypatch.setenv(name, str(tmp_path / name))
    calls: list[list[str]] = []
    monkeypatch.setattr(install.subprocess, "run", lambda command, **_: calls.append(command))
    monkeypatch.setattr(install.venv, "create", lambda path, **_: path.mkdir(parents=True))
    own = install.plan()
    monkeypatch.setenv("INPUT_VERSION", "v1.4.2")
    assert install.main("plan") == 0
    planned = dict(line.split("=", 1) for line in (tmp_path / "GITHUB_OUTPUT").read_text().splitlines())
    assert planned["path"] != own["path"]
    assert install.main(planned["path"]) == 0
    ((*_, command, wanted),) = calls
    assert (command, wanted) == ("install", "vllm-regress-gate[gpu,postgresql]==1.4.2")


def test_the_action_finds_its_checkout_where_a_runner_made_copies_of_links(tmp_path: Path) -> None:
    link = ROOT / ".github" / "actions" / "gate"
    assert (link / "action.yml").samefile(ROOT / "action.yml")
    copied = tmp_path / ".github" / "actions" / "gate"
    shutil.copytree(link, copied)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert not (copied / "ci").is_symlink()
    for script in (copied / "ci" / "install.py", link / "ci" / "install.py"):
        root = runpy.run_path(str(script))["ROOT"]
        assert root == (tmp_path if script.is_relative_to(tmp_path) else ROOT)


def test_the_checkout_is_built_with_the_versions_of_the_constraints(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(install.subprocess, "run", lambda command, **_: calls.append(command))
    monkeypatch.setattr(install.venv, "create", lambda path, **_: path.mkdir(parents=True))
    install.install(tmp_path / "environment")
    build, tool = (call[call.index("install") :] for call in calls)
    assert build[:3] == tool[:3] == ["install", "--constraint", str(ROOT / "constraints.txt")]
    assert build[3:] == install.build_requirements() != []
    assert tool[3:] == ["--no-build-isolation", f"{ROOT}[gpu,postgresql]"]


@pytest.mark.parametrize("version", ["--index-url=x", "1.0 evil", "../x", "latest", "1.0; x", ">=1"])
def test_what_is_no_version_is_not_installed(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    monkeypatch.setenv("INPUT_VERSION", version)
    assert install.main("plan") == 2
    assert capsys.readouterr().out.startswith("::error title=regress-gate::input version is one version")


@pytest.mark.parametrize(
    ("pythons", "found"),
    [
        ({"python3": (3, 12, 1)}, "python3"),
        ({"python3": (3, 9, 2), "python3.12": (3, 12, 1)}, "python3.12"),
        ({"python3": (3, 14, 0)}, None),
        ({}, None),
    ],
)
def test_a_python_that_is_tested_is_taken_and_no_other(
    tmp_path: Path, pythons: dict[str, tuple[int, int, int]], found: str | None
) -> None:
    for name, version in pythons.items():
        script = f"import sys; sys.version_info = {version}; sys.argv.pop(0); exec(sys.argv[-1])"
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {sys.executable} -c "{script}" "$@"\n')
        (tmp_path / name).chmod(0o755)
    output = tmp_path / "output"
    output.touch()
    bash = subprocess.run(["bash", "-c", "command -v bash"], capture_output=True, text=True, check=True).stdout.strip()
    environment = {"PATH": str(tmp_path), "GITHUB_OUTPUT": str(output)}
    subprocess.run([bash, ROOT / "ci" / "find_python.sh"], env=environment, check=True, capture_output=True)
    assert output.read_text() == (f"path={tmp_path / found}\n" if found else "")
