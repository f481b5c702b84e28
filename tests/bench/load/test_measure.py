"""What is measured, compared with what the server was asked to do and with what it recorded itself.

In virtual time (`simulate`) the expected values are exact. With real processes (`start`) only what holds on a machine
of any load is asserted: the order of events on the clock that client and server share.
"""

import json
from hashlib import sha256

import pytest

from regress_gate.bench.load import CLIENT_VERSION
from regress_gate.bench.load.http_transport import HttpTransport
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload, RequestSlo, measured_prompts
from regress_gate.bench.load.sending import most_at_once
from regress_gate.model.metric import METRICS

from .conftest import prompt_hash


def test_the_request_is_greedy_streamed_of_exact_length_and_its_prompt_is_token_ids(simulate):
    server = simulate()
    server.measure(num_requests=3)
    requests = server.requests
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


def test_first_token_and_token_times_are_the_ones_of_the_server(simulate):
    server = simulate("--ttft", "0.2", "--tpot", "0.02")
    metrics = server.measure(output_len=26, num_requests=8, concurrency=2).trial.metrics
    assert metrics["ttft_median"] == pytest.approx(0.2)
    assert metrics["tpot_median"] == metrics["itl_median"] == pytest.approx(0.02)
    assert metrics["e2el_median"] == pytest.approx(0.2 + 25 * 0.02)


def test_a_real_client_stamps_chunks_after_they_were_sent_and_before_its_next_request(start):
    server = start("--ttft", "0.02", "--tpot", "0.01")
    result = server.measure(output_len=8, num_requests=4, concurrency=1)
    content = json.loads(result.content)
    recorded = server.requests
    assert len(recorded) == 4
    for request, ttft, itls in zip(recorded, content["ttfts"], content["itls"], strict=True):
        sent = request["sent"]
        # The first chunk is stamped after the server sent it, and it sent it at least so long after the request came.
        assert ttft >= sent[0] - request["received"] >= 0.02
        # The stamps cannot be closer than the server's delays, but for the time that the first chunk was on its way.
        assert ttft + sum(itls) >= sent[-1] - request["received"]
    # Every request ended before the next one was sent, so that nothing is counted twice.
    latencies = [ttft + sum(itls) for ttft, itls in zip(content["ttfts"], content["itls"], strict=True)]
    ends = [scheduled + latency for scheduled, latency in zip(content["scheduled_times"], latencies, strict=True)]
    assert all(end <= sent for end, sent in zip(ends, content["start_times"][1:], strict=False))


def test_eight_percent_more_time_per_token_is_seen(simulate):
    measured = [
        simulate("--tpot", tpot).measure(output_len=60, num_requests=12, concurrency=4).trial.metrics["tpot_median"]
        for tpot in ("0.01", "0.0108")
    ]
    assert measured[1] / measured[0] == pytest.approx(1.08)


def test_slower_batches_make_the_tokens_of_concurrent_requests_slower(simulate):
    server = simulate("--tpot", "0.01", "--batch-slowdown", "0.5")
    alone, together = (
        server.measure(output_len=20, concurrency=concurrency, ordinal=concurrency).trial.metrics["tpot_median"]
        for concurrency in (1, 4)
    )
    assert together / alone == pytest.approx(1 + 3 * 0.5)


def test_a_closed_loop_never_exceeds_its_concurrency_not_even_in_the_warm_up(simulate):
    server = simulate()
    server.measure(num_requests=20, concurrency=3, warmup_requests=6)
    assert server.peak_running == 3


def test_without_concurrency_or_rate_everything_is_sent_at_once(simulate):
    server = simulate("--ttft", "1.0")
    server.measure(num_requests=9, output_len=2)
    assert server.peak_running == 9


def test_an_open_loop_keeps_its_schedule_when_the_server_cannot_and_latency_counts_from_the_schedule(simulate):
    server = simulate("--max-num-seqs", "1", "--ttft", "0.05")
    workload = {"request_rate": 100.0, "arrival": Arrival.CONSTANT, "num_requests": 40, "output_len": 1}
    result = server.measure(**workload)
    received = [request["received"] for request in server.requests]
    assert received[-1] - received[0] == pytest.approx(39 / 100)  # although the server needs 40 × 0.05 s
    assert result.trial.samples is not None
    assert result.trial.samples.ttft.max() == pytest.approx(40 * 0.05 - 39 / 100, rel=0.001)


