"""The formats by name. A new format is one module under `formats/` with a `render` function, and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from regress_gate.errors import InputError
from regress_gate.model.nearest import did_you_mean
from regress_gate.report.interface import Options, Renderer

if TYPE_CHECKING:
    from regress_gate.model.result import Result

FORMATS: dict[str, str] = {
    "table": "regress_gate.report.formats.table",
    "json": "regress_gate.report.formats.json",
    "markdown": "regress_gate.report.formats.markdown",
}
"""Format name to the module that renders it; the module is imported on first use."""


def render(result: Result, format: str = "table", options: Options | None = None) -> str:  # noqa: A002 - the flag's name
    """The report in that format, ending in a newline. Raises InputError for a format that does not exist."""
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}" + did_you_mean(format, FORMATS), where="--format")
    renderer: Renderer = import_module(FORMATS[format]).render
    return renderer(result, options or Options())
