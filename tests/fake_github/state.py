"""What the fake GitHub holds: repositories, tokens and faults, as plain values that JSON can carry.

A repository here is one that workflows write to; the threads that `issues sync` reads are in `server`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BOT = "github-actions[bot]"
WRITE = {"contents": "write", "pull-requests": "write", "checks": "write", "actions": "read"}
"""What the gate's own workflow may be given."""
WATCH = {"contents": "read", "issues": "write"}
"""What the job of the watch asks for."""
READ_ONLY = dict.fromkeys(WRITE, "read")
"""What workflows of forks and of Dependabot get, whatever they ask for."""


@dataclass
class State:
    repositories: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`owner/name` to its content."""
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Token to `login`, `app` (its slug; null: a person's), `role`, `permissions` and `repository`."""
    faults: list[dict[str, Any]] = field(default_factory=list)
    """What goes wrong: `method` and `path` (a regular expression) say for which requests, `skip` after how many of
    them, `times` how often (1), `apply` whether they are carried out nevertheless; `status`, `headers` and `body` are
    what is answered (without a status: nothing), and `kill` is a process that is killed then."""
    requests: list[dict[str, Any]] = field(default_factory=list)
    """What was asked, in order: `method`, `path`, `status`, `token` (its login)."""
    last_id: int = 100

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def add_repository(self, name: str, *, private: bool = False) -> dict[str, Any]:
        repository: dict[str, Any] = {
            "private": private,
            "default_branch": "main",
            "commits": [],
            "pulls": [],
            "comments": [],
            "issues": [],
            "has_issues": True,
            "labels": {},
            "check_runs": [],
            "artifacts": [],
            "refs": {},
            "objects": {},
        }
        self.repositories[name] = repository
        return repository

    def add_token(
        self,
        token: str,
        repository: str,
        permissions: Mapping[str, str] = WRITE,
        *,
        login: str = BOT,
        app: str | None = "github-actions",
        role: str = "write",
    ) -> None:
        """`role`: what its owner is in the repository; `read` may write issues, and sets no labels."""
        self.tokens[token] = {
            "login": login,
            "app": app,
            "role": role,
            "permissions": dict(permissions),
            "repository": repository,
        }

    def add_pull(
        self, repository: str, number: int, *, sha: str, branch: str = "bump", head: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """A pull request from the branch of `head` (`owner/name`; the repository itself by default)."""
        head = head or repository
        pull = {
            "number": number,
            "state": "open",
            "locked": False,
            "head": {
                "ref": branch,
                "sha": sha,
                "repo": {"full_name": head},
                "user": {"login": head.partition("/")[0]},
            },
            "base": {"ref": "main", "repo": {"full_name": repository}},
            **fields,
        }
        self.repositories[repository]["pulls"].append(pull)
        self.repositories[repository]["commits"].append(sha)
        return pull

    def add_issue(
        self, repository: str, title: str, body: str, *, login: str | None, labels: Sequence[str] = (), **fields: Any
    ) -> dict[str, Any]:
        content = self.repositories[repository]
        numbers = [one["number"] for kind in ("issues", "pulls") for one in content[kind]]
        issue = {
            "number": max(numbers, default=0) + 1,
            "title": title,
            "body": body,
            "labels": list(labels),
            "state": "open",
            "state_reason": None,
            "locked": False,
            "login": login,
            "edits": 0,
            **fields,
        }
        content["issues"].append(issue)
        return issue

    def issues(self, repository: str, state: str = "all") -> list[dict[str, Any]]:
        return [one for one in self.repositories[repository]["issues"] if state in ("all", one["state"])]

    def add_comment(self, repository: str, number: int, body: str, *, login: str, minimised: bool = False) -> int:
        id_ = self.new_id()
        comment = {"id": id_, "issue": number, "body": body, "login": login, "minimised": minimised, "edits": 0}
        self.repositories[repository]["comments"].append(comment)
        return id_

    def add_artifact(
        self, repository: str, run: int, name: str, files: Mapping[str, bytes], **fields: Any
    ) -> dict[str, Any]:
        """A zip of these files, uploaded by a workflow run. `size_in_bytes` may be stated falsely; with `zeros`, so
        many bytes come instead of the zip, and `sent` says how many were sent before the reader had enough."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path, content in files.items():
                archive.writestr(path, content)
        artifact = {
            "id": self.new_id(),
            "name": name,
            "run": run,
            "expired": False,
            "size_in_bytes": sum(map(len, files.values())),
            "content": base64.b64encode(packed.getvalue()).decode(),
            "zeros": 0,
            "sent": 0,
            **fields,
        }
        self.repositories[repository]["artifacts"].append(artifact)
        return artifact

    def comments(self, repository: str, number: int) -> list[dict[str, Any]]:
        return [one for one in self.repositories[repository]["comments"] if one["issue"] == number]

    def check_runs(self, repository: str, sha: str) -> list[dict[str, Any]]:
        return [one for one in self.repositories[repository]["check_runs"] if one["head_sha"] == sha]

    def writes(self) -> list[dict[str, Any]]:
        """The requests that were to change something."""
        reading = ("GET", "HEAD")
        return [one for one in self.requests if one["method"] not in reading and one["path"] != "/graphql"]

    def files(self, repository: str, branch: str) -> dict[str, str]:
        """Path to text of a branch's files."""
        content = self.repositories[repository]
        commit = content["objects"][content["refs"][f"heads/{branch}"]]
        tree = content["objects"][commit["tree"]]["files"]
        return {path: base64.b64decode(content["objects"][sha]["content"]).decode() for path, sha in tree.items()}

    @classmethod
    def load(cls, path: Path) -> State:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def dump(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def digest(*parts: object) -> str:
    return hashlib.sha1(json.dumps(parts, sort_keys=True).encode()).hexdigest()
