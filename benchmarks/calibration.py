"""How often the gate is right: simulated gates, decided by the product's own code, as a table and two pictures.

    python benchmarks/calibration.py --trials 120 --seed 7 --out benchmarks/results/calibration

writes `calibration.md` (the table of docs/statistics.md), `calibration.json`, and with matplotlib installed
`calibration.svg` (what is decided by size of the loss) and `verdicts.svg` (interval against margin), which stand in
docs/. About ten minutes of one core; `--trials 20` shows the shape in two.

The world that is drawn: 8 scenarios of 5 gated metrics. A run's value of a metric is log-normal with the given CV, of
whose variance 60 % is luck of the server start that all scenarios share, 15 % that of the scenario and 25 % of the
metric; p99 has 4 % of its own on top, as 200 requests a run have. Margins are the defaults (5 %, p99 10 %). "History"
are 10 earlier sessions of 2 runs of one version each. Everything is measured in one session, not in pairs.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regress_gate.model.metric import METRICS
from regress_gate.model.policy import Policy
from regress_gate.model.result import Verdict
from regress_gate.stats.comparison import compare_series
from regress_gate.stats.estimate import SeriesData
from regress_gate.stats.multiplicity import MeasurementDesign

SCENARIOS = 8
NAMES = ("ttft_median", "ttft_p99", "tpot_median", "e2el_median", "output_throughput")
SHARED, SCENARIO, OWN = 0.60, 0.15, 0.25
TAIL = 0.04
HISTORY = (10, 2)
CVS = (0.01, 0.02, 0.05)
RUNS = (3, 5, 8, 12)
LOSSES = (0.0, 0.05, 0.10)
CURVE = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.10, 0.12)


@dataclass(frozen=True)
class Point:
    cv: float
    runs: int
    loss: float
    """Of all metrics of one scenario."""
    history: bool


def draw(rng: np.random.Generator, cv: float, runs: int) -> np.ndarray:
    """Logarithms of losses, shape (runs, scenarios, metrics)."""
    shape = (runs, SCENARIOS, len(NAMES))
    luck = (
        np.sqrt(SHARED) * rng.normal(size=(runs, 1, 1))
        + np.sqrt(SCENARIO) * rng.normal(size=(runs, SCENARIOS, 1))
        + np.sqrt(OWN) * rng.normal(size=shape)
    )
    tails = np.array([TAIL if name.endswith("p99") else 0.0 for name in NAMES])
    return cv * luck + tails * rng.normal(size=shape)


def decide(rng: np.random.Generator, point: Point) -> str:
    policy = Policy()
    ours, theirs = draw(rng, point.cv, point.runs), draw(rng, point.cv, point.runs)
    theirs[:, 0, :] += np.log1p(point.loss)
    sessions = [draw(rng, point.cv, HISTORY[1]) for _ in range(HISTORY[0])] if point.history else []
    series = []
    for scenario in range(SCENARIOS):
        for at, name in enumerate(NAMES):
            known = METRICS[name]
            sign = 1 if known.direction.value == "lower_is_better" else -1
            series.append(
                SeriesData(
                    np.exp(sign * ours[:, scenario, at]),
                    np.exp(sign * theirs[:, scenario, at]),
                    known.direction,
                    known.scale,
                    policy.margin(name),
                    scenario=f"s{scenario}",
                    metric=name,
                )
            )
    signs = np.array([each.sign for each in series])
    earlier = tuple(tuple(np.exp(signs[:, None] * one.reshape(len(one), -1).T)) for one in sessions)
    verdicts = {
        each.verdict
        for each in compare_series(
            series,
            false_alarm_budget=policy.false_alarm_budget,
            confidence=policy.confidence,
            expected_cv=policy.expected_cv,
            design=MeasurementDesign(earlier=earlier),
        )
    }
    if Verdict.REGRESSION in verdicts:
        return "fail"
    return "inconclusive" if Verdict.UNDECIDED in verdicts else "pass"


def score(point: Point, trials: int, seed: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, int(1e4 * point.cv), point.runs, int(1e4 * point.loss), point.history])
    decisions = [decide(rng, point) for _ in range(trials)]
    return {word: decisions.count(word) / trials for word in ("fail", "inconclusive", "pass")}


def table(found: dict[Point, dict[str, float]], trials: int) -> str:
    def cell(shares: dict[str, float]) -> str:
        return " · ".join(f"{100 * shares[word]:.0f}" for word in ("fail", "inconclusive", "pass"))

    half, rare = (196 * (share * (1 - share) / trials) ** 0.5 for share in (0.5, 0.05))
    lines = [
        f"Gates that fail · stay inconclusive · pass, in % of {trials} simulated ones.",
        f"A share of 50 % is known to ±{half:.0f} points (95 %), one of 5 % to ±{rare:.0f}.",
        "",
        "| CV between runs | runs a side | history | nothing changed | one scenario of 8 lost 5 % | lost 10 % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for cv in CVS:
        for runs in RUNS:
            for history in (False, True):
                cells = [cell(found[Point(cv, runs, loss, history)]) for loss in LOSSES]
                where = "20 runs" if history else "none"
                lines.append(f"| {cv:.0%} | {runs} | {where} | {' | '.join(cells)} |")
    lines += ["", "Runs a side from which at least 90 % of the gates fail:", ""]
    lines += ["| CV between runs | history | lost 5 % | lost 10 % |", "| --- | --- | --- | --- |"]
    for cv in CVS:
        for history in (False, True):
            needed = [_needed(found, cv, loss, history) for loss in LOSSES[1:]]
            lines.append(f"| {cv:.0%} | {'20 runs' if history else 'none'} | {' | '.join(needed)} |")
    return "\n".join(lines) + "\n"


def _needed(found: dict[Point, dict[str, float]], cv: float, loss: float, history: bool) -> str:
    enough = [runs for runs in RUNS if found[Point(cv, runs, loss, history)]["fail"] >= 0.9]
    return str(enough[0]) if enough else f"> {RUNS[-1]}"


def draw_pictures(found: dict[Point, dict[str, float]], out: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    # The same file for the same numbers, so that a new run shows as a difference only where it differs.
    matplotlib.rcParams.update({"svg.hashsalt": "regress-gate", "svg.fonttype": "none", "font.size": 11})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True)
    colours = {"fail": "#b3261e", "inconclusive": "#8a8a8a", "pass": "#1b7f3b"}
    for axis, runs in zip(axes, (3, 5, 8), strict=True):
        for word, colour in colours.items():
            shares = [100 * found[Point(0.02, runs, loss, True)][word] for loss in CURVE]
            axis.plot([100 * loss for loss in CURVE], shares, color=colour, marker="o", markersize=3, label=word)
        axis.axvline(5, color="black", linewidth=0.8, linestyle=":")
        axis.set(title=f"{runs} runs a side", xlabel="true loss of one scenario of 8, %", ylim=(-3, 103))
    axes[0].set_ylabel("gates, %")
    axes[0].legend(frameon=False, loc="center right")
    figure.suptitle("CV 2 % between runs, 20 earlier runs; dotted: the margin", fontsize=11)
    figure.tight_layout()
    figure.savefig(out.with_suffix(".svg"), metadata={"Date": None})

    figure, axis = plt.subplots(figsize=(8, 2.9))
    cases = [
        ("improvement", -6.0, 2.0, "pass"),
        ("within_margin", 0.5, 2.5, "pass"),
        ("within_margin: a loss, but a small one", 2.5, 1.5, "pass"),
        ("undecided", 1.5, 5.0, "inconclusive"),
        ("regression", 6.0, 3.0, "fail"),
    ]
    for at, (_, middle, half, word) in enumerate(reversed(cases)):
        axis.errorbar(middle, at, xerr=half, color=colours[word], fmt="o", capsize=4)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.axvline(5, color="black", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(cases)), [case[0] for case in reversed(cases)])
    axis.set(xlabel="loss, % (dotted: the margin)", ylim=(-0.6, len(cases) - 0.4))
    figure.tight_layout()
    figure.savefig(out.with_name("verdicts.svg"), metadata={"Date": None})


def wanted(pictures: bool) -> Iterable[Point]:
    points = {
        Point(cv, runs, loss, history) for cv in CVS for runs in RUNS for loss in LOSSES for history in (False, True)
    }
    if pictures:
        points |= {Point(0.02, runs, loss, True) for runs in (3, 5, 8) for loss in CURVE}
    return sorted(points, key=lambda point: (point.cv, point.runs, point.loss, point.history))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/calibration"))
    arguments = parser.parse_args()
    try:
        import matplotlib  # noqa: F401 - only whether it is there

        pictures = True
    except ImportError:
        pictures = False
        print("no matplotlib: the table only", file=sys.stderr)
    found: dict[Point, dict[str, float]] = {}
    points = list(wanted(pictures))
    with ProcessPoolExecutor(arguments.processes) as pool:
        jobs = {point: pool.submit(score, point, arguments.trials, arguments.seed) for point in points}
        for number, (point, job) in enumerate(jobs.items(), 1):
            found[point] = job.result()
            print(f"{number} of {len(points)}: {point} {found[point]}", file=sys.stderr, flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    text = table(found, arguments.trials)
    arguments.out.with_suffix(".md").write_text(text)
    rows = [{**vars(point), **shares, "trials": arguments.trials} for point, shares in found.items()]
    arguments.out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    if pictures:
        draw_pictures(found, arguments.out)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
