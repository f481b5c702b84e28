"""When the client was the bottleneck the trial is void, and says why."""

import asyncio
import time

import pytest

from regress_gate.bench.load.client_guards import ClientLoad, check_client
from regress_gate.bench.load.load_client import measure_load_async
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload

IDLE = ClientLoad(lags=(0.0001,) * 200, cpu_seconds=1.0, wall_seconds=10.0)


def measure_beside_a_busy_task(server, workload, busy: float):
    async def both():
        async def hog():
            while True:
                time.sleep(busy)
                await asyncio.sleep(0)

        task = asyncio.create_task(hog())
        try:
            return await measure_load_async(server.target, workload, scenario="c")
        finally:
            task.cancel()

    return asyncio.run(both())


def test_an_event_loop_that_is_kept_busy_voids_the_trial(start):
    result = measure_beside_a_busy_task(start(), LoadWorkload(16, 8, 20, concurrency=4), 0.05)
    assert result.why_void == result.guards.client_limited
    assert "event loop lagged" in str(result.guards.client_limited)
    assert result.guards.loop_lag_p99 > 0.02
    assert result.trial.completed == 20


def test_late_sends_void_the_trial_and_count_as_latency(start):
    workload = LoadWorkload(16, 1, 20, request_rate=100.0, arrival=Arrival.CONSTANT)
    result = measure_beside_a_busy_task(start(), workload, 0.1)
    assert "after schedule" in str(result.guards.client_limited)
    assert result.guards.lateness_p99 > 0.05
    assert result.trial.metrics["ttft_p99"] > 0.05


CAPPED = {"request_rate": 200.0, "arrival": Arrival.CONSTANT, "concurrency": 2, "num_requests": 20, "output_len": 1}


def test_a_wait_for_the_cap_of_an_open_loop_is_latency_and_no_lateness(simulate):
    """The cap was asked for, and a slow server fills it: the client sent each request as soon as it was allowed to."""
    result = simulate("--ttft", "0.05").measure(**CAPPED)
    assert result.trial.samples is not None
    assert result.trial.samples.ttft.max() > 0.4
    assert result.guards.lateness_p99 == 0.0
    assert result.why_void is None


def test_a_late_send_below_the_cap_of_an_open_loop_is_lateness(simulate):
    result = simulate("--ttft", "0.001").measure(**CAPPED, late=0.02)
    assert result.guards.lateness_p99 == pytest.approx(0.02)
    assert "it sent 20.0 ms after schedule" in str(result.why_void)


def test_an_idle_client_is_not_blamed():
    guards = check_client(IDLE, (0.0005,) * 100, 0.1, 0.02)
    assert guards.client_limited is None
    assert guards.cpu_share == 0.1


@pytest.mark.parametrize(
    ("load", "late", "says"),
    [
        (ClientLoad((0.0001,) * 95 + (0.05,) * 5, 1, 10), 0.0, "event loop lagged 50.0 ms (p99, limit 5.0 ms)"),
        (ClientLoad((0.002,) * 100, 1, 10), 0.0, "event loop lagged 2.0 ms (median, limit 1.0 ms)"),
        (ClientLoad(IDLE.lags, 9.0, 10.0), 0.0, "used 90% of a core"),
        (IDLE, 0.02, "sent 20.0 ms after schedule (p99, limit 10.0 ms)"),
    ],
)
def test_each_sign_is_named_with_its_limit(load, late, says):
    assert says in str(check_client(load, (late,) * 100, 0.1, 0.02).client_limited)


def test_the_same_lag_is_harmless_where_tokens_take_long():
    load = ClientLoad((0.0001,) * 95 + (0.05,) * 5, 1, 10)
    assert check_client(load, (), 2.0, 0.5).client_limited is None


def test_nothing_measured_is_judged_by_the_floors():
    assert check_client(ClientLoad((), 0.0, 0.1), (), None, None).client_limited is None
