"""Asking a server the fixed prompts: what it is asked, what is kept, and that nothing it does breaks a run."""

import json
import threading

import httpx
import pytest

from regress_gate.bench.fixed_prompts import (
    ANSWER_TOKENS,
    MAX_ANSWER_BYTES,
    PROMPT_SET,
    collect_outputs,
    sanity_prompts,
)

NAMES = [prompt.name for prompt in sanity_prompts()]
REFUSED = 400, b'{"error": {"message": "not supported here"}}'


def answering(body):
    """As vLLM does, always with the same token."""
    choice = {"index": 0, "text": "", "logprobs": None, "token_ids": None, "prompt_logprobs": None}
    if body.get("return_token_ids"):
        choice["token_ids"] = [7] * ANSWER_TOKENS
    if "logprobs" in body:
        tokens = ["token_id:7"] * ANSWER_TOKENS
        choice["logprobs"] = {
            "tokens": tokens,
            "token_logprobs": [-0.5] * ANSWER_TOKENS,
            "top_logprobs": [{"token_id:7": -0.5}] * ANSWER_TOKENS,
        }
    if "prompt_logprobs" in body:
        choice["prompt_logprobs"] = [None, {"9": {"logprob": -1.0, "rank": 1, "decoded_token": "x"}}]
    return 200, json.dumps({"choices": [choice]}).encode()


def is_prompt(body, name):
    return body["prompt"] == next(prompt.content for prompt in sanity_prompts() if prompt.name == name)


def test_every_prompt_is_asked_once_greedily_and_one_at_a_time(scripted):
    at_once, most, lock = 0, 0, threading.Lock()

    def script(body):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        reply = answering(body)
        with lock:
            at_once -= 1
        return reply

    server = scripted(script)
    told = []
    got = collect_outputs(server.url, "tiny", progress=lambda done, total: told.append((done, total)))
    assert [body["prompt"] for body in server.asked] == [prompt.content for prompt in sanity_prompts()]
    assert most == 1
    assert told == [(done, 16) for done in range(1, 17)]
    for body in server.asked:
        assert {key: value for key, value in body.items() if key != "prompt"} == {
            "model": "tiny",
            "max_tokens": 32,
            "ignore_eos": True,
            "temperature": 0,
            "seed": 0,
            "logprobs": 5,
            "prompt_logprobs": 0,
            "return_tokens_as_token_ids": True,
        }
    assert got.notes == ()
    assert got.outputs is not None
    assert got.outputs.prompt_set == PROMPT_SET
    assert [answer.prompt for answer in got.outputs.answers] == NAMES
    for answer in got.outputs.answers:
        assert answer.tokens == ("7",) * 32
        assert (answer.prompt_tokens, answer.prompt_logprobs) == (("9",), (-1.0,))


@pytest.mark.parametrize(
    ("refused", "note", "has_logprobs"),
    [
        ("prompt_logprobs", "the server gives no log-probabilities of prompts", True),
        ("logprobs", "the server gives no log-probabilities", False),
    ],
)
def test_a_server_that_refuses_logprobs_is_asked_for_less(scripted, refused, note, has_logprobs):
    server = scripted(lambda body: REFUSED if refused in body else answering(body))
    got = collect_outputs(server.url, "tiny")
    assert got.notes == (note,)
    assert got.outputs is not None
    assert all(answer.tokens == ("7",) * 32 for answer in got.outputs.answers)
    assert all(bool(answer.logprobs) is has_logprobs for answer in got.outputs.answers)
    assert not any(answer.prompt_logprobs for answer in got.outputs.answers)


def test_a_server_that_leaves_prompt_logprobs_out_is_noted(scripted):
    got = collect_outputs(
        scripted(lambda body: answering({key: body[key] for key in body if key != "prompt_logprobs"})).url, "tiny"
    )
    assert got.notes == ("the server gives no log-probabilities of prompts",)


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_server_that_takes_no_completions_gives_no_outputs_and_the_reason(scripted, status):
    got = collect_outputs(scripted(lambda _: (status, REFUSED[1])).url, "tiny")
    assert got.outputs is None
    assert got.notes == (f"the answers to sanity@1 were not collected: HTTP {status}: not supported here",)


