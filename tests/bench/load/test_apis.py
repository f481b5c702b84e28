"""Answers in one piece (embeddings, reranking), measured by their whole latency; and such as end by themselves."""

import pytest

from regress_gate.bench.load.load_client import LoadLimits
from regress_gate.bench.load.load_errors import RequestFailureKind
from regress_gate.bench.load.load_workload import RequestSlo, ServingApi
from regress_gate.bench.load.responses import MAX_RESPONSE_BYTES, WholeResponse

SHORT_LIMIT = LoadLimits(request=5.0)
EMBEDDINGS = {"api": ServingApi.EMBEDDINGS, "output_len": 0}
RERANK = {"api": ServingApi.RERANK, "output_len": 0, "documents": 5}


@pytest.mark.parametrize("what", [EMBEDDINGS, RERANK], ids=["embeddings", "rerank"])
def test_an_answer_in_one_piece_has_a_latency_and_no_token_times(simulate, what):
    result = simulate("--ttft", "0.1").measure(**what, concurrency=2, warmup_requests=2)
    names = {name.rpartition("_")[0] for name in result.trial.metrics}
    assert names == {"e2el", "request", "total", "failed"}
    assert (result.trial.completed, result.trial.failed) == (12, 0)
    assert result.trial.metrics["e2el_median"] == pytest.approx(0.1)
    assert result.trial.workload["api"] == what["api"]


def test_token_throughput_counts_what_the_server_read(simulate):
    trial = simulate().measure(**EMBEDDINGS, input_len=100).trial
    assert trial.workload["mean_input_tokens"] == 100
    assert trial.metrics["total_throughput"] == pytest.approx(100 * trial.metrics["request_throughput"])


def test_the_words_of_reranking_are_counted_by_the_server_and_that_is_no_surprise(simulate):
    server = simulate()
    result = server.measure(**RERANK, input_len=40)
    assert result.trial.workload["documents"] == 5
    assert result.trial.workload["mean_input_tokens"] == 5 * 40  # the fake counts words, pair by pair
    assert result.notes == ()


def test_goodput_is_of_the_whole_latency(simulate):
    server = simulate("--ttft", "0.05")
    met = server.measure(**EMBEDDINGS, slo=RequestSlo(e2el=0.06)).trial.metrics
    assert met["goodput"] == met["request_throughput"]
    assert server.measure(**EMBEDDINGS, slo=RequestSlo(e2el=0.04), ordinal=2).trial.metrics["goodput"] == 0


def test_an_open_loop_of_embeddings_keeps_its_schedule(simulate):
    server = simulate()
    result = server.measure(**EMBEDDINGS, request_rate=200.0, num_requests=30)
    assert result.trial.completed == 30


@pytest.mark.parametrize(
    ("flags", "what", "kind", "failed", "says"),
    [
        (("--error-burst", "3:4"), RERANK, RequestFailureKind.STATUS, 4, "HTTP 503: EngineCore encountered an issue."),
        (("--garbage-every", "3"), EMBEDDINGS, RequestFailureKind.GARBAGE, 4, "no JSON"),
        (("--short-every", "6"), RERANK, RequestFailureKind.WRONG_LENGTH, 2, "4 results where 5 were due"),
        (("--short-every", "6"), EMBEDDINGS, RequestFailureKind.WRONG_LENGTH, 2, "0 results where 1 were due"),
        (("--no-usage-every", "1"), RERANK, RequestFailureKind.NO_USAGE, 12, "no token counts"),
        (("--hang-after", "10"), EMBEDDINGS, RequestFailureKind.TIMEOUT, 2, "0 bytes of the answer had come"),
    ],
)
def test_a_faulty_answer_fails_its_request_and_no_other(simulate, flags, what, kind, failed, says):
    result = simulate(*flags).measure(**what, concurrency=2, limits=SHORT_LIMIT)
    assert [(found.kind, found.count) for found in result.failures] == [(kind, failed)]
    assert says in result.failures[0].text
    assert result.trial.completed == 12 - failed


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", RequestFailureKind.GARBAGE),
        (b"[]", RequestFailureKind.GARBAGE),
        (b'{"object": "list"}', RequestFailureKind.GARBAGE),
        (b'{"data": {}}', RequestFailureKind.GARBAGE),
        (b'{"error": {"message": "no"}}', RequestFailureKind.SERVER_ERROR),
        (b'{"data": [1, 2]}', RequestFailureKind.WRONG_LENGTH),
        (b" " * (MAX_RESPONSE_BYTES + 1), RequestFailureKind.GARBAGE),
    ],
    ids=["nothing", "list", "no results", "odd results", "error", "too many", "endless"],
)
def test_what_is_no_whole_answer_is_a_failure(body, kind):
    answer = WholeResponse("data", 1)
    answer.receive(200, body, 0.0)
    failure = answer.failure(200)
    assert failure is not None
    assert failure.kind is kind


def test_an_answer_is_stamped_when_its_last_piece_came():
    answer = WholeResponse("data", 1)
    answer.receive(200, b'{"data": [1], ', 1.0)
    answer.receive(200, b'"usage": {"prompt_tokens": 7}}', 2.0)
    assert answer.failure(200) is None
    assert (answer.chunks, answer.input_tokens, answer.output_tokens) == ([2.0], 7, 0)


def test_answers_that_end_by_themselves_may_be_shorter_but_not_longer(simulate):
    short = simulate("--short-every", "1").measure(ignore_eos=False, output_len=8)
    assert (short.trial.completed, short.trial.workload["mean_output_tokens"]) == (12, 4)
    assert short.trial.workload["ignore_eos"] is False


def test_adapters_are_asked_for_by_their_served_names(simulate):
    server = simulate("--served-model-name", "sql")
    assert server.measure(lora_adapters=("sql",)).trial.failed == 0
    assert {request["parameters"]["model"] for request in server.requests} == {"sql"}
