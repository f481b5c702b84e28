"""The servers that the load clients are measured on: the fake one, whose latencies are known, and a real one.

Not for what is sent to them.
"""

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from client_truth import Served, served

from regress_gate.bench.provision.interface import Environment, Launch, ServeRequest, serve_arguments
from regress_gate.bench.server.server import start_server

ROOT = Path(__file__).parent.parent
MODEL = "tiny"


class FakeServer:
    """tests.fake_vllm as a process, with latencies that are known."""

    def __init__(self, *, ttft: float, tpot: float, jitter: float = 0.0) -> None:
        self._flags = ["--port=0", f"--ttft={ttft}", f"--tpot={tpot}", f"--jitter={jitter}", "--max-num-seqs=4096"]
        self._seen = 0

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.fake_vllm", *self._flags]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline().partition('=')[2])}"
        _wait_until_healthy(self.url)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()

    def pass_record(self) -> list[Served]:
        """What it served since it was last asked."""
        found = served(self.url, self._seen)
        self._seen += len(found)
        return found


class _Executable(Environment):
    """A vLLM that is there already, given by its executable."""

    version = None

    def __init__(self, vllm: Path) -> None:
        self._vllm = vllm
        self.libraries = {}

    def launch(self, request: ServeRequest, port: int) -> Launch:
        return Launch((str(self._vllm), "serve", *serve_arguments(request, port)), dict(os.environ) | dict(request.env))


class RealServer:
    """A server of that vLLM, with the settings of the cpu-demo suite."""

    def __init__(self, vllm: Path, model: str) -> None:
        engine_args: dict[str, str | int | bool] = {
            "dtype": "float32",
            "max_model_len": 1024,
            "max_num_seqs": 16,
            "enforce_eager": True,
            "enable_prefix_caching": False,
        }
        env = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        self._environment = _Executable(vllm)
        self._request = ServeRequest(model, MODEL, engine_args, env)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        server = start_server(self._environment, self._request, log=folder / "server.log", state_directory=folder)
        self._stack.callback(server.stop)
        self.url = server.url
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def pass_record(self) -> list[Served]:
        """Nobody can look into it."""
        return []


AnyServer = FakeServer | RealServer


def _wait_until_healthy(url: str) -> None:
    for _ in range(500):
        try:
            with urllib.request.urlopen(f"{url}/health"):
                return
        except OSError:
            time.sleep(0.02)
    raise SystemExit("the fake server does not start")
