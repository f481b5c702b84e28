"""Starting `program.py` in the ways that the tests need."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from regress_gate.bench.provision.interface import Environment, Launch, ServeRequest
from regress_gate.bench.server.processes import token_of
from regress_gate.bench.server.server import Server, start_server

PROGRAM = Path(__file__).with_name("program.py")
REQUEST = ServeRequest("tiny", "tiny")


class ProgramEnvironment(Environment):
    """Serves `program.py` with some behaviours."""

    def __init__(
        self,
        behaviours: str,
        *,
        command: tuple[str, ...] = (),
        in_process_group: bool = True,
        variables: Mapping[str, str] | None = None,
        after_stop: Callable[[], None] | None = None,
    ) -> None:
        self.version = None
        self.libraries = {}
        self._command = command or (sys.executable, str(PROGRAM), behaviours)
        self._in_process_group = in_process_group
        self._environ = {**os.environ, **(variables or {})}
        self._after_stop = after_stop

    def launch(self, request: ServeRequest, port: int) -> Launch:
        del request
        return Launch(
            (*self._command, str(port)), self._environ, None, self._in_process_group, after_stop=self._after_stop
        )


Start = Callable[..., Server]


@pytest.fixture
def states(tmp_path: Path) -> Path:
    return tmp_path / "states"


@pytest.fixture
def start(tmp_path: Path, states: Path) -> Iterator[Start]:
    running: list[Server] = []

    def begin(
        behaviours: str = "well",
        *,
        command: tuple[str, ...] = (),
        group: bool = True,
        variables: Mapping[str, str] | None = None,
        after_stop: Callable[[], None] | None = None,
        **options: Any,
    ) -> Server:
        environment = ProgramEnvironment(
            behaviours, command=command, in_process_group=group, variables=variables, after_stop=after_stop
        )
        options = {"ready_within": 60.0, "log": tmp_path / "server.log", **options}
        server = start_server(environment, REQUEST, state_directory=states, **options)
        running.append(server)
        return server

    yield begin
    for server in running:
        server.stop(0.0)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def carriers(token: str) -> list[int]:
    """Every process with this token, found without the code under test's bookkeeping."""
    return [process.pid for process in psutil.process_iter() if token_of(process) == token and alive(process.pid)]
