"""One server that the tool starts: on a free port, until it is healthy, watched, and stopped with all its processes.

Not for servers that run already (see `external_servers`), and not for sending a workload.
"""

import os
import platform
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
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
from regress_gate.redaction import secret_values
from regress_gate.vllm.log_lines import decisive_lines, engine_died, read_log_end

READY_WITHIN = 1800.0
"""Seconds from the start until the server must be healthy. Large models are read from slow disks and compiled."""
STOP_GRACE = 15.0
"""Seconds between SIGTERM and SIGKILL."""
PORT_ATTEMPTS = 3
_START_POLL = 0.1
_HEALTH_TIMEOUT = 5.0
_REAPED_WITHIN = 5.0
UNRESPONSIVE_AFTER = 60.0
"""Seconds without a healthy answer after which a server counts as alive but unresponsive."""
HEALTH_POLL = 1.0
EXIT_STATUS_WAIT = 5.0
"""Seconds to wait for the end of an API server whose engine has died, to learn its exit status."""


class Server:
    """A running server. As a context manager it stops at the end, and raises ServerError if a part of it remains."""

    def __init__(self, launch: Launch, what: str, port: int, log: Path, state_directory: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self.startup_time: float | None = None
        """Seconds from the start of the process to the first healthy answer; None before that."""
        self.facts: ServerFacts | None = None
        """Set when it is ready."""
        self._port = port
        self._hidden = not launch.in_process_group
        """Whether the serving processes are out of sight. A launch line may start a client of a container engine."""
        self._launch = launch
        self._secrets = secret_values(launch.env)
        self._states = state_directory
        self._stopped: StopReport | None = None
        self._state_lock = threading.Lock()
        token = secrets.token_hex(16)
        tool = identify_process(os.getpid())
        if tool is None:
            raise OSError("this process is missing in the process table")
        self._state = ServerState(
            token, tool, None, (), what, self.url, str(log), time.time(), launch.container, platform.node()
        )
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
            leader = identify_process(self._process.pid)  # not yet reaped, so it exists
            if leader is None:
                raise OSError("the started process is missing in the process table")
            own_log = log if launch.container is None else None  # in a container it is not inherited
            self._processes = ServerProcesses(token, leader, frozenset({leader}), own_log)
            self._record_processes()
            self._watch = ServerWatch(self._processes, self._record_processes, WATCH_INTERVAL)
            self._watch.start()
        except BaseException:  # nothing else can stop it yet
            signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
            _run_after_stop(launch)
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def peak_memory(self) -> int | None:
        """Largest sum of its processes' resident memory that was seen, in bytes; None if they are out of sight."""
        if self._hidden:
            return None
        self._watch.sample()  # on a busy machine the thread may have seen a short-lived server only as it started
        return self._watch.peak_bytes

    def processes(self) -> list[psutil.Process]:
        """Its running processes; empty if they are out of sight, as in a container."""
        return [] if self._hidden else self._processes.find()

    def failure(self, *, health: bool = False) -> ServerFailure | None:
        """The failure of a server that was ready; None if it works. `health`: also ask /health, with patience."""
        status = self._process.poll()
        if status is not None:
            return self._death(status, ready=self.startup_time is not None)
        return self._check_health() if health else None

    def stop(self, grace: float = STOP_GRACE) -> StopReport:
        """End all its processes. The report names what could not be ended. A second call returns the same report."""
        if self._stopped is None:
            try:
                self._stopped = self._end(grace)
            except KeyboardInterrupt:  # a second Ctrl-C: end it at once, but do end it
                self._stopped = self._end(0.0)
                raise
        return self._stopped

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remains = self.stop().remains
        if remains and error is None:  # the next server would share the machine with it
            raise ServerError(ServerFailure(ServerFailureKind.NOT_STOPPED, remains, (), self._seconds(), self.log))

    def wait_until_ready(self, within: float) -> None:
        """Raises ServerError if it dies or is not healthy in time."""
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
                    self._record_processes()  # the search for the listener may have found more processes
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
        # The group first: a process that is being forked gets the signal, too.
        grouped = [pid for pid in members if process_group(pid) == self._process.pid]
        if grouped:
            signal_group(self._process.pid, signal.SIGTERM)
        report = end_processes(self._find_all, grace, already_asked=grouped)
        with suppress(subprocess.TimeoutExpired):  # its leader is a zombie while its last threads end
            self._process.wait(0 if report.left else _REAPED_WITHIN)
        trouble = _run_after_stop(self._launch)
        # A port on which the server never answered may belong to another program.
        if trouble is None and self.startup_time is not None and not port_closes(self._port):
            trouble = f"something still answers at {self.url}"
        report = replace(report, trouble=trouble)
        if not report.left and report.trouble is None:  # otherwise a later call recovers it
            delete_state(self._states, self._state.token)
        return report

    def _check_health(self) -> ServerFailure | None:
        """Wait for a healthy answer of a busy or stalled server. A server whose engine died does not recover."""
        deadline = time.monotonic() + UNRESPONSIVE_AFTER
        while not is_healthy(self.url, _HEALTH_TIMEOUT):
            time.sleep(2 * _START_POLL)  # a dying process needs a moment to end after its last answer
            engine_is_dead = engine_died(read_log_end(self.log))
            status_deadline = time.monotonic() + (EXIT_STATUS_WAIT if engine_is_dead else 0.0)
            while (status := self._process.poll()) is None and time.monotonic() < status_deadline:
                time.sleep(_START_POLL)
            if status is not None or engine_is_dead:
                return self._death(status, ready=True)
            if time.monotonic() >= deadline:
                text = f"the server is alive but was not healthy for {UNRESPONSIVE_AFTER:.0f} s"
                return self._living_failure(ServerFailureKind.UNRESPONSIVE, text)
            time.sleep(HEALTH_POLL)
        return None

    def _death(self, status: int | None, *, ready: bool) -> ServerFailure:
        memory_short = self._watch.memory_short
        failure = describe_death(
            status, self._seconds(), self.log, ready=ready, secrets=self._secrets, memory_short=memory_short
        )
        # With these statuses the container engine failed before the version ran.
        never_ran = self._launch.container is not None and not ready and status in (125, 126, 127)
        if never_ran and failure.kind is not ServerFailureKind.PORT_TAKEN:
            return replace(failure, kind=ServerFailureKind.NOT_STARTED, text="the container could not be started")
        return failure

    def _living_failure(self, kind: ServerFailureKind, text: str) -> ServerFailure:
        lines = decisive_lines(read_log_end(self.log), self._secrets)
        if kind is ServerFailureKind.NEVER_READY and (cause := environment_cause(lines, ready=False)) is not None:
            kind, text = ServerFailureKind.ENVIRONMENT, f"{cause}: {text}"
        return ServerFailure(kind, text, lines, self._seconds(), self.log)

    def _listens(self) -> bool:
        """Whether one of its processes listens on the port. Assumed if the system denies access to connections."""
        for process in self._processes.find_all():
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
        self._process.poll()  # reap the leader, which is a zombie otherwise
        return self._processes.find_all()

    def _record_processes(self) -> None:
        with self._state_lock:
            members = tuple(sorted(self._processes.listed, key=lambda member: member.pid))
            self._state = replace(self._state, leader=self._processes.leader, members=members)
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
    """Start a server and wait until it is healthy. The caller stops it. After a failure nothing is left running.

    Raises ServerError if it cannot be started, dies, is not ready in time, or cannot be ended after a failure. If
    another program takes the port before the server does, another port is tried. `on_spawn` is called with every
    server before the wait.
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
    """A loopback port on which nothing listens now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run_after_stop(launch: Launch) -> str | None:
    """End its container or service. An error must not hide why the server was stopped."""
    if launch.after_stop is None:
        return None
    try:
        launch.after_stop()
    except Exception as error:
        return f"the server's container or service could not be ended ({type(error).__name__}: {error})"
    return None
