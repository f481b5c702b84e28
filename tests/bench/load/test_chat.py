"""Chats: the server applies its template, prompts have the length that was asked for, and images follow the text."""

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import Awaitable, Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.load.chat_prompts import MAX_PIXELS, make_chat_texts
from regress_gate.bench.load.dataset import DatasetFormat, open_dataset
from regress_gate.bench.load.load_client import LoadLimits
from regress_gate.bench.load.load_errors import LoadError, RequestFailureKind
from regress_gate.bench.load.load_workload import LoadWorkload, RequestSlo, ServingApi
from regress_gate.bench.load.pass_requests import ChosenPrompt, load_workloads, make_pass_requests
from regress_gate.bench.load.responses import ChatResponse
from regress_gate.errors import InputError
from regress_gate.model.suite import Images, Suite

CHAT = {"api": ServingApi.CHAT, "input_len": 40}
SHORT_LIMIT = LoadLimits(request=5.0)
SMALL = Images(width=48, height=20)


def hashes(server) -> list[str]:
    return [request["prompt_sha256"] for request in server.requests]


def test_a_prompt_has_its_length_with_the_template_as_the_server_counts_it(simulate):
    server = simulate("--template-tokens", "11")
    result = server.measure(**CHAT, warmup_requests=3)
    assert (result.trial.completed, result.trial.failed, result.notes) == (12, 0, ())
    assert {request["prompt_tokens"] for request in server.requests} == {40}
    assert len(set(hashes(server))) == 15
    assert result.trial.workload["api"] == "chat"
    assert result.trial.workload["mean_input_tokens"] == 40


def test_an_answer_has_the_length_that_is_asked_for(simulate):
    server = simulate()
    trial = server.measure(**CHAT, output_len=8).trial
    assert set(trial.samples.output_tokens) == {8}
    assert len(trial.samples.itl) == 12 * 7  # the chunk that names the role is no token
    sent = server.requests[0]["parameters"]
    assert (sent["max_completion_tokens"], sent["ignore_eos"], sent["temperature"]) == (8, True, 0)


def test_a_seed_sends_the_same_texts_to_every_server_and_another_pass_others(simulate):
    first, second, template = simulate(), simulate(), simulate("--template-tokens", "9")
    trials = [server.measure(**CHAT, seed=7).trial for server in (first, second, template)]
    assert hashes(first) == hashes(second)
    same, other = trials[0].workload["prompts_sha256"], trials[2].workload["prompts_sha256"]
    assert (trials[1].workload["prompts_sha256"], same == other) == (same, False)
    second.measure(**CHAT, seed=7, ordinal=2)
    second.measure(**CHAT, seed=8)
    assert len(set(hashes(second))) == 36


def test_a_shared_beginning_has_its_length_too():
    workload = LoadWorkload(**CHAT, output_len=8, num_requests=6, warmup_requests=2, prefix_len=30)
    texts = texts_of(workload, lambda text: 5 + len(text.split()))
    shared = {tuple(text.split()[:25]) for text in texts}
    assert (len(shared), len(set(texts)), {len(text.split()) for text in texts}) == (1, 8, {35})


def test_reasoning_is_output(simulate):
    for key in ("reasoning", "reasoning_content"):
        trial = simulate("--reasoning-key", key).measure(**CHAT, output_len=8).trial
        assert (trial.failed, len(trial.samples.itl)) == (0, 12 * 7)


@pytest.mark.parametrize("load", [{"concurrency": 2}, {"request_rate": 50.0}])
def test_chats_are_measured_in_a_closed_loop_and_in_an_open_one(simulate, load):
    metrics = simulate("--ttft", "0.1").measure(**CHAT, **load, slo=RequestSlo(ttft=0.2)).trial.metrics
    assert metrics["ttft_median"] == pytest.approx(0.1, rel=0.2)
    assert metrics["goodput"] == metrics["request_throughput"]


