"""What the verdicts mean, and that they keep their error rates."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from regress_gate.model.metric import Direction, Scale
from regress_gate.model.result import Verdict
from regress_gate.stats.comparison import Comparison, compare_series
from regress_gate.stats.design import MAX_RUNS, runs_to_resolve
from regress_gate.stats.estimate import MIN_TIMING_CV, SeriesData, estimate, to_change
from regress_gate.stats.multiplicity import holm
from tests.stats.simulation import simulated

LOWER, HIGHER = Direction.LOWER, Direction.HIGHER


def series(baseline, candidate, direction=LOWER, *, margin=0.05, scale=Scale.RATIO, gated=True, requests=0):
    return SeriesData(
        np.asarray(baseline, dtype=float),
        np.asarray(candidate, dtype=float),
        direction,
        scale,
        margin,
        gated,
        baseline_requests=requests,
        candidate_requests=requests,
    )


def judge(*data: SeriesData) -> list[Comparison]:
    return compare_series(data, false_alarm_budget=0.05, confidence=0.95, expected_cv=0.05)


def draw(rng, runs, *, cv=0.01, shift=0.0):
    return np.exp(rng.normal(shift, cv, runs))


class TestVerdicts:
    def test_a_loss_beyond_the_margin_is_a_regression(self):
        rng = np.random.default_rng(1)
        (found,) = judge(series(draw(rng, 8), draw(rng, 8, shift=math.log(1.2))))
        assert found.verdict is Verdict.REGRESSION
        assert found.change == pytest.approx(0.2, abs=0.03)
        assert found.interval[0] < found.change < found.interval[1]

    def test_an_unchanged_series_with_enough_runs_is_within_the_margin(self):
        rng = np.random.default_rng(2)
        (found,) = judge(series(draw(rng, 8), draw(rng, 8)))
        assert found.verdict is Verdict.WITHIN_MARGIN
        assert found.interval[1] < 0.05

    def test_a_gain_is_an_improvement_only_when_it_is_shown(self):
        rng = np.random.default_rng(3)
        (clear,) = judge(series(draw(rng, 8), draw(rng, 8, shift=-0.2)))
        (doubtful,) = judge(series(draw(rng, 8), draw(rng, 8, shift=-0.002)))
        assert clear.verdict is Verdict.IMPROVEMENT
        assert doubtful.verdict is Verdict.WITHIN_MARGIN

    def test_a_small_certain_loss_within_the_margin_passes(self):
        rng = np.random.default_rng(4)
        (found,) = judge(series(draw(rng, 15, cv=0.002), draw(rng, 15, cv=0.002, shift=0.03)))
        assert found.p_worse < 1e-6
        assert found.verdict is Verdict.WITHIN_MARGIN

    def test_a_loss_of_the_size_of_the_margin_is_never_within_it(self):
        rng = np.random.default_rng(5)
        passed = sum(
            judge(series(draw(rng, 10), draw(rng, 10, shift=math.log(1.05))))[0].verdict is Verdict.WITHIN_MARGIN
            for _ in range(200)
        )
        assert passed <= 200 * 0.025 + 3 * math.sqrt(200 * 0.025 * 0.975)

    def test_noise_that_hides_the_margin_is_inconclusive_and_says_how_many_runs_would_do(self):
        rng = np.random.default_rng(6)
        (found,) = judge(series(draw(rng, 4, cv=0.05), draw(rng, 4, cv=0.05)))
        assert found.verdict is Verdict.UNDECIDED
        assert found.runs_needed is not None
        assert found.runs_needed > 4

    @pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (1, 8), (8, 1)])
    def test_one_run_on_a_side_decides_nothing(self, ours, theirs):
        (found,) = judge(series(np.linspace(1, 1.01, ours), np.linspace(2, 2.01, theirs)))
        assert found.verdict is Verdict.UNDECIDED
        assert found.interval is None
        assert found.p_worse is None
        assert found.runs_needed is not None

    def test_throughput_that_falls_is_a_loss(self):
        rng = np.random.default_rng(7)
        (found,) = judge(series(draw(rng, 8), draw(rng, 8, shift=math.log(0.8)), HIGHER))
        assert found.verdict is Verdict.REGRESSION
        assert found.change == pytest.approx(0.2, abs=0.03)

    @pytest.mark.parametrize("bad", [0.0, -1.0])
    def test_a_value_that_is_not_positive_has_no_ratio_and_no_verdict(self, bad):
        (found,) = judge(series([1, 1, 1], [1, 1, bad]))
        assert found.verdict is Verdict.UNDECIDED
        assert "zero or negative" in found.notes[0]

    def test_a_series_of_one_side_only_has_no_verdict(self):
        (found,) = judge(series([1, 1, 1], []))
        assert found.verdict is Verdict.UNDECIDED
        assert found.notes == ("not measured on the candidate",)

    def test_failed_requests_are_compared_as_a_difference(self):
        (none,) = judge(series([0, 0, 0], [0, 0, 0], scale=Scale.DIFFERENCE, margin=0.01, requests=3000))
        (many,) = judge(
            series([0] * 5, [0.2, 0.21, 0.19, 0.2, 0.22], scale=Scale.DIFFERENCE, margin=0.01, requests=500)
        )
        assert none.verdict is Verdict.WITHIN_MARGIN
        assert many.verdict is Verdict.REGRESSION
        assert many.change == pytest.approx(0.204)

    def test_no_failures_among_few_requests_show_nothing_and_the_runs_needed_count_requests(self):
        (found,) = judge(series([0, 0, 0], [0, 0, 0], scale=Scale.DIFFERENCE, margin=0.01, requests=30))
        assert found.verdict is Verdict.UNDECIDED
        many = found.runs_needed
        (better,) = judge(series([0, 0, 0], [0, 0, 0], scale=Scale.DIFFERENCE, margin=0.01, requests=300))
        assert many is None or many > (better.runs_needed or 3)

    def test_equal_values_are_taken_for_quantised_ones_not_for_certainty(self):
        (found,) = judge(series([1.0, 1.0], [1.0, 1.0]))
        assert found.verdict is Verdict.WITHIN_MARGIN
        assert found.interval[0] < 0 < found.interval[1]

    def test_a_certain_loss_below_half_the_margin_is_no_regression(self):
        # Five runs on one side leave the interval wide enough to reach the margin; the p-value is small all the same.
        ours = [1.0, 1.002, 0.998, 1.001, 0.999]
        shifts = np.linspace(1.0, 1.05, 60)
        found = [judge(series(ours, np.multiply(ours, shift), margin=0.05))[0] for shift in shifts]
        assert all(one.change >= 0.025 for one in found if one.verdict is Verdict.REGRESSION)
        wide = judge(series([1, 1.01, 0.99], np.multiply([1, 1.01, 0.99], 1.09), margin=0.2))[0]
        assert wide.q_worse <= 0.05
        assert wide.change < 0.1
        assert wide.verdict in (Verdict.WITHIN_MARGIN, Verdict.UNDECIDED)

    def test_equal_timings_have_the_least_spread_that_a_machine_has(self):
        (found,) = judge(series([1.0, 1.0, 1.0], [1.0, 1.0, 1.0]))
        expected = scipy_stats.t.ppf(0.975, 4) * MIN_TIMING_CV * math.sqrt(2 / 3)
        assert found.interval[1] == pytest.approx(math.expm1(expected))

    def test_a_change_without_bound_has_no_number_that_json_lacks(self):
        found = estimate(series([1.0, 1.0], [1.0, 1e300]))
        assert to_change(found.interval(0.999)[1], series([1.0], [1.0])) == math.inf


class TestAgainstScipy:
    @pytest.mark.parametrize(("ours", "theirs"), [(3, 3), (5, 9), (2, 12)])
    def test_the_statistic_is_welchs_and_its_distribution_that_of_the_smaller_side(self, ours, theirs):
        rng = np.random.default_rng(8)
        left, right = draw(rng, ours, cv=0.05), draw(rng, theirs, cv=0.1, shift=0.1)
        welch = scipy_stats.ttest_ind(np.log(right), np.log(left), equal_var=False)
        found = estimate(series(left, right))
        freedom = min(ours, theirs) - 1
        assert found.loss / found.standard_error == pytest.approx(welch.statistic)
        assert found.p_worse() == pytest.approx(scipy_stats.t.sf(welch.statistic, freedom))
        half = scipy_stats.t.ppf(0.975, freedom) * found.standard_error
        assert found.interval(0.95) == pytest.approx((found.loss - half, found.loss + half))
        assert freedom <= welch.df


class TestErrorRates:
    """Simulated with fixed seeds; the bounds leave room for 3 standard errors of the simulation itself."""

    @pytest.mark.parametrize(
        ("runs", "cvs"),
        [
            ((2, 2), (0.05, 0.05)),
            ((3, 3), (0.005, 0.005)),
            ((5, 5), (0.05, 0.05)),
            ((10, 10), (0.005, 0.005)),
            ((2, 10), (0.05, 0.05)),
            ((3, 12), (0.1, 0.03)),
            ((3, 3), (0.02, 0.1)),
        ],
    )
    @simulated("gates", quick=25, full=400)
    def test_a_gate_of_20_unchanged_series_fails_in_at_most_5_percent(self, runs, cvs, gates):
        rng = np.random.default_rng([*runs, int(cvs[0] * 1000)])
        failed = sum(
            any(
                found.verdict is Verdict.REGRESSION
                for found in judge(
                    *(series(draw(rng, runs[0], cv=cvs[0]), draw(rng, runs[1], cv=cvs[1])) for _ in range(20))
                )
            )
            for _ in range(gates)
        )
        assert failed / gates <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / gates)

    @pytest.mark.parametrize("runs", [(2, 2), (5, 5), (10, 10), (2, 10)])
    @simulated("trials", quick=150, full=1500)
    def test_a_series_at_its_margin_is_called_within_it_in_at_most_2_5_percent(self, runs, trials):
        rng = np.random.default_rng(runs)
        shift = math.log(1.05)
        passed = sum(
            judge(series(draw(rng, runs[0], cv=0.02), draw(rng, runs[1], cv=0.02, shift=shift)))[0].verdict
            in (Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT)
            for _ in range(trials)
        )
        assert passed / trials <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / trials)

    @simulated("trials", quick=250, full=2000)
    def test_the_interval_covers_the_truth_at_least_as_often_as_it_says(self, trials):
        rng, truth = np.random.default_rng(11), 0.03
        covered = 0
        for _ in range(trials):
            (found,) = judge(series(draw(rng, 4, cv=0.03), draw(rng, 4, cv=0.03, shift=math.log1p(truth))))
            covered += found.interval[0] <= truth <= found.interval[1]
        assert covered / trials >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)

    @simulated("trials", quick=50, full=400)
    def test_the_runs_said_to_be_needed_decide_at_least_as_often_as_promised(self, trials):
        rng, cv = np.random.default_rng(12), 0.03
        runs = runs_to_resolve(math.log1p(0.05), cv, 0.025)
        decided = sum(
            judge(series(draw(rng, runs, cv=cv), draw(rng, runs, cv=cv)))[0].verdict is not Verdict.UNDECIDED
            for _ in range(trials)
        )
        assert 0.8 - 3 * math.sqrt(0.8 * 0.2 / trials) <= decided / trials <= 0.95


VALUES = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=8)


class TestProperties:
    @given(VALUES, VALUES, st.floats(1e-6, 1e6))
    def test_the_unit_does_not_matter(self, ours, theirs, factor):
        (plain,) = judge(series(ours, theirs))
        (scaled,) = judge(series(np.multiply(ours, factor), np.multiply(theirs, factor)))
        assert scaled.change == pytest.approx(plain.change, abs=1e-6)
        assert scaled.interval == pytest.approx(plain.interval, rel=1e-3, abs=1e-6)

    @given(VALUES, VALUES, st.randoms())
    def test_the_order_of_runs_does_not_matter(self, ours, theirs, random):
        (plain,) = judge(series(ours, theirs))
        random.shuffle(ours)
        random.shuffle(theirs)
        (shuffled,) = judge(series(ours, theirs))
        assert shuffled.change == pytest.approx(plain.change)
        assert shuffled.p_worse == pytest.approx(plain.p_worse, abs=1e-9)

    @given(VALUES, VALUES)
    def test_swapping_the_sides_swaps_the_sign(self, ours, theirs):
        forth, back = estimate(series(ours, theirs)), estimate(series(theirs, ours))
        assert back.loss == pytest.approx(-forth.loss, abs=1e-12)
        assert back.p_worse() == pytest.approx(1 - forth.p_worse(), abs=1e-9)

    @given(VALUES, VALUES, st.floats(1.0, 3.0))
    def test_a_slower_candidate_is_never_judged_more_kindly(self, ours, theirs, factor):
        (plain,) = judge(series(ours, theirs))
        (slower,) = judge(series(ours, np.multiply(theirs, factor)))
        assert slower.change >= plain.change - 1e-12
        assert slower.p_worse <= plain.p_worse + 1e-9

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
    def test_holm_never_lowers_a_p_value_and_keeps_their_order(self, p_values):
        adjusted = holm(p_values)
        assert all(q >= p for p, q in zip(p_values, adjusted, strict=True))
        assert all(0 <= q <= 1 for q in adjusted)
        ranked = [q for _, q in sorted(zip(p_values, adjusted, strict=True))]
        assert ranked == sorted(ranked)


def test_holm_agrees_with_the_textbook_example():
    # Four p-values: the smallest is multiplied by 4, the next by 3, and so on, never falling below an earlier one.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@pytest.mark.parametrize(
    ("gap", "sd", "runs"), [(0.05, 0.01, 3), (0.05, 0.05, 18), (0.05, 0.15, 144), (0.05, 0.2, None)]
)
def test_runs_to_resolve_grow_with_the_square_of_the_noise(gap, sd, runs):
    assert runs_to_resolve(gap, sd, 0.025) == runs


@given(st.floats(1e-4, 1.0), st.floats(1e-4, 1.0))
def test_runs_to_resolve_is_within_bounds(gap, sd):
    found = runs_to_resolve(gap, sd, 0.025)
    assert found is None or 2 <= found <= MAX_RUNS


def test_a_gap_of_nothing_cannot_be_resolved():
    assert runs_to_resolve(0.0, 0.01, 0.025) is None


class TestFamily:
    def test_series_that_do_not_gate_take_nothing_from_the_budget(self):
        rng = np.random.default_rng(13)
        gated = series(draw(rng, 4, cv=0.02), draw(rng, 4, cv=0.02, shift=0.12))
        others = [series(draw(rng, 4), draw(rng, 4), gated=False) for _ in range(50)]
        (alone,) = judge(gated)
        assert judge(gated, *others)[0].q_worse == alone.q_worse

    def test_more_gated_series_ask_for_stronger_evidence(self):
        rng = np.random.default_rng(14)
        suspect = series(draw(rng, 4, cv=0.02), draw(rng, 4, cv=0.02, shift=0.08))
        others = [series(draw(rng, 4), draw(rng, 4)) for _ in range(50)]
        assert judge(suspect, *others)[0].q_worse > judge(suspect)[0].q_worse
