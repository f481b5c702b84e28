"""`regress-gate history`: every stored version of a suite on a testbed, and which of them changed something."""

from typing import Any

import click

from regress_gate.cli.options import CONTEXT, history_options, place_options, settings_from, store_options
from regress_gate.cli.output import deliver_view, parse_outputs
from regress_gate.cli.progress import counter_on_stderr
from regress_gate.report import OF_A_REPORT


@click.command(context_settings=CONTEXT, epilog="Example: regress-gate history --metric ttft_median --detect")
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Metric or glob (repeatable) [default: gating]"
)
@click.option("--scenario", "scenarios", metavar="NAME", multiple=True, help="Scenario or glob (repeatable).")
@click.option("--detect", "with_changes", is_flag=True, help="Show which versions changed something.")
@click.option("--improvements", is_flag=True, help="With --detect: report changes for the better too.")
@history_options
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@place_options
@store_options
def history(
    metrics: tuple[str, ...],
    scenarios: tuple[str, ...],
    with_changes: bool,
    improvements: bool,
    format_: str,
    outputs: tuple[str, ...],
    figure: str | None,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> None:
    """Show the series of a suite on a testbed over all stored versions: releases by version, nightlies by date.

    Reads your store, or the shipped baselines if it has no runs. From eight versions on, change points are searched;
    of fewer, neighbours are compared. Exits 0 whatever is found.
    """
    # The statistics are imported here: --help does not need them.
    from regress_gate.app.history import show_history
    from regress_gate.gate.history import HistoryFilter

    settings = settings_from(options)
    files = parse_outputs(outputs, *OF_A_REPORT, format_=format_)
    with counter_on_stderr("looking for changes", quiet=quiet) as advance:
        view = show_history(
            settings, HistoryFilter(metrics, scenarios), detect=with_changes, improvements=improvements, advance=advance
        )
    deliver_view(view, format_, files, figure=figure)
