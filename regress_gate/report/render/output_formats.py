"""The output formats by name, and what is known of the reader: width, colours and signs of the terminal, size limits.

A new format is one module with its function, and one line in `FORMATS`. A format's module is imported on first use.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO

from regress_gate.errors import InputError
from regress_gate.report.document import View
from regress_gate.text import did_you_mean, for_encoding, without_workflow_commands

if TYPE_CHECKING:
    from regress_gate.report.findings import Findings

COMMENT_LIMIT = 65_536
"""Largest comment that GitHub accepts. It counts characters; the bytes are never fewer, so they are counted here."""
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
    figure: str | None = None
    """Which picture, for formats that hold one; None: the first."""


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


class Source(Enum):
    """What a format is made from."""

    VIEW = "view"
    """The result of a command: `render(view, options) -> str`."""
    FINDINGS = "findings"
    """The cases and findings of a view that has some: `render(view, options) -> str`."""
    FIGURES = "figures"
    """The pictures of a result: `render(view, options) -> str`, or bytes."""
    RUNS = "runs"
    """Stored runs: a `run_tables.RunFormat`."""
    RECORDS = "records"
    """Records of known issues: `render(records) -> str`."""


OF_A_VERDICT = (Source.VIEW, Source.FINDINGS)
"""What a command can write in whose report something passes or fails."""
OF_A_REPORT = (*OF_A_VERDICT, Source.FIGURES)
"""What a command can write that has pictures as well; a command that only lists has neither."""


COMPARISON_FIGURES = {
    "intervals": "Change of each gated series against its margin",
    "runs": "Every run in the order of time",
    "distributions": "How long requests take, at each percentile",
    "loads": "Throughput against latency, load by load",
    "since": "Since which stored version",
}
"""The pictures of a comparison by the names that `--figure` takes, with their titles."""
HISTORY_FIGURES = {"history": "Series and where they changed"}
NOISE_FIGURES = {"noise": "Noise of each series between server starts"}


@dataclass(frozen=True, slots=True)
class OutputFormat:
    target: str
    """`module:name`; the module is imported on first use."""
    source: Source = Source.VIEW
    is_binary: bool = False
    """Whether a view becomes bytes, which no terminal shows. Of formats of runs, `RunFormat` says it."""
    needs: str = ""
    """A module of an extra that has the format's name."""

    def load(self) -> Any:
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


FORMATS: dict[str, OutputFormat] = {
    "table": OutputFormat("regress_gate.report.render.terminal:render"),
    "json": OutputFormat("regress_gate.report.render.json:render"),
    "markdown": OutputFormat("regress_gate.report.render.markdown:render"),
    "html": OutputFormat("regress_gate.report.render.html:render"),
    "junit": OutputFormat("regress_gate.report.render.junit:render", Source.FINDINGS),
    "sarif": OutputFormat("regress_gate.report.render.sarif:render", Source.FINDINGS),
    "github": OutputFormat("regress_gate.report.render.github:render", Source.FINDINGS),
    "llm-d": OutputFormat("regress_gate.report.render.llm_d_report:FORMAT", Source.RUNS),
    "long": OutputFormat("regress_gate.report.render.run_tables:LONG_CSV", Source.RUNS),
    "long-json": OutputFormat("regress_gate.report.render.run_tables:LONG_JSON", Source.RUNS),
    "csv": OutputFormat("regress_gate.report.render.run_tables:CSV", Source.RUNS),
    "parquet": OutputFormat("regress_gate.report.render.run_tables:PARQUET", Source.RUNS),
    "xlsx": OutputFormat("regress_gate.report.render.run_tables:XLSX", Source.RUNS),
    "osv": OutputFormat("regress_gate.report.render.osv:render", Source.RECORDS),
    "svg": OutputFormat("regress_gate.report.render.picture:render_svg", Source.FIGURES),
    "png": OutputFormat(
        "regress_gate.report.render.picture:render_png", Source.FIGURES, is_binary=True, needs="resvg_py"
    ),
}


def format_names(*sources: Source) -> tuple[str, ...]:
    """The choices of `--format` and of `--output`; by default those that a view is made into."""
    return tuple(name for name, format_ in FORMATS.items() if format_.source in (sources or (Source.VIEW,)))


def find_format(name: str, *sources: Source, where: str = "--format") -> OutputFormat:
    """By default among those that any view is made into.

    Raises InputError for a format that does not exist, or of which the package is not installed.
    """
    names = format_names(*sources)
    if name not in names:
        raise InputError(f"unknown format {name!r}" + did_you_mean(name, names), where=where)
    found = FORMATS[name]
    if found.needs and find_spec(found.needs) is None:
        raise InputError(
            f"{name} needs a package that is not installed",
            where=where,
            todo=f"pip install 'vllm-regress-gate[{name}]'",
        )
    return found


def check_standard_output(name: str, stream: TextIO, *sources: Source) -> None:
    """Raises InputError for a format that cannot be written to that stream."""
    if find_format(name, *sources).is_binary and stream.isatty():
        todo = f"write --output {name}:FILE, or redirect the output to a file"
        raise InputError(f"{name} is binary and cannot be printed on a terminal", where="--format", todo=todo)


def findings_of(view: View, format_: str) -> Findings:
    """What the formats of tests, alerts and annotations are made from. Raises InputError if the view has none."""
    if (found := view.findings()) is None:
        what = f"{format_} is for reports in which something passes or fails"
        raise InputError(what, where="--format", todo=f"choose {', '.join(format_names())}")
    return found


def render(view: View, format_: str = "table", options: RenderOptions | None = None) -> str:
    """The report in a format of text, ending in a newline. Raises InputError for a format that does not exist."""
    text = render_content(view, format_, options)
    assert isinstance(text, str), f"{format_} is binary"  # noqa: S101 - a mistake of the caller
    return text


def render_content(view: View, format_: str, options: RenderOptions | None = None) -> str | bytes:
    """`render` for any format: bytes for one that is binary."""
    content: str | bytes = find_format(format_, *OF_A_REPORT).load()(view, options or RenderOptions())
    return content


def print_view(
    view: View,
    format_: str = "table",
    *,
    stream: TextIO | None = None,
    verbose: bool = False,
    figure: str | None = None,
) -> None:
    """Write the report to the stream (stdout by default), fitted to it. Never fails for want of a sign.

    Raises InputError for a binary format and a terminal.
    """
    stream = sys.stdout if stream is None else stream
    check_standard_output(format_, stream, *OF_A_REPORT)
    options = replace(options_for(stream, verbose=verbose), figure=figure)
    content = render_content(view, format_, options)
    if isinstance(content, bytes):
        stream.flush()
        stream.buffer.write(content)
    else:
        text = for_encoding(content, options.encoding)
        stream.write(text if format_ == "github" else without_workflow_commands(text))
