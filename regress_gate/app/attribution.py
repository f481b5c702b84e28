"""Measure the counter-tests of a comparison's regressions, the likeliest cause first, until one restores each of them.

Every counter-test is an experiment of its own: the baseline, the candidate, and one of them with the other setting, in
alternating blocks. Its runs are stored under suites of their own, so that no comparison of the versions takes them. A
counter-test that is stored already is not measured again. Never changes the decision, and never raises for what goes
wrong on the way: the comparison has its answer. Not for what a counter-test shows: see `gate.audit.counter_tests`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean

from regress_gate.app.experiment import measure_task
from regress_gate.app.experiment_plans import find_counter_test, find_unfinished
from regress_gate.app.measure_comparison import PlannedComparison, counted_runs
from regress_gate.app.measurement_task import MeasurementTask
from regress_gate.app.settings import DEFAULT_BLOCKS, MeasurementAmount, ProgressReporter, Settings
from regress_gate.bench.experiment.experiment_plan import (
    BASELINE,
    CANDIDATE,
    COUNTER_TEST,
    ExperimentPlan,
    ServerSetting,
    server_groups,
)
from regress_gate.bench.experiment.experiment_runner import ExperimentEnd, find_plan_runs
from regress_gate.errors import RegressGateError
from regress_gate.gate.audit.counter_tests import (
    CounterTestMeasurement,
    count_counter_tests,
    is_settled,
    measure_of_runs,
    next_counter_test,
    other_way_around,
    with_counter_test,
)
from regress_gate.gate.audit.server_changes import shared_libraries
from regress_gate.model.config import ProvisionMethod
from regress_gate.model.result import CounterTestOut, CounterTestOutcome, ExplanationOut, Result
from regress_gate.model.run import Run
from regress_gate.store.repository import Repository, find_store
from regress_gate.text import one_line, plural

_SIDES = 3
"""Servers of a block: the baseline, the candidate, and the one with the other setting."""
_ENGINE_ARGS = "{engine_args}"


def starts_of_counter_test(task: MeasurementTask, amount: MeasurementAmount) -> int:
    """Server starts that one counter-test takes at most."""
    return _SIDES * _most_blocks(task, amount) * len(server_groups(task.suite))


def _most_blocks(task: MeasurementTask, amount: MeasurementAmount) -> int:
    return amount.runs or task.suite.blocks or DEFAULT_BLOCKS


@dataclass(frozen=True, slots=True)
class Attribution:
    """What finds the causes of a comparison by measuring."""

    settings: Settings
    task: MeasurementTask
    amount: MeasurementAmount
    until: float | None
    """The end of the budget (time.monotonic), which the comparison itself has a part of; None: no limit."""

    @classmethod
    def begin(cls, settings: Settings, planned: PlannedComparison) -> "Attribution":
        """To be called before the comparison is measured: the budget is for both."""
        budget = planned.amount.budget
        return cls(settings, planned.task, planned.amount, None if budget is None else time.monotonic() + budget)

    def explain(self, result: Result, progress: ProgressReporter) -> Result:
        """The result with what the counter-tests of its explanations show."""
        explanations: Sequence[ExplanationOut] = result.explanations
        count = count_counter_tests(explanations)
        if not count:
            why = "no cause has a counter-test" if explanations else "no regression was found"
            progress.note(f"--attribute: nothing to measure, {why}")
            return result
        starts = starts_of_counter_test(self.task, self.amount)
        progress.note(
            f"--attribute: at most {plural(count, 'counter-test')} of at most {plural(starts, 'server start')} each"
        )
        while (test := next_counter_test(explanations)) is not None:
            progress.note(f"counter-test: {test.text}")
            measured = self._measure(test, explanations, progress)
            if measured is None:
                progress.warn("the budget has no time for a block of this counter-test; --resume goes on")
                break
            instead = None if measured.failure is None else self._other_way_around(test)
            explanations = with_counter_test(explanations, test, measured, instead)
            if instead is not None:
                progress.note(f"  could not be measured: {measured.failure}")
            for line in _outcomes(explanations, test):
                progress.note(f"  {line}")
        return result.model_copy(update={"explanations": list(explanations)})

    def _other_way_around(self, test: CounterTestOut) -> CounterTestOut | None:
        """The baseline with the candidate's dependencies, where the candidate does not run with the baseline's."""
        versions = self.task.versions
        runs = [run for run in counted_runs(self.settings, self.task) if run.version == versions[CANDIDATE]]
        return other_way_around(test, versions[BASELINE], shared_libraries(runs))

    def _measure(
        self, test: CounterTestOut, explanations: Sequence[ExplanationOut], progress: ProgressReporter
    ) -> CounterTestMeasurement | None:
        """None: nothing was measured, because the budget has no time for it."""
        line = self.task.provisioning.command or _ENGINE_ARGS
        if self.task.provisioning.way is ProvisionMethod.COMMAND and test.engine_args and _ENGINE_ARGS not in line:
            return CounterTestMeasurement(failure=f"the launch line has no {_ENGINE_ARGS} that would take the flag")
        try:
            return self._measure_blocks(test, explanations, progress)
        except RegressGateError as error:
            return CounterTestMeasurement(failure=one_line(str(error)))

    def _measure_blocks(
        self, test: CounterTestOut, explanations: Sequence[ExplanationOut], progress: ProgressReporter
    ) -> CounterTestMeasurement | None:
        versions = self.task.versions
        tested = versions[CANDIDATE if test.side == "candidate" else BASELINE]
        task = replace(
            self.task,
            # The server with the other setting first: if it does not start, nothing else is measured.
            versions={COUNTER_TEST: tested, CANDIDATE: versions[CANDIDATE], BASELINE: versions[BASELINE]},
            counter_test=ServerSetting(test.engine_args, test.env, test.packages),
        )
        earlier = counted_runs(self.settings, self.task)
        stored, is_begun = self._held(task)
        if stored:
            progress.note(f"  {plural(len(stored), 'run is', 'runs are')} stored; nothing was measured")
            return self._judge(stored, earlier)
        left = None if self.until is None else self.until - time.monotonic()
        if left is not None and left < _block_seconds(earlier):
            return None

        def after_block(
            store: Repository, plan: ExperimentPlan, reporter: ProgressReporter
        ) -> Callable[[], str | None]:
            def analyse() -> str | None:
                measured = self._judge(find_plan_runs(plan, store), earlier)
                known = with_counter_test(explanations, test, measured)
                if not measured.from_baseline or not is_settled(known, test):
                    return None
                text = "; ".join(_outcomes(known, test))
                reporter.note(f"stopped after block {measured.blocks} of at most {plan.most_blocks}")
                return text

            return analyse

        blocks = _most_blocks(task, self.amount)
        amount = replace(
            self.amount,
            runs=None if is_begun else blocks,
            resume=is_begun,
            resume_if_any=False,
            resident=None,  # three servers at a time seldom fit
            budget=left,
        )
        made = measure_task(self.settings, task, amount, progress, most_blocks=blocks, after_block=after_block)
        if made.outcome.ending is ExperimentEnd.FAILING:
            self._end(made.plan)
        failed = next((entry.made.run for entry in made.outcome.stored if entry.made.run.failure is not None), None)
        if failed is not None and failed.failure is not None:
            cause = f": {failed.failure.lines[0]}" if failed.failure.lines else ""
            return CounterTestMeasurement(failure=one_line(f"{failed.failure.text}{cause}"))
        return self._judge(made.runs, earlier)

    def _judge(self, runs: Sequence[Run], earlier: Sequence[Run]) -> CounterTestMeasurement:
        suite = self.task.suite
        return measure_of_runs(runs, COUNTER_TEST, self.settings.policy(suite.gate), suite.conditions, earlier)

    def _held(self, task: MeasurementTask) -> tuple[list[Run], bool]:
        """The runs of a counter-test that was measured to its end before, and whether there is one to be resumed."""
        store = find_store(str(self.settings.store_url.value))
        if store is None:
            return [], False
        with store:
            if find_unfinished(store, task) is not None:
                return [], True
            plan = find_counter_test(store, task)
            runs = [] if plan is None else find_plan_runs(plan, store)
        return [] if any(run.failure is not None for run in runs) else runs, False

    def _end(self, plan: ExperimentPlan) -> None:
        """A counter-test whose server does not start is not resumed, but begun again."""
        store = find_store(str(self.settings.store_url.value))
        if store is not None:
            with store:
                store.end_experiment(plan.experiment, datetime.now(UTC))


def _block_seconds(runs: Sequence[Run]) -> float:
    """What a block of a counter-test will take, by the runs of the comparison."""
    by_group: dict[str, list[float]] = {}
    for place in (run.place for run in runs):
        if place is not None and place.seconds is not None:
            by_group.setdefault(place.group, []).append(place.seconds)
    return _SIDES * sum(map(fmean, by_group.values()))


def _outcomes(explanations: Sequence[ExplanationOut], test: CounterTestOut) -> list[str]:
    """What a counter-test shows, one line for each outcome."""
    words = {
        CounterTestOutcome.RESTORES: "restores" if test.side == "candidate" else "reproduces",
        CounterTestOutcome.DOES_NOT_RESTORE: "does not restore" if test.side == "candidate" else "does not reproduce",
        CounterTestOutcome.NOT_DECIDED: "not decided for",
        CounterTestOutcome.FAILED: "could not be measured:",
    }
    lines = []
    for one in explanations:
        for cause in one.observed:
            own = cause.counter_test
            if own is not None and own.text == test.text and own.outcome is not None:
                name = "" if own.outcome is CounterTestOutcome.FAILED else f"{one.series[0]}: "
                lines.append(f"{words[own.outcome]} {name}{own.outcome_text}")
    return list(dict.fromkeys(lines))
