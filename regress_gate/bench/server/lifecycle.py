"""Start a server's command, protect the start from interrupts, lower the server's priority, end its processes.

Not for choosing which processes belong to a server (see `processes`).
"""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from regress_gate.bench.provision.interface import Launch
from regress_gate.bench.server.processes import TOKEN_VARIABLE


def spawn(launch: Launch, token: str, log: Path) -> subprocess.Popen[bytes]:
    """Start the command in a session of its own. Its environment carries the token."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - the environment's command
            launch.command,
            env={**launch.env, TOKEN_VARIABLE: token},
            cwd=launch.directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def process_group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):  # ended, or only zombies are left
        return


_DEFERRED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Deliver SIGINT, SIGTERM and SIGHUP only when the block is left.

    It protects the moment between the start of a process and the record of it. Only signals with a Python handler are
    deferred.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are handled in the main thread only
        yield
        return
    received: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)

    before = {number: signal.getsignal(number) for number in _DEFERRED_SIGNALS}
    kept = {number: handler for number, handler in before.items() if callable(handler)}
    for number in kept:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        for caught in received:
            signal.raise_signal(caught)


NICENESS = 10
"""Of a server, which shares its cores with the load client.

Engines wait for work by spinning. On two cores, vLLM 0.24.0 delayed the client by up to half a second (p99) without
this, and by 0.2 ms with it; the server was as fast as before.
"""


def lower_priority(pid: int) -> None:
    """Lower the priority of a server that has just been started in a session of its own. Never raises.

    Where Linux groups processes by session (autogroups, see sched(7)), the group's niceness counts before the
    process's, so both are set. Lowering a priority needs no privilege.
    """
    with suppress(OSError, psutil.Error):
        psutil.Process(pid).nice(NICENESS)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(NICENESS), encoding="ascii")


_END_POLL = 0.05
KILL_WAIT = 5.0
"""Seconds until a killed process must be gone. A process that waits for a device may need them."""

PORT_CLOSE_WAIT = 5.0
"""Seconds until a server's port must refuse connections after its processes have ended."""


@dataclass(frozen=True, slots=True)
class StopReport:
    seconds: float
    forced: bool
    """Whether a process ignored SIGTERM and was killed."""
    left: tuple[int, ...]
    """Processes that still exist. Normally empty."""
    trouble: str | None = None
    """What failed outside of the processes (a container, a port that still answers), in one line."""

    @property
    def remains(self) -> str | None:
        """Everything that was not ended, in one line; None if all was."""
        pids = ", ".join(map(str, self.left))
        processes = f"processes {pids} of the server could not be ended" if pids else None
        return "; ".join(each for each in (processes, self.trouble) if each) or None


def end_processes(
    find: Callable[[], list[psutil.Process]], grace: float, *, already_asked: Iterable[int] = ()
) -> StopReport:
    """End the processes that `find` returns, and call it again until it returns none: a process may start others.

    Each process gets SIGTERM once (vLLM treats a second one as urgent), unless it is in `already_asked`. Processes that
    exist after `grace` seconds are killed.
    """
    begin = time.monotonic()
    signalled = set(already_asked)
    remaining = _find_again(find)
    while remaining and time.monotonic() - begin < grace:
        _signal_each([process for process in remaining if process.pid not in signalled], psutil.Process.terminate)
        signalled |= {process.pid for process in remaining}
        time.sleep(_END_POLL)
        remaining = _find_again(find)
    forced = bool(remaining)
    deadline = time.monotonic() + KILL_WAIT
    while remaining and time.monotonic() < deadline:
        _signal_each(remaining, psutil.Process.kill)
        time.sleep(_END_POLL)
        remaining = _find_again(find)
    return StopReport(time.monotonic() - begin, forced, tuple(process.pid for process in remaining))


def _find_again(find: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    """Asked twice before nothing is left: a process that starts another and ends while the system's list is read hides
    both from one look."""
    return find() or find()


def port_closes(port: int) -> bool:
    """Whether a loopback port refuses connections within PORT_CLOSE_WAIT. A process that escaped may still serve."""
    deadline = time.monotonic() + PORT_CLOSE_WAIT
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(PORT_CLOSE_WAIT)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_END_POLL)


def _signal_each(processes: list[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        try:
            send(process)  # psutil checks that the pid is still the same process
        except psutil.Error:
            continue