def test_a_server_that_is_not_there_gives_no_outputs_and_the_reason(scripted):
    server = scripted(answering)
    url = server.url
    server.close()
    got = collect_outputs(url, "tiny")
    assert got.outputs is None
    assert "the connection failed" in got.notes[0]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ((500, b"Internal Server Error"), "HTTP 500: Internal Server Error"),
        ((400, REFUSED[1]), "HTTP 400: not supported here"),
        ((200, b"garbage"), "the answer is not JSON"),
        ((200, b'{"choices": []}'), "the answer names no tokens"),
        ((200, b" " * (MAX_ANSWER_BYTES + 1)), "larger than"),
    ],
)
def test_a_prompt_that_is_not_answered_is_kept_with_its_error_and_the_others_are_asked(scripted, reply, why):
    got = collect_outputs(scripted(lambda body: reply if is_prompt(body, "sql") else answering(body)).url, "tiny")
    assert got.outputs is not None
    errors = {answer.prompt: answer.error for answer in got.outputs.answers if answer.error is not None}
    assert list(errors) == ["sql"]
    assert why in errors["sql"]
    assert got.notes == (f"1 of 16 prompts were not answered; the first, sql: {errors['sql']}",)


def test_a_server_that_fails_every_request_has_answered(scripted):
    got = collect_outputs(scripted(lambda _: (500, b"")).url, "tiny")
    assert got.outputs is not None
    assert [answer.error for answer in got.outputs.answers] == ["HTTP 500"] * 16


def test_after_a_broken_connection_the_rest_is_not_asked(scripted):
    server = scripted(lambda body: None if is_prompt(body, "python") else answering(body))
    got = collect_outputs(server.url, "tiny")
    assert got.outputs is not None
    at = NAMES.index("python")
    assert all(answer.error is None for answer in got.outputs.answers[:at])
    assert all("the connection failed" in (answer.error or "") for answer in got.outputs.answers[at:])
    assert len(server.asked) == at + 1


def test_an_answer_that_does_not_come_is_given_up(scripted):
    asked, released = threading.Event(), threading.Event()

    def script(body):
        asked.set()
        released.wait()
        return answering(body)

    server = scripted(script)
    try:
        got = collect_outputs(server.url, "tiny", timeout=0.2)
        assert asked.wait(60)
    finally:
        released.set()
    assert got.outputs is None
    assert got.notes == ("the answers to sanity@1 were not collected: no answer within 0.2 s",)
    assert len(server.asked) == 1


def test_after_an_answer_that_does_not_come_the_rest_is_not_asked(scripted, monkeypatch):
    stream = httpx.Client.stream

    def timing_out(client, method, url, *, json):
        if is_prompt(json, "python"):
            raise httpx.ReadTimeout("timed out")
        return stream(client, method, url, json=json)

    monkeypatch.setattr(httpx.Client, "stream", timing_out)
    server = scripted(answering)
    got = collect_outputs(server.url, "tiny", timeout=60)
    assert got.outputs is not None
    at = NAMES.index("python")
    assert [answer.error for answer in got.outputs.answers[:at]] == [None] * at
    assert got.outputs.answers[at].error == "no answer within 60 s"
    assert all((answer.error or "").startswith("not asked") for answer in got.outputs.answers[at + 1 :])
    assert len(server.asked) == at


class TestAgainstTheFakeServer:
    def test_the_same_server_twice_gives_the_same_answers(self, fake_vllm):
        first, second = (collect_outputs(fake_vllm("--served-model-name", "tiny"), "tiny") for _ in range(2))
        assert first.outputs == second.outputs
        assert first.notes == ()
        assert first.outputs is not None
        for answer in first.outputs.answers:
            assert len(answer.tokens) == len(answer.logprobs) == len(answer.alternatives) == ANSWER_TOKENS
            assert len(answer.prompt_tokens) == len(answer.prompt_logprobs) > 0

    def test_a_model_that_is_not_served_is_a_reason_and_no_crash(self, fake_vllm):
        got = collect_outputs(fake_vllm("--served-model-name", "tiny"), "other")
        assert got.outputs is None
        assert "HTTP 404" in got.notes[0]
        assert "does not exist" in got.notes[0]
