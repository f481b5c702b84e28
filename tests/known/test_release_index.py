"""Which releases there are: the shipped table, an index on loopback, what is kept of it, and what is then not known."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from packaging.version import Version as Pep440

from regress_gate.known.records.releases import find_releases, release_date, shipped_releases

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
ANSWER = {
    "releases": {
        "0.33.0": [{"upload_time": "2026-11-01T10:00:00", "yanked": False}],
        "0.34.0": [{"upload_time": "2026-11-20T10:00:00"}, {"upload_time": "2026-11-19T23:00:00"}],
        "0.34.1": [{"upload_time": "2026-11-25T10:00:00", "yanked": True}],
        "0.35.0rc1": [{"upload_time": "2026-11-28T10:00:00"}],
        "0.36.0": [],
    }
}


@contextmanager
def index(body: bytes, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """The URL of an index that answers so, and the requests that it gets."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/pypi/vllm/json", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_shipped_table() -> None:
    assert release_date("0.19.1") == date(2026, 4, 18)
    assert release_date("v0.33.0") == date(2026, 11, 2)
    assert release_date("0.19.9") is None
    assert release_date("not a version") is None
    days = list(shipped_releases().items())
    assert len(days) >= 60
    assert all(not version.is_prerelease for version, _ in days)


def test_the_index_adds_what_was_published_since(tmp_path: Path) -> None:
    with index(json.dumps(ANSWER).encode()) as (url, _):
        found = find_releases(url, tmp_path / "r.json", now=NOW, offline=False)
    assert found.days[Pep440("0.34.0")] == date(2026, 11, 19)
    assert found.note is None


def test_candidates_withdrawn_and_empty_releases_are_none(tmp_path: Path) -> None:
    with index(json.dumps(ANSWER).encode()) as (url, _):
        found = find_releases(url, tmp_path / "r.json", now=NOW, offline=False)
    assert set(found.days) == {Pep440("0.33.0"), Pep440("0.34.0")}


def test_it_is_asked_once_a_day(tmp_path: Path) -> None:
    with index(json.dumps(ANSWER).encode()) as (url, asked):
        for hours in (0, 1, 23, 25):
            find_releases(url, tmp_path / "r.json", now=NOW + timedelta(hours=hours), offline=False)
    assert len(asked) == 2


def test_offline_says_since_when_nothing_is_known(tmp_path: Path) -> None:
    with index(json.dumps(ANSWER).encode()) as (url, asked):
        before = find_releases(url, tmp_path / "r.json", now=NOW, offline=True)
        find_releases(url, tmp_path / "r.json", now=NOW, offline=False)
        after = find_releases(url, tmp_path / "r.json", now=NOW + timedelta(days=3), offline=True)
    assert before.note == "offline: releases after 2026-11-22 are not known"
    assert after.note == "offline: releases after 2026-12-01 are not known"
    assert Pep440("0.34.0") in after.days
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 200), (b"[]", 200), (b'{"releases": {"0.1": 3}}', 200), (b"busy", 503), (b"", 404)]
)
def test_an_index_that_does_not_answer_leaves_the_shipped_table_and_a_note(
    tmp_path: Path, body: bytes, status: int
) -> None:
    with index(body, status) as (url, _):
        found = find_releases(url, tmp_path / "r.json", now=NOW, offline=False)
    assert found.days == shipped_releases()
    assert found.note is not None
    assert "after 2026-11-22 are not known" in found.note
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize("kept", ["", "[]", '{"url": 1, "asked": "x"}', '{"asked": "2026-12-01T12:00:00"}'])
def test_what_is_kept_and_no_cache_of_ours_is_ignored(tmp_path: Path, kept: str) -> None:
    (tmp_path / "r.json").write_text(kept)
    assert find_releases("http://127.0.0.1:9/", tmp_path / "r.json", now=NOW, offline=True).days == shipped_releases()


def test_a_cache_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with index(json.dumps(ANSWER).encode()) as (url, _):
        found = find_releases(url, tmp_path / "file" / "r.json", now=NOW, offline=False)
    assert found.note is None
