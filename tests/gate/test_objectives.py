"""Service-level objectives: limits that the candidate has to keep, whatever the baseline does."""

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from regress_gate.gate.replicates import run_level_values
from regress_gate.model.documents import parse_toml, validation_messages
from regress_gate.model.policy import Policy, PolicyOverrides, Waiver, objective_limit
from regress_gate.model.result import Decision, ReasonCode
from regress_gate.model.samples import Samples
from regress_gate.stats.estimate import estimate_level
from tests.factories.runs import TODAY, make_run, make_side_of, make_trial
from tests.factories.scripts import load_script
from tests.gate.deciding import decide_sides

STEADY = (0.100, 0.101, 0.099, 0.100, 0.1005)


def side_of(version, values, name="ttft_p99", **trial):
    runs = [make_run(str(at), version, make_trial(**{name: value}, **trial)) for at, value in enumerate(values, 1)]
    return make_side_of(version, *runs)


def decide(base, cand, slo, *, gated=("ttft_p99",), waivers=(), margin=0.5):
    policy = Policy(metrics=gated, margins={"ttft_p99": margin}, slo=slo)
    return decide_sides(base, cand, policy=policy, waivers=waivers)


def sides_of_two_scenarios(first="ttft_p99"):
    """c1 sends 24 requests and c16 200."""
    return [
        make_side_of(
            version,
            *(
                make_run(
                    str(at),
                    version,
                    make_trial("c1", completed=24, ttft_median=value, **{first: value}),
                    make_trial("c16", ttft_median=value, ttft_p99=value),
                )
                for at, value in enumerate(STEADY, 1)
            ),
        )
        for version in ("0.19.0", "0.19.1")
    ]


def judged(slo, base=STEADY, cand=STEADY, **options):
    result = decide(side_of("0.19.0", base), side_of("0.19.1", cand), slo, **options)
    return result, (result.objectives[0] if result.objectives else None)


def codes(result):
    return [reason.code for reason in result.reasons]