def test_recorded_prompts_are_the_messages_of_a_chat(simulate, tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"say {n}", "output_tokens": 3 + n}) + "\n" for n in range(12)))
    server = simulate()
    dataset = open_dataset(DatasetFormat.CUSTOM, file)
    trial = server.measure(api=ServingApi.CHAT, input_len=0, output_len=0, dataset=dataset).trial
    assert (trial.completed, trial.workload["mean_input_tokens"]) == (12, 2 + 5)
    assert {request["parameters"]["max_completion_tokens"] for request in server.requests} == set(range(3, 15))


def test_what_changes_the_template_is_counted_too(simulate):
    server = simulate()
    body = {"chat_template_kwargs": {"enable_thinking": False}, "top_p": 0.9}
    server.measure(**CHAT, extra_body=body)
    assert server.counted[0] == {"chat_template_kwargs": {"enable_thinking": False}}
    assert server.requests[0]["parameters"]["top_p"] == 0.9


@pytest.mark.parametrize(
    ("flags", "kind", "failed", "says"),
    [
        (("--error-burst", "3:4"), RequestFailureKind.STATUS, 4, "HTTP 503: EngineCore encountered an issue."),
        (("--garbage-every", "3"), RequestFailureKind.GARBAGE, 4, "no JSON"),
        (("--short-every", "6"), RequestFailureKind.WRONG_LENGTH, 2, "4 tokens where 8 were asked for"),
        (("--cut-every", "6"), RequestFailureKind.CUT, 2, "broke within the answer"),
        (("--disorder-every", "6"), RequestFailureKind.DISORDER, 2, "after the end"),
        (("--no-usage-every", "3"), RequestFailureKind.NO_USAGE, 4, "no token counts"),
        (("--hang-after", "10"), RequestFailureKind.TIMEOUT, 2, "0 chunks of 8 tokens had come"),
    ],
)
def test_a_faulty_answer_fails_its_request_and_no_other(simulate, flags, kind, failed, says):
    result = simulate(*flags).measure(**CHAT, concurrency=2, limits=SHORT_LIMIT)
    assert [(found.kind, found.count) for found in result.failures] == [(kind, failed)]
    assert says in result.failures[0].text


def test_chunks_are_counted_where_the_server_counts_no_tokens(simulate):
    result = simulate("--no-usage-every", "1").measure(**CHAT, output_len=8)
    assert (result.trial.completed, set(result.trial.samples.output_tokens)) == (12, {8})
    assert "chunks were counted" in result.notes[0]


def test_adapters_take_turns_in_chats(simulate):
    server = simulate("--lora-modules", "sql=a", "chat=b")
    trial = server.measure(**CHAT, lora_adapters=("sql", "chat", "tiny"), concurrency=1).trial
    assert trial.failed == 0
    assert [request["parameters"]["model"] for request in server.requests[:4]] == ["sql", "chat", "tiny", "sql"]


# What the server streams, chunk by chunk


def streamed(*deltas: dict[str, object], finish: int | None = None) -> ChatResponse:
    """Answers of one chunk a second."""
    answer = ChatResponse(8, exact=False)
    for second, delta in enumerate(deltas):
        choice = {"index": 0, "delta": delta, "finish_reason": "stop" if second == finish else None}
        answer.receive(200, b"data: " + orjson.dumps({"choices": [choice]}) + b"\n\n", float(second))
    answer.receive(200, b"data: [DONE]\n\n", float(len(deltas)))
    return answer


ROLE = {"role": "assistant", "content": ""}


