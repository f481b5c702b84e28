"""A server of files on loopback, as an index of wheels or a registry is one: with ETags, dates and byte ranges."""

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


@dataclass
class FileServer:
    files: dict[str, bytes] = field(default_factory=dict)
    """By path, with the query where there is one."""
    changed: datetime | None = None
    """Last-Modified of every file."""
    headers: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Of the answer for a path."""
    status: dict[str, int] = field(default_factory=dict)
    """Instead of an answer for a path."""
    asked: list[tuple[str, int]] = field(default_factory=list)
    """Path and status of every answer."""
    requests: list[Mapping[str, str]] = field(default_factory=list)
    """Headers of every request."""
    token: str | None = None
    """What must be shown for everything below `v2/`, as a registry of containers demands it."""
    url: str = ""


@contextmanager
def serving_files(server: FileServer) -> Iterator[FileServer]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}/"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def _handler(server: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path).lstrip("/")
            server.requests.append(dict(self.headers.items()))
            content = server.files.get(path)
            status = server.status.get(path, 404 if content is None else 200)
            body, more = (content or b"") if status == 200 else b"", dict(server.headers.get(path, {}))
            if (
                server.token
                and path.startswith("v2/")
                and self.headers.get("Authorization") != f"Bearer {server.token}"
            ):
                status, body = 401, b""
                more["WWW-Authenticate"] = f'Bearer realm="{server.url}token",service="here",scope="repository:x:pull"'
            if status == 200:
                tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
                more["ETag"] = tag
                if server.changed is not None:
                    more["Last-Modified"] = format_datetime(server.changed, usegmt=True)
                if self.headers.get("If-None-Match") == tag:
                    status, body = 304, b""
                elif wanted := self.headers.get("Range"):
                    first, last = (int(part) for part in wanted.removeprefix("bytes=").split("-"))
                    more["Content-Range"] = f"bytes {first}-{min(last, len(body) - 1)}/{len(body)}"
                    status, body = 206, body[first : last + 1]
            server.asked.append((path, status))
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    return Handler
