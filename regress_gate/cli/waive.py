"""`regress-gate waive`: the waivers of the configuration file, which are added at its end: nothing is rewritten."""

from datetime import datetime
from typing import Any

import click

from regress_gate.app.authoring import add_waiver, ending_waivers, make_waiver, today
from regress_gate.cli.options import CONTEXT, format_option, settings_from, store_options
from regress_gate.errors import ExitCode
from regress_gate.report import print_view
from regress_gate.report.views.list_view import days_left, printable, waivers
from regress_gate.text import plural


@click.group(
    context_settings=CONTEXT,
    epilog="Example: regress-gate waive add 'c8/ttft_p99' --until 2026-12-31 --max-change 0.15 --owner serving "
    "--reason 'accepted until the new router is out'",
)
def waive() -> None:
    """Dated, owned, capped permissions to pass."""


@waive.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate waive add VLLM-41306 --until 2026-12-31 --max-change 0.3 --owner ml-platform "
    "--reason 'we set --moe-backend triton'",
)
@click.argument("finding")
@click.option("--until", required=True, type=click.DateTime(["%Y-%m-%d"]), help="Last day on which it holds.")
@click.option("--max-change", required=True, type=float, help="Largest loss that is waived, 0.15 for 15 %.")
@click.option("--owner", required=True, help="Who answers for it.")
@click.option("--reason", required=True, help="Why it is acceptable.")
@store_options
def add(finding: str, until: datetime, max_change: float, owner: str, reason: str, **options: Any) -> None:
    """Permit FINDING, a series as SCENARIO/METRIC (globs allowed) or a known issue's id."""
    waiver = make_waiver(finding, until=until.date(), max_change=max_change, owner=owner, reason=reason)
    click.echo(f"added to {printable(add_waiver(settings_from(options), waiver))}")


@waive.command("list", epilog="Example: regress-gate waive list", context_settings=CONTEXT)
@format_option
@store_options
def list_(format_: str, **options: Any) -> None:
    """All waivers, with the days that are left."""
    settings = settings_from(options)
    print_view(waivers(settings.waivers, today()), format_)


@waive.command(epilog="Example: regress-gate waive check --within 14", context_settings=CONTEXT)
@click.option(
    "--within", type=click.IntRange(0, 36500), default=0, help="Also fail for waivers that end within N days."
)
@store_options
def check(within: int, **options: Any) -> int:
    """Exit 1 if a waiver has expired, 0 otherwise: for a scheduled job."""
    settings = settings_from(options)
    ending = ending_waivers(settings, within)
    for waiver in ending:
        click.echo(f"{printable(waiver.finding)} ({printable(waiver.owner)}): {days_left(waiver.until, today())}")
    if ending:
        return ExitCode.FAIL
    click.echo(f"{plural(len(settings.waivers), 'waiver')}, none has expired")
    return ExitCode.PASS
