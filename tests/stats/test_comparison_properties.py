"""What must hold of every comparison of many series, whatever the numbers are."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.model.metric import Direction, Scale
from regress_gate.model.result import Verdict
from regress_gate.stats.design import InterimStage
from regress_gate.stats.multiplicity import MeasurementDesign
from tests.factories.series import BUDGET, as_series, as_sessions, draw_runs, judge

SCENARIOS, METRICS = 3, 2
few = settings(max_examples=25)
seeds = st.integers(0, 2**32 - 1)
designs = st.sampled_from(["together", "paired", "apart", "looked at"])


def case(seed, how, *, shift=True):
    """Both sides' logarithms, shape (runs, scenarios, metrics), and how they were made."""
    rng = np.random.default_rng(seed)
    runs = int(rng.integers(2, 7))
    shape = {"cv": float(rng.choice([0.002, 0.01, 0.05])), "scenarios": SCENARIOS, "metrics": METRICS}
    ours, theirs = draw_runs(rng, runs, **shape), draw_runs(rng, runs, **shape)
    if shift:
        theirs = theirs + rng.normal(0, 0.03, (SCENARIOS, METRICS))
    earlier = as_sessions([draw_runs(rng, 3, **shape) for _ in range(int(rng.integers(0, 5)))])
    return (
        ours,
        theirs,
        {
            "together": MeasurementDesign(earlier=earlier),
            "paired": MeasurementDesign(paired=True),
            "apart": MeasurementDesign(apart=True, earlier=earlier),
            "looked at": MeasurementDesign(paired=True, interim=InterimStage(runs, 8)),
        }[how],
    )


def numbers(found):
    return np.array([[each.change, *each.interval, each.p_worse, each.q_worse] for each in found])


@few
@given(seeds, designs, st.floats(1e-6, 1e6))
def test_the_unit_of_a_metric_does_not_matter(seed, how, factor):
    ours, theirs, known = case(seed, how)
    plain = as_series(ours, theirs)
    scaled = [
        replace(data, baseline=factor * data.baseline, candidate=factor * data.candidate)
        if data.metric == "m0"
        else data
        for data in plain
    ]
    past = tuple(
        tuple(factor * values if data.metric == "m0" else values for data, values in zip(plain, session, strict=True))
        for session in known.earlier
    )
    found = judge(scaled, replace(known, earlier=past))
    assert numbers(found) == pytest.approx(numbers(judge(plain, known)), rel=1e-4, abs=1e-7)


@few
@given(seeds, designs)
def test_the_order_of_runs_or_of_blocks_does_not_matter(seed, how):
    ours, theirs, known = case(seed, how)
    rng = np.random.default_rng(seed)
    order, other = rng.permutation(len(ours)), rng.permutation(len(theirs))
    shuffled = judge(as_series(ours[order], theirs[order if known.paired else other]), known)
    assert numbers(shuffled) == pytest.approx(numbers(judge(as_series(ours, theirs), known)), rel=1e-6, abs=1e-9)


@few
@given(seeds, designs)
def test_the_order_of_series_does_not_matter(seed, how):
    ours, theirs, known = case(seed, how)
    series = as_series(ours, theirs)
    order = np.random.default_rng(seed).permutation(len(series))
    past = tuple(tuple(session[place] for place in order) for session in known.earlier)
    permuted = judge([series[place] for place in order], replace(known, earlier=past))
    assert numbers(permuted) == pytest.approx(numbers(judge(series, known))[order], rel=1e-6, abs=1e-9)


@few
@given(seeds, designs)
def test_sides_that_trade_places_trade_their_evidence(seed, how):
    ours, theirs, known = case(seed, how)
    forth, back = judge(as_series(ours, theirs), known), judge(as_series(theirs, ours), known)
    for one, other in zip(forth, back, strict=True):
        assert np.log1p(other.change) == pytest.approx(-np.log1p(one.change), abs=1e-9)
        assert np.log1p(other.interval[0]) == pytest.approx(-np.log1p(one.interval[1]), abs=1e-6)
        assert other.p_worse == pytest.approx(1 - one.p_worse, abs=1e-9)


