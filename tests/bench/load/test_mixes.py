"""Workloads that are sent at the same time: what of each is sent, what counts, and what each result says."""

import json
from typing import Any

import pytest

from regress_gate.bench.experiment.experiment_plan import suite_digest
from regress_gate.bench.load.load_client import LoadLimits
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, TurnTaking
from regress_gate.gate.sides import workload_difference
from regress_gate.model.suite import Suite

BATCH = LoadWorkload(input_len=100, output_len=10, num_requests=50, concurrency=2)
CHAT = {"request_rate": 10.0, "arrival": Arrival.CONSTANT, "num_requests": 20}


def suite(*changes: dict[str, Any]) -> Suite:
    sent = {"input_len": 16, "output_len": 8, "num_requests": 20, "request_rate": 2.0}
    scenarios = [
        {"name": f"s{number}", "server": {"model": "m"}, "together": "mix", "workload": {**sent, **change}}
        for number, change in enumerate(changes)
    ]
    return Suite.model_validate({"name": "mine", "version": "1", "description": "test", "scenarios": scenarios})


def test_all_begin_after_the_warm_up_and_each_has_its_own_result(simulate):
    server = simulate("--ttft", "0.1", "--tpot", "0.01")
    both = server.measure(**CHAT, warmup_requests=3, together=(("batch", BATCH),))
    [batch] = both.together
    assert (both.trial.scenario, batch.trial.scenario) == ("c", "batch")
    assert (both.trial.workload["together"], batch.trial.workload["together"]) == ("batch", "c")
    assert set(both.trial.samples.input_tokens) == {16}
    assert set(batch.trial.samples.input_tokens) == {100}
    received = sorted((each["received"], each["prompt_tokens"]) for each in server.requests)
    warm, first = received[2], received[3:5]
    assert [length for _, length in received[:3]] == [16, 16, 16]
    assert warm[0] < first[0][0]
    assert batch.trial.metrics["ttft_median"] == pytest.approx(0.1)


def test_nothing_is_sent_after_one_has_sent_its_last_and_what_is_not_sent_has_not_failed(simulate):
    """The chat begins its last request after 1.9 s; a request of the batch takes 0.19 s, of which two run at once."""
    server = simulate("--ttft", "0.1", "--tpot", "0.01")
    result = server.measure(**CHAT, together=(("batch", BATCH),))
    [batch] = result.together
    assert (result.trial.requests, result.trial.failed, result.notes) == (20, 0, ())
    assert (batch.trial.requests, batch.trial.failed) == (22, 0)
    assert batch.notes == ("22 of 50 requests sent while all scenarios of the mix were sending",)
    assert (result.why_void, batch.why_void) == (None, None)
    last = max(each["received"] for each in server.requests if each["prompt_tokens"] == 16)
    assert all(each["received"] <= last for each in server.requests)


def test_a_batch_that_is_done_first_ends_the_mix_for_the_schedule(simulate):
    short = LoadWorkload(input_len=100, output_len=10, num_requests=6, concurrency=2)
    result = simulate("--ttft", "0.1", "--tpot", "0.01").measure(**CHAT, together=(("batch", short),))
    assert result.together[0].trial.requests == 6
    assert result.trial.requests == 4  # until the third pair of the batch began, after 2 x 0.19 s
    assert json.loads(result.content)["scheduled_times"] == pytest.approx([0.0, 0.1, 0.2, 0.3])


def test_the_others_make_a_request_slower(simulate):
    server = simulate("--ttft", "0.1", "--tpot", "0.01", "--batch-slowdown", "0.5")
    alone = server.measure(num_requests=20, concurrency=1).trial.metrics["tpot_median"]
    together = server.measure(num_requests=20, concurrency=1, ordinal=2, together=(("batch", BATCH),))
    assert alone == pytest.approx(0.01)
    assert together.trial.metrics["tpot_median"] == pytest.approx(0.01 * (1 + 2 * 0.5), rel=0.05)


def test_turns_of_conversations_that_the_end_finds_thinking_are_left_out(simulate):
    talk = LoadWorkload(20, 8, 300, concurrency=2, conversation=TurnTaking(3, think_time=3.0))
    result = simulate("--ttft", "0.1").measure(**CHAT, together=(("talk", talk),))
    [talked] = result.together
    assert result.trial.requests == 20
    assert 2 <= talked.trial.requests < 20
    assert (talked.trial.failed, talked.why_void) == (0, None)
    assert talked.trial.duration < 3.0
    assert set(talked.trial.samples.input_tokens) <= {20, 48, 76}


def test_failures_of_one_are_its_own(simulate):
    result = simulate("--ttft", "0.1", "--error-burst", "1:1").measure(**CHAT, together=(("batch", BATCH),))
    failed = [result.trial.failed, result.together[0].trial.failed]
    assert sorted(failed) == [0, 1]


def test_a_mix_that_its_limit_ends_is_void(simulate):
    result = simulate().measure(
        **{**CHAT, "num_requests": 500}, together=(("batch", BATCH),), limits=LoadLimits(trial=0.02)
    )
    assert any(each.why_void for each in (result, *result.together))


def test_progress_ends_with_all_requests_of_all(simulate):
    reported: list[tuple[int, int]] = []
    simulate().measure(**CHAT, together=(("batch", BATCH),), progress=lambda *each: reported.append(each))
    assert reported[-1] == (70, 70)


def test_trials_of_other_mixes_are_not_compared(simulate):
    server = simulate()
    one = server.measure(**CHAT, together=(("batch", BATCH),)).trial
    other = server.measure(**CHAT, together=(("talk", BATCH),)).trial
    assert workload_difference([one], [one]) is None
    assert workload_difference([one], [other]) == "together differs: batch → talk"


def test_a_suite_with_another_mix_is_another_suite():
    mixed = suite({}, {"request_rate": None, "concurrency": 4})
    alone = mixed.model_copy(
        update={"scenarios": [each.model_copy(update={"together": None}) for each in mixed.scenarios]}
    )
    assert suite_digest(mixed) != suite_digest(alone)
    assert [each.name for each in mixed.mixes()["mix"]] == ["s0", "s1"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([{}], "only in scenario s0: a mix needs two"),
        ([{}, {"request_rate": None}], "s1: together needs a request_rate or a concurrency"),
        ([{}, {"request_rate": None, "concurrency": 20}], "20 requests are all sent at the begin"),
        ([{}, {"request_rate": None, "slo": {"ttft": 1.0}, "capacity": 0.9}], "s1: capacity is searched with one"),
    ],
)
def test_a_mix_that_cannot_be_sent_is_refused(changes, why):
    with pytest.raises(ValueError, match=why):
        suite(*changes)


def test_scenarios_of_two_servers_are_no_mix():
    one, other = (each.model_dump(exclude_none=True) for each in suite({}, {}).scenarios)
    other["server"]["engine_args"] = {"max_num_seqs": 8}
    with pytest.raises(ValueError, match="s1: together 'mix' needs the server of s0"):
        Suite.model_validate({"name": "mine", "version": "1", "description": "test", "scenarios": [one, other]})
