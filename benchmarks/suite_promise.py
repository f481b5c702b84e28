"""Whether the GPU suites decide: simulated `compare --measure` of each, by the program's own gate and stopping rule.

    python benchmarks/suite_promise.py [--draws N] [--cv CV] [--suite NAME]…

A start's speed is log-normal with the given CV, of whose variance 60 % is luck of the start that all scenarios
share, 15 % that of a scenario and 25 % of a metric; 99th percentiles of TPOT scatter half as much again, start-up
times by 5 %, memory by 0.5 %. No request fails; of those with objectives, 99.8 % keep them; a capacity has the mean
luck of its scenario. After each block the gate decides as `compare --measure` would, up to the suite's number of
blocks. Once nothing changed; once all speeds of one scenario lost twice their margin. Bounds: of the unchanged
versions at least 80 % pass, and no more fail than a chance of 5 % explains; of the lost ones at least 95 % fail.
Half a minute a suite.
"""

import argparse
import math
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import capacity
import numpy as np

from regress_gate.bench.experiment.experiment_plan import LEVELS
from regress_gate.gate.decide import GateInput, GateRules, decide_compare
from regress_gate.gate.early_stopping import decide_stop
from regress_gate.gate.sides import make_side
from regress_gate.model.metric import CAPACITY, PROMISE_KEY, Direction, metric
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision
from regress_gate.model.run import BlockPosition, Run, SuiteRef, Trial, TrialSource
from regress_gate.model.suite import Scenario, Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.stats.design import FIRST_ANALYSIS
from regress_gate.suites import shipped_suites

SHARED, SCENARIO, OWN = 0.60, 0.15, 0.25
TAIL = 1.5
NOW = datetime(2026, 11, 22, tzinfo=UTC)
VERSIONS = {"baseline": Version.parse("0.31.0"), "candidate": Version.parse("0.32.0")}
TESTBED = Testbed("simulated", accelerator="simulated", cpu_count=64)
ONCE = {"startup_time": (60.0, 0.05), "peak_memory": (2e10, 0.005), "kv_cache_tokens": (4e5, 0.001)}
SEED = 20261122
ATTAINMENT = 0.998


@dataclass(frozen=True)
class Outcome:
    decision: Decision
    blocks: int


def speeds(policy: Policy) -> list[str]:
    """The gated metrics of a trial that the client measures, without failures."""
    others = {*ONCE, "failed_requests", "slo_attainment", CAPACITY}
    return [name for name in policy.metrics if "*" not in name and name not in others]


def gpu_suites() -> dict[str, Suite]:
    return {name: suite for name, suite in shipped_suites().items() if suite.cost is not None and suite.cost.gpus}


def simulate(suite: Suite, rng: np.random.Generator, cv: float, lost: float) -> Outcome:
    """One experiment. `lost`: so many margins, in all speeds of the first scenario."""
    policy = Policy().over(suite.gate)
    # Answers to the fixed prompts are not drawn: they are the same on both sides.
    policy = policy.model_copy(update={"metrics": tuple(name for name in policy.metrics if "*" not in name)})
    most = suite.blocks or 6
    runs: dict[str, list[Run]] = {"baseline": [], "candidate": []}
    for block in range(1, most + 1):
        for position, side in enumerate(runs, 1):
            place = BlockPosition("simulated", block, position, side, most_blocks=most)
            runs[side].append(draw_run(suite, policy, rng, cv, lost if side == "candidate" else 0.0, side, place))
        if block < FIRST_ANALYSIS:
            continue
        sides = [make_side(VERSIONS[side], made, suite.conditions) for side, made in runs.items()]
        given = GateInput(
            baseline=sides[0], candidate=sides[1], suite=SuiteRef(suite.name, suite.version), definition=suite
        )
        result = decide_compare(given, GateRules(policy=policy, now=NOW))
        if decide_stop(result, made=block, most=most).stops or block == most:
            return Outcome(result.decision, block)
    raise AssertionError("a plan of one block decides nothing")


