"""`regress-gate waive`: the waivers of the configuration file, which are added at its end: nothing is rewritten."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from regress_gate.app.settings import CONFIG_NAME, PYPROJECT, read_config
from regress_gate.cli.options import CONTEXT, settings_from, store_options
from regress_gate.errors import ExitCode, InputError
from regress_gate.files import write_output_file
from regress_gate.model.policy import Waiver
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
def add(finding: str, until: Any, max_change: float, owner: str, reason: str, **options: Any) -> None:
    """Permit FINDING, a series as SCENARIO/METRIC (globs allowed) or a known issue's id."""
    settings = settings_from(options)

    try:
        waiver = Waiver(finding=finding, until=until.date(), max_change=max_change, owner=owner, reason=reason)
    except ValidationError as failure:
        error = failure.errors()[0]
        raise InputError(f"{error['loc'][0]}: {error['msg']}", where="waive add") from None
    if waiver.is_expired(_today()):
        raise InputError(f"{waiver.until} is over", where="--until", todo="name a day to come")
    path = settings.file[0] or Path(CONFIG_NAME)
    before = path.read_bytes().decode() if path.exists() else ""
    table = "tool.regress-gate.waivers" if path.name == PYPROJECT else "waivers"
    block = "\n".join(
        [
            f"[[{table}]]",
            f"finding = {_toml(waiver.finding)}",
            f"until = {waiver.until.isoformat()}",
            f"max_change = {waiver.max_change!r}",
            f"owner = {_toml(waiver.owner)}",
            f"reason = {_toml(waiver.reason)}",
            "",
        ]
    )
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    after = before + (gap + block).replace("\n", "\r\n" if "\r\n" in before else "\n")
    try:
        read_config(after, path)
    except InputError:
        todo = f"write them as [[{table}]] tables"
        raise InputError("no waiver can be added below the existing ones", where=path, todo=todo) from None
    write_output_file(path, after)
    click.echo(f"added to {path}")


@waive.command("list", epilog="Example: regress-gate waive list", context_settings=CONTEXT)
@store_options
def list_(**options: Any) -> None:
    """All waivers, with the days that are left."""
    settings = settings_from(options)
    print_view(waivers(settings.waivers, _today()))


@waive.command(epilog="Example: regress-gate waive check --within 14", context_settings=CONTEXT)
@click.option(
    "--within", type=click.IntRange(0, 36500), default=0, help="Also fail for waivers that end within N days."
)
@store_options
def check(within: int, **options: Any) -> None:
    """Exit 1 if a waiver has expired, 0 otherwise: for a scheduled job."""
    settings = settings_from(options)

    horizon = _today() + timedelta(days=within)
    ending = [w for w in settings.waivers if w.is_expired(_today()) or (within and w.until <= horizon)]
    for waiver in ending:
        click.echo(f"{printable(waiver.finding)} ({printable(waiver.owner)}): {days_left(waiver.until, _today())}")
    if ending:
        raise click.exceptions.Exit(ExitCode.FAIL)
    click.echo(f"{plural(len(settings.waivers), 'waiver')}, none has expired")


def _today() -> date:
    return datetime.now(UTC).date()


def _toml(text: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
