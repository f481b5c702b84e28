"""How often the watch would cry wolf in a year of weekly looks, and how soon it finds a step: by simulation.

    python benchmarks/watch.py [--years N] [--steps N] [--series N] [--cv CV]… [--seed S] [--workers N]

prints the table of docs/watch.md and exits 1 when a promise is broken: at most one false finding a year at any noise,
and a step of 10 % found within two looks in at least 95 % of cases at a CV of 2 %. A minute of one core for each three
years or forty steps of 40 series.

The program's own gate decides after each block and its own stopping rule ends the look, as in `watch`; its own rule
then says which regressions are followed and which of them are findings. What is drawn: scenarios of five metrics, one
of them a p99; the value of a run is log-normal with the given CV, of whose variance 60 % is luck of the server start
that all scenarios share, 15 % that of the scenario and 25 % of the metric, and a p99 has 4 % of its own on top, as in
`calibration.py`. The pinned release and the build are drawn anew in each block of each look. A step slows all metrics
of one scenario from the first look on; runs of earlier looks, which the gate learns the usual spread from, are there.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np

from regress_gate.app.settings import DEFAULT_BLOCKS
from regress_gate.gate.decide import GateInput, GateRules, decide_compare
from regress_gate.gate.early_stopping import decide_stop
from regress_gate.gate.sides import make_side
from regress_gate.model.metric import Direction, metric
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, Result
from regress_gate.model.run import BlockPosition, Run, SuiteRef, Trial, TrialSource
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.stats.design import FIRST_ANALYSIS
from regress_gate.store.store_interface import choose_recent_runs
from regress_gate.watch.following import Followed, LookPlace, follow

WEEKS = 52
METRICS = ("ttft_median", "ttft_p99", "tpot_median", "e2el_median", "output_throughput")
SHARED, SCENARIO, OWN = 0.60, 0.15, 0.25
TAIL = 0.04
STEP = 0.10
STEPPED = "s0"
"""The scenario that a step slows down."""
CVS = (0.01, 0.02, 0.03, 0.12)
PROMISED_CV = 0.02
LOOKS_KEPT = 30
"""Looks whose runs are held for the gate to learn from, which takes fewer."""
PINNED = Version.parse("0.31.0")
SUITE = SuiteRef("simulated", "1")
TESTBED = Testbed("simulated", accelerator="simulated", cpu_count=64)
START = datetime(2026, 1, 5, 4, 17, tzinfo=UTC)


@dataclass
class Watch:
    """One testbed, looked at each week."""

    rng: np.random.Generator
    cv: float
    scenarios: int
    week: int = 0
    followed: list[Followed] = field(default_factory=list)
    _kept: list[list[Run]] = field(default_factory=list)
    """Runs of the newest looks."""

    def look(self, lost: float) -> Result:
        """Measure and decide as `watch` does, and follow what is worse."""
        candidate = Version.parse(f"0.31.1.dev{self.week + 1}+g{self.week + 1:09x}")
        earlier = choose_recent_runs([run for runs in self._kept for run in runs], paired=True)
        made = self._measure(candidate, lost, earlier)
        self.followed = follow(self.followed, made.result, LookPlace(
            TESTBED.name, str(SUITE), candidate, PINNED, (START + timedelta(weeks=self.week)).date(), SUITE.name,
        ))  # fmt: skip
        self._keep(made.runs)
        return made.result

    def warm_up(self, looks: int) -> None:
        """Looks of which only the runs are kept."""
        for _ in range(looks):
            versions = {"baseline": PINNED, "candidate": Version.parse(f"0.31.1.dev{self.week + 1}")}
            blocks = range(1, DEFAULT_BLOCKS + 1)
            self._keep([run for block in blocks for run in self._block(versions, block, 0.0)])

    def _keep(self, runs: list[Run]) -> None:
        self._kept = [*self._kept, runs][-LOOKS_KEPT:]
        self.week += 1

    def _measure(self, candidate: Version, lost: float, earlier: Sequence[Run]) -> "_Measured":
        versions = {"baseline": PINNED, "candidate": candidate}
        runs: list[Run] = []
        for block in range(1, DEFAULT_BLOCKS + 1):
            runs += self._block(versions, block, lost)
            if block < FIRST_ANALYSIS:
                continue
            sides = [
                make_side(version, [run for run in runs if run.version == version], ConditionLimits())
                for version in versions.values()
            ]
            given = GateInput(baseline=sides[0], candidate=sides[1], suite=SUITE, earlier=earlier)
            result = decide_compare(given, GateRules(policy=Policy(), now=START))
            if block == DEFAULT_BLOCKS or decide_stop(result, made=block, most=DEFAULT_BLOCKS).stops:
                return _Measured(runs, result)
        raise AssertionError("a plan of one block decides nothing")

    def _block(self, versions: dict[str, Version], block: int, lost: float) -> Iterator[Run]:
        for position, (side, version) in enumerate(versions.items(), 1):
            place = BlockPosition(f"week-{self.week}", block, position, side, most_blocks=DEFAULT_BLOCKS)
            yield self._run(version, place, lost if side == "candidate" else 0.0)

    def _run(self, version: Version, place: BlockPosition, lost: float) -> Run:
        luck = self.cv * (
            np.sqrt(SHARED) * self.rng.normal()
            + np.sqrt(SCENARIO) * self.rng.normal(size=(self.scenarios, 1))
            + np.sqrt(OWN) * self.rng.normal(size=(self.scenarios, len(METRICS)))
        )
        luck += np.array([TAIL * name.endswith("p99") for name in METRICS]) * self.rng.normal(size=luck.shape)
        started = START + timedelta(weeks=self.week, minutes=10 * place.block + 5 * place.position)
        trials = []
        for at in range(self.scenarios):
            loss = luck[at] + (np.log1p(lost) if f"s{at}" == STEPPED else 0.0)
            values = {
                name: float(np.exp(each if metric(name).direction is Direction.LOWER else -each))
                for name, each in zip(METRICS, loss, strict=True)
            }
            source = TrialSource(self.rng.bytes(32).hex(), 0, "simulated", "own", started)
            trials.append(Trial(f"s{at}", 1, 200, 0, 60.0, values, {"num_prompts": 200}, source, started=started))
        label = f"{place.experiment}-{place.block}-{place.side}"
        return Run(version, TESTBED, SUITE, label, tuple(trials), started=started, place=place)


@dataclass(frozen=True)
class _Measured:
    runs: list[Run]
    result: Result


@dataclass(frozen=True)
class Year:
    failing_looks: int
    findings: int
    """That others were told of, though nothing changed."""


def simulate_year(cv: float, scenarios: int, seed: int) -> Year:
    watch = Watch(np.random.default_rng([seed, round(1e4 * cv)]), cv, scenarios)
    failing, told = 0, set[tuple[str, str]]()
    for _ in range(WEEKS):
        failing += watch.look(0.0).decision is Decision.FAIL
        told |= {(one.finding.key, str(one.finding.first_bad)) for one in watch.followed if one.is_confirmed}
    return Year(failing, len(told))


def simulate_step(cv: float, scenarios: int, seed: int) -> int:
    """The look by which the step is a finding: 1 or 2; 0: neither."""
    watch = Watch(np.random.default_rng([seed, round(1e4 * cv), 1]), cv, scenarios)
    watch.warm_up(LOOKS_KEPT)
    for number in (1, 2):
        watch.look(STEP)
        if any(one.is_confirmed and one.scenario == STEPPED for one in watch.followed):
            return number
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--years", type=int, default=5, help="for each CV")
    parser.add_argument("--steps", type=int, default=100, help="for each CV")
    parser.add_argument("--series", type=int, default=40, help=f"a multiple of {len(METRICS)}")
    parser.add_argument("--cv", type=float, action="append", help="as a fraction; default: 0.01, 0.02, 0.03 and 0.12")
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    if given.series < len(METRICS) or given.series % len(METRICS):
        parser.error(f"--series must be a multiple of {len(METRICS)}")
    scenarios, broken = given.series // len(METRICS), []
    print(f"{given.series} series, {given.years} years of {WEEKS} looks and {given.steps} steps for each CV:\n")
    print("| CV between runs | failing looks a year | false findings a year | step of 10 %: found at the first look "
          "| by the second |")  # fmt: skip
    print("| --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(given.workers) as pool:
        for cv in given.cv or CVS:
            seeds = range(given.seed, given.seed + given.years)
            years = list(pool.map(partial(simulate_year, cv, scenarios), seeds))
            failing, false = (sum(counts) / len(years) for counts in zip(
                *((year.failing_looks, year.findings) for year in years), strict=True))  # fmt: skip
            if false > 1:
                broken.append(f"{false:.2f} false findings a year at a CV of {cv:.0%}, promised: at most 1")
            seeds = range(given.seed, given.seed + given.steps)
            found = list(pool.map(partial(simulate_step, cv, scenarios), seeds, chunksize=5))
            first, second = found.count(1) / len(found), (found.count(1) + found.count(2)) / len(found)
            if cv == PROMISED_CV and second < 0.95:
                broken.append(f"a step of 10 % at a CV of 2 % is found by the second look in {second:.0%}")
            print(f"| {cv:.0%} | {failing:.1f} | {false:.2f} | {first:.0%} | {second:.0%} |", flush=True)
    for text in broken:
        print(f"BROKEN: {text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
