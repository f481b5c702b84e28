"""Comparing gathered series, and concluding from what the statistics say of them."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from regress_gate.gate.series_comparison import compare_all_series, compare_gathered, conclude
from regress_gate.gate.series_inputs import SeriesExclusions, exclude_series, gather_series
from regress_gate.model.policy import Policy
from regress_gate.model.result import Verdict
from tests.factories.runs import NOW, make_run, make_side_of, make_trial

OLD, NEW = "0.19.0", "0.19.1"
POLICY = Policy(metrics=("ttft_median", "failed_requests"), margins={"failed_requests": 0.02})
TTFT = ("c8", "ttft_median")
STEADY = (0.1, 0.101, 0.099, 0.1)


def runs_of(version, values=STEADY, **trial):
    return [make_run(f"{version}-{n}", version, make_trial(ttft_median=v, **trial)) for n, v in enumerate(values)]


def series_of(compared, key):
    (one,) = [one for one in compared if one.key == key]
    return one


def concluded(ours, theirs, policy=POLICY):
    gathered = gather_series(ours, theirs)
    exclusions = exclude_series(gathered, policy)
    return conclude(gathered, exclusions, *compare_gathered(gathered, exclusions, policy), policy)


class TestCompare:
    def test_every_series_has_an_outcome_in_the_order_of_the_gathered_ones(self):
        gathered = gather_series(runs_of(OLD), runs_of(NEW))
        compared, _ = compare_gathered(gathered, SeriesExclusions(), POLICY)
        assert [one.key for one in compared] == gathered.keys
        assert series_of(compared, TTFT).outcome.verdict is Verdict.WITHIN_MARGIN

    def test_what_is_excluded_has_no_outcome_and_says_why(self):
        gathered = gather_series(runs_of(OLD), runs_of(NEW, [value * 2 for value in STEADY]))
        compared, _ = compare_gathered(gathered, SeriesExclusions(incomparable={"c8": "other work"}), POLICY)
        ttft = series_of(compared, TTFT)
        assert (ttft.outcome.change, ttft.outcome.verdict) == (None, Verdict.UNDECIDED)
        assert ttft.remarks == ("not compared: other work",)

    def test_an_excluded_series_takes_nothing_from_the_budget_of_the_others(self):
        slower = [value * 1.06 for value in STEADY]
        both = [
            [
                make_run(f"{version}-{n}", version, make_trial("a", ttft_median=v), make_trial("b", ttft_median=v))
                for n, v in enumerate(values)
            ]
            for version, values in ((OLD, STEADY), (NEW, slower))
        ]
        gathered = gather_series(*both)
        everything, _ = compare_gathered(gathered, SeriesExclusions(), POLICY)
        without, _ = compare_gathered(gathered, SeriesExclusions(incomparable={"b": "other work"}), POLICY)
        alone, _ = compare_gathered(
            gather_series(*([make_run(r.label, str(r.version), r.trials[0]) for r in side] for side in both)),
            SeriesExclusions(),
            POLICY,
        )
        key = ("a", "ttft_median")
        assert series_of(without, key).outcome == series_of(alone, key).outcome
        assert series_of(without, key).outcome != series_of(everything, key).outcome

    def test_what_does_not_gate_is_compared_all_the_same(self):
        gathered = gather_series(runs_of(OLD), runs_of(NEW))
        compared, _ = compare_gathered(gathered, SeriesExclusions(ungated={TTFT: "too few"}), POLICY)
        ttft = series_of(compared, TTFT)
        assert not ttft.data.gated
        assert ttft.outcome.change is not None
        assert ttft.remarks == ("does not gate: too few",)

    def test_latencies_carry_the_share_of_requests_that_failed(self):
        gathered = gather_series(runs_of(OLD), runs_of(NEW, completed=150, failed=50))
        compared, _ = compare_gathered(gathered, SeriesExclusions(), POLICY)
        assert series_of(compared, TTFT).remarks == (
            "25.0% of the candidate's requests failed: the survivors may look faster",
        )
        assert series_of(compared, ("c8", "failed_requests")).remarks == ()


class TestConclude:
    @pytest.mark.parametrize(("ours", "theirs", "side"), [(0.1, None, "baseline"), (None, 0.1, "candidate")])
    def test_a_gated_series_of_one_side_is_set_apart(self, ours, theirs, side):
        found = concluded(runs_of(OLD, [ours] * 2), runs_of(NEW, [theirs] * 2))
        assert found.one_sided == {"c8/ttft_median": f"was measured on the {side} only"}

    def test_a_series_of_the_candidate_that_does_not_gate_is_a_warning(self):
        found = concluded(runs_of(OLD), runs_of(NEW, tpot_mean=0.02))
        assert found.one_sided == {}
        assert found.warnings == ("measured on the candidate only, so not compared: c8/tpot_mean",)

    def test_a_scenario_of_the_candidate_alone_is_a_warning_though_its_metrics_gate(self):
        found = concluded(runs_of(OLD), runs_of(NEW, scenario="new"))
        assert "c8/ttft_median" in found.one_sided
        assert not any(name.startswith("new/") for name in found.one_sided)
        assert "new/ttft_median" in found.warnings[-1]

    def test_a_candidate_that_completes_nothing_where_the_baseline_serves_is_unserved(self):
        found = concluded(runs_of(OLD), runs_of(NEW, [None] * 4, completed=0, failed=10))
        assert found.unserved == (
            "4 of 4 trials of c8 completed no request on the candidate, where the baseline served",
        )
        assert found.unclear == ()

    def test_where_the_baseline_completed_nothing_either_it_is_unclear(self):
        ours = [*runs_of(OLD), *runs_of(OLD, [None], completed=0, failed=10)]
        found = concluded(ours, runs_of(NEW, [None] * 4, completed=0, failed=10))
        assert found.unserved == ()
        assert found.unclear == ("4 of 4 trials of c8 completed no request on the candidate, 1 of 5 on the baseline",)


def test_earlier_runs_that_scatter_widen_what_few_steady_runs_show():
    """Four steady runs a side may have been lucky: what the same machine did before says how far runs lie apart."""
    sides = [make_side_of(version, *runs_of(version)) for version in (OLD, NEW)]
    earlier = [
        make_run(f"{day}-{n}", "0.18.0", make_trial(ttft_median=value), started=NOW - timedelta(days=day))
        for day in range(10, 16)
        for n, value in enumerate((0.08, 0.1, 0.125))
    ]
    (alone,), (informed,) = (
        [one for one in compare_all_series(*sides, POLICY, earlier=runs).series if one.metric == "ttft_median"]
        for runs in ((), earlier)
    )
    assert alone.verdict is Verdict.WITHIN_MARGIN
    assert informed.verdict is Verdict.UNDECIDED
    assert informed.interval[1] > 2 * alone.interval[1]


def test_values_without_a_finite_mean_keep_their_number_of_requests():
    ours, theirs = runs_of(OLD, completed=50), runs_of(NEW, [math.inf] * 4, completed=50)
    (series,) = [one for one in concluded(ours, theirs).series if one.metric == "ttft_median"]
    assert (series.candidate.mean, series.candidate.runs, series.candidate.requests) == (None, 4, 200)


def test_values_of_zero_have_no_spread_and_values_about_zero_no_relative_one():
    policy = Policy(metrics=("accuracy_logprob",))
    values = {"none": (0.0, 0.0), "about zero": (-0.1, 0.1)}
    found = {}
    for name, both in values.items():
        ours, theirs = (runs_of(version, accuracy_logprob=None) for version in (OLD, NEW))
        sides = [
            [replace(run, metrics={"accuracy_logprob": value}) for run, value in zip(side, both, strict=False)]
            for side in (ours, theirs)
        ]
        (series,) = [one for one in concluded(*sides, policy).series if one.metric == "accuracy_logprob"]
        found[name] = (series.baseline.mean, series.baseline.cv)
    assert found == {"none": (0.0, 0.0), "about zero": (0.0, None)}
