"""Servers to ask: one that a test scripts answer by answer, and the fake vLLM as a process."""

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
START_LIMIT = 60.0

Reply = tuple[int, bytes] | None
"""Status and body; None closes the connection instead."""
Script = Callable[[dict[str, Any]], Reply]
"""From a request's body to what is answered."""


class ScriptedServer:
    def __init__(self, script: Script) -> None:
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body)
                reply = script(body)
                if reply is None:
                    self.close_connection = True
                    return
                status, content = reply
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    self.wfile.write(content)
                except OSError:  # the client has heard enough
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], ScriptedServer]]:
    """Starts a server that answers as a function says."""
    with ExitStack() as stack:

        def starting(script: Script) -> ScriptedServer:
            server = ScriptedServer(script)
            stack.callback(server.close)
            return server

        yield starting


@pytest.fixture
def fake_vllm() -> Iterator[Callable[..., str]]:
    """Starts a fake vLLM with the given flags and returns its URL."""
    with ExitStack() as stack:

        def starting(*flags: str) -> str:
            command = [sys.executable, "-m", "tests.fake_vllm", "--port", "0", "--ttft", "0", "--tpot", "0", *flags]
            process = stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            url = f"http://127.0.0.1:{process.stdout.readline().partition('=')[2].strip()}"
            begun = time.monotonic()
            while True:
                try:
                    urllib.request.urlopen(f"{url}/health", timeout=START_LIMIT).close()
                except OSError:
                    assert time.monotonic() - begun < START_LIMIT
                    time.sleep(0.02)
                else:
                    return url

        yield starting
