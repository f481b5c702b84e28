"""The tests of one gate: where a loss is found, what it costs the others, and covariate adjustment."""

import numpy as np
import pytest

from regress_gate.stats.contrasts import Measurements
from regress_gate.stats.multiplicity import Family, adjusted_p_values, holm, own_evidence, spread_over
from tests.factories.series import draw_runs

SCENARIOS, METRICS = 5, 3


def a_family(baseline, candidate, *, scenarios=None, **how) -> Family:
    """From logarithms of shape (runs, scenarios, metrics)."""
    places = np.indices(baseline.shape[1:]).reshape(2, -1)
    return Family(
        Measurements(baseline.reshape(len(baseline), -1), candidate.reshape(len(candidate), -1), **how),
        places[0] if scenarios is None else scenarios,
        places[1],
        np.full(places.shape[1], 1e-12),
    )


def drawn(seed, *, runs=5, cv=0.01, shares=(0.5, 0.3, 0.2), candidate_shift=None):
    rng = np.random.default_rng(seed)
    how = {"cv": cv, "scenarios": SCENARIOS, "metrics": METRICS, "shares": shares}
    baseline, candidate = draw_runs(rng, runs, **how), draw_runs(rng, runs, **how)
    if candidate_shift is not None:
        candidate = candidate + candidate_shift
    return baseline, candidate


def shift(size, where):
    found = np.zeros((SCENARIOS, METRICS))
    found[where] = size
    return found


def worse(family, **how):
    return adjusted_p_values(family, **how)[0].reshape(SCENARIOS, METRICS)


class TestWhere:
    @pytest.mark.parametrize(
        ("where", "size"),
        [
            ((3, 1), 0.06),
            ((3, slice(None)), 0.05),
            ((slice(None), 1), 0.05),
            ((slice(None), slice(None)), 0.05),
        ],
        ids=["one series", "one scenario", "one metric", "everything"],
    )
    def test_a_loss_is_found_where_it_is_and_nowhere_else(self, where, size):
        lost = shift(size, where) > 0
        found = worse(a_family(*drawn(1, candidate_shift=shift(size, where))))
        assert (found[lost] < 0.05).all()
        assert (found[~lost] > 0.05).all()

    def test_a_loss_too_small_for_each_series_is_found_in_all_together(self):
        baseline, candidate = drawn(1, runs=5, shares=(0.0, 0.0, 1.0), candidate_shift=0.008)
        family = a_family(baseline, candidate)
        each = spread_over(family, [own.p_above(0.0) for own in own_evidence(family)])
        assert min(holm(each)) > 0.05
        assert (worse(family) < 0.05).mean() > 0.3

    def test_what_is_not_worse_by_itself_is_never_called_so(self):
        family = a_family(*drawn(3, candidate_shift=shift(0.05, (slice(0, 4), slice(None)))))
        plain = spread_over(family, [own.p_above(0.0) for own in own_evidence(family)])
        assert (adjusted_p_values(family)[0] >= plain).all()


class TestLuck:
    def test_luck_that_all_scenarios_had_is_distinguished_from_a_loss_that_one_has(self):
        """A run's luck of 3 % hides a loss of 5 % among so many questions, and the other scenarios give it away."""
        lost = shift(0.05, (2, slice(None)))
        family = a_family(*drawn(1, runs=6, cv=0.03, shares=(0.98, 0.01, 0.01), candidate_shift=lost))
        plain = spread_over(family, [own.p_above(0.0) for own in own_evidence(family)])
        assert worse(family)[2].max() < 0.03
        assert min(holm(plain)) > 0.2

    def test_an_improvement_everywhere_else_is_no_loss_here(self):
        gained = shift(-0.1, (slice(1, None), slice(None)))
        found = worse(a_family(*drawn(5, shares=(0.9, 0.05, 0.05), candidate_shift=gained)))
        assert found.min() > 0.05


class TestBudget:
    def test_questions_from_outside_the_family_share_its_budget(self):
        baseline, candidate = drawn(6, candidate_shift=shift(0.02, (1, 1)))
        alone, none = adjusted_p_values(a_family(baseline, candidate))
        shared, others = adjusted_p_values(a_family(baseline, candidate), [0.5] * 10)
        assert len(none) == 0
        assert len(others) == 10
        assert (shared >= alone - 1e-12).all()
        assert shared[4] > alone[4]

    def test_an_outside_question_that_is_beyond_doubt_is_answered(self):
        _, others = adjusted_p_values(a_family(*drawn(7)), [1e-9, 0.9])
        assert others[0] < 1e-5
        assert others[1] == 1.0

    def test_a_family_of_one_spends_everything_on_it(self):
        rng = np.random.default_rng(8)
        family = a_family(rng.normal(size=(4, 1, 1)), 1 + rng.normal(size=(4, 1, 1)))
        (own,) = own_evidence(family)
        assert adjusted_p_values(family)[0] == pytest.approx(own.p_above(0.0))

    def test_series_of_no_scenario_are_judged_by_themselves(self):
        """What a server does once has no luck in common with the others, and is in no group."""
        baseline, candidate = drawn(9)
        labels = np.repeat(np.arange(SCENARIOS), METRICS)
        labels[:METRICS] = -1
        candidate[:, 0, 0] += 1.0
        found = worse(a_family(baseline, candidate, scenarios=labels))
        assert found[0, 0] < 1e-4
        assert (found.ravel()[1:] > 0.05).all()


class TestImprovement:
    @pytest.mark.parametrize("paired", [False, True])
    def test_trading_places_turns_losses_into_improvements(self, paired):
        baseline, candidate = drawn(10, candidate_shift=shift(0.03, (3, slice(None))))
        forth = adjusted_p_values(a_family(baseline, candidate, paired=paired))[0]
        back = adjusted_p_values(a_family(candidate, baseline, paired=paired), better=True)[0]
        assert back == pytest.approx(forth)
        assert min(adjusted_p_values(a_family(baseline, candidate, paired=paired), better=True)[0]) > 0.05


def test_values_by_metric_come_back_in_the_order_of_the_series():
    family = a_family(*drawn(11))
    parts = [family.metrics[family.metrics == metric] * 10.0 for metric in range(METRICS)]
    assert spread_over(family, parts).tolist() == (family.metrics * 10.0).tolist()
