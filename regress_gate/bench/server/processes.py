"""Telling our server's processes from all others, also after some of them died, moved away or rewrote themselves.

A process number alone proves nothing: numbers are used again. Three marks are held together: number, start time, and
a random token that every server is given in its environment and its children inherit. vLLM's engine processes write
their title over their environment, so for a process whose environment is blank the session it belongs to stands in
for the token: the kernel gives a session's number to nobody else while one of its processes lives.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

TOKEN_VARIABLE = "REGRESS_GATE_SERVER"  # noqa: S105 - a mark, not a secret

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, for ever: numbers are used again, but not with the same start."""

    pid: int
    started: str
    """Kernel's clock ticks and boot on Linux, where the wall clock may be set; creation time elsewhere."""


def identify_process(pid: int) -> ProcessIdentity | None:
    """The process that has this number now; None when there is none."""
    try:
        if sys.platform == "linux":
            # The second field is a name that may hold anything, spaces and brackets too.
            ticks = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
            return ProcessIdentity(pid, f"{_boot_id()}:{ticks}")
        return ProcessIdentity(pid, repr(psutil.Process(pid).create_time()))
    except (OSError, IndexError, psutil.Error):
        return None


def is_alive(process: ProcessIdentity | None) -> bool:
    """Whether exactly this process is still there and has not ended."""
    if process is None or identify_process(process.pid) != process:
        return False
    try:
        return psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


@dataclass(slots=True)
class ServerProcesses:
    """The processes of one server. Asked by several threads."""

    token: str
    leader: ProcessIdentity
    listed: frozenset[ProcessIdentity] = frozenset()
    """All that were seen, dead ones too; it is what survives us in the state file."""

    def find(self) -> list[psutil.Process]:
        """Those in the leader's session and those seen before: cheap, because it is asked during measurements."""
        known = {listed.pid: listed for listed in self.listed}
        found = {}
        for pid in psutil.pids():
            if session_of(pid) == self.leader.pid or (pid in known and identify_process(pid) == known[pid]):
                try:
                    process = psutil.Process(pid)
                    if process.status() != psutil.STATUS_ZOMBIE:
                        found[pid] = process
                except psutil.Error:
                    continue
        return self._seen(found)

    def find_all(self) -> list[psutil.Process]:
        """Those, their descendants, and every process that carries the token, wherever it went."""
        ours = {process.pid: process for process in self.find()}
        parents: dict[int, tuple[psutil.Process, int]] = {}
        for process in living_processes():
            if token_of(process) == self.token:
                ours[process.pid] = process
            elif (parent := parent_of(process)) is not None:
                parents[process.pid] = process, parent
        return self._seen(ours | {each.pid: each for each in descendants(ours, parents)})

    def _seen(self, ours: dict[int, psutil.Process]) -> list[psutil.Process]:
        before = {listed.pid for listed in self.listed}
        # Replaced, not changed: what a thread loses to another here it sees again the next time.
        self.listed = self.listed | {
            seen for pid in ours if pid not in before and (seen := identify_process(pid)) is not None
        }
        return list(ours.values())


def descendants(roots: Iterable[int], parents: dict[int, tuple[psutil.Process, int]]) -> list[psutil.Process]:
    """Those of `parents` (process and its parent's number, by number) that descend from the roots."""
    known, found, grew = set(roots), [], True
    while grew:
        grew = False
        for pid, (process, parent) in parents.items():
            if pid not in known and parent in known:
                known.add(pid)
                found.append(process)
                grew = True
    return found


def living_processes() -> list[psutil.Process]:
    """All processes that have not ended, but for this one."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


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
    """The token in the process's environment; None where it has none or may not be read."""
    try:
        return process.environ().get(TOKEN_VARIABLE)
    except (psutil.Error, OSError, ValueError):
        return None


def listens_on(connection: Any, port: int | None) -> bool:
    """Whether a connection, as psutil gives it, waits for others on this port."""
    return bool(connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port)


def has_blank_environment(process: psutil.Process) -> bool:
    """Whether its environment can be read and holds nothing: it has been written over."""
    try:
        return not any(process.environ().values())
    except (psutil.Error, OSError, ValueError):
        return False


# MERGED regress_gate.bench.server.watching: A thread that looks at a server's processes once in a while: how much
# memory they hold, and who they are.  Of the rest of the machine it sees only whether it left them enough memory.


WATCH_INTERVAL = 1.0
"""Seconds between looks, at least."""
MAX_WATCH_SHARE = 0.01
"""Of one core that looking may cost: on a machine of very many processes it is done less often."""
MEMORY_SHORTAGE_SHARE = 0.1
"""Share of the machine's memory: with less at hand between two looks, the kernel may have ended a process for it."""


class ServerWatch:
    """Sampling from `start` to `stop`; `peak_bytes` is the largest sum of resident memory that was seen.

    `squeezed`: whether memory was seen to be short while others held more of it than the server.
    """

    def __init__(self, kin: ServerProcesses, on_change: Callable[[], None], interval: float = WATCH_INTERVAL) -> None:
        self.peak_bytes = 0
        self.squeezed = False
        self._kin = kin
        self._on_change = on_change
        self._interval = interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        told = self._kin.listed
        while not self._over.is_set():
            begin = time.monotonic()
            held = sum(map(_resident_bytes, self._kin.find()))
            self.peak_bytes = max(self.peak_bytes, held)
            memory = psutil.virtual_memory()
            if memory.available < MEMORY_SHORTAGE_SHARE * memory.total:
                self.squeezed = self.squeezed or memory.total - memory.available > 2 * held
            if self._kin.listed != told:  # by this look, or by another thread's since the last one
                told = self._kin.listed
                self._on_change()
            self._over.wait(max(self._interval, (time.monotonic() - begin) / MAX_WATCH_SHARE))


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
