"""`regress-gate db`: what the store is, who changed it, what may go by its age; its schema, and a safe copy of it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regress_gate.app.old_files import old_files_text
from regress_gate.cli.options import CONTEXT, Duration, format_option, is_confirmed, settings_from, store_options
from regress_gate.report import print_view
from regress_gate.report.views.list_view import log_entries, printable
from regress_gate.store.store_interface import StoreLocation
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.app.fleet import HostFiles


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate db backup store-2026-11-21.db")
def db() -> None:
    """Care for the store: info, log, prune, migrate, backup."""


@db.command(epilog="Example: regress-gate db info", context_settings=CONTEXT)
@store_options
def info(**options: Any) -> None:
    """Where the store is, its schema revision, its size and what it holds."""
    settings = settings_from(options)
    from regress_gate.store.repository import find_store  # with the database

    url = settings.store_url
    store = find_store(str(url.value))
    if store is None:
        shown = printable(StoreLocation.parse(str(url.value)).shown)
        click.echo(f"{shown}: there is no store yet ({printable(url.source)})")
        return
    with store:
        state = store.info()
    size = "on a server" if state.size is None else f"{state.size / 2**20:.1f} MiB"
    click.echo(f"{printable(state.location)} ({printable(url.source)}), schema {printable(state.revision)}, {size}")
    click.echo(
        f"{plural(state.builds, 'build')}, {plural(state.testbeds, 'testbed')}, {plural(state.suites, 'suite')}, "
        f"{plural(state.runs, 'run')}, "
        f"{plural(state.trials, 'trial')} ({state.samples} with per-request samples), {plural(state.pins, 'pin')}, "
        f"{plural(state.comparisons, 'comparison')}"
    )


@db.command(epilog="Example: regress-gate db log --since 2026-11-01", context_settings=CONTEXT)
@click.option("--since", type=click.DateTime(["%Y-%m-%d"]), help="Only from this day on (UTC).")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most the newest N.")
@format_option
@store_options
def log(since: datetime | None, limit: int, format_: str, **options: Any) -> None:
    """Who pinned, imported, measured, waived, pruned and migrated, and when; the newest first.

    Who it was is what their machine said: REGRESS_GATE_ACTOR, GITHUB_ACTOR or the user. The role is that of PostgreSQL.
    """
    settings = settings_from(options)
    from regress_gate.store.repository import open_store  # with the database

    begin = None if since is None else since.replace(tzinfo=UTC)
    with open_store(str(settings.store_url.value), create=False) as store:
        print_view(log_entries(store.log(since=begin, limit=limit)), format_)


@db.command(epilog="Example: regress-gate db prune --older-than 365d --dry-run", context_settings=CONTEXT)
@click.option("--older-than", type=Duration(), required=True, help="Measured longer ago than this (365d).")
@click.option(
    "--keep", type=click.IntRange(min=0), default=0, help="Keep the newest N versions of each testbed and suite."
)
@click.option("--dry-run", is_flag=True, help="List what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--on", metavar="ENGINE", help="Also logs on the hosts of ray, ray://HEAD, slurm or slurm://PARTITION.")
@store_options
def prune(older_than: float, keep: int, dry_run: bool, yes: bool, on: str | None, **options: Any) -> None:
    """Delete old experiments with their comparisons, and old logs of servers on this machine.

    Whole experiments only. What is pinned stays, with all that was measured beside it or compared with it; so do
    experiments that have not ended, and what a younger comparison rests on. What a killed task of a fleet has left goes
    with the logs.
    """
    from regress_gate.app.baselines import plan_age_pruning  # with the database

    with plan_age_pruning(settings_from(options), older_than, keep, on) as pruning:
        expired = pruning.expired
        for place, runs in expired.places.items():
            where = f"{printable(place.testbed)}, {printable(place.suite)}"
            click.echo(f"{printable(place.version)} on {where}: {plural(runs, 'run')}")
        click.echo(
            f"{plural(len(expired.run_ids), 'run')} of {plural(len(expired.experiments), 'experiment')} and "
            f"{plural(len(expired.comparisons), 'comparison')} from before {expired.before:%Y-%m-%d %H:%M} UTC; "
            f"{old_files_text(pruning.files.counts(), 'this machine')}"
        )
        for host in pruning.hosts:
            _print_host(host)
        for reason, runs in expired.kept.items():
            click.echo(f"kept: {plural(runs, 'run')}, {reason.value}")
        if dry_run or not pruning:
            return
        if not yes and not is_confirmed():
            click.echo("nothing was deleted")
            return
        gone, hosts = pruning.delete()
    click.echo(f"deleted {plural(len(gone.run_ids), 'run')}")
    for host in hosts:
        _print_host(host, "deleted ")


def _print_host(host: "HostFiles", what: str = "") -> None:
    if host.error is None:
        click.echo(f"{what}{old_files_text(host.counts, printable(host.name))}")
    else:
        click.echo(f"regress-gate: note: {printable(host.name)} could not be asked: {printable(host.error)}", err=True)


@db.command(epilog="Example: regress-gate db migrate --store gate.db", context_settings=CONTEXT)
@store_options
def migrate(**options: Any) -> None:
    """Bring an older store to the schema of this program. A store that is current is left alone."""
    settings = settings_from(options)
    from regress_gate.store.database import migrate_store  # with the database

    before, after = migrate_store(str(settings.store_url.value))
    click.echo(
        f"already at schema {after}" if before == after else f"migrated from schema {before or 'none'} to {after}"
    )


@db.command(epilog="Example: regress-gate db backup store-2026-11-21.db", context_settings=CONTEXT)
@click.argument("path", type=click.Path(path_type=Path))
@store_options
def backup(path: Path, **options: Any) -> None:
    """Copy a SQLite store to a new file, while others may go on using it."""
    settings = settings_from(options)
    from regress_gate.store.repository import open_store  # with the database

    with open_store(str(settings.store_url.value), create=False) as store:
        store.backup(path)
    click.echo(f"copied to {printable(path)}")
