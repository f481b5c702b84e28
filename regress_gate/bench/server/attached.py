"""A server that ran before us and outlives us: looked at like one of ours, never stopped."""

import time
from urllib.parse import urlsplit

import psutil

from regress_gate.bench.provision.interface import Environment
from regress_gate.bench.server.ending import StopReport
from regress_gate.bench.server.facts import ServerFacts, read_facts
from regress_gate.bench.server.failures import Failure, FailureKind, ServerError
from regress_gate.bench.server.http import is_healthy
from regress_gate.bench.server.processes import listens_on
from regress_gate.errors import InputError

_HEALTH_TIMEOUT = 5.0


class AttachedServer:
    """What `Server` offers, as far as it can be known from outside."""

    startup_time: None = None
    log: None = None
    peak_memory: None = None
    facts: ServerFacts

    def __init__(self, url: str) -> None:
        self.url = url
        self._begin = time.monotonic()
        if (failure := self.failure(health=True)) is not None:
            raise ServerError(failure)
        self.facts = read_facts(url, None)

    def processes(self) -> list[psutil.Process]:
        """The process that listens on the port and its descendants; empty when they are not ours to see."""
        parts = urlsplit(self.url)
        if parts.hostname not in ("127.0.0.1", "localhost", "::1"):
            return []
        try:
            for each in psutil.net_connections(kind="tcp"):
                if listens_on(each, parts.port) and each.pid is not None:
                    listener = psutil.Process(each.pid)
                    return [listener, *listener.children(recursive=True)]
        except psutil.Error:
            return []
        return []

    def failure(self, *, health: bool = False) -> Failure | None:
        """Only asking it tells: there is no process to look at."""
        if not health or is_healthy(self.url, _HEALTH_TIMEOUT):
            return None
        text = f"{self.url} is not healthy"
        return Failure(FailureKind.UNRESPONSIVE, text, (), time.monotonic() - self._begin, None)

    def stop(self) -> StopReport:
        """Leaves it alone."""
        return StopReport(0.0, False, ())


def attach(environment: Environment) -> AttachedServer:
    """Raises ServerError when it is not healthy."""
    if environment.url is None:
        raise InputError("this environment has no server that runs already; it has to be started")
    return AttachedServer(environment.url)
