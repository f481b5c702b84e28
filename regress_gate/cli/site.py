"""`regress-gate site`: the static dashboard of a store."""

from pathlib import Path
from typing import Any

import click

from regress_gate.cli.options import CONTEXT, place_options, settings_from, store_options
from regress_gate.cli.progress import counter_on_stderr
from regress_gate.report.views.list_view import printable
from regress_gate.text import plural


@click.command(context_settings=CONTEXT, epilog="Example: regress-gate site --out site/")
@click.option(
    "--out", "directory", type=click.Path(path_type=Path, file_okay=False), required=True,
    help="Folder of the dashboard; made if it is missing.",
)  # fmt: skip
@click.option("--base-url", metavar="URL", help="Where the dashboard will stand, for the links of its feed.")
@click.option("--force", is_flag=True, help="Write into a folder that holds other files; none of them is deleted.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@place_options
@store_options
def site(
    directory: Path,
    base_url: str | None,
    force: bool,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> None:
    """Build a static dashboard of everything that is stored: pages to be opened as files or put on any web server.

    Each suite on each testbed has its series over all versions with their change points, its comparisons and its known
    issues. Addresses stay the same from build to build. The pages load nothing and need no script.
    """
    # The statistics are imported here: --help does not need them.
    from regress_gate.app.site import build_site

    settings = settings_from(options)
    with counter_on_stderr("writing pages", quiet=quiet) as advance:
        built = build_site(settings, directory, base_url=base_url, force=force, advance=advance)
    if built.unreadable:
        cannot = plural(built.unreadable, "comparison")
        click.echo(
            f"regress-gate: note: {cannot} of the store cannot be read: damaged, or of a newer program", err=True
        )
    if quiet:
        return
    places = plural(built.places, "suite on a testbed", "suites on testbeds")
    click.echo(
        f"{printable(built.index)}: {places}, {plural(built.findings, 'finding')}, "
        f"{plural(built.files, 'file')} ({built.changed} new or changed, {built.deleted} deleted)"
    )
