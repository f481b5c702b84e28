"""What is known of the reader: the width, colours and signs of the terminal, the size limit of the place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

COMMENT_LIMIT = 65_536
"""What GitHub accepts as one comment. It counts characters; counting bytes is never less, and one rule fits both."""
JOB_SUMMARY_LIMIT = 1_048_576
"""What GitHub accepts as the summary of one step, in bytes."""


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """A format uses what concerns it and ignores the rest."""

    verbose: bool = False
    """Show everything in full."""
    width: int = 80
    """Columns of the terminal; below 40 the table stops shrinking."""
    color: bool = False
    """Whether escape sequences for colour may be written."""
    encoding: str = "utf-8"
    """What the reader's terminal can show; signs outside it are replaced by their ASCII likeness."""
    max_bytes: int = COMMENT_LIMIT
    """The size that a document for GitHub must not exceed."""


DEFAULT_WIDTH = 80
"""The width if the stream is no terminal: the same everywhere, so that piped reports can be compared."""


def options_for(stream: TextIO, *, verbose: bool = False, environ: Mapping[str, str] | None = None) -> RenderOptions:
    """How to write to that stream: colour only on a terminal that wants it, COLUMNS before the terminal's own width."""
    environ = os.environ if environ is None else environ
    is_terminal = stream.isatty()
    columns = environ.get("COLUMNS", "")
    width = int(columns) if columns.isascii() and columns.isdigit() else 0
    return RenderOptions(
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
