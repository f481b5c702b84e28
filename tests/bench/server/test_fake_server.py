"""The fake vLLM in the place of a real one: by a launch line, by an environment, and with every fault it can have.

What the fake server does here is what the tests of whole experiments build on.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from regress_gate.bench.provision.command import CommandProvisioner
from regress_gate.bench.provision.interface import ServeRequest
from regress_gate.bench.server import server as module
from regress_gate.bench.server.processes import ProcessIdentity, ServerProcesses, ServerWatch
from regress_gate.bench.server.server import Server, start_server
from regress_gate.bench.server.server_failures import ServerError, ServerFailure, ServerFailureKind
from regress_gate.model.version import Version
from tests.bench.server.conftest import alive
from tests.fake_vllm.environment import FakeProvisioner, launch_line, write_behaviour

REQUEST = ServeRequest("some/model", "tiny", {"max_model_len": 1024, "enforce_eager": True, "no_such_flag": 7})
Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    running: list[Server] = []

    def begin(*flags: str, version: str = "0.19.1", ready_within: float = 60.0) -> Server:
        variables = write_behaviour(tmp_path, {version: flags})
        environment = FakeProvisioner(variables).provision(Version.parse(version))
        log = tmp_path / "server.log"
        server = start_server(
            environment, REQUEST, log=log, state_directory=tmp_path / "states", ready_within=ready_within
        )
        running.append(server)
        return server

    yield begin
    for server in running:
        server.stop(0.0)


def complete(server: Server, times: int = 1) -> None:
    for _ in range(times):
        try:
            httpx.post(f"{server.url}/v1/completions", json={"model": "tiny", "prompt": [1, 2], "max_tokens": 1})
        except httpx.HTTPError:
            continue


def test_one_launch_line_serves_versions_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behaviour = {"0.19.1": ["--kv-cache-tokens=1600"], "0.32.0": ["--kv-cache-tokens=3200"]}
    variables = write_behaviour(tmp_path, behaviour)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)  # any directory will do
    provisioner = CommandProvisioner(launch_line())
    lucks = []
    for version, tokens in (("0.19.1", 1600), ("0.32.0", 3200), ("0.32.0", 3200)):
        environment = provisioner.provision(Version.parse(version))
        with start_server(environment, REQUEST, log=tmp_path / "log", state_directory=tmp_path / "s") as server:
            assert server.facts is not None
            assert server.facts.version == Version.parse(version)
            assert server.facts.kv_cache_tokens == server.facts.log.kv_cache_tokens == tokens
            assert server.facts.log.non_default_args is not None
            assert "--no-such-flag=7" in server.facts.log.non_default_args["argv"]
            lucks.append((tmp_path / "starts").stat().st_size)
        assert not server.processes()
    assert lucks == [1, 2, 3]  # each start has a seed of its own


def test_a_version_may_report_another_version(serve: Serve) -> None:
    server = serve("--vllm-version=0.18.0", version="0.19.1")
    assert server.facts is not None
    assert server.facts.version == Version.parse("0.18.0")


@pytest.mark.parametrize(
    ("flags", "status", "line"),
    [
        (["--die-at-start"], 1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        (["--die-at-start=import"], 1, "ImportError: libcudart.so.13: cannot open shared object file: No such file"),
        (["--reject-arg=no_such_flag"], 2, "vllm: error: unrecognized arguments: --no-such-flag=7"),
        (["--die-at-start=killed"], -9, None),
        (["--die-at-start=illegal"], -4, None),
        (["--die-at-start=silent"], 1, None),
    ],
)
def test_deaths_at_the_start(serve: Serve, flags: Sequence[str], status: int, line: str | None) -> None:
    with pytest.raises(ServerError) as failed:
        serve(*flags)
    failure = failed.value.failure
    assert (failure.kind, failure.exit_status) == (ServerFailureKind.DIED_AT_START, status)
    assert ("memory ran out" in failure.text) == (status == -9)
    if line is not None:
        assert failure.lines[0].startswith(line)
    assert ServerFailure.from_document(failure.as_document()) == ServerFailure(
        failure.kind, failure.text, failure.lines, failure.seconds, None, status
    )


def test_one_that_is_never_ready(serve: Serve) -> None:
    with pytest.raises(ServerError) as failed:
        serve("--never-ready", ready_within=2.0)
    assert failed.value.failure.kind is ServerFailureKind.NEVER_READY


def test_faults_in_some_starts_only(serve: Serve) -> None:
    flags = ("--faulty-start=2", "--die-at-start")
    serve(*flags)
    with pytest.raises(ServerError):
        serve(*flags)
    serve(*flags)


def test_an_error_of_the_engine_under_load(serve: Serve) -> None:
    server = serve("--die-after=1")
    complete(server)
    assert server.failure(health=True) is None
    complete(server)
    failure = server.failure(health=True)
    assert failure is not None
    assert failure.kind is ServerFailureKind.DIED_UNDER_LOAD
    assert failure.lines[0] == "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    assert "memory ran out" not in failure.text


def test_an_engine_that_was_killed_is_a_death_although_its_server_ends_well(serve: Serve) -> None:
    server = serve("--lose-engine-after=0")
    complete(server)
    failure = server.failure(health=True)
    assert failure is not None
    assert failure.kind is ServerFailureKind.DIED_UNDER_LOAD
    assert failure.exit_status == 0
    assert failure.lines[0].startswith("vllm.v1.engine.exceptions.EngineDeadError")
    assert "memory ran out" in failure.text
    assert "foreground" not in failure.text


def test_a_server_that_lives_without_its_engine_has_died(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXIT_STATUS_WAIT", 0.1)
    server = serve("--lose-engine-after=0", "--stay")
    complete(server)
    failure = server.failure(health=True)
    assert failure is not None
    assert (failure.kind, failure.exit_status) == (ServerFailureKind.DIED_UNDER_LOAD, None)
    assert "the server's engine ended" in failure.text


def test_one_that_lives_unhealthy(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNRESPONSIVE_AFTER", 0.5)
    server = serve("--unhealthy-after=0")
    complete(server)
    failure = server.failure(health=True)
    assert failure is not None
    assert failure.kind is ServerFailureKind.UNRESPONSIVE


@pytest.mark.parametrize("flags", [["--child=stubborn"], ["--child=runaway"], ["--ignore-sigterm"]])
def test_nothing_survives_the_stop(serve: Serve, flags: Sequence[str]) -> None:
    server = serve(*flags)
    pids = [process.pid for process in server.processes()]
    assert len(pids) == (2 if flags[0].startswith("--child") else 1)
    report = server.stop(grace=1.0)
    assert report.left == ()
    assert report.forced == (flags != ["--child=runaway"])
    assert [pid for pid in pids if alive(pid)] == []


def test_memory_that_it_holds_is_seen(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WATCH_INTERVAL", 3600)  # the first look comes as it starts, and holds nothing yet
    server = serve("--memory-mb=200")
    assert (server.peak_memory or 0) > 200 * 2**20


def test_the_largest_memory_is_kept_after_it_was_given_back() -> None:
    class Processes:
        listed = frozenset[ProcessIdentity]()
        held = iter([100, 300, 200])
        looked = threading.Event()

        def find(self) -> list[SimpleNamespace]:
            held = next(self.held, None)
            if held is None:
                self.looked.set()
            return [SimpleNamespace(memory_info=lambda: SimpleNamespace(rss=held or 0))]

    processes = Processes()
    watch = ServerWatch(cast("ServerProcesses", processes), lambda: None, interval=0.001)
    watch.start()
    assert processes.looked.wait(60)
    watch.stop()
    assert watch.peak_bytes == 300