def test_a_capped_open_loop_keeps_to_the_cap_and_counts_the_wait(simulate):
    server = simulate("--ttft", "0.05")
    result = server.measure(request_rate=200.0, arrival=Arrival.CONSTANT, concurrency=2, num_requests=20, output_len=1)
    assert server.peak_running == 2
    assert result.trial.samples is not None
    assert result.trial.samples.ttft.max() == pytest.approx(10 * 0.05 - 18 / 200, rel=0.001)


def test_the_warm_up_is_recorded_and_left_out(simulate):
    server = simulate()
    trial = server.measure(warmup_requests=5).trial
    assert len(server.requests) == 17
    assert len({request["prompt_sha256"] for request in server.requests}) == 17
    assert (trial.requests, trial.workload["warmup_requests"]) == (12, 5)


def test_two_runs_send_the_same_prompts(simulate):
    sent = []
    for _ in range(2):
        server = simulate()
        server.measure(concurrency=1, warmup_requests=2, prefix_len=8, seed=5)
        sent.append([request["prompt_sha256"] for request in server.requests])
    assert sent[0] == sent[1]


def test_tokens_are_the_ones_the_server_counts_not_the_chunks(simulate):
    trial = simulate("--tokens-per-chunk", "4").measure(output_len=16).trial
    assert trial.samples is not None
    assert set(trial.samples.output_tokens.tolist()) == {16}
    assert set(trial.samples.input_tokens.tolist()) == {16}
    assert len(trial.samples.itl) == 12 * 3


def test_a_server_that_never_counts_is_counted_by_chunks_and_the_trial_says_so(simulate):
    result = simulate("--no-usage-every", "1").measure()
    assert (result.trial.completed, result.trial.workload["tokens_counted_by"]) == (12, "chunks")
    assert result.trial.workload["mean_output_tokens"] == 8
    assert "no token counts" in result.notes[0]


def test_goodput_counts_what_meets_the_objectives(simulate):
    server = simulate("--ttft", "0.1")
    met = server.measure(slo=RequestSlo(ttft=0.11, tpot=0.006, e2el=0.14)).trial
    missed = server.measure(slo=RequestSlo(ttft=0.09), ordinal=2).trial
    unasked = server.measure(ordinal=3).trial
    assert met.metrics["goodput"] == met.metrics["request_throughput"]
    assert missed.metrics.get("goodput") == 0
    assert "goodput" not in unasked.metrics


def test_the_trial_is_complete_and_its_source_names_its_content(simulate):
    server = simulate()
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


def test_progress_is_reported_after_every_request(simulate):
    reported = []
    simulate().measure(progress=lambda done, total: reported.append((done, total)), warmup_requests=3)
    assert reported == [(done, 12) for done in range(1, 13)]


def test_bursts_are_sent_as_bursts_and_kept_as_such(simulate):
    how = {"request_rate": 10.0, "num_requests": 60, "output_len": 1}
    gamma = simulate().measure(**how, arrival=Arrival.GAMMA, burstiness=0.25).trial
    assert (gamma.workload["arrival"], gamma.workload["burstiness"]) == ("gamma", 0.25)
    phased = simulate().measure(**how, arrival=Arrival.ON_OFF, phases=(1.0, 4.0)).trial
    assert (phased.workload["arrival"], phased.workload["phases"]) == ("on-off", [1.0, 4.0])
    assert max(phased.samples.start % 5.0) < 1.01


def test_connections_for_all_that_are_due_at_once_are_open_before_they_are_needed():
    burst = [0.0, 0.01, 0.02, 1.0, 1.01]
    assert most_at_once(burst) == 3
    assert most_at_once([]) == 0
    assert most_at_once([0.0] * 1000) == 64


def test_an_open_loop_begins_with_open_connections(simulate, monkeypatch):
    opened = []
    open_ahead = HttpTransport.open_ahead

    async def counted(self, connections):
        await open_ahead(self, connections)
        opened.append((connections, len(self._idle)))

    monkeypatch.setattr(HttpTransport, "open_ahead", counted)
    simulate().measure(request_rate=100.0, arrival=Arrival.CONSTANT, warmup_requests=0)
    simulate().measure(concurrency=2)
    assert opened == [(6, 6)]  # in a twentieth of a second, and not for a closed loop