class TestState:
    def test_it_is_kept_where_the_whole_interval_is_within_the_limit(self):
        result, one = judged({"ttft_p99": "110ms"})
        assert (result.decision, one.state, one.limit) == (Decision.PASS, "kept", 0.11)
        low, high = one.candidate.interval
        assert low < one.candidate.level < high < 0.11
        assert one.candidate.runs == 5

    def test_it_is_broken_where_the_level_is_shown_to_be_beyond_it(self):
        result, one = judged({"ttft_p99": "110ms"}, cand=[value * 1.2 for value in STEADY])
        assert (result.decision, one.state) == (Decision.FAIL, "broken")
        assert codes(result)[0] is ReasonCode.SLO_BROKEN
        assert one.text.startswith("c8/ttft_p99 is 120.1 ms [119.4 ms, 120.9 ms] with the candidate (5 server starts)")
        assert "was 100.1 ms with the baseline; the objective is at most 110 ms" in one.text
        assert "blocked by c8/ttft_p99" in result.advice

    def test_a_limit_within_the_interval_is_not_decided(self):
        result, one = judged({"ttft_p99": "100.2ms"})
        assert (result.decision, one.state) == (Decision.INCONCLUSIVE, "unclear")
        assert result.advice.startswith("Do not move to 0.19.1 on this evidence: add runs")

    def test_what_the_baseline_breaks_as_well_is_carried_and_blocks_nothing(self):
        result, one = judged({"ttft_p99": "90ms"})
        assert (result.decision, one.state) == (Decision.PASS, "carried")
        assert "which breaks it as well" in one.text
        assert ReasonCode.SLO_CARRIED in codes(result)

    def test_one_server_shows_no_spread_and_so_nothing(self):
        result, one = judged({"ttft_p99": "500ms"}, base=STEADY[:1], cand=STEADY[:1])
        assert one.state == "unclear"
        assert one.candidate.interval is None or result.decision is not Decision.PASS

    def test_more_is_better_for_a_throughput(self):
        sides = [side_of(version, (40.0, 41.0, 40.5), "output_throughput") for version in ("0.19.0", "0.19.1")]
        kept = decide(*sides, {"output_throughput": 35}, gated=("output_throughput",))
        broken = decide(sides[0], side_of("0.19.1", (30.0, 30.4, 30.2), "output_throughput"), {"output_throughput": 35})
        assert [each.objectives[0].state for each in (kept, broken)] == ["kept", "broken"]

    def test_an_objective_that_nothing_measures_is_no_pass(self):
        result, one = judged({"tpot_p99": "50ms"})
        assert one is None
        assert result.decision is Decision.INCONCLUSIVE
        assert "the objective tpot_p99 has no series" in result.reasons[0].text

    def test_a_percentile_of_too_few_requests_shows_nothing(self):
        sides = [side_of(version, STEADY, completed=40) for version in ("0.19.0", "0.19.1")]
        result = decide(*sides, {"ttft_p99": "1s"}, gated=("ttft_median",))
        assert (result.objectives, result.decision) == ([], Decision.INCONCLUSIVE)

    @pytest.mark.parametrize(
        ("key", "decision", "judged", "warnings"),
        [
            (
                "ttft_p99",
                Decision.PASS,
                {"c16": "kept"},
                ["the objective ttft_p99 is not judged in c1 (24 requests): a p99 needs 100"],
            ),
            ("c1*/ttft_p99", Decision.INCONCLUSIVE, {"c1": "unclear", "c16": "kept"}, []),
            ("c16/ttft_p99", Decision.PASS, {"c16": "kept"}, []),
        ],
    )
    def test_a_scenario_with_too_few_requests_is_never_passed_in_silence(self, key, decision, judged, warnings):
        result = decide(*sides_of_two_scenarios(), {key: "500ms"}, gated=("ttft_median",))
        assert {one.scenario: one.state for one in result.objectives} == judged
        assert [text for text in result.warnings if "objective" in text] == warnings
        assert result.decision is decision

    def test_too_few_requests_are_said_with_what_to_do(self):
        result = decide(*sides_of_two_scenarios(), {"c1*/ttft_p99": "500ms"}, gated=("ttft_median",))
        assert result.advice.startswith(
            "Measure what is missing, then compare again: c1/ttft_p99: 24 requests a trial are too few, "
            "a p99 needs 100: send more, or let the key name other scenarios"
        )

    def test_a_later_key_for_all_scenarios_does_not_hide_one_that_was_named(self):
        slo = {"c1/ttft_p99": "1s", "ttft_p99": "500ms"}
        result = decide(*sides_of_two_scenarios(), slo, gated=("ttft_median",))
        assert {one.scenario: (one.limit, one.state) for one in result.objectives} == {
            "c1": (0.5, "unclear"),
            "c16": (0.5, "kept"),
        }

    def test_a_scenario_of_a_pattern_that_does_not_measure_the_metric_is_named(self):
        result = decide(*sides_of_two_scenarios(first="tpot_p99"), {"c*/ttft_p99": "500ms"}, gated=("*_median",))
        assert [one.scenario for one in result.objectives] == ["c16"]
        assert "the objective c*/ttft_p99 is not judged in c1: it is not measured there" in result.warnings

    def test_one_side_with_too_few_requests_shows_nothing(self):
        sides = [side_of(v, STEADY, completed=sent) for v, sent in (("0.19.0", 200), ("0.19.1", 40))]
        one = decide(*sides, {"ttft_p99": "1s"}, gated=("ttft_median",)).objectives[0]
        assert (one.state, one.baseline.runs, one.candidate.runs) == ("unclear", 5, 0)

    def test_a_key_may_name_the_scenario_and_the_last_one_that_fits_holds(self):
        result, one = judged({"ttft_p99": "90ms", "c*/ttft_p99": "110ms"})
        assert (one.limit, one.state, len(result.objectives)) == (0.11, "kept", 1)
        result, one = judged({"chat/ttft_p99": "110ms"})
        assert one is None

    def test_a_series_that_is_worse_and_breaks_its_objective_blocks_by_one_name(self):
        result, _ = judged({"ttft_p99": "110ms"}, cand=[value * 1.2 for value in STEADY], margin=0.05)
        assert {ReasonCode.REGRESSION, ReasonCode.SLO_BROKEN} <= set(codes(result))
        assert result.advice == "Stay on 0.19.0: blocked by c8/ttft_p99."

    def test_a_waiver_covers_a_miss_up_to_its_cap(self):
        slower = [value * 1.2 for value in STEADY]
        for cap, decision in ((0.2, Decision.PASS), (0.05, Decision.FAIL)):
            waiver = Waiver(
                finding="slo:c8/ttft_p99", until=TODAY + timedelta(9), max_change=cap, owner="serving", reason="agreed"
            )
            result, _ = judged({"ttft_p99": "110ms"}, cand=slower, waivers=[waiver])
            assert result.decision is decision, cap

    def test_a_regression_within_the_objective_still_fails(self):
        result, one = judged({"ttft_p99": "500ms"}, cand=[value * 1.2 for value in STEADY], margin=0.05)
        assert (one.state, result.decision) == ("kept", Decision.FAIL)


