"""`regress-gate detect`: change points in any table of numbers, with no store and no suite."""

import sys
from pathlib import Path

import click

from regress_gate.cli.options import CONTEXT, history_options
from regress_gate.cli.output import deliver_view, parse_outputs
from regress_gate.cli.progress import counter_on_stderr
from regress_gate.ingest.table import MAX_BYTES
from regress_gate.report import OF_A_REPORT


@click.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate detect nightly.csv --value ttft_ms --min-change 2%",
)
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--time", metavar="COL", help="Column to order by: numbers, dates or versions. [default: see above]")
@click.option("--value", metavar="COL", help="Column of the values. [default: `value`, or the only one of numbers]")
@click.option(
    "--group",
    "groups",
    metavar="COL",
    multiple=True,
    help="Rows with equal values are one series (repeatable).",
)
@click.option("--min-change", metavar="SIZE", help="Smallest change that matters: 2%, or a number in the values' unit.")
@click.option("--direction", type=click.Choice(["lower", "higher"]), help="Which direction is better.")
@click.option("--improvements", is_flag=True, help="With --direction: report changes for the better too.")
@history_options
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
    outputs: tuple[str, ...],
    figure: str | None,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
) -> None:
    """Find steps, ramps and changed scatter in the series of a table.

    FILE is CSV (also with tabs or semicolons), JSON or JSON lines, also as gzip, Parquet or Excel (first sheet); `-` is
    standard input. Without --time, the only column named time, timestamp, date, datetime, day or version orders the
    rows; without such a column they are taken in their order. Rows with the same time are replicates. Exits 0 whatever
    is found.
    """
    files = parse_outputs(outputs, *OF_A_REPORT, format_=format_)
    # The statistics are imported here: --help does not need them.
    from regress_gate.app.detect import detect_in_table, read_table_bytes, read_table_file

    with counter_on_stderr("detecting", quiet=quiet) as advance:
        if file == "-":
            data = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)
            table = read_table_bytes(data, "standard input")
        else:
            table = read_table_file(Path(file))
        report = detect_in_table(
            table,
            value=value,
            time=time,
            groups=groups,
            min_change=min_change,
            direction=direction,
            improvements=improvements,
            advance=advance,
        )
    from regress_gate.report.views.detection_view import DetectionView  # with the statistics

    deliver_view(DetectionView(report), format_, files, figure=figure)
