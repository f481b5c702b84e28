"""How fast `compare` decides over many series: the analysis alone, and the whole command on a SQLite store.

    python benchmarks/compare_speed.py [--scenarios N] [--runs N] [--rounds N]

25 metrics of each scenario, so 80 scenarios make 2,000 series. The analysis (`decide_compare` on runs that are
loaded) stands against Welch's test written with numpy, series by series; the command against what somebody would
write by hand: sqlite3, json and `scipy.stats.ttest_ind`. Not for the start of the program: that is startup.py.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from measure import MIB, Row, in_turns, mebibytes, milliseconds, report, run_command

if TYPE_CHECKING:
    from regress_gate.model.run import Run

SEED = 20261121
NOW = datetime(2026, 11, 21, tzinfo=UTC)
VERSIONS = ("0.19.0", "0.19.1")
MAX_ANALYSIS, MAX_PEAK, MAX_OVER_WELCH, MAX_OVER_BY_HAND = 2.0, 500 * MIB, 30.0, 3.0
DECISIONS = (0, 1, 3)
BY_HAND = """
import collections, json, sqlite3, sys
from scipy.stats import ttest_ind
sides = collections.defaultdict(lambda: collections.defaultdict(list))
for version, scenario, metrics in sqlite3.connect(sys.argv[1]).execute(
    "select number, scenario, trial.metrics from trial join run on run.id = run_id join build on build.id = build_id"
):
    for name, value in json.loads(metrics).items():
        sides[scenario, name][version].append(value)
for series in sides.values():
    ttest_ind(*series.values(), equal_var=False)
"""


def make_runs(scenarios: int, runs: int) -> "list[Run]":
    """Runs of both versions: every value within 2 % of its series' own level, the candidate 1 % worse."""
    import numpy as np

    from regress_gate.model.metric import METRICS, Direction, Scale
    from regress_gate.model.run import Run, SuiteRef, Trial, TrialSource
    from regress_gate.model.testbed import Testbed
    from regress_gate.model.version import Version

    generator = np.random.default_rng(SEED)
    metrics = [metric for metric in METRICS.values() if not metric.per_run]
    levels = generator.uniform(0.01, 10, (scenarios, len(metrics)))
    worse = np.array([1.01 if metric.direction is Direction.LOWER else 1 / 1.01 for metric in metrics])
    made = []
    for side, version in enumerate(VERSIONS):
        for number in range(1, runs + 1):
            values = levels * generator.lognormal(0, 0.02, levels.shape) * (worse if side else 1.0)
            trials = tuple(
                Trial(
                    scenario=f"scenario{scenario:04d}",
                    ordinal=1,
                    completed=200,
                    failed=0,
                    duration=60.0,
                    metrics={
                        metric.name: 0.0 if metric.scale is Scale.DIFFERENCE else float(value)
                        for metric, value in zip(metrics, values[scenario], strict=True)
                    },
                    workload={"model": "org/model", "request_rate": None, "max_concurrency": 8, "num_prompts": 200},
                    source=TrialSource(f"{side * runs + number:064x}", scenario, "made-up.json", "vllm-serve", NOW),
                )
                for scenario in range(scenarios)
            )
            testbed = Testbed("bench", accelerator="H200", accelerator_count=1)
            made.append(Run(Version.parse(version), testbed, SuiteRef("bench", "1"), f"run{number}", trials))
    return made


def make_store(store: Path, scenarios: int, runs: int) -> None:
    from regress_gate.store.repository import open_store

    with open_store(f"sqlite:///{store}", create=True) as opened:
        opened.add_runs(make_runs(scenarios, runs))


