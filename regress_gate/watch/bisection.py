"""What stored runs say about the place of a step in a row of builds, and which run comes next.

The runs themselves are the whole state of a search: it can end at any time and go on from the store, and runs that
others made for a comparison count. Not for making runs, and not for the statistics (`stats.bisection`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from regress_gate.bench.experiment.experiment_plan import server_groups
from regress_gate.errors import InputError
from regress_gate.gate.accuracy import SCORES, compare_outputs, outputs_scenario
from regress_gate.gate.replicates import run_level_values, server_group
from regress_gate.model.metric import Direction, Metric, Scale, metric
from regress_gate.model.run import Run
from regress_gate.model.suite import Suite
from regress_gate.model.version import Version
from regress_gate.stats.bisection import (
    NOTHING_KNOWN,
    Conclusion,
    EndDifference,
    NextRun,
    Observation,
    StepPosterior,
    TwoSteps,
    VariancePrior,
    choose_failing_run,
    choose_run,
    compare_ends,
    find_two_steps,
    locate_failure,
    locate_step,
    most_likely_pair,
    next_block,
)
from regress_gate.stats.design import pooled_noise
from regress_gate.text import did_you_mean
from regress_gate.watch.candidates import Candidate

FAILURE = "failure"
"""In place of a metric: whether the server crashes or hangs."""
BLOCK_WITHIN = timedelta(hours=1)
"""A run that begins later than this after the end of the one before is in another block."""
_MOST_FREEDOM = 24.0
"""Of what earlier sessions say of the noise: they are of other days."""


@dataclass(frozen=True, slots=True)
class SearchedSeries:
    """What got worse, and where it is measured."""

    scenario: str
    """As in results: that of the suite, or the server's for what a server does once."""
    metric: str
    """A metric's name or `FAILURE`."""
    group: str
    """The server of the suite that is meant."""
    is_improvement: bool = False
    """Search for the build that made it better."""

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.metric}"

    @property
    def known(self) -> Metric | None:
        """None for failures."""
        return None if self.metric == FAILURE else metric(self.metric)

    @property
    def sign(self) -> float:
        """Factor on the analysis scale with which larger is what is searched for."""
        assert self.known is not None  # noqa: S101 - failures have no scale  # nosec B101
        worse = 1.0 if self.known.direction is Direction.LOWER else -1.0
        return -worse if self.is_improvement else worse


def find_series(suite: Suite, scenario: str | None, wanted: str, *, is_improvement: bool = False) -> SearchedSeries:
    """The series of a suite. Raises InputError for a scenario or a metric that it has not, and where a suite with
    several scenarios is given none."""
    names = [each.name for each in suite.scenarios]
    if scenario is None:
        if len(names) > 1:
            raise InputError(
                f"suite {suite.name} has {len(names)} scenarios", todo=f"give --scenario: {', '.join(names)}"
            )
        scenario = names[0]
    # What a server does once, and its answers, have scenarios of their own in results.
    own = next(
        (
            group
            for group in server_groups(suite)
            if scenario in (group.name, outputs_scenario(group.name), *(each.name for each in group.scenarios))
        ),
        None,
    )
    if own is None:
        raise InputError(f"suite {suite.name} has no scenario {scenario!r}" + did_you_mean(scenario, names))
    if wanted == FAILURE:
        return SearchedSeries(own.name, wanted, own.name)
    known = metric(wanted)
    place = outputs_scenario(own.name) if wanted in SCORES else own.name if known.per_run else scenario
    return SearchedSeries(place, wanted, own.name, is_improvement)


@dataclass(frozen=True, slots=True)
class SearchRun:
    """A run of the row, in the order of time."""

    position: int
    block: int
    run: Run
    value: float | None
    """In the unit of the metric; None: the server failed."""
    loss: float | None
    """On the analysis scale: larger is what is searched for."""


def _finished(run: Run) -> datetime | None:
    if run.started is None:
        return None
    return run.started + timedelta(seconds=(run.place.seconds or 0.0) if run.place else 0.0)


def collect_runs(runs: Sequence[Run], row: Sequence[Candidate], series: SearchedSeries) -> list[SearchRun]:
    """The runs of the row's builds that have a value of the series, or failed. Takes runs that count."""
    placed = []
    for run in runs:
        position = next((at for at, one in enumerate(row) if run.version.matches(one.version)), None)
        # Two servers that run at once are slower than one alone: only a comparison of the two may use them.
        is_resident = run.place is not None and run.place.resident
        if position is not None and server_group(run) == series.group and not is_resident:
            placed.append((position, run))
    placed.sort(key=lambda pair: ("" if pair[1].started is None else pair[1].started.isoformat(), pair[1].id or 0))
    values = _values(placed, series)
    collected: list[SearchRun] = []
    seen: list[Observation] = []
    before: datetime | None = None
    for (position, run), value in zip(placed, values, strict=True):
        if value is None and run.failure is None:
            continue
        block = next_block(seen, position, len(row))
        is_late = before is not None and run.started is not None and run.started - before > BLOCK_WITHIN
        if is_late and seen and block == seen[-1].block:
            block += 1
        loss = None if value is None or series.metric == FAILURE else _loss(value, series)
        collected.append(SearchRun(position, block, run, value, loss))
        seen.append(Observation(position, 0.0, block))
        before = _finished(run) or before
    return collected


