"""The search for the rate that a server carries: on fake servers whose capacity is known, in virtual time."""

import asyncio
import itertools
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.experiment import capacity_search
from regress_gate.bench.experiment.capacity_search import (
    LEVELS,
    MOST_PROBES,
    ProbeResult,
    at_levels,
    levels_around,
    levels_down_to,
    search_rate,
)
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, RequestSlo
from regress_gate.measurement.request_statistics import trial_attainment
from regress_gate.model.suite import Scenario
from tests.fake_vllm.simulation import SimulatedServer, VirtualTimeLoop

OUTPUT = 5


class Searched:
    """A search on a fake server with these flags, whose probes are kept."""

    def __init__(self, *flags, slo, promise=0.95, requests=60):
        self.probes = []
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            server = SimulatedServer(runner, *flags)

            def probe(concurrency, rate):
                self.probes.append((concurrency, rate))
                trial = server.measure(
                    output_len=OUTPUT,
                    num_requests=requests,
                    concurrency=concurrency,
                    request_rate=rate,
                    arrival=Arrival.CONSTANT,
                    slo=slo,
                    ordinal=len(self.probes),
                ).trial
                return ProbeResult(trial_attainment(trial), trial.metrics["request_throughput"])

            self.rate = search_rate(probe, promise)


@pytest.mark.parametrize(
    "seats", [2, 12, pytest.param(40, marks=pytest.mark.slow), pytest.param(150, marks=pytest.mark.slow)]
)
def test_a_server_with_so_many_seats_carries_as_many_requests_as_they_serve(seats):
    # A request holds its seat for 1 s; beyond the capacity the queue grows, and with it the time to the first token.
    found = Searched(
        "--ttft=0.2", "--tpot=0.2", f"--max-num-seqs={seats}", slo=RequestSlo(ttft=0.25), requests=max(80, 5 * seats)
    )
    assert found.rate == pytest.approx(seats, rel=0.05)
    assert len(found.probes) <= MOST_PROBES


def test_a_server_that_slows_down_with_its_batch_carries_what_keeps_the_time_per_token():
    # 0.02 s · (1 + 0.05 · (r - 1)) is 0.03 s for 11 running requests, which each take 5 tokens · 0.03 s.
    found = Searched("--ttft=0.02", "--tpot=0.02", "--batch-slowdown=0.05", slo=RequestSlo(tpot=0.0301))
    assert found.rate == pytest.approx(11 / (5 * 0.03), rel=0.05)
    assert len(found.probes) <= MOST_PROBES


class Curve:
    """A server whose attainment falls from 1 to 0 within 2 % of its capacity."""

    def __init__(self, capacity, *, most=4096):
        self.capacity, self.most, self.probes = capacity, most, 0

    def __call__(self, concurrency, rate):
        """A request takes a second, and `most` of them are served at once."""
        self.probes += 1
        if rate is None:
            served = min(concurrency, self.most, self.capacity * 1.1)
            return ProbeResult(1.0 if served <= self.capacity else 0.0, served)
        return ProbeResult(min(1.0, max(0.0, 0.95 + (self.capacity - rate) / (0.02 * self.capacity))), rate)


@given(st.floats(0.6, 900))
def test_a_sharp_knee_is_found_to_five_percent_in_at_most_eight_probes(capacity):
    server = Curve(capacity)
    assert search_rate(server, 0.95) == pytest.approx(capacity, rel=0.05)
    assert server.probes <= MOST_PROBES


def test_a_promise_that_every_load_keeps_is_no_knee():
    with pytest.raises(ValueError, match="1024 requests at once"):
        search_rate(lambda concurrency, rate: ProbeResult(1.0, 10.0), 0.95)  # noqa: ARG005


def test_a_promise_that_no_load_keeps_is_no_knee():
    with pytest.raises(ValueError, match="no rate"):
        search_rate(lambda concurrency, rate: ProbeResult(0.5, 10.0), 0.95)  # noqa: ARG005


def scenario(name, **workload):
    return Scenario(
        name=name, server={"model": "m"}, workload={"input_len": 8, "output_len": 4, "num_requests": 9, **workload}
    )


def test_a_scenario_with_a_capacity_is_sent_at_each_of_its_rates():
    load = LoadWorkload(8, 4, 9)
    plain, searched = scenario("plain", concurrency=2), scenario("searched", slo={"ttft": 1.0}, capacity=0.9)
    sent = at_levels([(plain, load), (searched, load)], {"searched": levels_around(10.0)})
    assert [(each.name, workload.request_rate) for each, workload in sent] == [
        ("plain", None),
        *(("searched", pytest.approx(10 * part)) for part in LEVELS),
    ]


def test_levels_reach_down_to_a_candidate_that_carries_less():
    levels = levels_around(10.0)
    reaching = levels_down_to(2.0, levels)
    assert reaching[3:] == levels
    assert reaching[0] < 2.0
    ratios = [high / low for low, high in itertools.pairwise(reaching[:4])]
    assert ratios == pytest.approx([ratios[0]] * 3, rel=1e-3)
    further = levels_down_to(0.5, reaching)
    assert further[3:] == levels
    assert further[0] < 0.5
    # It broke its promise at the lowest all the same: they do not end there.
    assert levels_down_to(9.0, levels)[0] == pytest.approx(levels[0] * LEVELS[0], rel=1e-3)


def dies(concurrency: int | None, rate: float | None) -> ProbeResult:  # noqa: ARG001
    raise LoadError("no server answers")


def never_keeps_it(concurrency: int | None, rate: float | None) -> ProbeResult:  # noqa: ARG001
    return ProbeResult(0.0, 1.0)


def answers(capacity: float):
    def probe(concurrency: int | None, rate: float | None) -> ProbeResult:
        load = rate or concurrency
        return ProbeResult(1.0 if load <= capacity else 0.1, min(load, capacity))

    return probe


@pytest.mark.parametrize(
    ("candidate", "lower"),
    [(answers(40.0), 0), (answers(5.0), 3), (dies, 0), (never_keeps_it, 0)],
    ids=["as good", "worse", "dies", "keeps it at no rate"],
)
def test_only_a_candidate_that_carries_less_brings_lower_levels(monkeypatch, candidate, lower):
    probes = {"baseline": answers(40.0), "candidate": candidate}

    @contextmanager
    def server_of(group, side, setup, **_):  # noqa: ARG001
        yield SimpleNamespace(url=side.wanted)

    monkeypatch.setattr(capacity_search, "_server_of", server_of)
    monkeypatch.setattr(capacity_search, "_prober", lambda url, *_: probes[url])
    load = LoadWorkload(16, 8, 100)
    searched = scenario("searched", slo={"ttft": 1.0}, capacity=0.9)
    sides = [SimpleNamespace(wanted=name) for name in probes]
    setup = SimpleNamespace(say=lambda _: None)
    levels = capacity_search.search_levels(None, [(searched, load)], sides[0], setup)
    found = (levels | capacity_search.lower_levels(None, [(searched, load)], sides[1], setup, levels))["searched"]
    assert len(found) == len(LEVELS) + lower
    assert found[lower] == pytest.approx(40 * LEVELS[0], rel=0.06)
    if lower:
        assert found[0] < 5.0
