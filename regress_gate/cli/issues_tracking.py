"""`issues sync` and `issues verify`: what GitHub says of the records' threads, and whether a build has their fixes."""

from pathlib import Path
from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    deployment_fact_options,
    deployment_options,
    format_option,
    settings_from,
    store_options,
)
from regress_gate.cli.progress import counter_on_stderr
from regress_gate.report import print_view

_offline = click.option("--offline", is_flag=True, help="Use no network, only what was fetched before.")
_quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
_directory = click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Records of your own instead of the shipped ones.",
)


@click.command(epilog="Example: regress-gate issues sync", context_settings=CONTEXT)
@_directory
@format_option
@_offline
@_quiet
def sync(directory: Path | None, format_: str, offline: bool, quiet: bool) -> None:
    """Look at the threads of all records on GitHub and print what has changed since the last time.

    GITHUB_TOKEN raises the quota from 60 requests an hour. When it is used up, the next sync goes on. Exits 4 if not
    every thread could be seen.
    """
    # GitHub's client is imported here: the other commands on issues do not need it.
    from regress_gate.app.issue_tracking import seen_so_far, sync_records
    from regress_gate.report.views.tracking_view import seen_threads

    if offline:
        print_view(seen_threads(seen_so_far()), format_)
        return
    with counter_on_stderr("asking GitHub", quiet=quiet) as advance:
        view, problem = sync_records(directory, advance)
    print_view(view, format_)
    if problem is not None:
        raise problem


@click.command(
    epilog="Example: regress-gate issues verify v0.24.0 --accelerator H200 --model deepseek-ai/DeepSeek-R1",
    context_settings=CONTEXT,
)
@click.argument("version")
@click.option("--all", "everything", is_flag=True, help="Also records of which it is not known whether they apply.")
@click.option(
    "--result",
    "results",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A comparison that measured VERSION, as JSON (repeatable).",
)
@deployment_options
@deployment_fact_options
@store_options
@_directory
@format_option
@_offline
@_quiet
def verify(
    version: str,
    everything: bool,
    results: tuple[Path, ...],
    directory: Path | None,
    format_: str,
    offline: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Show for each known issue of your deployment whether VERSION really has its fix, and the evidence.

    The fix is looked for in the build's git history: an ancestor of its tag, or a pick on its release branch, that no
    later commit reverts. Exits 4 if GitHub could not answer everything; what is known is printed all the same.
    """
    from regress_gate.app.issue_tracking import verify_version  # with GitHub's client, as above

    deployment = settings_from(options).deployment
    with counter_on_stderr("asking GitHub", quiet=quiet) as advance:
        view, problem = verify_version(
            version,
            deployment,
            directory=directory,
            results=results,
            everything=everything,
            offline=offline,
            advance=advance,
        )
    print_view(view, format_)
    if problem is not None:
        raise problem
