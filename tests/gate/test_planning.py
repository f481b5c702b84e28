"""What is planned from earlier runs: which series, over what spread, in what time."""

import numpy as np
import pytest

from regress_gate.gate.planning import adjusted_effects, plan_runs, series_effects, series_spread
from regress_gate.gate.series_comparison import compare_all_series
from regress_gate.model.documents import Document, validate
from regress_gate.model.metric import METRICS, PROMISE_KEY
from regress_gate.model.policy import Policy
from regress_gate.model.run import Answer, BlockPosition, Outputs
from regress_gate.model.suite import RunCost, Suite
from tests.factories.runs import make_run, make_side_of, make_trial

POLICY = Policy(metrics=("ttft_median", "ttft_p99", "output_throughput", "failed_requests", "startup_time"))


def a_suite(*scenarios, trials=1):
    data = {"name": "chat", "version": 1, "description": "d", "trials": trials, "scenarios": list(scenarios)}
    return validate(Suite, Document(data, "chat.yaml", {}))


def a_scenario(name="c8", *, server=None, requests=200, **workload):
    usual = {"input_len": 16, "output_len": 8, "concurrency": 8, "num_requests": requests}
    return {"name": name, "server": {"model": "m/tiny", **(server or {})}, "workload": {**usual, **workload}}


SUITE = a_suite(a_scenario())


def runs_of(version, count, *, sd=0.05, seed=1, **metrics):
    rng = np.random.default_rng(seed)
    return [
        make_run(f"{version}-{n}", version, make_trial(ttft_median=0.1 * np.exp(rng.normal(0, sd)), **metrics))
        for n in range(count)
    ]


def planned(earlier, *, suite=SUITE, policy=POLICY, blocks=5, have=0):
    return plan_runs(earlier, policy, suite, blocks=blocks, have=have)


def by_name(plan):
    return {series.name: series for series in plan.series}


class TestWhichSeries:
    def test_are_those_that_a_comparison_gates(self):
        ours, theirs = runs_of("0.19.0", 4, ttft_p99=0.2, e2el_mean=1.0), runs_of("0.19.1", 4, ttft_p99=0.2)
        sides = make_side_of("0.19.0", *ours), make_side_of("0.19.1", *theirs)
        gated = {series.name for series in compare_all_series(*sides, POLICY).series if series.gated}
        assert (
            set(by_name(planned([*ours, *theirs])))
            == gated
            == {
                "c8/ttft_median",
                "c8/ttft_p99",
                "c8/output_throughput",
                "c8/failed_requests",
            }
        )

    def test_leave_out_a_p99_that_the_trials_cannot_support(self):
        earlier = runs_of("0.19.0", 4, ttft_p99=0.2, completed=60)
        assert "c8/ttft_p99" not in by_name(planned(earlier))

    def test_leave_out_what_has_no_ratio(self):
        assert "c8/output_throughput" not in by_name(planned(runs_of("0.19.0", 3, output_throughput=0.0)))

    def test_have_what_is_measured_once_per_start_under_its_server(self):
        earlier = [make_run(str(n), "0.19.0", metrics={"startup_time": 10.0 + n}) for n in range(3)]
        assert by_name(planned(earlier))["server/startup_time"].noise_runs == 3

    def test_have_answers_once_some_were_collected(self):
        answer = Answer("p1", ("a", "b"), (-0.1, -0.2), alternatives=({"a": -0.1}, {"b": -0.2}))
        earlier = [make_run(str(n), "0.19.0", outputs=Outputs("fixed@1", (answer,))) for n in range(3)]
        policy = Policy(metrics=("accuracy_*",))
        plan = planned(earlier, policy=policy)
        assert set(by_name(plan)) == {"outputs/accuracy_agreement", "outputs/accuracy_logprob"}
        assert all(0 < series.shown_within < 0.05 for series in plan.series)

    def test_more_of_them_make_each_harder_to_find(self):
        one = planned(runs_of("0.19.0", 5), policy=Policy(metrics=("ttft_median",)))
        many = planned(runs_of("0.19.0", 5, tpot_median=0.01, itl_p99=0.02), policy=Policy())
        assert by_name(one)["c8/ttft_median"].detectable < by_name(many)["c8/ttft_median"].detectable


