"""The fake server's whole answers have the shape of real ones, and its tokens depend on the prompt alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fake_vllm.completion import answer, check
from tests.fake_vllm.options import parse

REAL: dict[str, Any] = json.loads(Path(__file__).with_name("real_completions.json").read_text(encoding="utf-8"))
"""What vLLM 0.19.1 (CPU) answered to these requests, with a model of random weights."""
REQUESTS: dict[str, dict[str, Any]] = {
    "asids": {
        "prompt": [11, 12, 13],
        "max_tokens": 2,
        "logprobs": 1,
        "return_tokens_as_token_ids": True,
        "echo": True,
    },
    "ids": {"prompt": [11, 12, 13], "max_tokens": 2, "logprobs": 1, "return_token_ids": True},
    "two": {"prompt": [[11, 12], [13]], "max_tokens": 1, "logprobs": 0},
    "echo0": {"prompt": [11, 12, 13], "max_tokens": 0, "logprobs": 1, "echo": True},
}
PROMPTS = [[number, 7, 8, 9] for number in range(200)]


def ask(request: dict[str, Any], *flags: str) -> dict[str, Any]:
    return answer(parse(list(flags)), 1, request, request["max_tokens"])


def shape(value: Any, key: str = "") -> Any:
    """The value with types for contents; a table by token has no shape but its size."""
    if isinstance(value, dict):
        by_token = key in ("top_logprobs", "prompt_logprobs")
        shapes = [shape(each) for each in value.values()]
        return (len(shapes), shapes[:1]) if by_token else {name: shape(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each, key) for each in value]
    return type(value).__name__


@pytest.mark.parametrize("name", REQUESTS)
def test_answers_have_the_shape_of_real_ones(name: str) -> None:
    told, real = ask(REQUESTS[name], "--served-model-name=tiny"), REAL[name]
    assert told["usage"] == real["usage"]
    assert shape(told) == shape(real)


def test_what_a_prompt_gives_does_not_depend_on_how_it_is_given() -> None:
    by_ids = ask({"prompt": [5, 6], "max_tokens": 4, "logprobs": 1})
    assert ask({"prompt": "t5 t6", "max_tokens": 4, "logprobs": 1}) == by_ids
    assert ask({"prompt": "t5 t6", "max_tokens": 4, "logprobs": 1}, "--seed=9", "--vllm-version=0.32.0") == by_ids
    assert ask({"prompt": "t5 t7", "max_tokens": 4, "logprobs": 1}) != by_ids


def test_a_token_has_the_same_logprob_whether_made_or_read() -> None:
    made = ask({"prompt": [5, 6], "max_tokens": 3, "logprobs": 1, "return_token_ids": True})["choices"][0]
    prompt = [5, 6, *made["token_ids"]]
    read = ask({"prompt": prompt, "max_tokens": 0, "logprobs": 1, "echo": True})["choices"][0]
    assert read["logprobs"]["token_logprobs"][2:] == made["logprobs"]["token_logprobs"]
    assert read["text"] == " t5 t6" + made["text"]


def tokens(*flags: str) -> list[list[int]]:
    request = {"prompt": PROMPTS, "max_tokens": 8, "return_token_ids": True}
    return [choice["token_ids"] for choice in ask(request, *flags)["choices"]]


def test_noise_changes_that_share_of_the_prompts() -> None:
    plain, noisy, other = tokens(), tokens("--output-noise=0.2"), tokens("--output-noise=0.2", "--seed=1")
    changed = [number for number, pair in enumerate(zip(plain, noisy, strict=True)) if pair[0] != pair[1]]
    assert 20 < len(changed) < 60
    assert other not in (plain, noisy)
    assert tokens("--output-noise=0.2") == noisy


def test_drift_lowers_logprobs_by_that_much_and_leaves_the_tokens() -> None:
    def of_first(*flags: str) -> list[float]:
        request = {"prompt": PROMPTS, "max_tokens": 1, "logprobs": 0}
        return [choice["logprobs"]["token_logprobs"][0] for choice in ask(request, *flags)["choices"]]

    lower = [after - before for before, after in zip(of_first(), of_first("--logprob-drift=0.1"), strict=True)]
    assert sum(lower) / len(lower) == pytest.approx(-0.1, abs=0.02)
    assert tokens("--logprob-drift=0.1") == tokens()


def test_requests_that_vllm_refuses_are_refused() -> None:
    assert check({"prompt": "a", "logprobs": 50}) is not None
    assert check({"prompt": []}) is not None
    assert check({"prompt": "a", "logprobs": 20}) is None
