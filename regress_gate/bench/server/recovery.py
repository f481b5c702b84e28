"""State files of running servers, and the recovery of servers that a killed regress-gate left behind (orphans).

One file per running server, written before its start and deleted after its stop. Only processes that certainly belong
to an orphan are ended, also those that left its session; doubtful ones are reported. A state file is not a lock.
"""

import json
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from regress_gate.bench.provision.containers import Container
from regress_gate.bench.server.lifecycle import StopReport, end_processes
from regress_gate.bench.server.processes import (
    ProcessIdentity,
    began_before,
    descendants,
    has_blank_environment,
    identify_output,
    identify_process,
    is_alive,
    living_processes,
    parent_of,
    session_of,
    token_of,
    writes_to,
)
from regress_gate.files import replace_file
from regress_gate.paths import servers_directory


@dataclass(frozen=True, slots=True)
class ServerState:
    token: str
    tool: ProcessIdentity
    """The regress-gate that started it."""
    leader: ProcessIdentity | None
    """None before the start."""
    members: tuple[ProcessIdentity, ...]
    """All processes seen so far."""
    what: str
    """What was served, for messages."""
    url: str
    log: str
    started: float
    """Unix time."""
    container: Container | None = None
    """Set if the server runs in a container. Ending its processes does not end the container."""
    host: str | None = None
    """The machine that it runs on: several may share the directory. None: not recorded, so this one."""


def write_state(directory: Path, state: ServerState) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(directory / f"{state.token}.json", json.dumps(asdict(state), indent=1), mode=0o600)


def delete_state(directory: Path, token: str) -> None:
    (directory / f"{token}.json").unlink(missing_ok=True)


def read_states(directory: Path) -> Iterator[ServerState]:
    """All readable states. Damaged files and those of other users are skipped, never deleted."""
    for path in sorted(directory.glob("*.json")) if directory.is_dir() else []:
        try:
            if path.stat().st_uid != os.getuid():
                continue
            yield _state_from_document(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError):
            continue


def _state_from_document(data: dict[str, Any]) -> ServerState:
    leader, container = data["leader"], data.get("container")
    return ServerState(
        **{
            **data,
            "tool": ProcessIdentity(**data["tool"]),
            "leader": None if leader is None else ProcessIdentity(**leader),
            "members": tuple(ProcessIdentity(**member) for member in data["members"]),
            "container": None if container is None else _container_from_document(container),
        }
    )


def _container_from_document(data: dict[str, Any]) -> Container:
    return Container(**{**data, "address": tuple((name, value) for name, value in data["address"])})


ORPHAN_GRACE = 10.0


@dataclass(frozen=True, slots=True)
class Orphan:
    """The rest of one server whose regress-gate no longer runs."""

    state: ServerState
    ours: tuple[ProcessIdentity, ...]
    """Processes that certainly belong to the server."""
    doubtful: tuple[int, ...]
    """Processes with only some of its marks: reported, never ended."""
    in_container: bool = False
    """Whether its container may still exist."""

    def __str__(self) -> str:
        pids = ", ".join(str(process.pid) for process in self.ours) or "none that certainly belong to it"
        container = self.state.container
        where = f", container {container.name}" if container is not None and self.in_container else ""
        pids_left = " ".join(map(str, self.doubtful))
        doubt = f"; not certainly its own, so left alone: end them with `kill {pids_left}`" if pids_left else ""
        return f"{self.state.what} at {self.state.url}, left by a run that was killed: processes {pids}{where}{doubt}"


def find_orphans(directory: Path | None = None) -> list[Orphan]:
    """Orphans on this machine by their state files. The files of servers that ended completely are deleted.

    While a server's container exists, processes with only its token are assumed to run in it and are not reported.
    """
    directory = directory or servers_directory()
    orphans = []
    for state in read_states(directory):
        if state.host not in (None, platform.node()) or is_alive(state.tool):
            continue
        ours, doubtful = _classify_processes(state)
        in_container = state.container is not None and state.container.is_there() is not False
        if ours or doubtful or in_container:
            identities = (identify_process(process.pid) for process in ours)
            orphans.append(
                Orphan(
                    state,
                    tuple(identity for identity in identities if identity is not None),
                    () if in_container else tuple(process.pid for process in doubtful),
                    in_container,
                )
            )
        else:
            delete_state(directory, state.token)
    return orphans


