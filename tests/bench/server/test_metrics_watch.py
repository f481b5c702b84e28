"""A trial has what its server counted meanwhile; a page that is missing, slow, huge or strange costs nothing more."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from regress_gate.bench.server import metrics_watch
from regress_gate.bench.server.metrics_watch import MetricsSource, MetricsWatch
from regress_gate.errors import InputError

Answer = Callable[[BaseHTTPRequestHandler, int], None]


@contextmanager
def served(answer: Answer) -> Iterator[MetricsSource]:
    """A server whose answer to the Nth request is what `answer` writes."""
    numbers = iter(range(1, 10_000))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self, next(numbers))

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield MetricsSource(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()


def page(requests: int, running: int = 0) -> bytes:
    return (
        f'vllm:request_success_total{{engine="0"}} {requests}\nvllm:num_requests_running{{engine="0"}} {running}\n'
    ).encode()


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def trial(source: MetricsSource, during: Callable[[], object] = lambda: None) -> dict[str, float]:
    with MetricsWatch(source) as watch:
        watch.begin()
        during()
    return dict(watch.numbers())


def test_a_trial_has_what_was_counted_between_its_first_and_its_last_moment() -> None:
    with served(lambda handler, number: send(handler, page(100 * number))) as source:
        numbers = trial(source)
    assert numbers["requests"] == 100
    assert (numbers["samples"], numbers["engines"]) == (0, 1)
    assert source.failure is None


def test_gauges_are_read_during_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_watch, "SAMPLE_INTERVAL", 0.001)
    monkeypatch.setattr(metrics_watch, "REST", 0)
    seen = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        send(handler, page(number, running=number))
        if number > 4:
            seen.set()

    with served(answer) as source:
        numbers = trial(source, lambda: seen.wait(60))
    assert numbers["running_max"] >= 4
    assert numbers["samples"] >= 3


def test_a_slow_page_is_read_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Ends(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            return True

    def slow(_: str) -> bytes:
        clock.now += 0.5
        return page(1)

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(metrics_watch, "time", clock)
    monkeypatch.setattr(metrics_watch, "fetch_metrics", slow)
    watch = MetricsWatch(MetricsSource("http://127.0.0.1:1"))
    monkeypatch.setattr(watch, "_ends", Ends())
    with watch:
        watch.begin()
    assert waits == [0.5 * metrics_watch.REST]


def test_a_page_that_fails_once_during_the_trial_is_only_one_sample_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_watch, "SAMPLE_INTERVAL", 0.001)
    monkeypatch.setattr(metrics_watch, "REST", 0)
    enough = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        send(handler, page(number), status=500 if number == 2 else 200)
        if number > 3:
            enough.set()

    with served(answer) as source:
        assert trial(source, lambda: enough.wait(60))["requests"] >= 3
    assert source.failure is None


def test_a_server_without_the_page_is_asked_once() -> None:
    asked = []

    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        asked.append(number)
        send(handler, b"", status=404)

    with served(answer) as source:
        assert trial(source) == {}
        assert trial(source) == {}
    assert asked == [1]
    assert source.failure == "/metrics answers 404"


def test_a_server_that_is_gone_has_no_numbers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        source = MetricsSource(f"http://127.0.0.1:{free.getsockname()[1]}")
    assert trial(source) == {}
    assert source.failure is not None
    assert "cannot be read" in source.failure


def drip(handler: BaseHTTPRequestHandler, number: int) -> None:
    """A byte now and then, for ever."""
    del number
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"#")
            time.sleep(0.01)
    except OSError:
        pass


def test_a_page_that_never_ends_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_watch, "PAGE_TIMEOUT", 0.2)
    with served(drip) as source:
        assert trial(source) == {}
    assert source.failure is not None
    assert "takes longer than" in source.failure


def test_a_huge_page_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_watch, "MAX_PAGE", 2**20)
    with served(lambda handler, _: send(handler, b"#" * 2**21)) as source:
        assert trial(source) == {}
    assert source.failure == "/metrics is larger than 1 MiB"


@pytest.mark.parametrize("body", [b"\xff\x00\n" * 100, b'vllm:num_preemptions_total{engine="} 1\n', b"<html/>"])
def test_a_strange_page_has_no_numbers_and_a_reason(body: bytes) -> None:
    with served(lambda handler, _: send(handler, body)) as source:
        assert trial(source) == {}
    assert source.failure is not None
    assert source.failure.isprintable()


def test_a_trial_that_fails_before_its_first_request_is_not_read() -> None:
    with served(lambda handler, _: send(handler, page(1))) as source:
        with pytest.raises(InputError), MetricsWatch(source) as watch:
            raise InputError("no server answers")
        assert watch.numbers() == {}
    assert source.failure is None  # the next trial asks again
