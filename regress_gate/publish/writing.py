"""Writing to GitHub so that it can be done again: what failed half-way is looked for before it is tried anew.

Not for the client (`regress_gate.github`), and not for what is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import github

from regress_gate.files import read_url
from regress_gate.github import GitHub, GitHubError, UnavailableError
from regress_gate.text import excerpt

ATTEMPTS = 3
_TIMEOUT = 60.0
"""Seconds."""
_PERMISSION = re.compile(r"([a-z_]{2,40})=(read|write)")
_Value = TypeVar("_Value")


class NotWrittenError(GitHubError):
    """GitHub refused, or could not be reached. `str()` of it says what, why, and what to do."""


class NotPermittedError(NotWrittenError):
    """The token may not."""


def written(client: GitHub, what: str, permission: str, act: Callable[[], _Value]) -> _Value:
    """What `act` returns. It begins by looking at what is there, so it may be called again after a failure.

    `permission` is the one that GitHub asks for, `checks: write`. Raises NotWrittenError.
    """
    for attempt in range(ATTEMPTS):
        if attempt:
            client.pause(2.0 ** (attempt - 1))
        try:
            with client.reading(), _explained(client, what, permission):
                return act()
        except UnavailableError as error:
            why = str(error)
            if client.stopped:
                break
    raise NotWrittenError(f"{what}: {why}")


@contextmanager
def _explained(client: GitHub, what: str, permission: str) -> Iterator[None]:
    """Refusals become NotWrittenError; what may pass stays UnavailableError."""
    try:
        yield
    except github.GithubException as error:
        is_forbidden = error.status == 403 or _is_forbidden(error.data)
        kind = NotPermittedError if is_forbidden else NotWrittenError
        raise kind(f"{what}: {_refusal(client, error, permission, is_forbidden=is_forbidden)}") from None


def _refusal(client: GitHub, error: github.GithubException, permission: str, *, is_forbidden: bool) -> str:
    said = _server_text(error.data)
    if error.status == 401:
        return f"{client.host} does not accept GITHUB_TOKEN; give the job's own token"
    if is_forbidden:
        if "locked" in said:
            return "the pull request is locked; unlock it, or use --comment off"
        if "GitHub App" in said:
            return "only a GitHub App may write check runs; use the workflow's own token, or --no-check"
        wanted = _PERMISSION.findall(str((error.headers or {}).get("x-accepted-github-permissions", "")))
        names = " or ".join(f"{name.replace('_', '-')}: {level}" for name, level in wanted) or permission
        return f"{client.host} refuses (403); add `{names}` to the job's `permissions`"
    if error.status == 404:
        return f"{client.host} has no such thing, or does not show it to this token (404); the job needs `{permission}`"
    if error.status == 410 and "ssues" in said:
        return "the repository has no issues (410); switch them on in its settings"
    return f"{client.host} refuses ({error.status})" + (f": {said}" if said else "")


def _is_forbidden(data: Any) -> bool:
    """GraphQL says so in an answer whose status is 200."""
    errors = data.get("errors") if isinstance(data, dict) else None
    return isinstance(errors, list) and any(isinstance(one, dict) and one.get("type") == "FORBIDDEN" for one in errors)


def _server_text(data: Any) -> str:
    """What GitHub says, on one line."""
    if not isinstance(data, dict):
        return ""
    errors = data.get("errors")
    listed = errors if isinstance(errors, list) else []
    texts = [data.get("message"), *(one.get("message") for one in listed if isinstance(one, dict))]
    return excerpt(" ".join("; ".join(text for text in texts if isinstance(text, str)).split()), 200)


def download(client: GitHub, path: str, most: int) -> bytes | None:
    """The file to which that path of the API redirects, read without the token; None if larger than `most` bytes."""
    address = client.download_address(path)
    parts = urlsplit(address)
    if parts.scheme != urlsplit(client.base).scheme or not parts.hostname:
        raise UnavailableError(f"{client.host} redirects to an address that is not followed")
    try:
        content = read_url(address, most + 1, timeout=_TIMEOUT)
    except OSError as error:
        raise UnavailableError(f"{parts.hostname} does not give the file ({error})") from None
    return content if len(content) <= most else None
