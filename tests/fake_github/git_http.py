"""A private repository as GitHub serves it: git's own server program over HTTP on loopback, for who has the token.

It answers what GitHub answers to a login that is missing, wrong or sent twice; who may read is all it knows of rights.
"""

import base64
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class GitServer:
    """Serves the repositories below `root` to requests with the token."""

    root: Path
    token: str
    url: str = ""
    statuses: list[int] = field(default_factory=list)
    """What was answered, in order."""

    @property
    def header(self) -> str:
        """What git has to send, as actions/checkout writes it into the configuration."""
        return "AUTHORIZATION: basic " + base64.b64encode(f"x-access-token:{self.token}".encode()).decode()


@contextmanager
def serving_git(server: GitServer) -> Iterator[GitServer]:
    class Handler(_Handler):
        git = server

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        server.url = f"http://127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    git: GitServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        given = self.headers.get_all("Authorization", [])
        if len(given) > 1:
            self._send(400, {"Content-Type": "text/plain"}, b'Duplicate header: "Authorization"\n')
        elif [f"AUTHORIZATION: {one}" for one in given] != [self.git.header]:
            self._send(401, {"WWW-Authenticate": 'Basic realm="GitHub"'}, b"")
        else:
            self._pass_to_git()

    def _pass_to_git(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        variables = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "GIT_PROJECT_ROOT": str(self.git.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            # The repository belongs to the test, whoever that runs as.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=variables, stdout=subprocess.PIPE, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self._send(int(fields.pop("Status", "200 OK").split()[0]), fields, content)

    def _send(self, status: int, fields: dict[str, str], body: bytes) -> None:
        self.git.statuses.append(status)
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not into the output of the tests."""
