"""A server on loopback that speaks the part of GitHub's interface that is used here: pages, ETags, comparisons, writes.

Threads and a small git history, which are only read, are set up by the tests. Repositories that workflows write to are
in `state`. Faults are scripted: the next answers, whatever is asked; or by `State.faults`, for certain requests.
"""

import hashlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fake_github import rest
from tests.fake_github.answers import Answer, RefusedError, Request
from tests.fake_github.state import State

REPO = "vllm-project/vllm"
SEARCHES_A_MINUTE, SEARCHES_WITHOUT_TOKEN = 30, 10
SEARCH_RESULTS = 1000
LONGEST_QUERY = 256
BOT = {"login": "github-actions[bot]", "type": "Bot"}
PERSON = {"login": "somebody", "type": "User"}


@dataclass
class Scripted:
    """One answer that is given instead of the true one."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    promised: int | None = None
    """Content-Length, where it is not the body's."""


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    status: int
    body_bytes: int


@dataclass
class GitHub:
    """The state behind the server. Commits are named by short words, which stand for 40 hexadecimal digits."""

    resources: dict[str, Any] = field(default_factory=dict)
    """Path without query to the answer; a list is given out in pages."""
    main: list[tuple[str, str]] = field(default_factory=list)
    """(commit, subject) of the main branch, oldest first."""
    tags: dict[str, tuple[str, list[tuple[str, str]]]] = field(default_factory=dict)
    """Tag to the commit of main at which its branch was cut, and the commits of the branch."""
    moved: dict[str, str] = field(default_factory=dict)
    """Path to the Location of a 301."""
    gone: dict[str, int] = field(default_factory=dict)
    script: list[Scripted] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    """Of every answer that is not scripted."""
    quota: int | None = None
    """Requests that are answered before a limit; None for no limit."""
    date: float | None = None
    """The server's clock (Unix time); None for the true time."""
    incomplete: bool = False
    """Whether searches say that they ran out of time."""
    searched: list[float] = field(default_factory=list)
    """When searches were answered, by `clock`."""
    clock: Callable[[], float] = time.time
    """Unix time, for the limit of searches."""
    validators: bool = True
    """Whether answers have an ETag."""
    prefix: str = ""
    """Path of the API below its host: `/api/v3` of an Enterprise Server."""
    url: str = ""
    state: State = field(default_factory=State)
    after_change: Callable[[], None] = lambda: None
    """Called after each request to a repository of the state, before it is answered."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def issue(self, number: int, *events: dict[str, Any], repo: str = REPO, **fields: Any) -> None:
        """An issue (or, with `pull_request`, a pull request as an issue) and its timeline."""
        kind = "pull" if fields.get("pull_request") else "issues"
        self.resources[f"/repos/{repo}/issues/{number}"] = {
            "number": number,
            "html_url": f"https://github.com/{repo}/{kind}/{number}",
            "title": f"Thread {number}",
            "body": "Words that are nobody's business.",
            "state": "open",
            "state_reason": None,
            "closed_at": None,
            "labels": [],
            **fields,
        }
        self.resources[f"/repos/{repo}/issues/{number}/timeline"] = list(events)

    def pull(self, number: int, *events: dict[str, Any], merged: str | None, commit: str = "", **fields: Any) -> None:
        """A pull request, with what its timeline shows."""
        state = "closed" if merged else "open"
        self.issue(number, *events, state=state, pull_request={"merged_at": merged}, closed_at=merged)
        self.resources[f"/repos/{REPO}/pulls/{number}"] = {
            "number": number,
            "html_url": f"https://github.com/{REPO}/pull/{number}",
            "title": f"Pull {number}",
            "state": state,
            "merged_at": merged,
            "merge_commit_sha": sha(commit) if commit else None,
            "base": {"ref": "main"},
            **fields,
        }

    def search(self, query: dict[str, list[str]], *, has_token: bool) -> tuple[int, dict[str, str], Any]:
        """Issues or pull requests, newest first: words in title or text, `repo:`, `is:`, `in:title`, `created:A..B`."""
        now, limit = self.clock(), SEARCHES_A_MINUTE if has_token else SEARCHES_WITHOUT_TOKEN
        self.searched = [one for one in self.searched if now - one < 60]
        if len(self.searched) >= limit:
            reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(self.searched[0] + 60))}
            return 403, reset, {"message": "API rate limit exceeded"}
        self.searched.append(now)
        text = query.get("q", [""])[0]
        page, size = int(query.get("page", ["1"])[0]), min(int(query.get("per_page", ["30"])[0]), 100)
        if not text or len(text) > LONGEST_QUERY:
            return 422, {}, {"message": "Validation Failed"}
        if page * size > SEARCH_RESULTS:
            return 422, {}, {"message": "Only the first 1000 search results are available"}
        keys = dict(part.split(":", 1) for part in text.split() if ":" in part)
        words = [part.lower() for part in text.split() if ":" not in part]
        if f"/repos/{keys['repo']}" not in self.resources:
            return 422, {}, {"message": "The listed users and repositories cannot be searched"}
        first, _, last = keys["created"].partition("..")
        found = []
        for path, one in self.resources.items():
            if not re.fullmatch(rf"/repos/{re.escape(keys['repo'])}/issues/\d+", path):
                continue
            told = one["title"] if keys.get("in") == "title" else f"{one['title']} {one['body']}"
            is_pull = bool(one.get("pull_request"))
            in_time = first <= one.get("created_at", "2026-11-01T00:00:00Z")[:10] <= last
            if in_time and is_pull == (keys["is"] == "pr") and all(word in told.lower() for word in words):
                found.append({"created_at": "2026-11-01T00:00:00Z", **one})
        found.sort(key=lambda one: one["created_at"], reverse=True)
        items = found[(page - 1) * size : page * size]
        return 200, {}, {"total_count": len(found), "incomplete_results": self.incomplete, "items": items}

    def history(self, *main: tuple[str, str], **tags: tuple[str, list[tuple[str, str]]]) -> None:
        """The main branch; `v1=("c", [...])` is the tag v1 on a branch cut at c."""
        self.resources[f"/repos/{REPO}"] = {"default_branch": "main", "full_name": REPO}
        self.main = list(main)
        self.tags = tags

    def compare(self, base: str, head: str, page: int, per_page: int) -> dict[str, Any] | None:
        before, after = self._commits(base), self._commits(head)
        if before is None or after is None:
            return None
        ahead = [commit for commit in after if commit not in before]
        behind = [commit for commit in before if commit not in after]
        status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
        shown = ahead[(page - 1) * per_page : page * per_page]
        common = [commit for commit in before if commit in after]
        parents = dict(zip((name for name, _ in after[1:]), (name for name, _ in after), strict=False))
        return {
            "status": status,
            "merge_base_commit": _commit(*common[-1], None),
            "ahead_by": len(ahead),
            "behind_by": len(behind),
            "commits": [_commit(name, text, parents.get(name)) for name, text in shown],
            "files": [{"filename": "a.py", "patch": "…"}] if page == 1 else [],
            "more": len(ahead) > page * per_page,
        }

    def _commits(self, ref: str) -> list[tuple[str, str]] | None:
        if ref == "main":
            return self.main
        if ref in self.tags:
            cut, branch = self.tags[ref]
            return [*self._until(cut), *branch]
        for name, _ in self.main:
            if sha(name).startswith(ref):
                return self._until(name)
        return None

    def _until(self, name: str) -> list[tuple[str, str]]:
        return self.main[: [commit for commit, _ in self.main].index(name) + 1]

    @property
    def bodies(self) -> int:
        return sum(asked.body_bytes > 0 for asked in self.asked)

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]


def _commit(name: str, text: str, parent: str | None) -> dict[str, Any]:
    parents = [] if parent is None else [{"sha": sha(parent)}]
    return {"sha": sha(name), "commit": {"message": f"{text}\n\nMore."}, "parents": parents}


def sha(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()


def closed(when: str, by: dict[str, str] = PERSON, **fields: Any) -> dict[str, Any]:
    return {"event": "closed", "created_at": when, "actor": by, "commit_id": None, **fields}


def named_by(number: int, *, merged: str | None, body: str = "", title: str = "", repo: str = REPO) -> dict[str, Any]:
    """The event that a pull request's text names this thread."""
    source = {
        "number": number,
        "html_url": f"https://github.com/{repo}/pull/{number}",
        "title": title or f"Pull {number}",
        "state": "closed",
        "pull_request": {"merged_at": merged},
        "body": body,
    }
    return {"event": "cross-referenced", "actor": PERSON, "source": {"type": "issue", "issue": source}}