@few
@given(seeds, designs)
def test_a_throughput_that_falls_is_a_latency_that_rises(seed, how):
    ours, theirs, known = case(seed, how)
    past = tuple(tuple(1 / values for values in session) for session in known.earlier)
    slower = judge(as_series(ours, theirs), known)
    fewer = judge(as_series(-ours, -theirs, direction=Direction.HIGHER), replace(known, earlier=past))
    assert [each.q_worse for each in fewer] == pytest.approx([each.q_worse for each in slower], abs=1e-9)


@few
@given(seeds, designs, st.floats(0, 0.5))
def test_a_larger_loss_of_one_series_is_more_evidence_against_it(seed, how, loss):
    ours, theirs, known = case(seed, how)
    slower = theirs.copy()
    slower[:, 1, 1] += loss
    place = 1 * METRICS + 1
    before, after = (judge(as_series(ours, each), known)[place] for each in (theirs, slower))
    assert after.change >= before.change - 1e-12
    assert after.interval[1] >= before.interval[1] - 1e-9
    assert after.p_worse <= before.p_worse + 1e-9


@few
@given(seeds, designs, st.floats(0, 0.5))
def test_a_regression_stays_one_when_the_loss_grows(seed, how, loss):
    """Of a gate of one series. Beside others its evidence only grows, but they may take more of the budget."""
    ours, theirs, known = case(seed, how)
    known = replace(known, earlier=tuple(session[:1] for session in known.earlier))
    before, after = (judge(as_series(ours[:, :1, :1], each[:, :1, :1]), known)[0] for each in (theirs, theirs + loss))
    assert after.q_worse <= before.q_worse + 1e-9
    if before.verdict is Verdict.REGRESSION:
        assert after.verdict is Verdict.REGRESSION
    if before.verdict is Verdict.UNDECIDED:
        assert after.verdict in (Verdict.UNDECIDED, Verdict.REGRESSION)


@few
@given(seeds, designs)
def test_an_interval_holds_its_estimate(seed, how):
    ours, theirs, known = case(seed, how)
    for found in judge(as_series(ours, theirs), known):
        assert found.interval[0] <= found.change <= found.interval[1]


@few
@given(seeds, designs)
def test_no_adjusted_p_value_is_below_the_plain_one(seed, how):
    ours, theirs, known = case(seed, how)
    assert all(each.q_worse >= each.p_worse - 1e-12 for each in judge(as_series(ours, theirs), known))


@few
@given(seeds, designs)
def test_series_that_do_not_gate_change_nothing_for_those_that_do(seed, how):
    ours, theirs, known = case(seed, how)
    gated = as_series(ours, theirs)
    twice = [*gated, *(replace(data, gated=False) for data in gated)]
    past = tuple((*session, *session) for session in known.earlier)
    found = judge(twice, replace(known, earlier=past))
    assert found[: len(gated)] == judge(gated, known)
    assert numbers(found[len(gated) :]) == pytest.approx(numbers(found[: len(gated)]))


@few
@given(seeds, designs)
def test_a_verdict_says_what_its_numbers_say(seed, how):
    ours, theirs, known = case(seed, how)
    for found in judge(as_series(ours, theirs), known):
        if found.verdict in (Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT):
            assert found.interval[1] < 0.05
        else:
            assert found.interval[1] >= 0.05
        if found.verdict is Verdict.REGRESSION:
            assert found.q_worse <= BUDGET
            assert found.change >= 0.025
        if found.verdict is Verdict.UNDECIDED:
            assert found.runs_needed is None or found.runs_needed > len(ours)


@few
@given(seeds)
def test_one_run_on_a_side_never_decides_anything(seed):
    ours, theirs, known = case(seed, "apart")
    for sides in ((ours[:1], theirs), (ours, theirs[:1]), (ours[:1], theirs[:1])):
        for found in judge(as_series(*sides), known):
            assert found.verdict is Verdict.UNDECIDED
            assert found.interval is None
            assert found.p_worse is None
            assert "at least two runs a side are needed to estimate the spread" in found.notes