@pytest.mark.parametrize(
    ("deltas", "tokens"),
    [
        ([ROLE, {"content": "a"}, {"content": "b"}], [1.0, 2.0]),
        ([{"role": "assistant", "content": "a"}, {"content": "b"}], [0.0, 1.0]),
        ([{"role": "assistant", "content": None}, {"reasoning": "a"}], [1.0]),
        ([ROLE, {"tool_calls": [{"index": 0}]}], [1.0]),
        ([ROLE, {"content": ""}, {"content": "é"}], [1.0, 2.0]),  # the first byte of a letter has no text
        ([ROLE, {"content": "a"}, {}], [1.0, 2.0]),  # the token that ends the answer has none either
    ],
)
def test_every_chunk_after_the_role_is_a_token(deltas, tokens):
    answer = streamed(*deltas, finish=len(deltas) - 1)
    assert (answer.chunks, answer.failure(200)) == (tokens, None)


def test_a_role_alone_is_no_answer():
    failure = streamed(ROLE).failure(200)
    assert failure is not None
    assert failure.kind is RequestFailureKind.WRONG_LENGTH


# Texts of a length


def texts_of(workload: LoadWorkload, count: Callable[[str], int] | Callable[[str], Awaitable[int]]) -> list[str]:
    """Without a server."""

    async def counting(text: str) -> int:
        counted = count(text)
        return counted if isinstance(counted, int) else await counted

    coroutine = make_chat_texts(workload, "c", 1, counting)
    return asyncio.run(coroutine)


@given(
    length=st.integers(30, 400),
    template=st.integers(0, 20),
    word=st.sampled_from([lambda _: 1, lambda w: 1 + (len(w) > 5), lambda w: 1 + len(w), lambda w: 2 + len(w) % 3]),
)
def test_a_text_of_every_length_is_found_for_every_tokenizer(length, template, word):
    def count(text: str) -> int:
        bare = text.rstrip(".")
        return template + sum(map(word, bare.split())) + len(text) - len(bare)

    workload = LoadWorkload(api=ServingApi.CHAT, input_len=length, output_len=1, num_requests=3)
    assert [count(text) for text in texts_of(workload, count)] == [length] * 3


def test_a_template_that_is_longer_than_the_prompt_is_refused(simulate):
    with pytest.raises(InputError, match="40 tokens is asked for, and with one word it has 51 in the chat template"):
        simulate("--template-tokens", "50").measure(**CHAT)


def test_a_length_that_no_text_has_is_an_error():
    workload = LoadWorkload(api=ServingApi.CHAT, input_len=41, output_len=1, num_requests=1)
    with pytest.raises(LoadError, match="no text of 41 tokens was found"):
        texts_of(workload, lambda text: 2 * (len(text.split()) + text.count(".")))


# Images


def bodies(workload: LoadWorkload, ordinal: int = 1) -> list[dict]:
    texts = [ChosenPrompt(f"say {n}", 8) for n in range(workload.num_requests + workload.warmup_requests)]
    made = make_pass_requests(workload, "c", ordinal, "tiny", texts)
    return [orjson.loads(request.body) for request in (*made.measured, *made.warmup)]


def urls(workload: LoadWorkload, ordinal: int = 1) -> list[str]:
    contents = [body["messages"][0]["content"] for body in bodies(workload, ordinal)]
    assert all(content[0]["type"] == "text" for content in contents)
    return [part["image_url"]["url"] for content in contents for part in content[1:]]


def pixels(url: str) -> tuple[int, int, bytes]:
    """Width, height and rows of a picture that has no filter but 0 and 2. The checksums are checked."""
    data = base64.b64decode(url.removeprefix("data:image/png;base64,"), validate=True)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size]) == (zlib.crc32(kind + content),)
        chunks[kind] = content
        at += 12 + size
    width, height, *form = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert form == [8, 2, 0, 0, 0]
    raw, rows = zlib.decompress(chunks[b"IDAT"]), []
    for number in range(height):
        kind, row = raw[number * (3 * width + 1)], raw[number * (3 * width + 1) + 1 : (number + 1) * (3 * width + 1)]
        above = rows[-1] if kind == 2 else bytes(len(row))
        rows.append(bytes((one + other) % 256 for one, other in zip(row, above, strict=True)))
    return width, height, b"".join(rows)


