"""`regress-gate bisect`: the build between two versions that brought a change."""

from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    MEASURING,
    SectionedCommand,
    fleet_option,
    place_options,
    provision_options,
    provisioning_from,
    search_amount_options,
    search_options,
    section,
    settings_from,
    store_options,
)
from regress_gate.cli.output import deliver_view, parse_outputs
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.errors import ExitCode, InputError
from regress_gate.report import Source


@click.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate bisect v0.19.1 v0.24.0 --suite cpu-tiny --metric peak_memory --variant cpu",
)
@click.argument("good")
@click.argument("bad")
@click.option("--scenario", metavar="NAME", help="Of the suite; needless if it has one.")
@click.option("--metric", required=True, metavar="NAME", help="That changed; or `failure`: servers crash or hang.")
@click.option("--improvement", "is_improvement", is_flag=True, help="Search for what made it better.")
@click.option("--candidate", "chosen", multiple=True, metavar="VERSION", help="Between the two, in order (repeatable).")
@click.option("--releases-only", is_flag=True, help="Do not go on among the commits between two releases.")
@search_options
@click.option("-v", "--verbose", count=True, help="Show every run; -vv adds tracebacks.")
@click.option("-q", "--quiet", is_flag=True, help="Print no report; the exit code and --output say it all.")
@click.option("--offline", is_flag=True, help="Ask no index of packages and not GitHub; versions are still installed.")
@place_options
@section(MEASURING, click.option("--plan", "plan_only", is_flag=True, help="Say what it would take, by simulation."))
@search_amount_options
@fleet_option
@provision_options
@store_options
def bisect(
    good: str,
    bad: str,
    plan_only: bool,
    format_: str,
    outputs: tuple[str, ...],
    figure: str | None,
    verbose: int,
    quiet: bool,
    **options: Any,
) -> int:
    """Find the build that brought a change between GOOD, which is without it, and BAD, which has it.

    Measures one server start at a time, chooses each by what all runs so far say, and ends when one place has 95 %.
    Goes on with a search that was interrupted; stored runs count. Between two releases it searches the releases, and
    then the commits between two of them that have wheels. With --on, one host makes all runs: that of --testbed, or the
    first. Exits 0 if the build was found, 3 if not.
    """
    # Measuring imports the HTTP client, the statistics and the database: --help does not need them.
    from regress_gate.app import bisect as search
    from regress_gate.app.settings import MeasurementAmount

    files = parse_outputs(outputs, Source.VIEW, Source.FIGURES, format_=format_)
    if plan_only and options["on"] is not None:
        raise InputError("--plan measures nothing", where="--on", todo="leave it out")
    if plan_only and outputs:
        raise InputError("--plan prints a plan and writes no file", where="--output", todo="leave it out")
    names = ("budget", "trials", "ready_within", "wait_for_machine", "driver", "lock_clocks")
    amount = MeasurementAmount(**{name: options.pop(name) for name in names})
    settings = settings_from(options)
    request = search.BisectRequest(
        good,
        bad,
        options.pop("metric"),
        options.pop("scenario"),
        amount,
        provisioning_from(options, settings),
        **options,
    )
    if plan_only:
        with progress_on_stderr(quiet=quiet) as progress:
            plan = search.plan_bisect(settings, request, progress)
        deliver_view(plan, format_, [], quiet=quiet)
        return ExitCode.PASS
    with progress_on_stderr(quiet=quiet) as progress:
        report = search.bisect(settings, request, progress)
    deliver_view(report, format_, files, verbose=verbose > 0, quiet=quiet, figure=figure)
    return report.exit_code