class TestOddValues:
    def odd(self, how, values):
        """The first series has such values on the candidate's side; what is said of it, and of the others."""
        ours, theirs, known = case(1, how, shift=False)
        series = as_series(ours, theirs)
        count = len(theirs)
        series[0] = replace(series[0], candidate=np.resize(np.asarray(values, dtype=float), count))
        first, *others = judge(series, known)
        return first, others

    @pytest.mark.parametrize("how", ["together", "paired", "apart", "looked at"])
    @pytest.mark.parametrize("values", [[0.0], [0.0, 1.0], [-1.0, 1.0]])
    def test_what_is_not_positive_has_no_ratio_and_the_others_are_judged(self, how, values):
        first, others = self.odd(how, values)
        assert first.verdict is Verdict.UNDECIDED
        assert first.change is None
        assert "zero or negative" in first.notes[0]
        assert all(each.q_worse is not None for each in others)

    @pytest.mark.parametrize("how", ["together", "paired", "apart", "looked at"])
    def test_a_series_that_a_run_lacks_is_judged_by_the_runs_that_have_it(self, how):
        first, others = self.odd(how, [1.0, np.nan, 1.001])
        assert first.change == pytest.approx(0, abs=0.2)
        assert all(each.q_worse is not None for each in others)

    @pytest.mark.parametrize("paired", [False, True])
    def test_values_that_never_differ_are_taken_to_scatter_as_little_as_a_machine_can(self, paired):
        same = np.zeros((3, SCENARIOS, METRICS))
        found = judge(as_series(same, same), MeasurementDesign(paired=paired))
        assert {each.verdict for each in found} == {Verdict.WITHIN_MARGIN}
        assert all(each.interval[0] < 0 < each.interval[1] for each in found)

    @pytest.mark.parametrize("paired", [False, True])
    def test_quantised_values_with_ties_are_judged(self, paired):
        ours, theirs, _ = case(2, "together")
        rounded = [np.log(np.round(np.exp(side), 2)) for side in (ours, theirs)]
        for found in judge(as_series(*rounded), MeasurementDesign(paired=paired)):
            assert np.isfinite([found.p_worse, found.q_worse, *found.interval]).all()

    def test_series_with_other_numbers_of_runs_are_judged_beside_the_family(self):
        ours, theirs, _ = case(3, "together")
        series = as_series(ours, theirs)
        series[0] = replace(series[0], baseline=np.append(series[0].baseline, 1.0))
        assert all(each.q_worse is not None for each in judge(series))

    def test_which_of_two_equally_common_numbers_of_runs_makes_the_family_is_no_matter_of_order(self):
        ours, theirs, _ = case(3, "together")
        series = as_series(ours, theirs)
        series[:3] = [replace(data, baseline=np.append(data.baseline, 1.0)) for data in series[:3]]
        assert numbers(judge(series[::-1])) == pytest.approx(numbers(judge(series))[::-1])

    def test_a_series_of_nothing_but_gaps_was_not_measured(self):
        first, others = self.odd("together", [np.nan])
        assert first.verdict is Verdict.UNDECIDED
        assert first.notes == ("not measured on the candidate",)
        assert all(each.q_worse is not None for each in others)

    def test_a_series_that_some_blocks_lack_is_judged_by_the_others_as_blocks(self):
        ours, theirs, _ = case(2, "paired")
        drift = np.arange(float(len(ours)))[:, None, None]
        series, lacking = as_series(ours + drift, theirs + drift), as_series(ours[1:], theirs[1:])[0]
        series[0] = replace(series[0], baseline=np.where(drift.ravel() == 0, np.nan, series[0].baseline))
        (alone,) = judge([lacking], MeasurementDesign(paired=True))
        assert judge(series, MeasurementDesign(paired=True))[0].interval == pytest.approx(alone.interval)

    def test_no_series_have_no_verdicts(self):
        assert judge([]) == []

    def test_a_fraction_beside_the_family_shares_its_budget(self):
        ours, theirs, _ = case(4, "together")
        failing = replace(
            as_series(ours, theirs)[0],
            baseline=np.zeros(3),
            candidate=np.array([0.02, 0.03, 0.02]),
            scale=Scale.DIFFERENCE,
            margin=0.01,
            baseline_requests=600,
            candidate_requests=600,
        )
        (alone,) = judge([failing])
        *_, beside = judge([*as_series(ours, theirs), failing])
        assert beside.p_worse == alone.p_worse
        assert beside.q_worse > alone.q_worse


