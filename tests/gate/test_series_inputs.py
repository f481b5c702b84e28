"""Gathering the series of both sides, and excluding what cannot be compared."""

from dataclasses import replace

import pytest

from regress_gate.gate.series_inputs import GatheredSeries, SeriesExclusions, exclude_series, gather_series
from regress_gate.model.policy import Policy
from regress_gate.model.run import Answer, Outputs
from tests.factories.runs import make_run, make_trial

OLD, NEW = "0.19.0", "0.19.1"
POLICY = Policy(metrics=("ttft_*", "failed_requests"))
ANSWERED = Outputs("set-1", (Answer("p", ("a", "b"), (-0.1, -0.1)),))


def runs_of(version, *trials, count=2, **changes):
    return [make_run(f"{version}-{n}", version, *trials, **changes) for n in range(count)]


def gathered(ours=None, theirs=None, **options) -> GatheredSeries:
    return gather_series(
        runs_of(OLD, make_trial()) if ours is None else ours,
        runs_of(NEW, make_trial()) if theirs is None else theirs,
        **options,
    )


class TestGather:
    def test_every_metric_of_either_side_is_a_series(self):
        found = gathered(runs_of(OLD, make_trial(tpot_mean=0.02)), runs_of(NEW, make_trial("c16")))
        assert ("c8", "tpot_mean") in found.keys
        assert ("c16", "ttft_median") in found.keys
        assert found.shared_scenarios == []

    def test_series_are_in_the_order_of_scenarios_and_of_the_catalogue_and_the_servers_come_last(self):
        found = gathered(runs_of(OLD, make_trial("c16"), make_trial("c4"), metrics={"startup_time": 30.0}))
        assert [key[0] for key in found.keys] == ["c4"] * 3 + ["c8"] * 3 + ["c16"] * 3 + ["server"]
        assert [key[1] for key in found.keys[:2]] == ["ttft_median", "output_throughput"]

    def test_values_are_means_over_the_trials_that_all_runs_have(self):
        first, second = make_trial(ttft_median=0.1), make_trial(ordinal=2, ttft_median=0.3)
        found = gathered(runs_of(OLD, first, second), runs_of(NEW, first))
        assert found.values[0]["c8", "ttft_median"].per_run == [0.1, 0.1]
        assert found.shortened == {"c8": "trial 1 is"}

    def test_equal_numbers_of_trials_shorten_nothing(self):
        assert gathered().shortened == {}

    def test_answers_to_the_fixed_prompts_are_series_too(self):
        sides = [runs_of(version, make_trial(), outputs=ANSWERED) for version in (OLD, NEW)]
        found = gathered(*sides)
        assert found.values[1]["outputs", "accuracy_prompt_match"].per_run == [1.0, 1.0]


class TestExclude:
    def test_alike_sides_exclude_nothing(self):
        found = exclude_series(gathered(), POLICY)
        gating = frozenset([("c8", "ttft_median"), ("c8", "failed_requests")])
        assert found == SeriesExclusions(gating=gating)
        assert found.takes_part(("c8", "ttft_median"))

    def test_another_workload_excludes_its_scenario_only(self):
        ours = runs_of(OLD, make_trial(), make_trial("other"))
        theirs = runs_of(NEW, make_trial(workload={"max_concurrency": 16}), make_trial("other"))
        found = exclude_series(gathered(ours, theirs), POLICY)
        assert found.incomparable == {"c8": "max_concurrency differs: 8 → 16"}
        assert not found.takes_part(("c8", "ttft_median"))
        assert found.takes_part(("other", "ttft_median"))

    def test_runs_without_a_common_trial_are_excluded(self):
        theirs = runs_of(NEW, make_trial(ordinal=2))
        found = exclude_series(gathered(theirs=theirs), POLICY)
        assert found.incomparable == {"c8": "its runs have no trial in common"}

    @pytest.mark.parametrize(("ours", "theirs", "side"), [(200, 50, "candidate"), (50, 200, "baseline")])
    def test_a_percentile_that_one_side_has_too_few_requests_for_takes_no_part(self, ours, theirs, side):
        sides = [
            runs_of(version, make_trial(completed=completed, ttft_p99=0.2))
            for version, completed in ((OLD, ours), (NEW, theirs))
        ]
        found = exclude_series(gathered(*sides), POLICY)
        assert found.unsupported == {
            ("c8", "ttft_p99"): f"on the {side} a trial of 50 requests cannot support it (100 can)"
        }
        assert not found.takes_part(("c8", "ttft_p99"))

    def test_a_percentile_that_neither_side_has_enough_requests_for_takes_part_and_does_not_gate(self):
        sides = [runs_of(version, make_trial(completed=50, ttft_p99=0.2)) for version in (OLD, NEW)]
        found = exclude_series(gathered(*sides), POLICY)
        assert found.ungated == {("c8", "ttft_p99"): "a trial of 50 requests cannot support it (100 can)"}
        assert found.takes_part(("c8", "ttft_p99"))

    def test_a_percentile_that_does_not_gate_anyway_is_not_excluded(self):
        sides = [runs_of(version, make_trial(completed=50, ttft_p99=0.2)) for version in (OLD, NEW)]
        found = exclude_series(gathered(*sides), Policy(metrics=("ttft_median",)))
        assert found == SeriesExclusions(gating=frozenset([("c8", "ttft_median")]))

    def test_a_client_known_on_one_side_only_is_a_warning_and_no_exclusion(self):
        theirs = runs_of(NEW, make_trial(workload={"definitions": "vllm-bench-0.20"}))
        found = exclude_series(gathered(theirs=theirs), POLICY)
        assert len(found.warnings) == 1
        assert found.warnings[0].startswith("c8: ")
        assert found.incomparable == {}

    @pytest.mark.parametrize("gates", [True, False])
    def test_answers_of_one_side_are_missing_where_they_gate_and_else_a_warning(self, gates):
        theirs = runs_of(NEW, make_trial(), outputs=ANSWERED)
        policy = Policy(metrics=("accuracy_agreement",) if gates else ("ttft_*",))
        found = exclude_series(gathered(theirs=theirs), policy)
        one_sided = {"outputs/accuracy_agreement": "was collected on the candidate only"}
        assert found.one_sided_answers == (one_sided if gates else {})
        assert len(found.warnings) == (0 if gates else 1)

    @pytest.mark.parametrize("gates", [True, False])
    def test_answers_to_other_prompts_are_incomparable_where_they_gate_and_else_a_warning(self, gates):
        ours = runs_of(OLD, make_trial(), outputs=ANSWERED)
        theirs = runs_of(NEW, make_trial(), outputs=replace(ANSWERED, prompt_set="set-2"))
        policy = Policy(metrics=("accuracy_agreement",) if gates else ("ttft_*",))
        found = exclude_series(gathered(ours, theirs), policy)
        assert found.incomparable_answers == ({"outputs": "the prompt sets differ: set-1 → set-2"} if gates else {})
        assert len(found.warnings) == (0 if gates else 1)
