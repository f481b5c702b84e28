"""The capacity as a series: from trials at several rates of each server to a verdict in words."""

import math

import pytest
from pydantic import ValidationError

from regress_gate.gate.replicates import run_level_values
from regress_gate.gate.series_comparison import carried_text
from regress_gate.model.metric import CAPACITY, PROMISE_KEY
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, ReasonCode, Verdict
from tests.factories.runs import make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides

RATES = (8.0, 9.0, 10.0, 11.0)
LUCK = (1.0, 1.01, 0.99, 1.005, 0.995)


def at_rate(rate, attainment, ordinal, *, promise=0.95, failed=0):
    completed = 400 - failed
    metrics = {"request_throughput": 7.0, "goodput": min(7.0 * attainment * 400 / completed, 7.0)}
    return make_trial(
        "chat",
        ordinal,
        completed=completed,
        failed=failed,
        workload={"request_rate": rate, "max_concurrency": None, PROMISE_KEY: promise},
        **metrics,
    )


def server(label, version, capacity, *, width=0.05, rates=RATES, **options):
    """Attainment falls with the logarithm of the rate along a logistic curve, and is 0.95 at the capacity."""
    shares = [1 / (1 + math.exp(math.log(rate / capacity) / width - math.log(19))) for rate in rates]
    trials = [
        at_rate(rate, share, at, **options) for at, (rate, share) in enumerate(zip(rates, shares, strict=True), 1)
    ]
    return make_run(label, version, *trials)


def side(version, capacity, **options):
    # Two versions with the same luck would be copies of each other.
    shuffled = LUCK if version == "0.19.0" else LUCK[2:] + LUCK[:2]
    runs = [server(str(at), version, capacity * luck * (1 + at / 1e5), **options) for at, luck in enumerate(shuffled)]
    return make_side_of(version, *runs)


def compared(candidate, *, baseline=9.5, base=None, cand=None, **options):
    result = decide_sides(
        base or side("0.19.0", baseline, **options),
        cand or side("0.19.1", candidate, **options),
        policy=Policy(metrics=(CAPACITY,)),
    )
    return result, result.series[0]


def test_the_rates_of_a_capacity_are_one_series_and_no_others():
    values = run_level_values([server("1", "0.19.0", 9.5)])
    assert set(values) == {("chat", CAPACITY)}
    assert values["chat", CAPACITY].per_run == [pytest.approx(9.5, abs=0.1)]


def test_a_loss_is_said_in_requests():
    result, series = compared(8.6)
    assert (result.decision, series.verdict) == (Decision.FAIL, Verdict.REGRESSION)
    assert series.change == pytest.approx(1 - 8.6 / 9.5, abs=0.01)
    assert series.baseline.mean == pytest.approx(9.5, abs=0.1)
    reason = result.reasons[0]
    assert reason.code is ReasonCode.REGRESSION
    assert reason.text.startswith(
        "chat/max_load@slo: at your promise the candidate carries 10 % [9, 10] fewer requests"
    )
    assert series.notes[0] in reason.text


def test_an_unchanged_version_is_within_the_margin():
    result, series = compared(9.5)
    assert (result.decision, series.verdict) == (Decision.PASS, Verdict.WITHIN_MARGIN)


def test_a_candidate_that_keeps_the_promise_at_no_rate_has_lost_at_least_what_the_rates_show():
    result, series = compared(5.0)
    assert (result.decision, series.verdict) == (Decision.FAIL, Verdict.REGRESSION)
    assert series.change == pytest.approx(1 - 8 / 9.5, abs=0.02)
    assert "no end] fewer requests" in result.reasons[0].text
    assert (
        "5 of 5 starts of the candidate kept the promise at no rate, so their capacity is only bounded" in series.notes
    )


def test_a_candidate_that_keeps_it_at_every_rate_carries_more():
    result, series = compared(15.0)
    assert (result.decision, series.verdict) == (Decision.PASS, Verdict.IMPROVEMENT)
    assert "no end] more requests" in series.notes[0]


def test_where_no_server_of_either_side_loses_the_promise_nothing_is_shown():
    result, series = compared(15.0, baseline=15.0)
    assert (result.decision, series.verdict) == (Decision.INCONCLUSIVE, Verdict.UNDECIDED)
    assert any("lie on one side" in note for note in series.notes)


def test_failed_requests_count_against_the_promise():
    ok, failing = (
        run_level_values([server("1", "0.19.0", 9.5, failed=failed)])["chat", CAPACITY].per_run[0] for failed in (0, 40)
    )
    assert failing < ok


def test_a_cliff_is_said():
    _, series = compared(9.5, width=0.005)
    assert any(
        note.startswith("the baseline and the candidate fall off a cliff: just above it") for note in series.notes
    )
    assert not any("cliff" in note for note in compared(9.5)[1].notes)


def test_sides_that_were_sent_other_rates_are_not_compared():
    result, _ = compared(0, base=side("0.19.0", 9.5), cand=side("0.19.1", 9.5, rates=(8.1, 9.1, 10.1, 11.1)))
    assert result.decision is Decision.INCONCLUSIVE
    assert "request_rate differs" in result.reasons[0].text


@pytest.mark.parametrize("promise", ["0.95", 1.5, 0.0, None])
def test_a_promise_that_is_none_gives_no_capacity(promise):
    assert not run_level_values([server("1", "0.19.0", 9.5, promise=promise)])


def test_a_capacity_has_no_limit_of_its_own():
    with pytest.raises(ValidationError, match="promise slo_attainment in a scenario"):
        Policy(slo={CAPACITY: 40})


@pytest.mark.parametrize(
    ("change", "interval", "text"),
    [
        (0.12, (0.08, 0.15), "12 % [8, 15] fewer"),
        (-0.12, (-0.15, -0.08), "12 % [8, 15] more"),
        (0.02, (-0.01, 0.05), "2 % [-1, 5] fewer"),
        (0.2, (0.1, None), "20 % [10, no end] fewer"),
        (0.2, None, "20 % fewer"),
    ],
)
def test_a_change_of_capacity_in_words(change, interval, text):
    assert carried_text(change, interval) == f"at your promise the candidate carries {text} requests"


def test_without_a_change_there_are_no_words():
    assert carried_text(None, None) is None
