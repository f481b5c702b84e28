"""Throughput against latency: which trials are one curve, what is promised, and what each point is."""

import pytest

from regress_gate.model.metric import PROMISE_KEY
from regress_gate.model.policy import Policy
from regress_gate.model.result import LoadCurveOut
from tests.factories.runs import make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides

TRAFFIC = {"dataset": "random", "input_len": 1024, "output_len": 256}


def at_load(scenario, concurrency=None, rate=None, *, ordinal=1, luck=1.0, failed=0, slo=None, **workload):
    load = concurrency or rate
    given = {**TRAFFIC, "max_concurrency": concurrency, "request_rate": rate, "num_prompts": 50 * load, **workload}
    if slo is not None:
        given["slo"] = slo
    seconds = 0.02 * load * luck
    return make_trial(
        scenario,
        ordinal,
        completed=200 - failed,
        failed=failed,
        workload=given,
        output_throughput=100.0 * load / luck,
        **{f"ttft_{name}": seconds * times for name, times in (("median", 1), ("p95", 2), ("p99", 3))},
    )


def curves(*loads, policy=None, candidate=None, runs=5):
    """Both sides measured all of them on `runs` servers of different luck."""

    def side(version, shift, made):
        return make_side_of(
            version,
            *(make_run(str(at), version, *(make(luck=1 + 0.01 * at + shift) for make in made)) for at in range(runs)),
        )

    sides = side("0.19.0", 0.0, loads), side("0.19.1", 0.005, candidate or loads)
    return decide_sides(*sides, policy=policy or Policy()).load_curves


def load(*args, **options):
    return lambda luck: at_load(*args, luck=luck, **options)


def loads_of(curve: LoadCurveOut) -> list[float]:
    return [point.load for point in curve.points]


def test_scenarios_that_differ_only_in_their_concurrency_are_one_curve():
    (curve,) = curves(load("c64", 64), load("c8", 8), load("c16", 16))
    assert (curve.load, curve.throughput, curve.latency, curve.limit) == (
        "concurrency",
        "output_throughput",
        "ttft_median",
        None,
    )
    assert loads_of(curve) == [8, 16, 64]
    assert curve.name == "c8 to c64"


def test_a_point_is_a_level_over_servers_with_its_interval():
    point = curves(load("c8", 8), load("c16", 16))[0].points[0]
    side = point.baseline_latency
    assert side.runs == 5
    assert side.level == pytest.approx(0.02 * 8 * 1.02, rel=0.01)
    low, high = side.interval
    assert low < side.level < high
    assert high / low < 1.05


def test_a_single_server_shows_no_spread():
    point = curves(load("c8", 8), load("c16", 16), runs=1)[0].points[0]
    assert point.baseline_latency.level is not None
    assert point.baseline_latency.interval is None


@pytest.mark.parametrize("other", [{"input_len": 4096}, {"model": "m/other"}, {"extra_body": {"top_k": 1}}])
def test_other_traffic_is_no_point_of_the_curve(other):
    assert curves(load("c8", 8), load("c16", 16, **other)) == []


def test_prompts_of_other_lengths_are_other_traffic_though_nothing_else_says_so():
    short, longer = {"mean_input_tokens": 100.0}, {"mean_input_tokens": 104.0}
    assert len(curves(load("c8", 8, **short), load("c16", 16, **longer))) == 1
    assert curves(load("c8", 8, **short), load("c16", 16, mean_input_tokens=400.0)) == []


def test_a_closed_loop_and_an_open_one_are_two_curves():
    found = curves(load("c8", 8), load("c16", 16), load("r2", None, 2), load("r4", None, 4))
    assert [(curve.load, loads_of(curve)) for curve in found] == [("concurrency", [8, 16]), ("request_rate", [2, 4])]


def test_requests_that_were_all_sent_at_once_have_no_load():
    assert curves(load("c8", 8), lambda luck: at_load("all", 16, luck=luck, max_concurrency=None)) == []


def test_the_rates_of_a_capacity_are_one_curve_at_the_share_that_is_promised():
    rates = [
        load("chat", None, rate, ordinal=at, slo={"ttft": 0.5}, **{PROMISE_KEY: 0.95})
        for at, rate in enumerate((8.0, 9.0, 10.0, 11.0), 1)
    ]
    (curve,) = curves(*rates)
    assert (curve.name, curve.latency, curve.limit) == ("chat", "ttft_p95", 0.5)
    assert loads_of(curve) == [8, 9, 10, 11]


def test_a_promise_of_the_policy_comes_before_that_of_a_scenario():
    loads = load("c8", 8, slo={"ttft": 0.5}), load("c16", 16)
    assert [(one.latency, one.limit) for one in curves(*loads)] == [("ttft_p99", 0.5)]
    (curve,) = curves(*loads, policy=Policy(slo={"ttft_p95": "300ms"}))
    assert (curve.latency, curve.limit) == ("ttft_p95", 0.3)
    (curve,) = curves(*loads, policy=Policy(slo={"c8/ttft_p95": "300ms"}))
    assert (curve.latency, curve.limit) == ("ttft_p99", 0.5), "it is no promise of the whole curve"


def test_requests_that_failed_were_never_answered():
    policy = Policy(slo={"ttft_p99": "300ms"})
    failing = load("c64", 64, failed=20)
    (curve,) = curves(
        load("c8", 8),
        load("c16", 16),
        load("c64", 64),
        candidate=[load("c8", 8), load("c16", 16), failing],
        policy=policy,
    )
    last = curve.points[-1]
    assert last.baseline_latency.level is not None
    assert (last.candidate_latency.level, last.candidate_latency.runs) == (None, 5)


def test_one_load_is_no_curve():
    assert curves(load("c8", 8)) == []
