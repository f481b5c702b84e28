"""A branch of a GitHub repository that holds stored runs: one file for each run, written through the Git data API.

The branch has no history in common with the code. A file is named by its content and never changed or removed, so two
writers cannot lose each other's runs: who comes second moves the branch on from what is there then. Nothing is checked
out, and a branch that holds anything else is refused. Not for what the files mean, which is the store's.
"""

from __future__ import annotations

import base64
import io
import json
import random
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import github

from regress_gate.errors import InputError, NoDataError
from regress_gate.github import GitHub
from regress_gate.publish.writing import NotWrittenError, download, written

PERMISSION = "contents: write"
FOLDER = "runs/"
MARKER_FILE = "regress-gate-data.json"
_MARKER = {"schema": "regress-gate-data/1", "note": "Written by `regress-gate baseline export --to-branch`."}
MAX_PACKED = 256 * 1024 * 1024
MAX_UNPACKED = 1024 * 1024 * 1024
MOST_FILES = 100_000
_MAX_TREE = 4 * 1024 * 1024
"""Bytes of files in one request."""
_ATTEMPTS = 40
"""Of moving the branch on; with each, one of the writers succeeds."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|[./](?=[A-Za-z0-9_-])){0,99}")


class _OvertakenError(Exception):
    """Another writer has moved the branch on."""


@dataclass(frozen=True, slots=True)
class DataBranch:
    """Raises InputError for what can be no branch."""

    repository: str
    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name.endswith(".lock"):
            raise InputError(f"{self.name[:60]!r} cannot name a branch", where="branch")

    @property
    def git(self) -> str:
        return f"/repos/{self.repository}/git"


def append_files(client: GitHub, branch: DataBranch, files: Mapping[str, str], message: str) -> int:
    """Add the files that the branch lacks, in one commit, and make the branch if there is none; how many were added.

    Raises NotWrittenError, and InputError where the branch holds something else.
    """
    what = f"the branch {branch.name} of {branch.repository}"
    for attempt in range(_ATTEMPTS):
        if attempt:
            client.wait(random.uniform(0.05, 0.2) * min(attempt, 10))  # nosec B311 # noqa: S311 - so that writers part
        try:
            return written(client, what, PERMISSION, lambda: _append_once(client, branch, files, message))
        except _OvertakenError:
            continue
    raise NotWrittenError(f"{what}: others moved it on {_ATTEMPTS} times; try again")


def read_files(client: GitHub, branch: DataBranch) -> dict[str, bytes]:
    """The files of all runs, by their path. One request and one download, however many there are.

    Raises NoDataError if there is no such branch, InputError if it holds something else, and NotWrittenError.
    """
    what = f"the branch {branch.name} of {branch.repository}"
    packed = written(client, what, "contents: read", lambda: _download(client, branch))
    try:
        files = dict(_unpack(packed))
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise NotWrittenError(f"{what}: the download is damaged ({type(error).__name__})") from None
    _check_marker(branch, files.pop(MARKER_FILE, None))
    return files


def _append_once(client: GitHub, branch: DataBranch, files: Mapping[str, str], message: str) -> int:
    head = _head(client, branch)
    tree, there = None, set()
    if head is not None:
        tree = _get(client, f"{branch.git}/commits/{head}")["tree"]["sha"]
        entries = _get(client, f"{branch.git}/trees/{tree}")["tree"]
        marker = next((one["sha"] for one in entries if one["path"] == MARKER_FILE), None)
        content = None if marker is None else _get(client, f"{branch.git}/blobs/{marker}")["content"]
        _check_marker(branch, None if content is None else base64.b64decode(content))
        listed = _get(client, f"{branch.git}/trees/{tree}", recursive="1")["tree"]
        there = {one["path"] for one in listed}
    missing = {path: text for path, text in files.items() if path not in there}
    if not missing:
        return 0
    if head is None:
        missing[MARKER_FILE] = json.dumps(_MARKER, indent=2) + "\n"
    for part in _parts(missing):
        given: dict[str, Any] = {"tree": part} if tree is None else {"tree": part, "base_tree": tree}
        tree = _post(client, f"{branch.git}/trees", given)["sha"]
    parents = [] if head is None else [head]
    commit = _post(client, f"{branch.git}/commits", {"message": message, "tree": tree, "parents": parents})["sha"]
    try:
        if head is None:
            _post(client, f"{branch.git}/refs", {"ref": f"refs/heads/{branch.name}", "sha": commit})
        else:
            change = {"sha": commit, "force": False}
            client.api.requester.requestJsonAndCheck("PATCH", f"{branch.git}/refs/heads/{branch.name}", input=change)
    except github.GithubException as error:
        said = str(error.data.get("message", "")) if isinstance(error.data, dict) else ""
        if error.status in (409, 422) and ("fast forward" in said or "already exists" in said):
            raise _OvertakenError from None
        raise
    return len(files) - len(files.keys() & there)


def _head(client: GitHub, branch: DataBranch) -> str | None:
    """None: there is no such branch."""
    try:
        return str(_get(client, f"{branch.git}/ref/heads/{branch.name}")["object"]["sha"])
    except github.UnknownObjectException:
        _get(client, f"/repos/{branch.repository}")  # or else it is the repository that is not shown
        return None


def _get(client: GitHub, path: str, **parameters: str) -> Any:
    return client.api.requester.requestJsonAndCheck("GET", path, parameters=parameters)[1]


def _post(client: GitHub, path: str, content: dict[str, Any]) -> Any:
    return client.api.requester.requestJsonAndCheck("POST", path, input=content)[1]


def _parts(files: Mapping[str, str]) -> Iterator[list[dict[str, str]]]:
    """The entries of trees, no request larger than it has to be."""
    part: list[dict[str, str]] = []
    size = 0
    for path, text in files.items():
        if part and size + len(text) > _MAX_TREE:
            yield part
            part, size = [], 0
        part.append({"path": path, "mode": "100644", "type": "blob", "content": text})
        size += len(text)
    yield part


def _check_marker(branch: DataBranch, content: bytes | None) -> None:
    """Never write to, or read from, a branch that somebody uses for something else; never begin anew either."""
    try:
        stated = None if content is None else json.loads(content)["schema"]
    except (ValueError, LookupError, TypeError, RecursionError):
        stated = None
    if stated != _MARKER["schema"]:
        what = f"holds no {MARKER_FILE} of this version: it is left as it is"
        raise InputError(what, where=f"branch {branch.name}", todo="name another branch")


def _download(client: GitHub, branch: DataBranch) -> bytes:
    head = _head(client, branch)
    if head is None:
        raise NoDataError(f"{branch.repository} has no branch {branch.name}; `baseline export --to-branch` makes it")
    packed = download(client, f"/repos/{branch.repository}/tarball/{head}", MAX_PACKED)
    if packed is None:
        raise InputError(f"is larger than {MAX_PACKED >> 20} MiB packed", where=f"branch {branch.name}")
    return packed


def _unpack(packed: bytes) -> Iterator[tuple[str, bytes]]:
    """Path below the archive's one folder, and content. Nothing is written to disk."""
    total = 0
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r|gz") as archive:
        for number, member in enumerate(archive):
            path = member.name.partition("/")[2]
            is_run = path.startswith(FOLDER) and path.endswith(".json")
            total += member.size
            if number > MOST_FILES or total > MAX_UNPACKED:
                raise InputError(f"is larger than {MAX_UNPACKED >> 30} GiB, or than {MOST_FILES} files", where="branch")
            content = archive.extractfile(member) if member.isreg() and (is_run or path == MARKER_FILE) else None
            if content is not None:
                yield path, content.read()
