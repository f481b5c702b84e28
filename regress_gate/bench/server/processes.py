"""Telling our server's processes from all others, also after some of them died, moved away or rewrote themselves.

A process number alone proves nothing: numbers are used again. Three marks are held together: number, start time, and
a random token that every server is given in its environment and its children inherit. vLLM's engine processes write
their title over their environment, so for a process whose environment is blank the session it belongs to stands in
for the token: the kernel gives a session's number to nobody else while one of its processes lives.
"""

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

TOKEN_VARIABLE = "REGRESS_GATE_SERVER"  # noqa: S105 - a mark, not a secret

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessMark:
    """One process, for ever: numbers are used again, but not with the same start."""

    pid: int
    started: str
    """Kernel's clock ticks and boot on Linux, where the wall clock may be set; creation time elsewhere."""


def mark(pid: int) -> ProcessMark | None:
    """The process that has this number now; None when there is none."""
    try:
        if sys.platform == "linux":
            # The second field is a name that may hold anything, spaces and brackets too.
            ticks = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
            return ProcessMark(pid, f"{_boot()}:{ticks}")
        return ProcessMark(pid, repr(psutil.Process(pid).create_time()))
    except (OSError, IndexError, psutil.Error):
        return None


def is_alive(process: ProcessMark | None) -> bool:
    """Whether exactly this process is still there and has not ended."""
    if process is None or mark(process.pid) != process:
        return False
    try:
        return psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


@dataclass(slots=True)
class Kin:
    """The processes of one server. Asked by several threads."""

    token: str
    leader: ProcessMark
    listed: frozenset[ProcessMark] = frozenset()
    """All that were seen, dead ones too; it is what survives us in the state file."""

    def find(self) -> list[psutil.Process]:
        """Those in the leader's session and those seen before: cheap, because it is asked during measurements."""
        known = {listed.pid: listed for listed in self.listed}
        found = {}
        for pid in psutil.pids():
            if session_of(pid) == self.leader.pid or (pid in known and mark(pid) == known[pid]):
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
        for process in living():
            if token_of(process) == self.token:
                ours[process.pid] = process
            elif (parent := parent_of(process)) is not None:
                parents[process.pid] = process, parent
        return self._seen(ours | {each.pid: each for each in descendants(ours, parents)})

    def _seen(self, ours: dict[int, psutil.Process]) -> list[psutil.Process]:
        before = {listed.pid for listed in self.listed}
        # Replaced, not changed: what a thread loses to another here it sees again the next time.
        self.listed = self.listed | {seen for pid in ours if pid not in before and (seen := mark(pid)) is not None}
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


def living() -> list[psutil.Process]:
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


def is_blank(process: psutil.Process) -> bool:
    """Whether its environment can be read and holds nothing: it has been written over."""
    try:
        return not any(process.environ().values())
    except (psutil.Error, OSError, ValueError):
        return False