def _values(placed: Sequence[tuple[int, Run]], series: SearchedSeries) -> list[float | None]:
    if series.metric == FAILURE:
        return [None if run.failure is not None else 0.0 for _, run in placed]
    if series.metric not in SCORES:
        key = (series.scenario, series.metric)
        own = [run_level_values([run]).get(key) if run.failure is None else None for _, run in placed]
        return [None if values is None else values.per_run[0] for values in own]
    # Answers are judged by those of the good end; its own runs by each other.
    answered = [run if run.failure is None and run.outputs is not None else None for _, run in placed]
    reference = [run for (position, _), run in zip(placed, answered, strict=True) if run is not None and position == 0]
    scores: dict[int, float] = {}
    for at, ((position, _), run) in enumerate(zip(placed, answered, strict=True)):
        if run is None or not reference:
            continue
        others = [each for each in reference if each is not run] if position == 0 else reference
        compared = compare_outputs(others, [run]).get(series.scenario) if others else None
        if compared is not None and (given := compared.candidate.get(series.metric)):
            scores[at] = given[0]
    return [scores.get(at) for at in range(len(placed))]


def _loss(value: float, series: SearchedSeries) -> float:
    assert series.known is not None  # noqa: S101 - as the caller saw to  # nosec B101
    if series.known.scale is Scale.RATIO:
        if value <= 0:
            raise InputError(f"{series.name} has a value of {value:g}: a bisect needs positive values")
        return series.sign * math.log(value)
    return series.sign * value


def known_noise(earlier: Sequence[Run], series: SearchedSeries) -> VariancePrior:
    """What runs outside the row's own say of the noise between runs of one version in one session."""
    if series.known is None or series.metric in SCORES:
        return NOTHING_KNOWN
    groups: dict[tuple[object, Version], list[float]] = {}
    for run in earlier:
        values = run_level_values([run]).get((series.scenario, series.metric))
        if values is not None and run.session is not None and run.failure is None:
            groups.setdefault((run.session, run.version), []).append(values.per_run[0])
    pooled = pooled_noise([np.array(values) for values in groups.values()], series.known.scale)
    if pooled is None:
        return NOTHING_KNOWN
    return VariancePrior(pooled.run_sd**2, min(float(pooled.degrees_of_freedom), _MOST_FREEDOM))


@dataclass(frozen=True, slots=True)
class SearchState:
    """What the runs say now."""

    row: Sequence[Candidate]
    series: SearchedSeries
    runs: Sequence[SearchRun]
    untestable: Mapping[int, str]
    """Position → why the build cannot be measured."""
    choice: NextRun | Conclusion
    posterior: StepPosterior | None
    """None until both ends are measured."""
    ends: EndDifference | None
    """None until then, and for failures."""
    prior: VariancePrior
    two: TwoSteps | None = None
    """At the end of a search: what explains the runs where one step does not."""

    @property
    def edges(self) -> list[int]:
        """Positions that are or can be measured."""
        is_counted = self.series.metric == FAILURE
        measured = {each.position for each in self.runs if is_counted or each.loss is not None}
        ends = (0, len(self.row) - 1)
        return [at for at in range(len(self.row)) if at in ends or at in measured or at not in self.untestable]

    @property
    def place(self) -> tuple[int, int, float]:
        """The neighbours between which the step most likely lies, and the probability that it does."""
        if self.posterior is None:
            return 0, len(self.row) - 1, 1.0
        return most_likely_pair(self.posterior, np.array(self.edges))

    @property
    def window(self) -> tuple[int, int]:
        """The shortest row that holds the step with 95 %."""
        return (0, len(self.row) - 1) if self.posterior is None else self.posterior.window()

    def runs_at(self, position: int) -> list[SearchRun]:
        return [each for each in self.runs if each.position == position]


def assess(
    row: Sequence[Candidate],
    series: SearchedSeries,
    runs: Sequence[SearchRun],
    untestable: Mapping[int, str],
    prior: VariancePrior,
    now: datetime,
) -> SearchState:
    """The posterior over the places and the next run. A build whose servers fail cannot be measured, unless failures
    are what is searched. Raises InputError where an end fails."""
    if series.metric == FAILURE:
        outcomes = [(each.position, each.value is None) for each in runs]
        choice = choose_failing_run(outcomes, len(row), lambda at: at not in untestable)
        posterior = locate_failure(outcomes, len(row)) if outcomes else None
        return SearchState(row, series, runs, untestable, choice, posterior, None, prior)
    failing = {each.position: each for each in runs if each.value is None}
    served = [each for each in runs if each.loss is not None]
    for position in {each.position for each in served}:
        failing.pop(position, None)
    for position, each in failing.items():
        if position in (0, len(row) - 1):
            text = each.run.failure.text if each.run.failure else "its server failed"
            raise InputError(
                f"{row[position].version} has no {series.name} to search for: {text}", todo=f"give --metric {FAILURE}"
            )
    held = dict.fromkeys(failing, "its server fails") | dict(untestable)
    observed = [Observation(each.position, each.loss or 0.0, each.block) for each in served]
    newest = max((end for each in runs if (end := _finished(each.run)) is not None), default=None)
    choice = choose_run(
        observed,
        len(row),
        prior=prior,
        testable=lambda at: at not in held,
        block_open=newest is None or now - newest <= BLOCK_WITHIN,
    )
    ends = compare_ends(observed, len(row), prior)
    posterior = None if ends is None else locate_step(observed, len(row), prior=prior)
    is_done = choice in (Conclusion.TWO_STEPS, Conclusion.FOUND)
    two = find_two_steps(observed, prior) if is_done else None
    return SearchState(row, series, runs, held, choice, posterior, ends, prior, two)
