"""Which vLLM version a change of a repository moves, and what it pins now: from git, and from what CI says."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regress_gate.errors import InputError
from regress_gate.files import read_bounded
from regress_gate.pins.git_tree import EmptyTree, Repository, Tree, changed_paths
from regress_gate.pins.moves import PinReport, find_moves, judge_moves
from regress_gate.pins.pin_files import changed_pin_files, find_pins, select_paths

_LARGEST_EVENT = 32 * 1024 * 1024
_ITSELF = "no vLLM version moved: HEAD was compared with itself; --base names the commit before a change"
_CI = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "JENKINS_URL")
"""Variables that say so: of most services, GitHub, Azure Pipelines and Jenkins."""
_FULL_HISTORY = "check out the whole history (actions/checkout: fetch-depth: 0), or name a commit with --base"


def pinned_versions(head: str | None = None, paths: Sequence[str] = ()) -> PinReport:
    """All pins of the working tree, or of a revision. Raises InputError outside a repository, and for a wrong name."""
    with Repository.find() as repository:
        commit = None if head is None else _resolve(repository, head, "--head")
        tree = _tree(repository, commit)
        wanted = _from_root(repository, paths)
        _refuse_unknown(wanted, [tree])
        found = find_pins(tree, select_paths(sorted(tree.entries), wanted))
        return PinReport(None, found.pins, found.notes, head=commit)


def moved_versions(
    base: str | None = None,
    head: str | None = None,
    paths: Sequence[str] = (),
    *,
    everything: bool = False,
    offline: bool = False,
    environ: Mapping[str, str] | None = None,
) -> PinReport:
    """The version move between two revisions, in these files; by default from what CI, pre-commit or the default branch
    says to the working tree. `everything`: list the pins of all files, not only of those that changed.

    Raises InputError for a revision that is not there, and in CI where it is not known what to compare with.
    """
    environ = os.environ if environ is None else environ
    with Repository.find() as repository:
        head = head or environ.get("PRE_COMMIT_TO_REF") or None
        tip = _resolve(repository, head or "HEAD", "--head") if head or repository.resolve("HEAD") else None
        if base is None:
            start = _surrounding_base(repository, tip, environ, offline=offline)
        else:
            start = _named_base(repository, base, tip, offline=offline)
        before: Tree = EmptyTree() if start is None else repository.commit_tree(start)
        after = _tree(repository, tip if head else None)
        wanted = _from_root(repository, paths)
        _refuse_unknown(wanted, [before, after])
        different = changed_paths(before, after)
        changed = select_paths(changed_pin_files(different, before, after), wanted)
        old, new = find_pins(before, changed), find_pins(after, changed)
        move = judge_moves(find_moves(old.pins, new.pins, before, after))
        if start is not None and start == tip and not different:
            move = replace(move, why=_ITSELF)
        if everything:
            new = find_pins(after, select_paths(sorted(after.entries), wanted))
        return PinReport(move, new.pins, new.notes, start, tip if head else None)


def _tree(repository: Repository, commit: str | None) -> Tree:
    return repository.working_tree() if commit is None else repository.commit_tree(commit)


def _from_root(repository: Repository, paths: Sequence[str]) -> list[str]:
    """Paths and patterns of the user, who may be in a folder of the repository, from its root."""
    found = []
    for path in paths:
        absolute = Path(os.path.normpath(Path.cwd() / path))
        try:
            found.append(absolute.relative_to(repository.root).as_posix())
        except ValueError:
            resolved = absolute.parent.resolve() / absolute.name
            if not resolved.is_relative_to(repository.root.resolve()):
                raise InputError("lies outside the repository", where=path) from None
            found.append(resolved.relative_to(repository.root.resolve()).as_posix())
    return found


def _refuse_unknown(wanted: Sequence[str], trees: Sequence[Tree]) -> None:
    for one in wanted:
        if not any(select_paths(tree.entries, [one]) for tree in trees):
            raise InputError("git tracks no such file", where=one, todo="name a file, a folder or a pattern")


def _resolve(repository: Repository, revision: str, where: str) -> str:
    commit = repository.resolve(revision)
    if commit is None:
        todo = _FULL_HISTORY if repository.is_shallow else "name a commit, a branch or a tag"
        raise InputError(f"no commit {revision!r} in this checkout", where=where, todo=todo)
    return commit


def _named_base(repository: Repository, base: str, tip: str | None, *, offline: bool) -> str:
    if base.endswith("..."):
        return _branch_point(repository, _resolve(repository, base.removesuffix("..."), "--base"), tip)
    return _obtain(repository, base, "--base", offline=offline)


def _surrounding_base(
    repository: Repository, tip: str | None, environ: Mapping[str, str], *, offline: bool
) -> str | None:
    """The commit before the change, as pre-commit, GitHub, GitLab or the branches say; None before the first."""
    if tip is None:
        return None
    if started := environ.get("PRE_COMMIT_FROM_REF") or environ.get("PRE_COMMIT_SOURCE"):
        if not _is_none(started):
            return _obtain(repository, started, "PRE_COMMIT_FROM_REF", offline=offline)
    elif environ.get("PRE_COMMIT"):
        return tip
    if environ.get("GITHUB_EVENT_PATH"):
        found = _github_base(repository, tip, environ, offline=offline)
        if found is not None:
            return found
    parents = repository.parents(tip)
    if environ.get("CI_MERGE_REQUEST_EVENT_TYPE") in ("merged_result", "merge_train") and len(parents) == 2:
        # GitLab's merge of the branch into its target, which is the first parent.
        return _obtain(repository, parents[0], "CI_MERGE_REQUEST_EVENT_TYPE", offline=offline)
    for name in ("CI_MERGE_REQUEST_DIFF_BASE_SHA", "CI_COMMIT_BEFORE_SHA"):
        if (commit := environ.get(name)) and not _is_none(commit):
            return _obtain(repository, commit, name, offline=offline)
    default = repository.default_branch()
    began = None if default is None else repository.merge_base(default, tip)
    if began is None and any(environ.get(name, "").casefold() not in ("", "0", "false") for name in _CI):
        # HEAD beside itself moves nothing: every upgrade would pass.
        what = "there is nothing to compare it with: neither CI nor a branch of this checkout says what was before"
        raise InputError(what, where="HEAD", todo=_FULL_HISTORY)
    return began or tip


def _github_base(repository: Repository, tip: str, environ: Mapping[str, str], *, offline: bool) -> str | None:
    """None for an event that is no change, such as a schedule."""
    event = _read_event(environ["GITHUB_EVENT_PATH"])
    pull = event.get("pull_request")
    if isinstance(pull, dict):
        parents = repository.parents(tip)
        head = _sha(pull.get("head"))
        if len(parents) == 2 and parents[1] == head:
            # What actions/checkout checks out: the merge of the pull request into its base, which is the first parent.
            return _obtain(repository, parents[0], "GITHUB_EVENT_PATH", offline=offline)
        base = _sha(pull.get("base"))
        if base is None:
            raise InputError("names no base of the pull request", where="GITHUB_EVENT_PATH", todo="use --base")
        return _branch_point(repository, _obtain(repository, base, "GITHUB_EVENT_PATH", offline=offline), tip)
    group = event.get("merge_group")
    for commit in (group.get("base_sha") if isinstance(group, dict) else None, event.get("before")):
        if isinstance(commit, str) and not _is_none(commit):
            return _obtain(repository, commit, "GITHUB_EVENT_PATH", offline=offline)
    return None


def _read_event(path: str) -> dict[str, Any]:
    try:
        content = read_bounded(Path(path), _LARGEST_EVENT)
        event = json.loads(content or b"")
    except (OSError, ValueError, RecursionError):
        raise InputError("cannot be read as GitHub's event", where="GITHUB_EVENT_PATH", todo="use --base") from None
    return event if isinstance(event, dict) else {}


def _sha(value: Any) -> str | None:
    sha = value.get("sha") if isinstance(value, dict) else None
    return sha if isinstance(sha, str) else None


def _is_none(commit: str) -> bool:
    """Git's word for no commit: the parent of a new branch."""
    return not commit.strip("0")


def _branch_point(repository: Repository, base: str, tip: str | None) -> str:
    found = None if tip is None else repository.merge_base(base, tip)
    if found is None:
        what = "the history up to the commit that the change began at is not in this checkout"
        raise InputError(what, where=base, todo=_FULL_HISTORY)
    return found


def _obtain(repository: Repository, revision: str, where: str, *, offline: bool) -> str:
    """The commit, which is fetched alone if a shallow checkout lacks it."""
    commit = repository.resolve(revision)
    if commit is not None:
        return commit
    if len(revision) not in (40, 64) or not repository.is_shallow:
        return _resolve(repository, revision, where)
    problem = "--offline is given" if offline else repository.fetch(revision)
    commit = repository.resolve(revision) if problem is None else None
    if commit is None:
        what = f"the commit {revision[:12]} to compare with is not in this checkout and was not fetched ({problem})"
        raise InputError(what, where=where, todo=_FULL_HISTORY)
    return commit
