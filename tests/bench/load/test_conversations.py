"""Conversations: what each turn sends, when it is sent, and what becomes of one whose turn fails."""

import json
from itertools import pairwise
from typing import Any

import pytest

from regress_gate.bench.experiment.experiment_plan import suite_digest
from regress_gate.bench.load.load_client import LoadLimits
from regress_gate.bench.load.load_workload import LoadWorkload, TurnTaking, conversation_prompts, think_times
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.errors import InputError
from regress_gate.gate.sides import workload_difference
from regress_gate.model.suite import Suite

from .conftest import prompt_hash

TALK = {"input_len": 20, "output_len": 8, "prefix_len": 32, "num_requests": 6, "conversation": TurnTaking(3)}


def prompts(*, scenario: str = "c", ordinal: int = 1, **more: Any) -> list[list[int]]:
    made = conversation_prompts(LoadWorkload(**{**TALK, **more}), scenario, ordinal)
    return [prompt.tolist() for prompt in made]


def suite(**workload: Any) -> Suite:
    talk = {"input_len": 20, "output_len": 8, "num_requests": 6, "conversation": {"turns": 3}, **workload}
    scenarios = [{"name": "chat", "server": {"model": "m"}, "workload": talk}]
    return Suite.model_validate({"name": "mine", "version": "1", "description": "test", "scenarios": scenarios})


def test_a_prompt_is_the_prefix_then_all_turns_and_answers_before_it_then_its_own_turn():
    one, other = prompts()[:3], prompts()[3:]
    assert list(map(len, one)) == list(map(len, other)) == [32 + 20, 32 + 20 + 8 + 20, 32 + 2 * (20 + 8) + 20]
    for talk in (one, other):
        assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(talk))
    assert one[0][:32] == other[0][:32]
    assert one[0][32:48] != other[0][32:48]


def test_both_sides_are_sent_the_same_and_every_pass_its_own():
    assert prompts() == prompts()
    others = [prompts(seed=1), prompts(scenario="d"), prompts(ordinal=2), prompts()]
    assert len({tuple(talk[:16]) for made in others for talk in made}) == 4  # one prefix each


def test_a_turn_follows_the_answer_before_it_and_the_time_to_think(simulate):
    server = simulate("--ttft", "0.5", "--tpot", "0.1")
    asked = {**TALK, "conversation": TurnTaking(3, think_time=2.0)}
    result = server.measure(**asked, concurrency=1)
    answer = 0.5 + 7 * 0.1
    thought = think_times(LoadWorkload(**asked), "c", 1)
    gaps = [later - earlier for earlier, later in pairwise(result.trial.samples.start)]
    assert gaps == pytest.approx([answer + thought[n] if n % 3 else answer for n in range(1, 6)], abs=1e-3)
    assert result.trial.metrics["ttft_mean"] == pytest.approx(0.5, abs=1e-3)
    assert 0.5 < sum(think_times(LoadWorkload(20, 8, 3000, conversation=TurnTaking(3, 2.0)), "c", 1)) / 6000 < 1.5


def test_concurrency_counts_conversations_also_in_the_warm_up(simulate):
    server = simulate()
    server.measure(**{**TALK, "num_requests": 30, "warmup_requests": 9}, concurrency=3)
    assert server.peak_running == 3
    assert len(server.requests) == 39
    expected = prompts(num_requests=30, warmup_requests=9)
    assert {each["prompt_sha256"] for each in server.requests} == set(map(prompt_hash, expected))


def test_a_rate_is_of_turns_and_begins_a_conversation_for_all_of_its_turns(simulate):
    asked = {**TALK, "num_requests": 900, "request_rate": 6.0}
    content = json.loads(simulate("--ttft", "0.01", "--tpot", "0.001").measure(**asked).content)
    begun = content["scheduled_times"][::3]
    assert len(begun) / begun[-1] == pytest.approx(2.0, rel=0.15)


def test_latency_of_a_first_turn_counts_from_its_schedule_and_of_a_later_one_from_its_sending(simulate):
    server = simulate("--ttft", "1.0", "--tpot", "0")
    asked = {**TALK, "num_requests": 6, "request_rate": 3000.0, "concurrency": 1}
    metrics = server.measure(**asked).trial.metrics
    assert metrics["ttft_first_turn_mean"] == pytest.approx((1 + 4) / 2, abs=0.01)
    assert metrics["ttft_later_turns_mean"] == pytest.approx(1.0, abs=0.001)


