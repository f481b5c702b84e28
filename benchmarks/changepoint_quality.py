"""How good the change points are: false alarms, found steps and delays on simulated histories, as a table.

    python benchmarks/changepoint_quality.py [--seed N] [--repeats N]

prints the table of docs/history.md: about a minute of one core. The noise is on the logarithms, with a standard
deviation of 2 % of the level: independent; Student's t with three degrees of freedom; independent with spikes of 10 to
40 % at 2 % of the points; autoregressive with coefficient 0.5; independent on a level that drifts as 0.5 to 1.5 waves
of 1.5 %. Changes of the spread are not counted. A step counts as found, and a delay as over, when a change of the level
is told within 5 points of it. Not for speed: that is changepoint_speed.py.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import detect

CV = 0.02
LENGTHS = (60, 200, 400)
SIZES = (1.0, 1.5, 2.0, 3.0, 5.0)
"""Of a step, in standard deviations of the noise."""
STEP_LENGTH, LEAST_SIDE = 120, 15
NEW_LENGTHS, PATIENCE = (40, 100), 40
GROWN_FROM, GROWN_TO = 20, 150
NEAR = 5

Noise = Callable[[np.random.Generator, int], Floats]


def independent(rng: np.random.Generator, length: int) -> Floats:
    return rng.normal(0.0, CV, length)


def heavy_tailed(rng: np.random.Generator, length: int) -> Floats:
    return np.asarray(CV / math.sqrt(3.0) * rng.standard_t(3, length))


def spiky(rng: np.random.Generator, length: int) -> Floats:
    spikes = rng.uniform(0.1, 0.4, length) * np.where(rng.random(length) < 0.8, 1.0, -1.0)
    return independent(rng, length) + np.where(rng.random(length) < 0.02, spikes, 0.0)


def remembering(rng: np.random.Generator, length: int) -> Floats:
    made = independent(rng, length)
    for i in range(1, length):
        made[i] = 0.5 * made[i - 1] + math.sqrt(0.75) * made[i]
    return made


def drifting(rng: np.random.Generator, length: int) -> Floats:
    waves = np.arange(length) / length * rng.uniform(0.5, 1.5) + rng.random()
    return independent(rng, length) + 0.75 * CV * np.sin(2.0 * math.pi * waves)


NOISES: dict[str, Noise] = {
    "independent": independent,
    "heavy-tailed": heavy_tailed,
    "spiky": spiky,
    "remembering": remembering,
    "drifting": drifting,
}


def levels(logs: Floats) -> list[int]:
    return [point.index for point in detect(100.0 * np.exp(logs)) if point.kind != "variance"]


def false_alarms(noise: Noise, rng: np.random.Generator, repeats: int) -> float:
    """Alarms per 1,000 points on whole histories that never change."""
    lengths = LENGTHS * repeats
    return 1000 * sum(len(levels(noise(rng, length))) for length in lengths) / sum(lengths)


def false_alarms_growing(
    noise: Noise, rng: np.random.Generator, repeats: int, tell: Callable[[Floats], list[int]] = levels
) -> float:
    """New alarms per 1,000 points, on histories that never change and are looked at anew at each point."""
    alarms = 0
    for _ in range(repeats):
        logs, told = noise(rng, GROWN_TO), list[int]()
        for length in range(GROWN_FROM, GROWN_TO + 1):
            for index in tell(logs[:length]):
                if all(abs(index - other) > NEAR for other in told):
                    told.append(index)
        alarms += len(told)
    return 1000 * alarms / repeats / (GROWN_TO - GROWN_FROM)


def found(noise: Noise, size: float, rng: np.random.Generator, repeats: int) -> float:
    """Share of steps that are told, one in each history."""
    hits = 0
    for _ in range(repeats):
        logs, at = noise(rng, STEP_LENGTH), int(rng.integers(LEAST_SIDE, STEP_LENGTH - LEAST_SIDE))
        logs[at:] += size * CV * rng.choice([-1.0, 1.0])
        hits += any(abs(index - at) <= NEAR for index in levels(logs))
    return hits / repeats


def delays(
    noise: Noise, size: float, rng: np.random.Generator, repeats: int, tell: Callable[[Floats], list[int]] = levels
) -> list[float]:
    """Points of the new level when it is first told; infinite where it is not within 40."""
    waits = []
    for _ in range(repeats):
        at = int(rng.integers(*NEW_LENGTHS))
        logs = noise(rng, at + PATIENCE)
        logs[at:] += size * CV * rng.choice([-1.0, 1.0])
        told = (k for k in range(1, PATIENCE + 1) if any(abs(index - at) <= NEAR for index in tell(logs[: at + k])))
        waits.append(next(told, math.inf))
    return waits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--repeats", type=int, default=24)
    asked = parser.parse_args()
    sizes = " / ".join(f"{size:g}" for size in SIZES)
    print(f"| noise | false alarms per 1,000 points | … of a growing history | steps found of {sizes} sd, % | delay |")
    print("| --- | --- | --- | --- | --- |")
    for number, (name, noise) in enumerate(NOISES.items()):
        rng = np.random.default_rng([asked.seed, number])
        alarms = false_alarms(noise, rng, 3 * asked.repeats)
        growing = false_alarms_growing(noise, rng, max(1, asked.repeats // 2))
        shares = " / ".join(f"{100 * found(noise, size, rng, 3 * asked.repeats):.0f}" for size in SIZES)
        waits = " / ".join(f"{np.median(delays(noise, size, rng, asked.repeats)):g}" for size in SIZES)
        print(f"| {name} | {alarms:.2f} | {growing:.2f} | {shares} | {waits} |", flush=True)


if __name__ == "__main__":
    main()
