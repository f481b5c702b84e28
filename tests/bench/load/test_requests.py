"""The requests that are sent: the same for ever for a seed, and whole before anything is measured."""

import hashlib

import orjson
import pytest

from regress_gate.bench.load.load_workload import MAX_QUERY_WORDS, WORDS, LoadWorkload, ServingApi, measured_prompts
from regress_gate.bench.load.pass_requests import measured_requests, warmup_requests
from regress_gate.errors import InputError


def workload(**changes) -> LoadWorkload:
    return LoadWorkload(**{"input_len": 32, "output_len": 8, "num_requests": 6, "warmup_requests": 2, **changes})


def bodies(**changes) -> list[dict]:
    return [orjson.loads(request.body) for request in measured_requests(workload(**changes), "c", 1, "tiny")]


def bytes_of(what: LoadWorkload) -> bytes:
    sent = measured_requests(what, "c", 1, "tiny") + warmup_requests(what, "c", 1, "tiny")
    return b"".join(request.body for request in sent)


def test_the_bytes_of_completions_are_these_for_ever():
    sent = bytes_of(workload())
    assert hashlib.sha256(sent).hexdigest() == "81f7b1e98cc856be4c95d899d7e2f0074ebfeccc4e23ef91b5361bca66ae87ba"


def test_the_bytes_of_reranking_are_these_for_ever():
    what = workload(api=ServingApi.RERANK, output_len=0, documents=3)
    sent = bytes_of(what)
    assert hashlib.sha256(sent).hexdigest() == "87b21e66b31aec73184b70dc8798a8e05fd3bbfdcc0885a5a50b9fb4fc3666e1"


def test_embeddings_are_asked_for_token_ids_and_nothing_of_generation():
    sent = bodies(api=ServingApi.EMBEDDINGS, output_len=0, extra_body={"encoding_format": "base64"})
    assert [body.pop("input") for body in sent] == measured_prompts(workload(), "c", 1)
    assert sent == [{"model": "tiny", "encoding_format": "base64"}] * 6


def test_reranking_is_asked_for_in_words_because_it_takes_no_token_ids():
    sent = bodies(api=ServingApi.RERANK, output_len=0, documents=3, input_len=40)
    assert all(set(body) == {"model", "query", "documents"} for body in sent)
    for body in sent:
        query, documents = body["query"].split(), [document.split() for document in body["documents"]]
        assert [len(query) + len(document) for document in documents] == [40] * 3
        assert len(query) == MAX_QUERY_WORDS
        assert {*query, *(word for document in documents for word in document)} <= set(WORDS)
    texts = [text for body in sent for text in (body["query"], *body["documents"])]
    assert len(set(texts)) == len(texts)


def test_the_query_of_a_short_pair_leaves_room_for_the_document():
    (body, *_) = bodies(api=ServingApi.RERANK, output_len=0, documents=1, input_len=5)
    assert (len(body["query"].split()), len(body["documents"][0].split())) == (2, 3)


def test_no_word_is_there_twice():
    assert len(set(WORDS)) == len(WORDS)


def test_adapters_take_turns_also_in_the_warm_up():
    what = workload(lora_adapters=("a", "b", "c"), num_requests=7)
    measured = [orjson.loads(request.body)["model"] for request in measured_requests(what, "c", 1, "tiny")]
    warmed = [orjson.loads(request.body)["model"] for request in warmup_requests(what, "c", 1, "tiny")]
    assert (measured, warmed) == (["a", "b", "c", "a", "b", "c", "a"], ["a", "b"])


def test_the_extra_body_is_in_every_request_and_may_choose_the_sampling():
    extra = {"temperature": 0.7, "structured_outputs": {"choice": ["yes", "no"]}}
    for body in bodies(extra_body=extra, ignore_eos=False):
        assert (body["temperature"], body["structured_outputs"]) == (0.7, {"choice": ["yes", "no"]})
        assert (body["ignore_eos"], body["max_tokens"], body["stream"]) == (False, 8, True)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"api": ServingApi.RERANK, "output_len": 0}, "documents"),
        ({"api": ServingApi.RERANK, "output_len": 0, "documents": 1, "input_len": 1}, "input_len"),
        ({"output_len": 0}, "output_len"),
    ],
)
def test_what_an_api_needs_is_asked_for(changes, name):
    with pytest.raises(InputError, match=name):
        workload(**changes)
