"""A Ray cluster of several nodes on this machine, whose parts can be killed one by one."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from regress_gate.bench.machine.reservation import DIRECTORY_VARIABLE

RAY = Path(sys.executable).with_name("ray")
_UP_WITHIN = 90.0
_STARTS = 4
"""Ray gives a node 30 seconds, which a busy machine may need for more."""


class RayCluster:
    """A head without work, and nodes with one fake GPU each, which are testbeds of these names."""

    def __init__(self, locks: Path) -> None:
        self.port, self.client_port = free_port(), free_port()
        self._locks = locks
        self._directory = tempfile.mkdtemp(prefix="r", dir="/tmp")  # paths of sockets are short
        self._parts: dict[str, psutil.Popen] = {}

    def start(self, *names: str) -> None:
        self.start_head()
        for name in names:
            self.start_node(name)

    def start_head(self) -> None:
        options = ["--head", f"--port={self.port}", f"--ray-client-server-port={self.client_port}", "--num-cpus=0"]
        self._start("head", [*options, "--include-dashboard=false", f"--temp-dir={self._directory}"])
        deadline = time.monotonic() + _UP_WITHIN
        while not self._takes_clients():
            if time.monotonic() > deadline:
                pytest.skip(
                    "Ray's own client does not get into the cluster: this machine needs more time than Ray gives"
                )

    def _takes_clients(self) -> bool:
        """Whether Ray's own client gets in, without anything of ours."""
        program = f"import ray; ray.init('ray://127.0.0.1:{self.client_port}', logging_level='ERROR')"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=600)
        return done.returncode == 0

    def start_node(self, name: str) -> None:
        resources = json.dumps({f"testbed:{name}": 1})
        options = [f"--address=127.0.0.1:{self.port}", "--num-cpus=1", "--num-gpus=1", f"--resources={resources}"]
        for _ in range(_STARTS):
            self._start(name, options)
            while self._parts[name].poll() is None:
                if "runtime started" in (self._locks / f"{name}.log").read_text():
                    return
                time.sleep(0.2)
        pytest.skip(f"{name} does not come up: Ray gives a node 30 seconds, and this machine needs more")

    def _start(self, name: str, options: list[str]) -> None:
        locks = self._locks / name
        locks.mkdir(parents=True, exist_ok=True)
        environ = {**os.environ, DIRECTORY_VARIABLE: str(locks), "RAY_USAGE_STATS_ENABLED": "0"}
        with (self._locks / f"{name}.log").open("wb") as log:
            self._parts[name] = psutil.Popen(
                [RAY, "start", "--block", "--disable-usage-stats", "--object-store-memory=80000000", *options],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """All of Ray's processes of a node at once, as by a crash; what they started is left."""
        part = self._parts.pop(name)
        try:
            own = [process for process in [part, *part.children(recursive=True)] if _is_ray(process)]
        except psutil.NoSuchProcess:  # it did not come up
            own = []
        for process in own:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        part.wait(30)

    def stop(self) -> None:
        for name in list(self._parts):
            self.kill(name)
        shutil.rmtree(self._directory, ignore_errors=True)


def _is_ray(process: psutil.Process) -> bool:
    try:
        return not any("block_worker" in word or "fake_vllm" in word for word in process.cmdline())
    except psutil.Error:
        return False


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        port: int = own.getsockname()[1]
        return port
