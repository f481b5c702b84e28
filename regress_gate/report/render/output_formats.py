"""The output formats by name. A new format is one module with its function, and one line here."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, TextIO

from regress_gate.errors import InputError
from regress_gate.report.document import View
from regress_gate.report.render.render_options import RenderOptions, options_for
from regress_gate.text import did_you_mean, for_encoding


class Source(Enum):
    """What a format is made from."""

    VIEW = "view"
    """The result of a command: `render(view, options) -> str`."""
    RUNS = "runs"
    """Stored runs: a `run_formats.RunFormat`."""
    RECORDS = "records"
    """Records of known issues: `render(records) -> str`."""


@dataclass(frozen=True, slots=True)
class OutputFormat:
    target: str
    """`module:name`; the module is imported on first use."""
    source: Source = Source.VIEW

    def load(self) -> Any:
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


FORMATS: dict[str, OutputFormat] = {
    "table": OutputFormat("regress_gate.report.render.terminal:render"),
    "json": OutputFormat("regress_gate.report.render.json:render"),
    "markdown": OutputFormat("regress_gate.report.render.markdown:render"),
    "llm-d": OutputFormat("regress_gate.report.render.llm_d_report:FORMAT", Source.RUNS),
    "long": OutputFormat("regress_gate.report.render.long_table:CSV", Source.RUNS),
    "long-json": OutputFormat("regress_gate.report.render.long_table:JSON", Source.RUNS),
    "csv": OutputFormat("regress_gate.report.render.spreadsheet:CSV", Source.RUNS),
    "parquet": OutputFormat("regress_gate.report.render.spreadsheet:PARQUET", Source.RUNS),
    "xlsx": OutputFormat("regress_gate.report.render.spreadsheet:XLSX", Source.RUNS),
    "osv": OutputFormat("regress_gate.report.render.json:render_osv", Source.RECORDS),
}


def format_names(*sources: Source) -> tuple[str, ...]:
    """The choices of `--format` and of `--output`; by default those that a view is made into."""
    return tuple(name for name, format_ in FORMATS.items() if format_.source in (sources or (Source.VIEW,)))


def find_format(name: str, source: Source = Source.VIEW, *, where: str = "--format") -> OutputFormat:
    """Raises InputError for a format that does not exist."""
    names = format_names(source)
    if name not in names:
        raise InputError(f"unknown format {name!r}" + did_you_mean(name, names), where=where)
    return FORMATS[name]


def render(view: View, format_: str = "table", options: RenderOptions | None = None) -> str:
    """The report in that format, ending in a newline. Raises InputError for a format that does not exist."""
    text: str = find_format(format_).load()(view, options or RenderOptions())
    return text


def print_view(view: View, format_: str = "table", *, stream: TextIO | None = None, verbose: bool = False) -> None:
    """Write the report to the stream (stdout by default), fitted to it. Never fails for want of a sign."""
    stream = sys.stdout if stream is None else stream
    options = options_for(stream, verbose=verbose)
    stream.write(for_encoding(render(view, format_, options), options.encoding))
