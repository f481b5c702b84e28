"""A laboratory for whole experiments: the program, a small suite, and versions of the fake vLLM that behave as told."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from regress_gate.bench.load.load_client import OwnClientMeter
from regress_gate.bench.load.result import LoadResult
from regress_gate.bench.machine.reservation import DIRECTORY_VARIABLE
from regress_gate.bench.server import metrics_watch
from regress_gate.bench.server.processes import TOKEN_VARIABLE
from regress_gate.model.run import Run
from regress_gate.store.repository import find_store
from tests.cli.conftest import Gate, Outcome
from tests.cli.measuring.unguarded import SIMULATED_VARIABLE
from tests.fake_vllm.environment import launch_line, write_behaviour
from tests.fake_vllm.idle_machine import pretend_idle
from tests.fake_vllm.quick_starts import shorten_waits
from tests.fake_vllm.simulation import SimulatedMeter, fetch_simulated_metrics

SUITE = """\
name: small
version: 1
description: One small scenario.
accelerator: cpu
request_timeout: {timeout}
conditions: {{max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}}
gate: {{metrics: [tpot_median, failed_requests], margins: {{"*": {margin}, failed_requests: 0.1}}}}
scenarios:
  - name: c4
    server: {{model: fake, engine_args: {{enforce_eager: true}}}}
    workload:
      {{input_len: 16, output_len: {tokens}, concurrency: 4, num_requests: {requests}, warmup_requests: {warmup}}}
"""
QUICK = ("--ttft=0.005", "--tpot=0.002", "--whole-at-once", "--run-spread=0.01")


class Lab:
    """Measures with fake versions; nobody else on the machine is in the way, and nothing is left on it."""

    def __init__(self, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = gate
        self.suite = gate.directory / "small.yaml"
        self._monkeypatch = monkeypatch
        own = gate.directory / "locks"
        own.mkdir()
        monkeypatch.setenv(DIRECTORY_VARIABLE, str(own))  # others measure on this machine too
        pretend_idle(monkeypatch.setattr)
        shorten_waits(monkeypatch.setattr)
        self.write_suite()
        self.behave({})

    def write_suite(
        self, *, requests: int = 6, warmup: int = 2, tokens: int = 6, margin: float = 0.5, timeout: float = 60
    ) -> None:
        text = SUITE.format(requests=requests, warmup=warmup, tokens=tokens, margin=margin, timeout=timeout)
        self.suite.write_text(text)

    def behave(self, versions: dict[str, list[str]], *, usual: tuple[str, ...] = QUICK) -> None:
        """How versions serve from now on; 0.19.0 and 0.19.1 serve as usual where nothing is said of them."""
        all_versions = {"0.19.0": [], "0.19.1": [], **versions}
        self._flags = {version: [*usual, *more] for version, more in all_versions.items()}
        for name, value in write_behaviour(self.gate.directory, self._flags).items():
            self._monkeypatch.setenv(name, value)

    def simulate_load(self) -> None:
        """Measure in virtual time, by the flags of the versions: exact and at once, however busy the machine is.

        A process that is started takes a third of a second for each, so that it can be killed while it measures.
        """
        self._monkeypatch.setenv(SIMULATED_VARIABLE, "0.3")
        self._monkeypatch.setattr(metrics_watch, "fetch_metrics", fetch_simulated_metrics)
        self._monkeypatch.setattr(OwnClientMeter, "__call__", lambda *given, **more: self._measure(*given, **more))

    def _measure(self, *given: Any, **more: Any) -> LoadResult:
        return SimulatedMeter(self._flags).measure(*given, **more)

    def arguments(self, command: str, *more: object) -> list[str]:
        words = [command, *more, "--suite", self.suite, "--testbed", "lab", "--serve-command", launch_line()]
        return [str(word) for word in words]

    def __call__(self, command: str, *more: object) -> Outcome:
        return self.gate(*self.arguments(command, *more))

    def start(self, command: str, *more: object) -> "subprocess.Popen[str]":
        """The same as a process in a session of its own, which takes signals also where the tests do not."""
        usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
        before = {number: signal.signal(number, handler) for number, handler in usual.items()}
        try:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.cli.measuring.unguarded", *self.arguments(command, *more)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def runs(self) -> list[Run]:
        """All that are stored, with their samples, in the order in which they were made."""
        store = find_store(f"sqlite:///{self.gate.store}")
        if store is None:
            return []
        with store:
            return sorted(store.runs(with_samples=True), key=lambda run: run.id or 0)

    @property
    def states(self) -> list[Path]:
        """Files of servers that the program believes to be up."""
        return list((self.gate.directory.parent / "home/.local/state/regress-gate/servers").glob("*.json"))

    def servers(self) -> list[psutil.Process]:
        """Living servers of this laboratory, found without the program's own means."""
        found = []
        for process in psutil.process_iter():
            try:
                environ = process.environ()
                if (
                    environ.get("FAKE_VLLM_BEHAVIOUR") == os.environ["FAKE_VLLM_BEHAVIOUR"]
                    and TOKEN_VARIABLE in environ
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def close(self) -> None:
        """End what a test that failed has left."""
        for server in self.servers():
            server.kill()
