"""Files are replaced as a whole, whatever happens meanwhile."""

import os
import stat
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from regress_gate.errors import InputError
from regress_gate.files import draft_of, read_bounded, read_url, replace_file, write_output_file


@pytest.fixture
def umask_022():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask_022")
def test_a_new_file_is_written(tmp_path: Path) -> None:
    replace_file(tmp_path / "new.json", "é\r\n")
    assert (tmp_path / "new.json").read_bytes() == "é\r\n".encode()
    assert mode_of(tmp_path / "new.json") == 0o644
    assert len(list(tmp_path.iterdir())) == 1


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_text("old")
    path.chmod(0o640)
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert mode_of(path) == 0o640


@pytest.mark.usefixtures("umask_022")
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_permissions_are_as_asked(tmp_path: Path, mode: int) -> None:
    replace_file(tmp_path / "file", "x", mode=mode)
    assert mode_of(tmp_path / "file") == mode


def test_a_private_file_is_private_from_its_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    replace = Path.replace

    def look(draft: Path, target: Path) -> Path:
        seen.append(mode_of(draft))
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", look)
    replace_file(tmp_path / "file", "secret", mode=0o600)
    assert seen == [0o600]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    replace_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(_draft: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_is_no_unicode_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        replace_file(tmp_path / "file", "a\ud800")
    assert list(tmp_path.iterdir()) == []


def write_half(path: Path) -> None:
    with draft_of(path) as draft:
        draft.write_text("half")
        raise ZeroDivisionError


def test_a_draft_is_removed_when_its_writer_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        write_half(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_draft_takes_the_place_of_the_file(tmp_path: Path) -> None:
    with draft_of(tmp_path / "file") as draft:
        assert draft.parent == tmp_path
        draft.write_text("whole")
        assert not (tmp_path / "file").exists()
    assert (tmp_path / "file").read_text() == "whole"


def test_an_output_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing/report\.md: cannot be written \(No such file"):
        write_output_file(tmp_path / "missing" / "report.md", "x")


def test_a_device_is_written_to_in_place() -> None:
    write_output_file(Path("/dev/null"), "x")
    assert not Path("/dev/null").is_file()


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_bounded(path, 100) == b"x" * 100
    assert read_bounded(path, 99) is None


def test_reading_an_endless_device_ends() -> None:
    assert read_bounded(Path("/dev/zero"), 1000) is None


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_bounded(tmp_path / "missing", 10)


class Pages(BaseHTTPRequestHandler):
    """`/page` has ten bytes, `/away` leads to another server, `/none` is not there; what was sent is kept."""

    sent: ClassVar[list[tuple[str, str | None]]] = []
    other = ""

    def do_GET(self) -> None:
        self.sent.append((self.path, self.headers["Authorization"]))
        self.send_response({"/away": 302, "/none": 404}.get(self.path, 200))
        if self.path == "/away":
            self.send_header("Location", f"{self.other}/page")
        self.end_headers()
        self.wfile.write(b"0123456789")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_credentials_of_an_address_go_to_its_own_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving() as host, serving() as other:
        monkeypatch.setattr(Pages, "sent", [])
        monkeypatch.setattr(Pages, "other", f"http://{other}")
        assert read_url(f"http://me:p%40w@{host}/away", 4, timeout=5.0) == b"0123"
    basic = "Basic " + b64encode(b"me:p@w").decode()
    assert Pages.sent == [("/away", basic), ("/page", None)]


def test_an_address_that_cannot_be_read_is_an_error_that_does_not_quote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "file").write_bytes(b"abcdef")
    assert read_url(f"file://{tmp_path}/file", 3, timeout=5.0) == b"abc"
    with serving() as host, pytest.raises(OSError, match="404"):
        read_url(f"http://{host}/none", 10, timeout=5.0)
    for url in ("http://me:s3cret@127.0.0.1:1/", "http://h:s3cret/", "http://[s3cret/", "http:// s3cret/"):
        with pytest.raises(OSError, match=r".") as failed:
            read_url(url, 10, timeout=5.0)
        assert "s3cret" not in str(failed.value)
