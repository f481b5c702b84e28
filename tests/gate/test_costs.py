"""What a million output tokens cost: from a throughput with its interval, and never without one."""

from dataclasses import replace

import pytest

from regress_gate.model.metric import CAPACITY, PROMISE_KEY
from regress_gate.model.policy import Policy
from tests.factories.runs import TESTBED, make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides

LUCK = (-0.01, 0.005, 0.0, 0.01, -0.005)


def costs(factor=1.0, *, runs=5, gpu_hour=3.6, policy=None, server=None, testbed=TESTBED, make=None):
    """`factor`: throughput of the candidate relative to the baseline's 1,000 tokens a second."""

    def side(version, level, luck):
        made = [
            make_run(
                str(at),
                version,
                *(make(level * (1 + off)) if make else [make_trial(output_throughput=1000 * level * (1 + off))]),
                server=server or {},
                testbed=testbed,
            )
            for at, off in enumerate(luck[:runs])
        ]
        return make_side_of(version, *made)

    sides = side("0.19.0", 1.0, LUCK), side("0.19.1", factor, LUCK[2:] + LUCK[:2])
    return decide_sides(*sides, policy=policy or Policy(metrics=("output_throughput", CAPACITY)), gpu_hour=gpu_hour)


def test_a_faster_upgrade_saves_with_an_interval_over_server_starts():
    (cost,) = costs(1.25).costs
    assert cost.baseline.level == pytest.approx(1.0, rel=0.001), "3.6 an hour are 0.001 a second"
    assert cost.candidate.level == pytest.approx(0.8, rel=0.001)
    low, high = cost.interval
    assert low < cost.change < high < 0
    assert cost.change == pytest.approx(-0.2, abs=0.001)
    assert cost.text.startswith("c8: the upgrade saves 20.0% [")
    assert cost.text.endswith("per million output tokens (5 and 5 server starts)")
    for side in (cost.baseline, cost.candidate):
        assert side.interval[0] < side.level < side.interval[1]
        assert side.runs == 5


def test_a_slower_upgrade_costs_more_than_the_throughput_that_it_loses():
    (cost,) = costs(0.8).costs
    assert cost.change == pytest.approx(0.25, abs=0.001)
    assert "the upgrade costs 25.0% [" in cost.text


def test_an_unchanged_version_is_said_to_do_neither():
    (cost,) = costs(1.0).costs
    assert cost.interval[0] < 0 < cost.interval[1]
    assert "neither a saving nor a loss" in cost.text


def test_without_a_price_there_is_no_cost_and_no_word_of_it():
    result = costs(gpu_hour=None)
    assert result.costs == []
    assert not any("cost" in text for text in result.warnings)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"runs": 1}, "with an interval on both sides"),
        ({"make": lambda level: [make_trial(output_throughput=None, ttft_median=level)]}, "with an interval"),
        (
            {"make": lambda level: [make_trial(output_throughput=1000 * level, workload={"request_rate": 4})]},
            "closed loop",
        ),
        ({"testbed": replace(TESTBED, accelerator_count=None)}, "how many GPUs a server uses is not known"),
        ({"testbed": replace(TESTBED, accelerator="cpu")}, "or it uses none"),
    ],
    ids=["one start", "no throughput", "arrivals set the pace", "unknown GPUs", "no GPU"],
)
def test_what_cannot_be_known_is_no_number_but_a_warning(options, why):
    result = costs(**options)
    assert result.costs == []
    assert [text for text in result.warnings if text.startswith("no cost is given") and why in text]


def test_a_server_uses_as_many_gpus_as_it_printed_whatever_the_machine_has():
    machine = replace(TESTBED, accelerator_count=8)
    config = {"tensor_parallel_size": "2", "pipeline_parallel_size": "1", "data_parallel_size": "2"}
    (cost,) = costs(server={"config": config}, testbed=machine).costs
    assert (cost.gpus, cost.baseline.level) == (4, pytest.approx(4.0, rel=0.001))
    (cost,) = costs(testbed=machine).costs
    assert cost.gpus == 8


def test_a_capacity_costs_what_its_promised_rate_costs():
    def at_rates(capacity):
        trials = []
        for at, rate in enumerate((8.0, 9.0, 10.0, 11.0), 1):
            share = 0.99 if rate < 9.5 * capacity else 0.8
            workload = {"request_rate": rate, "max_concurrency": None, "output_len": 100, PROMISE_KEY: 0.95}
            rates = {"request_throughput": 7.0, "goodput": 7.0 * share}
            trials.append(make_trial("chat", at, completed=400, workload=workload, output_throughput=None, **rates))
        return trials

    (cost,) = costs(1.0, make=at_rates).costs
    assert cost.basis == CAPACITY
    assert 1.0 / 10.0 * 10.0 < cost.baseline.level < 1.0 / 9.0 * 10.0, "between 900 and 1,000 tokens a second"
