"""A server that runs already is asked for its version, and refused when it is another."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from regress_gate.bench.provision.interface import ProvisionError, ServeRequest
from regress_gate.bench.provision.url import UrlProvisioner
from regress_gate.errors import InputError
from regress_gate.model.version import Version


class Handler(BaseHTTPRequestHandler):
    body = b""
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/version" else 404)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[tuple[type[Handler], str]]:
    handler = type("Handler", (Handler,), {"body": b'{"version": "0.19.1"}'})
    with HTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield handler, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_the_version_it_serves_is_verified(server: tuple[type[Handler], str]) -> None:
    environment = UrlProvisioner(server[1] + "/").provision(Version.parse("v0.19.1+cpu"))
    assert environment.url == server[1]
    assert environment.version == Version("0.19.1", None, "cpu")
    with pytest.raises(ProvisionError, match=r"serves 0\.19\.1, not 0\.20\.0"):
        UrlProvisioner(server[1]).provision(Version.parse("0.20.0"))
    with pytest.raises(InputError, match="runs already"):
        environment.launch(ServeRequest("m", "m"), 1)


def test_a_commit_is_verified_where_the_server_tells_it(server: tuple[type[Handler], str]) -> None:
    server[0].body = b'{"version": "0.19.2rc1.dev4+g4080263bb"}'
    assert UrlProvisioner(server[1]).provision(Version.parse("commit:4080263bb")).version.commit == "4080263bb"
    with pytest.raises(ProvisionError, match="not commit:deadbeef0"):
        UrlProvisioner(server[1]).provision(Version.parse("commit:deadbeef0"))


@pytest.mark.parametrize(
    ("status", "body", "complaint"),
    [(404, b"", "status 404"), (200, b"<html>", "does not tell"), (200, b'{"version": 3}', "does not tell")],
)
def test_a_server_that_does_not_tell_is_not_measured(
    server: tuple[type[Handler], str], status: int, body: bytes, complaint: str
) -> None:
    server[0].status, server[0].body = status, body
    with pytest.raises(ProvisionError, match=complaint):
        UrlProvisioner(server[1]).provision(Version.parse("0.19.1"))


def test_a_server_that_is_not_there_is_not_measured() -> None:
    with pytest.raises(ProvisionError, match="does not answer"):
        UrlProvisioner("http://127.0.0.1:1").provision(Version.parse("0.19.1"))


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://host", "http://host:port"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        UrlProvisioner(url)
