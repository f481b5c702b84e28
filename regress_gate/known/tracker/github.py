"""Asking GitHub's REST interface: conditionally, with a cache, and no more often than it allows.

What was answered before is asked for with its ETag or date; "not modified" has no body and, with a token, costs
nothing of the quota. A short wait that the server asks for is waited for; a long one ends the asking, and so does a
server that is not there: from then on the cache answers alone.
"""

import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from pydantic import BaseModel, ValidationError

from regress_gate.errors import ExitCode, RegressGateError
from regress_gate.known.tracker.github_cache import Entry, TrackerCache, since
from regress_gate.known.tracker.github_limits import LONGEST_WAIT, answer_time, wait_wanted
from regress_gate.known.tracker.github_reply import LOCATION, NoReplyError, Reply, Send

ShapeT = TypeVar("ShapeT", bound=BaseModel)
API_VERSION = "2022-11-28"
ATTEMPTS = 3
LONGEST_SUM = 300.0
"""Seconds of waiting in one session."""
FAILURES = 3
"""Broken answers in a row after which the server is left alone."""
HOPS = 3
"""Redirects of one address."""
MAX_PAGES = 30


class TrackerError(RegressGateError):
    """GitHub could not be asked, or not for everything."""

    exit_code = ExitCode.COULD_NOT_MEASURE


class UnavailableError(Exception):
    """This answer cannot be had. `str()` of it says why."""


class GoneError(UnavailableError):
    """The server says that there is no such thing (any more), or that we may not see it."""


@dataclass
class Counts:
    """What was transferred."""

    requests: int = 0
    bodies: int = 0
    """Answers that had one; "not modified" has none."""
    unchanged: int = 0
    body_bytes: int = 0


