"""`regress-gate env`: the virtual environments that versions were provisioned into: list, prune, add.

Container images are in the engine's hands, and are listed and deleted there.
"""

import re
import sys
from typing import Any

import click

from regress_gate.app.provisioning import open_environments, provision_version, prune_environments
from regress_gate.cli.options import (
    CONTEXT,
    format_option,
    provision_options,
    provisioning_from,
    settings_from,
    store_options,
)
from regress_gate.errors import InputError
from regress_gate.report import print_view
from regress_gate.report.views.list_view import environment_size, environments, printable

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate env prune --unused-for 30d")
def env() -> None:
    """Environments that versions were installed into: list, prune, add."""


@env.command("list", context_settings=CONTEXT, epilog="Example: regress-gate env list --format json")
@format_option
@store_options
def list_(format_: str, **options: Any) -> None:
    """List environments, the longest unused first."""
    cache = open_environments(settings_from(options))
    print_view(environments(cache.entries(), cache.state, cache.directory), format_)


@env.command(context_settings=CONTEXT, epilog="Example: regress-gate env prune --unused-for 30d --dry-run")
@click.argument("which", metavar="[ID|VERSION]...", nargs=-1)
@click.option("--unused-for", metavar="TIME", help="Only those unused for so long: 30d, 12h.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@store_options
def prune(which: tuple[str, ...], unused_for: str | None, dry_run: bool, **options: Any) -> None:
    """Delete environments: those that are named, or all --unused-for some time (0d: all).

    One that is in use or being made stays. What is deleted is installed again when it is wanted.
    """
    age = None if unused_for is None else _seconds(unused_for)
    pruned = prune_environments(open_environments(settings_from(options)), which, unused_for=age, dry_run=dry_run)
    for entry in pruned.deleted:
        click.echo(f"{'would delete' if dry_run else 'deleted'} {printable(entry.key)} ({environment_size(entry)})")
    for entry in pruned.kept:
        why = "is in use" if entry.in_use else "was used lately"
        click.echo(f"kept {printable(entry.key)}, which {why}", err=True)
    if not pruned.deleted:
        click.echo("nothing was deleted")


@env.command(context_settings=CONTEXT, epilog="Example: regress-gate env add v0.19.1 --variant cpu")
@click.argument("version")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@click.option("--accelerator", metavar="NAME", help="H200, MI300X, cpu…; default: what is found.")
@provision_options
@store_options
def add(
    version: str,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    accelerator: str | None,
    **options: Any,
) -> None:
    """Provision VERSION now and verify it: installs an environment, or pulls an image. Exits 4 when that fails."""
    settings = settings_from(options)
    config = provisioning_from(options, settings)
    progress = None if quiet else lambda line: click.echo(printable(line), err=True)
    ready = provision_version(version, settings, config, accelerator=accelerator, progress=progress)
    click.echo(f"{ready.version} is ready in {ready.seconds:.0f} s: {printable(ready.where)}")
    for name, number in ready.libraries.items() if not quiet and sys.stderr.isatty() else ():
        click.echo(f"  {printable(name)} {printable(number)}", err=True)


def _seconds(text: str) -> float:
    """Of `30d` or `12h`."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", text.strip().lower())
    if match is None:
        raise InputError(f"{text!r} is no length of time", where="--unused-for", todo="write 30d, 12h or 2w")
    return float(match[1]) * _UNITS[match[2]]
