"""`regress-gate env`: the virtual environments that versions were provisioned into: list, prune, add.

Container images are in the engine's hands, and are listed and deleted there.
"""

import re
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from regress_gate.app.provisioning import environments_directory, find_build, make_provisioner
from regress_gate.app.settings import Settings
from regress_gate.cli.options import (
    CONTEXT,
    format_option,
    provision_options,
    provisioning_from,
    settings_from,
    store_options,
)
from regress_gate.errors import InputError
from regress_gate.model.config import ProvisionMethod
from regress_gate.model.version import Version
from regress_gate.report import print_view
from regress_gate.report.views.list_view import environment_size, environments, printable
from regress_gate.text import did_you_mean

if TYPE_CHECKING:
    from regress_gate.bench.provision.environment_cache import CacheEntry, EnvironmentCache

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate env prune --unused-for 30d")
def env() -> None:
    """Environments that versions were installed into: list, prune, add."""


@env.command("list", context_settings=CONTEXT, epilog="Example: regress-gate env list --format json")
@format_option
@store_options
def list_(format_: str, **options: Any) -> None:
    """List environments, the longest unused first."""
    cache = _cache(settings_from(options))
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
    cache = _cache(settings_from(options))
    if not which and unused_for is None:
        raise InputError("nothing says what to prune", todo="name environments, or how long they were --unused-for")
    age = 0.0 if unused_for is None else _seconds(unused_for)
    entries = cache.entries()
    keys = {entry.key for name in which for entry in _named(name, entries)} if which else None
    gone = cache.prune(unused_for=age, keys=keys, dry_run=dry_run)
    for entry in gone:
        click.echo(f"{'would delete' if dry_run else 'deleted'} {printable(entry.key)} ({environment_size(entry)})")
    for entry in entries:
        if keys is not None and entry.key in keys and entry.key not in {each.key for each in gone}:
            why = "is in use" if entry.in_use else "was used lately"
            click.echo(f"kept {printable(entry.key)}, which {why}", err=True)
    if not gone:
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
    if config.way is ProvisionMethod.COMMAND:
        raise InputError("a launch line of your own needs no provisioning", todo="choose --provision venv or docker")
    accelerator = accelerator or settings.deployment.accelerator
    wanted = find_build(version, settings, config, accelerator=accelerator)
    provisioner = make_provisioner(config, accelerator=accelerator, environ=settings.environment)
    progress = None if quiet else lambda line: click.echo(printable(line), err=True)
    begun = time.monotonic()
    with provisioner.provision(wanted, progress=progress) as environment:
        place = getattr(environment, "path", None) or getattr(environment, "image", "")
        click.echo(f"{environment.version} is ready in {time.monotonic() - begun:.0f} s: {printable(place)}")
        for name, number in environment.libraries.items() if not quiet and sys.stderr.isatty() else ():
            click.echo(f"  {printable(name)} {printable(number)}", err=True)


def _seconds(text: str) -> float:
    """Of `30d` or `12h`."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", text.strip().lower())
    if match is None:
        raise InputError(f"{text!r} is no length of time", where="--unused-for", todo="write 30d, 12h or 2w")
    return float(match[1]) * _UNITS[match[2]]


def _cache(settings: Settings) -> "EnvironmentCache":
    from regress_gate.bench.provision.environment_cache import EnvironmentCache

    return EnvironmentCache(environments_directory(settings.environment))


def _named(name: str, entries: "Sequence[CacheEntry]") -> "list[CacheEntry]":
    """Those that an id, a key or a version means. Raises InputError when there is none."""
    named = [entry for entry in entries if name in (entry.id, entry.key)]
    if named:
        return named
    try:
        wanted = Version.parse(name)
    except InputError:
        wanted = None
    if wanted is not None:
        named = [entry for entry in entries if entry.marker and Version.parse(entry.marker.version).matches(wanted)]
    if not named:
        known = [*(entry.id for entry in entries), *(entry.marker.version for entry in entries if entry.marker)]
        raise InputError(f"no environment is {name!r}{did_you_mean(name, known)}", todo="see `env list`")
    return named