class TestFailedRequests:
    def test_a_server_that_drops_more_than_the_tail_does_not_answer_in_time(self):
        cand = side_of("0.19.1", STEADY, completed=190, failed=10)
        result = decide(side_of("0.19.0", STEADY), cand, {"ttft_p99": "1s"})
        one = result.objectives[0]
        assert (one.state, one.candidate.level, one.candidate.runs) == ("broken", None, 5)
        assert one.text.startswith("c8/ttft_p99 is without end with the candidate (5 server starts), and was")

    def test_a_few_that_failed_move_the_percentile_of_the_stored_requests(self):
        times = np.linspace(0.010, 0.200, 199)
        samples = Samples(
            ttft=np.append(times, 0.0),
            itl=np.zeros(0),
            itl_start=np.zeros(201, dtype=np.int64),
            input_tokens=np.full(200, 8),
            output_tokens=np.ones(200, dtype=np.int64),
            ok=np.append(np.ones(199, dtype=bool), False),
            start=np.zeros(200),
        )
        trial = replace(make_trial(completed=199, failed=1, ttft_p99=0.198), samples=samples)
        sides = [make_side_of(v, *(make_run(str(at), v, trial) for at in range(3))) for v in ("0.19.0", "0.19.1")]
        one = decide(*sides, {"ttft_p99": "1s"}).objectives[0]
        expected = np.percentile(np.append(times, 0.2), 99)  # the one that failed stands above all others
        assert one.candidate.level == pytest.approx(expected, rel=1e-3)
        assert one.candidate.level > 0.198

    def test_without_the_single_requests_a_few_that_failed_leave_it_open(self):
        sides = [side_of(version, STEADY, completed=199, failed=1) for version in ("0.19.0", "0.19.1")]
        one = decide(*sides, {"ttft_p99": "1s"}).objectives[0]
        assert one.state == "unclear"
        assert "1 of 200 requests failed, and single requests are not stored" in one.text

    def test_unstated_failures_leave_it_open(self):
        trial = replace(make_trial(ttft_p99=0.1), completed=None)
        sides = [make_side_of(v, *(make_run(str(at), v, trial) for at in range(3))) for v in ("0.19.0", "0.19.1")]
        one = decide(*sides, {"ttft_p99": "1s"}).objectives[0]
        assert (one.state, "how many requests failed is not stated" in one.text) == ("unclear", True)


