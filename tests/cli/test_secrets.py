"""No secret in a URL that the tool takes reaches the terminal, the store or a file: real commands, failing servers."""

import contextlib
import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from regress_gate import github
from regress_gate.bench.provision import recipe
from regress_gate.known.records import releases
from regress_gate.store.stored_values import json_values, storable_text
from tests.cli.conftest import Gate, Outcome

SECRET = "s3cr3tV4lue9x"
COMMIT = "commit:0123456789abcdef0123456789abcdef01234567"

PLACES = {
    "user and password": "{scheme}://me:{secret}@{host}/",
    "password with signs": "{scheme}://me:{secret}/x@{host}/",
    "user alone": "{scheme}://{secret}@{host}/",
    "path": "{scheme}://{host}/{secret}/simple/",
    "query": "{scheme}://{host}/?token={secret}",
    "bare query": "{scheme}://{host}/?{secret}",
    "fragment": "{scheme}://{host}/#{secret}",
}


class NotThere(http.server.BaseHTTPRequestHandler):
    """Answers 404 to everything, with what was asked for in the answer and in its reason."""

    def do_GET(self) -> None:
        self.send_response(404, f"no {self.path}")
        self.end_headers()
        self.wfile.write(f"there is no {self.path}, {self.headers['Authorization']}".encode())

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def listening(server: http.server.HTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def answering(kind: str) -> Iterator[str]:
    """HOST:PORT of a server that refuses, says 404, says nothing, or says something that is not HTTP."""
    if kind == "not there":
        with listening(http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotThere)) as host:
            yield host
        return
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if kind != "refused":
            server.listen(50)
        if kind == "no HTTP":
            threading.Thread(target=answer_with_noise, args=(server,), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def answer_with_noise(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"\x00no http\r\n\r\n")


KINDS = ("refused", "not there", "silent", "no HTTP")


@pytest.fixture(params=KINDS)
def host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    if request.param == "silent":  # what answers may take its time on a busy machine
        monkeypatch.setattr(releases, "TIMEOUT", 0.2)
        monkeypatch.setattr(recipe, "FETCH_TIMEOUT", 0.2)
        monkeypatch.setattr(github, "TIMEOUT", 1)
    monkeypatch.setattr(github, "ATTEMPTS", 1)
    monkeypatch.setattr(github.GitHub, "pause", lambda *_: None)
    with answering(request.param) as address:
        yield address


def assert_no_trace(gate: Gate, *outcomes: Outcome, written_by_test: tuple[Path, ...] = ()) -> None:
    for done in outcomes:
        assert SECRET not in done.out
        assert SECRET not in done.err
        assert "internal error" not in done.err
    for path in gate.directory.parent.rglob("*"):
        if path.is_file() and path not in written_by_test:
            assert SECRET.encode() not in path.read_bytes(), path
            assert SECRET not in str(path)


def configured(gate: Gate, text: str) -> Path:
    path = gate.directory / "regress-gate.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("place", PLACES)
def test_release_index(gate: Gate, host: str, place: str) -> None:
    url = PLACES[place].format(scheme="http", secret=SECRET, host=host)
    path = configured(gate, f'[check]\nrelease_index = "{url}"\n')
    asked = gate("check", "--recommend", "--from", "v0.32.0")
    assert f"{host}/" in asked.err
    assert "are not known" in asked.err
    assert_no_trace(gate, asked, gate("config", "show"), written_by_test=(path,))


@pytest.mark.parametrize("place", PLACES)
def test_wheel_index(gate: Gate, host: str, place: str) -> None:
    url = PLACES[place].format(scheme="http", secret=SECRET, host=host)
    path = configured(gate, f'[provision]\nwheel_index = "{url}"\n')
    added = gate("env", "add", COMMIT, "--accelerator", "H200", "-vv")
    nightly = gate("run", "nightly", "--suite", "cpu-tiny", "--provision", "venv", "-vv")
    assert added.code == nightly.code == 4
    assert f"http://{'***@' * ('@' in url)}{host}" in added.err.splitlines()[-1]
    assert_no_trace(gate, added, nightly, written_by_test=(path,))


@pytest.mark.parametrize("place", PLACES)
def test_a_server_that_runs_already(gate: Gate, host: str, place: str) -> None:
    """Whatever a URL holds besides host and port is of no use here, so it is refused before anything is asked."""
    url = PLACES[place].format(scheme="http", secret=SECRET, host=host)
    done = gate("run", "v0.19.1", "--suite", "cpu-tiny", "--testbed", "lab", "--url", url, "-vv")
    flags = ("--suite", "cpu-tiny", "--testbed", "lab", "--measure", "--url", url, "--url", url)
    both = gate("compare", "v0.19.0", "v0.19.1", *flags)
    assert done.code == both.code == 2
    assert "write http://HOST:PORT" in done.err.splitlines()[-1]
    assert_no_trace(gate, done, both)


@pytest.mark.parametrize("place", PLACES)
def test_interface_of_github(gate: Gate, host: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = PLACES[place].format(scheme="http", secret=SECRET, host=host)
    monkeypatch.setenv("REGRESS_GATE_GITHUB_API", url)
    done = gate("issues", "sync", "--format", "json")
    assert done.code in ((0, 4) if place == "path" else (2,))
    assert_no_trace(gate, done, gate("issues", "verify", "v0.19.1", "--offline"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://{secret}@127.0.0.1:1/db",
        "postgresql://me:{secret}@127.0.0.1:1/db",
        "postgresql://me:{secret}/x@127.0.0.1:1/db",
        "postgresql://me:my {secret}@127.0.0.1:1/db",
        "postgresql+psycopg://{secret}@127.0.0.1:1/db",
        "postgresql://127.0.0.1:1/db?password={secret}",
        "postgresql://127.0.0.1:1/db?user={secret}&connect_timeout=1",
        "postgresql://127.0.0.1:1/db?options=-csearch_path%3D{secret}",
        "postgresql:///db?host=127.0.0.1&port=1&passfile={secret}",
        "postgresql://127.0.0.1:1/db?{secret}=1",
        "postgresql://127.0.0.1:{secret}/db",
        "nothing://me:{secret}@127.0.0.1/db",
    ],
)
@pytest.mark.parametrize("by", ["flag", "variable", "file"])
def test_store(gate: Gate, url: str, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = url.format(secret=SECRET)
    monkeypatch.delenv("REGRESS_GATE_STORE")
    flags: tuple[str, ...] = ()
    written: tuple[Path, ...] = ()
    if by == "flag":
        flags = ("--store", url)
    elif by == "variable":
        monkeypatch.setenv("REGRESS_GATE_STORE", url)
    else:
        written = (configured(gate, f'[store]\nurl = "{url}"\n'),)
    result = gate.directory / "result.json"
    result.write_text('{"ttft_mean": 1}', encoding="utf-8")
    done = [
        gate(*command, *flags)
        for command in (
            ("baseline", "list"),
            ("db", "info"),
            ("db", "migrate"),
            ("config", "show"),
            ("compare", "v0.19.0", "v0.19.1"),
            ("import", result, "--version", "v0.19.1", "--testbed", "lab", "--dry-run"),
        )
    ]
    assert done[0].code in (2, 4)
    assert_no_trace(gate, *done, written_by_test=written)


def test_a_refused_setting_shows_no_secret(gate: Gate) -> None:
    path = configured(gate, f'[provision]\nwheel_index = "ftp://me:{SECRET}@host/"\n')
    done = gate("env", "add", COMMIT)
    assert done.code == 2
    assert_no_trace(gate, done, written_by_test=(path,))


def test_a_traceback_shows_no_secret(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        try:
            raise ValueError(f"cannot open https://me:{SECRET}@host/x \x1b[31m")
        except ValueError as error:
            raise RuntimeError(f"https://{SECRET}@host failed") from error

    monkeypatch.setattr("regress_gate.cli.env.settings_from", fail)
    short, long = gate("env", "add", COMMIT), gate("env", "add", COMMIT, "-vv")
    assert short.error == "internal error, please report it: RuntimeError: https://***@host failed"
    assert "ValueError: cannot open https://***@host/x" in long.err
    assert SECRET not in long.err
    assert "\x1b" not in long.err


def test_a_stored_command_and_path_hold_no_secret() -> None:
    """What a measurement or an import says of its origin is masked by the store, whoever wrote it."""
    assert storable_text(f"guidellm --target http://me:{SECRET}@host") == "guidellm --target http://***@host"
    assert SECRET not in str(json_values("plan", {"a": [f"https://host/?token={SECRET}"]}))
