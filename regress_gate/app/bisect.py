"""Find the build that brought a change: measure builds between two versions, one server start at a time.

The next run is always chosen from what the store holds, so that a search that ended, in whatever way, goes on where it
was. First the releases between two releases, then the commits between two neighbours of them, as far as there are
wheels. Not for deciding whether to move: see `compare`.
"""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean

from regress_gate.app.bisect_rows import BuildFinder
from regress_gate.app.check import check_version
from regress_gate.app.experiment import measure_task
from regress_gate.app.experiment_plans import find_unfinished
from regress_gate.app.fleet import open_fleet
from regress_gate.app.measure_comparison import NotMeasuredError
from regress_gate.app.measurement_task import MeasurementTask, make_task
from regress_gate.app.settings import MeasurementAmount, ProgressReporter, Settings
from regress_gate.bench.experiment.experiment_plan import BASELINE, CANDIDATE, SINGLE, suite_digest
from regress_gate.bench.fleet.fleet import Fleet
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.errors import InputError, RegressGateError
from regress_gate.gate.sides import runs_that_count
from regress_gate.known.records.loading import load_records
from regress_gate.known.threads import ThreadRef
from regress_gate.model.config import ProvisionConfig
from regress_gate.model.issue import Applies, Effect, KnownIssue
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.version import Channel, Version
from regress_gate.stats.bisection import Conclusion, Goal, NextRun
from regress_gate.stats.search_length import SearchCase, expect_runs
from regress_gate.store.repository import find_store
from regress_gate.store.store_interface import run_order
from regress_gate.text import duration_text, one_line, plural
from regress_gate.watch.bisect_view import BisectReport, KnownIssueNote, SearchStage, StageEnd
from regress_gate.watch.bisection import (
    FAILURE,
    SearchedSeries,
    SearchState,
    assess,
    collect_runs,
    find_series,
    known_noise,
)
from regress_gate.watch.candidates import Candidate
from regress_gate.watch.search_plan_view import SearchPlan

_FAILED_IN_A_ROW = 3
"""Builds that cannot be provisioned, one after the other, after which the cause is taken to be elsewhere."""
_INTERRUPTED = "interrupted: every run that was made is stored; the same command goes on"
_GOALS = {
    Goal.ENDS: "do the ends differ?",
    Goal.PIN: "the level of an end",
    Goal.PROBE: "narrowing the range",
    Goal.CONFIRM: "confirming a neighbour",
    Goal.SURVEY: "are there two steps?",
}


@dataclass(frozen=True, slots=True)
class BisectRequest:
    """What is searched for, and with how much."""

    good: str
    bad: str
    metric: str
    """Or `failure`."""
    scenario: str | None
    """None: the suite's only one."""
    amount: MeasurementAmount
    provisioning: ProvisionConfig
    chosen: tuple[str, ...] = ()
    """Versions between the two, in their order; empty: those that are published."""
    is_improvement: bool = False
    """Search for what made it better."""
    releases_only: bool = False
    offline: bool = False
    on: str | None = None
    """The engine of a fleet, one host of which makes all runs; None: this machine."""


@dataclass(frozen=True, slots=True)
class _Search:
    """A row of builds and how each is measured."""

    settings: Settings
    request: BisectRequest
    task: MeasurementTask
    """Of both ends."""
    series: SearchedSeries
    builds: BuildFinder
    row: Sequence[Candidate]
    kind: str
    """`releases`, `commits` or `chosen`."""

    @property
    def suite(self) -> SuiteRef:
        return SuiteRef(self.task.suite.name, self.task.suite.version)


def plan_bisect(settings: Settings, request: BisectRequest, progress: ProgressReporter) -> SearchPlan:
    """What a search would take, by simulation with what is stored. Measures nothing. Raises InputError for failures:
    the simulation is of a number that scatters."""
    if request.metric == FAILURE:
        raise InputError(
            "--plan simulates a number that scatters", todo="leave it out: each failure is repeated once, and halves"
        )
    search = _begin(settings, request, progress, plan_only=True)
    state = _assess(search, {})
    progress.say("simulating searches")
    return _plan(search, state)


def bisect(settings: Settings, request: BisectRequest, progress: ProgressReporter) -> BisectReport:
    """Search until the step is found, shown not to be one, or the budget is spent.

    Raises InputError for what cannot be searched and for a budget that will not do, the errors of what could not be
    measured otherwise. What was measured stays stored, and the next call goes on from there.
    """
    with open_fleet(settings, request.on, progress, one_host=True) as fleet:
        return _search_all(_begin(settings, request, progress, fleet=fleet), progress)