def analyse(scenarios: int, runs: int, rounds: int) -> None:
    """Print the median seconds of the analysis and of Welch's test, in turns, on one core."""
    import numpy as np
    from scipy.special import stdtr

    from regress_gate.gate.decide import GateInput, GateRules, decide_compare
    from regress_gate.gate.sides import make_side
    from regress_gate.model.policy import Policy
    from regress_gate.model.suite import ConditionLimits

    made = make_runs(scenarios, runs)
    limits = ConditionLimits()
    sides = [make_side(made[start].version, made[start : start + runs], limits) for start in (0, runs)]
    arrays: list[dict[tuple[str, str], np.ndarray]] = []
    for side in sides:
        values: dict[tuple[str, str], list[float]] = {}
        for run in side.counted:
            for trial in run.trials:
                for name, value in trial.metrics.items():
                    values.setdefault((trial.scenario, name), []).append(value)
        arrays.append({key: np.array(found) for key, found in values.items()})

    def welch() -> None:
        for key, ours in arrays[0].items():
            left, right = (ours, arrays[1][key]) if ours.min() <= 0 else (np.log(ours), np.log(arrays[1][key]))
            parts = [left.var(ddof=1) / len(left) or 1e-12, right.var(ddof=1) / len(right) or 1e-12]
            freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(left) - 1) + parts[1] ** 2 / (len(right) - 1))
            stdtr(freedom, (left.mean() - right.mean()) / sum(parts) ** 0.5)

    def decide() -> None:
        result = decide_compare(
            GateInput(baseline=sides[0], candidate=sides[1], suite=made[0].suite),
            GateRules(policy=Policy(), now=NOW),
        )
        assert len(result.series) == len(arrays[0])

    seconds: dict[str, list[float]] = {"decide": [], "welch": []}
    for _ in range(rounds):
        for name, work in (("decide", decide), ("welch", welch)):
            start = time.process_time()
            work()
            seconds[name].append(time.process_time() - start)
    print(len(arrays[0]), *(statistics.median(found) for found in seconds.values()))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=80)
    parser.add_argument("--runs", type=int, default=10, help="runs a side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--analyse", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.analyse:
        analyse(arguments.scenarios, arguments.runs, arguments.rounds)
        return 0
    size = ["--scenarios", str(arguments.scenarios), "--runs", str(arguments.runs), "--rounds", str(arguments.rounds)]
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        # Processes of their own: a child's peak memory is never less than its parent's.
        told = directory / "analysis.txt"
        analysis = run_command([sys.executable, __file__, "--analyse", *size], directory, output=told)
        series, decide, welch = (float(word) for word in told.read_text().split())
        store = directory / "store.db"
        making = multiprocessing.get_context("spawn").Process(
            target=make_store, args=(store, arguments.scenarios, arguments.runs)
        )
        making.start()
        making.join()
        if making.exitcode:
            return 1
        compare = f"-m regress_gate compare {' '.join(VERSIONS)} --store {store} --testbed bench"
        commands = {
            "compare": [sys.executable, *compare.split()],
            "json": [sys.executable, *compare.split(), "--format", "json"],
            "by hand": [sys.executable, "-c", BY_HAND, str(store)],
        }
        found = in_turns(commands, directory, arguments.rounds, expected=DECISIONS)
    by_hand = found["by hand"].seconds
    what = f"{series:.0f} series × {arguments.runs} runs a side"
    return report(
        [
            Row(f"analysis, {what}", milliseconds(decide), "2 s", decide / MAX_ANALYSIS, 1.0),
            Row("the same", milliseconds(decide), f"{milliseconds(welch)} (Welch in numpy)", decide / welch,
                MAX_OVER_WELCH),
            Row("its process, peak memory", mebibytes(analysis.peak), "500 MiB", analysis.peak / MAX_PEAK, 1.0),
            *(
                row
                for name, label in (("compare", "whole command, table"), ("json", "whole command, json"))
                for row in (
                    Row(label, milliseconds(found[name].seconds), f"{milliseconds(by_hand)} (by hand)",
                        found[name].seconds / by_hand, MAX_OVER_BY_HAND),
                    Row("its peak memory", mebibytes(found[name].peak), "500 MiB", found[name].peak / MAX_PEAK, 1.0),
                )
            ),
        ]
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
