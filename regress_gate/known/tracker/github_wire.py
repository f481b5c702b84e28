"""The wire to GitHub: PyGithub's requester, with answers of bounded size and no redirect followed unseen.

The token goes into the requester and comes out nowhere else: an answer that repeats it is blanked, and no exception of
the libraries below, which may quote what was sent, gets through.
"""

import string
import time
from collections.abc import ItemsView
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from github import Auth
from github.Requester import (
    HTTPRequestsConnectionClass,
    HTTPSRequestsConnectionClass,
    Requester,
    RequestsResponse,
)

from regress_gate import __version__
from regress_gate.errors import InputError
from regress_gate.known.tracker.github_reply import LOCATION, NoReplyError, Reply, Send

MAX_BYTES = 32 * 1024 * 1024
"""Of one answer, unpacked. The largest that are wanted, comparisons with a hundred commits, have a tenth."""
TIMEOUT = 15
"""Seconds without a byte."""
LONGEST = 30.0
"""Seconds for one answer: a server that sends a byte now and then never runs into the other limit."""
_CHUNK = 64 * 1024
_SIGNS = frozenset(string.ascii_letters + string.digits + string.punctuation)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def connect(base: str, token: str | None) -> Send:
    """The way to fetch from the API at `base`. Raises InputError for an address or token that cannot be used."""
    check_base(base, token)
    counted = _Counted()
    requester = _requester(base, None if token is None else Auth.Token(token), counted)

    def send(path: str, headers: dict[str, str]) -> Reply:
        counted.size = 0
        try:
            status, found, text = requester.requestJson("GET", path, headers=headers)
        except requests.exceptions.ConnectTimeout:
            raise NoReplyError("no answer in time", reached=False) from None
        except requests.exceptions.Timeout:
            raise NoReplyError("the answer stopped half-way", reached=True) from None
        except requests.exceptions.SSLError:
            raise NoReplyError("its certificate is not accepted", reached=False) from None
        except requests.exceptions.ProxyError:
            raise NoReplyError("the proxy does not let us through", reached=False) from None
        except requests.exceptions.ConnectionError:
            raise NoReplyError("no connection", reached=False) from None
        except _TooLargeError:
            raise NoReplyError(f"the answer is larger than {MAX_BYTES >> 20} MiB", reached=True) from None
        except _TooSlowError:
            raise NoReplyError(f"the answer takes longer than {LONGEST:.0f} s", reached=True) from None
        except urllib3.exceptions.TimeoutError:
            raise NoReplyError("the answer stopped half-way", reached=True) from None
        except (
            requests.exceptions.RequestException,
            urllib3.exceptions.HTTPError,
            ValueError,
            RuntimeError,
            AssertionError,
        ) as error:
            raise NoReplyError(f"the answer is broken ({type(error).__name__})", reached=True) from None
        if token is not None:
            text = text.replace(token, "…")
            found = {name: str(value).replace(token, "…") for name, value in found.items()}
        return Reply(status, found, text, counted.size)

    return send


def check_base(base: str, token: str | None) -> None:
    """Raises InputError for an address that is none, or to which the token should not go, and for a broken token."""
    where = "REGRESS_GATE_GITHUB_API"
    try:
        parts = urlsplit(base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise InputError("is no address of an API", where=where, todo="write https://HOST or https://HOST/api/v3")
    if parts.username or parts.password:
        raise InputError("must not hold a name or password", where=where, todo="put the token into GITHUB_TOKEN")
    if token is None:
        return
    if not set(token) <= _SIGNS:
        raise InputError("is no token: it has blanks or other signs that no token has", where="GITHUB_TOKEN")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InputError("would send the token in clear", where=where, todo="use https, or unset GITHUB_TOKEN")


class _TooLargeError(Exception):
    pass


class _TooSlowError(Exception):
    pass


class _Counted:
    """Bytes of the last body."""

    size = 0


class _Bounded(RequestsResponse):
    """An answer that is read up to a limit; redirects and 202 are left to the caller."""

    def __init__(self, response: requests.Response, counted: _Counted):
        super().__init__(response)
        self.counted = counted
        # PyGithub waits and asks again for as long as a server says "accepted".
        self.status = 503 if response.status_code == 202 else response.status_code

    def getheaders(self) -> ItemsView[str, str]:
        return {LOCATION if name.lower() == "location" else name: value for name, value in self.headers.items()}.items()

    def read(self) -> str:
        body = bytearray()
        begin = time.monotonic()
        # What there is, and not a full chunk: to wait for one from a slow server has no end.
        while chunk := self.response.raw.read1(_CHUNK, decode_content=True):
            body += chunk
            if len(body) > MAX_BYTES:
                self.response.close()
                raise _TooLargeError
            if time.monotonic() - begin > LONGEST:
                self.response.close()
                raise _TooSlowError
        self.counted.size = len(body)
        return body.decode("utf-8", "replace")


def _fetch(connection: Any, counted: _Counted) -> RequestsResponse:
    url = f"{connection.protocol}://{connection.host}:{connection.port}{connection.url}"
    response = connection.session.get(
        url,
        headers=connection.headers,
        timeout=connection.timeout,
        verify=connection.verify,
        allow_redirects=False,
        stream=True,
    )
    return _Bounded(response, counted)


def _requester(base: str, auth: Auth.Auth | None, counted: _Counted) -> Requester:
    class Http(HTTPRequestsConnectionClass):
        def getresponse(self) -> RequestsResponse:
            return _fetch(self, counted)

    class Https(HTTPSRequestsConnectionClass):
        def getresponse(self) -> RequestsResponse:
            return _fetch(self, counted)

    # A requester keeps the classes that are set while it is made; the setting itself belongs to the whole process.
    Requester.injectConnectionClasses(Http, Https)
    try:
        return Requester(
            auth=auth,
            base_url=base.rstrip("/"),
            timeout=TIMEOUT,
            user_agent=f"regress-gate/{__version__}",
            per_page=100,
            verify=True,
            retry=None,
            pool_size=None,
        )
    finally:
        Requester.resetConnectionClasses()
