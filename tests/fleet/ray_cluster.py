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
_RAYS_OWN_WAIT = 20.0
"""Seconds. What ends sooner did not wait for anything until it gave up: it is broken, and no matter of the machine."""


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
        is_up, lasted = self._wait_for("head")
        if not is_up and lasted < _RAYS_OWN_WAIT:
            pytest.fail(f"Ray's head ended at once: {self._log('head')[-1000:]}")
        deadline = time.monotonic() + _UP_WITHIN
        while not self._takes_clients():
            if time.monotonic() > deadline:
                pytest.skip(f"Ray's own client does not get into the cluster within {_UP_WITHIN:.0f} s, without ours")

    def _takes_clients(self) -> bool:
        """Whether Ray's own client gets in, without anything of ours."""
        program = f"import ray; ray.init('ray://127.0.0.1:{self.client_port}', logging_level='ERROR')"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=600)
        return done.returncode == 0

    def start_node(self, name: str) -> None:
        resources = json.dumps({f"testbed:{name}": 1})
        options = [f"--address=127.0.0.1:{self.port}", "--num-cpus=1", "--num-gpus=1", f"--resources={resources}"]
        longest = 0.0
        for _ in range(_STARTS):
            self._start(name, options)
            is_up, lasted = self._wait_for(name)
            if is_up:
                return
            longest = max(longest, lasted)
        if longest < _RAYS_OWN_WAIT:
            pytest.fail(f"{name} ended at once, {_STARTS} times: {self._log(name)[-1000:]}")
        pytest.skip(f"{name} does not come up: Ray gives a node 30 seconds, and this machine needs more")

    def _wait_for(self, name: str) -> tuple[bool, float]:
        """Whether it says that it is up, before it ends, and after how many seconds."""
        begin = time.monotonic()
        while self._parts[name].poll() is None:
            if "runtime started" in self._log(name):
                return True, time.monotonic() - begin
            time.sleep(0.2)
        return False, time.monotonic() - begin

    def _log(self, name: str) -> str:
        return (self._locks / f"{name}.log").read_text(errors="replace")

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
