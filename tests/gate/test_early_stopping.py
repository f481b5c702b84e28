"""Stopping for futility: only where more blocks clearly cannot decide, and never while a regression is likely."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit
from scipy.stats import binomtest

from regress_gate.gate.early_stopping import why_futile
from regress_gate.model.metric import Direction, metric
from regress_gate.model.result import SeriesResult, Verdict
from tests.factories.results import a_series

LOWER, HIGHER = "tpot_median", "output_throughput"


def measured(
    loss: float, spread: float, runs: int, *, name: str = LOWER, scenario: str = "c16", margin: float = 0.05
) -> SeriesResult:
    """What a plain t interval says of an estimated loss (in logarithms), from so many runs a side that scatter so."""
    error = spread * math.sqrt(2 / runs)
    half = float(stdtrit(runs - 1, 0.975)) * error
    sign = 1 if metric(name).direction is Direction.LOWER else -1
    change, low, high = (sign * math.expm1(sign * each) for each in (loss, loss - half, loss + half))
    series = a_series(
        scenario,
        name,
        change=change,
        interval=(low, high),
        verdict=Verdict.UNDECIDED,
        runs=(runs, runs),
        cv=(spread, spread),
        margin=margin,
    )
    return series.model_copy(update={"p_worse": float(stdtr(runs - 1, -loss / error))})


def futile(*series: SeriesResult, made: int = 3, most: int = 8) -> str | None:
    return why_futile(series, made=made, most=most)


class TestOutOfReach:
    def test_a_series_that_scatters_too_much_for_its_margin_is(self) -> None:
        assert futile(measured(0.0, 0.22, 3)) == (
            "c16/tpot_median cannot be shown within its margin with 8 blocks (spread 22%)"
        )

    def test_the_same_holds_for_what_should_be_high(self) -> None:
        assert futile(measured(0.0, 0.22, 3, name=HIGHER)) is not None

    def test_one_such_series_is_enough_because_a_pass_needs_all(self) -> None:
        steady = [measured(0.0, 0.03, 3, scenario=f"c{n}") for n in range(5)]
        assert futile(*steady) is None
        assert futile(*steady, measured(0.0, 0.3, 3, scenario="c64")) is not None

    def test_the_worst_of_several_is_named_and_the_others_are_counted(self) -> None:
        found = futile(*(measured(0.0, spread, 3, scenario=f"c{spread}") for spread in (0.3, 0.5, 0.4)))
        assert found == "c0.5/tpot_median and 2 more cannot be shown within their margins with 8 blocks (spread 50%)"

    def test_a_spread_that_the_blocks_which_are_left_will_average_out_is_not(self) -> None:
        assert futile(measured(0.0, 0.1, 3), most=40) is None

    def test_few_blocks_say_so_little_of_the_spread_that_only_the_plainest_is(self) -> None:
        assert futile(measured(0.0, 0.07, 2), made=2) is None
        assert futile(measured(0.0, 0.07, 4), made=4) is not None
        assert futile(measured(0.0, 0.22, 2), made=2) is not None

    def test_what_looks_faster_can_be_shown_within_its_margin_all_the_same(self) -> None:
        assert futile(measured(0.0, 0.2, 4), made=4) is not None
        assert futile(measured(-0.15, 0.2, 4), made=4) is None

    def test_what_looks_slower_may_yet_turn_out_to_be_unchanged(self) -> None:
        """The half-width alone must fit: that the estimate is a loss is no reason to stop."""
        assert futile(measured(0.02, 0.04, 4), made=4, most=6) is None
        assert futile(measured(0.03, 0.05, 4), made=4, most=8) is None

    def test_of_fractions_no_relative_spread_is_reported(self) -> None:
        failing = a_series("c16", "failed_requests", change=0.0, interval=(-0.5, 0.5), margin=0.01)
        assert futile(failing, made=5) == "c16/failed_requests cannot be shown within its margin with 8 blocks"


class TestInSight:
    def test_a_loss_of_half_the_margin_that_is_no_mere_chance_is_measured_on(self) -> None:
        out_of_reach, losing = measured(0.0, 0.3, 3), measured(0.05, 0.04, 3, scenario="c1")
        assert losing.p_worse is not None
        assert losing.p_worse < 0.2
        assert futile(out_of_reach) is not None
        assert futile(out_of_reach, losing) is None

    def test_a_loss_below_half_the_margin_can_be_no_regression_and_holds_up_nothing(self) -> None:
        small = measured(0.02, 0.005, 3, scenario="c1")
        assert futile(measured(0.0, 0.3, 3), small) is not None

    def test_a_loss_that_may_be_mere_chance_holds_up_nothing(self) -> None:
        assert futile(measured(0.0, 0.3, 3), measured(0.03, 0.1, 3, scenario="c1")) is not None

    def test_a_series_may_fail_itself(self) -> None:
        assert futile(measured(0.5, 0.3, 3)) is None


class TestUnknown:
    def test_a_series_without_an_interval_is_no_reason_to_stop(self) -> None:
        assert futile(a_series(interval=None, change=None, verdict=Verdict.UNDECIDED)) is None

    def test_an_interval_without_end_is_no_reason_to_stop(self) -> None:
        assert futile(a_series(interval=(-0.5, None), verdict=Verdict.UNDECIDED)) is None

    def test_a_series_that_has_a_value_in_one_block_only_is_no_reason_to_stop(self) -> None:
        assert futile(a_series(interval=(-0.9, 0.9), runs=(1, 5))) is None

    def test_a_bound_at_which_everything_is_lost_is_no_error(self) -> None:
        assert futile(a_series("c1", HIGHER, change=0.0, interval=(-0.9, 1.0))) is not None
        assert futile(a_series("c1", HIGHER, change=1.0, interval=(1.0, 1.0))) is None


SPREADS = st.floats(0.005, 2.0)


@given(loss=st.floats(-0.2, 0.2), spread=SPREADS, wider=st.floats(1.0, 5.0), runs=st.integers(2, 9))
def test_more_spread_never_brings_a_pass_nearer(loss: float, spread: float, wider: float, runs: int) -> None:
    if loss <= 0 and futile(measured(loss, spread, runs), made=runs, most=10):
        assert futile(measured(loss, spread * wider, runs), made=runs, most=10)


@given(spread=SPREADS, runs=st.integers(2, 9), more=st.integers(0, 30))
def test_what_a_long_plan_cannot_show_a_short_one_cannot(spread: float, runs: int, more: int) -> None:
    if futile(measured(0.0, spread, runs), made=runs, most=10 + more):
        assert futile(measured(0.0, spread, runs), made=runs, most=10)


@given(loss=st.floats(-0.1, 0.02) | st.floats(0.03, 0.1), spread=SPREADS, runs=st.integers(2, 9))
def test_which_direction_is_better_makes_no_difference(loss: float, spread: float, runs: int) -> None:
    """The same loss in logarithms, against the margin in logarithms; half of it is not quite the same change."""
    ours = measured(loss, spread, runs, margin=math.expm1(0.05))
    theirs = measured(loss, spread, runs, name=HIGHER, margin=-math.expm1(-0.05))
    assert (futile(ours, made=runs, most=12) is None) == (futile(theirs, made=runs, most=12) is None)


class Simulated:
    """Experiments of eight blocks in which nothing changed, each judged by a plain t interval after every block."""

    MOST = 8

    def __init__(self, spread: float, experiments: int) -> None:
        rng = np.random.default_rng(20261121)
        self.stopped: list[int] = []
        """After which block, where it was before the last."""
        self.regretted = 0
        """Of those, how many the last block would have shown to be within the margin."""
        for _ in range(experiments):
            sides = rng.normal(0, spread, (2, self.MOST))
            stop = next((n for n in range(2, self.MOST) if futile(self.judged(sides[:, :n]), made=n)), None)
            if stop is not None:
                self.stopped.append(stop)
                self.regretted += self.is_shown(self.judged(sides))

    @staticmethod
    def judged(sides: np.ndarray) -> SeriesResult:
        spread = math.sqrt(float(sides.var(axis=1, ddof=1).mean()))
        return measured(float(sides[1].mean() - sides[0].mean()), spread, sides.shape[1])

    @staticmethod
    def is_shown(series: SeriesResult) -> bool:
        assert series.interval is not None
        assert series.interval[1] is not None
        return series.interval[1] < series.margin


@pytest.mark.parametrize("spread", [0.03, 0.05, 0.06, 0.08, 0.1])
def test_hardly_any_experiment_is_stopped_that_would_have_passed(spread: float) -> None:
    """Spreads with which eight blocks show a margin of 5 % nearly always down to hardly ever. Of the last, luck alone
    lets some pass that no prediction can foresee."""
    found = Simulated(spread, 400)
    assert binomtest(found.regretted, 400).proportion_ci(0.99).low < 0.025, found.regretted


def test_a_spread_of_four_times_the_margin_is_mostly_seen_to_be_hopeless_halfway() -> None:
    """The others look, as far as they go, as if there were a regression."""
    found = Simulated(0.2, 200)
    assert binomtest(len(found.stopped), 200).proportion_ci(0.99).high > 0.8, len(found.stopped)
    assert np.median(found.stopped) <= 4
