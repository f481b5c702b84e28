"""`regress-gate report`: stored runs in forms that other programs read."""

import sys
from pathlib import Path
from typing import Any

import click

from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import stored_runs
from regress_gate.cli.options import CONTEXT, place_options, settings_from, store_options
from regress_gate.errors import InputError, NoDataError
from regress_gate.files import write_output_file
from regress_gate.model.run import Run
from regress_gate.model.version import Version
from regress_gate.report import Source, find_format, format_names
from regress_gate.report.views.list_view import printable


@click.command(context_settings=CONTEXT, epilog="Example: regress-gate report v0.19.1 --format llm-d --to reports/")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
@click.option(
    "--format", "format_", type=click.Choice(format_names(Source.RUNS)), default="llm-d", show_default=True,
    help="llm-d: a benchmark report 0.2.1 for each trial. long, long-json: a table with one value a row. "
    "csv, parquet, xlsx: the same table for pandas and spreadsheets.",
)  # fmt: skip
@click.option(
    "--to", "directory", type=click.Path(path_type=Path, file_okay=False), help="Folder; default: standard output."
)
@click.option(
    "--raw", is_flag=True, help="With long and csv: no quote before texts like =1+1. Never open that in a spreadsheet."
)
@place_options
@store_options
def report(versions: tuple[str, ...], format_: str, directory: Path | None, raw: bool, **options: Any) -> None:
    """Write the stored runs of versions for other programs; `regress-gate import` reads llm-d, long and long-json.

    Statistics are written, not single requests. Runs that failed or are void are left out.
    """
    settings = settings_from(options)
    runs = [run for version in versions for run in _runs_that_count(version, settings)]
    run_format = find_format(format_, Source.RUNS).load()
    if raw:
        run_format = run_format.raw
        if run_format is None:
            what = f"{format_} quotes no text" if format_ != "xlsx" else "xlsx is for spreadsheets"
            raise InputError(what, where="--raw", todo="use it with --format long or csv")
    if directory is None:
        if run_format.is_binary and sys.stdout.isatty():
            raise InputError(
                f"{format_} is binary and cannot be printed on a terminal", where="--format", todo="give --to DIRECTORY"
            )
        click.echo(run_format.content(runs), nl=False)
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made ({error.strerror})", where=directory) from None
    for name, content in run_format.files(runs):
        write_output_file(directory / name, content)
        click.echo(printable(directory / name))


def _runs_that_count(version: str, settings: Settings) -> list[Run]:
    """Raises NoDataError if there is none."""
    stored = stored_runs(Version.parse(version), settings)
    counted = [run for run in stored if run.trials and run.void is None]
    if not counted:
        raise NoDataError(f"no stored runs for {version}; see `regress-gate baseline list`")
    if left_out := len(stored) - len(counted):
        click.echo(f"{version}: {left_out} of {len(stored)} runs failed or are void, left out", err=True)
    return counted
