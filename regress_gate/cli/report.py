"""`regress-gate report`: a stored result shown again, or stored runs in forms that other programs read."""

import sys
from pathlib import Path
from typing import Any

import click

from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import stored_runs
from regress_gate.cli.options import (
    CONTEXT,
    SectionedCommand,
    figure_option,
    output_option,
    place_options,
    section,
    settings_from,
    store_options,
)
from regress_gate.cli.output import deliver_view, parse_outputs
from regress_gate.errors import InputError, NoDataError
from regress_gate.files import write_output_file
from regress_gate.model.run import Run
from regress_gate.model.version import Version
from regress_gate.report import (
    COMPARISON_FIGURES,
    HISTORY_FIGURES,
    NOISE_FIGURES,
    OF_A_REPORT,
    Source,
    find_format,
    format_names,
)
from regress_gate.report.views.list_view import printable

RESULT = "Of a stored result"
RUNS = "Of stored runs"


@click.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate report gate.json --format markdown, or: regress-gate report v0.19.1 --to reports/",
)
@click.argument("sources", nargs=-1, required=True, metavar="RESULT.json | VERSION...")
@click.option(
    "--format",
    "format_",
    type=click.Choice(format_names(*OF_A_REPORT, Source.RUNS)),
    help=f"Of a result: {', '.join(format_names(*OF_A_REPORT))} [default: table]. Of runs: llm-d, a benchmark report "
    "0.2.1 for each trial; long, long-json, a table with one value a row; csv, parquet, xlsx, the same table for "
    "pandas and spreadsheets [default: llm-d].",
)
@section(
    RESULT,
    output_option,
    figure_option(*COMPARISON_FIGURES, *HISTORY_FIGURES, *NOISE_FIGURES),
    click.option("-v", "--verbose", count=True, help="Show every series and issue; -vv adds tracebacks."),
    click.option("-q", "--quiet", is_flag=True, help="Print no report; --output says it all."),
)
@section(
    RUNS,
    click.option(
        "--to", "directory", type=click.Path(path_type=Path, file_okay=False), help="Folder; default: standard output."
    ),
    click.option(
        "--raw",
        is_flag=True,
        help="With long and csv: no quote before texts like =1+1. Never open that in a spreadsheet.",
    ),
)
@place_options
@store_options
def report(
    sources: tuple[str, ...],
    format_: str | None,
    outputs: tuple[str, ...],
    figure: str | None,
    verbose: int,
    quiet: bool,
    directory: Path | None,
    raw: bool,
    **options: Any,
) -> None:
    """Show a stored result again in any format, or write the stored runs of versions for other programs.

    RESULT.json is what compare, check, history, detect, diff-config, calibrate or audit wrote as JSON, also with an
    earlier regress-gate; `-` is standard input. Exits 0 if it could be shown: the decision in it was made before, and
    is its `exit_code`.

    Of VERSIONs, statistics are written, not single requests. Runs that failed or are void are left out. `regress-gate
    import` reads llm-d, long and long-json.
    """
    if _is_result(sources[0]):
        _check_unused(len(sources) > 1, "one result is shown at a time", "RESULT.json")
        _check_unused(directory is not None or raw, "is for stored runs, not for a result", "--to, --raw")
        _check_unused(any(options.values()), "is for stored runs, not for a result", "--store, --suite, --testbed")
        _show_result(sources[0], format_ or "table", outputs, verbose=verbose > 0, quiet=quiet, figure=figure)
        return
    _check_unused(bool(outputs), "is for a stored result", "--output", "use --to for runs")
    _write_runs(sources, format_ or "llm-d", directory, settings_from(options), raw=raw)


def _check_unused(is_given: bool, what: str, where: str, todo: str | None = None) -> None:
    if is_given:
        raise InputError(what, where=where, todo=todo or "leave it out")


def _is_result(source: str) -> bool:
    """A file by its name, or because it is one; a version in all other cases."""
    if source == "-" or source.endswith(".json") or "/" in source:
        return True
    try:
        Version.parse(source)
    except InputError:
        return Path(source).is_file()
    return False


def _show_result(
    source: str, format_: str, outputs: tuple[str, ...], *, verbose: bool, quiet: bool, figure: str | None
) -> None:
    from regress_gate.report.stored import MAX_BYTES, read_stored_file, read_stored_view  # with pydantic

    find_format(format_, *OF_A_REPORT)
    files = parse_outputs(outputs, *OF_A_REPORT, format_=format_)
    if source == "-":
        content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)
        view = read_stored_view(content, "standard input")
    else:
        view = read_stored_file(Path(source))
    deliver_view(view, format_, files, verbose=verbose, quiet=quiet, figure=figure)


def _write_runs(
    versions: tuple[str, ...], format_: str, directory: Path | None, settings: Settings, *, raw: bool
) -> None:
    run_format = find_format(format_, Source.RUNS).load()
    runs = [run for version in versions for run in _runs_that_count(version, settings)]
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
