"""From measured runs, known issues and waivers to one decision with its reasons."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.gate.check import decide_check
from regress_gate.gate.replicates import run_level_values
from regress_gate.model.metric import metric
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import Decision, ReasonCode, Verdict
from regress_gate.model.run import BlockPosition, Conditions, SuiteRef
from regress_gate.model.suite import ConditionLimits, Scenario, ServerConfig, Suite, Workload
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from tests.factories.results import coverage
from tests.factories.runs import (
    NOW,
    SUITE,
    TESTBED,
    TODAY,
    make_finding,
    make_run,
    make_side_of,
    make_trial,
    side_with,
)
from tests.gate.deciding import decide_sides

STEADY = [0.100, 0.101, 0.099, 0.100, 0.1005, 0.0995]
SLOWER = [value * 1.2 for value in STEADY]
POLICY = Policy(metrics=("ttft_median", "output_throughput", "failed_requests"), margins={"failed_requests": 0.02})


def suite_of(*scenarios, limits=None):
    """A suite of these scenarios under the given limits."""
    server, workload = ServerConfig(model="tiny"), Workload(concurrency=8)
    return Suite(
        name=SUITE.name,
        version=SUITE.version,
        description="made up",
        scenarios=[Scenario(name=name, server=server, workload=workload) for name in scenarios],
        conditions=limits or ConditionLimits(),
    )


def decide(base, cand, *, policy=POLICY, waivers=(), findings=(), limits=None, definition=None, **options):
    return decide_sides(
        base,
        cand,
        definition=definition or suite_of("c8", limits=limits),
        policy=policy,
        waivers=waivers,
        findings=findings,
        **options,
    )


def unchanged():
    return side_with("0.19.0", STEADY), side_with("0.19.1", STEADY[::-1])


def regressed():
    return side_with("0.19.0", STEADY), side_with("0.19.1", SLOWER)


def waiver(finding="c8/ttft_median", *, days=10, cap=0.5):
    return Waiver(finding=finding, until=TODAY + timedelta(days), max_change=cap, owner="serving", reason="agreed")


def codes(result):
    return [reason.code for reason in result.reasons]


class TestOtherPlatform:
    """What runs on CPUs says nothing of a server on GPUs, whatever was shown there."""

    CPU = "0.19.0+cpu", "0.19.1+cpu"

    def decide(self, base, cand, *, versions=CPU, platform="cuda", accelerator=None):
        sides = [
            make_side_of(
                version, *(replace(run, testbed=Testbed("lab", accelerator)) for run in side_with(version, ttft).runs)
            )
            for version, ttft in zip(versions, (base, cand), strict=True)
        ]
        return decide(*sides, deployment_platform=platform)

    def test_equal_speed_on_cpus_is_no_pass_for_gpus(self):
        result = self.decide(STEADY, STEADY)
        assert result.decision is Decision.INCONCLUSIVE
        assert codes(result)[0] is ReasonCode.OTHER_PLATFORM
        assert result.advice == (
            "Measure both versions on the machine that serves, with a suite made for it: your deployment runs on "
            "cuda, and this was measured on cpu: it shows nothing of cuda."
        )

    def test_a_loss_on_cpus_fails_all_the_same(self):
        result = self.decide(STEADY, SLOWER)
        assert result.decision is Decision.FAIL
        assert ReasonCode.OTHER_PLATFORM in codes(result)

    @pytest.mark.parametrize(
        ("versions", "platform", "accelerator"),
        [
            (CPU, "cpu", None),
            (CPU, None, None),
            (("0.19.0", "0.19.1"), "cuda", "NVIDIA H100 80GB HBM3"),
            (("0.19.0", "0.19.1"), "cuda", None),  # imported: nobody said where it was measured
        ],
    )
    def test_the_same_or_an_unknown_platform_decides(self, versions, platform, accelerator):
        result = self.decide(STEADY, STEADY, versions=versions, platform=platform, accelerator=accelerator)
        assert result.decision is Decision.PASS


class TestDecision:
    def test_everything_within_its_margin_passes(self):
        result = decide(*unchanged())
        assert (result.decision, result.exit_code) == (Decision.PASS, 0)
        assert codes(result) == [ReasonCode.ALL_WITHIN_MARGIN]
        assert {series.verdict for series in result.series if series.gated} == {Verdict.WITHIN_MARGIN}

    def test_a_regression_fails_and_is_named_with_its_size(self):
        result = decide(*regressed())
        assert (result.decision, result.exit_code) == (Decision.FAIL, 1)
        assert result.reasons[0].series == "c8/ttft_median"
        assert "20.0%" in result.reasons[0].text
        assert "c8/ttft_median" in result.advice

    def test_one_run_a_side_is_inconclusive_however_large_the_loss(self):
        result = decide(side_with("0.19.0", [0.1]), side_with("0.19.1", [0.9]))
        assert (result.decision, result.exit_code) == (Decision.INCONCLUSIVE, 3)
        assert "runs a side" in result.reasons[0].text

    def test_a_regression_outranks_what_is_undecided(self):
        base = make_side_of(
            "0.19.0",
            *(
                make_run(str(n), "0.19.0", make_trial(ttft_median=v, output_throughput=1000 * (1 + n % 2)))
                for n, v in enumerate(STEADY)
            ),
        )
        cand = make_side_of(
            "0.19.1",
            *(
                make_run(str(n), "0.19.1", make_trial(ttft_median=v, output_throughput=1000 * (1 + n % 2)))
                for n, v in enumerate(SLOWER)
            ),
        )
        result = decide(base, cand)
        assert result.decision is Decision.FAIL
        assert codes(result) == [ReasonCode.REGRESSION, ReasonCode.UNDECIDED]

    def test_nothing_measured_in_common_cannot_pass(self):
        result = decide(side_with("0.19.0", STEADY, scenario="a"), side_with("0.19.1", STEADY, scenario="b"))
        assert result.decision is Decision.INCONCLUSIVE
        assert ReasonCode.MISSING_SERIES in codes(result)
        assert any("candidate only" in warning for warning in result.warnings)
        assert any("scenario c8 of the suite was measured on neither side" in reason.text for reason in result.reasons)

    def test_a_side_without_runs_cannot_pass(self):
        result = decide(side_with("0.19.0", STEADY), make_side_of("0.19.1"))
        assert result.decision is Decision.INCONCLUSIVE
        assert "0.19.1 (candidate) has no runs" in result.reasons[0].text
        assert result.series == []

    def test_no_gated_metric_cannot_pass(self):
        result = decide(*unchanged(), policy=Policy(metrics=("goodput",)))
        assert result.decision is Decision.INCONCLUSIVE
        assert codes(result) == [ReasonCode.NO_GATED_SERIES]

    def test_a_gated_metric_that_the_candidate_lacks_cannot_pass(self):
        base, cand = side_with("0.19.0", STEADY), side_with("0.19.1", STEADY, tpot_median=None)
        base = side_with("0.19.0", STEADY, tpot_median=0.02)
        result = decide(base, cand, policy=Policy(metrics=("ttft_median", "tpot_median")))
        assert result.decision is Decision.INCONCLUSIVE
        assert [r.series for r in result.reasons if r.code is ReasonCode.MISSING_SERIES] == ["c8/tpot_median"]

    @pytest.mark.parametrize(("asked", "code"), [("pass", 0), ("fail", 1), (None, 3)])
    def test_a_team_that_rolls_out_chooses_the_exit_code_of_inconclusive(self, asked, code):
        result = decide(side_with("0.19.0", [0.1]), side_with("0.19.1", [0.1]), policy=Policy(on_inconclusive=asked))
        assert (result.decision, result.exit_code) == (Decision.INCONCLUSIVE, code)

    def test_report_only_never_fails_the_job_but_says_what_was_decided(self):
        result = decide(*regressed(), report_only=True)
        assert (result.decision, result.exit_code) == (Decision.FAIL, 0)


class TestSeries:
    def test_a_runs_value_is_the_mean_over_its_trials(self):
        run = make_run("1", "0.19.0", make_trial(ttft_median=0.1), make_trial(ordinal=2, ttft_median=0.3))
        values = run_level_values([run])
        assert values["c8", "ttft_median"].per_run == [pytest.approx(0.2)]
        assert values["c8", "ttft_median"].requests == 400

    def test_trials_are_not_counted_as_evidence(self):
        trials = [make_trial(ordinal=n, ttft_median=v) for n, v in enumerate(STEADY, 1)]
        slow = [make_trial(ordinal=n, ttft_median=v) for n, v in enumerate(SLOWER, 1)]
        result = decide(
            make_side_of("0.19.0", make_run("1", "0.19.0", *trials)),
            make_side_of("0.19.1", make_run("1", "0.19.1", *slow)),
        )
        assert result.decision is Decision.INCONCLUSIVE
        assert {series.baseline.runs for series in result.series} == {1}

    def test_a_p99_of_too_few_requests_does_not_gate(self):
        sides = [side_with(v, STEADY, ttft_p99=0.2, completed=48) for v in ("0.19.0", "0.19.1")]
        (p99,) = [s for s in decide(*sides, policy=Policy(metrics=("ttft_*",))).series if s.metric == "ttft_p99"]
        assert not p99.gated
        assert "48 requests" in p99.notes[0]

    def test_a_failed_request_does_not_take_the_p99_out_of_the_gate(self):
        base = side_with("0.19.0", STEADY, ttft_p99=0.2, completed=100)
        cand = side_with("0.19.1", STEADY, ttft_p99=2.0, completed=99, failed=1)
        result = decide(base, cand, policy=Policy(metrics=("ttft_p99",)))
        assert result.decision is Decision.FAIL

    @pytest.mark.parametrize(("ours", "theirs", "lacking"), [(200, 50, "candidate"), (50, 200, "baseline")])
    def test_a_p99_that_only_one_side_can_support_cannot_pass(self, ours, theirs, lacking):
        base = side_with("0.19.0", STEADY, ttft_p99=0.2, completed=ours)
        cand = side_with("0.19.1", STEADY, ttft_p99=0.2, completed=theirs)
        result = decide(base, cand, policy=Policy(metrics=("ttft_median", "ttft_p99")))
        assert result.decision is Decision.INCONCLUSIVE
        (reason,) = [reason for reason in result.reasons if reason.code is ReasonCode.MISSING_SERIES]
        assert f"on the {lacking} a trial of 50 requests cannot support it" in reason.text

    def test_a_client_that_is_known_of_one_side_only_is_reported(self):
        def side(version, workload):
            runs = [
                make_run(str(n), version, make_trial(ttft_median=v, workload=workload)) for n, v in enumerate(STEADY)
            ]
            return make_side_of(version, *runs)

        known = {"definitions": "vllm-bench-0.20"}
        for sides in ((side("0.19.0", {}), side("0.19.1", known)), (side("0.19.0", known), side("0.19.1", {}))):
            (doubt,) = [warning for warning in decide(*sides).warnings if "client" in warning]
            assert doubt.startswith(
                "c8: one part was measured by vllm-bench-0.20, the client of another part is unknown"
            )
        same = decide(side("0.19.0", known), side("0.19.1", known))
        assert not any("client" in warning for warning in same.warnings)

    def test_a_percentile_of_an_unknown_number_of_requests_does_not_gate(self):
        runs = [
            [
                replace(run, trials=tuple(replace(trial, completed=None) for trial in run.trials))
                for run in side_with(version, STEADY, ttft_p99=0.2).runs
            ]
            for version in ("0.19.0", "0.19.1")
        ]
        sides = [make_side_of(version, *made) for version, made in zip(("0.19.0", "0.19.1"), runs, strict=True)]
        result = decide(*sides, policy=Policy(metrics=("ttft_median", "ttft_p99")))
        (tail,) = [one for one in result.series if one.metric == "ttft_p99"]
        assert not tail.gated
        assert "a trial of an unknown number of requests cannot support it (100 can)" in tail.notes[0]
        assert [one.metric for one in result.series if one.gated] == ["ttft_median"]

    @pytest.mark.parametrize(("metric", "enough"), [("ttft_p90", 10), ("ttft_p95", 20), ("ttft_p99", 100)])
    def test_a_percentile_gates_from_as_many_requests_as_reach_its_tail(self, metric, enough):
        for completed, gates in ((enough - 1, False), (enough, True)):
            sides = [side_with(v, STEADY, completed=completed, **{metric: 0.2}) for v in ("0.19.0", "0.19.1")]
            (found,) = [s for s in decide(*sides, policy=Policy(metrics=(metric,))).series if s.metric == metric]
            assert found.gated is gates

    def test_the_smallest_trial_counts(self):
        trials = [make_trial(ordinal=n, ttft_p99=0.2, completed=completed) for n, completed in ((1, 200), (2, 50))]
        sides = [make_side_of(v, *(make_run(str(n), v, *trials) for n in range(3))) for v in ("0.19.0", "0.19.1")]
        (p99,) = [s for s in decide(*sides, policy=Policy(metrics=("ttft_p99",))).series if s.metric == "ttft_p99"]
        assert not p99.gated

    def test_only_the_trials_that_all_runs_have_are_compared(self):
        slow_first = [(1, 0.3), (2, 0.1), (3, 0.1)]
        base = [
            make_run(str(n), "0.19.0", *(make_trial(ordinal=o, ttft_median=v) for o, v in slow_first)) for n in range(4)
        ]
        cand = [make_run(str(n), "0.19.1", make_trial(ttft_median=0.3)) for n in range(4)]
        result = decide(make_side_of("0.19.0", *base), make_side_of("0.19.1", *cand))
        (ttft,) = [series for series in result.series if series.metric == "ttft_median"]
        assert ttft.change == pytest.approx(0)
        assert any("only trial 1 is compared" in note for note in ttft.notes)

    def test_a_candidate_that_completes_nothing_where_the_baseline_serves_fails(self):
        dead = make_trial(completed=0, failed=200, ttft_median=None, output_throughput=None)
        runs = [make_run(str(n), "0.19.1", dead if n < 3 else make_trial()) for n in range(6)]
        result = decide(side_with("0.19.0", STEADY), make_side_of("0.19.1", *runs))
        assert result.decision is Decision.FAIL
        assert "3 of 6 trials of c8 completed no request on the candidate" in result.reasons[0].text

    def test_a_gated_metric_that_only_the_candidate_has_cannot_pass(self):
        base, cand = side_with("0.19.0", STEADY, failed_requests=None), side_with("0.19.1", STEADY)
        result = decide(base, cand)
        assert result.decision is Decision.INCONCLUSIVE
        assert "c8/failed_requests gates but was measured on the candidate only" in result.reasons[0].text

    def test_start_up_and_memory_are_series_of_the_server(self):
        sides = [
            make_side_of(v, *(make_run(str(n), v, metrics={"startup_time": 30.0 + n}) for n in range(3)))
            for v in ("0.19.0", "0.19.1")
        ]
        names = [series.name for series in decide(*sides).series]
        assert "server/startup_time" in names

    def test_survivors_of_failed_requests_are_not_taken_at_face_value(self):
        cand = side_with("0.19.1", STEADY, completed=150, failed=50)
        result = decide(side_with("0.19.0", STEADY), cand)
        (ttft,) = [series for series in result.series if series.metric == "ttft_median"]
        assert any("25.0% of the candidate's requests failed" in note for note in ttft.notes)
        assert result.decision is Decision.FAIL


class TestComparability:
    def test_another_machine_is_refused_with_the_differences(self):
        other = Testbed(
            "bench-2", accelerator="H100", accelerator_count=1, cpu="x86-64", cpu_count=16, memory_bytes=2**37
        )
        cand = make_side_of("0.19.1", *(make_run(str(n), "0.19.1", testbed=other) for n in range(3)))
        result = decide(side_with("0.19.0", STEADY), cand)
        assert result.decision is Decision.INCONCLUSIVE
        assert codes(result) == [ReasonCode.INCOMPARABLE]
        assert "accelerator: H200 → H100" in result.reasons[0].text
        assert not result.testbed.comparable
        assert result.series == []

    def test_who_insists_gets_a_comparison_that_is_marked(self):
        other = Testbed("bench-2")
        cand = make_side_of("0.19.1", *(make_run(str(n), "0.19.1", testbed=other) for n in range(3)))
        result = decide(side_with("0.19.0", STEADY), cand, allow_incomparable=True)
        assert result.series
        assert not result.testbed.comparable
        assert any("--allow-incomparable" in warning for warning in result.warnings)

    def test_machines_of_two_names_with_the_same_known_hardware_are_one(self):
        twin = Testbed("bench-2", *list(TESTBED.facts.values())[:2], None, "x86-64", 16, 2**37)
        cand = make_side_of("0.19.1", *(make_run(str(n), "0.19.1", testbed=twin) for n in range(3)))
        assert decide(side_with("0.19.0", STEADY), cand).testbed.comparable

    def test_two_machines_under_one_name_are_found_within_a_side(self):
        other = Testbed(TESTBED.name, "H200", 1, None, "x86-64", 64, 2**37)
        runs = [make_run(str(n), "0.19.1", testbed=other if n else TESTBED) for n in range(3)]
        result = decide(side_with("0.19.0", STEADY), make_side_of("0.19.1", *runs))
        assert result.decision is Decision.INCONCLUSIVE
        assert "cpu_count: 16 → 64" in result.reasons[0].text

    def test_a_suite_that_is_not_known_is_warned_of(self):
        result = decide_sides(*unchanged(), policy=POLICY)
        assert any("suite chat@1 is not known here" in warning for warning in result.warnings)

    def test_another_suite_version_is_refused(self):
        cand = make_side_of("0.19.1", *(make_run(str(n), "0.19.1", suite=SuiteRef("chat", "2")) for n in range(3)))
        result = decide(side_with("0.19.0", STEADY), cand)
        assert "suite: chat@1 → chat@2" in result.reasons[0].text

    @pytest.mark.parametrize(
        ("ours", "theirs", "why"),
        [
            ({"max_concurrency": 8}, {"max_concurrency": 16}, "max_concurrency differs: 8 → 16"),
            ({"request_rate": None}, {"request_rate": 4.0}, "request_rate differs: unlimited → 4.0"),
            ({"num_prompts": 1000}, {"num_prompts": 50}, "num_prompts differs: 1000 → 50"),
            ({"model": "a/Llama"}, {"model": "b/Qwen"}, "model differs: llama → qwen"),
            ({"mean_output_tokens": 128}, {"mean_output_tokens": 100}, "output tokens per request differ: 128 → 100"),
            ({"mean_input_tokens": 128}, {"mean_input_tokens": 136}, "prompt tokens per request differ: 128 → 136"),
        ],
    )
    def test_a_scenario_that_was_other_work_is_not_compared(self, ours, theirs, why):
        base = side_with("0.19.0", STEADY, workload=ours)
        cand = side_with("0.19.1", SLOWER, workload=theirs)
        result = decide(base, cand)
        assert result.decision is Decision.INCONCLUSIVE
        assert why in result.reasons[0].text
        assert {series.verdict for series in result.series} == {Verdict.UNDECIDED}

    def test_a_prompt_that_is_counted_with_its_start_token_is_the_same_work(self):
        base = side_with("0.19.0", STEADY, workload={"mean_input_tokens": 128})
        cand = side_with("0.19.1", STEADY, workload={"mean_input_tokens": 129})
        assert decide(base, cand).decision is Decision.PASS

    def test_a_model_in_another_folder_is_the_same_model(self):
        base = side_with("0.19.0", STEADY, workload={"model": "meta-llama/Llama-3.1-8B"})
        cand = side_with("0.19.1", STEADY, workload={"model": "/data/models/Llama-3.1-8B/"})
        assert decide(base, cand).decision is Decision.PASS

    def test_another_client_version_is_a_reported_difference(self):
        base, cand = (side_with(v, STEADY, client=c) for v, c in (("0.19.0", "0.19"), ("0.19.1", "0.32")))
        (difference,) = decide(base, cand).testbed.differences
        assert (difference.what, difference.blocks) == ("client", False)


class TestConditions:
    LIMITS = ConditionLimits(max_outside_cpu_cores=0.1)

    def runs(self, version, loads, factor=1.0):
        return [
            make_run(f"{n}", version, make_trial(ttft_median=STEADY[n % 6] * factor), load=load)
            for n, load in enumerate(loads)
        ]

    def test_a_disturbed_run_is_void_shown_and_not_averaged_in(self):
        base = make_side_of("0.19.0", *self.runs("0.19.0", [0.01] * 6), limits=self.LIMITS)
        cand_runs = [
            *self.runs("0.19.1", [0.02] * 6),
            make_run("busy", "0.19.1", make_trial(ttft_median=0.5), load=0.6),
        ]
        result = decide(base, make_side_of("0.19.1", *cand_runs, limits=self.LIMITS), limits=self.LIMITS)
        assert result.decision is Decision.PASS
        assert [void.run for void in result.void_runs] == ["busy"]
        assert "0.60 CPU cores" in result.void_runs[0].reason
        assert result.candidate.runs == 6

    def test_a_side_of_disturbed_runs_alone_decides_nothing(self):
        base = make_side_of("0.19.0", *self.runs("0.19.0", [0.6] * 4, factor=2.3), limits=self.LIMITS)
        cand = make_side_of("0.19.1", *self.runs("0.19.1", [0.01] * 4), limits=self.LIMITS)
        result = decide(base, cand, limits=self.LIMITS)
        assert result.decision is Decision.INCONCLUSIVE
        assert codes(result)[0] is ReasonCode.INCOMPARABLE
        assert "all 4 runs of 0.19.0" in result.reasons[0].text

    def test_unrecorded_conditions_are_not_compared_with_recorded_ones(self):
        base = make_side_of("0.19.0", *self.runs("0.19.0", [None] * 4, factor=2.3), limits=self.LIMITS)
        cand = make_side_of("0.19.1", *self.runs("0.19.1", [0.01] * 4), limits=self.LIMITS)
        result = decide(base, cand, limits=self.LIMITS)
        assert result.decision is Decision.INCONCLUSIVE
        assert "outside CPU load: not recorded → recorded" in result.reasons[0].text

    def test_an_unrecorded_run_beside_recorded_ones_is_void(self):
        side = make_side_of("0.19.0", *self.runs("0.19.0", [0.01, None]), limits=self.LIMITS)
        assert [void.run.label for void in side.void] == ["1"]

    def test_a_disturbed_trial_makes_a_run_void_whose_own_conditions_are_not_recorded(self):
        trial = replace(make_trial(), conditions=Conditions(outside_cpu_cores=5.0))
        side = make_side_of("0.19.0", make_run("busy", "0.19.0", trial), limits=self.LIMITS)
        assert [void.run.label for void in side.void] == ["busy"]

    def test_conditions_without_a_record_are_warned_of(self):
        sides = [make_side_of(v, *self.runs(v, [None] * 6), limits=self.LIMITS) for v in ("0.19.0", "0.19.1")]
        assert any(
            "nothing shows that the machine was quiet" in warning
            for warning in decide(*sides, limits=self.LIMITS).warnings
        )

    def test_sides_that_were_disturbed_unlike_are_not_compared_whatever_the_suite(self):
        def sides(load):
            few = Testbed("small", accelerator="cpu", cpu="x86-64", cpu_count=2, memory_bytes=2**34)
            return [
                make_side_of(v, *(replace(run, testbed=few) for run in self.runs(v, [load_of_side] * 6)))
                for v, load_of_side in (("0.19.0", 0.02), ("0.19.1", load))
            ]

        disturbed = decide(*sides(0.6))
        assert disturbed.decision is Decision.INCONCLUSIVE
        assert "outside CPU load: 0.02 cores → 0.60 cores" in disturbed.reasons[0].text
        assert decide(*sides(0.05)).decision is Decision.PASS

    def test_without_a_limit_all_runs_count(self):
        assert len(make_side_of("0.19.0", *self.runs("0.19.0", [0.9, None, 0.0])).counted) == 3


class TestKnownIssues:
    def test_a_severe_issue_that_the_move_brings_fails_even_where_nothing_was_measured_worse(self):
        result = decide(*unchanged(), findings=[make_finding()])
        assert result.decision is Decision.FAIL
        assert result.reasons[0].issue == "VLLM-1"
        assert result.known_issues[0].blocks

    @pytest.mark.parametrize(
        "harmless",
        [
            {"applies": "no"},
            {"applies": "mitigated"},
            {"applies": "unknown"},
            {"effect": "carried"},
            {"effect": "resolved"},
            {"severity": "medium"},
            {"status": "fix_in_candidate"},
        ],
    )
    def test_an_issue_blocks_only_when_it_applies_is_new_severe_and_unfixed(self, harmless):
        result = decide(*unchanged(), findings=[make_finding(**harmless)])
        assert result.decision is Decision.PASS
        assert not result.known_issues[0].blocks

    def test_an_issue_that_may_apply_is_warned_of(self):
        result = decide(*unchanged(), findings=[make_finding(applies="unknown")])
        assert any("VLLM-1 may apply" in warning for warning in result.warnings)

    def test_many_that_may_apply_are_one_warning(self):
        result = decide(*unchanged(), findings=[make_finding(id=f"VLLM-{n}", applies="unknown") for n in range(1, 6)])
        (warning,) = [warning for warning in result.warnings if "may apply" in warning]
        assert warning.startswith("VLLM-1, VLLM-2, VLLM-3 and 2 more may apply")

    def test_without_an_accelerator_it_is_asked_for_and_nothing_is_counted(self):
        findings = [make_finding(id=f"VLLM-{n}", applies="unknown") for n in range(1, 6)]
        result = decide(*unchanged(), findings=findings, coverage=coverage(platform=None))
        assert result.decision is Decision.PASS
        assert result.advice.endswith("; name the accelerator (--accelerator) to see which known issues apply.")
        assert "most known issues may apply: name the accelerator (--accelerator)" in result.warnings

    def test_the_policy_can_switch_blocking_off(self):
        assert (
            decide(
                *unchanged(), findings=[make_finding()], policy=Policy(block_severity="never", metrics=("ttft_median",))
            ).decision
            is Decision.PASS
        )


class TestCheck:
    def check(self, *findings, base="0.19.0", waivers=(), **reach):
        return decide_check(
            None if base is None else Version.parse(base),
            Version.parse("0.19.1"),
            policy=Policy(),
            waivers=waivers,
            findings=findings,
            coverage=coverage(**reach),
            now=NOW,
        )

    def test_an_interval_without_review_is_inconclusive(self):
        result = self.check(covered=False, why="0.19.1 was not reviewed")
        assert (result.decision, result.exit_code, codes(result)) == (
            Decision.INCONCLUSIVE,
            3,
            [ReasonCode.NOT_COVERED],
        )
        assert "compare 0.19.0 0.19.1 --measure" in result.advice

    def test_a_blocking_issue_fails_also_without_review(self):
        result = self.check(make_finding(), covered=False, why="0.19.1 was not reviewed")
        assert (result.exit_code, codes(result)) == (1, [ReasonCode.KNOWN_ISSUE, ReasonCode.NOT_COVERED])

    def test_a_waiver_of_an_issue_is_none_of_a_missing_review(self):
        result = self.check(make_finding(), covered=False, why="x", waivers=[waiver("VLLM-1")])
        assert result.exit_code == 3

    def test_nothing_known_passes_and_says_that_nothing_was_measured(self):
        result = self.check()
        assert (result.decision, result.exit_code) == (Decision.PASS, 0)
        assert "nothing was measured" in result.advice

    def test_a_blocking_issue_fails(self):
        assert self.check(make_finding()).exit_code == 1

    def test_a_missing_fact_that_would_decide_is_inconclusive_and_named(self):
        result = self.check(make_finding(applies="unknown"))
        assert result.exit_code == 3
        assert "because the test says so" in result.reasons[0].text

    def test_what_is_carried_is_no_reason_to_stay(self):
        assert self.check(make_finding(effect="carried")).exit_code == 0

    def test_without_a_version_to_come_from_everything_the_version_has_counts(self):
        assert self.check(make_finding(effect="carried"), base=None).exit_code == 1

    def test_a_waived_issue_does_not_block(self):
        assert self.check(make_finding(), waivers=[waiver("VLLM-1")]).exit_code == 0


class TestWaivers:
    def test_a_waived_regression_passes_and_is_shown(self):
        result = decide(*regressed(), waivers=[waiver()])
        assert result.decision is Decision.PASS
        assert ReasonCode.WAIVED in codes(result)
        assert result.waivers[0].state == "used"

    @pytest.mark.parametrize(("bad", "state"), [({"days": -1}, "expired"), ({"cap": 0.1}, "exceeded")])
    def test_a_waiver_that_is_over_or_too_small_counts_for_nothing(self, bad, state):
        result = decide(*regressed(), waivers=[waiver(**bad)])
        assert result.decision is Decision.FAIL
        assert result.waivers[0].state == state

    def test_the_last_day_still_counts(self):
        assert decide(*regressed(), waivers=[waiver(days=0)]).decision is Decision.PASS

    def test_the_cap_holds_for_what_may_have_been_lost_and_not_for_the_estimate(self):
        base = side_with("0.19.0", [0.1, 0.11, 0.09, 0.1, 0.105, 0.095])
        cand = side_with("0.19.1", [0.15, 0.165, 0.135, 0.15, 0.1575, 0.1425])
        (ttft,) = [series for series in decide(base, cand).series if series.metric == "ttft_median"]
        assert decide(base, cand, waivers=[waiver(cap=(ttft.change + ttft.interval[1]) / 2)]).decision is Decision.FAIL
        assert decide(base, cand, waivers=[waiver(cap=ttft.interval[1] + 0.01)]).decision is Decision.PASS

    def test_what_is_waived_is_not_called_within_its_margin(self):
        result = decide(*regressed(), waivers=[waiver()])
        assert any("all 2 other gated series" in reason.text for reason in result.reasons)
        assert "waived finding" in result.advice

    def test_an_unused_waiver_is_warned_of(self):
        result = decide(*unchanged(), waivers=[waiver("c99/ttft_median")])
        assert result.waivers[0].state == "unused"
        assert any("unused" in warning for warning in result.warnings)

    def test_a_glob_covers_several_series(self):
        assert decide(*regressed(), waivers=[waiver("*/ttft_*")]).decision is Decision.PASS

    def test_a_blocking_issue_can_be_waived_by_its_id(self):
        result = decide(*unchanged(), findings=[make_finding()], waivers=[waiver("VLLM-1")])
        assert result.decision is Decision.PASS
        assert not result.known_issues[0].blocks

    def test_an_undecided_series_passes_when_all_it_may_have_lost_is_waived(self):
        noisy = [0.1, 0.115, 0.09, 0.105, 0.095, 0.11]
        sides = side_with("0.19.0", noisy), side_with("0.19.1", noisy[::-1])
        assert decide(*sides).decision is Decision.INCONCLUSIVE
        assert decide(*sides, waivers=[waiver()]).decision is Decision.PASS


VALUE = st.one_of(st.none(), st.sampled_from([0.1, 0.101, 0.15, 0.5]))
RUNS = st.lists(st.tuples(VALUE, st.integers(0, 200), st.integers(0, 50), st.sampled_from(["a", "b"])), max_size=5)


class TestNothingPassesWithoutEvidence:
    @given(RUNS, RUNS, st.sampled_from([("ttft_*",), ("*",), ("failed_requests",)]))
    def test_a_pass_means_that_every_gated_series_of_a_shared_scenario_was_shown(self, ours, theirs, metrics):
        def side(version, runs):
            made = [
                make_run(
                    str(n), version, make_trial(where, completed=done, failed=lost, ttft_median=value, ttft_p99=value)
                )
                for n, (value, done, lost, where) in enumerate(runs)
                if done + lost
            ]
            return make_side_of(version, *made)

        sides = side("0.19.0", ours), side("0.19.1", theirs)
        policy = Policy(metrics=metrics)
        result = decide(*sides, policy=policy, definition=suite_of("a"))
        if result.decision is not Decision.PASS:
            return
        shown = {s.name for s in result.series if s.gated and s.verdict in (Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT)}
        assert shown
        scenarios = {trial.scenario for run in sides[0].runs for trial in run.trials}
        for run in sides[1].counted:
            for trial in run.trials:
                assert trial.completed
                for name in trial.metrics:
                    supported = metric(name).tail is None or trial.requests >= metric(name).min_requests
                    if trial.scenario in scenarios and policy.gates(name) and supported:
                        assert f"{trial.scenario}/{name}" in shown or not _gated(result, trial.scenario, name)


def _gated(result, scenario, name):
    return any(s.gated for s in result.series if (s.scenario, s.metric) == (scenario, name))


class TestOrderOfReasons:
    def test_the_heaviest_reason_comes_first(self):
        base, cand = regressed()
        result = decide(base, cand, findings=[make_finding()], waivers=[waiver("VLLM-1")])
        assert codes(result) == [ReasonCode.REGRESSION, ReasonCode.WAIVED]


class TestSideBySide:
    def placed(self, version, values, experiment, **place):
        side = side_with(version, values)
        name = "baseline" if version == "0.19.0" else "candidate"
        places = [BlockPosition(experiment, block, 1, name, **place) for block in range(1, len(values) + 1)]
        runs = [replace(run, place=where) for run, where in zip(side.runs, places, strict=True)]
        return make_side_of(version, *runs)

    def test_runs_of_another_day_are_left_out_where_there_are_blocks(self):
        slow_day = self.placed("0.19.0", SLOWER, "monday").runs
        baseline = make_side_of("0.19.0", *self.placed("0.19.0", STEADY, "friday").runs, *slow_day)
        result = decide(baseline, self.placed("0.19.1", STEADY[::-1], "friday"))
        assert (result.decision, result.baseline.runs) == (Decision.PASS, len(STEADY))
        assert (
            f"{len(SLOWER)} runs that were not made beside the other version left out: conditions drift between days"
            in (result.warnings)
        )

    def test_versions_that_were_never_side_by_side_are_compared_with_a_warning(self):
        result = decide(self.placed("0.19.0", STEADY, "monday"), self.placed("0.19.1", STEADY, "friday"))
        assert any("never measured side by side" in warning for warning in result.warnings)
        assert not any("side by side" in warning for warning in decide(*unchanged()).warnings), (
            "nobody knows of imports"
        )

    @pytest.mark.parametrize(
        ("place", "what"),
        [({"suite_digest": "a" * 64}, "suite's text"), ({"resident": True}, "servers of a block")],
    )
    def test_what_else_differs_forbids_the_comparison(self, place, what):
        other = {"suite_digest": "b" * 64} if "suite_digest" in place else {"resident": False}
        sides = self.placed("0.19.0", STEADY, "monday", **place), self.placed("0.19.1", STEADY, "friday", **other)
        result = decide(*sides)
        assert result.decision is Decision.INCONCLUSIVE
        assert f"the two sides are not comparable: {what}" in result.reasons[0].text


def test_values_whose_mean_is_beyond_all_numbers_are_not_compared_and_the_report_is_whole():
    """Two trials of a run, each as large as a number can be: no store refuses them."""

    def side(version):
        trials = [make_trial(ordinal=ordinal, ttft_median=1.7e308) for ordinal in (1, 2)]
        return make_side_of(version, *(make_run(str(n), version, *trials) for n in range(3)))

    result = decide(side("0.19.0"), side("0.19.1"))
    found = next(series for series in result.series if series.metric == "ttft_median")
    assert found.verdict is Verdict.UNDECIDED
    assert found.change is None
    assert found.baseline.mean is None
    assert "infinite" in found.notes[-1]
    assert result.decision is Decision.INCONCLUSIVE
    assert next(series for series in result.series if series.metric == "output_throughput").interval is not None


@pytest.mark.parametrize("tried_by", [("0.19.1",), ("0.19.0", "0.19.1")])
def test_a_scenario_of_the_suite_that_was_tried_in_vain_is_missing(tried_by):
    """What was measured there does not gate, so no series says that nothing was compared."""

    def side(version):
        runs = [make_run(str(n), version, make_trial("b", ttft_median=0.1)) for n in range(3)]
        if version in tried_by:
            runs.append(make_run("a", version, make_trial("a", completed=0, failed=1, ttft_median=None)))
        return make_side_of(version, *runs)

    policy = Policy(metrics=("ttft_*",))
    result = decide(side("0.19.0"), side("0.19.1"), policy=policy, definition=suite_of("a", "b"))
    assert result.decision is Decision.INCONCLUSIVE
    assert "scenario a of the suite was measured on neither side" in [reason.text for reason in result.reasons]
