"""Help, typos and errors: every command explains itself, and every refusal is one line with the way out."""

import os
import re
from collections.abc import Iterator

import click
import pytest

from regress_gate.cli.main import COMMANDS, main
from regress_gate.report import OF_A_REPORT, format_names


def command_paths() -> Iterator[tuple[str, ...]]:
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        yield (name,)
        if isinstance(command, click.Group):
            yield from ((name, inner) for inner in command.commands)


@pytest.mark.parametrize("path", [(), *command_paths()], ids=" ".join)
def test_every_command_has_help_with_an_example_that_is_its_own(gate, path):
    for flag in ("--help", "-h"):
        shown = gate(*path, flag)
        assert (shown.code, shown.err) == (0, "")
        assert f"Example: regress-gate {' '.join(path)}".strip() in " ".join(shown.out.split())
        assert "Usage: " in shown.out


def test_the_help_lists_every_command_and_exit_code(gate):
    shown = gate("--help").out
    assert all(name in shown for name in COMMANDS)
    assert all(f"{code} " in shown for code in (0, 1, 2, 3, 4, 5, 130))


@pytest.mark.parametrize("command", ["compare", "check", "run", "calibrate", "import"])
def test_many_options_are_shown_in_sections_with_help_in_each(gate, command):
    shown = gate(command, "--help").out
    sections = re.findall(r"^(\S.*):\n((?:  .*\n)+)", shown.partition("\n\n")[2], re.MULTILINE)
    sizes = {title: len(re.findall(r"^  -", lines, re.MULTILINE)) for title, lines in sections}
    options = main.get_command(click.Context(main), command).params
    assert sum(sizes.values()) == sum(isinstance(one, click.Option) for one in options) + 1, "and --help"
    assert max(sizes.values()) <= 12
    assert "Options" in sizes
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion_script(gate, shell):
    done = gate.process(env={**os.environ, "_REGRESS_GATE_COMPLETE": f"{shell}_source"})
    assert (done.code, done.err) == (0, "")
    assert "_REGRESS_GATE_COMPLETE" in done.out


def test_commands_options_and_choices_are_completed(gate):
    def completed(line, word):
        environment = {"_REGRESS_GATE_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(word)}
        done = gate.process(env={**os.environ, **environment})
        return [one.partition(",")[2] for one in done.out.split()]

    assert completed("regress-gate comp", 1) == ["compare"]
    assert completed("regress-gate compare --g", 2) == ["--gate", "--gpu-hour", "--gpus", "--gpu-arch"]
    assert completed("regress-gate compare --format ", 3) == list(format_names(*OF_A_REPORT))


def test_the_version_is_reported(gate):
    assert gate("--version").out.startswith("regress-gate 0.")


@pytest.mark.parametrize("path", [(), ("baseline",), ("issues",), ("waive",), ("config",), ("db",)], ids=" ".join)
def test_a_group_alone_shows_its_help_as_a_page_and_exits_2(gate, path):
    shown = gate(*path)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("Usage: regress-gate")
    assert len(shown.err.splitlines()) > 5


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["compar", "v0.19.0", "v0.19.1"], "did you mean 'compare'?"),
        (["baselines", "list"], "did you mean 'baseline'?"),
        (["baseline", "lst"], "regress-gate baseline --help"),
        (["v0.19.0", "v0.19.1"], "known: compare, check"),
        (["compare", "v0.19.0"], "Missing argument 'CAND'"),
        (["compare", "v0.19.0", "v0.19.1", "v0.24.0"], "unexpected extra argument"),
        (["compare", "v0.19.0", "v0.19.1", "--sute", "x"], "--suite"),
        (["compare", "v0.19.0", "v0.19.1", "--format", "xml"], "'table', 'json', 'markdown'"),
        (["compare", "v0.19.0", "v0.19.1", "--output", "jsn:x"], "did you mean 'json'?"),
        (["compare", "v0.19.0", "v0.19.1", "--output", "json"], "FORMAT:PATH"),
        (["compare", "v0.19.0", "v0.19.1", "--output", "json:"], "FORMAT:PATH"),
        (["compare", "v0.19.0", "v0.19.1", "--output", "json:-"], "--format"),
        (["compare", "v0.19.0", "v0.19.1", "--on-inconclusive", "ok"], "'pass', 'fail'"),
        (["compare", "v0.19.0", "v0.19.1", "--gate", "ttft_medain"], "did you mean 'ttft_median'?"),
        (["compare", "v0.19.0", "v0.19.1", "--config", "no.toml"], "no such configuration file"),
        (["compare", "v0.19.0", "v0.19.1", "--config", "x" * 5000], "no such configuration file"),
        (["compare", "v0.19.0", "v0.19.1", "--store", "~nobody-of-that-name/x"], "home directory"),
        (["compare", "v0.19.0", "v0.19.1", "--store", ""], "--store: is empty"),
        (["compare", "v0.19.0", "v0.19.1", "--engine-arg", "=8"], "KEY=VALUE"),
        (["compare", "v0.19.0", "v0.19.1", "--model", "\udcff"], "not UTF-8"),
        (["compare", "0.19", "v0.19.1.x"], "write a release (v0.19.1)"),
        (["compare", "", "v0.19.1"], "'' is not a vLLM version"),
        (["compare", "1" * 5000, "v0.19.1"], "too long for a version"),
        (["compare", "v0.19.0", "nightly@yesterday"], "nightly@YYYY-MM-DD"),
        (["compare", "v0.19.0", "run:one"], "run: and the number"),
        (["compare", "v0.19.0", "v0.19.0"], "same stored build"),
        (["compare", "v0.19.0", "0.19.0"], "same stored build"),
        (["import"], "Missing argument 'FILE...'"),
        (["import", "x.json", "--testbed-fact", "acelerator=H200"], "did you mean 'accelerator'?"),
        (["import", "x.json", "--testbed-fact", "cpu_count=many"], "whole number"),
        (["import", "x.json", "--run", "a", "--run-per-file"], "contradicts"),
        (["baseline", "show", "pined"], "not a vLLM version"),
        (["baseline", "prune"], "name a VERSION, or how many to --keep"),
        (["baseline", "prune", "--keep", "-1"], "-1"),
        (["baseline", "import", "no.json"], "does not exist"),
        (["detect"], "Missing argument 'FILE'"),
        (["detect", "no.csv"], "does not exist"),
        (["detect", "."], "is a directory"),
        (["detect", "-", "--direction", "down"], "'lower', 'higher'"),
        (["history", "--metric", "ttft"], "no stored run has the metric 'ttft'"),
        (["issues", "list", "--kind", "crahs"], "did you mean 'crash'?"),
        (["issues", "show", "VLLM-28881"], "did you mean 'VLLM-28882'?"),
        (["issues", "list", "--directory", "no"], "does not exist"),
        (["waive", "add", "x"], "Missing option"),
        (["waive", "check", "--within", "99999999999"], "--within"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_a_typo_is_one_line_that_says_what_to_write(gate, arguments, hint):
    refused = gate(*arguments)
    assert (refused.code, refused.out) == (2, "")
    assert hint in refused.error


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "v0.19.0", "v9.9.9"],
        ["compare", "run:999999999999999999", "v0.19.0"],
        ["compare", "v0.19.0", "pinned"],
    ],
)
def test_a_version_without_stored_runs_is_exit_5_with_what_is_stored_or_what_to_do(gate, arguments):
    refused = gate(*arguments)
    assert (refused.code, refused.out) == (5, "")
    assert re.search("stored( there)?: 0.19.0", refused.error) or "regress-gate baseline pin" in refused.error


