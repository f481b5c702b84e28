"""Reads a server's `/metrics` right before and after the measured requests of a trial, and a few times between.

While requests are measured, nothing is parsed, and the pauses between readings are so long that the server spends at
most a 200th of its time on answering them. A server without the page, a page that is slow, huge or no page of vLLM's:
the trial has no such numbers, and the reason is said once. Not for what a page says (`vllm.server_metrics`).
"""

import http.client
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from regress_gate.errors import InputError
from regress_gate.vllm.server_metrics import MetricsPage, metrics_window, read_metrics_page, select_lines

PAGE_TIMEOUT = 5.0
"""Seconds for one page, in all."""
MAX_PAGE = 2**24
"""Bytes of a page. A larger one is refused: it is read while requests are measured."""
SAMPLE_INTERVAL = 10.0
"""Seconds between two readings during a trial, at least. Every two seconds, a reading meets more than one in a
hundred first tokens of 50 ms, and a change of their p99 could not be excluded (+7 %, -0.3 to +15 %)."""
REST = 200
"""Times the length of the last reading that the next one waits, at least. A vLLM server answers in its event loop,
where it also sends tokens: so at most 0.5 % of the gaps between tokens contain a reading."""
MAX_SAMPLES = 500


def fetch_metrics(url: str) -> bytes:
    """The page at `URL/metrics`. Proxies are not used. Raises InputError if it is not there, too slow or too large."""
    parts, deadline = urlsplit(url), time.monotonic() + PAGE_TIMEOUT
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=PAGE_TIMEOUT, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=PAGE_TIMEOUT)
    )
    try:
        connection.request("GET", "/metrics", headers={"Connection": "close"})
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise InputError(f"/metrics answers {answer.status}")
        page = bytearray()
        while part := answer.read1(2**16):
            page += part
            if len(page) > MAX_PAGE:
                raise InputError(f"/metrics is larger than {MAX_PAGE // 2**20} MiB")
            if time.monotonic() > deadline:
                raise InputError(f"/metrics takes longer than {PAGE_TIMEOUT:.0f} s")
        return bytes(page)
    except (OSError, http.client.HTTPException) as error:
        raise InputError(f"/metrics cannot be read ({str(error)[:80] or type(error).__name__})") from None
    finally:
        connection.close()


@dataclass(slots=True)
class MetricsSource:
    """The page of one server. After the first failure it is not asked again."""

    url: str
    failure: str | None = None
    """Why nothing is known from it."""


@dataclass(slots=True)
class _Reading:
    """The page before or after, read by the thread."""

    page: bytes = b""
    moment: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)


class MetricsWatch:
    """One trial. `begin` is called right before the measured requests; leaving the context reads the last page.
    `numbers` has the result."""

    def __init__(self, source: MetricsSource) -> None:
        self._source = source
        self._before = _Reading()
        self._after = _Reading()
        self._samples: list[bytes] = []
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        if self._thread is not None and self._source.failure is None:
            self._await(self._after)

    def begin(self) -> None:
        """Read the first page, and go on reading. Waits for the page, at most PAGE_TIMEOUT."""
        if self._source.failure is None and self._thread is None:
            # In a thread, so that a page that never ends holds nobody up, and a daemon, so that it ends with the tool.
            self._thread = threading.Thread(target=self._run, name="metrics-watch", daemon=True)
            self._thread.start()
            self._await(self._before)

    def numbers(self) -> Mapping[str, float]:
        """As `metrics_window` has them; empty if they are not known."""
        if self._thread is None or self._source.failure is not None:
            return {}
        try:
            before, after = read_metrics_page(self._before.page), read_metrics_page(self._after.page)
            between: list[MetricsPage] = [read_metrics_page(page) for page in self._samples]
            return metrics_window(before, after, between, seconds=self._after.moment - self._before.moment)
        except InputError as error:
            self._source.failure = error.what
            return {}

    def _await(self, reading: _Reading) -> None:
        if not reading.done.wait(PAGE_TIMEOUT):
            self._source.failure = f"/metrics takes longer than {PAGE_TIMEOUT:.0f} s"

    def _run(self) -> None:
        try:
            took = self._read(self._before)
            while not self._ends.wait(max(SAMPLE_INTERVAL, REST * took)):
                begin = time.monotonic()
                with suppress(InputError):  # a busy server may be too slow once
                    page = select_lines(fetch_metrics(self._source.url))
                    if len(self._samples) < MAX_SAMPLES:
                        self._samples.append(page)
                took = time.monotonic() - begin
            self._read(self._after)
        except InputError as error:
            self._source.failure = error.what
        finally:
            self._before.done.set()
            self._after.done.set()

    def _read(self, reading: _Reading) -> float:
        """Seconds that it took."""
        begin = time.monotonic()
        reading.page = select_lines(fetch_metrics(self._source.url))
        reading.moment = time.monotonic()
        reading.done.set()
        return reading.moment - begin
