"""`regress-gate calibrate`: measure a version against itself, to know the noise of the measurement."""

from pathlib import Path
from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    SectionedCommand,
    amount_from,
    fleet_option,
    measure_options,
    measuring_settings,
    noise_options,
    place_options,
    provision_options,
    provisioning_from,
    settings_from,
    spool_option,
    store_options,
)
from regress_gate.cli.output import deliver_view, parse_outputs
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.errors import ExitCode
from regress_gate.report import OF_A_REPORT


@click.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate calibrate v0.19.1 --suite cpu-tiny --runs 5 --budget 30m",
)
@click.argument("version")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@noise_options
@place_options
@measure_options
@fleet_option
@spool_option
@provision_options
@store_options
def calibrate(
    version: str,
    format_: str,
    outputs: tuple[str, ...],
    figure: str | None,
    on: str | None,
    spool: Path | None,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> int:
    """Measure VERSION against itself, in blocks as `compare --measure` does, and show how much each series scatters.

    The runs are stored: later plans estimate from them what a number of runs can show. Exits 0; 1 if the gate fails the
    version against itself, which happens by chance in at most 5 % of calibrations (if it fails twice, do not trust
    this machine's numbers); 4 if a server failed or too little was measured. With --on it is one host's noise: that of
    --testbed, or of the first.
    """
    # Measuring imports the HTTP client and the statistics: --help does not need them.
    from regress_gate.app.calibrate import calibrate_version
    from regress_gate.app.fleet import open_fleet
    from regress_gate.report.views.planning_view import CalibrationView

    files = parse_outputs(outputs, *OF_A_REPORT, format_=format_)
    amount = amount_from(options)
    settings = measuring_settings(settings_from(options), spool)
    provisioning = provisioning_from(options, settings)
    with progress_on_stderr(quiet=quiet) as progress, open_fleet(settings, on, progress, one_host=True) as fleet:
        summary = calibrate_version(settings, version, amount, provisioning, progress, fleet=fleet)
    deliver_view(CalibrationView(summary), format_, files, figure=figure)
    if summary["failed_runs"] or summary["runs"] < 2:
        return ExitCode.COULD_NOT_MEASURE
    return ExitCode.FAIL if summary["decision"] == "fail" else ExitCode.PASS