@dataclass
class Api:
    """One session of asking. `send` is None for what is cached alone."""

    base: str
    cache: TrackerCache
    send: Send | None
    anonymous: bool = True
    wait: Callable[[float], None] = time.sleep
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    counts: Counts = field(default_factory=Counts)
    stopped: str | None = None
    """Why nothing more is asked: said once, for all that could not be looked up."""
    _failures: int = 0
    _waited: float = 0.0

    @property
    def hosts(self) -> tuple[str, str]:
        """Whose threads this API knows: GitHub's, and those of its own server."""
        return "github.com", self._host().removeprefix("api.")

    def get(self, path: str, shape: type[ShapeT], *, fixed: bool = False) -> tuple[ShapeT, datetime]:
        """The answer to a path below the base, and when the server last said so.

        `fixed` is for what can never change: it is asked for only once. Raises UnavailableError, GoneError.
        """
        entry, value = self._entry(path, shape, fixed=fixed)
        return value, entry.seen

    def pages(self, path: str, shape: type[ShapeT], *, fixed: bool = False) -> tuple[list[ShapeT], bool]:
        """All pages from a path on, and whether these are really all. Raises UnavailableError, GoneError."""
        found: list[ShapeT] = []
        following: str | None = path
        while following is not None and len(found) < MAX_PAGES:
            entry, value = self._entry(following, shape, fixed=fixed)
            found.append(value)
            following = entry.next
        return found, following is None

    def _entry(self, path: str, shape: type[ShapeT], *, fixed: bool) -> tuple[Entry, ShapeT]:
        for _ in range(HOPS + 1):
            cached = self.cache.read(path)
            if cached is not None and cached.moved is not None:
                path = cached.moved
                continue
            known = None if cached is None else _read(cached.body, shape)
            if cached is not None and known is not None and (fixed or self.send is None or self.stopped is not None):
                return cached, known
            if self.send is None:
                raise UnavailableError("not in the cache (offline)")
            if self.stopped is not None:
                raise UnavailableError(self.stopped)
            reply = self._ask(path, cached if known is not None else None)
            if reply.status == 304 and cached is not None and known is not None:
                entry = cached.model_copy(update={"seen": answer_time(reply, self.now())})
                self.cache.write(entry)
                return entry, known
            if 300 <= reply.status < 400:
                path = self._moved(path, reply)
                continue
            return self._fresh(path, reply, shape)
        raise UnavailableError("is redirected too often")

    def _fresh(self, path: str, reply: Reply, shape: type[ShapeT]) -> tuple[Entry, ShapeT]:
        value = _read(_json(reply.text), shape)
        if value is None:
            raise UnavailableError(f"{self._host()} answers something else than expected")
        entry = Entry(
            path=path,
            etag=_printable(reply.headers.get("etag")),
            last_modified=_printable(reply.headers.get("last-modified")),
            next=self._next(reply),
            seen=answer_time(reply, self.now()),
            body=value.model_dump(mode="json", exclude_defaults=True),
        )
        self.cache.write(entry)
        return entry, value

    def _ask(self, path: str, cached: Entry | None) -> Reply:
        """One answer: 200, 304 or a redirect. Everything else ends as an exception, after bounded attempts."""
        assert self.send is not None  # noqa: S101 - callers look
        why = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._pause(2.0 ** (attempt - 1))
            try:
                reply = self.send(path, _conditions(cached))
            except NoReplyError as error:
                why = str(error)
                if not error.reached and attempt == ATTEMPTS - 1:
                    self.stopped = f"{self.base} cannot be reached: {why}"
                    raise UnavailableError(self.stopped) from None
                continue
            self.counts.requests += 1
            self.counts.bodies += reply.size > 0
            self.counts.body_bytes += reply.size
            self.counts.unchanged += reply.status == 304
            if reply.status in (200, 304, 301, 302, 307, 308):
                if reply.status != 200 or _json(reply.text) is not None:
                    self._failures = 0
                    return reply
                why = "the answer is cut off"
            elif (seconds := wait_wanted(reply, self.now())) is not None:
                why = self._limited(reply, seconds)
                if seconds > LONGEST_WAIT or self._waited + seconds > LONGEST_SUM or attempt == ATTEMPTS - 1:
                    self.stopped = why
                    raise UnavailableError(why)
                self._pause(seconds)
            elif reply.status < 500:
                raise self._refused(reply)
            else:
                why = f"{self._host()} answers {reply.status}"
        self._failures += 1
        if self._failures >= FAILURES:
            self.stopped = f"{self._host()} gives no usable answers: {why}"
        raise UnavailableError(why)

    def _pause(self, seconds: float) -> None:
        self._waited += seconds
        self.wait(seconds)

    def _limited(self, reply: Reply, seconds: float) -> str:
        try:
            until = since(answer_time(reply, self.now()) + timedelta(seconds=seconds))
        except OverflowError:
            until = "some other day"
        help_ = "set GITHUB_TOKEN for a larger one" if self.anonymous else "what was fetched is kept; ask again then"
        return f"the quota of {self._host()} is used up until {until}; {help_}"

    def _refused(self, reply: Reply) -> UnavailableError:
        if reply.status in (404, 410, 451):
            return GoneError(f"{self._host()} has no such thing, or does not show it ({reply.status})")
        if reply.status == 401:
            self.stopped = f"{self._host()} does not accept GITHUB_TOKEN; renew it or unset it"
            return UnavailableError(self.stopped)
        return UnavailableError(f"{self._host()} refuses ({reply.status})")

    def _moved(self, path: str, reply: Reply) -> str:
        """Where a redirect leads, as a path here; kept where it is for good."""
        target = self._below(urljoin(self._absolute(path), reply.headers.get(LOCATION, "")))
        if target is None or target == path:
            raise UnavailableError(f"{self._host()} redirects to where it is not followed")
        if reply.status in (301, 308):
            self.cache.write(Entry(path=path, moved=target, seen=answer_time(reply, self.now())))
        return target

    def _next(self, reply: Reply) -> str | None:
        found = re.search(r"<([^<>]*)>\s*;[^,<]*\brel=\"?next\b", reply.headers.get("link", ""))
        return None if found is None else self._below(found[1])

    def _absolute(self, path: str) -> str:
        return self.base.rstrip("/") + path

    def _below(self, url: str) -> str | None:
        """The path below the base; None for an address elsewhere."""
        try:
            own, other = urlsplit(self.base.rstrip("/")), urlsplit(url)
            same = (own.scheme, own.hostname, own.port) == (other.scheme, other.hostname, other.port)
        except ValueError:
            return None
        # GitHub Enterprise has its API below a prefix.
        if not same or not other.path.startswith(own.path + "/"):
            return None
        return other.path[len(own.path) :] + (f"?{other.query}" if other.query else "")

    def _host(self) -> str:
        return urlsplit(self.base).hostname or self.base


def _conditions(cached: Entry | None) -> dict[str, str]:
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION}
    if cached is not None and cached.etag is not None:
        headers["If-None-Match"] = cached.etag
    elif cached is not None and cached.last_modified is not None:
        headers["If-Modified-Since"] = cached.last_modified
    return headers


def _json(text: str) -> object:
    """None for what is no JSON (and for JSON's own null, which is no answer either)."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def _read(body: object, shape: type[ShapeT]) -> ShapeT | None:
    try:
        return shape.model_validate(body)
    except (ValidationError, RecursionError):
        return None


def _printable(value: str | None) -> str | None:
    return value if value is not None and re.fullmatch(r"[ -~]{1,500}", value) else None
