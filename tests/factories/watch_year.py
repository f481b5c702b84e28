"""A year of builds for the watch: an index of wheels and one of packages on loopback, and runs that are drawn.

Servers are not started: what `make_runs` would measure is drawn at once. Everything else that measures is the
program's own: plans, blocks, interim analyses, the store.
"""

import json
import math
import platform
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

from regress_gate import github
from regress_gate.app import experiment, experiment_plans, known_issues, watch, watch_telling
from regress_gate.app.watch_refresh import NewThreads, Refreshed
from regress_gate.bench.experiment import experiment_runner
from regress_gate.bench.experiment.experiment_plan import ServerGroup, Slot
from regress_gate.bench.experiment.run_maker import ExperimentSetup, ExperimentSide, MadeRun
from regress_gate.bench.provision.interface import Environment, Launch, ProvisionError, ServeRequest
from regress_gate.gate import planning
from regress_gate.gate.early_stopping import ExpectedStop
from regress_gate.model.metric import Direction, metric
from regress_gate.model.run import BlockPosition, Run, Trial, TrialSource
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository
from regress_gate.watch import builds

SCENARIOS = ("c1", "c4", "c8")
METRICS = ("ttft_median", "tpot_median", "output_throughput")
FAMILIES = ("ttft", "tpot", "output_throughput")
SLOW_SCENARIO = "c4"
"""The scenario that a planted step slows down."""
CV = 0.01
"""So that unlucky looks, whose number benchmarks/watch.py counts, are rare."""
SHARED, SCENARIO, OWN = 0.60, 0.15, 0.25
"""Shares of the variance, as in benchmarks/calibration.py."""
SUITE = """\
name: year
version: 1
description: Several scenarios of one server.
accelerator: cpu
conditions: {{max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}}
gate: {{metrics: [{metrics}]}}
scenarios:
"""
ENTRY = """\
  - name: {name}
    server: {{model: fake}}
    workload: {{input_len: 16, output_len: 8, concurrency: {concurrency}, num_requests: 32, warmup_requests: 0}}
"""
SUITE = SUITE.format(metrics=", ".join(METRICS)) + "".join(
    ENTRY.format(name=name, concurrency=name[1:]) for name in SCENARIOS
)
START = datetime(2027, 1, 4, 4, 17, tzinfo=UTC)


class SimulatedCrashError(BaseException):
    """The process is gone: nothing catches it."""


