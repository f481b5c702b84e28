"""Blocks of one experiment on several hosts of one class, as far from each other as hosts are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np

from regress_gate.gate.sides import ComparisonSide
from regress_gate.model.policy import Policy
from regress_gate.model.result import Result
from regress_gate.model.run import BlockPosition, Run
from tests.factories.runs import NOW, TESTBED, make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides

OLD, NEW = "0.19.0", "0.19.1"
CHANGE, LEVEL = "its change", "lies apart"
"""In the notes on a host: what it differs in."""


def host_runs(
    rng: np.random.Generator,
    blocks: Sequence[int],
    *,
    loss: float = 0.0,
    odd: float = 0.0,
    odd_level: float = 0.0,
    host_cv: float = 0.07,
    noise: float = 0.025,
    most: int | None = None,
    scenarios: int = 4,
    facts: Sequence[dict[str, object]] = (),
) -> list[Run]:
    """Runs of both versions on as many hosts as there are numbers in `blocks`, each with so many blocks.

    A block's two servers differ by `loss`, on host 0 by `odd` more, and by noise: half of its variance is a server's,
    and half each series' own. Host 0 is slower by `odd_level`.
    """
    levels = rng.normal(0, host_cv, len(blocks))
    levels[0] += odd_level
    runs, number = list[Run](), 0
    for host, count in enumerate(blocks):
        testbed = replace(TESTBED, name=f"h{host}", **(dict(facts[host]) if facts else {}))
        for _ in range(count):
            number += 1
            for position, (side, version) in enumerate((("baseline", OLD), ("candidate", NEW)), 1):
                change = 0.0 if side == "baseline" else loss + (odd if host == 0 else 0.0)
                level = levels[host] + change + rng.normal(0, noise / np.sqrt(2))
                series = level + rng.normal(0, noise / np.sqrt(2), (scenarios, 2))
                trials = [
                    make_trial(f"c{at}", ttft_median=0.1 * np.exp(slow), output_throughput=1000 * np.exp(-slower))
                    for at, (slow, slower) in enumerate(series)
                ]
                place = BlockPosition("e", number, position, side, most_blocks=most)
                runs.append(make_run(f"{number}-{side}", version, *trials, testbed=testbed, place=place))
    return runs


def fleet_sides(
    rng: np.random.Generator, blocks: Sequence[int], **given: float | int | None
) -> tuple[ComparisonSide, ComparisonSide]:
    """The same as the two sides of a comparison."""
    runs = host_runs(rng, blocks, **given)
    old, new = ([run for run in runs if str(run.version) == version] for version in (OLD, NEW))
    return make_side_of(OLD, *old), make_side_of(NEW, *new)


def draw(number: int, blocks: Sequence[int], **given: Any) -> list[Result]:
    rng = np.random.default_rng(22)
    return [decide_sides(*fleet_sides(rng, blocks, **given), policy=Policy()) for _ in range(number)]


def decided(results: Sequence[Result]) -> Counter[str]:
    return Counter(str(result.decision) for result in results)


def stopped(number: int, order: Sequence[int], hosts: int, most: int, **given: Any) -> Counter[str]:
    """Decisions of experiments that look after every block, in the order in which blocks of hosts become whole."""
    rng, found = np.random.default_rng(22), Counter[str]()
    for _ in range(number):
        whole = fleet_sides(rng, [most // hosts] * hosts, most=most, **given)
        decision = "inconclusive"
        for look in range(2, most + 1):
            sides = [
                type(side)(side.version, runs, runs, ())
                for side in whole
                for runs in [tuple(run for run in side.runs if run.place and run.place.block in order[:look])]
            ]
            decision = str(decide_sides(*sides, policy=Policy()).decision)
            if decision != "inconclusive":
                break
        found[decision] += 1
    return found


def named(results: Sequence[Result], words: str) -> tuple[int, int]:
    """In how many comparisons host 0 is named with these words, and in how many another one."""
    notes = [[any(words in note for note in host.notes) for host in result.hosts] for result in results]
    return sum(hosts[:1] == [True] for hosts in notes), sum(any(hosts[1:]) for hosts in notes)


def nights(seed: int, count: int, *, size: float = 0.0, since: int = 0, hosts: int = 3) -> dict[str, list[Run]]:
    """Runs by host of an experiment each night, with two blocks on each; hosts also differ by 1 % from night to night,
    and host 0 is slower by `size` from one night on."""
    rng = np.random.default_rng(seed)
    runs: dict[str, list[Run]] = {f"h{host}": [] for host in range(hosts)}
    levels = rng.normal(0, 0.05, hosts)
    for night in range(count):
        slower = levels + rng.normal(0, 0.01, hosts)
        slower[0] += size if night >= since else 0.0
        for run in host_runs(rng, (2,) * hosts, host_cv=0.0, scenarios=2):
            factor = np.exp(slower[int(run.testbed.name[1:])])
            trials = [
                make_trial(
                    trial.scenario,
                    ttft_median=trial.metrics["ttft_median"] * factor,
                    output_throughput=trial.metrics["output_throughput"] / factor,
                )
                for trial in run.trials
            ]
            place = run.place and replace(run.place, experiment=f"night{night:02d}")
            changes = {"place": place, "started": NOW + timedelta(days=night), "trials": tuple(trials)}
            runs[run.testbed.name].append(replace(run, label=f"{night}-{run.label}", **changes))
    return runs
