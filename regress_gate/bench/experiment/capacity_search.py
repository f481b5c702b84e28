"""The rates at which a capacity is measured: a bracket search on one server, and levels around what it found.

A server in a closed loop cannot be flooded, so the search begins there: with ever more requests in flight until too few
of them keep the objectives. The throughput on both sides of that is where to look for the rate, which is then bracketed
and narrowed. A rate that is tried first and is too high would measure a backlog, and as many requests again to find
the next. Not for the capacity itself, which `stats.capacity` takes from the levels on every server.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from regress_gate.bench.experiment.experiment_plan import LEVELS, MOST_PROBES, ServerGroup
from regress_gate.bench.experiment.run_maker import (
    START_ATTEMPTS,
    ExperimentSetup,
    ExperimentSide,
    check_served_version,
    start_with_retries,
)
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.provision.interface import ServeRequest
from regress_gate.bench.server.server import Server
from regress_gate.bench.server.server_failures import ServerError
from regress_gate.bench.tiny_model import model_path
from regress_gate.errors import InputError
from regress_gate.measurement.request_statistics import trial_attainment
from regress_gate.model.metric import PROMISE_KEY
from regress_gate.model.run import Run
from regress_gate.model.suite import Scenario

FIRST_CONCURRENCY, LAST_CONCURRENCY = 16, 1024
"""Requests in flight of the first probe, and the most that are tried. Each further probe has four times as many, or a
quarter."""
_LOWER_LEVELS = 3
"""That are measured besides, for a candidate that carries far less."""
PRECISION = 1.08
"""Ratio of two neighbouring rates, of which one keeps the promise and the other does not, at which the search ends."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    attainment: float
    """Share of all requests that kept the objectives."""
    throughput: float
    """Requests per second that were answered."""


Probe = Callable[[int | None, float | None], ProbeResult]
"""Sends the workload at a concurrency, or at a rate."""


@dataclass(slots=True)
class _Bracket:
    """What is known of rates."""

    promise: float
    low: float
    """Where the rate is looked for: nothing was sent at these ends."""
    high: float
    sent: dict[float, float] = field(default_factory=dict)
    """Rate → attainment."""

    @property
    def kept(self) -> float | None:
        """The highest rate below all those that broke the promise."""
        broken = self.broken
        return max((rate for rate, share in self.sent.items() if share >= self.promise and rate < broken), default=None)

    @property
    def broken(self) -> float:
        return min((rate for rate, share in self.sent.items() if share < self.promise), default=math.inf)

    @property
    def is_narrow(self) -> bool:
        return self.kept is not None and self.broken <= self.kept * PRECISION

    def next_rate(self) -> float:
        kept, broken = self.kept, self.broken
        if kept is None and math.isinf(broken):
            return math.sqrt(self.low * self.high)
        if kept is None:
            return broken / _outward(broken / self.low)
        if math.isinf(broken):
            return kept * _outward(self.high / kept)
        return math.sqrt(kept * broken)


def _outward(room: float) -> float:
    """How far to step towards an end where nothing was sent, as a ratio: half of the room that is left, or beyond."""
    if room > PRECISION:
        return math.sqrt(room)
    return PRECISION if room > 1 / PRECISION else 1.25


def search_rate(probe: Probe, promise: float) -> float:
    """The rate, in requests per second, at which a share of `promise` of the requests keeps the objectives: to 5 % on a
    server that answers each probe alike, else as near as its noise allows, or the middle of what MOST_PROBES leave.

    Raises ValueError for a server that keeps the promise at no load, or at every one.
    """
    concurrency, below, above, probes = FIRST_CONCURRENCY, 0.0, 0.0, 0
    while not (below and above):
        result = probe(concurrency, None)
        probes += 1
        if result.attainment >= promise:
            below = result.throughput
            concurrency *= 4
        else:
            above = result.throughput
            concurrency //= 4
        if concurrency > LAST_CONCURRENCY and not above:
            raise ValueError(f"its objectives are kept even by {LAST_CONCURRENCY} requests at once: promise more")
        if concurrency < 1 and not below:
            below = above / 2
    bracket = _Bracket(promise, min(below, above), max(below, above))
    while probes < MOST_PROBES and not bracket.is_narrow:
        rate = float(f"{bracket.next_rate():.4g}")
        bracket.sent[rate] = probe(None, rate).attainment
        probes += 1
    kept = bracket.kept
    if kept is None:
        raise ValueError("its objectives are kept at no rate that was tried: promise less")
    return math.sqrt(kept * (max(kept, bracket.high) if math.isinf(bracket.broken) else bracket.broken))


def levels_around(rate: float) -> tuple[float, ...]:
    return tuple(float(f"{rate * part:.4g}") for part in LEVELS)


def levels_down_to(rate: float, levels: Sequence[float]) -> tuple[float, ...]:
    """The levels around the baseline's capacity with three lower ones in equal ratios, the lowest below this rate, and
    at least as far below all of these levels as those around a capacity reach below it.

    Lower ones that an earlier candidate needed give way, else every one would add to what all later runs take.
    """
    lowest, own = min(rate * LEVELS[1], levels[0] * LEVELS[0]), levels[-len(LEVELS) :]
    ratio = (own[0] / lowest) ** (1 / _LOWER_LEVELS)
    return (*(float(f"{lowest * ratio**step:.4g}") for step in range(_LOWER_LEVELS)), *own)


