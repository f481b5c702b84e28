"""Answers come from a program under test: what can be read is read, and nothing else gets in."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.fixed_prompts import MAX_ANSWER_TOKENS, UnreadableAnswerError, read_answer, read_error
from regress_gate.model.run import Answer, Outputs
from regress_gate.store import stored_values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def completion(logprobs=None, **fields):
    return json.dumps({"choices": [{"index": 0, "text": "", "logprobs": logprobs, **fields}]}).encode()


def logprobs(*tokens, values=None, top=None):
    return {
        "tokens": list(tokens),
        "token_logprobs": [-0.5] * len(tokens) if values is None else values,
        "top_logprobs": [{token: -0.5} for token in tokens] if top is None else top,
    }


def test_an_answer_as_vllm_gives_it():
    body = completion(
        logprobs(
            "token_id:33",
            "token_id:3390",
            values=[-8.486681938171387, -8.640982627868652],
            top=[
                {"token_id:33": -8.486681938171387, "token_id:7": -8.5},
                {"token_id:3390": -8.640982627868652},
            ],
        ),
        prompt_logprobs=[None, {"1438": {"logprob": -9.485801696777344, "rank": 3340, "decoded_token": " ceku"}}],
        token_ids=None,
    )
    assert read_answer("capital", body) == Answer(
        prompt="capital",
        tokens=("33", "3390"),
        logprobs=(-8.48668, -8.64098),
        prompt_logprobs=(-9.4858,),
        prompt_tokens=("1438",),
        alternatives=({"33": -8.48668, "7": -8.5}, {"3390": -8.64098}),
    )


def test_without_logprobs_the_token_ids_are_the_answer():
    answer = read_answer("capital", completion(token_ids=[5, 6]))
    assert (answer.tokens, answer.logprobs, answer.alternatives) == (("5", "6"), (), ())


@pytest.mark.parametrize("value", ["null", "NaN", "Infinity", "-Infinity", '"-0.5"', "true", "1e999", "1" + "0" * 400])
def test_what_is_no_number_is_none_and_never_nan(value):
    body = completion(logprobs("token_id:1", values=["HERE"])).replace(b'"HERE"', value.encode())
    assert read_answer("p", body).logprobs == (None,)


def test_the_number_that_stands_for_impossible_is_a_number():
    assert read_answer("p", completion(logprobs("token_id:1", values=[-9999.0]))).logprobs == (-9999.0,)


def test_numbers_that_do_not_go_with_the_tokens_are_none():
    answer = read_answer("p", completion(logprobs("token_id:1", "token_id:2", values=[-1.0], top=[])))
    assert (answer.tokens, answer.logprobs, answer.alternatives) == (("1", "2"), (), ())


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "names no tokens"),
        (b'{"choices": []}', "names no tokens"),
        (b'{"choices": [{"text": "Paris"}]}', "names no tokens"),
        (completion(token_ids=list(range(MAX_ANSWER_TOKENS + 1))), "1025 tokens"),
    ],
)
def test_a_body_that_is_no_answer_says_why(body, why):
    with pytest.raises(UnreadableAnswerError, match=why):
        read_answer("p", body)


@pytest.mark.parametrize("token", ["\ud800", "a\0b", "x" * 5000, "\x1b[31m", ""])
def test_tokens_with_hostile_text_keep_names_that_can_be_stored(token):
    answer = read_answer("p", completion(logprobs("token_id:" + token)))
    (name,) = answer.tokens
    assert "\0" not in name
    assert len(name.encode()) <= 500
    assert list(answer.alternatives[0]) == [name]


def test_long_tokens_that_begin_alike_stay_different():
    answer = read_answer("p", completion(logprobs("x" * 5000 + "a", "x" * 5000 + "b")))
    assert len(set(answer.tokens)) == 2


@given(JSON)
def test_any_json_is_an_answer_or_a_reason_and_can_be_stored(value):
    bodies = [value, {"choices": value}, {"choices": [value]}, {"choices": [{"token_ids": [1], "logprobs": value}]}]
    bodies += [{"choices": [{"token_ids": [1], "prompt_logprobs": value}]}]
    bodies += [{"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": value, "top_logprobs": value}}]}]
    for body in bodies:
        try:
            answer = read_answer("p", json.dumps(body).encode())
        except UnreadableAnswerError:
            continue
        outputs = Outputs("sanity@1", (answer,))
        assert stored_values.json_values("outputs", outputs.as_document()) == outputs.as_document()
        text = json.dumps(outputs.as_document(), allow_nan=False)
        assert Outputs.from_document(json.loads(text)) == outputs


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_reason(body):
    with pytest.raises(UnreadableAnswerError):
        read_answer("p", body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"message": "The model `x` does not exist.", "code": 404}}', "The model `x` does not exist."),
        (b'{"object": "error", "message": "too\\nlong"}', "too long"),
        (b"Internal Server Error", "Internal Server Error"),
        (b'{"error": {"message": 5}}', '{"error": {"message": 5}}'),
        (b"", ""),
    ],
)
def test_what_the_server_says_of_a_failure(body, said):
    assert read_error(body) == said


@given(st.binary(max_size=2000))
def test_what_the_server_says_is_one_short_line(body):
    said = read_error(body)
    assert len(said) <= 200
    assert len(said.splitlines()) <= 1


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_numbers_are_kept_to_five_decimals(values):
    tokens = [f"token_id:{n}" for n in range(len(values) + 1)]
    read = read_answer("p", completion(logprobs(*tokens, values=[*values, -1.0]))).logprobs
    for value, kept in zip(values, read, strict=False):
        assert (kept is None) if value is None else math.isclose(kept, value, abs_tol=1e-5)
