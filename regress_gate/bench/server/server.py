"""One server of ours: started on a free port, waited for, watched, stopped with all its processes.

Not for servers that ran before us, and not for what is sent to it.
"""

import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from regress_gate.bench.provision.interface import Environment, Launch, Progress, ServeRequest
from regress_gate.bench.server.lifecycle import (
    StopReport,
    end_processes,
    interrupts_deferred,
    lower_priority,
    port_closes,
    process_group,
    signal_group,
    spawn,
)
from regress_gate.bench.server.processes import (
    WATCH_INTERVAL,
    ServerProcesses,
    ServerWatch,
    identify_process,
    listens_on,
)
from regress_gate.bench.server.recovery import ServerState, delete_state, write_state
from regress_gate.bench.server.server_facts import ServerFacts, is_healthy, read_facts
from regress_gate.bench.server.server_failures import (
    ServerError,
    ServerFailure,
    ServerFailureKind,
    describe_death,
    environment_cause,
)
from regress_gate.paths import servers_directory
from regress_gate.vllm.log_lines import decisive_lines, engine_died, read_log_end
from regress_gate.vllm.secrets import secret_values

READY_WITHIN = 1800.0
"""Seconds from start to healthy; large models are read from slow disks and compiled."""
STOP_GRACE = 15.0
"""Seconds between asking a server to end and killing it."""
PORT_ATTEMPTS = 3
_START_POLL = 0.1
_HEALTH_TIMEOUT = 5.0
UNRESPONSIVE_AFTER = 60.0
"""Seconds without a healthy answer after which a server that lives counts as unresponsive."""
HEALTH_POLL = 1.0
EXIT_STATUS_WAIT = 5.0
"""Seconds that an API server is given to follow its engine, so that its exit status is known."""


