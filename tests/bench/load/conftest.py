"""The fake server, as a real process or in virtual time, and short ways to measure it."""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from regress_gate.bench.load.http_transport import Target
from regress_gate.bench.load.load_client import DEFAULT_LIMITS, measure_load
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import LoadResult
from tests.fake_vllm.simulation import SimulatedServer, VirtualTimeLoop

ROOT = Path(__file__).parents[3]
START_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class FakeServer:
    process: subprocess.Popen[str]
    port: int

    @property
    def target(self) -> Target:
        return Target(f"http://127.0.0.1:{self.port}", "tiny")

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.target.url}{path}", timeout=START_LIMIT) as answer:
            return answer.read()

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What the server recorded of each request."""
        return json.loads(self.get("/fake/requests"))["requests"]

    def wait(self) -> None:
        """Until it is healthy."""
        begun = time.monotonic()
        while True:
            try:
                self.get("/health")
            except OSError:
                assert time.monotonic() - begun < START_LIMIT
                time.sleep(0.02)
            else:
                return

    def measure(self, *, limits=DEFAULT_LIMITS, scenario="c", ordinal=1, progress=None, **workload) -> LoadResult:
        what = LoadWorkload(**{"input_len": 16, "output_len": 8, "num_requests": 12, **workload})
        return measure_load(self.target, what, scenario=scenario, ordinal=ordinal, limits=limits, progress=progress)


def prompt_hash(prompt: list[int]) -> str:
    return sha256(json.dumps(prompt).encode()).hexdigest()


@pytest.fixture
def start() -> Iterator[Callable[..., FakeServer]]:
    """Starts a fake server with the given flags; `healthy=False` returns as soon as its port is known."""
    with ExitStack() as stack:

        def starting(*flags: str, healthy: bool = True) -> FakeServer:
            command = [sys.executable, "-m", "tests.fake_vllm", "--port", "0", *flags]
            process = stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            server = FakeServer(process, int(process.stdout.readline().partition("=")[2]))
            if healthy:
                server.wait()
            return server

        yield starting


@pytest.fixture
def simulate() -> Iterator[Callable[..., SimulatedServer]]:
    """Starts a fake server with the given flags in this process and in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        yield lambda *flags: SimulatedServer(runner, *flags)
