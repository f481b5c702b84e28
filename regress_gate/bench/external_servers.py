"""A server that somebody else started: what it says of itself, and whether it still serves.

Not for starting or stopping servers.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from regress_gate.bench.experiment.trials import MeasuredServer, Meter, TrialProgress, measure_trials
from regress_gate.bench.load.http_transport import Target, resolve_target
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.bench.machine.conditions import ConditionsWatch, FindServerProcesses
from regress_gate.bench.server.processes import listens_on
from regress_gate.bench.server.server_facts import http_get, is_healthy
from regress_gate.bench.server.server_failures import ServerFailure, ServerFailureKind
from regress_gate.errors import InputError
from regress_gate.model.run import Run, RunFailure, SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

PAGE_TIMEOUT = 30.0
"""Seconds to wait for an answer about the server; a server under load may take its time."""
RECOVERY_WITHIN = 60.0
"""Seconds in which a server that was healthy must be it again; one answer that fails proves nothing."""
_HEALTH_TIMEOUT = 5.0
_HEALTH_POLL = 0.5
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
_PROCESS_START_TIME = re.compile(r"^process_start_time_seconds\s+([0-9.eE+]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExternalServer:
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


def inspect_server(url: str, *, allow_remote: bool = False) -> ExternalServer:
    """Ask a server about itself. Raises LoadError when it does not answer as vLLM does."""
    resolve_target(Target(url, ""), allow_remote=allow_remote)
    with httpx.Client(base_url=url, timeout=PAGE_TIMEOUT, trust_env=False) as client:
        version = _get_json(client, "/version").get("version")
        models = _get_json(client, "/v1/models").get("data")
        metrics = _get_page(client, "/metrics", required=False)
    if not isinstance(version, str):
        raise LoadError(f"{url}/version does not say a version: is this a vLLM server?")
    names = [entry.get("id") for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    found = _PROCESS_START_TIME.search(metrics.text) if metrics is not None else None
    try:
        return ExternalServer(
            url=url,
            version=Version.parse(version),
            models=tuple(name for name in names if isinstance(name, str)),
            started=datetime.fromtimestamp(float(found[1]), UTC) if found else None,
        )
    except (InputError, ValueError, OverflowError, OSError):
        raise LoadError(f"{url}/version says {version[:40]!r}, which is no vLLM version") from None


def _get_json(client: httpx.Client, path: str) -> dict[str, Any]:
    answer = _get_page(client, path, required=True)
    try:
        value = answer.json() if answer is not None else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise LoadError(f"{client.base_url}{path.lstrip('/')} does not answer with JSON: is this a vLLM server?")
    return value


def _get_page(client: httpx.Client, path: str, *, required: bool) -> httpx.Response | None:
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
    return urlsplit(url).hostname in _LOCAL_HOSTS


def has_health_page(url: str) -> bool:
    """Whether the server has a page for it. Raises LoadError where it is not healthy now."""
    answer = http_get(url, "/health", _HEALTH_TIMEOUT)
    status = answer[0] if answer else None
    if status not in (httpx.codes.OK, httpx.codes.NOT_FOUND):
        raise LoadError(f"{url}/health answers {status or 'nothing'}: the server is not healthy; nothing was measured")
    return status == httpx.codes.OK


def find_health_failure(url: str) -> ServerFailure | None:
    """What is wrong with a server that was healthy before; None while it is, or soon is again."""
    begin = time.monotonic()
    while not is_healthy(url, _HEALTH_TIMEOUT):
        waited = time.monotonic() - begin
        if waited >= RECOVERY_WITHIN:
            text = f"the server at {url} was healthy before, and is no more for {waited:.0f} s"
            return ServerFailure(ServerFailureKind.UNRESPONSIVE, text, (), waited, None)
        time.sleep(_HEALTH_POLL)
    return None


def find_listener_processes(url: str) -> list[psutil.Process]:
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


# MERGED regress_gate.bench.suite_run: Measures servers that somebody else started: every scenario of a suite, some
# trials each, one run a server.  Not for starting servers (`experiment`), and not for judging what was measured.


@dataclass(frozen=True, slots=True)
class ExternalRun:
    run: Run | None
    """None when no trial could be used. One whose server failed has no trials, and says how it failed."""
    void: tuple[str, ...]
    """Trials in which the client was the bottleneck, each with the reason: measured, and no data."""
    notes: tuple[str, ...]


def measure_external_servers(
    servers: Sequence[ExternalServer],
    suite: Suite,
    testbed: Testbed,
    labels: Sequence[str],
    *,
    trials: int,
    done: Sequence[Mapping[str, int]],
    meter: Meter,
    processes: FindServerProcesses,
    progress: TrialProgress | None = None,
) -> list[ExternalRun]:
    """Send every scenario `trials` times to each server, the servers taking turns; one run a server, in their order.

    `labels` and `done` belong to the servers: the label of its run, and the trials that this run has already, by
    scenario. `processes` gives the servers' processes as far as they can be seen. A server that answers with errors is
    measured as that, and one that hangs or is no longer healthy has failed. Raises LoadError when one is not
    healthy from the beginning, or is healthy and answers nothing at all.
    """
    several = len(servers) > 1
    subjects = [_measured_server(server, taken, several=several) for server, taken in zip(servers, done, strict=True)]
    with ConditionsWatch(processes, gpus=() if suite.accelerator == "cpu" else None) as watch:
        measure_trials(subjects, load_workloads(suite), meter, watch, trials=trials, progress=progress)
    return [
        ExternalRun(_run_of(server, suite, testbed, label, subject), tuple(subject.void), tuple(subject.notes))
        for server, label, subject in zip(servers, labels, subjects, strict=True)
    ]


def _measured_server(server: ExternalServer, done: Mapping[str, int], *, several: bool) -> MeasuredServer:
    tells = has_health_page(server.url)
    return MeasuredServer(
        name=f"{server.version} at {server.url}" if several else str(server.version),
        url=server.url,
        serve=server.serve,
        failure=lambda: find_health_failure(server.url) if tells else None,
        done=done,
    )


def _run_of(server: ExternalServer, suite: Suite, testbed: Testbed, label: str, subject: MeasuredServer) -> Run | None:
    failed = subject.failed
    if failed is None and not subject.trials:
        return None
    return Run(
        version=server.version,
        testbed=testbed,
        suite=SuiteRef(suite.name, suite.version),
        label=label,
        trials=() if failed else tuple(subject.trials),
        started=server.started,
        failure=RunFailure(failed.kind, failed.text, failed.lines) if failed else None,
    )
