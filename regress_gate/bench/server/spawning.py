"""Starting a server's command in a process group of its own, and signals to such a group. Not for waiting or ending."""

import os
import signal
import subprocess
from pathlib import Path

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


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):  # gone, or all that is left of it are zombies
        return
