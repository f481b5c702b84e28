"""`regress-gate baseline`: what is stored, and what to do with it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.options import CONTEXT, format_option, place_options, settings_from, store_options
from regress_gate.errors import InputError, NoDataError
from regress_gate.report import print_view
from regress_gate.report.views.list_view import stored_runs, stored_versions

if TYPE_CHECKING:
    from regress_gate.model.version import Version
    from regress_gate.store.store_interface import Holding


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate baseline list")
def baseline() -> None:
    """List, show, pin, export, import and prune stored versions."""


@baseline.command("list", epilog="Example: regress-gate baseline list --format json", context_settings=CONTEXT)
@format_option
@place_options
@store_options
def list_(format_: str, **options: Any) -> None:
    """Every stored version, with its testbed, suite and number of runs."""
    settings = settings_from(options)
    from regress_gate.store.combined import open_combined_store

    with open_combined_store(str(settings.store_url.value)) as library:
        held = [h for h in library.inventory() if _wanted(h, settings.suite.value, settings.testbed.value)]
    print_view(stored_versions(held), format_)


@baseline.command(epilog="Example: regress-gate baseline show v0.19.1", context_settings=CONTEXT)
@click.argument("version")
@place_options
@store_options
def show(version: str, **options: Any) -> None:
    """The runs of a version: when, under which conditions, and where their numbers came from."""
    settings = settings_from(options)
    from regress_gate.model.version import Version
    from regress_gate.store.combined import open_combined_store

    with open_combined_store(str(settings.store_url.value)) as library:
        runs = [
            run
            for run in library.runs(version=Version.parse(version), testbed=settings.testbed.value)
            if settings.suite.value in (None, run.suite.name, str(run.suite))
        ]
    if not runs:
        raise NoDataError(f"no stored runs for {version}; see `regress-gate baseline list`")
    print_view(stored_runs(runs))


@baseline.command(epilog="Example: regress-gate baseline pin v0.19.1", context_settings=CONTEXT)
@click.argument("version")
@store_options
def pin(version: str, **options: Any) -> None:
    """Keep a version from pruning, and make it what the ref `pinned` means."""
    settings = settings_from(options)
    from regress_gate.model.version import Version
    from regress_gate.store.combined import open_combined_store
    from regress_gate.store.repository import open_store

    wanted = Version.parse(version)
    with open_combined_store(str(settings.store_url.value)) as library:
        if not any(holding.version.matches(wanted) for holding in library.inventory()):
            raise NoDataError(f"no stored runs for {version}; see `regress-gate baseline list`")
    with open_store(str(settings.store_url.value), create=True) as store:
        click.echo(f"{wanted} is pinned" if store.pin(wanted) else f"{wanted} was pinned already")


@baseline.command(epilog="Example: regress-gate baseline unpin v0.19.1", context_settings=CONTEXT)
@click.argument("version")
@store_options
def unpin(version: str, **options: Any) -> None:
    """Take a pin away."""
    settings = settings_from(options)
    from regress_gate.model.version import Version
    from regress_gate.store.repository import open_store

    wanted = Version.parse(version)
    with open_store(str(settings.store_url.value), create=False) as store:
        if not store.unpin(wanted):
            pins = ", ".join(str(pin.version) for pin in store.pinned()) or "nothing"
            raise InputError(f"{wanted} is not pinned (pinned: {pins})")
    click.echo(f"{wanted} is no longer pinned")


@baseline.command(epilog="Example: regress-gate baseline export v0.19.1 --to baselines/", context_settings=CONTEXT)
@click.argument("version", required=False)
@click.option(
    "--to", "directory", type=click.Path(path_type=Path, file_okay=False), default=".", show_default=True,
    help="Directory for the files, one per version, testbed and suite.",
)  # fmt: skip
@click.option("--undisturbed", is_flag=True, help="Leave out runs that are void under the conditions of their suite.")
@place_options
@store_options
def export(version: str | None, directory: Path, undisturbed: bool, **options: Any) -> None:
    """Write what the store holds as readable JSON; without VERSION, all of it."""
    settings = settings_from(options)
    from regress_gate.files import write_output_file
    from regress_gate.gate.sides import make_side
    from regress_gate.model.suite import ConditionLimits
    from regress_gate.model.version import Version
    from regress_gate.store.baseline_file import baseline_file_name, dump_baseline
    from regress_gate.store.repository import open_store
    from regress_gate.suites import find_shipped_suite
    from regress_gate.text import plural

    wanted = None if version is None else Version.parse(version)
    with open_store(str(settings.store_url.value), create=False) as store:
        held = [
            holding
            for holding in store.inventory()
            if (wanted is None or holding.version.matches(wanted))
            and _wanted(holding, settings.suite.value, settings.testbed.value)
        ]
        if not held:
            raise NoDataError("the store holds nothing like that; see `regress-gate baseline list`")
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made ({error.strerror})", where=directory) from None
        for holding in held:
            runs = [
                run
                for run in store.runs(
                    version=holding.version, testbed=holding.testbed, suite=holding.suite, with_samples=True
                )
                if run.version == holding.version
            ]
            if undisturbed:
                suite = find_shipped_suite(holding.suite)
                limits = suite.conditions if suite else ConditionLimits()
                kept = make_side(holding.version, runs, limits).counted
                if len(kept) < len(runs):
                    click.echo(
                        f"{holding.version}: {len(runs) - len(kept)} of {len(runs)} runs are void, left out", err=True
                    )
                if not kept:
                    continue
                runs = list(kept)
            path = directory / baseline_file_name(holding.version, holding.testbed, holding.suite)
            write_output_file(path, dump_baseline(runs))
            click.echo(f"{path}: {plural(len(runs), 'run')}")


@baseline.command("import", epilog="Example: regress-gate baseline import baselines/*.json", context_settings=CONTEXT)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@store_options
def import_(files: tuple[Path, ...], **options: Any) -> None:
    """Store files that `baseline export` wrote: all of them, or on any error none."""
    settings = settings_from(options)
    from regress_gate.report.views.list_view import printable
    from regress_gate.store.baseline_file import load_baseline
    from regress_gate.store.repository import open_store
    from regress_gate.text import plural

    runs = [run for path in files for run in load_baseline(path.read_bytes(), path)]
    with open_store(str(settings.store_url.value), create=True) as store:
        added = store.add_runs(runs)
        click.echo(
            f"{plural(len(added.new), 'run')} added, {len(added.extended)} extended, {plural(added.trials, 'trial')}; "
            f"{plural(len(added.duplicates), 'result')} were stored already ({printable(store.location.shown)})"
        )


@baseline.command(epilog="Example: regress-gate baseline prune --keep 5 --dry-run", context_settings=CONTEXT)
@click.argument("version", required=False)
@click.option(
    "--keep", type=click.IntRange(min=0), default=0, help="Keep the newest N versions of each testbed and suite."
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@place_options
@store_options
def prune(version: str | None, keep: int, dry_run: bool, yes: bool, **options: Any) -> None:
    """Delete stored versions that are not pinned: one VERSION, or all but the newest --keep."""
    settings = settings_from(options)
    from regress_gate.model.version import Version
    from regress_gate.report.views.list_view import printable
    from regress_gate.store.repository import open_store
    from regress_gate.text import plural

    if version is None and not keep:
        raise InputError("nothing says what to prune", todo="name a VERSION, or how many to --keep")
    wanted = None if version is None else Version.parse(version)
    with open_store(str(settings.store_url.value), create=False) as store:
        suite = _one_suite(settings.suite.value, [holding.suite for holding in store.inventory()])
        going = store.prune(version=wanted, testbed=settings.testbed.value, suite=suite, keep=keep, dry_run=True)
        if not going:
            click.echo(_kept(wanted, store.inventory()))
            return
        for holding in going:
            place = f"{printable(holding.testbed)}, {printable(holding.suite)}"
            click.echo(f"{holding.version} on {place}: {plural(holding.runs, 'run')}")
        if dry_run:
            return
        if not yes and not _confirmed():
            click.echo("nothing was deleted")
            return
        gone = store.prune(version=wanted, testbed=settings.testbed.value, suite=suite, keep=keep)
    click.echo(f"deleted {plural(sum(holding.runs for holding in gone), 'run')}")


def _confirmed() -> bool:
    try:
        return click.confirm("delete these?", err=True)
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        raise InputError("there is nobody to ask", todo="give --yes or --dry-run") from None


def _kept(wanted: "Version | None", held: "list[Holding]") -> str:
    if wanted is not None and any(holding.version.matches(wanted) and holding.pinned for holding in held):
        return f"nothing to prune: {wanted} is pinned"
    return "nothing to prune"


def _one_suite(name: str | None, held: list[Any]) -> Any:
    if name is None:
        return None
    found = sorted({suite for suite in held if name in (suite.name, str(suite))}, key=str)
    if len(found) != 1:
        listed = ", ".join(str(suite) for suite in found or sorted(set(held), key=str)) or "none"
        raise InputError(f"{name!r} names {len(found)} stored suites", where="--suite", todo=f"choose one of: {listed}")
    return found[0]


def _wanted(holding: "Holding", suite: str | None, testbed: str | None) -> bool:
    return suite in (None, holding.suite.name, str(holding.suite)) and testbed in (None, holding.testbed)
