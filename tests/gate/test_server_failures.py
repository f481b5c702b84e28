"""Servers that failed: the cause, what it decides, and that their log lines reach the report safely."""

from datetime import date

import pytest

from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange, ConfigChangeKind
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.run import BlockPosition, RunFailure
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import Testbed
from tests.factories.results import HOSTILE
from tests.factories.runs import make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides

POLICY = Policy(metrics=("ttft_median", "output_throughput"))
OLD, NEW = "0.19.0", "0.19.1"
CAUSE = ("ValueError: block_size 7 is not supported", "EngineCore failed to start")


def crashed(version, number, *, lines=CAUSE, kind="died_at_start", **changes):
    failure = RunFailure(kind, "the server died at its start (exit status 1)", lines, 12.0)
    return make_run(f"{version}-{number}", version, **{"failure": failure, **changes, "trials": ()})


def served(version, number, **changes):
    trial = make_trial(ttft_median=0.1 + number * 1e-4, output_throughput=1000 + number)
    return make_run(f"{version}-{number}", version, trial, **changes)


def runs_of(version, good, bad=0):
    return [*(served(version, n) for n in range(good)), *(crashed(version, good + n) for n in range(bad))]


def decide(ours, theirs, *, waivers=(), limits=None, **options):
    sides = make_side_of(OLD, *ours, limits=limits), make_side_of(NEW, *theirs, limits=limits)
    return decide_sides(*sides, waivers=waivers, **{"policy": POLICY, **options})


def codes(result):
    return [reason.code.value for reason in result.reasons]


class TestWhoseFaultItIs:
    @pytest.mark.parametrize(("good", "bad"), [(0, 1), (0, 6), (5, 1)])
    def test_a_candidate_that_fails_where_the_baseline_serves_fails_the_gate(self, good, bad):
        result = decide(runs_of(OLD, 6), runs_of(NEW, good, bad))
        assert (result.decision, result.exit_code) == ("fail", 1)
        assert codes(result)[0] == "server_failed"
        text = result.reasons[0].text
        assert f"{bad} of {good + bad} server starts of 0.19.1 failed, where all 6 of 0.19.0 served" in text
        assert "ValueError: block_size 7 is not supported | EngineCore failed to start" in text
        assert result.advice.startswith("Stay on 0.19.0: 0.19.1 does not serve this reliably")

    def test_a_failing_candidate_needs_no_numbers_of_its_own(self):
        assert codes(decide(runs_of(OLD, 3), runs_of(NEW, 0, 2))) == ["server_failed"]

    def test_a_baseline_that_failed_more_often_says_nothing_against_the_candidate(self):
        result = decide(runs_of(OLD, 5, 1), runs_of(NEW, 6))
        assert result.decision == "pass"
        assert any("1 of 6 server starts of 0.19.0 failed (baseline)" in warning for warning in result.warnings)

    @pytest.mark.parametrize(("ours", "theirs"), [((5, 1), (5, 1)), ((4, 2), (5, 1))])
    def test_what_fails_on_both_sides_as_often_is_reported_and_decides_nothing(self, ours, theirs):
        result = decide(runs_of(OLD, *ours), runs_of(NEW, *theirs))
        assert result.decision == "pass"
        assert sum("server starts of" in warning for warning in result.warnings) == 2

    def test_a_candidate_that_fails_more_often_than_a_failing_baseline_is_not_shown_to_be_no_worse(self):
        result = decide(runs_of(OLD, 6, 1), runs_of(NEW, 5, 2))
        assert (result.decision, codes(result)[0]) == ("inconclusive", "incomparable")
        assert "a failure on both sides may not come from the version" in result.reasons[0].text

    def test_two_sides_that_never_served_are_not_compared(self):
        result = decide(runs_of(OLD, 0, 2), runs_of(NEW, 0, 2))
        assert (result.decision, set(codes(result))) == ("inconclusive", {"incomparable"})

    def test_without_a_counted_run_of_the_baseline_nothing_is_the_candidates_fault(self):
        limits = ConditionLimits(max_outside_cpu_cores=0.3)
        result = decide([served(OLD, 1, load=2.0)], [crashed(NEW, 1)], limits=limits)
        assert result.decision == "inconclusive"
        assert any("with no baseline to compare that with" in warning for warning in result.warnings)

    def test_another_machine_may_be_at_fault_itself(self):
        other = Testbed("bench-1", accelerator="H100", accelerator_count=1)
        theirs = [crashed(NEW, number, testbed=other) for number in range(2)]
        assert decide(runs_of(OLD, 3), theirs).decision == "inconclusive"
        assert decide(runs_of(OLD, 3), theirs, allow_incomparable=True).decision == "fail"

    def test_servers_of_one_suite_are_weighed_one_by_one(self):
        """The baseline cannot start one of them here, the candidate none: the other one is the candidate's fault."""

        def at(group):
            return BlockPosition("e1", 1, 1, "baseline", group=group)

        ours = [served(OLD, 1, place=at("server-a")), crashed(OLD, 2, place=at("server-b"))]
        theirs = [crashed(NEW, 1, place=at("server-a")), crashed(NEW, 2, place=at("server-b"))]
        result = decide(ours, theirs)
        assert codes(result)[0] == "server_failed"
        assert "1 of 1 server starts of 0.19.1 (server-a) failed, where the only one of" in result.reasons[0].text
        assert any("(server-b) failed (baseline)" in warning for warning in result.warnings)


