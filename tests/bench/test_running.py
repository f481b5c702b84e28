"""Servers that run already: whether they are on this machine, and whether they still serve."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from regress_gate.bench import external_servers
from regress_gate.bench.external_servers import find_health_failure, has_health_page, is_local
from regress_gate.bench.load.load_errors import LoadError


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://localhost:8000/", "http://[::1]:8000"])
def test_a_loopback_address_is_here(url: str) -> None:
    assert is_local(url)


@pytest.mark.parametrize("url", ["http://192.0.2.1:8000", "http://localhost.example:8000"])
def test_any_other_is_elsewhere(url: str) -> None:
    assert not is_local(url)


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Serves these statuses one after the other, the last one for ever, and gives the URL."""
    with ExitStack() as stack:

        def start(*statuses: int) -> str:
            left = list(statuses)

            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response(left.pop(0) if len(left) > 1 else left[0])
                    self.send_header("Content-Length", "0")
                    self.end_headers()

                def log_message(self, *_: object) -> None: ...

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            return f"http://127.0.0.1:{server.server_port}"

        yield start


def test_a_server_without_a_health_page_says_nothing_of_its_health(serve: Callable[..., str]) -> None:
    assert has_health_page(serve(200))
    assert not has_health_page(serve(404))


def test_a_server_that_is_unhealthy_from_the_beginning_is_not_measured(serve: Callable[..., str]) -> None:
    with pytest.raises(LoadError, match="/health answers 503: the server is not healthy"):
        has_health_page(serve(503))
    with pytest.raises(LoadError, match="/health answers nothing"):
        has_health_page("http://127.0.0.1:9")


def test_one_bad_answer_is_no_failure(serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_servers, "_HEALTH_POLL", 0.01)
    assert find_health_failure(serve(503, 503, 200)) is None


def test_a_server_that_stays_unhealthy_has_failed(serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_servers, "_HEALTH_POLL", 0.01)
    monkeypatch.setattr(external_servers, "RECOVERY_WITHIN", 0.1)
    failure = find_health_failure(serve(503))
    assert failure is not None
    assert (failure.kind, failure.kind.may_be_the_version) == ("unresponsive", True)
