"""What a rule could reach at best that means by its verdicts what ours does: one that knows every covariance.

    python benchmarks/oracle.py HARNESS/compare.py --out benchmarks/results/oracle

draws gates of the harness that scores decision rules (see README.md) and lets a rule decide them that has the same
margins, verdicts and variance-reduced percentiles as the product, but knows what the product must find out: the
covariance of all that a run gives, over metrics, scenarios and variance-reduced forms. Its estimates are generalised
least squares (a plain and a variance-reduced percentile speak of the same loss), its intervals normal and exact, its
tests those of every series, scenario, metric and everything, each relative to all else that did not change, at the
exact family-wise level. The rule that looks after every block does so at the product's levels, and never gives up.

The covariance is taken from `--families` unchanged gates of the harness, averaged over scenarios, which are alike
there. Gates are then drawn from a normal distribution with it: of means over runs, which are nearly normal. About five
minutes; one core. What some of that knowledge is worth is told by oracles that lack it (`oracle_less_known.py`), which
decide half as many gates.
"""

import argparse
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
from oracle_less_known import LESS_KNOWN, less_known
from scipy.special import ndtr, ndtri

from regress_gate.model.policy import Policy
from regress_gate.stats.design import FIRST_ANALYSIS, InterimStage, nominal_level
from regress_gate.stats.estimate import variance_reduced_percentiles

CELL = 6
"""Values of a scenario: mean, plain p99 and variance-reduced p99 of two variables."""
MOST_BLOCKS = 10
POLICY = Policy()


