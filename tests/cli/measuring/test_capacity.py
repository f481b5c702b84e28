"""The capacity of two versions from end to end: searched on the baseline, measured at the same rates, compared."""

import pytest

SUITE = """\
name: promise
version: 1
description: How many requests a second keep a promise.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: ["max_load@slo"]}
scenarios:
  - name: chat
    server: {model: fake, engine_args: {enforce_eager: true}}
    workload: {input_len: 16, output_len: 4, num_requests: 80, slo: {ttft: 0.3}, capacity: 0.9, arrival: constant}
"""
TIMES = ("--ttft=0.25", "--tpot=0.25", "--whole-at-once", "--jitter=0.02", "--run-spread=0.01", "--max-num-seqs=12")


@pytest.fixture(autouse=True)
def laboratory(lab):
    lab.suite.write_text(SUITE)
    lab.behave({}, usual=TIMES)
    lab.simulate_load()
    yield
    assert lab.servers() == []


def compared(lab, *options, blocks=3):
    outcome = lab(
        "compare", "v0.19.0", "v0.19.1", "--measure", "--runs", blocks, "--all-blocks", "--format", "json", *options
    )
    assert outcome.out, outcome
    (series,) = [each for each in outcome.json["series"] if each["metric"] == "max_load@slo"]
    return outcome, series


def rates(runs):
    return {tuple(trial.workload["request_rate"] for trial in run.trials) for run in runs}


@pytest.mark.slow
def test_a_version_with_fewer_seats_carries_fewer_requests(lab):
    lab.behave({"0.19.1": ["--max-num-seqs=10"]}, usual=TIMES)
    outcome, series = compared(lab)
    assert (outcome.code, series["verdict"]) == (1, "regression"), outcome
    assert series["change"] == pytest.approx(1 / 6, abs=0.06)
    assert "at your promise the candidate carries" in outcome.json["reasons"][0]["text"]
    assert "fewer requests" in outcome.json["reasons"][0]["text"]


@pytest.mark.slow
def test_the_rates_reach_down_to_a_candidate_that_carries_far_less(lab):
    lab.behave({"0.19.1": ["--max-num-seqs=4"]}, usual=TIMES)
    outcome, series = compared(lab)
    assert (outcome.code, series["verdict"]) == (1, "regression"), outcome
    assert series["change"] == pytest.approx(2 / 3, abs=0.1)
    assert series["interval"][0] > 0.4
    assert series["interval"][1] < 1.0
    (levels,) = rates(lab.runs())
    assert len(levels) == 8
    assert levels[0] < 4
    assert levels[3] < 12 < levels[-1]


@pytest.mark.slow
def test_the_rates_reach_down_to_another_candidate_of_a_baseline_that_was_measured_before(lab):
    lab.behave({"0.19.2": ["--max-num-seqs=4"]}, usual=TIMES)
    compared(lab, blocks=1)
    lab("compare", "v0.19.0", "v0.19.2", "--measure", "--runs", 2, "--all-blocks")
    before, *later = (rates([run]).pop() for run in lab.runs() if str(run.version) == "0.19.0")
    (reaching,) = set(later)
    assert reaching[3:] == before
    assert reaching[0] < 4


def test_both_versions_are_measured_at_the_same_rates_around_the_baselines_capacity(lab):
    lab.suite.write_text(SUITE.replace("num_requests: 80", "num_requests: 40"))
    outcome, series = compared(lab, blocks=1)
    (levels,) = rates(lab.runs())
    assert len(levels) == 5
    assert levels[0] < 12 < levels[-1]
    assert series["baseline"]["mean"] == pytest.approx(12, rel=0.1), outcome  # a step between two rates
    assert {one["metric"] for one in outcome.json["series"] if one["scenario"] == "chat"} == {"max_load@slo"}


@pytest.mark.slow
def test_two_versions_alike_do_not_fail(lab):
    outcome, series = compared(lab)
    assert outcome.code in (0, 3), outcome
    assert series["verdict"] != "regression"


@pytest.mark.slow
def test_later_blocks_are_measured_at_the_rates_of_the_stored_ones(lab):
    compared(lab, blocks=1)
    outcome, series = compared(lab, blocks=2)
    assert series["baseline"]["runs"] == 2, outcome
    assert len(rates(lab.runs())) == 1


def test_a_plan_tells_what_a_capacity_takes(lab):
    told = " ".join(lab("compare", "v0.19.0", "v0.19.1", "--measure", "--plan").out.split())
    assert "capacity chat: its rates are searched first, on one more server start with at most 8 probes, and on" in told
    assert "another of the candidate with one, or as many if it carries less; then" in told
    assert "80 requests at each of 5 rates in each run" in told


def test_a_promise_that_no_load_keeps_is_said(lab):
    lab.suite.write_text(SUITE.replace("ttft: 0.3", "ttft: 0.01"))
    outcome = lab("compare", "v0.19.0", "v0.19.1", "--measure", "--runs", 1)
    assert outcome.code == 2
    assert "scenario chat: its objectives are kept at no rate" in outcome.err


@pytest.mark.slow
def test_versions_that_are_measured_alone_share_their_rates_and_have_a_history(lab):
    for version in ("0.19.0", "0.19.1"):
        assert lab("run", version, "--runs", 1).code == 0
    assert len(rates(lab.runs())) == 1
    outcome = lab.gate("history", "--suite", "promise", "--testbed", "lab")
    assert "chat/max_load@slo" in outcome.out, outcome
    assert "chat/ttft" not in outcome.out
