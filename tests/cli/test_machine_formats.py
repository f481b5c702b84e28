"""Test reports, alerts and annotations as a workflow gets them: also when the command fails."""

import json
import xml.etree.ElementTree as ET

import click
import pytest

from regress_gate.cli.main import COMMANDS, main
from regress_gate.errors import ExitCode
from regress_gate.report import JOB_SUMMARY_LIMIT, Source, format_names
from tests.report.actions_runner import commands_in

FINDINGS = format_names(Source.FINDINGS)
DETECT = "day,ms\n" + "".join(f"2026-03-{day:02},{100 + 40 * (day > 10) + day % 3}\n" for day in range(1, 21))
WITH_FINDINGS = {
    "compare": ("compare", "v0.19.0", "v0.19.1"),
    "check": ("check", "v0.20.0", "--offline"),
    "history": ("history", "--detect", "--metric", "ttft_median"),
    "detect": ("detect", "nightly.csv", "--direction", "lower"),
    "diff-config": ("diff-config", "v0.19.1", "v0.20.0", "--offline"),
}


def outcomes(path):
    cases = ET.fromstring(path.read_text(encoding="utf-8")).iter("testcase")
    return {case.get("name"): (child.tag, child.text) for case in cases for child in case}


@pytest.fixture
def measured(gate):
    for version in ("0.19.0", "0.19.1"):
        assert gate.import_starts(version).code == ExitCode.PASS
    (gate.directory / "nightly.csv").write_text(DETECT)
    return gate


@pytest.mark.parametrize("command", WITH_FINDINGS)
def test_every_command_in_which_something_passes_or_fails_writes_them(measured, command):
    outputs = [part for name in FINDINGS for part in ("--output", f"{name}:out.{name}")]
    plain = measured(*WITH_FINDINGS[command])
    done = measured(*WITH_FINDINGS[command], "--format", "github", *outputs)
    assert done.code == plain.code
    assert 1 <= len(commands_in(done.out)) == len(done.out.splitlines()) <= 10
    assert (measured.directory / "out.github").read_text() == done.out
    assert ET.fromstring((measured.directory / "out.junit").read_text()).get("tests") != "0"
    assert json.loads((measured.directory / "out.sarif").read_text())["version"] == "2.1.0"


def format_choices():
    """Command line to the formats that its --format takes."""
    found = {}
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        inner = command.commands if isinstance(command, click.Group) else {"": command}
        for word, each in inner.items():
            for option in each.params:
                if option.name == "format_":
                    found[f"{name} {word}".strip()] = set(option.type.choices)
    return found


def test_the_other_commands_refuse_them_before_they_do_anything(gate):
    choices = format_choices()
    serving = {command for command, names in choices.items() if set(FINDINGS) <= names}
    assert serving == {*WITH_FINDINGS, "audit", "calibrate", "report", "ci check", "watch"}
    others = sorted(choices.keys() - serving)
    assert all(not set(FINDINGS) & choices[command] for command in others)
    for command in ("baseline list", "issues list", "suite list"):
        assert command in others
        refused = gate(*command.split(), "--format", "junit")
        assert (refused.code, refused.out) == (ExitCode.USAGE, "")
        assert "'junit' is not one of 'table', 'json', 'markdown'" in refused.error


@pytest.mark.parametrize("option", [("--format", "sarif"), ("--output", "junit:x.xml")])
def test_a_plan_passes_and_fails_nothing(gate, option):
    refused = gate("compare", "v0.19.0", "v0.19.1", "--plan", *option)
    assert refused.code == ExitCode.USAGE
    assert option[0] in refused.error
    assert not (gate.directory / "x.xml").exists()