def _search_all(search: _Search, progress: ProgressReporter) -> BisectReport:
    settings, request = search.settings, search.request
    until = None if request.amount.budget is None else time.monotonic() + request.amount.budget
    stages = [_search(search, until, progress)]
    notes: list[str] = []
    if stages[0].end is StageEnd.FOUND and search.kind == "releases" and not request.releases_only:
        good, bad = _neighbours(stages[0])
        progress.say(f"looking for the commits between {good.version} and {bad.version}")
        row, why = search.builds.commits_within(good.version, bad.version)
        if row is None:
            notes.append(f"the commits between are not searched: {why}")
        else:
            stages.append(_search(replace(search, row=row, kind="commits"), until, progress))
    last = stages[-1]
    files, left_out, why = None, list[Version](), ""
    if last.end is StageEnd.FOUND and last.kind == "commits":
        files, why = search.builds.files_of(_neighbours(last)[1])
    elif last.end is StageEnd.FOUND and last.kind == "chosen":
        good, bad = _neighbours(last)
        left_out, why = search.builds.releases_left_out(good.version, bad.version)
    return BisectReport(
        tuple(stages),
        search.suite,
        search.task.testbed.name,
        tuple(_naming_issues(settings, last)),
        (*notes, *([why] if why else [])),
        place_options=_place_options(search),
        search_flags=_search_flags(search),
        files=files,
        left_out=tuple(left_out),
    )


def _neighbours(found: SearchStage) -> tuple[Candidate, Candidate]:
    """The last build without the step and the first one with it."""
    low, high, _ = found.state.place
    return found.state.row[low], found.state.row[high]


def _place_options(search: _Search) -> tuple[str, ...]:
    """Which suite, testbed and build a command about the same series needs. A launch line is left to who gave it."""
    given = search.request.provisioning
    suite = str(search.settings.suite.value or search.suite.name)
    words = ("--suite", suite, "--testbed", search.task.testbed.name)
    return (*words, "--variant", given.variant) if given.variant else words


def _search_flags(search: _Search) -> tuple[str, ...]:
    """What a search of a part of the row is called with besides."""
    flags = {"--releases-only": search.request.releases_only, "--offline": search.request.offline}
    on = () if search.request.on is None else ("--on", search.request.on)
    return (*on, *(flag for flag, is_given in flags.items() if is_given))


def _begin(
    settings: Settings,
    request: BisectRequest,
    progress: ProgressReporter,
    *,
    plan_only: bool = False,
    fleet: Fleet | None = None,
) -> _Search:
    ends = {BASELINE: request.good, CANDIDATE: request.bad}
    task = make_task(settings, ends, request.provisioning, plan_only=plan_only, fleet=fleet)
    good, bad = task.versions[BASELINE], task.versions[CANDIDATE]
    if good == bad:
        raise InputError("both ends are one version", todo="name the last good version and the first bad one")
    series = find_series(task.suite, request.scenario, request.metric, is_improvement=request.is_improvement)
    progress.say("looking for the builds between the two versions")
    builds = BuildFinder(settings, request.provisioning, task, request.offline)
    row, kind = builds.find_row(request.chosen)
    return _Search(settings, request, task, series, builds, row, kind)


# The search


def _search(search: _Search, until: float | None, progress: ProgressReporter) -> SearchStage:
    untestable: dict[int, str] = {}
    begun: int | None = None
    in_a_row, is_asked = 0, False
    progress.note(f"{plural(len(search.row), 'build')} from {search.row[0].version} to {search.row[-1].version}")
    while True:
        state = _assess(search, untestable)
        choice, begun = state.choice, len(state.runs) if begun is None else begun
        if isinstance(choice, Conclusion):
            end = StageEnd(choice.value)
            break
        if until is not None and not is_asked and choice.goal is not Goal.ENDS:
            is_asked = True
            _check_budget(search, state, until - time.monotonic(), progress)
        if until is not None and time.monotonic() + (_seconds_a_run(search) or 0.0) > until:
            end = StageEnd.BUDGET
            break
        version = search.row[choice.position].version
        if search.kind == "commits" and not state.runs_at(choice.position) and not search.builds.has_wheel(version):
            untestable[choice.position] = "no wheel for this machine"
            continue
        progress.note(_next_text(state, choice))
        before = len(_stored_runs(search)[0])
        try:
            has_new_run = _measure(search, version, until, progress)
        except ProvisionError as error:
            in_a_row += 1
            if choice.position in (0, len(search.row) - 1) or in_a_row >= _FAILED_IN_A_ROW:
                raise
            untestable[choice.position] = one_line(str(error))
            progress.note(f"{version} cannot be measured and is left out: {one_line(str(error))}")
            continue
        in_a_row = 0
        if has_new_run:
            _check_counted(search, version, before)
    return SearchStage(search.kind, state, end, len(state.runs) - begun)


