"""`regress-gate issues`: the known-issues database, and what GitHub says of its threads."""

import os
import re
from datetime import UTC, datetime, timedelta
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
from regress_gate.errors import ExitCode, InputError
from regress_gate.known.records.loading import find_record, load_records
from regress_gate.model.issue import IssueKind
from regress_gate.report import Source, find_format, format_names, print_view
from regress_gate.report.views.list_view import printable
from regress_gate.report.views.record_view import IssueRecordView, issue_records
from regress_gate.text import did_you_mean, plural

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
@click.argument("names", nargs=-1, required=False, metavar="VERSION | ID...")
@click.option("--builds", is_flag=True, help="Instead: evaluate the `code` of records on all published releases.")
@click.option("--releases", metavar="RANGE", default="", help="With --builds: 0.11.0..0.12.0.  [0.6.0..]")
@click.option("--write", is_flag=True, help="With --builds: keep the table beside the records, as builds.json.")
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
    names: tuple[str, ...],
    builds: bool,
    releases: str,
    write: bool,
    everything: bool,
    results: tuple[Path, ...],
    directory: Path | None,
    format_: str,
    offline: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Show for each known issue of your deployment whether VERSION really has its fix, and the evidence.

    The fix is looked for in the build's git history: an ancestor of its tag, or a pick on its release branch, that no
    later commit reverts. Exits 4 if GitHub could not answer everything; what is known is printed all the same.

    With --builds no deployment counts: the records (all that have `code`, or those named) are evaluated on the source
    of the published releases, which is read and never run. Exits 1 where a record's events and the code disagree, 4
    where the package index does not answer.
    """
    if builds:
        return _verify_builds(
            names, releases, write=write, directory=directory, format_=format_, offline=offline, quiet=quiet
        )
    if releases or write:
        raise click.UsageError("--releases and --write need --builds")
    if len(names) != 1:
        raise click.UsageError("name one VERSION")
    from regress_gate.app.issue_tracking import verify_version  # with GitHub's client, as above

    deployment = settings_from(options).deployment
    with counter_on_stderr("asking GitHub", quiet=quiet) as advance:
        view, problem = verify_version(
            names[0],
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
    return ExitCode.PASS


def _verify_builds(
    ids: tuple[str, ...],
    releases: str,
    *,
    write: bool,
    directory: Path | None,
    format_: str,
    offline: bool,
    quiet: bool,
) -> int:
    from regress_gate.app.build_code import prove_records  # with the readers of wheels
    from regress_gate.report.views.record_view import proved_records  # beside its use

    with counter_on_stderr("reading releases", quiet=quiet) as advance:
        done = prove_records(
            ids, releases, directory=directory, write=write, offline=offline, environ=os.environ, advance=advance
        )
    notes = [f"{release} was not read: {why}" for release, why in done.problems.items()]
    print_view(proved_records(done.proofs, done.releases, done.problems, notes), format_)
    if done.disagree:
        return ExitCode.FAIL
    return ExitCode.COULD_NOT_MEASURE if done.problems else ExitCode.PASS


DISCOVER_DAYS = 14


@click.command(
    epilog="Example: regress-gate issues discover --since 2026-11-01 --draft drafts", context_settings=CONTEXT
)
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help=f"Threads made on that day or later; default: in the last {DISCOVER_DAYS} days.",
)
@click.option(
    "--repository",
    "repositories",
    multiple=True,
    default=["vllm-project/vllm"],
    show_default=True,
    metavar="OWNER/NAME",
    help="Tracker to search (repeatable).",
)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Candidates that are shown."
)
@click.option(
    "--draft", "drafts", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Draft a record of each."
)
@_directory
@format_option
@_offline
@_quiet
def discover(
    since: datetime | None,
    repositories: tuple[str, ...],
    limit: int,
    drafts: Path | None,
    directory: Path | None,
    format_: str,
    offline: bool,
    quiet: bool,
) -> None:
    """Search the tracker for threads that may deserve a record, those most like a regression first, with the reasons.

    Threads and pull requests that a record names are left out. GITHUB_TOKEN raises GitHub's limit from 10 searches a
    minute to 30. Exits 4 if not everything could be searched; what was found is printed all the same.
    """
    from regress_gate.app.issue_tracking import discover_candidates  # with GitHub's client, as above

    today = datetime.now(UTC).date()
    first = today - timedelta(days=DISCOVER_DAYS) if since is None else since.date()
    if first > today:
        raise InputError(f"{first} is yet to come", where="--since")
    for repository in repositories:
        if not re.fullmatch(r"[\w.-]{1,100}/[\w.-]{1,100}", repository, re.ASCII):
            raise InputError(f"{repository!r} is no repository", where="--repository", todo="write OWNER/NAME")
    with counter_on_stderr("searching GitHub", quiet=quiet) as advance:
        view, problem = discover_candidates(
            repositories, since=first, limit=limit, directory=directory, drafts=drafts, offline=offline, advance=advance
        )
    print_view(view, format_)
    if problem is not None:
        raise problem


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate issues show VLLM-28882")
def issues() -> None:
    """The known-issues database: list, show, lint, new, sync, verify, discover."""


issues.add_command(sync)
issues.add_command(verify)
issues.add_command(discover)


@issues.command("list", epilog="Example: regress-gate issues list --kind crash", context_settings=CONTEXT)
@click.option("--kind", help="Only records of this kind: performance, accuracy, crash, hang, memory…")
@click.option(
    "--format",
    "format_",
    type=click.Choice(format_names(Source.VIEW, Source.RECORDS)),
    default="table",
    show_default=True,
)
@_directory
def list_(kind: str | None, format_: str, directory: Path | None) -> None:
    """All records, or those of one kind."""
    if kind is not None and kind not in list(IssueKind):
        raise InputError(f"unknown kind {kind!r}" + did_you_mean(kind, list(IssueKind)), where="--kind")
    records = [record for record in load_records(directory) if kind in (None, record.kind)]
    if format_ in format_names(Source.RECORDS):
        click.echo(find_format(format_, Source.RECORDS).load()(records), nl=False)
    else:
        print_view(issue_records(records), format_)


@issues.command(epilog="Example: regress-gate issues show VLLM-28882", context_settings=CONTEXT)
@click.argument("id_", metavar="ID")
@format_option
@_directory
def show(id_: str, format_: str, directory: Path | None) -> None:
    """One record, whole. ID may be given as 28882."""
    print_view(IssueRecordView(find_record(id_, directory)), format_)


@issues.command(epilog="Example: regress-gate issues lint known_issues/", context_settings=CONTEXT)
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--events", is_flag=True, help="List the events that no code shows and for which the record names no commit."
)
def lint(directory: Path | None, events: bool) -> int:
    """Check records: schema, ids, links, versions, evidence. Exits 2 when there is an error, 0 with warnings only.

    Events that are shown neither by `code` (`issues verify --builds --write`) nor by a named commit are counted.
    """
    from regress_gate.app.authoring import lint_issue_records  # with the linters, which `list` and `show` do not need

    report = lint_issue_records(directory)
    for message in (*report.messages, *(report.unshown if events else ())):
        click.echo(printable(message))
    counts = (plural(report.files, "record"), plural(report.errors, "error"), plural(report.warnings, "warning"))
    click.echo(", ".join(counts), err=True)
    if report.unshown and not events:
        what = f"{plural(len(report.unshown), 'event is', 'events are')} shown neither by code nor by a named commit"
        click.echo(f"{what}: --events lists them", err=True)
    return ExitCode.USAGE if report.errors else ExitCode.PASS


@issues.command(
    epilog="Example: regress-gate issues new https://github.com/vllm-project/vllm/issues/28882",
    context_settings=CONTEXT,
)
@click.argument("url", metavar="URL")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIRECTORY", help="Write ID.yaml there.")
@_offline
def new(url: str, output: Path | None, offline: bool) -> None:
    """Draft a record from the address of a thread. What you have to find out is marked TODO, which `lint` refuses.

    GitHub is asked for the thread: its state, and of the first post the version, GPU, model and arguments. Identifiers
    that the diff of the pull request that fixes it removes or brings are proposed as `code`, in comments. Without an
    answer the draft has none, and a note says why.
    """
    if offline:
        from regress_gate.app.authoring import draft_issue_record  # as above

        (text, path), why = draft_issue_record(url, output), ""
    else:
        from regress_gate.app.issue_tracking import draft_with_code  # with GitHub's client, as above

        text, path, why = draft_with_code(url, output)
    click.echo(text if path is None else printable(path), nl=path is not None)
    if why:
        click.echo(f"regress-gate: note: no code is proposed: {printable(why)}", err=True)
