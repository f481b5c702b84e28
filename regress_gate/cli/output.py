"""Writing results: to standard output in one format, and to files in any."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regress_gate.errors import InputError
from regress_gate.files import write_output_file

if TYPE_CHECKING:
    from regress_gate.model.result import Result
    from regress_gate.report import Source
    from regress_gate.report.document import View


def parse_outputs(outputs: tuple[str, ...], *sources: "Source") -> list[tuple[str, Path]]:
    """Read `FORMAT:PATH` pairs before any work is done; `sources` of the formats as for `find_format`.

    Raises InputError for an unknown format or a missing path.
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


def silence_stdout() -> None:
    """The reader has closed the pipe (`| head`): discard what is still buffered, without an error message at exit."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