class Server:
    """A server that runs. Leaving it as a context manager stops it, and raises ServerError where something remains."""

    def __init__(self, launch: Launch, what: str, port: int, log: Path, state_directory: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self.startup_time: float | None = None
        """Seconds from the start of the process to the first healthy answer; None before."""
        self.facts: ServerFacts | None = None
        """Set when it is ready."""
        self._port = port
        self._hidden = not launch.in_process_group
        """Until it is ready, what a launch line starts may be a program that only talks to what serves."""
        self._launch = launch
        self._secrets = secret_values(launch.env)
        self._states = state_directory
        self._stopped: StopReport | None = None
        self._remembering = threading.Lock()
        token = secrets.token_hex(16)
        tool = identify_process(os.getpid())
        if tool is None:
            raise OSError("this process does not find itself in the process table")
        self._state = ServerState(token, tool, None, (), what, self.url, str(log), time.time(), launch.container)
        write_state(state_directory, self._state)
        self._begin = time.monotonic()
        try:
            self._process = spawn(launch, token, log)
        except OSError as error:
            delete_state(state_directory, token)
            text = f"{launch.command[0]} cannot be run ({error.strerror or error})"
            raise ServerError(ServerFailure(ServerFailureKind.NOT_STARTED, text, (), 0.0, None)) from None
        try:
            lower_priority(self._process.pid)
            leader = identify_process(self._process.pid)  # not reaped before we say so, therefore still there
            if leader is None:
                raise OSError("the process that was just started is not in the process table")
            self._kin = ServerProcesses(token, leader, frozenset({leader}))
            self._remember()
            self._watch = ServerWatch(self._kin, self._remember, WATCH_INTERVAL)
            self._watch.start()
        except BaseException:  # nobody else can stop it yet
            signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
            _run_after_stop(launch)
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def peak_memory(self) -> int | None:
        """Bytes of resident memory, summed over its processes, at the worst moment seen; None for what is hidden."""
        return None if self._hidden else self._watch.peak_bytes

    def processes(self) -> list[psutil.Process]:
        """Its processes that live now; none where what serves is hidden from us, as in a container."""
        return [] if self._hidden else self._kin.find()

    def failure(self, *, health: bool = False) -> ServerFailure | None:
        """What is wrong with a server that was ready; None while nothing is. `health` asks it too, with patience."""
        status = self._process.poll()
        if status is not None:
            return self._death(status, ready=self.startup_time is not None)
        return self._ill() if health else None

    def stop(self, grace: float = STOP_GRACE) -> StopReport:
        """End all of its processes; what could not be ended is in the report. Again, it gives the same report."""
        if self._stopped is None:
            try:
                self._stopped = self._end(grace)
            except KeyboardInterrupt:  # who cannot wait for a good end gets a quick one, and keeps no server
                self._stopped = self._end(0.0)
                raise
        return self._stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remains = self.stop().remains
        if remains and error is None:  # the next server would start beside it, and its numbers would be of both
            raise ServerError(ServerFailure(ServerFailureKind.NOT_STOPPED, remains, (), self._seconds(), self.log))

    def wait_until_ready(self, within: float) -> None:
        """Raises ServerError when it dies or is not healthy in time."""
        deadline = self._begin + within
        answered_by_other = False
        while True:
            if (failure := self.failure()) is not None:
                raise ServerError(failure)
            if is_healthy(self.url, min(_HEALTH_TIMEOUT, max(_START_POLL, deadline - time.monotonic()))):
                seconds = self._seconds()
                listens = self._listens()
                if listens or not self._launch.in_process_group:
                    self.startup_time, self._hidden = seconds, not listens
                    self.facts = read_facts(self.url, self.log, self._secrets)
                    self._remember()  # looking who listens may have found some that left the session
                    return
                answered_by_other = True
            if time.monotonic() >= deadline:
                if answered_by_other:
                    text = f"another program answers on port {self._port}"
                    raise ServerError(self._living_failure(ServerFailureKind.PORT_TAKEN, text))
                text = f"the server was not healthy within {within:.0f} s"
                raise ServerError(self._living_failure(ServerFailureKind.NEVER_READY, text))
            time.sleep(_START_POLL)

    def _end(self, grace: float) -> StopReport:
        self._watch.stop()
        members = [process.pid for process in self._find_all()]
        # Asked as a group first: a member that is just being forked gets the signal too.
        grouped = [pid for pid in members if process_group(pid) == self._process.pid]
        if grouped:
            signal_group(self._process.pid, signal.SIGTERM)
        report = end_processes(self._find_all, grace, already_asked=grouped)
        self._process.poll()
        trouble = _run_after_stop(self._launch)
        # A port that was never ours may be another program's.
        if trouble is None and self.startup_time is not None and not port_closes(self._port):
            trouble = f"something still answers at {self.url}"
        report = replace(report, trouble=trouble)
        if not report.left and report.trouble is None:  # else a later call looks for it again
            delete_state(self._states, self._state.token)
        return report

    def _ill(self) -> ServerFailure | None:
        """A busy or stalled server gets time for an answer; one whose engine is gone does not come back."""
        deadline = time.monotonic() + UNRESPONSIVE_AFTER
        while not is_healthy(self.url, _HEALTH_TIMEOUT):
            time.sleep(2 * _START_POLL)  # a death is told as one, and takes a moment after the last answer
            engine_is_gone = engine_died(read_log_end(self.log))
            last_breath = time.monotonic() + (EXIT_STATUS_WAIT if engine_is_gone else 0.0)
            while (status := self._process.poll()) is None and time.monotonic() < last_breath:
                time.sleep(_START_POLL)
            if status is not None or engine_is_gone:
                return self._death(status, ready=True)
            if time.monotonic() >= deadline:
                text = f"the server lives but was not healthy for {UNRESPONSIVE_AFTER:.0f} s"
                return self._living_failure(ServerFailureKind.UNRESPONSIVE, text)
            time.sleep(HEALTH_POLL)
        return None

    def _death(self, status: int | None, *, ready: bool) -> ServerFailure:
        squeezed = self._watch.squeezed
        failure = describe_death(
            status, self._seconds(), self.log, ready=ready, secrets=self._secrets, squeezed=squeezed
        )
        # By these the engine says that it could not start the container; the version has not been heard yet.
        never_ran = self._launch.container is not None and not ready and status in (125, 126, 127)
        if never_ran and failure.kind is not ServerFailureKind.PORT_TAKEN:
            return replace(failure, kind=ServerFailureKind.NOT_STARTED, text="the container could not be started")
        return failure

    def _living_failure(self, kind: ServerFailureKind, text: str) -> ServerFailure:
        lines = decisive_lines(read_log_end(self.log), self._secrets)
        if kind is ServerFailureKind.NEVER_READY and (fault := environment_cause(lines, ready=False)) is not None:
            kind, text = ServerFailureKind.ENVIRONMENT, f"{fault}: {text}"
        return ServerFailure(kind, text, lines, self._seconds(), self.log)

    def _listens(self) -> bool:
        """Whether the port is held by one of ours; taken as true where the system does not let us see it."""
        for process in self._kin.find_all():
            try:
                connections = process.net_connections(kind="tcp")
            except psutil.AccessDenied:
                return True
            except psutil.Error:
                continue
            if any(listens_on(each, self._port) for each in connections):
                return True
        return False

    def _find_all(self) -> list[psutil.Process]:
        self._process.poll()  # else the leader stays a zombie
        return self._kin.find_all()

    def _remember(self) -> None:
        with self._remembering:
            members = tuple(sorted(self._kin.listed, key=lambda member: member.pid))
            self._state = replace(self._state, leader=self._kin.leader, members=members)
            write_state(self._states, self._state)

    def _seconds(self) -> float:
        return time.monotonic() - self._begin


def start_server(
    environment: Environment,
    request: ServeRequest,
    *,
    log: Path,
    ready_within: float = READY_WITHIN,
    state_directory: Path | None = None,
    progress: Progress | None = None,
    pick_port: Callable[[], int] | None = None,
    on_spawn: Callable[[Server], None] | None = None,
) -> Server:
    """Start a server and wait until it is healthy. Whoever gets it stops it; on failure nothing is left running.

    Raises ServerError when it cannot be started, dies or is not ready in time, and when what failed cannot be ended. A
    port that is taken between being found free and being used is no failure of the server: another one is tried.
    `on_spawn` is told of every server before it is waited for.
    """
    states = state_directory or servers_directory()
    what = f"{request.served_model_name} on {environment.version or 'the given command'}"
    for attempt in range(1, PORT_ATTEMPTS + 1):
        port = (pick_port or free_port)()
        if progress:
            progress(f"starting {what}")
        launch = environment.launch(request, port)
        server: Server | None = None
        try:
            with interrupts_deferred():
                server = Server(launch, what, port, log, states)
            if on_spawn:
                on_spawn(server)
            server.wait_until_ready(ready_within)
        except ServerError as error:
            if server is not None and (remains := server.stop().remains):
                text = f"{error.failure.text}; then {remains}"
                raise ServerError(replace(error.failure, kind=ServerFailureKind.NOT_STOPPED, text=text)) from error
            if error.failure.kind is not ServerFailureKind.PORT_TAKEN or attempt == PORT_ATTEMPTS:
                raise
        except BaseException:
            if server is not None:
                server.stop()
            raise
        else:
            return server
    raise AssertionError("unreachable")


def free_port() -> int:
    """A loopback port that nothing listens on at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run_after_stop(launch: Launch) -> str | None:
    """End what is out of our reach; what goes wrong must not hide why the server was stopped."""
    if launch.after_stop is None:
        return None
    try:
        launch.after_stop()
    except Exception as error:
        return f"what the server left outside of its processes could not be ended ({type(error).__name__}: {error})"
    return None
