"""Estimates of contrasts: compared with textbook tests where there are any, else by behaviour."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from scipy.stats import binomtest

from regress_gate.stats.contrasts import ContrastEvidence, Measurements, SessionSpread, deviations_of, weigh_contrasts

TINY = 1e-12


def values(seed, runs, series=1, sd=1.0):
    return np.random.default_rng(seed).normal(0, sd, (runs, series))


def each_alone(found: Measurements, floor=TINY) -> ContrastEvidence:
    series = found.baseline.shape[1]
    return weigh_contrasts(found, np.eye(series), np.full(series, floor))


class TestOneSeriesAgainstTheTextbook:
    def test_blocks_have_the_paired_t_test(self):
        ours, theirs = values(1, 6), values(2, 6) + 0.5
        found = each_alone(Measurements(ours, theirs, paired=True))
        expected = scipy_stats.ttest_rel(theirs[:, 0], ours[:, 0], alternative="greater")
        assert found.p_above(0.0)[0] == pytest.approx(expected.pvalue)
        assert found.estimate[0] == pytest.approx((theirs - ours).mean())
        half = float(found.limit(0.05)[0])
        low, high = expected.confidence_interval(0.95)
        assert found.estimate[0] - half == pytest.approx(low)
        assert high == np.inf

    def test_sides_that_scatter_alike_have_nearly_the_pooled_t_test(self):
        ours = np.array([[0.0], [1.0], [2.0]])
        found = each_alone(Measurements(ours, ours + 1.5))
        expected = scipy_stats.ttest_ind(ours[:, 0] + 1.5, ours[:, 0], alternative="greater")
        assert found.freedom == pytest.approx(4)
        assert found.p_above(0.0)[0] == pytest.approx(expected.pvalue)

    def test_sides_that_scatter_unlike_have_welchs_test(self):
        ours, theirs = np.array([[0.0], [1.0], [2.0], [4.0]]), np.array([[3.0], [9.0], [-2.0], [5.0]])
        found = each_alone(Measurements(ours, theirs))
        expected = scipy_stats.ttest_ind(theirs[:, 0], ours[:, 0], equal_var=False, alternative="greater")
        assert found.p_above(0.0)[0] == pytest.approx(expected.pvalue)

    def test_unequal_numbers_of_runs_have_welchs_statistic_with_the_freedom_of_the_fewer(self):
        ours, theirs = values(3, 3), values(4, 9) + 1
        statistic = scipy_stats.ttest_ind(theirs[:, 0], ours[:, 0], equal_var=False).statistic
        found = each_alone(Measurements(ours, theirs))
        assert found.freedom.tolist() == [2]
        assert found.p_above(0.0)[0] == pytest.approx(scipy_stats.t.sf(statistic, 2))

    def test_earlier_sessions_are_pooled_as_an_analysis_of_variance_pools_them(self):
        ours, theirs = values(5, 3, sd=0.5), values(6, 3, sd=0.5)
        earlier = tuple(values(10 + n, 4) + 10 * n for n in range(4))
        found = each_alone(Measurements(ours, theirs, paired=True, earlier=earlier))
        halves = (theirs - ours) / np.sqrt(2)
        squares = sum(((each - each.mean()) ** 2).sum() for each in (halves, *earlier))
        assert found.freedom.tolist() == [2 + 4 * 3]
        assert found.run_variance[0] == pytest.approx(squares / (2 + 4 * 3))
        error = np.sqrt(found.run_variance[0] * 2 / 3)
        assert found.p_above(0.0)[0] == pytest.approx(scipy_stats.t.sf(found.estimate[0] / error, 14))


class TestHistory:
    def test_a_day_that_is_much_louder_than_all_before_is_judged_by_itself(self):
        quiet = tuple(values(n, 4, 5, sd=0.1) for n in range(5))
        ours, theirs = values(20, 5, 5), values(21, 5, 5)
        with_history = each_alone(Measurements(ours, theirs, earlier=quiet))
        without = each_alone(Measurements(ours, theirs))
        assert with_history.run_variance == pytest.approx(without.run_variance, rel=0.6)
        assert (with_history.run_variance > 0.1).all()

    def test_sessions_of_one_run_say_nothing_of_the_spread(self):
        ours, theirs = values(22, 4, 3), values(23, 4, 3)
        lone = tuple(values(30 + n, 1, 3) for n in range(5))
        with_them = each_alone(Measurements(ours, theirs, earlier=lone))
        assert with_them.run_variance.tolist() == each_alone(Measurements(ours, theirs)).run_variance.tolist()

    def test_offsets_between_earlier_sessions_count_only_where_the_sides_were_apart(self):
        sessions = tuple(values(40 + n, 4, 3, sd=0.1) + offset for n, offset in enumerate((-1.0, 0.5, 1.0, -0.5, 0.2)))
        ours, theirs = values(24, 4, 3, sd=0.1), values(25, 4, 3, sd=0.1) + 0.5
        together = each_alone(Measurements(ours, theirs, earlier=sessions))
        apart = each_alone(Measurements(ours, theirs, apart=True, earlier=sessions))
        assert (together.p_above(0.0) < 1e-4).all()
        assert (apart.p_above(0.0) > 0.05).all()
        assert (apart.limit(0.05) > 3 * together.limit(0.05)).all()

    def test_two_earlier_sessions_are_too_few_to_know_how_far_sessions_lie_apart(self):
        sessions = tuple(values(50 + n, 4, 3, sd=0.1) + n for n in range(2))
        found = each_alone(Measurements(values(26, 4, 3), values(27, 4, 3), apart=True, earlier=sessions))
        assert found.sessions.ratios.tolist() == [0.0]


class TestANoisySeries:
    """One scenario of ten scatters three times as much as the others, as a saturated one does. That it does so is told
    by few runs, so eight in a hundred are allowed for where five are asked."""

    @pytest.mark.parametrize("history", [0, 10])
    def test_is_called_worse_no_more_often_than_it_should_be(self, history):
        rng, trials, called = np.random.default_rng([70, history]), 800, 0
        spread = np.array([0.03] + [0.01] * 9)

        def runs(count):
            return spread * (rng.normal(size=(count, 1)) + rng.normal(size=(count, 10))) / np.sqrt(2)

        for _ in range(trials):
            found = Measurements(runs(3), runs(3), earlier=tuple(runs(2) for _ in range(history)))
            called += each_alone(found).p_above(0.0)[0] <= 0.05
        assert binomtest(int(called), trials, 0.08, alternative="greater").pvalue > 1e-4, called


class TestEvidence:
    def test_what_the_sessions_may_be_is_averaged_over(self):
        found = ContrastEvidence(
            np.array([2.0]),
            np.array([1.0]),
            np.array([9.0]),
            0.5,
            SessionSpread(np.array([0, 1]), np.array([0.6, 0.4])),
        )
        errors = np.sqrt([0.5, 2.5])
        expected = 0.6 * scipy_stats.t.sf(2 / errors[0], 9) + 0.4 * scipy_stats.t.sf(2 / errors[1], 9)
        assert found.p_above(0.0)[0] == pytest.approx(expected)

    @given(st.floats(-5, 5), st.floats(0.01, 10), st.floats(1, 100), st.floats(0.001, 0.2))
    def test_the_limit_is_where_the_p_value_is_the_tail(self, estimate, variance, freedom, tail):
        known = SessionSpread(np.array([0.0, 2.0]), np.array([0.3, 0.7]))
        found = ContrastEvidence(np.array([estimate]), np.array([variance]), np.array([freedom]), 0.5, known)
        upper = found.estimate + found.limit(tail)
        assert found.p_below(upper)[0] == pytest.approx(tail, rel=1e-6)
        assert found.p_above(found.estimate - found.limit(tail))[0] == pytest.approx(tail, rel=1e-6)

    @given(st.floats(-5, 5), st.floats(-5, 5), st.floats(0.01, 10), st.floats(1, 100))
    def test_both_directions_share_all_probability(self, estimate, bound, variance, freedom):
        found = ContrastEvidence(np.array([estimate]), np.array([variance]), np.array([freedom]), 0.5)
        assert found.p_above(bound)[0] + found.p_below(bound)[0] == pytest.approx(1.0)


seeds = st.integers(0, 2**32 - 1)


def measurements(seed, *, paired=False, runs=4, series=4):
    rng = np.random.default_rng(seed)
    ours, theirs = rng.normal(size=(2, runs, series))
    earlier = tuple(rng.normal(size=(3, series)) for _ in range(int(rng.integers(0, 4))))
    return Measurements(ours, theirs, paired, apart=not paired, earlier=earlier)


@given(seeds, st.booleans(), st.floats(1e-3, 1e3))
def test_the_unit_does_not_matter(seed, paired, factor):
    found = measurements(seed, paired=paired)
    scaled = Measurements(
        factor * found.baseline,
        factor * found.candidate,
        found.paired,
        found.apart,
        tuple(factor * each for each in found.earlier),
    )
    assert each_alone(scaled).p_above(0.0) == pytest.approx(each_alone(found).p_above(0.0), rel=1e-6)


@given(seeds, st.booleans())
def test_sides_that_trade_places_trade_the_p_values(seed, paired):
    found = measurements(seed, paired=paired)
    swapped = Measurements(found.candidate, found.baseline, found.paired, found.apart, found.earlier)
    assert each_alone(swapped).p_above(0.0) == pytest.approx(each_alone(found).p_below(0.0), abs=1e-12)


@given(seeds, st.floats(-10, 10))
def test_what_a_block_does_to_both_of_its_runs_is_in_nothing(seed, drift):
    found = measurements(seed, paired=True)
    blocks = drift * np.arange(4.0)[:, None]
    drifted = Measurements(found.baseline + blocks, found.candidate + blocks, True, False, found.earlier)
    assert each_alone(drifted).p_above(0.0) == pytest.approx(each_alone(found).p_above(0.0), rel=1e-6)


@given(seeds, st.floats(0.1, 10))
def test_a_variance_is_never_believed_to_be_below_the_floor(seed, floor):
    found = each_alone(measurements(seed), floor=floor)
    assert (found.run_variance >= floor * (1 - 1e-9)).all()


@given(seeds, st.booleans())
def test_deviations_add_up_to_nothing_within_whatever_was_measured_together(seed, paired):
    found = measurements(seed, paired=paired)
    deviations, freedom = deviations_of(found)
    assert deviations.sum(axis=0) == pytest.approx(np.zeros(4), abs=1e-9)
    assert freedom <= len(deviations) - 1


def test_a_single_run_on_a_side_shows_nothing():
    found = weigh_contrasts(Measurements(values(60, 1, 3), values(61, 5, 3)), np.eye(3), np.full(3, TINY))
    assert np.isinf(found.run_variance).all()
    assert found.p_above(0.0) == pytest.approx([0.5] * 3)
