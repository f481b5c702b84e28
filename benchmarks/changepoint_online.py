"""False alarms of a growing history against the delay of a new level, over one knob, as a table.

    python benchmarks/changepoint_online.py [--seed N] [--repeats N]

prints the table of docs/history.md: about five minutes of one core. The knob is the least probability that is told. The
histories, their noise and what counts are those of changepoint_quality.py: false alarms over all five kinds of noise,
delays over the first three.

Beside it stands an oracle: a two-sided CUSUM (E. S. Page 1954, doi 10.1093/biomet/41.1-2.100) that is given the level
before, the standard deviation of the noise, the size of the step and its sign's two choices, but not the kind of noise.
Points are bounded, because of spikes; the bound and the threshold are those with the least mean delay at no more than
one false alarm in 1,000 points of the same five kinds. It starts anew after an alarm. It does not have to say where the
step is, nor that no single point made it.
"""

import argparse
from functools import partial

import numpy as np
from changepoint_quality import CV, GROWN_FROM, GROWN_TO, NEW_LENGTHS, NOISES, PATIENCE, delays, false_alarms_growing

from regress_gate.model.samples import Floats
from regress_gate.stats.changepoints import detect
from regress_gate.stats.changepoints.elimination import DEFAULT_PROBABILITY

SIZES = (2.0, 3.0, 5.0)
STEADY = ("independent", "heavy-tailed", "spiky")
PROBABILITIES = (0.5, 0.6, DEFAULT_PROBABILITY, 0.75, 0.8, 0.85, 0.9)
BOUNDS, THRESHOLDS = np.arange(1.0, 8.0, 0.5), np.arange(1.0, 60.0, 0.25)
ORACLE_SERIES = 200
MOST = 1.0


def levels(probability: float, logs: Floats) -> list[int]:
    points = detect(100.0 * np.exp(logs), probability=probability)
    return [point.index for point in points if point.kind != "variance"]


def first_alarm(logs: Floats, start: int, size: float, bound: float, threshold: float) -> int | None:
    """Index of the first point from `start` on at which a CUSUM that begins there raises an alarm."""
    score, up, down = np.clip(logs / CV, -bound, bound), 0.0, 0.0
    for i in range(start, len(score)):
        up, down = max(0.0, up + score[i] - size / 2.0), max(0.0, down - score[i] - size / 2.0)
        if max(up, down) > threshold:
            return i
    return None


def oracle_alarms(histories: list[Floats], size: float, bound: float, threshold: float) -> float:
    alarms = 0
    for logs in histories:
        at = first_alarm(logs, 0, size, bound, threshold)
        while at is not None:
            alarms += 1
            at = first_alarm(logs, at + 1, size, bound, threshold)
    return 1000 * alarms / sum(map(len, histories))


def least_threshold(histories: list[Floats], size: float, bound: float) -> float:
    """By bisection: fewer alarms at higher thresholds."""
    low, high = 0, len(THRESHOLDS) - 1
    while low < high:
        middle = (low + high) // 2
        if oracle_alarms(histories, size, bound, float(THRESHOLDS[middle])) <= MOST:
            high = middle
        else:
            low = middle + 1
    return float(THRESHOLDS[low])


def oracle_delay(size: float, rng: np.random.Generator) -> float:
    """The median delay of the best CUSUM with at most one false alarm in 1,000 points."""
    quiet = [noise(rng, GROWN_TO - GROWN_FROM) for noise in NOISES.values() for _ in range(ORACLE_SERIES // 5)]
    steps = []
    for name in STEADY:
        for _ in range(ORACLE_SERIES // 2):
            at = int(rng.integers(*NEW_LENGTHS))
            logs = NOISES[name](rng, at + PATIENCE)
            logs[at:] += size * CV
            steps.append((at, logs))
    best = (np.inf, np.inf)
    for bound in BOUNDS[size / 2.0 < BOUNDS]:
        threshold = least_threshold(quiet, size, float(bound))
        # an alarm before the step is a false one, and the CUSUM begins anew at the step
        told = [(first_alarm(logs, at, size, float(bound), threshold), at) for at, logs in steps]
        waits = np.array([np.inf if alarm is None else alarm - at + 1 for alarm, at in told])
        best = min(best, (float(np.minimum(waits, PATIENCE).mean()), float(np.median(waits))))
    return best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=20261122)
    parser.add_argument("--repeats", type=int, default=24)
    asked = parser.parse_args()
    kinds = ", ".join(NOISES)
    sizes = " / ".join(f"{size:g}" for size in SIZES)
    print(f"| least probability | false alarms per 1,000 points | … by noise: {kinds} | delay at {sizes} sd |")
    print("| --- | --- | --- | --- |")
    for probability in PROBABILITIES:
        tell, rng = partial(levels, probability), np.random.default_rng(asked.seed)
        alarms = [false_alarms_growing(noise, rng, asked.repeats, tell) for noise in NOISES.values()]
        waits = [
            [wait for name in STEADY for wait in delays(NOISES[name], size, rng, asked.repeats, tell)] for size in SIZES
        ]
        told = " / ".join(f"{np.median(one):g}" for one in waits)
        each = " / ".join(f"{one:.1f}" for one in alarms)
        print(f"| {probability:g} | {np.mean(alarms):.2f} | {each} | {told} |", flush=True)
    rng = np.random.default_rng([asked.seed, 1])
    told = " / ".join(f"{oracle_delay(size, rng):g}" for size in SIZES)
    print(f"| oracle | at most {MOST:g} | | {told} |")


if __name__ == "__main__":
    main()