class TestBeforeAnyRun:
    """The policy's expectation stands in, for what the suite's scenarios will tell."""

    def test_everything_is_assumed(self):
        plan = planned([])
        assert set(by_name(plan)) == {
            *(f"c8/{name}" for name in ("ttft_median", "ttft_p99", "output_throughput", "failed_requests")),
            "server/startup_time",
        }
        assert {series.noise_runs for series in plan.series} == {0}
        assert by_name(plan)["c8/ttft_median"].run_cv == POLICY.expected_cv
        assert plan.seconds is None

    def test_too_few_requests_for_a_p99_are_seen_in_the_suite(self):
        assert "c8/ttft_p99" not in by_name(planned([], suite=a_suite(a_scenario(requests=99))))

    def test_goodput_needs_an_slo_and_first_tokens_need_a_stream(self):
        policy = Policy(metrics=("goodput", "ttft_median", "e2el_median", "output_throughput"))
        embed = {"api": "embeddings", "output_len": None}
        suite = a_suite(a_scenario("chat", slo={"ttft": 1.0}), a_scenario("embed", **embed))
        assert set(by_name(planned([], suite=suite, policy=policy))) == {
            *(f"chat/{name}" for name in ("goodput", "ttft_median", "e2el_median", "output_throughput")),
            "embed/e2el_median",
        }

    def test_only_what_the_suite_can_produce_is_planned(self):
        """The default policy also gates what other tools measure: one pass of a batch, starts of an engine alone."""
        names = {name.partition("/")[2] for name in by_name(planned([], policy=Policy()))}
        assert names.isdisjoint({"batch_latency_median", "batch_throughput", "cold_start_time", "warm_start_time"})
        assert names.isdisjoint({"normalized_latency_median", "tpot_per_token_median", "goodput"})
        assert {"startup_time", "peak_memory", "kv_cache_tokens", "accuracy_agreement", "e2el_median"} <= names

    def test_what_stored_runs_have_beyond_the_suite_is_not_planned(self):
        earlier = runs_of("0.19.0", 4, normalized_latency_median=0.1, tpot_median=0.01)
        assert set(by_name(planned(earlier, policy=Policy()))) == {
            *(f"c8/{name}" for name in ("ttft_median", "tpot_median", "output_throughput", "failed_requests"))
        }

    def test_a_server_that_embeds_gives_no_answers(self):
        suite = a_suite(a_scenario("embed", api="embeddings", output_len=None))
        assert set(by_name(planned([], suite=suite, policy=Policy(metrics=("accuracy_*", "peak_memory"))))) == {
            "server/peak_memory"
        }

    def test_every_server_of_a_suite_has_its_own_start_and_answers(self):
        suite = a_suite(a_scenario("a"), a_scenario("b", server={"env": {"X": "1"}}))
        names = set(by_name(planned([], suite=suite, policy=Policy(metrics=("startup_time", "accuracy_agreement")))))
        assert names == {
            "server-a/startup_time", "server-b/startup_time",
            "outputs-a/accuracy_agreement", "outputs-b/accuracy_agreement",
        }  # fmt: skip

    def test_an_answer_of_one_token_has_no_time_per_output_token(self):
        policy = Policy(metrics=("ttft_median", "tpot_median", "itl_p99"))
        assert set(by_name(planned([], suite=a_suite(a_scenario(output_len=1)), policy=policy))) == {"c8/ttft_median"}

    def test_sizes_are_assumed_to_be_nearly_the_same_at_every_start(self):
        plan = by_name(planned([], policy=Policy(metrics=("peak_memory", "startup_time"))))
        assert plan["server/peak_memory"].run_cv == 0.01
        assert plan["server/startup_time"].run_cv == POLICY.expected_cv

    def test_how_requests_are_drawn_is_known_before_any_is_sent(self):
        few, many = (planned([], suite=a_suite(a_scenario(requests=n))) for n in (20, 2000))
        assert by_name(few)["c8/failed_requests"].stays_undecided
        assert not by_name(many)["c8/failed_requests"].stays_undecided

    def test_a_scenario_that_an_ended_experiment_lacks_is_assumed_beside_the_others(self):
        plan = by_name(planned(runs_of("0.19.0", 4), suite=a_suite(a_scenario(), a_scenario("long"))))
        assert plan["c8/ttft_median"].noise_runs == 4
        assert plan["long/ttft_median"].noise_runs == 0

    def test_one_run_a_version_has_series_but_no_spread(self):
        plan = by_name(planned([*runs_of("0.19.0", 1), *runs_of("0.19.1", 1)]))
        assert (plan["c8/ttft_median"].noise_runs, plan["c8/ttft_median"].run_cv) == (0, POLICY.expected_cv)

    @pytest.mark.parametrize("name", METRICS)
    def test_any_metric_can_be_planned(self, name):
        assert all(series.shown_within > 0 for series in planned([], policy=Policy(metrics=(name,))).series)


