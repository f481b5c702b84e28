"""What a counter-test shows: of three servers side by side, whether the setting restores the old behaviour."""

from dataclasses import replace

import pytest

from regress_gate.gate.audit.counter_tests import (
    CounterTestMeasurement,
    count_counter_tests,
    is_settled,
    measure_of_runs,
    next_counter_test,
    with_counter_test,
)
from regress_gate.model.policy import Policy
from regress_gate.model.result import CounterTestOut, CounterTestOutcome, ExplanationOut
from regress_gate.model.run import BlockPosition
from regress_gate.model.suite import ConditionLimits
from tests.factories.results import a_cause
from tests.factories.runs import make_run, make_trial

TESTED = "counter_test"
RIPPLE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0)


def made(baseline, tested, candidate, *, blocks=5, void=(), metrics=("ttft_median",)):
    """The runs of so many blocks, by the level of each side; `void` are (block, side)."""
    runs = []
    for block in range(1, blocks + 1):
        levels = {"baseline": baseline, TESTED: tested, "candidate": candidate}
        for position, (side, level) in enumerate(levels.items(), 1):
            value = level * RIPPLE[(block + position) % len(RIPPLE)]
            run = make_run(
                f"{block}-{side}",
                "0.19.0" if side == "baseline" else "0.19.1",
                make_trial("c16", **dict.fromkeys(metrics, value)),
                place=BlockPosition("e1", block, position, side),
                void="too hot" if (block, side) in void else None,
            )
            runs.append(run)
    return runs


def measured(*levels, **more):
    return measure_of_runs(made(*levels, **more), TESTED, Policy(), ConditionLimits(), ())


def a_test(side="candidate", **more):
    given = {"side": side, "text": "0.19.1 with --moe-backend triton", "engine_args": {"moe_backend": "triton"}}
    return CounterTestOut(**{**given, "command": "regress-gate compare …", **more})


def an_explanation(*causes, series=("c16/ttft_median",)):
    return ExplanationOut(series=list(series), issue=None, observed=list(causes))


def outcome(measurement, side="candidate", **more):
    test = a_test(side)
    (one,) = with_counter_test([an_explanation(a_cause(counter_test=test), **more)], test, measurement)
    (cause,) = one.observed
    return one.measured, cause.counter_test.outcome


@pytest.mark.parametrize(
    ("side", "levels", "expected"),
    [
        ("candidate", (0.1, 0.1, 0.15), CounterTestOutcome.RESTORES),
        ("candidate", (0.1, 0.15, 0.15), CounterTestOutcome.DOES_NOT_RESTORE),
        ("candidate", (0.1, 0.125, 0.15), CounterTestOutcome.DOES_NOT_RESTORE),  # a part of the loss is left
        ("candidate", (0.1, 0.1, 0.1), CounterTestOutcome.NOT_DECIDED),  # there is no loss to restore
        ("baseline", (0.1, 0.15, 0.15), CounterTestOutcome.RESTORES),
        ("baseline", (0.1, 0.1, 0.15), CounterTestOutcome.DOES_NOT_RESTORE),
    ],
)
def test_the_tested_server_restores_the_loss_or_not(side, levels, expected) -> None:
    is_measured, found = outcome(measured(*levels), side)
    assert found is expected
    assert is_measured is (expected is CounterTestOutcome.RESTORES)


def test_one_block_shows_nothing() -> None:
    measurement = measured(0.1, 0.1, 0.15, blocks=1)
    assert measurement.from_baseline == {}
    assert outcome(measurement) == (False, CounterTestOutcome.NOT_DECIDED)


def test_only_blocks_in_which_all_three_count_are_compared() -> None:
    assert measured(0.1, 0.1, 0.15, void=[(1, "baseline"), (2, TESTED), (3, "candidate")]).blocks == 2


def test_a_side_without_a_run_shows_nothing() -> None:
    runs = [run for run in made(0.1, 0.1, 0.15) if run.place.side != "baseline"]
    assert measure_of_runs(runs, TESTED, Policy(), ConditionLimits(), ()).blocks == 0


def test_a_failure_confirms_nothing_whatever_was_measured() -> None:
    assert outcome(CounterTestMeasurement(failure="died at start")) == (False, CounterTestOutcome.FAILED)


def test_every_regression_of_an_explanation_must_be_restored() -> None:
    measurement = measured(0.1, 0.1, 0.15)
    series = ("c16/ttft_median", "c16/tpot_median")
    assert outcome(measurement, series=series) == (False, CounterTestOutcome.NOT_DECIDED)


def test_metrics_that_do_not_gate_decide_only_where_none_gates() -> None:
    """Here a p99 scatters too much to be decided."""
    runs = made(0.1, 0.1, 0.15)
    for at, run in enumerate(runs):
        (trial,) = run.trials
        loud = make_trial("c16", ttft_median=trial.metrics["ttft_median"], ttft_p99=0.1 * (1 + at * 7 % 5))
        runs[at] = replace(run, trials=(loud,))
    series = ("c16/ttft_median", "c16/ttft_p99")
    for gated, expected in (
        (("ttft_median",), CounterTestOutcome.RESTORES),
        (("itl_*",), CounterTestOutcome.NOT_DECIDED),
    ):
        measurement = measure_of_runs(runs, TESTED, Policy(metrics=gated), ConditionLimits(), ())
        assert outcome(measurement, series=series) == (expected is CounterTestOutcome.RESTORES, expected)


def test_the_numbers_stand_with_the_outcome() -> None:
    test = a_test()
    (one,) = with_counter_test([an_explanation(a_cause(counter_test=test))], test, measured(0.1, 0.1, 0.15))
    (shown,) = one.observed[0].counter_test.measured
    assert shown.to_candidate.change == pytest.approx(0.5, abs=0.03)
    assert shown.to_candidate.interval[0] < 0.5 < shown.to_candidate.interval[1]
    assert shown.from_baseline.runs == 5
    assert shown.to_candidate.text in one.observed[0].counter_test.outcome_text
    assert "5 blocks" in one.observed[0].counter_test.outcome_text


def test_the_likeliest_cause_is_tested_first_and_the_next_only_if_it_is_not_the_one() -> None:
    first, second = a_test(), a_test(engine_args={"enforce_eager": False})
    explanation = an_explanation(
        a_cause(counter_test=None, weight=0.9),
        a_cause(counter_test=second, weight=0.3),
        a_cause(counter_test=first, weight=0.8),
    )
    assert count_counter_tests([explanation, explanation]) == 2
    assert next_counter_test([explanation]) == first
    refuted = with_counter_test([explanation], first, measured(0.1, 0.15, 0.15))
    assert is_settled(refuted, first)
    assert next_counter_test(refuted) == second
    confirmed = with_counter_test(refuted, second, measured(0.1, 0.1, 0.15))
    assert next_counter_test(confirmed) is None
    assert confirmed[0].observed[0].counter_test.engine_args == second.engine_args


def test_a_cause_of_two_explanations_is_measured_once_for_both() -> None:
    test = a_test()
    explanations = [
        an_explanation(a_cause(counter_test=test), series=(f"c16/{name}",)) for name in ("ttft_median", "tpot_median")
    ]
    known = with_counter_test(explanations, test, measured(0.1, 0.1, 0.15))
    assert [one.measured for one in known] == [True, False]
    assert next_counter_test(known) is None
    assert not is_settled(known, test)
