"""`regress-gate report`: stored runs in forms that other programs read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.options import CONTEXT, place_options, settings_from, store_options
from regress_gate.errors import InputError, NoDataError

if TYPE_CHECKING:
    from regress_gate.model.run import Run

FORMATS = ("llm-d", "long", "long-json")


@click.command(context_settings=CONTEXT, epilog="Example: regress-gate report v0.19.1 --format llm-d --to reports/")
@click.argument("versions", nargs=-1, required=True, metavar="VERSION...")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="llm-d", show_default=True,
    help="llm-d: a benchmark report 0.2.1 for each trial. long: a CSV table with one value a row; long-json: as JSON.",
)  # fmt: skip
@click.option(
    "--to", "directory", type=click.Path(path_type=Path, file_okay=False), help="Folder; default: standard output."
)
@place_options
@store_options
def report(versions: tuple[str, ...], format_: str, directory: Path | None, **options: Any) -> None:
    """Write the stored runs of versions for other programs; `regress-gate import` reads what is written.

    Statistics are written, not single requests. Runs that failed or are void are left out.
    """
    settings = settings_from(options)
    from regress_gate.report.render.run_formats import render_runs, run_files
    from regress_gate.store.combined import open_combined_store

    with open_combined_store(str(settings.store_url.value)) as library:
        runs = [run for version in versions for run in _runs(library, version, settings)]
    if directory is None:
        click.echo(render_runs(runs, format_), nl=False)
        return
    from regress_gate.files import write_output_file

    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made ({error.strerror})", where=directory) from None
    for name, text in run_files(runs, format_):
        write_output_file(directory / name, text)
        click.echo(str(directory / name))


def _runs(library: Any, version: str, settings: Any) -> "list[Run]":
    """Those that count. Raises NoDataError."""
    from regress_gate.model.version import Version

    found = [
        run
        for run in library.runs(version=Version.parse(version), testbed=settings.testbed.value)
        if settings.suite.value in (None, run.suite.name, str(run.suite))
    ]
    counting = [run for run in found if run.trials and run.void is None]
    if not counting:
        raise NoDataError(f"no stored runs for {version}; see `regress-gate baseline list`")
    if left_out := len(found) - len(counting):
        click.echo(f"{version}: {left_out} of {len(found)} runs failed or are void, left out", err=True)
    return counting
