"""`regress-gate baseline`: list, show, pin, export, import and prune stored versions."""

import os
from pathlib import Path
from typing import Any

import click

from regress_gate.app.store_queries import stored_runs, stored_versions
from regress_gate.cli.options import CONTEXT, format_option, is_confirmed, place_options, settings_from, store_options
from regress_gate.model.version import Version
from regress_gate.report import print_view
from regress_gate.report.views import list_view
from regress_gate.report.views.list_view import printable
from regress_gate.text import plural


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate baseline list")
def baseline() -> None:
    """List, show, pin, export, import and prune stored versions."""


@baseline.command("list", epilog="Example: regress-gate baseline list --format json", context_settings=CONTEXT)
@format_option
@place_options
@store_options
def list_(format_: str, **options: Any) -> None:
    """Every stored version, with its testbed, suite and number of runs."""
    print_view(list_view.stored_versions(stored_versions(settings_from(options))), format_)


@baseline.command(epilog="Example: regress-gate baseline show v0.19.1", context_settings=CONTEXT)
@click.argument("version")
@format_option
@place_options
@store_options
def show(version: str, format_: str, **options: Any) -> None:
    """The runs of a version: when, under which conditions, and the source of their numbers."""
    print_view(list_view.stored_runs(stored_runs(Version.parse(version), settings_from(options))), format_)


@baseline.command(epilog="Example: regress-gate baseline pin v0.19.1", context_settings=CONTEXT)
@click.argument("version")
@click.option("--unmeasured", is_flag=True, help="Pin it without stored runs, too: the watch measures it.")
@store_options
def pin(version: str, unmeasured: bool, **options: Any) -> None:
    """Keep a version from pruning. The ref `pinned` means the version that was pinned last."""
    from regress_gate.app.baselines import pin_version  # with the database

    wanted = Version.parse(version)
    is_new = pin_version(wanted, settings_from(options), unmeasured=unmeasured)
    click.echo(f"{wanted} is pinned" if is_new else f"{wanted} was pinned already")


@baseline.command(epilog="Example: regress-gate baseline unpin v0.19.1", context_settings=CONTEXT)
@click.argument("version")
@store_options
def unpin(version: str, **options: Any) -> None:
    """Take a pin away."""
    from regress_gate.app.baselines import unpin_version  # with the database

    wanted = Version.parse(version)
    unpin_version(wanted, settings_from(options))
    click.echo(f"{wanted} is no longer pinned")


@baseline.command(epilog="Example: regress-gate baseline export v0.19.1 --to baselines/", context_settings=CONTEXT)
@click.argument("version", required=False)
@click.option(
    "--to", "directory", type=click.Path(path_type=Path, file_okay=False), default=".", show_default=True,
    help="Directory for the files, one per version, testbed and suite.",
)  # fmt: skip
@click.option(
    "--to-branch",
    metavar="NAME",
    help="Instead, add what is missing to this branch of GITHUB_REPOSITORY, a file for each run.",
)
@click.option("--undisturbed", is_flag=True, help="Leave out runs that are void under the conditions of their suite.")
@place_options
@store_options
def export(version: str | None, directory: Path, to_branch: str | None, undisturbed: bool, **options: Any) -> None:
    """Write what the store holds as readable JSON; without VERSION, all of it.

    --to-branch needs GITHUB_TOKEN with `contents: write`. Jobs may write at the same time: no run is changed or lost.
    """
    from regress_gate.app.baselines import export_baselines, export_to_branch  # with the database

    wanted = None if version is None else Version.parse(version)
    if to_branch is not None:
        shared = export_to_branch(settings_from(options), wanted, to_branch, os.environ, undisturbed=undisturbed)
        if shared.void:
            click.echo(f"{plural(shared.void, 'void run')} left out", err=True)
        click.echo(f"{plural(shared.added, 'run')} added to {to_branch}, {shared.runs - shared.added} were there")
        return
    for file in export_baselines(settings_from(options), wanted, directory, undisturbed=undisturbed):
        if file.void:
            click.echo(f"{file.version}: {file.void} of {file.runs + file.void} runs are void, left out", err=True)
        if file.path is not None:
            click.echo(f"{printable(file.path)}: {plural(file.runs, 'run')}")


@baseline.command("import", epilog="Example: regress-gate baseline import baselines/*.json", context_settings=CONTEXT)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--from-branch", metavar="NAME", help="Instead, store every run of this branch of GITHUB_REPOSITORY.")
@store_options
def import_(files: tuple[Path, ...], from_branch: str | None, **options: Any) -> None:
    """Store files that `baseline export` wrote: all of them, or on any error none."""
    from regress_gate.app.baselines import import_baselines, import_from_branch  # with the database

    if bool(files) == (from_branch is not None):
        raise click.UsageError("name FILES, or a branch with --from-branch")
    settings = settings_from(options)
    if from_branch is None:
        added, store = import_baselines(settings, files)
    else:
        added, store = import_from_branch(settings, from_branch, os.environ)
    click.echo(
        f"{plural(len(added.new), 'run')} added, {len(added.extended)} extended, {plural(added.trials, 'trial')}; "
        f"{plural(len(added.duplicates), 'result')} were stored already ({printable(store)})"
    )


@baseline.command(epilog="Example: regress-gate baseline prune --keep 5 --dry-run", context_settings=CONTEXT)
@click.argument("version", required=False)
@click.option(
    "--keep", type=click.IntRange(min=0), default=0, help="Keep the newest N versions of each testbed and suite."
)
@click.option("--dry-run", is_flag=True, help="List what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@place_options
@store_options
def prune(version: str | None, keep: int, dry_run: bool, yes: bool, **options: Any) -> None:
    """Delete stored versions that are not pinned, and their comparisons: one VERSION, or all but the newest --keep."""
    from regress_gate.app.baselines import plan_pruning  # with the database

    wanted = None if version is None else Version.parse(version)
    with plan_pruning(settings_from(options), wanted, keep) as pruning:
        if not pruning.holdings:
            click.echo(f"nothing to prune: {wanted} is pinned" if pruning.is_pinned else "nothing to prune")
            return
        for holding, compared in zip(pruning.holdings, pruning.comparisons, strict=True):
            place = f"{printable(holding.testbed)}, {printable(holding.suite)}"
            more = f", {plural(compared, 'comparison')}" if compared else ""
            click.echo(f"{holding.version} on {place}: {plural(holding.runs, 'run')}{more}")
        if dry_run:
            return
        if not yes and not is_confirmed():
            click.echo("nothing was deleted")
            return
        runs = pruning.delete()
    click.echo(f"deleted {plural(runs, 'run')}")