class TestSpread:
    def test_is_pooled_within_versions(self):
        slow = runs_of("0.19.1", 30, seed=2)
        slow = [
            make_run(run.label, "0.19.1", make_trial(ttft_median=run.trials[0].metrics["ttft_median"] * 3))
            for run in slow
        ]
        found = series_spread([*runs_of("0.19.0", 30), *slow])["c8", "ttft_median"].noise
        assert found.run_sd == pytest.approx(0.05, rel=0.3)
        assert (found.runs, found.degrees_of_freedom) == (60, 58)

    def test_what_runs_a_side_already_have_counts(self):
        earlier = runs_of("0.19.0", 5)
        fresh, half = planned(earlier, blocks=5), planned(earlier, blocks=3, have=2)
        assert fresh.runs_a_side == half.runs_a_side == 5
        assert fresh.series == half.series

    def test_looking_after_every_block_costs_a_little_of_what_the_last_can_show(self):
        earlier = runs_of("0.19.0", 5)
        once, often = (
            plan_runs(earlier, POLICY, SUITE, blocks=6, have=0, stops_early=stops_early)
            for stops_early in (False, True)
        )
        ours, theirs = (by_name(plan)["c8/ttft_median"] for plan in (once, often))
        assert 1.0 < theirs.detectable / ours.detectable < 1.5
        assert 1.0 < theirs.shown_within / ours.shown_within < 1.5
        assert (once.stops_early, often.stops_early) == (False, True)

    def test_one_run_a_side_finds_nothing(self):
        document = planned(runs_of("0.19.0", 4), blocks=1).as_document()
        assert {(s["detectable_change"], s["shown_within"]) for s in document["series"]} == {(None, None)}


def placed(number, block, position, *, group="server", seconds=60.0, side="baseline", scenario="c8", ttft=0.1):
    place = BlockPosition("e1", block, position, side, group=group, seconds=seconds)
    return make_run(str(number), "0.19.0", make_trial(scenario, ttft_median=ttft), place=place)


class TestTime:
    def test_a_block_is_a_run_of_each_side(self):
        plan = planned([placed(1, 1, 1, seconds=50), placed(2, 1, 2, seconds=70)], blocks=3)
        assert (plan.seconds_a_block, plan.seconds) == (120, 360)
        assert plan.as_document()["minutes"] == 6

    def test_a_block_has_every_server_of_the_suite(self):
        suite = a_suite(a_scenario("a"), a_scenario("b", server={"env": {"X": "1"}}))
        # Five runs of the slow server and one of the quick one: an experiment that ended within a block.
        runs = [placed(n, n, 1, group="server-a", seconds=100, scenario="a") for n in range(5)]
        runs.append(placed(9, 1, 3, group="server-b", seconds=20, scenario="b"))
        assert planned(runs, suite=suite).seconds_a_block == 2 * (100 + 20)

    def test_a_server_that_was_never_started_is_taken_for_an_average_one(self):
        suite = a_suite(a_scenario("a"), a_scenario("b", server={"env": {"X": "1"}}))
        assert planned([placed(1, 1, 1, group="server-a", scenario="a")], suite=suite).seconds_a_block == 2 * 2 * 60

    def test_imported_runs_tell_no_time(self):
        assert planned(runs_of("0.19.0", 3)).seconds_a_block is None

    def test_the_suites_estimate_stands_in_until_a_run_was_made(self):
        cost = RunCost(minutes=4, gpus=2, source="the datasheet")
        suite = SUITE.model_copy(update={"cost": cost})
        plan = planned([], suite=suite, blocks=3)
        assert (plan.seconds, plan.estimated_by, plan.gpu_minutes) == (3 * 2 * 240, "the datasheet", 48)
        document = plan.as_document()
        assert (document["minutes"], document["gpu_minutes"], document["estimated_by"]) == (24, 48, "the datasheet")
        measured = planned([placed(1, 1, 1, seconds=50), placed(2, 1, 2, seconds=70)], suite=suite, blocks=3)
        assert (measured.seconds, measured.estimated_by, measured.gpu_minutes) == (360, None, 12)