class TestAttainment:
    def test_it_is_the_share_of_all_requests_that_were_sent(self):
        trial = make_trial(completed=180, failed=20, goodput=8.0, request_throughput=10.0)
        values = run_level_values([make_run("1", "0.19.0", trial)])
        assert values["c8", "slo_attainment"].per_run == [pytest.approx(0.8 * 180 / 200)]

    def test_a_trial_without_any_answer_attains_nothing(self):
        trial = make_trial(completed=0, failed=20, workload={"slo": {"ttft": 0.5}})
        assert run_level_values([make_run("1", "0.19.0", trial)])["c8", "slo_attainment"].per_run == [0.0]

    @pytest.mark.parametrize("definitions", ["guidellm-requests", "aiperf", "genai-perf"])
    def test_another_tools_goodput_is_not_made_into_ours(self, definitions):
        trial = make_trial(goodput=8.0, request_throughput=10.0, workload={"definitions": definitions})
        assert ("c8", "slo_attainment") not in run_level_values([make_run("1", "0.19.0", trial)])

    def test_failures_that_are_not_stated_leave_it_open(self):
        trial = make_trial(goodput=8.0, request_throughput=10.0, failed_requests=None)
        assert ("c8", "slo_attainment") not in run_level_values([make_run("1", "0.19.0", trial)])

    def test_attainments_of_other_tools_gate_by_their_own_names(self):
        def side(version, share):
            named = {"determined_attainment": share, "workload": {"definitions": "guidellm"}}
            return make_side_of(version, *(make_run(str(at), version, make_trial(**named)) for at in range(5)))

        result = decide_sides(side("0.19.0", 0.995), side("0.19.1", 0.90), policy=Policy())
        (one,) = (one for one in result.series if one.metric == "determined_attainment")
        assert (one.gated, one.margin) == (True, 0.01)
        assert not [one for one in result.series if one.metric == "slo_attainment"]

    def test_what_was_counted_by_other_objectives_is_not_compared(self):
        def side(version, ttft):
            trial = make_trial(goodput=8.0, request_throughput=10.0, workload={"slo": {"ttft": ttft}})
            return make_side_of(version, *(make_run(str(at), version, trial) for at in range(5)))

        result = decide_sides(side("0.19.0", 0.5), side("0.19.1", 0.3), policy=Policy())
        compared = {one.metric: one.change for one in result.series}
        assert (compared["goodput"], compared["slo_attainment"]) == (None, None)
        assert compared["output_throughput"] is not None
        assert any("was counted by other objectives" in reason.text for reason in result.reasons)

    def test_it_gates_by_default_and_can_be_an_objective(self):
        def side(version, shares):
            trials = [make_trial(completed=500, goodput=10 * share, request_throughput=10.0) for share in shares]
            return make_side_of(version, *(make_run(str(at), version, each) for at, each in enumerate(trials)))

        base, cand = side("0.19.0", (0.995, 0.993, 0.996)), side("0.19.1", (0.90, 0.91, 0.905))
        result = decide_sides(base, cand, policy=Policy(slo={"slo_attainment": "97%"}))
        assert result.objectives[0].state == "broken"
        assert ReasonCode.REGRESSION in codes(result)
        assert next(one for one in result.series if one.metric == "slo_attainment").gated


class TestConfiguration:
    @pytest.mark.parametrize(
        ("key", "limit", "value"),
        [
            ("ttft_p99", "500ms", 0.5),
            ("chat*/tpot_p99", "50 ms", 0.05),
            ("startup_time", "3min", 180.0),
            ("peak_memory", "70GiB", 70 * 2**30),
            ("slo_attainment", 0.99, 0.99),
            ("failed_requests", "0.1%", 0.001),
            ("goodput", 40.0, 40.0),
        ],
    )
    def test_limits_have_units_as_people_write_them(self, key, limit, value):
        assert objective_limit(key, limit) == pytest.approx(value)

    @pytest.mark.parametrize(
        ("key", "limit", "error"),
        [
            ("ttft_p99", 0.5, 'write "500ms"'),
            ("ttft_p99", "fast", 'write "500ms"'),
            ("ttft_p98", "1s", "unknown metric 'ttft_p98' (did you mean"),
            ("ttft_mean", "1s", "leaves out requests that failed"),
            ("accuracy_agreement", 0.9, "no level that could be promised"),
            ("slo_attainment", 99.0, "out of range"),
            ("ttft_p99", "0ms", "out of range"),
        ],
    )
    def test_what_is_no_limit_is_refused_with_an_example(self, key, limit, error):
        with pytest.raises(ValidationError) as caught:
            PolicyOverrides(slo={key: limit})
        assert error in str(caught.value)

    def test_each_wrong_limit_is_named_at_its_line(self):
        text = '[slo]\nttft_p99 = "500ms"\n# a note\ntpot_p99 = "fast"\ne2el_p99 = 3.5\n'
        document = parse_toml(text, "gate.toml")
        with pytest.raises(ValidationError) as caught:
            PolicyOverrides.model_validate(document.data)
        assert [(line, what) for _, line, what in validation_messages(PolicyOverrides, document, caught.value)] == [
            (4, "slo.tpot_p99: 'fast' is no limit for tpot_p99; write \"500ms\""),
            (5, 'slo.e2el_p99: 3.5 is no limit for e2el_p99; write "500ms"'),
        ]

    def test_layers_replace_objectives_key_by_key(self):
        over = Policy().over(
            PolicyOverrides(slo={"ttft_p99": "1s", "tpot_p99": "50ms"}), PolicyOverrides(slo={"ttft_p99": "2s"})
        )
        assert over.slo == {"ttft_p99": "2s", "tpot_p99": "50ms"}


