"""The program around the commands: how it ends, and where its commands are."""

import errno
import io
import sys

import pytest

from regress_gate.cli import main as program
from tests.cli.conftest import ROOT


class FailingStream(io.StringIO):
    """A standard output that fails when it is flushed, as on a full disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def flush(self) -> None:
        raise self._error


class TestFinish:
    @pytest.fixture(autouse=True)
    def without_redirection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(program, "silence_stdout", lambda: None)

    def test_a_report_that_cannot_be_written_turns_a_pass_into_exit_4_and_one_line(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdout", FailingStream(OSError(errno.ENOSPC, "No space left on device")))
        assert program._finish(0, []) == 4
        message = "standard output cannot be written (No space left on device)"
        assert capsys.readouterr().err == f"regress-gate: error: {message}\n"

    @pytest.mark.parametrize("code", [0, 1, 3])
    def test_a_reader_that_has_left_changes_no_decision(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: int
    ) -> None:
        monkeypatch.setattr(sys, "stdout", FailingStream(BrokenPipeError(errno.EPIPE, "Broken pipe")))
        assert program._finish(code, []) == code
        assert capsys.readouterr().err == ""

    def test_without_a_standard_output_the_decision_stands(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdout", None)
        assert program._finish(1, []) == 1

    def test_what_was_written_is_flushed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        flushed = []
        stream = io.StringIO()
        monkeypatch.setattr(stream, "flush", lambda: flushed.append(True))
        monkeypatch.setattr(sys, "stdout", stream)
        assert (program._finish(3, []), flushed) == (3, [True])


def test_every_command_of_the_table_is_a_module_of_cli() -> None:
    for target, _ in program.COMMANDS.values():
        module = target.partition(":")[0]
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()
