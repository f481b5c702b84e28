"""How long stored runs take to become pandas frames, against reading them from the store.

    python benchmarks/frames.py [--runs N] [--requests N]

1,000 runs with 40 metrics, and a million requests. The promise is in seconds, so the ratio is to that; what reading the
same runs from the store takes is shown beside it.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from measure import Row, milliseconds, report

import regress_gate as rg
from regress_gate.app.frames import runs_frame, samples_frame
from regress_gate.model.metric import METRICS
from regress_gate.model.run import Run, SuiteRef, Trial, TrialSource
from regress_gate.model.samples import Samples
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.store.repository import open_store

RUNS_PROMISE = 1.0
SAMPLES_PROMISE = 3.0
"""Seconds."""
GAPS = 32
"""Between the chunks of a request."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=1_000_000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(20261122)
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{Path(directory) / 'frames.db'}"
        with open_store(url, create=True) as store:
            store.add_runs(make_run(rng, number) for number in range(arguments.runs))
        store = rg.open_store(url)
        store.runs("0.19.0").head()  # imports pandas, which is paid once
        runs, reading = timed(lambda: stored(url, samples=False))
        _, framing = timed(lambda: runs_frame(runs, set()))
        frame, whole = timed(lambda: store.runs(testbed="bench"))
        expected = arguments.runs * 40
        if len(frame) != expected:
            raise RuntimeError(f"{len(frame)} rows where {expected} were stored")
    detailed = [make_detailed_run(rng, number, 10_000) for number in range(arguments.requests // 10_000)]
    samples, requests = timed(lambda: samples_frame(detailed, set()))
    if len(samples) != arguments.requests // 10_000 * 10_000:
        raise RuntimeError(f"{len(samples)} rows of requests")
    return report(
        [
            Row("runs(): store to frame", milliseconds(whole), f"{RUNS_PROMISE:.0f} s", whole / RUNS_PROMISE, 1.0),
            Row(
                "  of it the frame", milliseconds(framing), f"{milliseconds(reading)} (reading)", framing / reading, 1.0
            ),
            Row("samples() frame", milliseconds(requests), f"{SAMPLES_PROMISE:.0f} s", requests / SAMPLES_PROMISE, 1.0),
        ]
    )


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begun


def stored(url: str, *, samples: bool) -> list[Run]:
    with open_store(url, create=False) as store:
        return store.runs(with_samples=samples)


def make_run(rng: np.random.Generator, number: int) -> Run:
    names = [name for name, metric in METRICS.items() if not metric.per_run][:40]
    return run_of(number, trial_of(number, dict(zip(names, rng.lognormal(-2, 0.1, len(names)).tolist(), strict=True))))


def make_detailed_run(rng: np.random.Generator, number: int, requests: int) -> Run:
    samples = Samples(
        ttft=rng.lognormal(-2, 0.2, requests),
        itl=rng.lognormal(-4, 0.2, requests * GAPS),
        itl_start=np.arange(requests + 1, dtype=np.int64) * GAPS,
        input_tokens=np.full(requests, 512),
        output_tokens=np.full(requests, GAPS + 1),
        ok=np.ones(requests, dtype=np.bool_),
        start=np.arange(requests) / 100,
    )
    return run_of(number, trial_of(number, {}, samples))


def trial_of(number: int, metrics: dict[str, float], samples: Samples | None = None) -> Trial:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    source = TrialSource(sha256(str(number).encode()).hexdigest(), 0, f"{number}.json", "vllm-serve", now)
    return Trial("c8", 1, 100, 0, 10.0, metrics, {"model": "m/tiny"}, source, samples=samples)


def run_of(number: int, trial: Trial) -> Run:
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    version = Version.parse(f"0.{number % 50}.0")
    return Run(version, Testbed("bench"), SuiteRef("chat", "1"), f"r{number}", (trial,), started)


if __name__ == "__main__":
    sys.exit(main())
