"""A server that somebody else started: what it says of itself, and whether it still serves.

Not for starting or stopping servers.
"""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from regress_gate.bench.load.errors import LoadError
from regress_gate.bench.load.target import Target, resolve
from regress_gate.bench.server.failures import Failure, FailureKind
from regress_gate.bench.server.http import get, is_healthy
from regress_gate.bench.server.processes import listens_on
from regress_gate.errors import InputError
from regress_gate.model.version import Version

ANSWER_LIMIT = 30.0
"""Seconds to wait for an answer about the server; a server under load may take its time."""
HEALTH_WITHIN = 60.0
"""Seconds in which a server that was healthy must be it again; one answer that fails proves nothing."""
_HEALTH_LIMIT = 5.0
_HEALTH_POLL = 0.5
_LOCAL = ("127.0.0.1", "localhost", "::1")
_STARTED = re.compile(r"^process_start_time_seconds\s+([0-9.eE+]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunningServer:
    url: str
    version: Version
    """As /version says."""
    models: tuple[str, ...]
    """Names under which models are served."""
    started: datetime | None
    """When the process started, from /metrics; None where it does not say. It tells one server start from another."""

    def serve(self, wanted: str) -> str:
        """The served name of the model that a scenario wants. Raises InputError when that is not clear."""
        if wanted in self.models:
            return wanted
        if len(self.models) == 1:
            return self.models[0]
        listed = ", ".join(self.models) or "none"
        raise InputError(f"{self.url} does not serve {wanted!r} (served: {listed})", todo="name one in the suite")


def ask(url: str, *, allow_remote: bool = False) -> RunningServer:
    """Ask a server about itself. Raises LoadError when it does not answer as vLLM does."""
    resolve(Target(url, ""), allow_remote=allow_remote)
    with httpx.Client(base_url=url, timeout=ANSWER_LIMIT, trust_env=False) as client:
        version = _json(client, "/version").get("version")
        models = _json(client, "/v1/models").get("data")
        metrics = _get(client, "/metrics", required=False)
    if not isinstance(version, str):
        raise LoadError(f"{url}/version does not say a version: is this a vLLM server?")
    names = [entry.get("id") for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    found = _STARTED.search(metrics.text) if metrics is not None else None
    try:
        return RunningServer(
            url=url,
            version=Version.parse(version),
            models=tuple(name for name in names if isinstance(name, str)),
            started=datetime.fromtimestamp(float(found[1]), UTC) if found else None,
        )
    except (InputError, ValueError, OverflowError, OSError):
        raise LoadError(f"{url}/version says {version[:40]!r}, which is no vLLM version") from None


def _json(client: httpx.Client, path: str) -> dict[str, Any]:
    answer = _get(client, path, required=True)
    try:
        value = answer.json() if answer is not None else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise LoadError(f"{client.base_url}{path.lstrip('/')} does not answer with JSON: is this a vLLM server?")
    return value


def _get(client: httpx.Client, path: str, *, required: bool) -> httpx.Response | None:
    try:
        answer = client.get(path)
    except httpx.HTTPError as error:
        raise LoadError(f"{client.base_url}: the server does not answer ({error or type(error).__name__})") from None
    if answer.status_code == httpx.codes.OK:
        return answer
    if not required:
        return None
    raise LoadError(f"{client.base_url}{path.lstrip('/')} answers {answer.status_code}: is this a vLLM server?")


def is_local(url: str) -> bool:
    """Whether it is on this machine, and so measured with what else goes on here."""
    return urlsplit(url).hostname in _LOCAL


def tells_health(url: str) -> bool:
    """Whether the server has a page for it. Raises LoadError where it is not healthy now."""
    answer = get(url, "/health", _HEALTH_LIMIT)
    status = answer[0] if answer else None
    if status not in (httpx.codes.OK, httpx.codes.NOT_FOUND):
        raise LoadError(f"{url}/health answers {status or 'nothing'}: the server is not healthy; nothing was measured")
    return status == httpx.codes.OK


def find_failure(url: str) -> Failure | None:
    """What is wrong with a server that was healthy before; None while it is, or soon is again."""
    begin = time.monotonic()
    while not is_healthy(url, _HEALTH_LIMIT):
        waited = time.monotonic() - begin
        if waited >= HEALTH_WITHIN:
            text = f"the server at {url} was healthy before, and is no more for {waited:.0f} s"
            return Failure(FailureKind.UNRESPONSIVE, text, (), waited, None)
        time.sleep(_HEALTH_POLL)
    return None


def processes_of(url: str) -> list[psutil.Process]:
    """The process that listens on a port of this machine, and its descendants; empty where they are not ours to see."""
    parts = urlsplit(url)
    if not is_local(url):
        return []
    try:
        for each in psutil.net_connections(kind="tcp"):
            if listens_on(each, parts.port) and each.pid is not None:
                listener = psutil.Process(each.pid)
                return [listener, *listener.children(recursive=True)]
    except psutil.Error:
        return []
    return []