# A command that fails


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (("compare", "v0.18.0", "v0.18.1"), ExitCode.NO_DATA, "no_data"),
        (("compare", "v0.19.0", "v0.19.1", "--store", "bad.db"), ExitCode.COULD_NOT_MEASURE, "could_not_measure"),
        (("compare", "v0.19.0", "run:one"), ExitCode.USAGE, "usage"),
        (("check", "latest.", "--offline"), ExitCode.USAGE, "usage"),
        (("report", "no.json"), ExitCode.USAGE, "usage"),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else None,
)
def test_a_failure_is_an_error_in_the_test_report(gate, arguments, code, kind):
    (gate.directory / "bad.db").write_text("no database")
    (gate.directory / "out.xml").write_text("<testsuites tests='1'/>")  # of a former run
    (gate.directory / "out.sarif").write_text("{}")
    failed = gate(*arguments, "--output", "junit:out.xml", "--output", "sarif:out.sarif", "--output", "json:out.json")
    assert failed.code == code
    tag, text = outcomes(gate.directory / "out.xml")["decision"]
    assert (tag, text) == ("error", failed.error)
    assert f'type="{kind}"' in (gate.directory / "out.xml").read_text()
    assert (gate.directory / "out.sarif").read_text() == "{}", "a file without results would close every alert"
    assert not (gate.directory / "out.json").exists()


def test_a_failure_is_an_annotation(gate):
    failed = gate("compare", "v0.18.0", "v0.18.1", "--format", "github", "--output", "github:out.txt")
    error, notice = commands_in(failed.out)
    assert (error.name, error.text) == ("error", failed.error)
    assert error.properties["title"] == "regress-gate: no stored data"
    assert (notice.name, notice.text) == ("notice", "Nothing was decided (exit code 5).")
    assert (gate.directory / "out.txt").read_text() == failed.out


def test_a_test_report_that_cannot_be_written_is_the_error_itself(measured):
    failed = measured("compare", "v0.19.0", "v0.19.1", "--output", "junit:no/such/folder.xml")
    assert failed.code == ExitCode.USAGE
    assert "no/such/folder.xml: cannot be written" in failed.error


def test_a_report_that_was_written_stays_when_another_cannot_be(measured):
    measured("compare", "v0.19.0", "v0.19.1", "--output", "junit:out.xml", "-q")
    written = outcomes(measured.directory / "out.xml")
    done = measured.shell("regress-gate compare v0.19.0 v0.19.1 --output junit:out.xml > /dev/full")
    assert done.code == ExitCode.COULD_NOT_MEASURE
    assert outcomes(measured.directory / "out.xml") == written


# The summary of a step


@pytest.fixture
def summary(measured, monkeypatch):
    path = measured.directory / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def test_the_summary_is_added_to_what_stands_there(measured, summary):
    summary.write_text("# Before, without a line end")
    for _ in range(2):
        measured("compare", "v0.19.0", "v0.19.1", "--format", "github")
    text = summary.read_text()
    assert text.startswith("# Before, without a line end\n## ")
    assert text.count("What to do:") == 2


@pytest.mark.parametrize("options", [(), ("--output", "junit:out.xml"), ("--format", "github", "-q")])
def test_other_formats_add_nothing_to_it(measured, summary, options):
    measured("compare", "v0.19.0", "v0.19.1", *options)
    assert not summary.exists()


def test_the_summary_never_exceeds_what_github_takes(measured, summary):
    summary.write_text("x" * (JOB_SUMMARY_LIMIT - 500))
    added = measured("check", "v0.20.0", "--offline", "--format", "github")
    assert summary.stat().st_size <= JOB_SUMMARY_LIMIT
    assert "the summary of this step is full" in added.err
    summary.write_text("x" * (JOB_SUMMARY_LIMIT - 60_000))
    added = measured("check", "v0.20.0", "--offline", "--format", "github")
    assert JOB_SUMMARY_LIMIT - 60_000 < summary.stat().st_size <= JOB_SUMMARY_LIMIT
    assert "summary" not in added.err


