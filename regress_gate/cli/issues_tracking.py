"""`issues sync` and `issues verify`: what GitHub says of the records' threads, and whether a build has their fixes."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    deployment_fact_options,
    deployment_options,
    format_option,
    settings_from,
    store_options,
)
from regress_gate.errors import InputError
from regress_gate.paths import tracker_cache_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regress_gate.github import GitHub
    from regress_gate.model.version import Version

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

    GITHUB_TOKEN raises the quota from 60 requests an hour. Where it is used up, the next sync goes on. Exits 4 when not
    every thread could be seen.
    """
    from regress_gate.cli.progress import counter_on_stderr
    from regress_gate.github import GitHubError
    from regress_gate.known.records.loading import load_records
    from regress_gate.known.tracker.snapshot import read_snapshot, write_snapshot
    from regress_gate.known.tracker.sync import sync as sync_threads
    from regress_gate.report import print_view
    from regress_gate.report.views.tracking_view import SyncView, seen_threads

    records = load_records(directory)
    api = open_api(os.environ, offline=offline)
    before = read_snapshot(api.cache)
    if offline:
        print_view(seen_threads(before), format_)
        return
    with counter_on_stderr("asking GitHub", quiet=quiet) as tell:
        outcome = sync_threads(api, records, before, tell)
    if not write_snapshot(api.cache, outcome.snapshot):
        raise InputError("cannot be written", where=api.cache, todo="set XDG_CACHE_HOME to a place that can")
    api.prune()
    print_view(SyncView(outcome, api.counts, is_first=not before.threads), format_)
    if not outcome.complete:
        missing = f"{outcome.wanted - outcome.looked} of {outcome.wanted} threads were not seen"
        why = outcome.stopped or outcome.problems[0][1]
        raise GitHubError(f"{missing}: {why}")


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
    """Say of each known issue of your deployment whether VERSION really has its fix, and on what that rests.

    The fix is looked for in the build's git history: an ancestor of its tag, or a pick on its release branch, that no
    later commit takes back. Exits 4 when GitHub could not be asked for everything; what is known is printed all the
    same.
    """
    from regress_gate.cli.progress import counter_on_stderr
    from regress_gate.github import GitHubError
    from regress_gate.known.records.loading import load_records
    from regress_gate.known.tracker.snapshot import read_snapshot
    from regress_gate.known.tracker.verification import measured_fixed, read_result, verify_issues
    from regress_gate.report import print_view
    from regress_gate.report.views.tracking_view import VerificationView

    candidate = _version(version)
    measured = measured_fixed([read_result(path) for path in results], candidate)
    deployment = settings_from(options).deployment
    api = open_api(os.environ, offline=offline)
    with counter_on_stderr("asking GitHub", quiet=quiet) as tell:
        found = verify_issues(
            api,
            load_records(directory),
            deployment,
            candidate,
            snapshot=read_snapshot(api.cache),
            measured=measured,
            everything=everything,
            today=datetime.now(UTC).date(),
            report_progress=tell,
        )
    print_view(VerificationView(found, candidate, api.stopped), format_)
    if api.stopped is not None:
        raise GitHubError(f"not everything was looked up: {api.stopped}")


def open_api(environment: "Mapping[str, str]", *, offline: bool) -> "GitHub":
    """A session with the interface that the environment names. Raises InputError for an unusable address or token."""
    from regress_gate.github import GitHub
    from regress_gate.known.tracker.snapshot import api_base, api_directory

    base = api_base(environment)
    cache = api_directory(tracker_cache_directory(), base)
    return GitHub(base, cache, token=environment.get("GITHUB_TOKEN", "").strip() or None, offline=offline)


def _version(text: str) -> "Version":
    from regress_gate.model.version import Ref

    ref = Ref.parse(text)
    if ref.version is None:
        raise InputError(f"{text!r} names no build", where="VERSION", todo="write a release or commit:<sha>")
    return ref.version
