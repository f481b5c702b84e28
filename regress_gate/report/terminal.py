"""Where a report is printed: what the stream and the environment say about width, colour and signs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, TextIO

from regress_gate.report.interface import Options
from regress_gate.report.registry import render
from regress_gate.report.text import for_encoding

if TYPE_CHECKING:
    from regress_gate.model.result import Result

DEFAULT_WIDTH = 80
"""The width of whatever is no terminal: the same everywhere, so that piped reports can be compared."""


def options_for(stream: TextIO, *, verbose: bool = False, environ: Mapping[str, str] | None = None) -> Options:
    """How to write to that stream: colour only on a terminal that wants it, COLUMNS before the terminal's own width."""
    environ = os.environ if environ is None else environ
    is_terminal = stream.isatty()
    columns = environ.get("COLUMNS", "")
    width = int(columns) if columns.isascii() and columns.isdigit() else 0
    return Options(
        verbose=verbose,
        width=width or (_terminal_width(stream) if is_terminal else DEFAULT_WIDTH),
        # NO_COLOR counts when it is set and not empty: https://no-color.org
        color=is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb",
        encoding=getattr(stream, "encoding", None) or "utf-8",
    )


def _terminal_width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def print_result(
    result: Result,
    format: str = "table",  # noqa: A002 - the flag's name
    *,
    stream: TextIO | None = None,
    verbose: bool = False,
) -> None:
    """Write the report to the stream (stdout by default), fitted to it. Never fails for want of a sign."""
    stream = sys.stdout if stream is None else stream
    options = options_for(stream, verbose=verbose)
    stream.write(for_encoding(render(result, format, options), options.encoding))
