"""A container that a server of ours runs in: who it is on this machine, and making sure that it is gone.

The engine's program in the foreground (`docker run`) is not the container: killing it leaves the container running.
Found by a random label of its own and never by name alone, so that nobody else's container is touched. Not for
starting one.
"""

import os
import secrets
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

LABEL = "regress-gate.server"
TIMEOUT = 60.0
"""Seconds for one question to the engine, beyond the grace that is given to the container."""
GOING_TIMEOUT = 30.0
"""Seconds that the engine is given to take away a container that has ended."""
POLL = 0.2
_ADDRESS = (
    *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"),
    *("CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "XDG_RUNTIME_DIR"),
)
"""Variables that say which engine is meant; none of them holds a secret."""


@dataclass(frozen=True, slots=True)
class Container:
    """Plain values, so that a later process can find it again and end it."""

    program: str
    """docker or podman."""
    name: str
    mark: str
    """Random; the value of its label."""
    address: tuple[tuple[str, str], ...] = ()
    """Variables by which its engine is reached."""

    @classmethod
    def new(cls, program: str, environ: Mapping[str, str]) -> Self:
        """One that is still to be started, with a name and a mark that nobody else has."""
        mark = secrets.token_hex(16)
        address = tuple((name, environ[name]) for name in _ADDRESS if environ.get(name))
        return cls(program, f"regress-gate-{mark[:12]}", mark, address)

    def is_there(self) -> bool | None:
        """None when the engine does not answer."""
        found = self._find()
        return None if found is None else bool(found)

    def remove(self, grace: float) -> bool:
        """End it, by force after `grace` seconds. Whether it is certainly gone."""
        found = self._find()
        if found and grace > 0:
            self._ask("stop", "-t", str(max(1, round(grace))), *found, timeout=grace + TIMEOUT)
            found = self._find()
        deadline = time.monotonic() + GOING_TIMEOUT
        while found:
            # Fails for one that the engine is just taking away by itself, which takes it a moment.
            self._ask("rm", "--force", "--volumes", *found)
            found = self._find()
            if not found or time.monotonic() >= deadline:
                break
            time.sleep(POLL)
        return found == []

    def _find(self) -> list[str] | None:
        told = self._ask("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL}={self.mark}")
        return None if told is None else told.split()

    def _ask(self, *arguments: str, timeout: float = TIMEOUT) -> str | None:
        try:
            asked = subprocess.run(  # noqa: S603 - the engine that started it
                [self.program, *arguments],
                env={**os.environ, **dict(self.address)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return asked.stdout if asked.returncode == 0 else None
