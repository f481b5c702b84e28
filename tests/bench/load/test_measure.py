"""What is measured against what the server was told to do, and against what it says it did."""

import json
from hashlib import sha256
from statistics import median

import pytest

from regress_gate.bench.load import CLIENT_VERSION
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, RequestSlo, measured_prompts
from regress_gate.model.metric import METRICS

from .conftest import prompt_hash


def test_the_request_is_greedy_streamed_of_exact_length_and_its_prompt_is_token_ids(start):
    server = start()
    server.measure(num_requests=3)
    requests = server.told()["requests"]
    expected = measured_prompts(LoadWorkload(16, 8, 3), "c", 1)
    assert {request["prompt_sha256"] for request in requests} == {prompt_hash(prompt) for prompt in expected}
    assert requests[0]["parameters"] == {
        "model": "tiny",
        "max_tokens": 8,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_first_token_and_token_times_are_the_ones_of_the_server(start):
    server = start("--ttft", "0.2", "--tpot", "0.02")
    metrics = server.measure(output_len=26, num_requests=8, concurrency=2).trial.metrics
    told = server.told()["requests"]
    ttft = median(request["sent"][0] - request["received"] for request in told)
    tpot = median((request["sent"][-1] - request["sent"][0]) / 25 for request in told)
    assert 0.2 <= ttft <= metrics["ttft_median"] < 1.5 * ttft
    assert metrics["tpot_median"] == pytest.approx(tpot, rel=0.15)
    assert metrics["tpot_median"] == pytest.approx(0.02, rel=0.25)
    assert metrics["e2el_median"] >= 0.2 + 25 * 0.02 * 0.9


def test_eight_percent_more_time_per_token_is_seen(start):
    measured = [
        start("--tpot", tpot).measure(output_len=60, num_requests=12, concurrency=4).trial.metrics["tpot_median"]
        for tpot in ("0.01", "0.0108")
    ]
    assert 1.04 < measured[1] / measured[0] < 1.12


def test_slower_batches_make_the_tokens_of_concurrent_requests_slower(start):
    server = start("--tpot", "0.01", "--batch-slowdown", "0.5")
    alone, together = (
        server.measure(output_len=20, concurrency=concurrency, ordinal=concurrency).trial.metrics["tpot_median"]
        for concurrency in (1, 4)
    )
    assert together > 1.8 * alone


def test_a_closed_loop_never_exceeds_its_concurrency_not_even_in_the_warm_up(start):
    server = start()
    server.measure(num_requests=20, concurrency=3, warmup_requests=6)
    assert server.told()["peak_running"] == 3


def test_without_concurrency_or_rate_everything_is_sent_at_once(start):
    server = start("--ttft", "1.0")
    server.measure(num_requests=9, output_len=2)
    assert server.told()["peak_running"] == 9


def test_an_open_loop_keeps_its_schedule_when_the_server_cannot_and_latency_counts_from_the_schedule(start):
    server = start("--max-num-seqs", "1", "--ttft", "0.05")
    workload = {"request_rate": 100.0, "arrival": Arrival.CONSTANT, "num_requests": 40, "output_len": 1}
    result = server.measure(**workload)
    received = [request["received"] for request in server.told()["requests"]]
    needed = 40 * 0.05  # for one request after the other
    assert received[-1] - received[0] < needed / 2
    assert result.trial.samples is not None
    assert result.trial.samples.ttft.max() > needed - 39 / 100 - 0.05


def test_a_capped_open_loop_keeps_to_the_cap_and_counts_the_wait(start):
    server = start("--ttft", "0.05")
    result = server.measure(request_rate=200.0, arrival=Arrival.CONSTANT, concurrency=2, num_requests=20, output_len=1)
    assert server.told()["peak_running"] == 2
    assert result.trial.samples is not None
    assert result.trial.samples.ttft.max() > 10 * 0.05 - 19 / 200 - 0.05


def test_the_warm_up_is_recorded_and_left_out(start):
    server = start()
    trial = server.measure(warmup_requests=5).trial
    told = server.told()["requests"]
    assert len(told) == 17
    assert len({request["prompt_sha256"] for request in told}) == 17
    assert (trial.requests, trial.workload["warmup_requests"]) == (12, 5)


def test_two_runs_send_the_same_prompts(start):
    sent = []
    for _ in range(2):
        server = start()
        server.measure(concurrency=1, warmup_requests=2, prefix_len=8, seed=5)
        sent.append([request["prompt_sha256"] for request in server.told()["requests"]])
    assert sent[0] == sent[1]


def test_tokens_are_the_ones_the_server_counts_not_the_chunks(start):
    trial = start("--tokens-per-chunk", "4").measure(output_len=16).trial
    assert trial.samples is not None
    assert set(trial.samples.output_tokens.tolist()) == {16}
    assert set(trial.samples.input_tokens.tolist()) == {16}
    assert len(trial.samples.itl) == 12 * 3


def test_a_server_that_never_counts_is_counted_by_chunks_and_the_trial_says_so(start):
    result = start("--no-usage-every", "1").measure()
    assert (result.trial.completed, result.trial.workload["tokens_counted_by"]) == (12, "chunks")
    assert result.trial.workload["mean_output_tokens"] == 8
    assert "no token counts" in result.notes[0]


def test_goodput_counts_what_meets_the_objectives(start):
    server = start("--ttft", "0.1")
    met = server.measure(slo=RequestSlo(ttft=60.0, tpot=60.0, e2el=60.0)).trial
    missed = server.measure(slo=RequestSlo(ttft=0.09), ordinal=2).trial
    unasked = server.measure(ordinal=3).trial
    assert met.metrics["goodput"] == met.metrics["request_throughput"]
    assert missed.metrics.get("goodput") == 0
    assert "goodput" not in unasked.metrics


def test_the_trial_is_complete_and_its_source_names_its_content(start):
    server = start()
    result = server.measure(concurrency=4, scenario="c4", ordinal=2, seed=9)
    trial = result.trial
    latencies = {name for name in METRICS if name.rpartition("_")[0] in ("ttft", "tpot", "itl", "e2el")}
    rates = {"request_throughput", "output_throughput", "total_throughput"}
    assert set(trial.metrics) == latencies | rates | {"failed_requests"}
    assert (trial.scenario, trial.ordinal, trial.completed, trial.failed) == ("c4", 2, 12, 0)
    assert trial.workload["max_concurrency"] == 4
    assert trial.samples is not None
    assert len(trial.samples) == 12
    assert trial.duration == pytest.approx(12 / trial.metrics["request_throughput"])
    assert (trial.source.format, trial.source.client_version) == ("regress-gate", CLIENT_VERSION)
    assert trial.source.sha256 == sha256(result.content).hexdigest()
    content = json.loads(result.content)
    assert content["workload"]["seed"] == 9
    assert len(content["scheduled_times"]) == len(content["ttfts"]) == 12


def test_progress_is_told_after_every_request(start):
    told = []
    start().measure(progress=lambda done, total: told.append((done, total)), warmup_requests=3)
    assert told == [(done, 12) for done in range(1, 13)]
