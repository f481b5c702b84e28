"""What `compare`, `baseline list` and `history --detect` take in a store of a million trials.

    python benchmarks/growth.py [--trials N] [--scenarios N] [--hosts N] [--rounds N] [--url URL] [--keep FILE]

The store is made here, from a fixed seed, by the program's own writer: a night is an experiment of five blocks of two
versions, every version is the candidate of one night and the baseline of the next, and a run has a trial of each
scenario with 24 metrics. `compare` of the last two versions stands against the same command in a store that holds only
these two: what else is stored must cost nearly nothing. `history --detect` stands against its bounds in seconds and
bytes, and against what somebody would write by hand to read the numbers alone: sqlite3 and json. Times are those of the
processor, with one thread for linear algebra: wall time says more about who else uses the machine. With `--url`, an
empty PostgreSQL database takes the large store. `--keep` leaves the store, and uses one that is already there. With
`--hosts`, every one of so many testbeds has the experiment of each night.

The default takes about ten minutes and 3 GB of disk; `--trials 400000` is the store of the promise for `history`.
"""

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from measure import MIB, Measured, Row, in_turns, mebibytes, report, run_command

if TYPE_CHECKING:
    from regress_gate.model.run import Run

SEED = 20261122
BLOCKS = 5
BEGIN = datetime(2020, 1, 1, 2, tzinfo=UTC)
MAX_OVER_EMPTY, MAX_COMPARE_PEAK = 1.5, 200 * MIB
MAX_HISTORY, MAX_HISTORY_PEAK = 40.0, 600 * MIB
DECISIONS = (0, 1, 3)
BY_HAND = """
import json, sqlite3, sys
values = {}
for scenario, metrics in sqlite3.connect(sys.argv[1]).execute("select scenario, metrics from trial"):
    for name, value in json.loads(metrics).items():
        values.setdefault((scenario, name), []).append(value)
"""


def testbed_name(host: int) -> str:
    return f"bench-{host:03d}"


def version_name(night: int) -> str:
    """Of the candidate of that night."""
    return f"0.20.1rc1.dev{night}"


