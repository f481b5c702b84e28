"""`regress-gate report RESULT.json`: a stored result shown again."""

import json
from itertools import product
from pathlib import Path

import pytest

from regress_gate.errors import ExitCode

OLD = Path(__file__).parents[1] / "report" / "stored" / "compare-2026-11-21.json"


@pytest.fixture
def kept(gate):
    for version in ("0.19.0", "0.19.1"):
        assert gate.import_starts(version).code == ExitCode.PASS
    gate("compare", "v0.19.0", "v0.19.1", "--output", "json:gate.json", "-q")
    return gate


@pytest.mark.parametrize("name", ["table", "json", "markdown", "html", "junit", "sarif", "github", "svg"])
def test_it_is_shown_as_compare_showed_it(kept, name):
    outputs = "--output", f"{name}:first", "-q"
    kept("compare", "v0.19.0", "v0.19.1", "--output", "json:gate.json", *outputs)
    shown = kept("report", "gate.json", "--format", name)
    assert (shown.code, shown.err) == (ExitCode.PASS, "")
    assert shown.out == (kept.directory / "first").read_text()


TABLE = "day,ttft\n" + "".join(f"2026-03-{day:02},{0.1 if day < 9 else 0.13}\n" for day in range(1, 17))
COMPOSE = """\
services:
  chat:
    image: vllm/vllm-openai:v0.24.0
    command: --model=m --swap-space=4
"""
OTHERS = {
    "history": ("history", "--detect", "--improvements"),
    "detect": ("detect", "table.csv", "--direction", "lower"),
    "audit": ("audit", "--deployment", "compose.yaml"),
}


TEXTS = ("table", "json", "markdown", "html", "junit", "sarif", "github")


@pytest.mark.parametrize(
    ("command", "name"),
    [*product(OTHERS, TEXTS), ("history", "svg"), ("detect", "svg")],
)
def test_history_detect_and_audit_are_shown_as_their_commands_showed_them(kept, command, name):
    (kept.directory / "table.csv").write_text(TABLE)
    (kept.directory / "compose.yaml").write_text(COMPOSE)
    kept(*OTHERS[command], "--output", "json:kept.json", "--output", f"{name}:first")
    shown = kept("report", "kept.json", "--format", name)
    assert (shown.code, shown.err) == (ExitCode.PASS, "")
    assert shown.out == (kept.directory / "first").read_text()


def test_it_needs_neither_store_nor_configuration(kept):
    kept.store.unlink()
    (kept.directory / "regress-gate.toml").write_text("nonsense")
    assert kept("report", "gate.json").code == ExitCode.PASS


def test_it_is_written_to_files_and_read_from_standard_input(kept):
    text = (kept.directory / "gate.json").read_text()
    done = kept("report", "-", "-q", "--output", "junit:gate.xml", "--output", "markdown:gate.md", stdin=text)
    assert (done.code, done.out) == (ExitCode.PASS, "")
    assert (kept.directory / "gate.md").read_text() == kept("report", "gate.json", "--format", "markdown").out
    assert (kept.directory / "gate.xml").exists()


def test_the_exit_code_is_that_of_showing_it_not_of_the_decision(gate):
    shown = gate("report", OLD)
    assert shown.out.startswith("FAIL: do not move")
    assert shown.code == ExitCode.PASS


def test_without_a_name_the_first_picture_is_drawn_and_another_by_its_name(kept):
    assert kept("report", "gate.json", "--format", "svg", "--figure", "nosuch").code == ExitCode.USAGE
    assert "<svg" in kept("report", "gate.json", "--format", "svg", "--figure", "intervals").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gate.json", "gate.json"), "one result is shown at a time"),
        (("gate.json", "--to", "out"), "--to, --raw: is for stored runs"),
        (("gate.json", "--raw"), "--to, --raw: is for stored runs"),
        (("gate.json", "--suite", "x"), "is for stored runs"),
        (("gate.json", "--format", "llm-d"), "unknown format 'llm-d'"),
        (("v0.19.1", "--output", "json:x"), "--output: is for a stored result; use --to for runs"),
        (("v0.19.1", "--format", "junit"), "unknown format 'junit'"),
        (("no.json",), "no.json: cannot be read (No such file or directory)"),
        (("./v0.19.1",), "v0.19.1: cannot be read"),
        (("nosuchfile",), "not a vLLM version"),
        ((".",), "not a vLLM version"),
        (("-",), "standard input: is empty"),
    ],
    ids=" ".join,
)
def test_what_does_not_go_together_is_said(kept, arguments, said):
    refused = kept("report", *arguments)
    assert (refused.code, refused.out) == (ExitCode.USAGE, "")
    assert said in refused.error


def test_a_version_stays_a_version_though_a_file_has_its_name(kept):
    (kept.directory / "v0.19.1").write_text("{}")
    assert kept("report", "v0.19.1", "--format", "long").out.startswith("version,")
    (kept.directory / "gate").write_text((kept.directory / "gate.json").read_text())
    assert "0.19.1" in kept("report", "gate").out


def test_the_file_is_checked_as_if_anybody_had_written_it(kept):
    data = json.loads((kept.directory / "gate.json").read_text())
    data["series"][3]["verdict"] = "fine\n::error::x"
    (kept.directory / "forged.json").write_text(json.dumps(data))
    assert kept("report", "forged.json").error.startswith(
        "forged.json: series[3].verdict: input should be 'regression'"
    )
