"""What reading the server's /metrics costs the measured numbers, as ratios within one run of one server.

    PYTHONPATH=. python benchmarks/metrics_watch.py --pairs 8

The fake server's page has as many lines as a real one's and keeps its event loop busy as long as a real one's does
(`--lines`, `--busy`; vLLM answers in the loop that sends tokens). Passes with and without readings take turns, each
long enough for several readings. Printed are two estimates of each statistic's ratio, less 1:

- of all requests of the passes with readings to all of those without. It assumes nothing, and contains what the machine
  did meanwhile.
- of all requests of the passes with readings to those of them that were sent away from every reading. A reading cannot
  delay another request, and both come from the same seconds, so that this is precise. When a request was sent, and
  when a reading began, does not depend on how busy the machine was: to ask whether a reading fell into a request's time
  would, because slow requests meet more readings than quick ones.

The 90 % intervals are of passes drawn again (bootstrap): requests of one pass are not independent. Exits 1 where the
upper end of the second one is above 0.5 %.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regress_gate.bench.load.http_transport import Target
from regress_gate.bench.load.load_client import measure_load
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.server import metrics_watch
from regress_gate.bench.server.metrics_watch import MetricsSource, MetricsWatch

Floats = npt.NDArray[np.float64]
STATISTICS: dict[str, Callable[[Floats], float]] = {
    "median TTFT": lambda values: float(np.median(values)),
    "p99 TTFT": lambda values: float(np.quantile(values, 0.99)),
}
BEFORE, AFTER = 0.15, 0.05
"""Seconds before and after the beginning of a reading in which a request that is sent may meet it."""
DRAWS = 2000
MOST = 0.005
"""What readings may cost, as a share."""


@dataclass
class Pass:
    ttft: Floats
    """Seconds, of each request."""
    met: npt.NDArray[np.bool_]
    """Whether the request was sent at a time from which it may meet a reading."""
    readings: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--requests", type=int, default=1200, help="of a pass")
    parser.add_argument("--lines", type=int, default=1500, help="of the page")
    parser.add_argument("--busy", type=float, default=0.008, help="seconds of the server's event loop for a page")
    given = parser.parse_args()
    flags = [f"--metrics-lines={given.lines}", f"--metrics-busy={given.busy}", "--ttft=0.05", "--tpot=0.01"]
    command = [sys.executable, "-m", "tests.fake_vllm", "--port=0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline().partition('=')[2])}"
        try:
            watched, plain = run_passes(url, given.pairs, given.requests)
        finally:
            server.terminate()
    sys.exit(report(watched, plain) > MOST)


def run_passes(url: str, pairs: int, requests: int) -> tuple[list[Pass], list[Pass]]:
    workload = LoadWorkload(input_len=64, output_len=16, num_requests=requests, concurrency=8)
    passes: dict[bool, list[Pass]] = {True: [], False: []}
    measure(url, LoadWorkload(input_len=64, output_len=16, num_requests=64, concurrency=8), 1, watched=True)  # warms up
    for pair in range(pairs):
        for watched in (True, False) if pair % 2 else (False, True):
            passes[watched].append(measure(url, workload, 2 * pair + watched + 2, watched=watched))
    return passes[True], passes[False]


def measure(url: str, workload: LoadWorkload, ordinal: int, *, watched: bool) -> Pass:
    readings: list[float] = []
    begun: list[float] = []
    fetch = metrics_watch.fetch_metrics

    def timed(of: str) -> bytes:
        readings.append(time.monotonic())
        return fetch(of)

    metrics_watch.fetch_metrics = timed
    try:
        source = MetricsSource(url)
        with MetricsWatch(source) as watch:

            def begin() -> None:
                if watched:
                    watch.begin()
                begun.append(time.monotonic())

            result = measure_load(Target(url, "tiny"), workload, scenario="c", ordinal=ordinal, begins=begin)
    finally:
        metrics_watch.fetch_metrics = fetch
    if source.failure is not None:
        raise SystemExit(source.failure)
    samples = result.trial.samples
    assert samples is not None
    assert samples.start is not None
    sent = samples.start + begun[0]
    between = readings[1:-1]  # those before and after the requests meet none
    met = np.zeros(len(samples), dtype=bool)
    for start in between:
        met |= (sent >= start - BEFORE) & (sent <= start + AFTER)
    return Pass(samples.ttft[samples.ok], met[samples.ok], len(between))


def report(watched: list[Pass], plain: list[Pass]) -> float:
    """Print the estimates; the largest upper end of those from the same seconds."""
    requests = sum(len(one.ttft) for one in watched)
    met = sum(int(one.met.sum()) for one in watched) / requests
    readings = sum(one.readings for one in watched)
    print(
        f"{len(watched)} pairs of passes, {requests:,} requests with readings, {readings} readings may meet {met:.2%}"
    )
    if not met:
        raise SystemExit("no request may have met a reading: take more --requests")
    draws, largest = np.random.default_rng(1), 0.0
    for name, statistic in STATISTICS.items():
        turns = interval(draws, len(watched), lambda chosen: turns_ratio(watched, plain, chosen, statistic))  # noqa: B023
        unmet = interval(draws, len(watched), lambda chosen: unmet_ratio(watched, chosen, statistic))  # noqa: B023
        print(f"{name}: in turns {percent(*turns)}; to requests away from readings {percent(*unmet)}")
        largest = max(largest, unmet[2])
    return largest


def turns_ratio(
    watched: list[Pass], plain: list[Pass], chosen: npt.NDArray[np.intp], of: Callable[[Floats], float]
) -> float:
    both = [np.concatenate([side[index].ttft for index in chosen]) for side in (watched, plain)]
    return of(both[0]) / of(both[1]) - 1


def unmet_ratio(watched: list[Pass], chosen: npt.NDArray[np.intp], of: Callable[[Floats], float]) -> float:
    every = np.concatenate([watched[index].ttft for index in chosen])
    unmet = np.concatenate([watched[index].ttft[~watched[index].met] for index in chosen])
    return of(every) / of(unmet) - 1


def interval(
    draws: np.random.Generator, pairs: int, ratio: Callable[[npt.NDArray[np.intp]], float]
) -> tuple[float, float, float]:
    """The estimate and its ends."""
    drawn = [ratio(draws.integers(0, pairs, pairs)) for _ in range(DRAWS)]
    low, high = np.quantile(drawn, [0.05, 0.95])
    return ratio(np.arange(pairs)), float(low), float(high)


def percent(estimate: float, low: float, high: float) -> str:
    return f"{estimate:+.2%} ({low:+.2%} to {high:+.2%})"


if __name__ == "__main__":
    main()
