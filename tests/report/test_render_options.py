"""Printing: width, colour and signs follow the stream and the environment, and nothing is too poor to print to."""

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator

import pytest

from regress_gate.report import options_for, print_view
from regress_gate.report.views.result_view import ResultView
from tests.factories.results import EVERY_KIND, failing


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal_of_101_columns() -> Iterator[io.TextIOWrapper]:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 101, 0, 0))
    with os.fdopen(follower, "w", encoding="utf-8") as stream:
        yield stream
    os.close(leader)


def test_a_terminal_gives_its_width_and_colour(terminal_of_101_columns: io.TextIOWrapper) -> None:
    options = options_for(terminal_of_101_columns, environ={"TERM": "xterm"})
    assert (options.width, options.color) == (101, True)


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_can_be_kept_without_colour(environ: dict[str, str]) -> None:
    assert not options_for(Terminal(), environ=environ).color


def test_an_empty_no_color_does_not_count() -> None:
    assert options_for(Terminal(), environ={"NO_COLOR": ""}).color


@pytest.mark.parametrize(
    ("environ", "width"), [({}, 80), ({"COLUMNS": "132"}, 132), ({"COLUMNS": "wide"}, 80), ({"COLUMNS": "0"}, 80)]
)
def test_a_pipe_has_a_fixed_width_unless_columns_says_otherwise(environ: dict[str, str], width: int) -> None:
    options = options_for(io.StringIO(), environ=environ)
    assert (options.width, options.color) == (width, False)


@pytest.mark.parametrize("name", ["table", "json", "markdown"])
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8"])
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_no_encoding_is_too_poor(kind: str, encoding: str, name: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    print_view(ResultView(EVERY_KIND[kind]()), name, stream=stream)
    stream.flush()


def test_a_process_in_an_ascii_locale_prints_the_report() -> None:
    script = (
        "import sys; from regress_gate.model.result import Result; from regress_gate.report import print_view;"
        "from regress_gate.report.views.result_view import ResultView;"
        "print_view(ResultView(Result.model_validate_json(sys.stdin.read())))"
    )
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"PYTHONIOENCODING": "ascii"}
    process = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(failing().model_dump(mode="json")),  # in ASCII, as stdin is here
        capture_output=True,
        text=True,
        env=environ,
        check=True,
    )
    assert process.stdout.isascii()
    assert "vLLM 0.19.0 -> 0.20.1" in process.stdout
    assert "[-1.2, +15.8]" in process.stdout
