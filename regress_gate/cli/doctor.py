"""`regress-gate doctor`: what is missing or stale, and what to do about it."""

from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    deployment_options,
    format_option,
    place_options,
    settings_from,
    store_options,
)
from regress_gate.report import print_view


@click.command(epilog="Example: regress-gate doctor --offline", context_settings=CONTEXT)
@deployment_options
@place_options
@store_options
@format_option
@click.option("--offline", is_flag=True, help="Use no network.")
@click.option("-v", "--verbose", is_flag=True, help="Show what is fine in full, too.")
def doctor(format_: str, offline: bool, verbose: bool, **options: Any) -> int:
    """Say what is missing or stale: configuration, store, machine, records, tables, workflows.

    Exits 0 when nothing is, 3 when something is stale or unknown, so that a pass says less than it seems to, 2 when a
    file of yours is broken, 4 when the store cannot be read. What is only not there yet is a note.
    """
    from regress_gate.app.doctor import examine  # with store, drivers and GitHub's client
    from regress_gate.report.views.doctor_view import DoctorView

    view = DoctorView(examine(settings_from(options), offline=offline))
    print_view(view, format_, verbose=verbose)
    return view.exit_code
