"""Conversations from end to end: a version that lost its prefix cache fails."""

import pytest

SUITE = """\
name: mine
version: 1
description: Conversations.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: [ttft_later_turns_median, failed_requests]}
scenarios:
  - name: chat
    server: {model: fake, engine_args: {enforce_eager: true}}
    workload:
      {conversation: {turns: 3, think_time: 1}, concurrency: 4, prefix_len: 64, input_len: 32,
       output_len: 8, num_requests: 60}
"""


@pytest.mark.slow
def test_a_lost_prefix_cache_fails_in_the_ttft_of_later_turns(lab):
    lab.suite.write_text(SUITE)
    lab.behave(
        {"0.19.1": ["--forget-prefixes"]},
        usual=("--ttft=0.02", "--tpot=0.001", "--prefill-time=0.001", "--run-spread=0.01"),
    )
    lab.simulate_load()
    outcome = lab("compare", "v0.19.0", "v0.19.1", "--measure", "--runs", 2, "--all-blocks", "--format", "json")
    assert outcome.code == 1, outcome
    series = {each["metric"]: each for each in outcome.json["series"]}
    assert series["ttft_later_turns_median"]["verdict"] == "regression"
    assert series["ttft_later_turns_median"]["change"] > 0.5
    assert {trial.workload["turns"] for run in lab.runs() for trial in run.trials} == {3}
    assert lab.servers() == []