def known_levels(runs: Sequence[Run]) -> dict[str, tuple[float, ...]]:
    """By scenario, the rates that the newest of these runs was measured at. Runs are in the order of their making."""
    found: dict[str, tuple[float, ...]] = {}
    for run in runs:
        rates: dict[str, set[float]] = {}
        for trial in run.trials:
            if PROMISE_KEY in trial.workload:
                rates.setdefault(trial.scenario, set()).add(float(trial.workload["request_rate"]))
        found |= {scenario: tuple(sorted(each)) for scenario, each in rates.items()}
    return found


def at_levels(
    workloads: Sequence[tuple[Scenario, LoadWorkload]], levels: Mapping[str, Sequence[float]]
) -> list[tuple[Scenario, LoadWorkload]]:
    """The workloads to send: one for each rate of a scenario whose capacity is asked for."""
    sent = []
    for scenario, workload in workloads:
        if scenario.workload.capacity is None:
            sent.append((scenario, workload))
        else:
            sent += [(scenario, replace(workload, request_rate=rate)) for rate in levels[scenario.name]]
    return sent


def search_levels(
    group: ServerGroup,
    workloads: Sequence[tuple[Scenario, LoadWorkload]],
    side: ExperimentSide,
    setup: ExperimentSetup,
) -> dict[str, tuple[float, ...]]:
    """Start a server of the group and search the rates of these scenarios on it, one after the other.

    Raises ServerError if the server does not start, and InputError for objectives that no load, or every load, keeps.
    """
    found: dict[str, tuple[float, ...]] = {}
    with _server_of(group, side, setup) as server:
        for scenario, workload in workloads:
            setup.say(f"searching the capacity of {scenario.name} on {side.wanted}")
            try:
                rate = search_rate(_prober(server.url, scenario, workload, setup), _promise(scenario))
            except ValueError as error:
                raise InputError(f"scenario {scenario.name}: {error}", todo="change its slo or capacity") from None
            found[scenario.name] = levels_around(rate)
    return found


def lower_levels(
    group: ServerGroup,
    workloads: Sequence[tuple[Scenario, LoadWorkload]],
    candidate: ExperimentSide,
    setup: ExperimentSetup,
    levels: Mapping[str, tuple[float, ...]],
) -> dict[str, tuple[float, ...]]:
    """Send a server of the candidate the lowest of the levels of each of these scenarios. Where it breaks the promise
    there, it is searched as well, and the levels that are returned reach down to its capacity.

    What does not start, dies under the load or keeps the promise at no rate is the concern of the blocks.
    """
    found: dict[str, tuple[float, ...]] = {}
    with suppress(ServerError, LoadError), _server_of(group, candidate, setup, starts=1) as server:
        for scenario, workload in workloads:
            setup.say(f"trying {candidate.wanted} at the lowest rate of {scenario.name}")
            probe, own = _prober(server.url, scenario, workload, setup), levels[scenario.name]
            if probe(None, own[0]).attainment < _promise(scenario):
                setup.say(f"{candidate.wanted} does not keep the promise of {scenario.name} there: searching lower")
                with suppress(ValueError):
                    found[scenario.name] = levels_down_to(search_rate(probe, _promise(scenario)), own)
    return found


def _promise(scenario: Scenario) -> float:
    return scenario.workload.capacity or 1.0


@contextmanager
def _server_of(
    group: ServerGroup, side: ExperimentSide, setup: ExperimentSetup, *, starts: int = START_ATTEMPTS
) -> Iterator[Server]:
    config = group.server
    request = ServeRequest(model_path(config.model), config.model, config.engine_args, config.env)
    server, failures = start_with_retries(
        side.environment,
        request,
        setup.logs / f"capacity-{group.name}-{side.wanted}.log",
        ready_within=setup.ready_within,
        starts=starts,
        say=setup.say,
        on_spawn=lambda _: None,
    )
    if server is None:
        raise ServerError(failures[-1])
    with server:
        check_served_version(server, side.environment, side.wanted)
        side.environment.note_served(request)
        yield server


def _prober(url: str, scenario: Scenario, workload: LoadWorkload, setup: ExperimentSetup) -> Probe:
    sent = 0

    def probe(concurrency: int | None, rate: float | None) -> ProbeResult:
        nonlocal sent
        sent += 1
        load = replace(workload, concurrency=concurrency, request_rate=rate)
        result = setup.meter(
            url,
            scenario.server.model,
            load,
            scenario=f"{scenario.name}/search",
            ordinal=sent,
            progress=lambda done, every: None,  # noqa: ARG005 - as a meter calls it
            begins=lambda: None,
        )
        attainment = trial_attainment(result.trial)
        if attainment is None:
            what = f"scenario {scenario.name}: the load client does not say how many requests kept the objectives"
            raise InputError(what, todo="leave --driver out")
        return ProbeResult(attainment, result.trial.metrics.get("request_throughput", 0.0))

    return probe
