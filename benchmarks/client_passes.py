"""One pass of either client as a process that is watched from outside.

Not for what the passes are compared by: that is client_vllm.py, and client_truth.py for what the fake server did.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import orjson
import psutil
from client_servers import MODEL, ROOT, AnyServer, FakeServer
from client_truth import delays, statistics, steady_p99

from regress_gate.bench.drivers.driver_interface import ToolRequest
from regress_gate.bench.drivers.vllm_bench_driver import RESULT, VllmBench
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.ingest.formats.vllm_serve import normalise

SAMPLING = 0.05
"""Seconds between looks at a client's processor time."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What every request of a pass is like; `requests` in all, or `rounds` for each of the concurrent users.

    As many as there are users are sent before: a client's first requests wait for connections and for its own code.
    """

    input_len: int
    output_len: int
    requests: int | None = None
    rounds: int = 1

    def workload(self, concurrency: int) -> LoadWorkload:
        count = self.requests or self.rounds * concurrency
        return LoadWorkload(
            self.input_len, self.output_len, count, concurrency=concurrency, warmup_requests=concurrency
        )


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of a client; seconds."""

    metrics: Mapping[str, float]
    """As the client reports them."""
    truth: Mapping[str, float]
    """The same by the server's own record; empty for a real server."""
    chunks_per_second: float
    requests_per_second: float
    cpu_per_chunk: float
    delay_median: float
    delay_p99: float
    """Of steady windows."""
    lag_p99: float | None
    """Of the client's event loop, by itself; None where it does not say."""
    failed: int

    @property
    def line(self) -> str:
        off = self.metrics["tpot_p99"] - self.truth["tpot_p99"]
        lag = "" if self.lag_p99 is None else f"{self.lag_p99 * 1e3:.2f}"
        return (
            f"{self.chunks_per_second:9.0f} {self.requests_per_second:7.0f} {self.cpu_per_chunk * 1e6:9.1f} "
            f"{self.delay_median * 1e3:16.2f} {self.delay_p99 * 1e3:7.2f} {off * 1e3:19.2f} {lag:>15} {self.failed:7d}"
        )


def own_pass(server: AnyServer, shape: Shape, concurrency: int, folder: Path, ordinal: int = 1) -> Pass:
    """One pass of regress-gate's client."""
    result = folder / f"own-{ordinal}.json"
    watched = _Watched(_own_command(server, shape, concurrency, result, ordinal))
    return _own_read(server, result, watched.wait())


def own_passes(count: int, shape: Shape, concurrency: int) -> list[Pass]:
    """One pass of each of several processes at once, each on a fake server of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = [stack.enter_context(FakeServer(ttft=0.02, tpot=0.01, jitter=0.2)) for _ in range(count)]
        results = [folder / f"{number}.json" for number in range(count)]
        running = [
            _Watched(_own_command(server, shape, concurrency, result, number))
            for number, (server, result) in enumerate(zip(servers, results, strict=True), 1)
        ]
        used = [each.wait() for each in running]
        return [_own_read(*of) for of in zip(servers, results, used, strict=True)]


def vllm_pass(
    vllm: Path, tokenizer: str, server: AnyServer, shape: Shape, concurrency: int, folder: Path, ordinal: int
) -> Pass:
    """One pass of `vllm bench serve`, asked for it as the driver asks."""
    ask = ToolRequest(server.url, MODEL, tokenizer, shape.workload(concurrency), "client", ordinal)
    driver = VllmBench(vllm)
    arguments = [*driver.arguments(ask, folder), f"--num-warmups={concurrency}"]
    used = _Watched([str(driver.executable), *arguments]).wait()
    told = json.loads((folder / RESULT).read_bytes())
    reading = normalise(told, 0, with_samples=False)
    good = [number for number, error in enumerate(told["errors"]) if not error]
    starts = [told["start_times"][number] for number in good]
    chunks = [
        list(accumulate(told["itls"][number], initial=start + told["ttfts"][number]))
        for number, start in zip(good, starts, strict=True)
    ]
    return _made(server, reading.metrics, starts, chunks, used, lag_p99=None, failed=reading.failed)


def _own_command(server: AnyServer, shape: Shape, concurrency: int, result: Path, ordinal: int) -> list[str]:
    workload = shape.workload(concurrency)
    return [
        sys.executable,
        str(Path(__file__).with_name("client_pass.py")),
        f"--url={server.url}",
        f"--model={MODEL}",
        f"--input-len={workload.input_len}",
        f"--output-len={workload.output_len}",
        f"--requests={workload.num_requests}",
        f"--concurrency={concurrency}",
        f"--warmup={workload.warmup_requests}",
        f"--ordinal={ordinal}",
        f"--result={result}",
    ]


def _own_read(server: AnyServer, result: Path, used: "CpuTrace") -> Pass:
    told = orjson.loads(result.read_bytes())
    return _made(
        server, told["metrics"], told["starts"], told["chunks"], used, lag_p99=told["lag_p99"], failed=told["failed"]
    )


def _made(
    server: AnyServer,
    metrics: Mapping[str, float],
    starts: Sequence[float],
    chunks: Sequence[Sequence[float]],
    used: "CpuTrace",
    *,
    lag_p99: float | None,
    failed: int,
) -> Pass:
    record = server.pass_record()[-len(starts) - failed :]
    sent, late = delays(record, chunks) if record else (np.zeros(1), np.zeros(1))
    begun, ended = min(starts), max(seen[-1] for seen in chunks)
    count = sum(map(len, chunks))
    return Pass(
        metrics=metrics,
        truth=statistics(record),
        chunks_per_second=count / (ended - begun),
        requests_per_second=len(starts) / (ended - begun),
        cpu_per_chunk=used.between(begun, ended) / count,
        delay_median=float(np.median(late)),
        delay_p99=steady_p99(sent, late),
        lag_p99=lag_p99,
        failed=failed,
    )


@dataclass(frozen=True, slots=True)
class CpuTrace:
    """A process's processor time over its life."""

    at: Sequence[float]
    """time.monotonic."""
    seconds: Sequence[float]

    def between(self, begun: float, ended: float) -> float:
        used: float = np.diff(np.interp([begun, ended], self.at, self.seconds))[0]
        return float(used)


class _Watched:
    """A client as a process whose processor time is read while it runs."""

    def __init__(self, command: Sequence[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)} if command[0] == sys.executable else _without_path()
        self._process = psutil.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._at: list[float] = []
        self._seconds: list[float] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def wait(self) -> CpuTrace:
        complaint = self._process.stderr.read()
        if self._process.wait():
            raise SystemExit(f"a client failed: {complaint.decode(errors='replace')[-2000:]}")
        self._thread.join()
        return CpuTrace(self._at, self._seconds)

    def _watch(self) -> None:
        while True:
            try:
                times = self._process.cpu_times()
            except psutil.Error:
                return
            self._at.append(time.monotonic())
            self._seconds.append(times.user + times.system)
            time.sleep(SAMPLING)


def _without_path() -> dict[str, str]:
    """For another environment's Python, which must not see this one's packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