def test_a_traceback_is_for_who_asks_for_it(gate):
    refused = gate("compare", "v0.19.0", "v9.9.9", "-vv")
    assert "Traceback" in refused.err
    assert refused.err.splitlines()[-1].startswith("regress-gate: error: no stored runs for v9.9.9")


def test_an_escape_sequence_in_an_argument_does_not_reach_the_terminal(gate):
    for arguments in (["compare", "\x1b[31mred", "v1"], ["\x1b]0;title\x07"], ["issues", "show", "\x9b31m\n\nred"]):
        assert gate(*arguments).error.isprintable()


def test_an_error_of_the_program_itself_is_one_line_and_no_verdict(gate, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("regress_gate.cli.issues.load_records", fail)
    failed = gate("issues", "list")
    assert failed.code == 4
    assert failed.error.startswith("internal error, please report it: ZeroDivisionError: division by zero")


READING = [
    ["compare", "v0.19.0", "v0.19.1"],
    ["compare", "v0.19.0", "v9.9.9"],
    ["check", "v0.19.1"],
    ["check", "latest"],
    ["baseline", "list"],
    ["baseline", "show", "v0.19.1"],
    ["baseline", "show", "v9.9.9"],
    ["baseline", "export", "--to", "there"],
    ["baseline", "unpin", "v0.19.1"],
    ["baseline", "prune", "v0.19.1", "--dry-run"],
    ["baseline", "prune", "v0.19.1", "--yes"],
    ["issues", "list"],
    ["waive", "list"],
    ["history"],
    ["history", "--detect"],
    ["detect", "no-such-file.csv"],
    ["config", "show"],
    ["db", "info"],
    ["db", "log"],
    ["db", "prune", "--older-than", "1d", "--yes"],
    ["db", "backup", "copy.db"],
    ["import", "no-such-file.json", "--version", "v1"],
]


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_command_that_only_reads_makes_no_store_and_no_other_file(gate, monkeypatch, arguments):
    gate(*arguments)
    monkeypatch.delenv("REGRESS_GATE_STORE")
    gate(*arguments)
    left = [path for path in gate.directory.parent.rglob("*") if path.is_file()]
    assert left == []
