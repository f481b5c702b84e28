"""What a counter-test shows: whether a server with the other setting behaves as the other side does.

Three servers are measured in the same blocks: the baseline, the candidate, and one of them with the other setting. Two
comparisons say what the setting does, with the verdicts of any comparison: from the baseline to the tested server, and
from there to the candidate. A candidate with the baseline's setting restores the old behaviour where the first is
within its margin and the second is a regression. Where the baseline was given what the candidate has, the first must be
the regression and the second within its margin. Not for measuring, and not for the verdict of a comparison.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from regress_gate.gate.series_comparison import compare_all_series
from regress_gate.gate.sides import ComparisonSide, make_side
from regress_gate.model.policy import Policy
from regress_gate.model.result import (
    CounterTestOut,
    CounterTestOutcome,
    CounterTestSeriesOut,
    ExplanationOut,
    MeasuredChangeOut,
    ObservedCauseOut,
    SeriesResult,
    Verdict,
)
from regress_gate.model.run import Run
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Version
from regress_gate.stats.design import FIRST_ANALYSIS
from regress_gate.text import plural

_NOT_WORSE = (Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT)


@dataclass(frozen=True, slots=True)
class CounterTestMeasurement:
    """What was measured of a counter-test."""

    blocks: int = 0
    """In which all three servers count."""
    from_baseline: Mapping[str, SeriesResult] = field(default_factory=dict)
    """From the baseline to the tested server, by the name of the series; empty before the first analysis."""
    to_candidate: Mapping[str, SeriesResult] = field(default_factory=dict)
    """From the tested server to the candidate."""
    failure: str | None = None
    """Why it could not be measured, in one line."""


def measure_of_runs(
    runs: Sequence[Run], tested: str, policy: Policy, limits: ConditionLimits, earlier: Sequence[Run]
) -> CounterTestMeasurement:
    """What the runs of a counter-test show. `tested` is the side of the plan that has the other setting; `earlier` are
    runs of the suite itself, which show the usual spread."""
    sides = [_side(runs, name, limits) for name in ("baseline", tested, "candidate")]
    shared = set.intersection(*({_block(run) for run in side} for side in sides))
    blocks = len({block for _, block, _ in shared})
    if blocks < FIRST_ANALYSIS:
        return CounterTestMeasurement(blocks)
    kept = [
        ComparisonSide(side[0].version, own := tuple(run for run in side if _block(run) in shared), own, ())
        for side in sides
    ]
    from_baseline, to_candidate = (
        {
            one.name: one
            for one in compare_all_series(left, right, policy, paired=True, earlier=earlier).series
            if one.change is not None
        }
        for left, right in itertools.pairwise(kept)
    )
    return CounterTestMeasurement(blocks, from_baseline, to_candidate)


def _side(runs: Sequence[Run], name: str, limits: ConditionLimits) -> tuple[Run, ...]:
    """The runs of a side of the plan that count."""
    own = [run for run in runs if run.place is not None and run.place.side == name]
    return make_side(own[0].version, own, limits).counted if own else ()


def _block(run: Run) -> tuple[str, int, str]:
    place = run.place
    return ("", 0, "") if place is None else (place.experiment, place.block, place.group)


def next_counter_test(explanations: Sequence[ExplanationOut]) -> CounterTestOut | None:
    """That of the likeliest cause that was not measured, of an explanation without a confirmed cause; None: no more."""
    causes = [
        cause
        for one in explanations
        if not one.measured
        for cause in one.observed
        if cause.counter_test is not None and cause.counter_test.outcome is None
    ]
    likeliest = max(causes, key=lambda cause: cause.weight, default=None)
    return None if likeliest is None else likeliest.counter_test


def count_counter_tests(explanations: Sequence[ExplanationOut]) -> int:
    """Those that differ in what they set, of all explanations. One of dependencies may be made the other way around,
    too."""
    tests = [cause.counter_test for one in explanations for cause in one.observed if cause.counter_test is not None]
    different = [test for at, test in enumerate(tests) if not any(_is_same(test, other) for other in tests[:at])]
    return sum(2 if test.packages else 1 for test in different)


def other_way_around(test: CounterTestOut, baseline: Version, libraries: Mapping[str, str]) -> CounterTestOut | None:
    """The baseline with the candidate's dependencies, for where the candidate does not run with those of the baseline.

    `libraries` are the candidate's. None for a test without dependencies, and for one that is of the baseline already.
    """
    if test.side == "baseline" or not test.packages or not test.packages.keys() <= libraries.keys():
        return None
    packages = {name: libraries[name] for name in test.packages}
    words = " and ".join(f"{name} {number}" for name, number in packages.items())
    return test.model_copy(update={"side": "baseline", "text": f"{baseline} with {words}", "packages": packages})


def with_counter_test(
    explanations: Sequence[ExplanationOut],
    test: CounterTestOut,
    measured: CounterTestMeasurement,
    instead: CounterTestOut | None = None,
) -> list[ExplanationOut]:
    """The explanations with what the counter-test shows of each. A cause that it confirms comes first.

    `instead` takes the place of a counter-test that could not be measured, whose failure becomes evidence.
    """
    return [_with_outcome(one, test, measured, instead) for one in explanations]


def is_settled(explanations: Sequence[ExplanationOut], test: CounterTestOut) -> bool:
    """Whether more blocks of the counter-test would show nothing more: it has an answer for each explanation."""
    outcomes = [
        cause.counter_test.outcome
        for one in explanations
        for cause in one.observed
        if cause.counter_test is not None and _is_same(cause.counter_test, test)
    ]
    return CounterTestOutcome.NOT_DECIDED not in outcomes


def _with_outcome(
    explanation: ExplanationOut, test: CounterTestOut, measured: CounterTestMeasurement, instead: CounterTestOut | None
) -> ExplanationOut:
    confirmed: list[ObservedCauseOut] = []
    others: list[ObservedCauseOut] = []
    for cause in explanation.observed:
        own = cause.counter_test
        if own is None or not _is_same(own, test):
            others.append(cause)
            continue
        if measured.failure is not None and instead is not None:
            evidence = [*cause.evidence, f"{own.text} could not be measured: {measured.failure}"]
            others.append(cause.model_copy(update={"counter_test": instead, "evidence": evidence}))
            continue
        # A series that was not measured of all three servers shows nothing.
        names = [
            name for name in explanation.series if name in measured.from_baseline and name in measured.to_candidate
        ]
        series = [_series_out(name, own, measured) for name in names]
        # Metrics that do not gate scatter most, such as the p99 of few requests, and decide only where none gates.
        gated = [one for one in series if measured.from_baseline[one.series].gated]
        unmeasured = len(explanation.series) - len(series)
        outcome = _outcome(gated or series, len(gated or series) + unmeasured, measured)
        text = measured.failure or _text(gated or series, outcome, measured.blocks)
        update = {"outcome": outcome, "outcome_text": text, "measured": series}
        tested = cause.model_copy(update={"counter_test": own.model_copy(update=update)})
        (confirmed if outcome is CounterTestOutcome.RESTORES else others).append(tested)
    is_measured = explanation.measured or bool(confirmed)
    return explanation.model_copy(update={"observed": [*confirmed, *others], "measured": is_measured})


def _is_same(one: CounterTestOut, other: CounterTestOut) -> bool:
    settings = [(test.side, test.engine_args, test.env, test.packages) for test in (one, other)]
    return settings[0] == settings[1]


def _series_out(name: str, test: CounterTestOut, measured: CounterTestMeasurement) -> CounterTestSeriesOut:
    changes = measured.from_baseline[name], measured.to_candidate[name]
    alike, worse = changes if test.side == "candidate" else changes[::-1]
    outcome = CounterTestOutcome.NOT_DECIDED
    if alike.verdict is Verdict.REGRESSION:
        outcome = CounterTestOutcome.DOES_NOT_RESTORE
    elif alike.verdict in _NOT_WORSE and worse.verdict is Verdict.REGRESSION:
        outcome = CounterTestOutcome.RESTORES
    return CounterTestSeriesOut(
        series=name, outcome=outcome, from_baseline=_change_out(changes[0]), to_candidate=_change_out(changes[1])
    )


def _change_out(one: SeriesResult) -> MeasuredChangeOut:
    return MeasuredChangeOut(
        change=one.change,
        interval=one.interval,
        verdict=one.verdict,
        runs=min(one.baseline.runs, one.candidate.runs),
        text=one.size_text,
    )


def _outcome(
    series: Sequence[CounterTestSeriesOut], wanted: int, measured: CounterTestMeasurement
) -> CounterTestOutcome:
    """The regressions of an explanation are restored if each that decides is."""
    if measured.failure is not None:
        return CounterTestOutcome.FAILED
    outcomes = [one.outcome for one in series]
    if CounterTestOutcome.DOES_NOT_RESTORE in outcomes:
        return CounterTestOutcome.DOES_NOT_RESTORE
    if len(outcomes) == wanted and set(outcomes) == {CounterTestOutcome.RESTORES}:
        return CounterTestOutcome.RESTORES
    return CounterTestOutcome.NOT_DECIDED


def _text(series: Sequence[CounterTestSeriesOut], outcome: CounterTestOutcome, blocks: int) -> str:
    """The numbers of the first series that has the outcome of all."""
    decisive = next((one for one in series if one.outcome is outcome), None)
    if decisive is None:
        return f"{plural(blocks, 'whole block')}, which show nothing yet"
    first, then = decisive.from_baseline.text, decisive.to_candidate.text
    return (
        f"{decisive.series} {first} from the baseline to it, {then} from it to the candidate; {plural(blocks, 'block')}"
    )