def test_a_summary_that_cannot_be_written_is_said(measured, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/no/such/folder/summary.md")
    failed = measured("check", "v0.20.0", "--offline", "--format", "github")
    assert failed.code == ExitCode.USAGE
    assert "/no/such/folder/summary.md: cannot be written" in failed.err


def test_an_error_message_is_no_workflow_command(gate):
    for text in ("##[set-output name=decision]pass", "::set-output name=decision::pass"):
        failed = gate("compare", text, "v0.19.1", "--output", "junit:out.xml")
        assert failed.code == ExitCode.USAGE
        assert not commands_in(failed.err)
        assert not commands_in((gate.directory / "out.xml").read_text())


COMPOSE = """\
services:
  chat:
    restart: always
    # image: vllm/vllm-openai:v0.19.1
    image: vllm/vllm-openai:v0.19.1
    command:
      - --model=mistralai/Mixtral-8x7B-v0.1
      - --swap-space=4
  embed:
    image: vllm/vllm-openai:v0.19.1
    command: --model=BAAI/bge-m3 --swap-space=4
"""


def test_annotations_stand_at_the_line_of_the_image_and_of_the_argument(gate):
    (gate.directory / "deploy").mkdir()
    (gate.directory / "deploy" / "compose.yaml").write_text(COMPOSE)
    target = ("--deployment", "deploy/compose.yaml", "--accelerator", "H200")
    done = gate("check", "v0.24.0", "--offline", *target, "--format", "github")
    errors = [one for one in commands_in(done.out) if one.name == "error"]
    refused = [one.properties["line"] for one in errors if "--swap-space" in one.text]
    assert refused == ["8", "11"]
    assert {one.properties["file"] for one in errors} == {"deploy/compose.yaml"}
    found = gate("check", "v0.24.0", "--offline", *target, "--format", "json").json["deployments"]
    assert [one["deployment"]["lines"]["image"] for one in found] == [5, 10]


EAGER = """\
services:
  chat:
    image: vllm/vllm-openai:v0.19.1
    command:
      - --model=mistralai/Mixtral-8x7B-v0.1
      - --max-num-seqs=64
      - --swap-space=4
      - --enforce_eager
"""


def test_findings_of_an_audit_stand_at_the_line_of_the_argument_and_are_known_by_file_and_server(gate):
    for folder in ("one", "two"):
        (gate.directory / folder).mkdir()
        (gate.directory / folder / "compose.yaml").write_text(EAGER)
    marks = []
    for folder in ("one", "two"):
        done = gate("audit", "v0.24.0", "--deployment", f"{folder}/compose.yaml", "--format", "sarif")
        results = {one["ruleId"]: one for one in json.loads(done.out)["runs"][0]["results"]}
        places = {name: one["locations"][0]["physicalLocation"] for name, one in results.items()}
        assert places["ARG001"]["artifactLocation"]["uri"] == f"{folder}/compose.yaml"
        assert (places["ARG001"]["region"]["startLine"], places["CG001"]["region"]["startLine"]) == (7, 8)
        marks.append(results["ARG001"]["partialFingerprints"]["regressGate/v1"])
    assert len(set(marks)) == 2
    commands = commands_in(gate("audit", "v0.24.0", "--deployment", "one/compose.yaml", "--format", "github").out)
    assert {"7", "8"} <= {one.properties.get("line") for one in commands}


def test_findings_of_diff_config_stand_in_the_deployment_file(gate):
    (gate.directory / "compose.yaml").write_text(EAGER)
    done = gate("diff-config", "v0.19.1", "v0.24.0", "--offline", "--deployment", "compose.yaml", "--format", "github")
    [refused] = [one for one in commands_in(done.out) if one.name == "error" and "--swap-space" in one.text]
    assert (refused.properties["file"], refused.properties["line"]) == ("compose.yaml", "7")
    done = gate("diff-config", "v0.19.1", "v0.24.0", "--offline", "--deployment", "compose.yaml", "--format", "sarif")
    places = [one["locations"][0]["physicalLocation"] for one in json.loads(done.out)["runs"][0]["results"]]
    assert {one["artifactLocation"]["uri"] for one in places} == {"compose.yaml"}
    assert {one["region"]["startLine"] for one in places} <= {3, 6, 7, 8}