@dataclass
class Clock:
    """Moves with every look at it, so that no two times are the same."""

    time: datetime = START

    def now(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time

    def set(self, time: datetime) -> None:
        self.time = max(self.time, time)

    def type(self) -> type[datetime]:
        """In place of the name `datetime` of a module."""
        return type("ClockTime", (datetime,), {"now": lambda _zone=None: self.now()})


@dataclass
class Crashes:
    """Ends the process at the first step of each kind and at others that are drawn; at each at most once, so that
    the next start gets beyond it."""

    rng: np.random.Generator
    share: float
    steps: Counter[str] = field(default_factory=Counter)
    """How often each kind of step was where the process ended."""
    _seen: set[tuple[object, ...]] = field(default_factory=set)

    def at(self, step: str, *what: object) -> None:
        if (key := (step, *what)) in self._seen:
            return
        self._seen.add(key)
        if not self.steps[step] or self.rng.random() < self.share:
            self.steps[step] += 1
            raise SimulatedCrashError(step)

    def around(self, name: str, call: Callable[..., Any], what: Callable[..., object]) -> Callable[..., Any]:
        """The call, with a step before and one after it. `what` tells this call from others, given its arguments."""

        def crashing(*given: Any, **more: Any) -> Any:
            self.at(f"before {name}", what(*given, **more))
            done = call(*given, **more)
            self.at(f"after {name}", what(*given, **more))
            return done

        return crashing


def commit(week: int) -> str:
    return sha256(f"main in week {week}".encode()).hexdigest()[:40]


@dataclass
class World:
    """What is published, how fast it is, and what the web hook of a team receives."""

    slow_weeks: range
    """Weeks in which main has the planted step."""
    clock: Clock = field(default_factory=Clock)
    url: str = ""
    nightly: int | None = None
    """Week whose build the index has; None: it answers 403."""
    changed: datetime = START
    releases: dict[str, int] = field(default_factory=dict)
    """Number to the week in which it was cut from main."""
    is_noisy: bool = False
    """Whether others keep the machine busy, so that nothing can be measured."""
    hook_status: int = 200
    messages: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Key of idempotency and message."""
    statuses: Counter[int] = field(default_factory=Counter)
    """Of the index of wheels."""
    made: list[Run] = field(default_factory=list)
    """All runs that were measured, stored or not."""

    def publish_nightly(self, week: int) -> None:
        self.nightly, self.changed = week, self.clock.time

    def metadata(self) -> bytes:
        assert self.nightly is not None
        sha = commit(self.nightly)
        entry = {
            "package_name": "vllm",
            "version": f"0.40.1.dev{100 + self.nightly}+g{sha[:9]}.cpu",
            "platform_tag": f"manylinux_2_28_{platform.machine()}",
            "path": f"../../../{sha}/cpu/vllm-{self.nightly}.whl",
        }
        return json.dumps([entry]).encode()

    def loss(self, version: Version) -> float:
        """Of the scenario that a step slows down."""
        if version.commit is not None:
            weeks = [week for week in self.slow_weeks if commit(week).startswith(version.commit)]
            return 0.10 if weeks else 0.0
        return 0.10 if self.releases.get(version.number or "", -1) in self.slow_weeks else 0.0

    def make_runs(
        self,
        slots: Sequence[Slot],
        group: ServerGroup,
        workloads: Sequence[tuple[Any, Any]],
        sides: Mapping[str, ExperimentSide],
        setup: ExperimentSetup,
        *,
        experiment: str,
        attempt: int,
    ) -> list[MadeRun]:
        """Stands for the function of `run_maker`."""
        made = []
        for slot in slots:
            version = sides[slot.side].wanted
            label = f"{experiment}-{slot.block}-{slot.side}-{attempt}"
            place = BlockPosition(experiment, slot.block, slot.position, slot.side, group=group.name)
            at = self.clock.now()
            trials = tuple(
                self._trial(scenario.name, ordinal, version, label, at)
                for scenario, _ in workloads
                for ordinal in range(1, setup.trials + 1)
            )
            run = Run(version, setup.testbed, setup.suite, label, trials, started=at, place=place)
            self.made.append(run)
            made.append(MadeRun(slot, run))
        return made

    def _trial(self, scenario: str, ordinal: int, version: Version, label: str, at: datetime) -> Trial:
        start = np.random.default_rng(_seed(label))
        shared, own = start.normal(), np.random.default_rng(_seed(label, scenario))
        luck = np.sqrt(SHARED) * shared + np.sqrt(SCENARIO) * own.normal()
        losses = CV * (luck + np.sqrt(OWN) * own.normal(size=len(METRICS)))
        losses += np.log1p(self.loss(version)) if scenario == SLOW_SCENARIO else 0.0
        values = {
            name: float(np.exp(loss if metric(name).direction is Direction.LOWER else -loss))
            for name, loss in zip(METRICS, losses, strict=True)
        }
        digest = sha256(f"{label} {scenario} {ordinal}".encode()).hexdigest()
        source = TrialSource(digest, 0, f"{digest}.json", "regress-gate", at)
        return Trial(scenario, ordinal, 32, 0, 10.0, values, {"num_prompts": 32}, source, started=at)

    def provision(self, task: Any, *_: object) -> dict[str, ExperimentSide]:
        """Stands for the installation of both builds."""
        if self.is_noisy:
            raise ProvisionError("others kept 3.0 cores busy")
        return {side: ExperimentSide(side, build, _Installed(build)) for side, build in task.versions.items()}

    def published_versions(self, distribution: str, *_: object, candidates: bool = False) -> list[str]:
        """Stands for `pip index versions`, which would take half a second each time."""
        del candidates
        with urlopen(f"{self.url}/simple/{distribution}/") as answer:
            return list(json.load(answer)["versions"])


class _Installed(Environment):
    def __init__(self, version: Version) -> None:
        self.version = version
        self.libraries: Mapping[str, str] = {}

    def launch(self, request: ServeRequest, port: int) -> Launch:
        raise AssertionError(f"no server of {request} is started on {port}")


def _seed(*parts: str) -> int:
    return int.from_bytes(sha256("\0".join(parts).encode()).digest()[:8])


@contextmanager
def publishing(world: World) -> Iterator[World]:
    """Serve the world's indexes and its web hook on loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if self.path.startswith("/simple/"):
                self._give(200, json.dumps({"versions": list(world.releases)}).encode())
                return
            status, body, headers = self._wheels()
            world.statuses[status] += 1
            self._give(status, body, headers)

        def _wheels(self) -> tuple[int, bytes, dict[str, str]]:
            if self.path != "/nightly/cpu/vllm/metadata.json" or world.nightly is None:
                return 403, b"", {}
            body = world.metadata()
            etag = f'"{sha256(body).hexdigest()}"'
            headers = {"ETag": etag, "Last-Modified": format_datetime(world.changed, usegmt=True)}
            return (304, b"", headers) if self.headers.get("If-None-Match") == etag else (200, body, headers)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if world.hook_status == 200:
                world.messages.append((self.headers["Idempotency-Key"], body))
            self._give(world.hook_status, b"")

        def _give(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
            self.send_response_only(status)
            for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    world.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def live_in(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's clock, builds and measurements are those of the world."""
    for module in (watch, experiment_plans):
        monkeypatch.setattr(module, "datetime", world.clock.type())
    monkeypatch.setattr(builds, "published_versions", world.published_versions)
    monkeypatch.setattr(experiment, "_provision", world.provision)
    monkeypatch.setattr(experiment_runner, "make_runs", world.make_runs)
    # Other tests show what is read of wheels and of vLLM's tracker.
    monkeypatch.setattr(watch, "refresh_knowledge", lambda *_: Refreshed((), ()))
    monkeypatch.setattr(watch, "find_new_threads", lambda *_, **__: NewThreads())
    # What takes most of the time, and decides nothing: the records do not change, and nobody reads the forecasts.
    monkeypatch.setattr(known_issues, "load_tracked_records", cache(known_issues.load_tracked_records))
    monkeypatch.setattr(planning, "expect_stop", lambda *_, **__: ExpectedStop(None, None))
    monkeypatch.setattr(planning, "detectable_change", lambda *_, **__: math.inf)
    monkeypatch.setattr(github, "SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.setattr(github.GitHub, "pause", lambda *_: None)


def crash_everywhere(crashes: Crashes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after everything that the watch writes: to the store, to GitHub, to the web hook."""
    for name, what in (
        ("put_look", lambda _, look: (look.name, look.ended is None, str(sorted(look.data.items())))),
        ("add_runs", lambda _, runs, **how: tuple(run.label for run in runs)),  # noqa: ARG005
        ("begin_experiment", lambda _, begun, places: begun.id),  # noqa: ARG005
        ("end_experiment", lambda _, id_, ended: id_),  # noqa: ARG005 - as it is called
        ("add_comparison", lambda _, one, document: (one.created, one.candidate)),  # noqa: ARG005
    ):
        monkeypatch.setattr(Repository, name, crashes.around(name, getattr(Repository, name), what))
    monkeypatch.setattr(
        watch_telling,
        "send_notification",
        crashes.around("web hook", watch_telling.send_notification, lambda _, look, **more: look.look),  # noqa: ARG005
    )
    send = github.CacheControlAdapter.send

    def write(adapter: Any, request: Any, *given: Any, **more: Any) -> Any:
        if request.method == "GET" or request.url.endswith("/graphql"):
            return send(adapter, request, *given, **more)
        step = f"{request.method} {'comment' if request.url.endswith('/comments') else 'issue or label'}"
        return crashes.around(step, send, lambda *_, **__: (request.url, request.body))(
            adapter, request, *given, **more
        )

    monkeypatch.setattr(github.CacheControlAdapter, "send", write)
