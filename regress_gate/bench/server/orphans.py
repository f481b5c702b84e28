"""Servers that a regress-gate left running when it was killed: found, told, and ended if they are surely ours."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from regress_gate.bench.server.ending import StopReport, end_processes
from regress_gate.bench.server.processes import (
    ProcessMark,
    descendants,
    is_alive,
    is_blank,
    living,
    mark,
    parent_of,
    session_of,
    token_of,
)
from regress_gate.bench.server.state import ServerState, default_directory, delete_state, read_states

GRACE = 10.0


@dataclass(frozen=True, slots=True)
class Orphan:
    """What is left of one server whose regress-gate is gone."""

    state: ServerState
    ours: tuple[ProcessMark, ...]
    """Processes that are surely of that server."""
    doubtful: tuple[int, ...]
    """Processes that look like it in part: told, never ended."""
    in_container: bool = False
    """Whether its container may still be there."""

    def __str__(self) -> str:
        pids = ", ".join(str(process.pid) for process in self.ours) or "none that are surely ours"
        container = self.state.container
        where = f", container {container.name}" if container is not None and self.in_container else ""
        doubt = f"; left alone: {', '.join(map(str, self.doubtful))}" if self.doubtful else ""
        return f"{self.state.what} at {self.state.url}, left by a run that was killed: processes {pids}{where}{doubt}"


def find_orphans(directory: Path | None = None) -> list[Orphan]:
    """Orphans by the state files. Files of servers of which nothing is left are deleted.

    While a server's container is there, what merely carries its token is taken for what runs in it, and not told.
    """
    directory = directory or default_directory()
    found = []
    for state in read_states(directory):
        if is_alive(state.tool):
            continue
        ours, doubtful = _sort(state)
        in_container = state.container is not None and state.container.is_there() is not False
        if ours or doubtful or in_container:
            marks = (mark(process.pid) for process in ours)
            found.append(
                Orphan(
                    state,
                    tuple(seen for seen in marks if seen is not None),
                    () if in_container else tuple(process.pid for process in doubtful),
                    in_container,
                )
            )
        else:
            delete_state(directory, state.token)
    return found


def end_orphan(orphan: Orphan, directory: Path | None = None, *, grace: float = GRACE) -> StopReport:
    """End the processes that are surely ours, looking at each one's marks again right before, and the container."""
    report = end_processes(lambda: _remaining(orphan), grace)
    container = orphan.state.container
    if container is not None and orphan.in_container and not container.remove(grace):
        text = f"the container {container.name} may still be there; end it with `{container.program} rm -f`"
        report = replace(report, trouble=text)
    if not report.left and not orphan.doubtful and report.trouble is None:
        delete_state(directory or default_directory(), orphan.state.token)
    return report


def _remaining(orphan: Orphan) -> list[psutil.Process]:
    """Also those that are just ending and have lost their environment, and with it the token, but not their devices."""
    ours = {process.pid: process for process in _sort(orphan.state)[0]}
    for seen in orphan.ours:
        if seen.pid not in ours and is_alive(seen):
            try:
                ours[seen.pid] = psutil.Process(seen.pid)
            except psutil.Error:
                continue
    return list(ours.values())


def _sort(state: ServerState) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Living processes that are surely of this server, and those of which only some marks fit."""
    processes = list(_own(living()))
    leader = state.leader or _unwritten_leader(state.token, processes)
    listed = {member.pid: member for member in (*state.members, *([leader] if leader else []))}
    session = leader.pid if leader else None
    session_is_ours = is_alive(leader)
    ours: dict[int, psutil.Process] = {}
    doubtful: dict[int, psutil.Process] = {}
    parents: dict[int, tuple[psutil.Process, int]] = {}
    for process in processes:
        seen = process.pid in listed and mark(process.pid) == listed[process.pid]
        in_session = session is not None and session_of(process.pid) == session
        has_token = token_of(process) == state.token
        blank = not has_token and (seen or in_session) and is_blank(process)
        if (has_token and (seen or in_session)) or (blank and in_session and (seen or session_is_ours)):
            ours[process.pid] = process
        elif has_token or blank:
            doubtful[process.pid] = process
        if process.pid not in ours and has_token and (parent := parent_of(process)) is not None:
            parents[process.pid] = process, parent
    for process in descendants(ours, parents):
        ours[process.pid] = process
        doubtful.pop(process.pid, None)
    return list(ours.values()), list(doubtful.values())


def _unwritten_leader(token: str, processes: list[psutil.Process]) -> ProcessMark | None:
    """For a tool that was killed between starting a server and writing down which process it is."""
    for process in processes:
        if session_of(process.pid) == process.pid and token_of(process) == token:
            return mark(process.pid)
    return None


def _own(processes: list[psutil.Process]) -> Iterator[psutil.Process]:
    """This user's: others cannot be ours."""
    for process in processes:
        try:
            if process.uids().real == os.getuid():
                yield process
        except psutil.Error:
            continue
