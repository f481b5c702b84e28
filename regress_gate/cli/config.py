"""`regress-gate config`: the settings in force, and the origin of each."""

from datetime import UTC, datetime
from typing import Any

import click

from regress_gate.cli.options import CONTEXT, deployment_options, place_options, settings_from, store_options
from regress_gate.model.policy import DEFAULT_MARGINS, policy_weaknesses, weak_waivers
from regress_gate.report.views.list_view import printable
from regress_gate.store.store_interface import StoreLocation


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate config show")
def config() -> None:
    """The effective configuration and where it comes from."""


@config.command(epilog="Example: regress-gate config show --store gate.db", context_settings=CONTEXT)
@deployment_options
@place_options
@store_options
def show(**options: Any) -> None:
    """Print every setting in force with its origin: a flag, a variable, a file or the default."""
    settings = settings_from(options)
    path, given = settings.file
    source = "default" if path is None else str(path)
    click.echo(f"# configuration file: {'none found' if path is None else printable(path)}")
    rows: list[tuple[str, object, str]] = [
        ("store.url", StoreLocation.parse(str(settings.store_url.value)).shown, settings.store_url.source),
        ("defaults.suite", settings.suite.value, settings.suite.source),
        ("defaults.testbed", ", ".join(settings.testbeds.value) or None, settings.testbeds.source),
    ]
    flags, server = settings.deployment_flags, settings.deployed_server
    rows.append(("deployment.file", given.deployment.file, source if given.deployment.file else "default"))
    for key, value in settings.deployment.model_dump().items():
        flagged, filed = getattr(flags, key), getattr(given.deployment, key)
        origin = "flags" if flagged and not filed else "default" if not value else source
        if value and server is not None and not flagged:
            origin = server.where if not filed else f"{server.where} over {source}"
        rows.append((f"deployment.{key}", value, "flags over " + source if flagged and filed else origin))
    policy = settings.policy()
    for key, value in policy.model_dump(mode="json", exclude={"margins"}).items():
        rows.append((f"gate.{key}", value, source if getattr(given.gate, key, None) not in (None, {}) else "default"))
    rows += [(f"gate.margins.{key}", value, source) for key, value in given.gate.margins.items()]
    rows += [
        (f"gate.margins.{key}", value, "default")
        for key, value in DEFAULT_MARGINS.items()
        if key not in given.gate.margins
    ]
    rows.append(("waivers", len(given.waivers), source if given.waivers else "default"))
    weak = {f"gate.{weakness.key}": weakness.text for weakness in policy_weaknesses(settings.policy_layers())}
    for name, value, origin in rows:
        mark = f"; weaker than the defaults: {printable(weak[name])}" if name in weak else ""
        click.echo(f"{printable(name)} = {printable(value)}  # {printable(origin)}{mark}")
    for text in weak_waivers(given.waivers, datetime.now(UTC).date()):
        click.echo(f"# weaker than the defaults: {printable(text)}")