def _next_text(state: SearchState, choice: NextRun) -> str:
    low, high = state.window
    width = "" if state.posterior is None else f", 95 %: {high - low} of {plural(len(state.row) - 1, 'place')} left"
    return f"run {len(state.runs) + 1}: {state.row[choice.position].version} ({_GOALS[choice.goal]}{width})"


def _measure(search: _Search, version: Version, until: float | None, progress: ProgressReporter) -> bool:
    """One server start, stored. Goes on with one that was interrupted. False where that one lacked nothing any more: it
    was interrupted after its run was stored, and has ended now."""
    task = replace(search.task, versions={SINGLE: version})
    store = find_store(str(search.settings.store_url.value))
    begun = None
    if store is not None:
        with store:
            begun = find_unfinished(store, task)
    resume = begun is not None and begun.blocks == 1 and begun.suite_digest == suite_digest(task.suite)
    left = None if until is None else max(1.0, until - time.monotonic())
    amount = replace(search.request.amount, runs=1, resume=resume, resume_if_any=False, budget=left)
    measured = measure_task(search.settings, task, amount, progress, hint=_INTERRUPTED)
    held = [entry for entry in measured.outcome.stored if entry.void is None]
    if measured.outcome.missing and not held:
        raise NotMeasuredError(
            f"{version} could not be measured: the machine was not quiet; run the same command again to go on"
        )
    return bool(measured.outcome.stored)


def _check_counted(search: _Search, version: Version, before: int) -> None:
    """Raises NotMeasuredError if a new run does not count, and InputError if a version serves and its runs have no
    value of the series: the search would never end."""
    own, _ = _stored_runs(search)
    if len(own) <= before:
        raise NotMeasuredError(f"{version} was measured, and its run does not count: see `baseline show {version}`")
    served = [run for run in own if run.version.matches(version) and run.failure is None]
    if len(served) >= 2 and not collect_runs(served, search.row, search.series):
        raise InputError(
            f"suite {search.suite} gives no {search.series.name} for {version}", todo="choose another --metric"
        )


def _stored_runs(search: _Search) -> tuple[list[Run], list[Run]]:
    """Runs on this testbed that count: of the row's builds, with those that failed, and the newest of others."""
    testbed, suite, limits = search.task.testbed.name, search.suite, search.task.suite.conditions
    store = find_store(str(search.settings.store_url.value))
    if store is None:
        return [], []
    with store:
        held = {
            holding.version
            for holding in store.inventory()
            if (holding.testbed, holding.suite) == (testbed, suite)
            and any(holding.version.matches(each.version) for each in search.row)
        }
        found = [run for version in held for run in store.runs(version=version, testbed=testbed, suite=suite)]
        own = list({run.key: run for run in found}.values())
        ids = [run.id for run in own if run.id is not None]
        others = store.recent_runs(testbed=testbed, suite=suite, paired=False, without=ids)
    digest = suite_digest(search.task.suite)
    own, others = (
        # Runs of a suite that was edited since show something else.
        [run for run in runs if run.place is None or run.place.suite_digest in (None, digest)]
        for runs in (own, others)
    )
    failed = [run for run in own if run.failure is not None and run.void is None]
    counted = runs_that_count(sorted(own, key=run_order), limits)
    return [*counted, *failed], runs_that_count(sorted(others, key=run_order), limits)


def _assess(search: _Search, untestable: dict[int, str]) -> SearchState:
    own, others = _stored_runs(search)
    runs = collect_runs(own, search.row, search.series)
    return assess(search.row, search.series, runs, untestable, known_noise(others, search.series), datetime.now(UTC))


# What it takes