def test_a_lost_prefix_cache_is_seen_in_later_turns(simulate):
    asked = {**TALK, "prefix_len": 160, "input_len": 40, "output_len": 8, "num_requests": 30}
    cached, lost = (
        simulate("--ttft", "0.01", "--prefill-time", "0.001", *flags).measure(**asked, concurrency=2).trial.metrics
        for flags in ((), ("--forget-prefixes",))
    )
    # A later turn adds 48 tokens, an answer and a turn; without a cache it is read from its first token on.
    assert 0.05 < cached["ttft_later_turns_median"] < 0.08
    assert lost["ttft_later_turns_median"] == pytest.approx(0.01 + 0.001 * (160 + 2.5 * 40 + 1.5 * 8))
    assert lost["ttft_later_turns_median"] > 3 * cached["ttft_later_turns_median"]
    assert lost["ttft_first_turn_median"] > 2 * cached["ttft_first_turn_median"]  # the system prompt is shared


def test_a_failed_turn_ends_its_conversation_and_the_turns_after_it_count_as_failed(simulate):
    server = simulate("--error-burst", "2:1")
    result = server.measure(**TALK, concurrency=1)
    assert (result.trial.completed, result.trial.failed, len(server.requests)) == (4, 2, 5)
    assert result.trial.metrics["failed_requests"] == pytest.approx(2 / 6)
    assert [(str(each.kind), each.count) for each in result.failures] == [("status", 1), ("abandoned", 1)]
    assert result.why_void is None


def test_a_trial_that_ends_within_a_conversation_is_void(simulate):
    asked = {**TALK, "conversation": TurnTaking(3, think_time=100.0)}
    assert simulate().measure(**asked, limits=LoadLimits(trial=10.0)).why_void is not None


def test_all_turns_of_a_conversation_have_one_adapter(simulate):
    server = simulate("--served-model-name", "one")
    result = server.measure(**TALK, concurrency=1, lora_adapters=("one", "two"))
    named = [each["parameters"]["model"] for each in server.requests]
    assert named == ["one", "one", "one", "two"]  # this server has no second one
    assert result.trial.failed == 3


def test_the_tokens_that_a_server_should_count_are_those_of_each_turn(simulate):
    whole = simulate().measure(**TALK)
    uncounted = simulate("--no-usage-every", "1").measure(**TALK).trial
    assert whole.notes == ()
    assert list(whole.trial.samples.input_tokens) == list(uncounted.samples.input_tokens) == [52, 80, 108] * 2


def test_what_is_kept_names_turns_and_thinking_and_others_are_not_compared(simulate):
    server = simulate()
    one = server.measure(**TALK).trial
    other = server.measure(**{**TALK, "conversation": TurnTaking(2)}, ordinal=2).trial
    assert (one.workload["turns"], one.workload["think_time"], one.workload["input_len"]) == (3, 0.0, 20)
    assert workload_difference([one], [one]) is None
    assert workload_difference([one], [other]) == "turns differs: 3 → 2"


def test_a_suite_with_other_conversations_is_another_suite():
    digests = {
        suite_digest(suite(**more))
        for more in ({}, {"conversation": {"turns": 2}}, {"conversation": {"turns": 3, "think_time": 1.0}})
    }
    assert len(digests) == 3


def test_a_suite_names_whole_conversations_of_random_tokens():
    [(_, workload)] = load_workloads(suite(prefix_len=100))
    assert (workload.conversation, workload.prefix_len) == (TurnTaking(3), 100)
    for wrong, why in (
        ({"num_requests": 7}, "a multiple of 3"),
        ({"dataset": {"format": "custom", "file": "f"}, "input_len": None}, "random tokens"),
        ({"api": "embeddings", "output_len": None}, "only completions have turns"),
    ):
        with pytest.raises(ValueError, match=why):
            suite(**wrong)
    with pytest.raises(InputError, match="no whole conversations of 3 turns"):
        LoadWorkload(**{**TALK, "num_requests": 5})
