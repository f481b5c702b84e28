"""One client for everything that is read or written at GitHub: PyGithub over an HTTP cache, within GitHub's limits.

`GitHub.api` is a plain `github.Github`. The adapter under its session keeps answers on disk and asks whether they still
hold (a "304 Not Modified" has no body and, with a token, costs no quota). It waits if GitHub asks for a short wait, and
stops asking after a long one or an outage: from then on the cache answers alone. It bounds the size and the duration of
an answer, and refuses every address outside of the API.

Not for: what the answers mean (`known.tracker`).
"""

import io
import re
import string
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import github
import urllib3
from cachecontrol import CacheControlAdapter
from cachecontrol.cache import BaseCache
from cachecontrol.caches import FileCache
from github.GithubObject import GithubObject
from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass, Requester
from requests import PreparedRequest, Response, exceptions

from regress_gate import __version__
from regress_gate.errors import ExitCode, InputError, RegressGateError

API_VERSION = "2022-11-28"
ATTEMPTS = 3
LONGEST_WAIT = 62.0
"""Seconds: the minute for which GitHub limits searches, and some more. The user waits for longer, not the program."""
LONGEST_TOTAL_WAIT = 300.0
"""Seconds of waiting in one session."""
MAX_FAILURES = 3
"""Unusable answers in a row after which no more requests are sent."""
MAX_REDIRECTS = 3
MAX_BYTES = 32 * 1024 * 1024
"""Of one answer, unpacked. The largest that are needed, comparisons with a hundred commits, have a tenth."""
TIMEOUT = 15
"""Seconds without a byte."""
LONGEST_ANSWER = 30.0
"""Seconds for one answer: a server that sends a byte now and then never reaches TIMEOUT."""
SECONDS_BETWEEN_WRITES = 1.0
"""As GitHub asks for: writes that follow each other faster meet its secondary limits."""
UNUSED_DAYS = 180
"""Age from which a cached answer is removed."""
_CHUNK = 64 * 1024
_MINUTE = 60.0
_ANY_AGE = "max-age=9999999999"
_TOKEN_CHARACTERS = frozenset(string.ascii_letters + string.digits + string.punctuation)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class GitHubError(RegressGateError):
    """GitHub could not be asked, or not for everything."""

    exit_code = ExitCode.COULD_NOT_MEASURE


class UnavailableError(Exception):
    """This answer cannot be had. `str()` of it says why."""


class GoneError(UnavailableError):
    """The thing does not exist (any more), or is not shown to this user."""


class _UnusableAnswerError(Exception):
    """An answer that did not arrive as a whole. `str()` of it says why."""


@dataclass
class TransferCounts:
    """What was transferred."""

    requests: int = 0
    bodies: int = 0
    """Answers with a body; a 304 has none."""
    unchanged: int = 0
    body_bytes: int = 0


