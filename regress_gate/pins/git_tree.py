"""The files of two states of a git repository, read without running anything that the repository brings along.

Only plumbing commands are called, with hooks, file-system monitors, pagers, external diffs and text converters off;
file names travel between zero bytes, and revisions are resolved once, so that none is taken for an option.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from regress_gate.errors import InputError
from regress_gate.text import excerpt, one_line

MAX_BYTES = 24 * 1024 * 1024
"""Of one file: the largest lock files have a tenth of that."""
REGULAR = ("100644", "100755")
GITLINK = "160000"
_FETCH_SECONDS = 300
_NO_LOGIN = ("could not read Username", "could not read Password", "Authentication failed")
"""What git says where nobody can be asked for a name and a password."""
_SAFE = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"),
    *("-c", "core.quotePath=false", "-c", "diff.external=", "-c", "protocol.ext.allow=never"),
    "--no-pager",
    "--no-replace-objects",
)
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Entry:
    mode: str
    """As git writes it: 100644, 120000 for a symbolic link, 160000 for a submodule."""
    oid: str
    """Of the content; empty for a file of the working tree that may differ from the index."""


class Tree(Protocol):
    """The tracked files of one state."""

    @property
    def entries(self) -> Mapping[str, Entry]: ...

    def read(self, path: str) -> bytes | None:
        """The content of a regular file; None if there is none, or it is larger than `MAX_BYTES`."""


@dataclass
class Repository:
    root: Path
    _objects: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @classmethod
    def find(cls, directory: Path | None = None) -> "Repository":
        """The repository around a directory. Raises InputError if there is none, or git refuses it."""
        where = Path.cwd() if directory is None else directory
        done = _run(["git", *_SAFE, "rev-parse", "--show-toplevel"], where)
        if done.returncode == 0:
            return cls(Path(os.fsdecode(done.stdout.removesuffix(b"\n"))))
        message = done.stderr.decode("utf-8", "replace")
        if "dubious ownership" in message:
            todo = "let git trust it: git config --global --add safe.directory DIRECTORY"
            raise InputError("belongs to another user, so git does not read it", where=where, todo=todo)
        if "must be run in a work tree" in message:
            raise InputError("is a bare repository", where=where, todo="run this in a checkout of it")
        raise InputError("is not a git repository", where=where, todo="run this in a checkout")

    def __enter__(self) -> "Repository":
        return self

    def __exit__(self, *_: object) -> None:
        if self._objects is not None:
            self._objects.communicate()

    def _git(self, *arguments: str) -> bytes:
        done = _run(["git", *_SAFE, *arguments], self.root)
        if done.returncode != 0:
            message = one_line(done.stderr.decode("utf-8", "replace")) or f"git {arguments[0]} failed"
            raise InputError(excerpt(message.removeprefix("fatal: "), 300), where=self.root)
        return done.stdout

    def _asks(self, *arguments: str) -> str | None:
        """The one line that a command answers; None where it fails."""
        done = _run(["git", *_SAFE, *arguments], self.root)
        return done.stdout.decode("utf-8", "replace").strip() or None if done.returncode == 0 else None

    def resolve(self, revision: str) -> str | None:
        """The commit that a revision names; None: it names none here."""
        if not revision or "\0" in revision:
            return None
        return self._asks("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")

    def merge_base(self, one: str, other: str) -> str | None:
        answer = self._asks("merge-base", one, other)
        return None if answer is None else answer.split()[0]

    def parents(self, commit: str) -> list[str]:
        """As the commit itself names them, also where a shallow clone has cut them off."""
        header = self._git("cat-file", "commit", commit).partition(b"\n\n")[0]
        return [line.split()[1].decode() for line in header.split(b"\n") if line.startswith(b"parent ")]

    @property
    def is_shallow(self) -> bool:
        return self._asks("rev-parse", "--is-shallow-repository") == "true"

    def default_branch(self) -> str | None:
        """The commit of the default branch, as far as this clone knows which that is."""
        names = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
        return next(
            (
                commit
                for name in names
                if (
                    commit := self.resolve(f"refs/remotes/{name}")
                    or (self.resolve(f"refs/heads/{name}") if "/" not in name else None)
                )
            ),
            None,
        )

    def fetch(self, commit: str) -> str | None:
        """Fetch one commit from `origin` without its history, as CI's own checkout does; why not, if that fails."""
        if not _SHA.fullmatch(commit):
            return "it is no commit id"
        command = [
            "git",
            *_SAFE,
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--depth=1",
            "origin",
            commit,
        ]
        try:
            done = _run(command, self.root, timeout=_FETCH_SECONDS)
        except subprocess.TimeoutExpired:
            return f"no answer within {_FETCH_SECONDS} s"
        if done.returncode == 0:
            return None
        message = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        if any(words in message for words in _NO_LOGIN):
            return "the server wants a login, and git has none that it accepts"
        return excerpt(one_line(message), 200) or "git fetch failed"

    # Trees

    def commit_tree(self, commit: str) -> "CommitTree":
        entries = {}
        for record in self._git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
            head, _, name = record.partition(b"\t")
            if name:
                mode, _, oid = head.decode().split()
                entries[os.fsdecode(name)] = Entry(mode, oid)
        return CommitTree(self, entries)

    def working_tree(self, *, untracked: int = 0) -> "WorkingTree":
        """The tracked files as they lie in the working tree, and up to `untracked` that were not added yet: those
        that git does not ignore, those nearest to the root first."""
        entries = {}
        for record in self._git("ls-files", "--stage", "-z", "--full-name").split(b"\0"):
            head, _, name = record.partition(b"\t")
            if name:
                mode, oid, stage = head.decode().split()
                # Several stages are a conflict: the file in the working tree has both sides.
                entries[os.fsdecode(name)] = Entry(mode, oid if stage == "0" else "")
        changed = self._git("diff-files", "--name-status", "-z", "--no-ext-diff", "--ignore-submodules=dirty")
        fields = changed.split(b"\0")
        for status, name in zip(fields[::2], fields[1::2], strict=False):
            path = os.fsdecode(name)
            if status == b"D":
                entries.pop(path, None)
            elif path in entries:
                entries[path] = Entry(entries[path].mode, "")
        for path in self._untracked()[:untracked] if untracked else ():
            entries.setdefault(path, Entry(REGULAR[0], ""))
        return WorkingTree(self, entries)

    def _untracked(self) -> list[str]:
        """Files and links; another repository below this one, which ends in a slash, is none of its files."""
        listed = self._git("ls-files", "--others", "--exclude-standard", "-z", "--full-name").split(b"\0")
        names = [os.fsdecode(name) for name in listed if name and not name.endswith(b"/")]
        return sorted(names, key=lambda name: (name.count("/"), name))

    def blob(self, oid: str) -> bytes | None:
        """The content of an object; None if it is larger than `MAX_BYTES`. One process answers for all."""
        if self._objects is None:
            self._objects = subprocess.Popen(  # nosec B607 # noqa: S603 - git, no shell
                ["git", *_SAFE, "cat-file", "--batch"],  # noqa: S607 - the user's git
                cwd=self.root,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        requests, answers = self._objects.stdin, self._objects.stdout
        assert requests is not None and answers is not None  # noqa: S101, PT018 - both are pipes
        requests.write(oid.encode() + b"\n")
        requests.flush()
        header = answers.readline().split()
        if len(header) != 3:
            raise InputError(f"git has no object {oid}", where=self.root, todo="fetch the whole repository")
        return _read_exactly(answers, int(header[2]))


@dataclass(frozen=True, slots=True)
class CommitTree:
    repository: Repository
    entries: dict[str, Entry]

    def read(self, path: str) -> bytes | None:
        entry = self.entries.get(path)
        return None if entry is None or entry.mode not in REGULAR else self.repository.blob(entry.oid)


@dataclass(frozen=True, slots=True)
class WorkingTree:
    repository: Repository
    entries: dict[str, Entry]

    def read(self, path: str) -> bytes | None:
        entry = self.entries.get(path)
        if entry is None or entry.mode not in REGULAR:
            return None
        if entry.oid:
            return self.repository.blob(entry.oid)
        file = self.repository.root / path
        try:
            # A tracked file that is a link by now, or lies behind one, may lead out of the repository.
            if not file.parent.resolve().is_relative_to(self.repository.root.resolve()):
                return None
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        with os.fdopen(handle, "rb") as stream:
            if not file.is_file():
                return None
            content = stream.read(MAX_BYTES + 1)
        return content if len(content) <= MAX_BYTES else None


@dataclass(frozen=True, slots=True)
class EmptyTree:
    """Before the first commit."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def read(self, path: str) -> bytes | None:  # noqa: ARG002 - it has no file
        return None


def changed_paths(before: Tree, after: Tree) -> list[str]:
    """Paths whose entry is another one, or which only one of them has, in order."""
    paths = before.entries.keys() | after.entries.keys()
    return sorted(path for path in paths if before.entries.get(path) != after.entries.get(path))


def _read_exactly(stream: IO[bytes], size: int) -> bytes | None:
    if size <= MAX_BYTES:
        content = stream.read(size)
        stream.read(1)
        return content
    left = size + 1
    while left > 0 and (part := stream.read(min(left, 1 << 20))):
        left -= len(part)
    return None


def _environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in ("GIT_EXTERNAL_DIFF", "GIT_PAGER")}
    return {**env, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_LITERAL_PATHSPECS": "1"}


def _run(command: list[str], directory: Path, *, timeout: float | None = None) -> "subprocess.CompletedProcess[bytes]":
    try:
        return subprocess.run(  # noqa: S603 - git, no shell
            command,
            cwd=directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        what = "git is not installed" if directory.is_dir() else f"no directory {directory}"
        raise InputError(what, todo="install git" if directory.is_dir() else None) from None
