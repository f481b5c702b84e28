"""What may be written to: one commit, and the one open pull request of which it is the head.

In a `workflow_run` the pull request is found by what GitHub says of the run: its repository, branch and commit. The
event's own list of pull requests is empty for forks, and nothing that the run uploaded has a say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regress_gate.github import GitHub
from regress_gate.publish.context import RunContext, SourceRun
from regress_gate.publish.writing import written
from regress_gate.text import plural

_PULL_REQUEST_EVENTS = ("pull_request", "pull_request_target")


@dataclass(frozen=True, slots=True)
class Target:
    is_writable: bool
    """Whether anything may be written at all."""
    pull_request: int | None = None
    note: str = ""
    """Why not more."""


def find_target(client: GitHub, context: RunContext) -> Target:
    """Raises NotWrittenError if GitHub cannot be asked."""
    source = context.source
    if source is None:
        return Target(True, context.pull_request)
    if source.conclusion == "skipped":
        return Target(False, note="the run was skipped: nothing is written")
    if source.event not in _PULL_REQUEST_EVENTS:
        if source.head_repository != context.repository:
            return Target(False, note="the commit is another repository's: nothing is written")
        return Target(True)
    pulls = written(client, "the pull request", "pull-requests: read", lambda: _open_pulls(client, context, source))
    found = [pull for pull in pulls if pull["head"]["sha"] == context.head_sha]
    if len(found) == 1:
        return Target(True, int(found[0]["number"]))
    if found:
        note = f"{plural(len(found), 'open pull request')} have this head, and none gets a comment"
        return Target(True, note=note)
    if pulls:
        number, head = int(pulls[0]["number"]), str(pulls[0]["head"]["sha"])[:12]
        note = f"#{number} has moved on to {head}: nothing is written for {context.head_sha[:12]}"
        return Target(False, note=note)
    return Target(False, note=f"no open pull request has the head {context.head_sha[:12]}: nothing is written")


def _open_pulls(client: GitHub, context: RunContext, source: SourceRun) -> list[dict[str, Any]]:
    """Those from the run's branch. GitHub ignores a filter that it does not understand, so each is looked at."""
    owner = source.head_repository.partition("/")[0]
    repository = client.api.get_repo(context.repository)
    return [
        pull.raw_data
        for pull in repository.get_pulls(state="open", head=f"{owner}:{source.head_branch}")
        if (pull.raw_data["head"]["repo"] or {}).get("full_name") == source.head_repository
        and pull.raw_data["head"]["ref"] == source.head_branch
        and pull.raw_data["base"]["repo"]["full_name"] == context.repository
        and pull.raw_data["state"] == "open"
    ]