class TestASeriesThatHistoryHasNeverHad:
    """A metric that is new, or a scenario: what is known of the others stays known."""

    new = 1

    def case(self, seed=1, *, offset=0.0, sessions=8):
        rng = np.random.default_rng(seed)
        how = {"scenarios": SCENARIOS, "metrics": METRICS}
        ours, theirs = (draw_runs(rng, 4, **how) + rng.normal(0, offset) for _ in range(2))
        earlier = as_sessions([draw_runs(rng, 2, **how) + rng.normal(0, offset) for _ in range(sessions)])
        gone = tuple(
            tuple(np.full(2, np.nan) if place == self.new else values for place, values in enumerate(session))
            for session in earlier
        )
        return as_series(ours, theirs), gone

    def test_leaves_the_others_what_they_would_have_without_it(self):
        series, earlier = self.case()
        found = judge(series, MeasurementDesign(earlier=earlier))
        kept = [place for place in range(len(series)) if place != self.new]
        without = judge(
            [series[place] for place in kept],
            MeasurementDesign(earlier=tuple(tuple(session[place] for place in kept) for session in earlier)),
        )
        for place, alone in zip(kept, without, strict=True):
            assert found[place].interval == alone.interval
            assert found[place].p_worse == alone.p_worse

    def test_is_judged_with_the_same_budget(self):
        series, earlier = self.case()
        found = judge(series, MeasurementDesign(earlier=earlier))[self.new]
        assert found.interval is not None
        assert found.q_worse >= found.p_worse

    def test_knows_of_days_by_the_others(self):
        """Days that differ by many times the luck of a run leave it as unsure as they leave the others."""
        series, earlier = self.case(offset=0.1)
        together = judge(series, MeasurementDesign(earlier=earlier))[self.new].interval
        apart = judge(series, MeasurementDesign(apart=True, earlier=earlier))[self.new].interval
        assert apart[1] - apart[0] > 3 * (together[1] - together[0])

    @pytest.mark.parametrize("lately", [1, 2])
    def test_does_so_too_when_only_the_last_sessions_have_it(self, lately):
        series, earlier = self.case()
        whole = tuple(tuple(np.where(np.isnan(values), 1.0, values) for values in session) for session in earlier)
        found = judge(series, MeasurementDesign(earlier=(*earlier[:-lately], *whole[-lately:])))
        expected = judge(series, MeasurementDesign(earlier=earlier))
        other = 0
        assert found[other].interval[1] - found[other].interval[0] == pytest.approx(
            expected[other].interval[1] - expected[other].interval[0], rel=0.01
        )


class TestInfiniteValues:
    """No store keeps any, but sums may overflow."""

    @pytest.mark.parametrize("side", ["baseline", "candidate"])
    @pytest.mark.parametrize("how", [MeasurementDesign(), MeasurementDesign(paired=True)], ids=["together", "paired"])
    def test_are_not_compared_and_the_others_are(self, side, how):
        ours, theirs, _ = case(1, "together")
        series = as_series(ours, theirs)
        values = getattr(series[0], side).copy()
        values[0] = np.inf
        found = judge([replace(series[0], **{side: values}), *series[1:]], how)
        assert found[0].interval is None
        assert found[0].verdict is Verdict.UNDECIDED
        assert "infinite" in found[0].notes[0]
        assert all(np.isfinite(each.interval).all() for each in found[1:])

    def test_of_earlier_runs_are_gaps(self):
        ours, theirs, _ = case(1, "together")
        session = as_sessions([draw_runs(np.random.default_rng(2), 3, scenarios=SCENARIOS, metrics=METRICS)])[0]
        broken = (np.full(3, np.inf), *session[1:])
        assert numbers(judge(as_series(ours, theirs), MeasurementDesign(earlier=(broken,)))) == pytest.approx(
            numbers(judge(as_series(ours, theirs), MeasurementDesign(earlier=((np.full(3, np.nan), *session[1:]),))))
        )