class World:
    """The harness at one spread between runs. Values are in the order scenario, variable, (mean, p99,
    variance-reduced)."""

    def __init__(self, harness: ModuleType, cv: float, families: int, seed: int):
        self.cells = harness.CELLS
        self.covariance = _covariance(harness, cv, families, seed)
        count = len(self.covariance)
        series = [index for index in range(count) if index % 3 < 2]
        # A variance-reduced percentile moves as the plain one does.
        self.design = np.zeros((count, len(series)))
        for column, row in enumerate(series):
            self.design[row, column] = 1
            if row % 3 == 1:
                self.design[row + 1, column] = 1
        inverse = np.linalg.inv(self.covariance)
        self.errors = np.linalg.inv(self.design.T @ inverse @ self.design)
        """Of the estimated losses of one run of one side, shape (m, m)."""
        self.estimator = self.errors @ self.design.T @ inverse
        self.margins = np.log1p([0.05 if row % 3 == 0 else 0.10 for row in series])
        self.cell = np.array([row // CELL for row in series])
        self.kind = np.array([row % CELL for row in series])
        self.tests, self.members = self._tests()

    def _tests(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights over the estimates, shape (tests, m), that give unit variance for one run of a side; and of which
        series they speak."""
        count = len(self.margins)
        members = [*np.eye(count, dtype=bool)]
        members += [self.cell == cell for cell in range(self.cells)]
        members += [self.kind == kind for kind in np.unique(self.kind)]
        groups = np.array([*members, np.ones(count, dtype=bool)])
        inverse = np.linalg.inv(self.errors)
        shift = groups.astype(float)
        information = np.einsum("ti,ij,tj->t", shift, inverse, shift)
        return shift @ inverse / np.sqrt(information)[:, None], groups

    def critical(self, rng: np.random.Generator, tail: float) -> float:
        """Which the largest of all tests exceeds with a probability of `tail` where nothing changed."""
        draws = rng.multivariate_normal(np.zeros(len(self.errors)), self.errors, 40_000)
        return float(np.quantile((draws @ self.tests.T).max(axis=1), 1 - tail))

    def losses(self, kind: str, size: float) -> np.ndarray:
        """Shape (m,): true ones."""
        hit = {"null": False, "global": True, "cell": self.cell == 3}[kind]
        return np.where(hit, np.log1p(size), 0.0)

    def verdicts(self, estimates: np.ndarray, runs: int, critical: float, tail: float) -> tuple[np.ndarray, np.ndarray]:
        """Of estimates (gates, m): which are shown within their margins, and which are regressions."""
        error = np.sqrt(np.diag(self.errors) * 2 / runs)
        within = estimates - float(ndtri(tail)) * error < self.margins
        scores = estimates @ self.tests.T / np.sqrt(2 / runs)
        hit = (scores > critical) @ self.members.astype(float) > 0
        alone = ndtr(-estimates / error) <= POLICY.false_alarm_budget
        half = np.log1p(np.expm1(self.margins) / 2)
        return within, hit & alone & ~within & (estimates >= half)


def _covariance(harness: ModuleType, cv: float, families: int, seed: int, runs: int = 5) -> np.ndarray:
    """Of one run of one side, from differences between the means of unchanged sides."""
    rng = np.random.default_rng([seed, int(1e4 * cv)])
    inside, between = np.zeros((CELL, CELL)), np.zeros((CELL, CELL))
    for _ in range(families):
        family = harness.Family(rng, runs, cv)
        plain = np.log(family.values[1]).mean(axis=1) - np.log(family.values[0]).mean(axis=1)
        variance_reduced = []
        for each in range(len(plain) // 2):
            left, right = variance_reduced_percentiles(np.log(family.x[0][each]), np.log(family.x[1][each]), 0.01)
            variance_reduced.append(right.mean() - left.mean())
        found = np.column_stack([plain[0::2], plain[1::2], variance_reduced]).reshape(harness.CELLS, CELL)
        inside += found.T @ found / harness.CELLS
        total = found.sum(axis=0)
        between += (np.outer(total, total) - found.T @ found) / harness.CELLS / (harness.CELLS - 1)
    inside, between = (each * runs / 2 / families for each in (inside, between))
    whole = np.kron(np.eye(harness.CELLS), inside - between) + np.kron(np.ones((harness.CELLS,) * 2), between)
    return np.asarray(whole)


def fixed(world: World, rng: np.random.Generator, kind: str, size: float, runs: int, gates: int) -> dict[str, float]:
    """Shares of gates that fail, pass or stay inconclusive, and of the affected series that are regressions."""
    estimates = world.losses(kind, size) + rng.multivariate_normal(
        np.zeros(len(world.errors)), world.errors * 2 / runs, gates
    )
    within, worse = world.verdicts(
        estimates, runs, world.critical(rng, POLICY.false_alarm_budget), (1 - POLICY.confidence) / 2
    )
    fails, passes = worse.any(axis=1), within.all(axis=1)
    hit = world.losses(kind, size) > 0
    found = worse[:, hit].mean() if hit.any() else 0.0
    return {"fail": float(fails.mean()), "pass": float(passes.mean()), "found": float(found)}


def looking(world: World, rng: np.random.Generator, kind: str, size: float, gates: int) -> dict[str, float]:
    """The same, looked at after every block of at most MOST_BLOCKS; with the mean number of blocks."""
    steps = rng.multivariate_normal(np.zeros(len(world.errors)), 2 * world.errors, (gates, MOST_BLOCKS))
    sums = steps.cumsum(axis=1)
    blocks, passed, failed = np.full(gates, MOST_BLOCKS), np.zeros(gates, dtype=bool), np.zeros(gates, dtype=bool)
    for made in range(FIRST_ANALYSIS, MOST_BLOCKS + 1):
        looks = InterimStage(made, MOST_BLOCKS)
        critical = world.critical(rng, nominal_level(POLICY.false_alarm_budget, looks))
        estimates = world.losses(kind, size) + sums[:, made - 1] / made
        within, worse = world.verdicts(estimates, made, critical, nominal_level((1 - POLICY.confidence) / 2, looks))
        going = ~passed & ~failed
        failed |= going & worse.any(axis=1)
        passed |= going & ~failed & within.all(axis=1)
        blocks[going & (passed | failed)] = made
    return {"fail": float(failed.mean()), "pass": float(passed.mean()), "blocks": float(blocks.mean())}


CASES = (
    ("nothing changed, CV 1 %, 5 runs: passes", 0.01, "null", 0.0, 5, "pass"),
    ("nothing changed, CV 1 %, 10 runs: passes", 0.01, "null", 0.0, 10, "pass"),
    ("nothing changed, CV 2 %, 5 runs: passes", 0.02, "null", 0.0, 5, "pass"),
    ("nothing changed, CV 2 %, 10 runs: passes", 0.02, "null", 0.0, 10, "pass"),
    ("5 % in one cell, CV 1 %, 3 runs: fails", 0.01, "cell", 0.05, 3, "fail"),
    ("5 % in one cell, CV 2 %, 5 runs: fails", 0.02, "cell", 0.05, 5, "fail"),
    ("5 % in one cell, CV 2 %, 8 runs: fails", 0.02, "cell", 0.05, 8, "fail"),
    ("3 % in everything, CV 2 %, 5 runs: series found", 0.02, "global", 0.03, 5, "found"),
)
LOOKING = ((0.02, "null", 0.0), (0.01, "null", 0.0), (0.02, "cell", 0.05))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("harness", type=Path)
    parser.add_argument("--families", type=int, default=120)
    parser.add_argument("--gates", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/oracle"))
    arguments = parser.parse_args()
    spec = importlib.util.spec_from_file_location("harness", arguments.harness)
    if spec is None or spec.loader is None:
        parser.error(f"{arguments.harness} is no Python file")
    harness = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(harness)
    worlds = {cv: World(harness, cv, arguments.families, arguments.seed) for cv in (0.01, 0.02)}
    rng = np.random.default_rng(arguments.seed)
    rows: list[dict[str, object]] = []
    for text, cv, kind, size, runs, part in CASES:
        found = fixed(worlds[cv], rng, kind, size, runs, arguments.gates)
        rows.append({"case": text, "share": found[part], **found})
    lines = ["| case | oracle |", "| --- | --- |", *(f"| {row['case']} | {100 * row['share']:.0f} % |" for row in rows)]
    for text, how in LESS_KNOWN:
        share = less_known(worlds[0.01], rng, 5, arguments.gates // 2, **how)
        rows.append({"case": f"{CASES[0][0]}; {text}", "share": share})
        lines.append(f"| {rows[-1]['case']} | {100 * share:.0f} % |")
    for cv, kind, size in LOOKING:
        found = looking(worlds[cv], rng, kind, size, arguments.gates)
        what = f"{size:.0%} in one cell" if size else "nothing changed"
        rows.append({"case": f"{what}, CV {cv:.0%}, looking", **found})
        shares = f"{100 * found['pass']:.0f} % pass, {100 * found['fail']:.0f} % fail"
        lines.append(f"| {what}, CV {cv:.0%}, a look after every block | {found['blocks']:.1f} blocks; {shares} |")
        if size:
            continue
        for runs in range(FIRST_ANALYSIS, 2 * MOST_BLOCKS):
            if fixed(worlds[cv], rng, kind, size, runs, arguments.gates)["pass"] >= found["pass"] - 0.005:
                rows[-1]["runs_of_a_fixed_plan"] = runs
                lines.append(f"| as many passes with a fixed plan | {runs} runs a side |")
                break
    arguments.out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    arguments.out.with_suffix(".md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