class GitHub:
    """One session with the REST interface at `base`.

    `api` is PyGithub's; read its objects inside `with client.reading():`. Answers are kept below the directory `cache`,
    which is made for the first one; without one, everything is asked anew, as who writes needs it. With `offline` the
    cache answers alone. Raises InputError, which names the `variable` of the address, for an address or token that
    cannot be used.
    """

    def __init__(
        self,
        base: str,
        cache: Path | None,
        *,
        token: str | None = None,
        offline: bool = False,
        variable: str = "REGRESS_GATE_GITHUB_API",
        wait: Callable[[float], None] = time.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        check_address(base, token, variable)
        self.base = base.rstrip("/")
        self.host = urlsplit(base).hostname or base
        self._cache = cache
        self.offline = offline
        self.anonymous = token is None
        self.now = now
        self.counts = TransferCounts()
        self.stopped: str | None = None
        """Why nothing more is asked; None while GitHub is asked."""
        self.wait = wait
        self.download: str | None = None
        """Address of which the answer is a redirect to another host, to be read there without the token."""
        self._waited = 0.0
        self._failures = 0
        self.api = _connect(self.base, token, _Adapter(self, cache, token))

    def __enter__(self) -> "GitHub":
        return self

    def __exit__(self, *_: object) -> None:
        self.api.close()

    @property
    def cache(self) -> Path:
        """The directory of the kept answers, of a client that keeps any."""
        if self._cache is None:
            raise ValueError("this client keeps no answers")
        return self._cache

    @property
    def hosts(self) -> tuple[str, str]:
        """Whose threads this API knows: GitHub's, and those of its own server."""
        return "github.com", self.host.removeprefix("api.")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what PyGithub raises into UnavailableError and GoneError, without the texts of the server."""
        try:
            yield
        except github.GithubException as error:
            raise self._refusal(error.status) from None
        except RecursionError:
            raise UnavailableError(f"{self.host} redirects too often") from None
        except (github.BadAttributeException, exceptions.RequestException, *_UNEXPECTED):
            raise UnavailableError(f"{self.host} gives an answer of an unexpected form") from None

    def download_address(self, path: str) -> str:
        """Where the file is that the API only redirects to: an archive, an artefact. Call it in `reading()`."""
        self.download = f"{self.base}{path}"
        try:
            headers, _ = self.api.requester.requestJsonAndCheck("GET", self.download)
        finally:
            self.download = None
        return urljoin(self.base, str(headers.get("location", "")))

    def answered_at(self, answer: GithubObject) -> datetime:
        """When the server last confirmed an object, by the server's clock."""
        return answer_time(answer.raw_headers, self.now())

    def pause(self, seconds: float) -> None:
        self._waited += seconds
        self.wait(seconds)

    def may_wait(self, seconds: float) -> bool:
        return seconds <= LONGEST_WAIT and self._waited + seconds <= LONGEST_TOTAL_WAIT

    def stop(self, why: str) -> UnavailableError:
        """Ask for nothing more in this session."""
        self.stopped = why
        return UnavailableError(why)

    def count_failure(self, why: str) -> UnavailableError:
        self._failures += 1
        if self._failures >= MAX_FAILURES:
            self.stopped = f"{self.host} gives no usable answers: {why}"
        return UnavailableError(why)

    def count_success(self) -> None:
        self._failures = 0

    def prune(self) -> None:
        """Remove answers that were not confirmed for half a year."""
        oldest = self.now().timestamp() - UNUSED_DAYS * 86400
        for file in (self.cache / "http").rglob("*"):
            with suppress(OSError):
                if file.is_file() and file.stat().st_mtime < oldest:
                    file.unlink()

    def _refusal(self, status: int) -> UnavailableError:
        if status in (404, 410, 451):
            return GoneError(f"{self.host} has no such thing, or does not show it ({status})")
        if status == 401:
            return self.stop(f"{self.host} does not accept GITHUB_TOKEN; renew it or unset it")
        return UnavailableError(f"{self.host} refuses ({status})")


_UNEXPECTED = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What PyGithub raises for answers of another form than GitHub's."""


def check_address(base: str, token: str | None, where: str = "REGRESS_GATE_GITHUB_API") -> None:
    """Raises InputError for an unusable address or token, and for an address to which the token must not go."""
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise InputError("is not the address of an API", where=where, todo="write https://HOST or https://HOST/api/v3")
    if parts.username or parts.password:
        raise InputError("must not contain a name or password", where=where, todo="put the token into GITHUB_TOKEN")
    if token is None:
        return
    if not set(token) <= _TOKEN_CHARACTERS:
        raise InputError(
            "is not a token: it contains blanks or other characters that no token has", where="GITHUB_TOKEN"
        )
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InputError("would send the token in clear text", where=where, todo="use https, or unset GITHUB_TOKEN")


def answer_time(headers: Mapping[str, Any], now: datetime) -> datetime:
    """When the server answered, by its own clock; `now` if it does not say."""
    try:
        moment = parsedate_to_datetime(str(headers.get("date")))
    except (ValueError, OverflowError):
        return now
    return moment if moment.tzinfo is not None else now


def time_text(moment: datetime) -> str:
    """`2026-11-21 14:05 UTC`."""
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def _connect(base: str, token: str | None, adapter: "_Adapter") -> github.Github:
    class Http(HTTPRequestsConnectionClass):
        def __init__(self, *arguments: Any, **options: Any):
            super().__init__(*arguments, **options)
            self.session.mount("http://", adapter)

    class Https(HTTPSRequestsConnectionClass):
        def __init__(self, *arguments: Any, **options: Any):
            super().__init__(*arguments, **options)
            self.session.mount("https://", adapter)

    # A requester keeps the classes that are set while it is made; the setting itself belongs to the whole process.
    Requester.injectConnectionClasses(Http, Https)
    try:
        return github.Github(
            auth=None if token is None else github.Auth.Token(token),
            base_url=base,
            timeout=TIMEOUT,
            user_agent=f"regress-gate/{__version__}",
            per_page=100,
            lazy=True,  # here, not in `get_repo`: that would copy the requester, and lose the adapter
            retry=None,  # the adapter retries: PyGithub's GithubRetry reads bodies without a bound and knows no 429
            seconds_between_requests=None,  # one request at a time, most of them answered by 304
            seconds_between_writes=SECONDS_BETWEEN_WRITES,
            api_version=API_VERSION,
        )
    finally:
        Requester.resetConnectionClasses()


class _Cache(FileCache):
    """Answers as compressed files, each replaced as a whole, so no lock is needed. zlib's checksum finds damage.

    A directory that cannot be used, or a damaged file, costs speed and never a result.
    """

    def __init__(self, directory: Path):
        super().__init__(directory, lock_class=nullcontext)  # type: ignore[arg-type]

    def get(self, key: str) -> bytes | None:
        try:
            kept = super().get(key)
            return None if kept is None else zlib.decompress(kept)
        except (OSError, zlib.error):
            return None

    def set(self, key: str, value: bytes, expires: int | datetime | None = None) -> None:
        with suppress(OSError):
            super().set(key, zlib.compress(value), expires)


class _NoCache(BaseCache):
    """Keeps nothing."""

    def get(self, key: str) -> bytes | None:  # noqa: ARG002 - as in every cache
        return None

    def set(self, key: str, value: bytes, expires: int | datetime | None = None) -> None:
        pass

    def delete(self, key: str) -> None:
        pass


class _Adapter(CacheControlAdapter):
    """What lies between PyGithub's session and the network."""

    def __init__(self, client: GitHub, cache: Path | None, token: str | None):
        super().__init__(_NoCache() if cache is None else _Cache(cache / "http"))
        self.client = client
        self.token = token
        self._redirects = 0

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        url = request.url or ""
        if not self._is_inside(url):
            raise UnavailableError(f"{self.client.host} leads to another server")
        closed = "not in the cache (offline)" if self.client.offline else self.client.stopped
        # The commits between a tag and a commit never change.
        response = self._cached(request) if closed or "/compare/" in url else None
        if response is None and closed:
            raise UnavailableError(closed)
        if response is None:
            response = self._ask(request, *arguments, **options)
        response.encoding = "utf-8"  # as JSON always is; else its encoding would be guessed
        return self._redirected(url, response)

    def build_response(  # type: ignore[override]
        self, request: PreparedRequest, response: urllib3.HTTPResponse, from_cache: bool = False
    ) -> Response:
        if from_cache:
            return super().build_response(request, response, from_cache=True)
        body = self._read(response)
        headers = urllib3.HTTPHeaderDict(response.headers)
        # The body is unpacked. `Vary` would have the cache keep the token; the ETag says whether an entry still holds.
        for name in ("content-encoding", "transfer-encoding", "vary"):
            headers.discard(name)
        if self.token is not None:
            body = body.replace(self.token.encode(), b"***")
            for name, value in list(headers.items()):
                headers[name] = value.replace(self.token, "***")
        if any(not self._is_inside(link) for link in re.findall(r"<([^<>]*)>", headers.get("link", ""))):
            headers.discard("link")
        headers["Content-Length"] = str(len(body))
        headers["Date"] = format_datetime(answer_time(response.headers, self.client.now()).astimezone(UTC), usegmt=True)
        whole = urllib3.HTTPResponse(
            io.BytesIO(body), headers, response.status, response.version, reason=response.reason, preload_content=False
        )
        if response.status == 304:
            return super().build_response(request, whole)
        if request.method == "GET" and (response.status != 200 or _is_json(body)):
            self.controller.cache_response(request, whole, body)
        return super().build_response(request, whole, from_cache=True)

    def _ask(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        """An answer that says something, after a bounded number of attempts and of waits."""
        client = self.client
        # GraphQL only reads here.
        is_repeatable = request.method in ("GET", "HEAD") or request.url == client.api.requester.graphql_url
        why = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                client.pause(2.0 ** (attempt - 1))
            is_last = attempt == ATTEMPTS - 1 or not is_repeatable
            try:
                response = super().send(request, *arguments, **options)
            except (exceptions.RequestException, _UnusableAnswerError) as error:
                why, is_reached = _failure(error)
                # Whoever writes looks whether it has happened, and tries again.
                if is_last and not is_reached and is_repeatable:
                    raise client.stop(f"{client.base} cannot be reached: {why}") from None
            else:
                if (seconds := wanted_wait(response, client.now())) is not None:
                    why = self._limit_text(response, seconds)
                    if attempt == ATTEMPTS - 1 or not client.may_wait(seconds):
                        raise client.stop(why)
                    client.pause(seconds)
                    continue  # GitHub did nothing, so a write may be repeated too
                if response.status_code >= 500 or response.status_code in (202, 304):
                    why = f"{client.host} answers {response.status_code}"
                elif response.status_code == 200 and is_repeatable and not _is_json(response.content):
                    why = "the answer is cut off"
                else:
                    client.count_success()
                    return response
            if is_last:
                break
        raise client.count_failure(why)

    def _cached(self, request: PreparedRequest) -> Response | None:
        """What is in the cache, however old."""
        lookup = request.copy()
        lookup.headers["Cache-Control"] = _ANY_AGE
        kept = self.controller.cached_request(lookup) if request.method == "GET" else None
        return self.build_response(request, kept, from_cache=True) if kept else None

    def _redirected(self, url: str, response: Response) -> Response:
        """The same answer; a redirect that PyGithub is to follow gets the one status for which it does."""
        if response.status_code not in (301, 302, 307, 308) or url == self.client.download:
            self._redirects = 0
            return response
        self._redirects += 1
        target = urljoin(url, response.headers.get("Location", ""))
        if not self._is_inside(target) or target == url:
            raise UnavailableError(f"{self.client.host} redirects to an address that is not followed")
        if self._redirects > MAX_REDIRECTS:
            self._redirects = 0
            raise UnavailableError(f"{self.client.host} redirects too often")
        response.status_code = 301
        return response

    def _read(self, response: urllib3.HTTPResponse) -> bytes:
        """The body, unpacked. Raises _UnusableAnswerError, and closes the connection then."""
        try:
            body = self._read_bounded(response)
        except urllib3.exceptions.TimeoutError:
            raise _UnusableAnswerError("the answer stopped half-way") from None
        except urllib3.exceptions.HTTPError as error:
            raise _UnusableAnswerError(f"the answer is broken ({type(error).__name__})") from None
        except _UnusableAnswerError:
            response.close()
            raise
        response.release_conn()
        counts = self.client.counts
        counts.requests += 1
        counts.bodies += bool(body)
        counts.body_bytes += len(body)
        counts.unchanged += response.status == 304
        return body

    def _read_bounded(self, response: urllib3.HTTPResponse) -> bytes:
        body = bytearray()
        begin = time.monotonic()
        # read1: a full chunk of a server that sends a byte now and then would take for ever.
        while chunk := response.read1(_CHUNK, decode_content=True):
            body += chunk
            if len(body) > MAX_BYTES:
                raise _UnusableAnswerError(f"the answer is larger than {MAX_BYTES >> 20} MiB")
            if time.monotonic() - begin > LONGEST_ANSWER:
                raise _UnusableAnswerError(f"the answer takes longer than {LONGEST_ANSWER:.0f} s")
        return bytes(body)

    def _limit_text(self, response: Response, seconds: float) -> str:
        try:
            until = time_text(answer_time(response.headers, self.client.now()) + timedelta(seconds=seconds))
        except OverflowError:
            until = "an unknown day"
        todo = (
            "set GITHUB_TOKEN for a larger one" if self.client.anonymous else "continue then: what was fetched is kept"
        )
        return f"the quota of {self.client.host} is used up until {until}; {todo}"

    def _is_inside(self, url: str) -> bool:
        """Whether the address is below the API's base. An Enterprise Server has GraphQL beside it."""
        try:
            own, other = urlsplit(self.client.base), urlsplit(url)
            same = (own.scheme, own.hostname, _port(own)) == (other.scheme, other.hostname, _port(other))
        except ValueError:
            return False
        beside = own.path.removesuffix("/v3") + "/graphql"
        return same and (other.path.startswith(own.path + "/") or other.path == beside)


def wanted_wait(response: Response, now: datetime) -> float | None:
    """Seconds until GitHub wants to be asked again; None for an answer about something else.

    As docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api asks: Retry-After, else the time
    of the reset if nothing remains, else a minute.
    """
    if response.status_code not in (403, 429):
        return None
    if (after := _whole_number(response.headers.get("retry-after"))) is not None:
        return max(1.0, float(after))
    if response.headers.get("x-ratelimit-remaining") == "0":
        reset = _whole_number(response.headers.get("x-ratelimit-reset"))
        # By the server's own clock: this machine's may be wrong.
        return _MINUTE if reset is None else max(1.0, reset - answer_time(response.headers, now).timestamp() + 1.0)
    return _MINUTE if response.status_code == 429 or b"rate limit" in response.content[:2000].lower() else None


def _failure(error: Exception) -> tuple[str, bool]:
    """Why there is no answer, in words of our own (the library's may quote what was sent), and whether one began."""
    match error:
        case _UnusableAnswerError():
            return str(error), True
        case exceptions.ConnectTimeout():
            return "no answer in time", False
        case exceptions.Timeout():
            return "the answer stopped half-way", True
        case exceptions.SSLError():
            return "its certificate is not accepted", False
        case exceptions.ProxyError():
            return "the proxy refuses", False
        case exceptions.ConnectionError():
            return "no connection", False
        case _:
            return f"the answer is broken ({type(error).__name__})", True


def _port(parts: SplitResult) -> int | None:
    return parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _is_json(body: bytes) -> bool:
    """Whether a body can be a whole JSON object or list; a body that was cut off is not."""
    text = body.strip()
    return text[:1] + text[-1:] in (b"{}", b"[]")


def _whole_number(value: str | None) -> int | None:
    return int(value) if value is not None and re.fullmatch(r"[0-9]{1,12}", value) else None
