"""`regress-gate detect`: change points in any table of numbers, with no store and no suite."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regress_gate.cli.options import CONTEXT, format_option
from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.gate.table_changes import SmallestChange


@click.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate detect nightly.csv --value ttft_ms --min-change 2%",
)
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--time", metavar="COL", help="Column to order by: numbers, dates or versions. [default: see above]")
@click.option("--value", metavar="COL", help="Column of the values. [default: `value`, or the only one of numbers]")
@click.option("--group", "groups", metavar="COL", multiple=True, help="Rows alike in it are one series (repeatable).")
@click.option("--min-change", metavar="SIZE", help="Smallest change that matters: 2%, or a number in the values' unit.")
@click.option("--direction", type=click.Choice(["lower", "higher"]), help="Which direction is better.")
@click.option("--improvements", is_flag=True, help="With --direction: tell changes for the better too.")
@format_option
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
def detect(
    file: str,
    time: str | None,
    value: str | None,
    groups: tuple[str, ...],
    min_change: str | None,
    direction: str | None,
    improvements: bool,
    format_: str,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
) -> None:
    """Find steps, ramps and changed scatter in the series of a table.

    FILE is CSV (also with tabs or semicolons), JSON or JSON lines, also as gzip; `-` is standard input. Without --time,
    a column named time, timestamp, date, datetime, day or version orders the rows where there is exactly one; else they
    are taken as they stand. Rows of the same time are replicates. Exits 0 whatever was found.
    """
    from regress_gate.cli.progress import counter_on_stderr
    from regress_gate.gate.table_changes import DetectionReport, DetectionRequest, find_changes
    from regress_gate.ingest.table import read_table
    from regress_gate.ingest.table_series import choose_columns, series_of
    from regress_gate.model.metric import Direction
    from regress_gate.report import print_view
    from regress_gate.report.views.detection_view import DetectionView

    least = _least_change(min_change)
    better = None if direction is None else Direction[direction.upper()]
    if improvements and better is None:
        raise InputError("nobody said what is better", where="--improvements", todo="give --direction too")
    asked = DetectionRequest(better, improvements, least)
    with counter_on_stderr("detecting", quiet=quiet) as advance:
        name = "standard input" if file == "-" else file
        table = read_table(_bytes_of(file), name)
        layout = choose_columns(table, value=value, time=time, groups=groups)
        series = series_of(table, layout)
        found = []
        for done, one in enumerate(series):
            if advance is not None:
                advance(done, len(series))
            found.append(find_changes(one, asked))
    print_view(DetectionView(DetectionReport(name, layout, asked, found)), format_)


def _bytes_of(file: str) -> bytes:
    from regress_gate.ingest.table import MAX_BYTES

    if file == "-":
        return b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with Path(file).open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=file) from None


def _least_change(text: str | None) -> "SmallestChange":
    """`2%` is a share of the level; a plain number is in the unit of the values."""
    from math import isfinite

    from regress_gate.gate.table_changes import SmallestChange

    if text is None:
        return SmallestChange()
    number, percent, rest = text.strip().partition("%")
    try:
        size = float(number)
    except ValueError:
        size = -1.0
    if rest.strip() or not isfinite(size) or size < 0:
        raise InputError(f"{text!r} is no size", where="--min-change", todo="write 2%, or a number in the values' unit")
    return SmallestChange(size / 100, True) if percent else SmallestChange(size, False)
