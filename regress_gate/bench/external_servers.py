"""Servers that run already: their facts and health, and their measurement as one run each.

Not for starting or stopping servers (`experiment`), and not for judging measurements.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil

from regress_gate.bench.experiment.trials import MeasuredServer, Meter, TrialProgress, measure_trials
from regress_gate.bench.fixed_prompts import collect_outputs
from regress_gate.bench.load.http_transport import Target, resolve_target
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.bench.machine.conditions import ConditionsWatch, FindServerProcesses
from regress_gate.bench.server.metrics_watch import MetricsSource
from regress_gate.bench.server.processes import listens_on
from regress_gate.bench.server.server_facts import http_get, is_healthy
from regress_gate.bench.server.server_failures import ServerFailure, ServerFailureKind
from regress_gate.errors import InputError
from regress_gate.model.run import Run, RunFailure, SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version

PAGE_TIMEOUT = 30.0
"""Seconds to wait for a page of the server, which may be under load."""
RECOVERY_WITHIN = 60.0
"""Seconds until a server that was healthy must be healthy again. A single failed answer proves nothing."""
_HEALTH_TIMEOUT = 5.0
_HEALTH_POLL = 0.5
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
_PROCESS_START_TIME = re.compile(r"^process_start_time_seconds\s+([0-9.eE+]+)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExternalServer:
    url: str
    version: Version
    """As reported by /version."""
    models: tuple[str, ...]
    """Names under which models are served."""
    started: datetime | None
    """Start time of the process, from /metrics; None if unknown. It identifies the server start."""

    def serve(self, wanted: str) -> str:
        """The served name of a scenario's model. Raises InputError if it is ambiguous."""
        if wanted in self.models:
            return wanted
        if len(self.models) == 1:
            return self.models[0]
        listed = ", ".join(self.models) or "none"
        raise InputError(f"{self.url} does not serve {wanted!r} (served: {listed})", todo="name one in the suite")


def inspect_server(url: str, *, allow_remote: bool = False) -> ExternalServer:
    """Read the facts of a server. Raises LoadError if it does not answer like vLLM."""
    resolve_target(Target(url, ""), allow_remote=allow_remote)
    with httpx.Client(base_url=url, timeout=PAGE_TIMEOUT, trust_env=False) as client:
        version = _get_json(client, "/version").get("version")
        models = _get_json(client, "/v1/models").get("data")
        metrics = _get_page(client, "/metrics", required=False)
    if not isinstance(version, str):
        raise LoadError(f"{url}/version does not say a version: is this a vLLM server?")
    names = [entry.get("id") for entry in models if isinstance(entry, dict)] if isinstance(models, list) else []
    match = _PROCESS_START_TIME.search(metrics.text) if metrics is not None else None
    try:
        return ExternalServer(
            url=url,
            version=Version.parse(version),
            models=tuple(name for name in names if isinstance(name, str)),
            started=datetime.fromtimestamp(float(match[1]), UTC) if match else None,
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
    """Whether the server is on this machine, whose load then counts."""
    return urlsplit(url).hostname in _LOCAL_HOSTS


def has_health_page(url: str) -> bool:
    """Whether the server has /health. Raises LoadError if it is not healthy now."""
    answer = http_get(url, "/health", _HEALTH_TIMEOUT)
    status = answer[0] if answer else None
    if status not in (httpx.codes.OK, httpx.codes.NOT_FOUND):
        raise LoadError(f"{url}/health answers {status or 'nothing'}: the server is not healthy; nothing was measured")
    return status == httpx.codes.OK


def find_health_failure(url: str) -> ServerFailure | None:
    """The failure of a server that was healthy before; None if it is healthy, or is again within RECOVERY_WITHIN."""
    begin = time.monotonic()
    while not is_healthy(url, _HEALTH_TIMEOUT):
        waited = time.monotonic() - begin
        if waited >= RECOVERY_WITHIN:
            text = f"the server at {url} was healthy, but is not any more for {waited:.0f} s"
            return ServerFailure(ServerFailureKind.UNRESPONSIVE, text, (), waited, None)
        time.sleep(_HEALTH_POLL)
    return None


def find_listener_processes(url: str) -> list[psutil.Process]:
    """The process that listens on the URL's port and its descendants; empty if they cannot be seen."""
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


@dataclass(frozen=True, slots=True)
class ExternalRun:
    run: Run | None
    """None if no trial is valid. The run of a failed server has no trials, but its failure."""
    void: tuple[str, ...]
    """Invalid trials, in which the client was the bottleneck, each with the reason."""
    notes: tuple[str, ...]


def measure_external_servers(
    servers: Sequence[ExternalServer],
    suite: Suite,
    testbed: Testbed,
    labels: Sequence[str],
    *,
    trials: int,
    done: Sequence[Mapping[str, int]],
    asked: Sequence[bool],
    meter: Meter,
    processes: FindServerProcesses,
    progress: TrialProgress | None = None,
) -> list[ExternalRun]:
    """Send every scenario `trials` times to each server, the servers taking turns; one run a server, in their order.

    `labels`, `done` and `asked` are for each server the label of its run, the earlier trials of this run by scenario,
    and whether it has answered the fixed prompts before. `processes` returns the visible processes of the servers.
    Answers with errors are data. A server that hangs or is no longer healthy has failed. Raises LoadError if one is not
    healthy at the beginning, or answers nothing.
    """
    several = len(servers) > 1
    subjects = [_measured_server(server, taken, several=several) for server, taken in zip(servers, done, strict=True)]
    with ConditionsWatch(processes, gpus=() if suite.accelerator == "cpu" else None) as watch:
        measure_trials(subjects, load_workloads(suite), meter, watch, trials=trials, progress=progress)
    made = []
    for server, label, subject, was_asked in zip(servers, labels, subjects, asked, strict=True):
        run, notes = _run_of(server, suite, testbed, label, subject), tuple(subject.notes)
        if run is not None and run.failure is None and not was_asked:
            # After the trials, as in planned runs: log-probabilities of prompts need memory that a deployment does not.
            collected = collect_outputs(server.url, server.serve(suite.scenarios[0].server.model))
            run, notes = replace(run, outputs=collected.outputs), (*notes, *collected.notes)
        made.append(ExternalRun(run, tuple(subject.void), notes))
    return made


def _measured_server(server: ExternalServer, done: Mapping[str, int], *, several: bool) -> MeasuredServer:
    has_page = has_health_page(server.url)
    return MeasuredServer(
        name=f"{server.version} at {server.url}" if several else str(server.version),
        url=server.url,
        serve=server.serve,
        failure=lambda: find_health_failure(server.url) if has_page else None,
        metrics=MetricsSource(server.url),
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