def end_orphan(orphan: Orphan, directory: Path | None = None, *, grace: float = ORPHAN_GRACE) -> StopReport:
    """End the processes that certainly belong to the server, after checking their marks again, and its container."""
    report = end_processes(lambda: _remaining_processes(orphan), grace)
    container = orphan.state.container
    if container is not None and orphan.in_container and not container.remove(grace):
        text = f"the container {container.name} may still exist; end it with `{container.program} rm -f`"
        report = replace(report, trouble=text)
    if not report.left and not orphan.doubtful and report.trouble is None:
        delete_state(directory or servers_directory(), orphan.state.token)
    return report


def _remaining_processes(orphan: Orphan) -> list[psutil.Process]:
    """Also processes that are ending: they have lost their environment with the token, but may still hold a device."""
    ours = {process.pid: process for process in _classify_processes(orphan.state)[0]}
    for seen in orphan.ours:
        if seen.pid not in ours and is_alive(seen):
            try:
                ours[seen.pid] = psutil.Process(seen.pid)
            except psutil.Error:
                continue
    return list(ours.values())


def _classify_processes(state: ServerState) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Running processes that certainly belong to the server, and those with only some of its marks.

    The token and the log are inherited and cannot be guessed: a process with one of them is the server's, if it is not
    older than the server. Processes in the server's container have the token, too; they end with the container.
    """
    processes = list(_processes_of_user(living_processes()))
    leader = state.leader or _find_unrecorded_leader(state.token, processes)
    listed = {member.pid: member for member in (*state.members, *([leader] if leader else []))}
    session = leader.pid if leader else None
    oldest = leader or state.tool
    session_is_ours = leader is not None and identify_process(leader.pid) in (leader, None) and _same_boot(leader)
    ours: dict[int, psutil.Process] = {}
    doubtful: dict[int, psutil.Process] = {}
    parents: dict[int, tuple[psutil.Process, int]] = {}
    log = None if state.container is not None else identify_output(Path(state.log))
    for process in processes:
        if (identity := identify_process(process.pid)) is None:
            continue
        seen = identity == listed.get(process.pid)
        in_session = session is not None and session_of(process.pid) == session
        has_token = token_of(process) == state.token
        has_mark = has_token or (log is not None and writes_to(process, log))
        is_near = seen or in_session or state.container is None
        blank = not has_mark and (seen or in_session) and has_blank_environment(process)
        if (has_mark and is_near and not began_before(identity, oldest)) or (
            blank and (seen or (in_session and session_is_ours))
        ):
            ours[process.pid] = process
        elif has_mark or blank:
            doubtful[process.pid] = process
        if process.pid not in ours and (parent := parent_of(process)) is not None:
            parents[process.pid] = process, parent
    for process in descendants(ours, parents):
        ours[process.pid] = process
        doubtful.pop(process.pid, None)
    return list(ours.values()), list(doubtful.values())


def _same_boot(leader: ProcessIdentity) -> bool:
    """Whether the machine has not been started anew since; an old session id means nothing after that."""
    own = identify_process(os.getpid())
    return own is not None and own.started.rpartition(":")[0] == leader.started.rpartition(":")[0]


def _find_unrecorded_leader(token: str, processes: list[psutil.Process]) -> ProcessIdentity | None:
    """The leader, for a tool that was killed after starting a server and before recording its process."""
    for process in processes:
        if session_of(process.pid) == process.pid and token_of(process) == token:
            return identify_process(process.pid)
    return None


def _processes_of_user(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    """Only this user's processes."""
    for process in processes:
        try:
            if process.uids().real == os.getuid():
                yield process
        except psutil.Error:
            continue
