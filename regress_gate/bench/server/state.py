"""The file that outlives us: which server we started, so that a later call finds what a crash of ours left running.

One file per running server, written before the start and deleted after the stop. Not a lock, and nothing is decided
here about whose a process is.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

from regress_gate.bench.provision.containers import Container
from regress_gate.bench.server.processes import ProcessMark


@dataclass(frozen=True, slots=True)
class ServerState:
    token: str
    tool: ProcessMark
    """The regress-gate that started it."""
    leader: ProcessMark | None
    """None until it has been started."""
    members: tuple[ProcessMark, ...]
    """All processes seen of it."""
    what: str
    """For people: what was served."""
    url: str
    log: str
    started: float
    """Unix time."""
    container: Container | None = None
    """Where it runs, if in one: what ending its processes does not reach."""


def default_directory() -> Path:
    return platformdirs.user_state_path("regress-gate", appauthor=False) / "servers"


def write_state(directory: Path, state: ServerState) -> None:
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = directory / f".{state.token}.new"
    draft.write_text(json.dumps(asdict(state), indent=1), encoding="utf-8")
    draft.chmod(0o600)
    draft.replace(directory / f"{state.token}.json")


def delete_state(directory: Path, token: str) -> None:
    (directory / f"{token}.json").unlink(missing_ok=True)


def read_states(directory: Path) -> Iterator[ServerState]:
    """All that can be read; a file that another user or a full disk has spoilt is passed over, never deleted."""
    for path in sorted(directory.glob("*.json")) if directory.is_dir() else []:
        try:
            if path.stat().st_uid != os.getuid():
                continue
            yield _state(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError):
            continue


def _state(data: dict[str, Any]) -> ServerState:
    leader, container = data["leader"], data.get("container")
    return ServerState(
        **{
            **data,
            "tool": ProcessMark(**data["tool"]),
            "leader": None if leader is None else ProcessMark(**leader),
            "members": tuple(ProcessMark(**member) for member in data["members"]),
            "container": None if container is None else _container(container),
        }
    )


def _container(data: dict[str, Any]) -> Container:
    return Container(**{**data, "address": tuple((name, value) for name, value in data["address"])})