def draw_run(
    suite: Suite, policy: Policy, rng: np.random.Generator, cv: float, lost: float, side: str, place: BlockPosition
) -> Run:
    names = speeds(policy)
    luck = (
        np.sqrt(SHARED) * rng.normal()
        + np.sqrt(SCENARIO) * rng.normal(size=(len(suite.scenarios), 1))
        + np.sqrt(OWN) * rng.normal(size=(len(suite.scenarios), len(names)))
    )
    trials = []
    for at, scenario in enumerate(suite.scenarios):
        if scenario.workload.capacity is not None:
            share = math.log(1 - policy.margin(CAPACITY)) * lost if at == 0 else 0.0
            trials += draw_rates(scenario, rng, math.exp(share + cv * luck[at].mean()), place)
            continue
        values = {"failed_requests": 0.0}
        for name, deviation in zip(names, luck[at], strict=True):
            known, margin = metric(name), policy.margin(name)
            loss = cv * deviation * (TAIL if name.endswith("p99") else 1.0)
            if at == 0:
                loss += lost * (np.log1p(margin) if known.direction is Direction.LOWER else -np.log1p(-margin))
            values[name] = float(np.exp(loss if known.direction is Direction.LOWER else -loss))
        requests = scenario.workload.num_requests or 0
        if scenario.workload.slo is not None:
            values["slo_attainment"] = rng.binomial(requests, ATTAINMENT) / requests
        source = TrialSource(f"{place.block:032x}{place.position * 100 + at:032x}", 0, "simulated", "own", NOW)
        trials.append(
            Trial(scenario.name, 1, requests, 0, 60.0, values, {"num_prompts": requests}, source, started=NOW)
        )
    once = {
        name: usual * float(np.exp(spread * rng.normal()))
        for name, (usual, spread) in ONCE.items()
        if policy.gates(name)
    }
    return Run(
        version=VERSIONS[side],
        testbed=TESTBED,
        suite=SuiteRef(suite.name, suite.version),
        label=f"{place.block}-{side}",
        trials=tuple(trials),
        started=NOW,
        metrics=once,
        place=place,
    )


def draw_rates(scenario: Scenario, rng: np.random.Generator, own: float, place: BlockPosition) -> list[Trial]:
    """The trials around a capacity, as in benchmarks/capacity.py. `own`: that of this start; the search found 1."""
    requests, promise = scenario.workload.num_requests or 0, scenario.workload.capacity or 0.5
    case = capacity.Case(loss=0.0, requests=requests)
    trials = []
    for ordinal, rate in enumerate(LEVELS, 1):
        share = capacity.attainment(case, rate, own, rng)
        values = {"failed_requests": 0.0, "request_throughput": rate, "goodput": rate * share}
        source = TrialSource(f"{place.block:032x}{place.position * 1000 + ordinal:032x}", 0, "simulated", "own", NOW)
        sent = {"num_prompts": requests, "request_rate": rate, PROMISE_KEY: promise}
        trials.append(Trial(scenario.name, ordinal, requests, 0, 60.0, values, sent, source, started=NOW))
    return trials


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--cv", type=float, default=0.02)
    parser.add_argument("--suite", action="append", choices=sorted(gpu_suites()))
    arguments = parser.parse_args()
    holds = True
    by_chance = 0.05 + 2 * (0.05 * 0.95 / arguments.draws) ** 0.5
    print("| suite | nothing changed: pass · undecided · fail | blocks | twice the margin lost: fail | blocks |")
    print("| --- | --- | --- | --- | --- |")
    suites = gpu_suites()
    for name in arguments.suite or sorted(suites):
        cells = []
        for lost in (0.0, 2.0):
            rng = np.random.default_rng([SEED, int(1000 * arguments.cv), int(lost)])
            found = [simulate(suites[name], rng, arguments.cv, lost) for _ in range(arguments.draws)]
            shares = [sum(each.decision is word for each in found) / len(found) for word in
                      (Decision.PASS, Decision.INCONCLUSIVE, Decision.FAIL)]  # fmt: skip
            blocks = sum(each.blocks for each in found) / len(found)
            cells.append(" · ".join(f"{100 * share:.0f}" for share in (shares if not lost else shares[2:])))
            cells.append(f"{blocks:.1f}")
            holds &= shares[2] >= 0.95 if lost else shares[0] >= 0.8 and shares[2] <= by_chance
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