def with_images(**changes: object) -> LoadWorkload:
    return LoadWorkload(
        **{**CHAT, "output_len": 8, "num_requests": 3, "warmup_requests": 2, "images": SMALL, **changes}
    )


def test_every_request_has_its_own_images():
    two = with_images(images=Images(count=2, width=48, height=20))
    assert len(set(urls(two))) == len(urls(two)) == 10
    assert urls(two) == urls(two)
    assert not set(urls(two)) & set(urls(two, ordinal=2))
    assert not set(urls(two)) & set(urls(with_images(images=two.images, seed=1)))


def test_images_that_repeat_are_the_same_in_all_requests():
    repeated = with_images(images=Images(count=2, width=48, height=20, repeat=True))
    assert len(set(urls(repeated))) == 2
    assert set(urls(repeated)) == set(urls(repeated, ordinal=2))


@pytest.mark.parametrize("size", [(16, 16), (48, 20), (17, 33), (100, 16)])
def test_an_image_has_its_size_and_squares_of_one_colour(size):
    width, height = size
    got_width, got_height, rows = pixels(urls(with_images(images=Images(width=width, height=height)))[0])
    assert (got_width, got_height, len(rows)) == (width, height, 3 * width * height)
    for y in range(height):
        for x in range(width):
            corner = 3 * ((y - y % 16) * width + x - x % 16)
            assert rows[3 * (y * width + x) : 3 * (y * width + x) + 3] == rows[corner : corner + 3]


def test_a_million_pixels_take_little_memory():
    (url,) = urls(with_images(images=Images(width=1024, height=1024), num_requests=1, warmup_requests=0))
    assert len(url) < 50_000


def test_images_are_counted_by_the_server_and_that_is_no_surprise(simulate):
    server = simulate("--image-tokens", "100")
    result = server.measure(**CHAT, images=Images(count=2, width=32, height=32))
    assert (result.trial.completed, result.notes) == (12, ())
    assert result.trial.workload["mean_input_tokens"] == 40 + 200
    assert result.trial.workload["images"] == {"count": 2, "width": 32, "height": 32, "repeat": False}


def test_a_model_without_eyes_refuses_images(simulate):
    result = simulate("--refuse-images").measure(**CHAT, images=SMALL)
    assert result.failures[0].text == "HTTP 400: tiny is not a multimodal model"
    assert result.trial.failed == 12


def suite_of(**workload: object) -> Suite:
    given = {"api": "chat", "input_len": 64, "output_len": 8, "num_requests": 400, **workload}
    return Suite.model_validate(
        {
            "name": "s",
            "version": 1,
            "description": "d",
            "scenarios": [{"name": "c", "server": {"model": "m"}, "workload": given}],
        }
    )


def test_more_pixels_than_can_be_kept_are_refused_before_a_server_starts():
    images = {"count": 8, "width": 2048, "height": 2048}
    with pytest.raises(InputError, match="pixels, more than"):
        load_workloads(suite_of(images=images))
    ((_, kept),) = load_workloads(suite_of(images={**images, "repeat": True}))
    assert kept.images == Images(**images, repeat=True)
    assert MAX_PIXELS < 400 * 8 * 2048 * 2048


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ({"api": "completions", "images": {"width": 64, "height": 64}}, "completions has no images"),
        ({"images": {"width": 8, "height": 64}}, "images.width"),
        ({"images": {"width": 64}}, "images.height"),
        ({"extra_body": {"messages": []}}, "extra_body has messages"),
        ({"trace": {"file": "t.jsonl"}}, "chat has no trace"),
        ({"output_len": 8, "documents": 2}, "chat has no documents"),
    ],
)
def test_what_a_chat_cannot_be_is_refused(workload, says):
    with pytest.raises(ValueError, match=says):
        suite_of(**workload)
