"""What GitHub says of known issues: the state of their threads, whether a build has their fixes, what may be new."""

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from regress_gate.app.authoring import draft_issue_record
from regress_gate.errors import InputError
from regress_gate.github import GitHub, GitHubError, UnavailableError
from regress_gate.known.records.curation import ReportedCase, draft_id, read_reported
from regress_gate.known.records.loading import SUFFIX, load_records
from regress_gate.known.threads import ThreadRef
from regress_gate.known.tracker.fixes import propose_code
from regress_gate.known.tracker.snapshot import (
    FoundThread,
    Snapshot,
    api_base,
    api_directory,
    read_found,
    read_snapshot,
    write_found,
    write_snapshot,
)
from regress_gate.known.tracker.sync import Discovery, SyncResult, covered_threads, discover, rank_candidates
from regress_gate.known.tracker.sync import sync as sync_threads
from regress_gate.known.tracker.threads import read_thread
from regress_gate.known.tracker.verification import measured_fixed, read_result, verify_issues
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Ref, Version
from regress_gate.paths import tracker_cache_directory
from regress_gate.report.views.tracking_view import DiscoveryView, SyncView, VerificationView

Advance = Callable[[int, int], None] | None
"""Called with the threads that are done and those that are wanted."""


def seen_so_far(environment: Mapping[str, str] = os.environ) -> Snapshot:
    """The state of the threads at the last syncs; uses no network."""
    return read_snapshot(open_github(environment, offline=True).cache)


def sync_records(
    directory: Path | None, advance: Advance, *, only: Container[str] | None = None
) -> tuple[SyncView, GitHubError | None]:
    """Ask GitHub for the threads of all records, or of those with these ids, and keep their state; why not every thread
    was seen."""
    records = [record for record in load_records(directory) if only is None or record.id in only]
    github = open_github(os.environ, offline=False)
    before = read_snapshot(github.cache)
    result = sync_threads(github, records, before, advance)
    if not write_snapshot(github.cache, result.snapshot):
        raise InputError("cannot be written", where=github.cache, todo="set XDG_CACHE_HOME to a writable directory")
    github.prune()
    return SyncView(result, github.counts, is_first=not before.threads), _missing_threads(result)


def verify_version(
    version: str,
    deployment: Deployment,
    *,
    directory: Path | None,
    results: Iterable[Path],
    everything: bool,
    offline: bool,
    advance: Advance,
) -> tuple[VerificationView, GitHubError | None]:
    """Whether a version has the fixes of the deployment's known issues; why GitHub could not answer everything."""
    ref = Ref.parse(version)
    if ref.version is None:
        raise InputError(f"{version!r} names no build", where="VERSION", todo="write a release or commit:<sha>")
    candidate: Version = ref.version
    measured = measured_fixed([read_result(path) for path in results], candidate)
    github = open_github(os.environ, offline=offline)
    verification = verify_issues(
        github,
        load_records(directory),
        deployment,
        candidate,
        snapshot=read_snapshot(github.cache),
        measured=measured,
        everything=everything,
        today=datetime.now(UTC).date(),
        report_progress=advance,
    )
    problem = None if github.stopped is None else GitHubError(f"not everything was looked up: {github.stopped}")
    return VerificationView(verification, candidate, github.stopped), problem


def discover_candidates(
    repositories: Sequence[str],
    *,
    since: date,
    limit: int,
    directory: Path | None,
    drafts: Path | None,
    offline: bool,
    advance: Advance,
) -> tuple[DiscoveryView, GitHubError | None]:
    """Threads that no record covers, and why not everything was searched; drafts of records of those that are shown.

    Offline, only what earlier searches have found. Raises InputError.
    """
    records = load_records(directory)
    github = open_github(os.environ, offline=offline)
    before = read_found(github.cache)
    outcome = Discovery(before)
    if not offline:
        with github:
            outcome = discover(github, repositories, before, since=since, report_progress=advance)
        if not write_found(github.cache, outcome.found):
            raise InputError("cannot be written", where=github.cache, todo="set XDG_CACHE_HOME to a writable directory")
    ranked = rank_candidates(outcome.found, covered_threads(records), since=since, repositories=repositories)
    shown = ranked[:limit]
    written, left = _write_drafts([one.thread for one in shown], drafts)
    problem = outcome.stopped or ("GitHub's search did not give all results" if outcome.incomplete else None)
    if offline and not before.threads:
        problem = "nothing was searched yet: run it without --offline"
    kept = sum(one.created.date() >= since for one in outcome.found.threads.values())
    view = DiscoveryView(
        shown,
        len(ranked),
        since,
        None if offline else outcome.searched,
        kept,
        problem,
        [str(path) for path in written],
        [str(path) for path in left],
    )
    return view, None if problem is None else GitHubError(f"not everything was searched: {problem}")


def _write_drafts(threads: Iterable[FoundThread], directory: Path | None) -> tuple[list[Path], list[Path]]:
    """The files that were written, and those that were there."""
    written, left = list[Path](), list[Path]()
    if directory is None:
        return written, left
    for thread in threads:
        path = directory / (draft_id(thread.url) + SUFFIX)
        if path.exists():
            left.append(path)
        else:
            draft_issue_record(thread.url, directory, with_folder=True)
            written.append(path)
    return written, left


def draft_with_code(url: str, directory: Path | None) -> tuple[str, Path | None, str]:
    """A draft as `draft_issue_record` makes it, with what the thread says of itself and with proposals for its `code`
    from the diff of the pull request that fixes the thread; and why there are none, empty if there are.

    Raises InputError.
    """
    draft_id(url)  # refuses what is no thread before anything is asked
    thread, proposal, why, case = ThreadRef.parse(url), None, "", None
    if thread is None:
        why = "the address names no thread of the tracker"
    else:
        try:
            with open_github(os.environ, offline=False) as github:
                case = _reported_case(github, thread)
                proposal = propose_code(github, thread)
        except UnavailableError as error:
            why = str(error)
    if proposal is None:
        text, path = draft_issue_record(url, directory, case=case)
        return text, path, why or "no merged pull request closes it"
    text, path = draft_issue_record(url, directory, fix=proposal.fix, conditions=proposal.conditions, case=case)
    return text, path, "" if proposal.conditions else f"{proposal.fix} changes no Python file of the package"


def _reported_case(github: GitHub, ref: ThreadRef) -> ReportedCase | None:
    """None for a thread that is gone. Raises UnavailableError."""
    thread = read_thread(github, ref)
    if thread.state == "gone":
        return None
    with github.reading():
        post = github.api.get_repo(ref.repo).get_issue(ref.number).body or ""
    version, deployment = read_reported(post)
    return ReportedCase(thread.state, thread.reason, thread.seen.date(), version, deployment)


def open_github(environment: Mapping[str, str], *, offline: bool) -> GitHub:
    """The client for the API that the environment names. Raises InputError for an unusable address or token."""
    base = api_base(environment)
    cache = api_directory(tracker_cache_directory(), base)
    return GitHub(base, cache, token=environment.get("GITHUB_TOKEN", "").strip() or None, offline=offline)


def _missing_threads(result: SyncResult) -> GitHubError | None:
    if result.complete:
        return None
    reason = result.stopped or result.problems[0][1]
    return GitHubError(f"{result.wanted - result.looked} of {result.wanted} threads were not seen: {reason}")