class TestEffects:
    def test_the_second_of_each_server_is_distinguished_from_its_first(self):
        """A block of two servers has four places; the second and the fourth are second starts."""
        rng = np.random.default_rng(1)
        runs = [
            placed(
                10 * block + position,
                block,
                position,
                group="server-a" if position < 3 else "server-b",
                scenario="a" if position < 3 else "b",
                ttft=0.1 * (1.2 if position in (2, 4) else 1.0) * np.exp(rng.normal(0, 0.001)),
            )
            for block in range(1, 6)
            for position in range(1, 5)
        ]
        found = series_effects(runs)
        for scenario in ("a", "b"):
            assert found[scenario, "ttft_median"].second.size == pytest.approx(0.2, abs=0.01)

    def test_runs_that_no_plan_made_have_none(self):
        assert series_effects(runs_of("0.19.0", 8)) == {}

    def test_the_p_values_of_all_series_that_are_asked_for_are_adjusted_together(self):
        rng = np.random.default_rng(2)
        runs = []
        for block in range(1, 7):
            for position in (1, 2):
                shift = 1.01 if position == 2 else 1.0
                place = BlockPosition("e1", block, position, "baseline")
                trials = [make_trial(name, ttft_median=0.1 * shift * np.exp(rng.normal(0, 0.004))) for name in "abcd"]
                runs.append(make_run(f"{block}-{position}", "0.19.0", *trials, place=place))
        keys = [(name, "ttft_median") for name in "abcd"]
        plain = series_effects(runs)
        together, alone = adjusted_effects(runs, keys), adjusted_effects(runs, keys[:1])
        assert list(together) == keys
        assert list(alone) == keys[:1]
        flat = [effect.p_value for key in keys for effect in (plain[key].second, plain[key].drift)]
        smallest = min(range(8), key=flat.__getitem__)
        effects = together[keys[smallest // 2]]
        found = (effects.second_in_block, effects.drift_per_block)[smallest % 2]
        assert found.p_adjusted == pytest.approx(min(1.0, 8 * flat[smallest]))
        assert alone[keys[0]].second_in_block.p_adjusted <= together[keys[0]].second_in_block.p_adjusted
        assert together[keys[0]].second_in_block.size == plain[keys[0]].second.size


class TestCapacities:
    CAPACITY = {"name": "chat", "server": {"model": "m/tiny"}} | {
        "workload": {"input_len": 16, "output_len": 8, "num_requests": 100, "slo": {"ttft": 0.5}, "capacity": 0.9}
    }

    def test_the_search_is_told_and_is_part_of_the_time(self):
        suite = a_suite(self.CAPACITY).model_copy(update={"cost": RunCost(minutes=5.0, gpus=1, source="a model")})
        plan = planned([], suite=suite, blocks=2)
        assert [(each.scenario, each.requests, each.is_searched) for each in plan.capacities] == [("chat", 100, True)]
        assert plan.seconds == pytest.approx(2 * 2 * 300 + 300 * 9 / 5)  # eight probes, and one of the candidate
        assert plan.as_document()["capacities"] == [{"scenario": "chat", "requests": 100, "is_searched": True}]

    def test_rates_of_stored_runs_are_not_searched_again(self):
        trial = make_trial("chat", workload={"request_rate": 4.0, PROMISE_KEY: 0.9})
        stored = make_run("1", "0.19.0", trial, place=BlockPosition("e", 1, 1, "baseline", seconds=300.0))
        plan = planned([stored], suite=a_suite(self.CAPACITY), blocks=2)
        assert not plan.capacities[0].is_searched
        assert plan.seconds == pytest.approx(2 * 2 * 300)

    def test_a_suite_without_one_plans_none(self):
        assert planned([]).capacities == ()