class TestWhatAFailureIsNot:
    def test_it_is_neither_void_nor_counted(self):
        limits = ConditionLimits(max_outside_cpu_cores=0.3)
        side = make_side_of(NEW, served(NEW, 1, load=0.1), crashed(NEW, 2, load=9.0), crashed(NEW, 3), limits=limits)
        assert (len(side.counted), len(side.void), len(side.failed)) == (1, 0, 2)

    def test_its_unknown_load_speaks_against_no_other_run(self):
        limits = ConditionLimits(max_outside_cpu_cores=0.3)
        side = make_side_of(NEW, served(NEW, 1), crashed(NEW, 2, load=0.1), limits=limits)
        assert len(side.counted) == 1

    def test_where_some_failed_and_the_others_are_void_both_are_said(self):
        limits = ConditionLimits(max_outside_cpu_cores=0.3)
        ours = [served(OLD, 1, load=2.0), crashed(OLD, 2)]
        result = decide(ours, [served(NEW, 1, load=0.1)], limits=limits)
        assert any(
            "none of 2 runs of 0.19.0 (baseline) counts: 1 failed, 1 void (2.00 CPU cores" in reason.text
            for reason in result.reasons
        )

    @pytest.mark.parametrize("finding", ["*", "server_failed", "server/startup_time"])
    def test_no_waiver_covers_it_for_it_has_no_size(self, finding):
        waiver = Waiver(finding=finding, until=date(2030, 1, 1), max_change=0.99, owner="o", reason="r")
        result = decide(runs_of(OLD, 6), runs_of(NEW, 5, 1), waivers=[waiver])
        assert (result.decision, codes(result)[0]) == ("fail", "server_failed")

    @pytest.mark.parametrize("on_inconclusive", ["pass", "fail"])
    def test_what_an_inconclusive_gate_exits_with_does_not_matter_to_it(self, on_inconclusive):
        policy = POLICY.model_copy(update={"on_inconclusive": on_inconclusive})
        assert decide(runs_of(OLD, 6), runs_of(NEW, 0, 1), policy=policy).exit_code == 1


class TestALaunchLineThatIsRefused:
    @pytest.mark.parametrize(("matters", "decision"), [("blocks", "fail"), ("affects", "pass"), ("informs", "pass")])
    def test_fails_the_gate_whatever_was_measured_and_whatever_is_waived(self, matters, decision):
        change = ConfigChange(ConfigChangeKind.FLAG_REMOVED, "--swap-space", 4, None, ChangeRelevance(matters))
        waiver = Waiver(finding="*", until=date(2030, 1, 1), max_change=0.99, owner="o", reason="r")
        result = decide(runs_of(OLD, 6), runs_of(NEW, 6), waivers=[waiver], config_changes=[change])
        assert result.decision == decision
        assert ("flag_removed" in codes(result)) == (decision == "fail")
        assert result.config_changes == [change.as_document()]

    def test_weighs_less_than_a_server_that_was_seen_to_fail(self):
        change = ConfigChange(ConfigChangeKind.FLAG_REMOVED, "--swap-space", 4, None, ChangeRelevance.BLOCKS)
        result = decide(runs_of(OLD, 6), runs_of(NEW, 0, 1), config_changes=[change])
        assert codes(result) == ["server_failed", "flag_removed"]
        assert result.reasons[1].text == "the candidate does not accept --swap-space"


class TestWhatIsTold:
    def test_every_failed_run_is_listed_with_all_its_lines(self):
        lines = tuple(f"line {number}" for number in range(9))
        result = decide(runs_of(OLD, 2), [crashed(NEW, 1, lines=lines), crashed(NEW, 2, lines=(), id=17)])
        first, second = result.failed_runs
        assert (first.side, first.run, first.kind, first.lines) == ("candidate", "0.19.1-1", "died_at_start", [*lines])
        assert (second.run, second.lines) == ("run:17 (0.19.1-2)", [])

    def test_the_reason_has_the_first_lines_of_the_last_failure(self):
        lines = tuple(f"line {number}" for number in range(9))
        result = decide(runs_of(OLD, 2), [crashed(NEW, 1), crashed(NEW, 2, lines=lines)])
        assert result.reasons[0].text.endswith("(exit status 1): line 0 | line 1 | line 2")

    def test_a_log_is_raw_in_the_result_for_the_formats_to_escape(self):
        result = decide(runs_of(OLD, 2), [crashed(NEW, 1, lines=(HOSTILE,))])
        assert result.failed_runs[0].lines == [HOSTILE]
        assert HOSTILE in result.reasons[0].text