class TestLevel:
    @given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=12), st.floats(0.5, 0.99))
    @example([1.0, 419_460.0], 0.98828125)
    def test_the_interval_holds_the_level_and_grows_with_the_confidence(self, values, confidence):
        level = estimate_level(np.array(values), confidence=confidence)
        wider = estimate_level(np.array(values), confidence=(1 + confidence) / 2)
        assert level.interval[0] <= level.value <= level.interval[1]
        assert wider.interval[0] <= level.interval[0] <= level.interval[1] <= wider.interval[1]

    @given(st.lists(st.integers(0, 200), min_size=2, max_size=8))
    def test_a_share_stays_between_none_and_all(self, good):
        level = estimate_level(np.array(good) / 200, confidence=0.9, requests=200)
        assert 0 <= level.interval[0] <= level.interval[1] <= 1

    def test_other_runs_of_the_suite_narrow_what_few_servers_show(self):
        few = np.array([0.100, 0.102])
        alone = estimate_level(few, confidence=0.9)
        helped = estimate_level(few, confidence=0.9, alike=[np.array([0.2, 0.203, 0.201, 0.199, 0.2])])
        assert helped.interval[1] - helped.interval[0] < (alone.interval[1] - alone.interval[0]) / 2

    def test_a_server_that_never_answers_has_no_upper_bound(self):
        level = estimate_level(np.array([0.1, 0.1, math.inf]), confidence=0.9)
        assert level.interval == (0.0, math.inf)
        assert estimate_level(np.array([math.inf, math.inf, 0.1]), confidence=0.9).interval[0] == math.inf

    @pytest.mark.slow
    @pytest.mark.parametrize("correlation", [0.005, 0.01, 0.02])
    @pytest.mark.parametrize("share", [0.90, 0.95])
    def test_the_interval_of_an_attainment_covers_what_it_promises(self, share, correlation):
        """Beta-binomial servers: requests of one server share its luck. Counting requests covers 33 to 60 %."""
        rng, held, naive, tries = np.random.default_rng(4711), 0, 0, 3000
        spread = (1 - correlation) / correlation
        for _ in range(tries):
            rates = rng.beta(share * spread, (1 - share) * spread, 5)
            shares = rng.binomial(1000, rates) / 1000
            low, high = estimate_level(shares, confidence=0.95, requests=1000).interval
            held += low <= share <= high
            mean = shares.mean()
            naive += abs(mean - share) <= 1.96 * math.sqrt(mean * (1 - mean) / 5000)
        assert 0.93 <= held / tries <= 0.97
        assert naive / tries < 0.65

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("correlation", "least", "most"), [(0.005, 0.96, 0.99), (0.01, 0.95, 0.98), (0.02, 0.93, 0.97)]
    )
    def test_servers_that_are_nearly_perfect_do_not_pass_for_equal(self, correlation, least, most):
        """With the draws of benchmarks/attainment.py. The dangerous side is a lower end above the true attainment."""
        script = load_script("benchmarks/attainment.py")
        held, above, naive = script.coverage(0.99, correlation, 5, 3000, np.random.default_rng(4711))
        assert least <= held <= most
        assert above <= 0.05
        assert naive < 0.65

    def test_a_few_servers_without_a_miss_leave_room_for_a_worse_one(self):
        lows = [estimate_level(np.ones(n), confidence=0.9, requests=1000).interval[0] for n in (3, 5, 8)]
        assert lows == sorted(lows)
        assert 0.97 < lows[0] < 0.985
        assert 0.995 < lows[1] < 0.9965
