"""The steps of a decision one by one: gather, exclude, compare, weigh, conclude."""

from dataclasses import replace

import pytest

from regress_gate.gate.decide import (
    GateInput,
    GateRules,
    GatheredSides,
    SideExclusions,
    compare,
    conclude,
    exclude,
    gather,
    weigh,
)
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, ReasonCode, Verdict
from regress_gate.model.run import BlockPosition, RunFailure
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import Testbed
from tests.factories.runs import NOW, SUITE, make_finding, make_run, make_side_of, side_with

OLD, NEW = "0.19.0", "0.19.1"
STEADY = [0.100, 0.101, 0.099, 0.100]
POLICY = Policy(metrics=("ttft_median",))
RULES = GateRules(policy=POLICY, now=NOW)
CRASH = RunFailure("died_at_start", "the server died at its start", ("ValueError",), 12.0)


def given(baseline=None, candidate=None, **options) -> GateInput:
    return GateInput(
        baseline=side_with(OLD, STEADY) if baseline is None else baseline,
        candidate=side_with(NEW, STEADY[::-1]) if candidate is None else candidate,
        suite=SUITE,
        **options,
    )


def in_blocks(version, values, experiment):
    name = "baseline" if version == OLD else "candidate"
    runs = side_with(version, values).runs
    return [replace(run, place=BlockPosition(experiment, n, 1, name)) for n, run in enumerate(runs, 1)]


def another_machine():
    return make_side_of(NEW, *(make_run(str(n), NEW, testbed=Testbed("other", accelerator="H100")) for n in range(3)))


class TestGather:
    def test_all_runs_that_count_are_gathered_where_there_are_no_blocks(self):
        found = gather(given())
        assert [len(side.counted) for _, side in found.by_name] == [4, 4]
        assert not found.pairing.is_side_by_side
        assert found.comparability.comparable

    def test_only_the_runs_of_shared_blocks_are_gathered_where_there_are_blocks(self):
        ours = make_side_of(OLD, *in_blocks(OLD, STEADY, "friday"), *in_blocks(OLD, STEADY, "monday"))
        found = gather(given(ours, make_side_of(NEW, *in_blocks(NEW, STEADY, "friday"))))
        assert [len(side.counted) for _, side in found.by_name] == [4, 4]
        assert found.pairing.is_side_by_side
        assert any(warning.startswith("4 runs") for warning in found.warnings)

    def test_a_suite_of_which_only_the_name_is_known_is_a_warning(self):
        assert any("suite chat@1 is not known" in warning for warning in gather(given()).warnings)

    def test_another_machine_is_gathered_as_a_difference(self):
        found = gather(given(candidate=another_machine()))
        assert not found.comparability.comparable


class TestExclude:
    def test_comparable_sides_with_runs_exclude_nothing(self):
        assert exclude(gather(given())) == SideExclusions(can_compare=True)

    @pytest.mark.parametrize("allowed", [False, True])
    def test_sides_that_are_not_comparable_are_compared_only_on_request(self, allowed):
        found = exclude(gather(given(candidate=another_machine())), allow_incomparable=allowed)
        assert found.can_compare is allowed
        assert [reason.code for reason in found.reasons] == ([] if allowed else [ReasonCode.INCOMPARABLE])

    def test_a_side_without_runs_is_a_reason(self):
        found = exclude(gather(given(candidate=make_side_of(NEW))))
        assert [reason.text for reason in found.reasons] == ["0.19.1 (candidate) has no runs"]

    def test_a_candidate_that_never_served_is_one_reason_and_not_two(self):
        crashed = make_side_of(NEW, *(make_run(str(n), NEW, failure=CRASH, trials=()) for n in range(2)))
        found = exclude(gather(given(candidate=crashed)))
        assert [reason.code for reason in found.reasons] == [ReasonCode.SERVER_FAILED]

    def test_void_runs_are_named_with_their_cause(self):
        limits = ConditionLimits(max_outside_cpu_cores=0.5)
        runs = [make_run(str(n), NEW, load=2.0) for n in range(2)]
        found = exclude(gather(given(candidate=make_side_of(NEW, *runs, limits=limits))))
        assert found.reasons[0].text.startswith("all 2 runs of 0.19.1 (candidate) are void: 2.00 CPU cores")


class TestCompare:
    def test_gathered_sides_are_compared_series_by_series(self):
        gathered = gather(given())
        found = compare(gathered, SideExclusions(can_compare=True), POLICY)
        (ttft,) = [series for series in found.series if series.metric == "ttft_median"]
        assert ttft.verdict is Verdict.WITHIN_MARGIN

    def test_blocks_are_compared_as_pairs(self):
        sides = [make_side_of(version, *in_blocks(version, STEADY, "friday")) for version in (OLD, NEW)]
        assert compare(gather(given(*sides)), SideExclusions(can_compare=True), POLICY).design.paired

    def test_what_is_excluded_is_not_compared(self):
        assert compare(gather(given()), SideExclusions(can_compare=False), POLICY) is None

    def test_a_side_without_runs_that_count_is_not_compared(self):
        gathered = gather(given(candidate=make_side_of(NEW)))
        assert compare(gathered, SideExclusions(can_compare=True), POLICY) is None


class TestWeigh:
    def weighed(self, given_, *, rules=RULES, compared=True):
        gathered = gather(given_)
        exclusions = SideExclusions(can_compare=compared)
        return weigh(given_, rules, gathered, exclusions, compare(gathered, exclusions, rules.policy))

    def test_the_heaviest_reason_comes_first(self):
        slower = side_with(NEW, [value * 1.3 for value in STEADY])
        found = self.weighed(given(candidate=slower, findings=[make_finding()]))
        assert [reason.code for reason in found.reasons] == [ReasonCode.REGRESSION, ReasonCode.KNOWN_ISSUE]

    def test_known_issues_are_weighed_where_nothing_was_compared(self):
        found = self.weighed(given(findings=[make_finding()]), compared=False)
        assert [reason.code for reason in found.reasons] == [ReasonCode.KNOWN_ISSUE]
        assert found.explanations == []

    def test_a_comparison_of_incomparable_sides_is_a_warning(self):
        found = self.weighed(given(candidate=another_machine()))
        assert any("--allow-incomparable" in warning for warning in found.warnings)


class TestConclude:
    def concluded(self, exclusions, comparison=None, *, rules=RULES):
        given_ = given()
        return conclude(given_, rules, gather(given_), exclusions, comparison)

    def test_reasons_of_the_exclusions_decide(self):
        gathered = gather(given(candidate=another_machine()))
        found = self.concluded(exclude(gathered))
        assert (found.decision, found.exit_code) == (Decision.INCONCLUSIVE, 3)
        assert [reason.code for reason in found.reasons] == [ReasonCode.INCOMPARABLE]
        assert found.series == []

    def test_a_comparison_that_shows_everything_passes(self):
        gathered: GatheredSides = gather(given())
        found = self.concluded(SideExclusions(True), compare(gathered, SideExclusions(True), POLICY))
        assert (found.decision, found.exit_code) == (Decision.PASS, 0)

    def test_the_exit_code_follows_the_rules_and_the_decision_does_not(self):
        gathered = gather(given(candidate=another_machine()))
        found = self.concluded(exclude(gathered), rules=replace(RULES, report_only=True))
        assert (found.decision, found.exit_code) == (Decision.INCONCLUSIVE, 0)
