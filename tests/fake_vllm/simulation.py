"""The load client and the fake server in one process, on a clock that only moves when both wait.

Nothing takes time by itself here: a wait of an hour ends at once, and every time that is measured is exactly what the
server was asked to take, however busy the machine is. Connections are in memory. What only real sockets, processes
and clocks can show (stamps of arrival, broken connections, a busy client) is tested with a fake server of its own.
"""

import asyncio
import json
import selectors
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from regress_gate.bench.load import client_guards, http_transport, load_client, sending
from regress_gate.bench.load.http_transport import Target
from regress_gate.bench.load.load_client import DEFAULT_LIMITS, LoadLimits, OwnClientMeter, measure_load_async
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import LoadResult
from tests.fake_vllm import server as fake_server
from tests.fake_vllm.options import parse

CONNECT_TIME = 0.0001
"""Seconds that a new connection takes, so that no measurement lasts no time at all."""
_PORTS = count(1)


class _Selector(selectors.DefaultSelector):
    """Instead of waiting until the next timer is due, moves the clock there."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            assert timeout is not None, "everything waits, and no timer is set"
            self.now += timeout
        return events


class _Pipe(asyncio.Transport):
    """One end of a connection in memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._loop = loop
        self._protocol: Any = protocol
        self._closing = False
        self.peer: _Pipe | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and self.peer is not None:
            self._loop.call_soon(self.peer.deliver, bytes(data))

    def deliver(self, data: bytes) -> None:
        if not self._closing:
            self._protocol.data_received(data)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(ConnectionResetError("the other end aborted"))

    def _end(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)
            if self.peer is not None:
                self._loop.call_soon(self.peer._lose, error)

    def _lose(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._protocol.connection_lost(error)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Its servers are known by their ports, and only its own clients can reach them."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        self._servers: dict[int, Callable[[], asyncio.BaseProtocol]] = {}
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def listen(self, port: int, serve: Callable[..., Any]) -> None:
        def protocol() -> asyncio.BaseProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(2**20, self), serve, self)

        self._servers[port] = protocol

    def stop_listening(self, port: int) -> None:
        del self._servers[port]

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **more: Any) -> Any:
        del host, more
        await asyncio.sleep(CONNECT_TIME)
        if port not in self._servers:
            raise ConnectionRefusedError
        near, far = protocol_factory(), self._servers[port]()
        one, other = _Pipe(self, near), _Pipe(self, far)
        one.peer, other.peer = other, one
        far.connection_made(other)
        near.connection_made(one)
        return one, near


class LoopTimer:
    """The client's timer, by the loop's clock and without a thread."""

    def __init__(self, times: Iterable[float], ring: Callable[[float], None], late: float) -> None:
        self._times = iter(times)
        self._ring = ring
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None

    def __enter__(self) -> "LoopTimer":
        self._arm()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _arm(self) -> None:
        if (due := next(self._times, None)) is not None:
            self._handle = self._loop.call_at(due + self._late, self._fire, due)

    def _fire(self, due: float) -> None:
        self._ring(due)
        self._arm()


class SimulatedServer:
    """A fake server with the given flags, reachable from its own measurements only."""

    def __init__(self, runner: asyncio.Runner, *flags: str) -> None:
        self._runner = runner
        loop = runner.get_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self._loop = loop
        self._port = next(_PORTS)
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("FAKE_VLLM_BEHAVIOUR", raising=False)  # of the servers that run as processes
            self._server = fake_server.Server(parse(list(flags)), asyncio.Event())
        loop.listen(self._port, self._server.serve_connection)

    def measure(
        self,
        *,
        limits: LoadLimits = DEFAULT_LIMITS,
        scenario: str = "c",
        ordinal: int = 1,
        progress: load_client.RequestProgress | None = None,
        late: float = 0.0,
        **workload: Any,
    ) -> LoadResult:
        what = LoadWorkload(**{"input_len": 16, "output_len": 8, "num_requests": 12, **workload})
        return self.measure_workload(
            what, limits=limits, scenario=scenario, ordinal=ordinal, progress=progress, late=late
        )

    def measure_workload(
        self,
        workload: LoadWorkload,
        *,
        model: str = "tiny",
        limits: LoadLimits = DEFAULT_LIMITS,
        scenario: str,
        ordinal: int,
        progress: load_client.RequestProgress | None,
        begins: Callable[[], None] | None = None,
        late: float = 0.0,
    ) -> LoadResult:
        """`late`: seconds by which the client wakes up after each planned moment, as when it is busy."""
        target = Target(f"http://127.0.0.1:{self._port}", model)
        clock = SimpleNamespace(monotonic=self._loop.time, process_time=lambda: 0.0)

        def timer(times: Iterable[float], ring: Callable[[float], None]) -> LoopTimer:
            return LoopTimer(times, ring, late)

        with pytest.MonkeyPatch.context() as patch:
            for module in (sending, http_transport, load_client, client_guards, fake_server):
                patch.setattr(module, "time", clock)
            for module in (sending, client_guards):
                patch.setattr(module, "PreciseTimer", timer)
            return self._runner.run(
                measure_load_async(
                    target,
                    workload,
                    scenario=scenario,
                    ordinal=ordinal,
                    limits=limits,
                    progress=progress,
                    begins=begins,
                )
            )

    def metrics(self) -> bytes:
        """Its /metrics."""
        return self._server.metrics().encode()

    def stop(self) -> None:
        """Refuse connections from now on."""
        self._loop.stop_listening(self._port)

    def set_luck(self, luck: float) -> None:
        """Take the speed factor of another start."""
        self._server.set_luck(luck)

    @property
    def peak_running(self) -> int:
        """The most requests that ran at once."""
        return self._server.peak_running

    @property
    def counted(self) -> list[dict[str, Any]]:
        """What /tokenize was asked beside the model and the text, of each text."""
        return self._server.counted

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What the server recorded of each request."""
        return self._server.requests


class SimulatedMeter:
    """Measures a real fake server by a simulated one that has the same flags and the same luck.

    For whole experiments: servers are started and stopped as ever, and only what is measured of them does not depend
    on the machine's load. `flags` are those of the versions.
    """

    def __init__(self, flags: Mapping[str, Sequence[str]]) -> None:
        self._flags = flags

    def measure(
        self,
        meter: OwnClientMeter,
        url: str,
        model: str,
        workload: LoadWorkload,
        *,
        scenario: str,
        ordinal: int,
        progress: Callable[[int, int], None],
        begins: Callable[[], None],
    ) -> LoadResult:
        """Stands for `OwnClientMeter.__call__`. From then on the page of the real server is that of the simulated."""
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            report = _get(url, "/fake/requests")
            flags = [*self._flags[_get(url, "/version")["version"]], *report["launch_flags"]]
            server = SimulatedServer(runner, f"--served-model-name={model}", *flags)
            server.set_luck(report["luck"])
            return server.measure_workload(
                workload,
                model=model,
                limits=meter.limits,
                scenario=scenario,
                ordinal=ordinal,
                progress=progress,
                begins=partial(_begin, url, server, begins),
            )


_SIMULATED: dict[str, SimulatedServer] = {}
"""By the URL of the real server that it stands for: the last one."""


def _begin(url: str, server: SimulatedServer, begins: Callable[[], None]) -> None:
    _SIMULATED[url] = server
    begins()


def fetch_simulated_metrics(url: str) -> bytes:
    """Stands for `metrics_watch.fetch_metrics`."""
    return _SIMULATED[url].metrics()


def _get(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}{path}", timeout=60) as answer:
        return json.loads(answer.read())
