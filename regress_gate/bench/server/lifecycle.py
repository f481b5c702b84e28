"""Starting a server's command in a process group of its own, and signals to such a group. Not for waiting or ending."""

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
    except (ProcessLookupError, PermissionError):  # gone, or all that is left of it are zombies
        return


# MERGED regress_gate.bench.server.interrupts: Keeps Ctrl-C and its like waiting while something is half-done that
# nobody could undo: a process between its start and the moment at which it is known.


_DEFERRED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """What comes while this is entered is delivered when it is left. A signal without a handler of ours is not kept."""
    if threading.current_thread() is not threading.main_thread():  # signals are handled in the main thread only
        yield
        return
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.getsignal(number) for number in _DEFERRED_SIGNALS}
    kept = {number: handler for number, handler in before.items() if callable(handler)}
    for number in kept:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        for caught in came:
            signal.raise_signal(caught)


# MERGED regress_gate.bench.server.priority: Lets a server yield to whoever measures it, where both share the cores.
# Nothing else about it changes.  Engines wait for work by spinning. On two cores such a server kept the load client
# of vLLM 0.24.0 waiting for up to half a second (p99), and with this for 0.2 ms, at the same speed of its own.


NICENESS = 10


def lower_priority(pid: int) -> None:
    """Lower the priority of a server that has just been started in a session of its own. Never raises.

    Linux weighs sessions before it weighs the processes in them (autogroups, see sched(7)), where it does so at all;
    so both are told. Nobody needs a privilege to be nice.
    """
    with suppress(OSError, psutil.Error):
        psutil.Process(pid).nice(NICENESS)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(NICENESS), encoding="ascii")


# MERGED regress_gate.bench.server.ending: Ending processes: ask, wait, force, and look whether anything is left.
# Not for choosing which.


_END_POLL = 0.05
KILL_WAIT = 5.0
"""Seconds that a killed process is given to be gone; one that waits for a device may take that."""

PORT_CLOSE_WAIT = 5.0
"""Seconds after the end of its processes within which a server's port must have fallen silent."""


@dataclass(frozen=True, slots=True)
class StopReport:
    seconds: float
    forced: bool
    """Whether something did not end when asked and was killed."""
    left: tuple[int, ...]
    """Processes that are still there; empty is what is meant to be."""
    trouble: str | None = None
    """What went wrong with ending what is out of our reach, in one line."""

    @property
    def remains(self) -> str | None:
        """What is still there, in one line; None when nothing is."""
        pids = ", ".join(map(str, self.left))
        processes = f"processes {pids} of the server could not be ended" if pids else None
        return "; ".join(each for each in (processes, self.trouble) if each) or None


def end_processes(
    find: Callable[[], list[psutil.Process]], grace: float, *, already_asked: Iterable[int] = ()
) -> StopReport:
    """End what `find` finds, looking again until it finds nothing: what is asked to end may start others first.

    Each process is asked once (SIGTERM; vLLM takes a second one as haste) unless it has been already, and killed when
    it is there after `grace` seconds.
    """
    begin = time.monotonic()
    asked = set(already_asked)
    remaining = find()
    while remaining and time.monotonic() - begin < grace:
        _signal_each([process for process in remaining if process.pid not in asked], psutil.Process.terminate)
        asked |= {process.pid for process in remaining}
        time.sleep(_END_POLL)
        remaining = find()
    forced = bool(remaining)
    deadline = time.monotonic() + KILL_WAIT
    while remaining and time.monotonic() < deadline:
        _signal_each(remaining, psutil.Process.kill)
        time.sleep(_END_POLL)
        remaining = find()
    return StopReport(time.monotonic() - begin, forced, tuple(process.pid for process in remaining))


def port_closes(port: int) -> bool:
    """Whether soon nothing takes connections at a loopback port any more: what left our reach may serve on."""
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
            send(process)  # psutil looks first whether the number is still the same process
        except psutil.Error:
            continue