def comment(body: str, number: int = 1) -> dict[str, Any]:
    url = f"https://github.com/{REPO}/issues/{number}#issuecomment-1"
    return {"event": "commented", "actor": PERSON, "body": body, "html_url": url}


def bind(github: GitHub, port: int = 0) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(github))
    server.daemon_threads = True
    github.url = f"http://127.0.0.1:{server.server_address[1]}{github.prefix}"
    return server


@contextmanager
def serving(github: GitHub) -> Iterator[GitHub]:
    server = bind(github)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield github
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(github: GitHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else every answer waits for the acknowledgement of its headers.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._serve("GET")

        def do_POST(self) -> None:
            self._serve("POST")

        def do_PATCH(self) -> None:
            self._serve("PATCH")

        def do_DELETE(self) -> None:
            self._serve("DELETE")

        def _serve(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            with github.lock:
                self._serve_one(method, body)

        def _serve_one(self, method: str, body: bytes) -> None:
            if github.script:
                scripted = github.script.pop(0)
                self._give(scripted.status, scripted.headers, scripted.body, scripted.promised)
                return
            if github.quota == 0:
                self._give(429, {"Retry-After": "999"}, b"{}")
                return
            github.quota = None if github.quota is None else github.quota - 1
            parts = urlsplit(self.path)
            path = parts.path.removeprefix(github.prefix)
            if path == parts.path:
                path = path.removeprefix("/api")  # an Enterprise Server has GraphQL at /api/graphql
            if path in github.moved:
                self._give(301, {"Location": github.moved[path]}, b'{"message": "Moved Permanently"}')
                return
            if (answer := self._hosted(method, path, parts.query, body)) is None:
                answer = self._of_threads(method, path, parse_qs(parts.query))
            if answer.status == 0:
                self.close_connection = True
                return
            headers = {**answer.headers, **github.headers}
            if answer.zeros:
                self._give_zeros(answer)
                github.after_change()
                return
            content = answer.content if isinstance(answer.content, bytes) else json.dumps(answer.content).encode()
            etag = f'W/"{hashlib.sha256(content).hexdigest()}"'
            if github.validators and method == "GET" and answer.status == 200:
                headers |= {"ETag": etag, "Vary": "Accept, Authorization, Cookie, X-GitHub-OTP"}
                if self.headers.get("If-None-Match") == etag:
                    self._give(304, headers, b"")
                    return
            self._give(answer.status, headers, content)

        def _hosted(self, method: str, path: str, query: str, body: bytes) -> Answer | None:
            """What a repository of the state answers; None where it has none to ask. Status 0: nothing is answered."""
            if not github.state.repositories:
                return None
            request = Request(
                method,
                path,
                {key: values[-1] for key, values in parse_qs(query).items()},
                {name.lower(): value for name, value in self.headers.items()},
                json.loads(body) if body else {},
                github.url,
                # Another host, to a client that compares names; the same machine.
                f"http://localhost:{self.server.server_address[1]}",
            )
            fault = self._fault(method, path)
            answer: Answer | None = Answer(0, b"")
            if fault is None or fault.get("apply"):
                try:
                    answer = rest.answer(github.state, request)
                except RefusedError as refused:
                    answer = refused.answer
            if fault is not None and "status" in fault:
                answer = Answer(fault["status"], str(fault.get("body", "")).encode(), fault.get("headers", {}))
            elif fault is not None:
                answer = Answer(0, b"")
            if answer is not None:
                login = github.state.tokens.get(request.headers.get("authorization", " ").split(" ")[1], {}).get(
                    "login"
                )
                asked = {"method": method, "path": path, "status": answer.status, "token": login}
                github.state.requests.append(asked)
                github.after_change()
            if fault is not None and "kill" in fault:
                os.kill(fault["kill"], signal.SIGKILL)
            return answer

        def _fault(self, method: str, path: str) -> dict[str, Any] | None:
            for fault in github.state.faults:
                meant = fault.get("method", method) == method and re.search(fault.get("path", ""), path)
                if meant and fault.get("times", 1):
                    if fault.get("skip", 0):
                        fault["skip"] -= 1
                        continue
                    fault["times"] = fault.get("times", 1) - 1
                    return fault
            return None

        def _of_threads(self, method: str, path: str, query: dict[str, list[str]]) -> Answer:
            if method != "GET":
                return Answer(201, {"id": 1, "body": "written"})
            if path == "/search/issues":
                status, headers, document = github.search(query, has_token="Authorization" in self.headers)
                return Answer(status, document, headers)
            status, headers, document = self._answer(path, query)
            return Answer(status, document, headers)

        def _answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, str], Any]:
            page, size = int(query.get("page", ["1"])[0]), int(query.get("per_page", ["30"])[0])
            if path in github.gone:
                return github.gone[path], {}, {"message": "gone"}
            if found := re.fullmatch(r"/repos/[\w.-]+/[\w.-]+/compare/(.+)\.\.\.(.+)", path):
                compared = github.compare(unquote(found[1]), unquote(found[2]), page, size)
                if compared is None:
                    return 404, {}, {"message": "Not Found"}
                return 200, self._next(path, page, size) if compared.pop("more") else {}, compared
            if path not in github.resources:
                return 404, {}, {"message": "Not Found"}
            document = github.resources[path]
            if not isinstance(document, list):
                return 200, {}, document if not isinstance(document, dict) else {"url": github.url + path, **document}
            more = len(document) > page * size
            return 200, self._next(path, page, size) if more else {}, document[(page - 1) * size : page * size]

        def _next(self, path: str, page: int, size: int) -> dict[str, str]:
            url = f"{github.url}{path}?per_page={size}&page={page + 1}"
            return {"Link": f'<{url}>; rel="next", <{github.url}{path}?page=99>; rel="last"'}

        def _give(self, status: int, headers: dict[str, str], body: bytes, promised: int | None = None) -> None:
            github.asked.append(Asked(self.path, dict(self.headers), status, len(body)))
            self.send_response_only(status)
            self.send_header("Date", formatdate(github.date, usegmt=True))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) if promised is None else promised))
            self.end_headers()
            self.wfile.write(body)
            if promised is not None:
                self.close_connection = True

        def _give_zeros(self, answer: Answer) -> None:
            self.send_response_only(answer.status)
            self.send_header("Content-Length", str(answer.zeros))
            self.end_headers()
            part, sent = bytes(1 << 16), 0
            try:
                while sent < answer.zeros:
                    sent += self.wfile.write(part[: answer.zeros - sent])
            except ConnectionError:  # it has read enough
                self.close_connection = True
            answer.sent(sent)

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler
