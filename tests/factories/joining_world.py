"""A made-up world in which losses have known causes, to hold the joining's probabilities against.

    python -m tests.factories.joining_world 4000

prints the tables of docs/joining.md.
"""

import math
import sys
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regress_gate.known.joining.attribution import attribute_losses, issue_cause, issue_prior, unrecorded_causes
from regress_gate.known.matching.signature import ObservedLoss, claim_on, family_of
from regress_gate.model.issue import IssueFinding
from regress_gate.model.suite import Workload
from tests.factories.runs import make_finding

EDGES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
METRICS = ("ttft_median", "tpot_median", "output_throughput")
SCENARIOS = {"c1": 1, "c8": 8, "c64": 64}
REGIONS = (None, None, {"concurrency": "1"}, {"concurrency": "<=8"}, {"concurrency": ">=64"})


@dataclass(frozen=True)
class World:
    """What differs from the model's assumptions: factors on the spreads of sizes and on the chance of being live."""

    sizes: float = 1.0
    live: float = 1.0
    error: float = 0.02


@dataclass(frozen=True)
class Tally:
    """Of all scores in one range: how many, their mean, and how many of them were right."""

    scores: int
    mean: float
    right: int


def scores(world: World, worlds: int, seed: int) -> list[tuple[float, bool]]:
    """Of every record that could have made a regression: its score, and whether it made one."""
    rng = np.random.default_rng(seed)
    return [pair for _ in range(worlds) for pair in _one(world, rng)]


def tally(pairs: list[tuple[float, bool]]) -> list[Tally]:
    found = []
    for low, high in pairwise(EDGES):
        inside = [(score, right) for score, right in pairs if low <= score < high or score == high == 1.0]
        count = len(inside)
        mean = sum(score for score, _ in inside) / count if count else math.nan
        found.append(Tally(count, mean, sum(right for _, right in inside)))
    return found


def _one(world: World, rng: np.random.Generator) -> list[tuple[float, bool]]:
    places = [(scenario, metric) for scenario in SCENARIOS for metric in METRICS]
    blank = [_unit(scenario, metric, 0.0, world.error) for scenario, metric in places]
    findings = [_finding(number, rng) for number in range(1, int(rng.integers(2, 9)))]
    truth = rng.normal(0.0, 0.01, len(blank))
    maker = [""] * len(blank)
    known = [issue_cause(one, [claim_on(one.issue, unit) for unit in blank]) for one in findings]
    others = unrecorded_causes(blank)
    live = [(one.issue.id, cause) for one, cause in zip(findings, known, strict=True) if _lives(one, world, rng)]
    if rng.random() < sum(cause.prior for cause in others):
        live.append(("other", others[int(rng.integers(len(others)))]))
    for name, cause in live:
        common = rng.normal(0.0, cause.shared * world.sizes)
        for at in np.flatnonzero(rng.random(len(blank)) < cause.hit):
            size = math.exp(cause.center[at] + common + rng.normal(0.0, cause.own[at] * world.sizes))
            if cause.sign[at] > 0 and size > truth[at]:
                truth[at], maker[at] = size, name
    measured = truth + rng.normal(0.0, world.error, len(blank))
    units = [_unit(*place, loss, world.error) for place, loss in zip(places, measured, strict=True)]
    if not any(unit.regressions for unit in units):
        return []
    joined = attribute_losses(findings, units, lambda *_: None)
    made = {name for name, unit in zip(maker, units, strict=True) if unit.regressions}
    return [(one.score, name in made) for name, one in joined.standings.items() if one.score is not None]


def _lives(finding: IssueFinding, world: World, rng: np.random.Generator) -> bool:
    return bool(rng.random() < issue_prior(finding) * world.live)


def _unit(scenario: str, metric: str, loss: float, error: float) -> ObservedLoss:
    name = f"{scenario}/{metric}"
    return ObservedLoss(
        scenario=scenario,
        family=family_of(metric, at_rate=False),
        metric=metric,
        workload=Workload(concurrency=SCENARIOS[scenario]),
        loss=loss,
        standard_error=error,
        bounds=(loss - 1.645 * error, loss + 1.645 * error),
        margin=math.log(1.05),
        text=name,
        regressions=(name,) if loss > max(0.025, 2.5 * error) else (),
    )


def _finding(number: int, rng: np.random.Generator) -> IssueFinding:
    signature = []
    for metric in rng.choice(["ttft", "tpot", "output_throughput"], size=int(rng.integers(1, 3)), replace=False):
        part = {"metric": str(metric), "direction": "worse"}
        if rng.random() < 0.75:
            low = math.exp(rng.normal(math.log(0.26), 1.1))
            ends = [min(low * factor, 3.0) for factor in (1.0, rng.uniform(1.0, 2.0))]
            part["change"] = [math.expm1(end) if metric != "output_throughput" else -math.expm1(-end) for end in ends]
        region = REGIONS[int(rng.integers(len(REGIONS)))]
        if region is not None:
            part["workload"] = region
        signature.append(part)
    return make_finding(
        f"VLLM-{number}",
        signature=signature,
        confidence=str(rng.choice(["high", "medium", "low"])),
        applies=str(rng.choice(["yes", "yes", "unknown"])),
        effect=str(rng.choice(["new", "new", "new", "carried"])),
    )


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for title, world in {
        "as assumed": World(),
        "sizes scatter 1.5 times as widely": World(sizes=1.5),
        "records bite half as often": World(live=0.5),
        "errors of 5 %": World(error=0.05),
    }.items():
        sys.stdout.write(f"\n{title}\n\n| scores | mean | right | number |\n| --- | --: | --: | --: |\n")
        rows = zip(pairwise(EDGES), tally(scores(world, count, seed=1)), strict=True)
        for (low, high), row in rows:
            if row.scores:
                right = row.right / row.scores
                sys.stdout.write(f"| {low:g} to {high:g} | {row.mean:.2f} | {right:.2f} | {row.scores} |\n")
