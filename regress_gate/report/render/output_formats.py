"""The formats by name. A new format is one module under `formats/` with a `render` function, and one line here."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, TextIO

from regress_gate.errors import InputError
from regress_gate.report.render.render_options import Renderer, RenderOptions, options_for
from regress_gate.text import did_you_mean, for_encoding

if TYPE_CHECKING:
    from regress_gate.model.result import Result


FORMATS: dict[str, str] = {
    "table": "regress_gate.report.formats.table",
    "json": "regress_gate.report.formats.json",
    "markdown": "regress_gate.report.formats.markdown",
}
"""Format name to the module that renders it; the module is imported on first use."""


def render(result: Result, format: str = "table", options: RenderOptions | None = None) -> str:  # noqa: A002 - the flag's name
    """The report in that format, ending in a newline. Raises InputError for a format that does not exist."""
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}" + did_you_mean(format, FORMATS), where="--format")
    renderer: Renderer = import_module(FORMATS[format]).render
    return renderer(result, options or RenderOptions())


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
