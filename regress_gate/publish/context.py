"""Where a workflow runs and what for, as GitHub's own variables and event file say. Not the files of the workflow.

The event file is GitHub's word. It alone says which commit and which pull request are meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from regress_gate.errors import InputError
from regress_gate.files import read_bounded

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""GitHub's own bound on an event is 25 MB."""
DEFAULT_API = "https://api.github.com"
DEFAULT_SERVER = "https://github.com"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_PULL_REQUEST_EVENTS = ("pull_request", "pull_request_target")
_DEPENDABOT = "dependabot[bot]"


@dataclass(frozen=True, slots=True)
class SourceRun:
    """The unprivileged run of which a `workflow_run` event tells."""

    id: int
    event: str
    """What had started it: `pull_request`, `push`…"""
    conclusion: str
    """`success`, `failure`, `cancelled`, `skipped`…; empty where the event does not say."""
    head_repository: str
    head_branch: str


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run of a workflow."""

    repository: str
    """`owner/name`: the only repository that is written to."""
    event: str
    head_sha: str
    """The commit that the check run belongs to."""
    run_url: str
    """Page of the run that made the result."""
    pull_request: int | None
    """Its number; None: there is none, or it is still to be found from `source`."""
    from_fork: bool
    """Whether somebody who cannot write to the repository could have made the result."""
    read_only: str
    """Why the token of this run can only read; empty: it may write what the workflow's `permissions` say."""
    is_dependabot: bool
    """Whether the token can only read unless the workflow has asked for more: no fault of the pull request."""
    source: SourceRun | None
    """None where the event is not `workflow_run`."""


def read_repository(environment: Mapping[str, str]) -> str:
    """`owner/name`. Raises InputError."""
    repository = environment.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.fullmatch(repository):
        raise InputError("is not OWNER/NAME, as in a workflow of GitHub", where="GITHUB_REPOSITORY")
    return repository


def read_context(environment: Mapping[str, str]) -> RunContext:
    """Raises InputError, with the variable's name, where this is no run of a workflow or its event cannot be read."""
    repository = read_repository(environment)
    name = environment.get("GITHUB_EVENT_NAME", "")
    event = _read_event(environment.get("GITHUB_EVENT_PATH", ""))
    source, pull_request, head_sha = None, None, environment.get("GITHUB_SHA", "")
    from_fork, is_dependabot = False, False
    run_id = environment.get("GITHUB_RUN_ID", "")
    if name in _PULL_REQUEST_EVENTS:
        pull_request, head_sha = _number(event, "pull_request", "number"), _text(event, "pull_request", "head", "sha")
        # A fork that was deleted has no name any more.
        from_fork = _text(event, "pull_request", "head", "repo", "full_name", default="") != repository
        is_dependabot = _DEPENDABOT in (
            environment.get("GITHUB_ACTOR", ""),
            _text(event, "sender", "login", default=""),
        )
    elif name == "workflow_run":
        run = ("workflow_run",)
        source = SourceRun(
            id=_number(event, *run, "id"),
            event=_text(event, *run, "event"),
            conclusion=_text(event, *run, "conclusion", default=""),
            head_repository=_text(event, *run, "head_repository", "full_name", default=""),
            head_branch=_text(event, *run, "head_branch", default=""),
        )
        head_sha, run_id = _text(event, *run, "head_sha"), str(source.id)
        from_fork = source.head_repository != repository
    if not _SHA.fullmatch(head_sha):
        raise InputError("names no commit", where="GITHUB_SHA" if source is None else "GITHUB_EVENT_PATH")
    return RunContext(
        repository=repository,
        event=name,
        head_sha=head_sha,
        run_url=_run_url(environment.get("GITHUB_SERVER_URL", "").strip() or DEFAULT_SERVER, repository, run_id),
        pull_request=pull_request,
        from_fork=from_fork,
        read_only="the token of a pull request from a fork can only read"
        if from_fork and name == "pull_request"
        else "",
        is_dependabot=is_dependabot,
        source=source,
    )


def _run_url(server: str, repository: str, run_id: str) -> str:
    """Made here, never read: empty where it cannot be."""
    if not run_id.isascii() or not run_id.isdigit():
        return ""
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[A-Za-z0-9.:-]+", parts.netloc):
        return ""
    return f"{parts.scheme}://{parts.netloc}/{repository}/actions/runs/{run_id}"


def _read_event(path: str) -> dict[str, Any]:
    where = "GITHUB_EVENT_PATH"
    if not path:
        raise InputError("is not set: this is no run of a GitHub workflow", where=where)
    try:
        content = read_bounded(Path(path), MAX_EVENT_BYTES)
        event = None if content is None else json.loads(content)
    except (OSError, ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        raise InputError("is not the JSON object that GitHub writes", where=where)
    return event


def _find(event: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        event = event.get(key) if isinstance(event, dict) else None
    return event


def _text(event: dict[str, Any], *keys: str, default: str | None = None) -> str:
    value = _find(event, keys)
    if isinstance(value, str):
        return value
    if default is not None:
        return default
    raise InputError(f"has no text {'.'.join(keys)}", where="GITHUB_EVENT_PATH")


def _number(event: dict[str, Any], *keys: str) -> int:
    value = _find(event, keys)
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise InputError(f"has no number {'.'.join(keys)}", where="GITHUB_EVENT_PATH")
