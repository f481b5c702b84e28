"""`regress-gate watch`: look for new builds, measure them beside the pinned release, follow what got worse."""

import sys
from pathlib import Path
from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    SectionedCommand,
    amount_from,
    deployment_fact_options,
    deployment_options,
    fleet_option,
    measure_options,
    place_options,
    provision_options,
    provisioning_from,
    report_options,
    settings_from,
    store_options,
)
from regress_gate.cli.output import deliver_view, parse_outputs
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.errors import InputError
from regress_gate.report import OF_A_VERDICT


@click.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate watch --once --suite cpu-tiny --variant cpu",
)
@click.option("--once", is_flag=True, help="One visit, then end: what is done anyway, said in a schedule.")
@click.option("--build", "builds", multiple=True, metavar="VERSION", help="Look at this build, not the newest ones.")
@click.option("--check-only", is_flag=True, help="Known issues, changed flags and new threads; no GPU.")
@click.option("--publish", is_flag=True, help="Tell of stored looks: tracking issues, web hook. Measures nothing.")
@click.option(
    "--dry-run/--for-real",
    default=None,
    help="With --publish: only say what would be written, the default on a terminal; or write.",
)
@click.option(
    "--drafts",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="With --publish: draft a record and a report for vLLM of each regression.",
)
@report_options
@place_options
@measure_options
@fleet_option
@provision_options
@deployment_options
@deployment_fact_options
@store_options
def watch(
    once: bool,  # noqa: ARG001 - a schedule says it; there is no other way
    builds: tuple[str, ...],
    check_only: bool,
    publish: bool,
    dry_run: bool | None,
    drafts: Path | None,
    offline: bool,
    on: str | None,
    format_: str,
    outputs: tuple[str, ...],
    quiet: bool,
    verbose: int,
    **options: Any,
) -> int:
    """Look once at the newest release and nightly: measure what is new beside the pinned release, decide, and follow
    regressions from look to look.

    Goes on with a look that was interrupted. With --on, one host of a fleet is the testbed. Exits 0 if nothing is new
    or all passes, 1 if a build fails, 3 if one is not decided or the watch itself lacks something, 4 if one could not
    be measured or no index answered; with --publish 0, or 4 if something could not be told.
    """
    # Measuring imports the HTTP client, the statistics and the database: --help does not need them.
    from regress_gate.app.watch import WatchRequest, visit
    from regress_gate.app.watch_telling import tell

    files = parse_outputs(outputs, *OF_A_VERDICT, format_=format_)
    amount = amount_from(options)
    settings = settings_from(options)
    provisioning = provisioning_from(options, settings)
    if not publish and (dry_run is not None or drafts is not None):
        name = "--drafts" if dry_run is None else "--dry-run" if dry_run else "--for-real"
        raise InputError(f"{name} is for --publish", todo="give --publish too")
    if on is not None and (publish or check_only):
        raise InputError("nothing is measured", where="--on", todo="leave it out")
    if publish:
        if check_only or builds:
            raise InputError("--publish looks at nothing", todo="leave --build and --check-only out")
        if dry_run is None and _is_terminal():
            dry_run = True
            click.echo("regress-gate: note: a dry run, as always on a terminal; --for-real writes", err=True)
        seen = tell(settings, dry_run=bool(dry_run), drafts=drafts)
    else:
        request = WatchRequest(amount, provisioning, builds, check_only=check_only, offline=offline, on=on)
        with progress_on_stderr(quiet=quiet) as progress:
            seen = visit(settings, request, progress)
    deliver_view(seen, format_, files, verbose=verbose > 0, quiet=quiet)
    return seen.exit_code


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()
