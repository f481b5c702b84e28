"""Why a candidate is slower: causes that were planted in its server are named first, whatever else the machine does."""

import pytest

pytestmark = pytest.mark.slow

USUAL = (
    "--ttft=0.02", "--tpot=0.012", "--whole-at-once", "--jitter=0.02", "--run-spread=0.01",
    "--max-cudagraph-capture-size=512", "--tokens-per-request=400", "--moe-backend=TRITON",
)  # fmt: skip
SUITE = """\
name: causes
version: 1
description: One scenario that fills the batch.
accelerator: cpu
conditions: {max_outside_cpu_cores: 1000, max_steal_cpu_cores: 1000}
gate: {metrics: [ttft_median, tpot_median, output_throughput, failed_requests], margins: {"*": 0.05}}
scenarios:
  - name: c16
    server: {model: fake}
    workload: {input_len: 16, output_len: 24, concurrency: 16, num_requests: 48, warmup_requests: 0}
"""
PLANTED = {
    "preemptions": ["--preempt-every=3", "--preemption-cost=0.2"],
    "prefill_slower": ["--ttft=0.04"],
    "graphs_smaller": ["--max-cudagraph-capture-size=8", "--uncaptured-slowdown=1.5"],
    "kv_cache_smaller": ["--kv-cache-tokens=4800"],
}
NEW_RULES = {"preemptions": {"KV003"}, "prefill_slower": set(), "graphs_smaller": set(), "kv_cache_smaller": {"KV001"}}
"""Rules of `audit` that fire on the candidate alone. The fake servers have no graphs, by their accelerator."""


@pytest.fixture(autouse=True)
def simulated(lab):
    lab.suite.write_text(SUITE)
    lab.simulate_load()
    yield
    assert lab.servers() == []


def compared(lab, *options):
    outcome = lab("compare", "0.19.0", "0.19.1", "--measure", "--runs", 3, "--format", "json", *options)
    assert outcome.code == 1, outcome
    return outcome.json


def first_causes(result):
    return [one["observed"][0]["finding"] if one["observed"] else None for one in result["explanations"]]


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_cause_is_named_first_of_every_regression(lab, cause):
    lab.behave({"0.19.1": PLANTED[cause]}, usual=USUAL)
    result = compared(lab)
    assert set(first_causes(result)) == {cause}
    assert all(one["observed"][0]["evidence"] for one in result["explanations"])
    rules = [one for one in result["audit"] if one["severity"] is not None]
    assert {one["id"] for one in rules if one["effect"] == "new"} == NEW_RULES[cause]
    assert all(one["evidence"][-1].endswith("fires at 3 server starts of the candidate") for one in rules)


def test_equal_servers_have_no_findings(lab):
    lab.behave({"0.19.1": ["--tpot=0.014"]}, usual=USUAL)
    result = compared(lab)
    assert result["audit"] == []
    assert set(first_causes(result)) == {"decode_slower"}


def test_another_backend_is_named_with_the_flag_that_restores_the_old_one(lab):
    slow = ["--moe-backend=CUTLASS", "--slow-moe-backend=CUTLASS"]
    lab.behave({"0.19.1": slow}, usual=USUAL)
    result = compared(lab)
    assert set(first_causes(result)) == {"backend_changed:moe"}
    test = result["explanations"][0]["observed"][0]["counter_test"]
    assert (test["side"], test["engine_args"]) == ("candidate", {"moe_backend": "triton"})
    assert test["command"].startswith(f"regress-gate compare 0.19.0 0.19.1 --measure --suite {lab.suite} --store ")
    assert test["command"].endswith(" {engine_args} --moe-backend triton'")
