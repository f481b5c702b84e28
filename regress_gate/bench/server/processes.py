"""Which processes belong to a server, also after some of them died, left the session or overwrote their environment.

A pid alone proves nothing, because pids are reused: it counts only together with the start time. Every process of a
server inherits two marks, wherever it goes: a random token in its environment, and the server's log as its output.
vLLM's engine processes overwrite their environment with their title. For a process with a blank environment the session
replaces the token: the kernel does not reuse a session id while one of its processes lives.

Also samples the memory of a server's processes while it runs. Not for starting or ending processes.
"""

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

TOKEN_VARIABLE = "REGRESS_GATE_SERVER"  # noqa: S105 - a mark, not a secret

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, for ever: a pid is reused, but not with the same start time."""

    pid: int
    started: str
    """On Linux the boot id and the kernel's clock ticks, independent of the wall clock; else creation time."""


def identify_process(pid: int) -> ProcessIdentity | None:
    """The process that has this pid now; None if there is none."""
    try:
        if sys.platform == "linux":
            # The second field is a name and may contain spaces and brackets.
            ticks = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
            return ProcessIdentity(pid, f"{_boot_id()}:{ticks}")
        return ProcessIdentity(pid, repr(psutil.Process(pid).create_time()))
    except (OSError, IndexError, psutil.Error):
        return None


def began_before(process: ProcessIdentity, other: ProcessIdentity) -> bool:
    """Whether the process is certainly older than the other one. After a restart of the machine none is."""
    boot, _, moment = process.started.rpartition(":")
    other_boot, _, other_moment = other.started.rpartition(":")
    try:
        return boot == other_boot and float(moment) < float(other_moment)
    except ValueError:  # the state file of another system
        return False


def is_alive(process: ProcessIdentity | None) -> bool:
    """Whether exactly this process still runs."""
    if process is None or identify_process(process.pid) != process:
        return False
    try:
        return psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


@cache
def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


@dataclass(slots=True)
class ServerProcesses:
    """The processes of one server. Used by several threads."""

    token: str
    leader: ProcessIdentity
    listed: frozenset[ProcessIdentity] = frozenset()
    """All processes seen so far, also ended ones. The state file records them."""
    log: Path | None = None
    """The file that the server's output goes to."""

    def find(self) -> list[psutil.Process]:
        """Processes in the leader's session and those seen before. Cheap, because it runs during measurements."""
        known = {listed.pid: listed for listed in self.listed}
        processes = {}
        for pid in psutil.pids():
            if session_of(pid) == self.leader.pid or (pid in known and identify_process(pid) == known[pid]):
                try:
                    process = psutil.Process(pid)
                    if process.status() != psutil.STATUS_ZOMBIE:
                        processes[pid] = process
                except psutil.Error:
                    continue
        return self._remember(processes)

    def find_all(self) -> list[psutil.Process]:
        """Also their descendants, and every process with the token or the log, whatever its session."""
        ours = {process.pid: process for process in self.find()}
        parents: dict[int, tuple[psutil.Process, int]] = {}
        log = None if self.log is None else identify_output(self.log)
        for process in living_processes():
            if token_of(process) == self.token or (log is not None and writes_to(process, log)):
                ours[process.pid] = process
            elif (parent := parent_of(process)) is not None:
                parents[process.pid] = process, parent
        return self._remember(ours | {each.pid: each for each in descendants(ours, parents)})

    def _remember(self, ours: dict[int, psutil.Process]) -> list[psutil.Process]:
        before = {listed.pid for listed in self.listed}
        # Replaced, not changed. If two threads race, the lost entry is found again at the next call.
        self.listed = self.listed | {
            seen for pid in ours if pid not in before and (seen := identify_process(pid)) is not None
        }
        return list(ours.values())


def descendants(roots: Iterable[int], parents: dict[int, tuple[psutil.Process, int]]) -> list[psutil.Process]:
    """The processes of `parents` (pid to process and parent's pid) that descend from the roots."""
    known, family, grew = set(roots), [], True
    while grew:
        grew = False
        for pid, (process, parent) in parents.items():
            if pid not in known and parent in known:
                known.add(pid)
                family.append(process)
                grew = True
    return family


def living_processes() -> Iterator[psutil.Process]:
    """All running processes except this one. While one is looked at, its status file is read once."""
    for process in psutil.process_iter():
        with process.oneshot():
            try:
                lives = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            except psutil.Error:
                continue
            if lives:
                yield process


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def parent_of(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None


def token_of(process: psutil.Process) -> str | None:
    """The token in the process's environment; None if it has none or cannot be read."""
    try:
        return process.environ().get(TOKEN_VARIABLE)
    except (psutil.Error, OSError, ValueError):
        return None


def identify_output(log: Path) -> os.stat_result | None:
    """The file, for `writes_to`; None if it cannot mark a process: a terminal or /dev/null is everybody's output."""
    try:
        status = log.stat()
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def writes_to(process: psutil.Process, log: os.stat_result) -> bool:
    """Whether this file is the process's standard output or error, which children inherit; False if not known.

    A process of this tool's own user is asked, so a program that merely reads the log is not meant.
    """
    for number in (1, 2):
        try:
            # Not a Path: all processes of the machine are asked, several times a second.
            if os.path.samestat(log, os.stat(f"{_PROC}/{process.pid}/fd/{number}")):  # noqa: PTH116
                return True
        except OSError:  # no such system, ended, or of another user
            continue
    return False


def listens_on(connection: Any, port: int | None) -> bool:
    """Whether a connection of psutil listens on this port."""
    return bool(connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port)


def has_blank_environment(process: psutil.Process) -> bool:
    """Whether its environment is readable and empty, because the process overwrote it."""
    try:
        return not any(process.environ().values())
    except (psutil.Error, OSError, ValueError):
        return False


WATCH_INTERVAL = 1.0
"""Least seconds between two samples."""
MAX_WATCH_SHARE = 0.01
"""Share of one core that sampling may use. With very many processes the interval grows."""
MEMORY_SHORTAGE_SHARE = 0.1
"""Share of the machine's memory. With less available, the kernel may have killed a process between two samples."""


class ServerWatch:
    """A thread that samples the server's memory from `start` to `stop`, and reports new processes.

    `peak_bytes` is the largest sum of resident memory seen. `memory_short` is set if the machine ran short of memory
    while other processes held more of it than the server.
    """

    def __init__(
        self, processes: ServerProcesses, on_change: Callable[[], None], interval: float = WATCH_INTERVAL
    ) -> None:
        self.peak_bytes = 0
        self.memory_short = False
        self._processes = processes
        self._on_change = on_change
        self._interval = interval
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def sample(self) -> int:
        """Resident memory now, in bytes. 0 if nothing of the server runs."""
        held = sum(map(_resident_bytes, self._processes.find()))
        self.peak_bytes = max(self.peak_bytes, held)
        return held

    def _run(self) -> None:
        reported = self._processes.listed
        while not self._stopped.is_set():
            begin = time.monotonic()
            held = self.sample()
            memory = psutil.virtual_memory()
            if memory.available < MEMORY_SHORTAGE_SHARE * memory.total:
                self.memory_short = self.memory_short or memory.total - memory.available > 2 * held
            if self._processes.listed != reported:  # changed by this sample or by another thread
                reported = self._processes.listed
                self._on_change()
            self._stopped.wait(max(self._interval, (time.monotonic() - begin) / MAX_WATCH_SHARE))


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