def make_runs(first: int, last: int, scenarios: int, hosts: int) -> "Iterator[Run]":
    """The experiments of some nights on every host: a run's values scatter by 2 % around the level of their series,
    which has a step of 4 % every 400 nights."""
    import numpy as np

    from regress_gate.model.metric import METRICS, Direction, Scale
    from regress_gate.model.run import BlockPosition, Conditions, Run, SuiteRef, Trial, TrialSource
    from regress_gate.model.testbed import Testbed
    from regress_gate.model.version import Version

    own = ("ttft", "tpot", "itl", "e2el", "request_throughput", "output_throughput", "total_throughput", "failed")
    metrics = [metric for metric in METRICS.values() if metric.name.startswith(own) and not metric.per_run]
    metrics = [metric for metric in metrics if not metric.name.startswith("tpot_per_token")]
    levels = np.random.default_rng(SEED).uniform(0.01, 10, (scenarios, len(metrics)))
    signs = np.array([1.0 if metric.direction is Direction.LOWER else -1.0 for metric in metrics])
    suite = SuiteRef("growth", "1")
    for night, host in itertools.product(range(first, last), range(hosts)):
        generator = np.random.default_rng([SEED, night, host])
        testbed = Testbed(testbed_name(host), accelerator="H100", cpu_count=64)
        for block in range(1, BLOCKS + 1):
            for position, side in enumerate(("baseline", "candidate"), 1):
                number = night if side == "candidate" else night - 1
                level = levels * np.exp(signs * 0.04 * (number // 400 % 2))
                values = level * generator.lognormal(0, 0.02, levels.shape)
                experiment = f"night{night}-{host}"
                label = f"night{night}/{block}-{side}"
                started = BEGIN + timedelta(days=night, minutes=10 * (2 * block + position))
                hashed = f"{night:032x}{100 * host + 2 * block + position:032x}"
                trials = tuple(
                    Trial(
                        scenario=f"scenario{scenario:02d}",
                        ordinal=1,
                        completed=200,
                        failed=0,
                        duration=60.0,
                        metrics={
                            metric.name: 0.0 if metric.scale is Scale.DIFFERENCE else float(value)
                            for metric, value in zip(metrics, values[scenario], strict=True)
                        },
                        workload={"model": "org/model", "request_rate": None, "max_concurrency": 8, "num_prompts": 200},
                        source=TrialSource(hashed, scenario, label, "own", started),
                        started=started,
                    )
                    for scenario in range(scenarios)
                )
                yield Run(
                    version=Version.parse(version_name(number)),
                    testbed=testbed,
                    suite=suite,
                    label=label,
                    trials=trials,
                    started=started,
                    conditions=Conditions(outside_cpu_cores=0.1),
                    libraries={"torch": "2.9.0", "transformers": "4.57.1"},
                    metrics={"startup_time": 60.0, "peak_memory": 7.0e10},
                    place=BlockPosition(experiment, block, position, side, suite_digest="0" * 64, seconds=300.0),
                )


def make_store(url: str, first: int, last: int, scenarios: int, hosts: int) -> None:
    from regress_gate.store.repository import open_store

    step = max(1, 50 // hosts)
    with open_store(url, create=True) as store:
        for night in range(first, last, step):
            store.add_runs(make_runs(night, min(night + step, last), scenarios, hosts))


def in_a_process(*arguments: object) -> None:
    """A child's peak memory is never less than its parent's, so nothing large is made in this process."""
    making = multiprocessing.get_context("spawn").Process(target=make_store, args=arguments)
    making.start()
    making.join()
    if making.exitcode:
        raise RuntimeError("the store could not be made")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--scenarios", type=int, default=40)
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--url", help="an empty PostgreSQL database for the large store")
    parser.add_argument("--keep", type=Path, help="the file of the large store")
    arguments = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    nights = max(2, arguments.trials // (2 * BLOCKS * arguments.scenarios * arguments.hosts))
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        file = arguments.keep or directory / "large.db"
        large, small = arguments.url or f"sqlite:///{file}", f"sqlite:///{directory / 'small.db'}"
        if not (arguments.keep and file.exists()):
            in_a_process(large, 1, nights + 1, arguments.scenarios, arguments.hosts)
        in_a_process(small, nights, nights + 1, arguments.scenarios, 1)

        def command(store: str, *words: str) -> list[str]:
            return [sys.executable, "-m", "regress_gate", *words, "--store", store]

        pair = ("compare", version_name(nights - 1), version_name(nights), "--testbed", testbed_name(0))
        found = in_turns(
            {
                "small": command(small, *pair),
                "large": command(large, *pair),
                "list small": command(small, "baseline", "list"),
                "list large": command(large, "baseline", "list"),
            },
            directory,
            arguments.rounds,
            expected=DECISIONS,
        )
        history = run_command(command(large, "history", "--detect", "--testbed", testbed_name(0)), directory)
        by_hand: Measured | None = None
        if not arguments.url:
            by_hand = run_command([sys.executable, "-c", BY_HAND, str(file)], directory)
        size = "" if arguments.url else f", {mebibytes(file.stat().st_size)}"
    what = f"{nights * 2 * BLOCKS * arguments.scenarios * arguments.hosts:,} trials of {nights} nights{size}"
    listed = found["list large"], found["list small"]
    rows = [
        Row(f"compare, {what}", _seconds(found["large"]), f"{_seconds(found['small'])} (only these two)",
            found["large"].processor / found["small"].processor, MAX_OVER_EMPTY),
        Row("its peak memory", mebibytes(found["large"].peak), "200 MiB", found["large"].peak / MAX_COMPARE_PEAK, 1.0),
        Row("baseline list", _seconds(listed[0]), f"{_seconds(listed[1])} (only these two)",
            listed[0].processor / listed[1].processor),
        Row("history --detect", _seconds(history), "40 s for 400,000 trials",
            history.processor / MAX_HISTORY, max(1.0, arguments.trials / 400_000)),
        Row("its peak memory", mebibytes(history.peak), "600 MiB", history.peak / MAX_HISTORY_PEAK, 1.0),
    ]  # fmt: skip
    if by_hand is not None:
        text = f"{_seconds(by_hand)}, {mebibytes(by_hand.peak)} (reading by hand)"
        rows.append(Row("the same", _seconds(history), text, history.processor / by_hand.processor))
    return report(rows)


def _seconds(measured: Measured) -> str:
    return f"{measured.processor:.2f} s"


if __name__ == "__main__":
    sys.exit(main())