def _seconds_a_run(search: _Search) -> float | None:
    """By earlier runs of the suite here, of all its servers, or its own estimate."""
    by_group: dict[str, list[float]] = {}
    for run in itertools.chain(*_stored_runs(search)):
        if run.place is not None and run.place.seconds is not None:
            by_group.setdefault(run.place.group, []).append(run.place.seconds)
    if by_group:
        return sum(map(fmean, by_group.values()))
    cost = search.task.suite.cost
    return None if cost is None else cost.minutes * 60


def _plan(search: _Search, state: SearchState) -> SearchPlan:
    """With the step that the ends show, or, before they are measured, with steps of several sizes."""
    steps: tuple[float, ...] = (2.0, 3.0, 5.0)
    is_known = state.ends is not None and state.posterior is not None and state.posterior.noise > 0
    if is_known and state.posterior is not None:
        steps = (round(max(0.5, min(20.0, abs(state.posterior.step) / state.posterior.noise)), 1),)
    ends = tuple(len(state.runs_at(at)) for at in (0, len(search.row) - 1))
    stored = (ends[0], ends[1])
    expected = {
        step: expect_runs(SearchCase(len(search.row), step, stored=stored, freedom=state.prior.freedom))
        for step in steps
    }
    return SearchPlan(
        series=search.series,
        suite=search.suite,
        testbed=search.task.testbed.name,
        kind=search.kind,
        row=tuple(search.row),
        stored=len(state.runs),
        expected=expected,
        is_known=is_known,
        seconds_a_run=_seconds_a_run(search),
        budget=search.request.amount.budget,
        answer=state.choice.value if isinstance(state.choice, Conclusion) else None,
    )


def _check_budget(search: _Search, state: SearchState, left: float, progress: ProgressReporter) -> None:
    """Refuse a search that will not end in time, as soon as the ends say how large the step is."""
    if search.series.metric == FAILURE:
        return
    progress.say("simulating searches")
    plan = _plan(search, state)
    if plan.seconds is None:
        return
    progress.expect(plan.seconds)
    if plan.seconds > left:
        raise InputError(
            f"the search will take about {duration_text(plan.seconds)} more ({plan.text}), and "
            f"{duration_text(max(0.0, left))} of the budget are left; what was measured is stored",
            where="--budget",
            todo=_cheaper(search),
        )


def _cheaper(search: _Search) -> str:
    ways = ["give a longer --budget"]
    if len(search.task.suite.scenarios) > 1:
        ways.append(f"write a suite with {search.series.scenario} alone")
    if search.series.known is not None and search.series.known.tail is not None:
        ways.append("search with a metric that scatters less, as a median")
    return ", or ".join([*ways, "name nearer versions"])


# What is known of the place


def _naming_issues(settings: Settings, stage: SearchStage) -> list[KnownIssueNote]:
    """Records that name the change that was found, or that begin with the release in which it came."""
    if stage.end is not StageEnd.FOUND:
        return []
    low, high, _ = stage.state.place
    between = stage.state.row[low + 1 : high + 1]
    if stage.kind == "commits":
        records = load_records()
        return [
            KnownIssueNote(record.id, record.summary, record.tracker.url, f"names {one.version.commit or ''}"[:20])
            for record in records
            for one in between
            if _names(record, one)
        ]
    good, bad = stage.state.row[low].version, stage.state.row[high].version
    if not all(version.channel is Channel.RELEASE for version in (good, bad)):
        return []
    try:
        findings = check_version(settings, str(bad), baseline=str(good), offline=True).findings
    except RegressGateError:
        return []  # a version that no list of releases has
    return [
        KnownIssueNote(found.issue.id, found.issue.summary, found.issue.tracker.url, f"begins with {bad}")
        for found in findings
        if found.effect is Effect.NEW and found.applies in (Applies.YES, Applies.UNKNOWN)
        and _is_about(found.issue, stage.state.series)
    ]  # fmt: skip


def _is_about(record: KnownIssue, series: SearchedSeries) -> bool:
    """Whether a record says something of the metric that moved."""
    family = series.metric.rpartition("_")[0] or series.metric
    return any(each.metric in (series.metric, family) for each in record.signature)


def _names(record: KnownIssue, one: Candidate) -> bool:
    commit, pull = one.version.commit or "", one.pull
    named = [*record.changes.introduced_by, *record.changes.fixed_by]
    return any(
        (change.commit is not None and commit.startswith(change.commit))
        or (pull is not None and ThreadRef.parse(f"{change.repo}/pull/{change.pull}") == pull)
        for change in named
    )
