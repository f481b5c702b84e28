"""Writing results: to standard output in one format, and to files in any."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.files import append_output_file, write_output_file

if TYPE_CHECKING:
    from regress_gate.model.result import Result
    from regress_gate.report import Source
    from regress_gate.report.document import View
    from regress_gate.report.findings import Findings

_DELIVERED = "regress_gate.delivered"
"""In the context of a command: its report is written."""


def parse_outputs(outputs: tuple[str, ...], *sources: "Source", format_: str = "table") -> list[tuple[str, Path]]:
    """Read `FORMAT:PATH` pairs before any work is done; `sources` of the formats as for `find_format`.

    If the command fails later, those of its reports say so for which a workflow waits: a test report gets a case with
    the error, and annotations get one; the file of a former run would be taken for this one's. `format_` is that of
    standard output. Raises InputError for an unknown format or a missing path.
    """
    from regress_gate.report import find_format  # `main` imports this module, and --help renders nothing

    parsed = []
    for output in outputs:
        name, colon, path = output.partition(":")
        if not colon or not path:
            raise InputError(f"{output!r} names no file", where="--output", todo="write FORMAT:PATH")
        if path == "-":
            raise InputError("- is no file", where="--output", todo="use --format for standard output")
        find_format(name, *sources, where="--output")
        parsed.append((name, Path(path)))
    if (context := click.get_current_context(silent=True)) is not None:
        context.with_resource(_reports_of_a_failure(context, parsed, format_))
    return parsed


def deliver(
    result: "Result",
    format_: str,
    outputs: list[tuple[str, Path]],
    *,
    verbose: bool = False,
    quiet: bool = False,
    figure: str | None = None,
) -> None:
    """Write a result: the files first, so that a closed terminal loses nothing, then standard output."""
    from regress_gate.report.views.result_view import ResultView  # as above

    deliver_view(ResultView(result), format_, outputs, verbose=verbose, quiet=quiet, figure=figure)


def deliver_view(
    view: "View",
    format_: str,
    outputs: list[tuple[str, Path]],
    *,
    verbose: bool = False,
    quiet: bool = False,
    figure: str | None = None,
) -> None:
    """`deliver` for any view. `figure`: the picture for formats that hold one."""
    from regress_gate.report import RenderOptions, print_view, render_content  # as above

    with _warnings_as_notes():
        for name, path in outputs:
            write_output_file(path, render_content(view, name, RenderOptions(verbose=verbose, figure=figure)))
    if (context := click.get_current_context(silent=True)) is not None:
        context.meta[_DELIVERED] = True
    formats = {name for name, _ in outputs} | (set() if quiet else {format_})
    if "github" in formats and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        _append_summary(view, Path(summary), verbose=verbose)
    if quiet or sys.stdout is None:
        return
    try:
        with _warnings_as_notes():
            print_view(view, format_, verbose=verbose, figure=figure)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()  # the reader has what it wanted; the decision stands


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(each.message) for each in caught):
        click.echo(f"regress-gate: note: {text}", err=True)


def _append_summary(view: "View", path: Path, *, verbose: bool) -> None:
    """Add the report to the summary of the workflow's step, after what stands there and within GitHub's limit."""
    from regress_gate.report import JOB_SUMMARY_LIMIT, RenderOptions, render  # as above

    try:
        room = JOB_SUMMARY_LIMIT - path.stat().st_size - 1
    except OSError:
        room = JOB_SUMMARY_LIMIT  # not made yet
    text = render(view, "markdown", RenderOptions(verbose=verbose, max_bytes=room))
    if not append_output_file(path, text, JOB_SUMMARY_LIMIT):
        click.echo("regress-gate: warning: the summary of this step is full: the report is not added to it", err=True)


@contextmanager
def _reports_of_a_failure(context: click.Context, outputs: list[tuple[str, Path]], format_: str) -> Iterator[None]:
    try:
        yield
    except (click.exceptions.Exit, click.exceptions.Abort):
        raise
    except Exception as error:
        if not context.meta.get(_DELIVERED):
            _report_failure(_failure(context.command_path, error), outputs, format_)
        raise


def _report_failure(found: "Findings", outputs: list[tuple[str, Path]], format_: str) -> None:
    """SARIF is left out: a file without results would close every alert of the runs before."""
    from regress_gate.report.render import github, junit  # as above

    for name, path in outputs:
        if name in ("junit", "github"):
            with suppress(InputError):  # the error that is reported may be that this file cannot be written
                write_output_file(path, (junit if name == "junit" else github).write(found))
    if format_ in ("junit", "github") and sys.stdout is not None:
        with suppress(OSError):
            click.echo((junit if format_ == "junit" else github).write(found), nl=False)


def _failure(command: str, error: Exception) -> "Findings":
    from regress_gate.report.findings import Case, Finding, Findings, Level, Outcome, Rule  # as above

    code, text = ExitCode.COULD_NOT_MEASURE, str(error) or type(error).__name__
    if isinstance(error, RegressGateError):
        code = ExitCode(error.exit_code)
    elif isinstance(error, click.ClickException):
        code, text = ExitCode.USAGE, error.format_message()
    titles = {ExitCode.NO_DATA: "no stored data", ExitCode.USAGE: "an input cannot be used"}
    kind, title = code.name.lower(), titles.get(code, "could not measure")
    rule = Rule(kind, title, Level.ERROR)
    return Findings(
        name=command,
        headline=title,
        advice=f"Nothing was decided (exit code {code.value}).",
        level=Level.ERROR,
        cases=(Case("regress-gate", "decision", Outcome.ERROR, kind, text),),
        findings=(Finding(rule, Level.ERROR, f"regress-gate: {title}", text, fingerprint=(kind,)),),
        category=command,
    )


def silence_stdout() -> None:
    """The reader has closed the pipe (`| head`): discard what is still buffered, without an error message at exit."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
