"""Answers of the fake server that are not streamed: tokens and logprobs depend on the prompt alone.

Unless flags change them: `--output-noise` changes the tokens of a share of the prompts, `--logprob-drift` all logprobs.
Both differ from start to start when `--starts` is used, as results of a version that is not deterministic do.
Field by field as vLLM 0.19.1 answers; the meaning of a token is only its number: the text of 17 is " t17".
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fake_vllm.options import Options

VOCABULARY = 16384
MAX_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class Token:
    number: int
    top: tuple[tuple[int, float], ...] | None
    """The token itself with its logprob, then the likeliest others; None for the first of a prompt."""


def prompts_of(body: dict[str, Any]) -> list[list[int]]:
    """The prompts of a request as token ids: it has one or several, as text or as ids."""
    given = body["prompt"]
    many = isinstance(given, list) and not all(isinstance(part, int) for part in given)
    return [_ids(prompt) for prompt in (given if many else [given])]


def check(body: dict[str, Any]) -> str | None:
    """Why vLLM would refuse a request with status 400."""
    if (body.get("logprobs") or 0) > MAX_LOGPROBS:
        return f"Requested sample logprobs of {body['logprobs']}, which is greater than max allowed: {MAX_LOGPROBS}"
    if not all(prompts_of(body)):
        return "Either prompt or prompt_embeds must be provided and non-empty."
    return None


def answer(options: Options, number: int, body: dict[str, Any], asked: int) -> dict[str, Any]:
    """`asked` tokens for each prompt of a request."""
    prompts = prompts_of(body)
    made = len(prompts) * max(1, asked)  # vLLM makes one also when none is asked for
    read = sum(map(len, prompts))
    return {
        "id": f"cmpl-{number:016x}",
        "object": "text_completion",
        "created": 0,
        "model": options.served_model_name,
        "choices": [_choice(options, index, prompt, body, asked) for index, prompt in enumerate(prompts)],
        "service_tier": None,
        "system_fingerprint": None,
        "usage": {
            "prompt_tokens": read,
            "total_tokens": read + made,
            "completion_tokens": made,
            "prompt_tokens_details": None,
        },
        "kv_transfer_params": None,
    }


def _choice(options: Options, index: int, prompt: list[int], body: dict[str, Any], asked: int) -> dict[str, Any]:
    made = list(_generate(options, prompt, asked))
    read = list(_judge(options, prompt))
    echo = bool(body.get("echo"))
    shown = [*read, *made] if echo else made
    as_ids = bool(body.get("return_tokens_as_token_ids"))
    with_ids = bool(body.get("return_token_ids"))
    count = body.get("logprobs")
    asked_of_prompt = body.get("prompt_logprobs")
    of_prompt = count if asked_of_prompt is None and echo else asked_of_prompt
    return {
        "index": index,
        "text": "".join(text_of(token.number) for token in shown),
        "logprobs": None if count is None else _logprobs(shown, count, as_ids=as_ids),
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": [token.number for token in made] if with_ids else None,
        "prompt_logprobs": None if of_prompt is None else [_ranked(token, of_prompt) for token in read],
        "prompt_token_ids": prompt if with_ids else None,
    }


def _logprobs(tokens: list[Token], count: int, *, as_ids: bool) -> dict[str, Any]:
    def name(number: int) -> str:
        return f"token_id:{number}" if as_ids else text_of(number)

    names = [name(token.number) for token in tokens]
    return {
        "text_offset": [sum(map(len, names[:position])) for position in range(len(names))],
        "token_logprobs": [token.top[0][1] if token.top else None for token in tokens],
        "tokens": names,
        "top_logprobs": [
            {name(number): value for number, value in _top_tokens(token.top, count)} if token.top else None
            for token in tokens
        ],
    }


def _ranked(token: Token, count: int) -> dict[str, Any] | None:
    if token.top is None:
        return None
    by_value = sorted((value for _, value in token.top), reverse=True)
    return {
        str(number): {"logprob": value, "rank": by_value.index(value) + 1, "decoded_token": text_of(number)}
        for number, value in _top_tokens(token.top, count)
    }


def _top_tokens(top: tuple[tuple[int, float], ...], count: int) -> list[tuple[int, float]]:
    """The token itself always, and as many of the likeliest as were asked for, which it may be one of."""
    likeliest = sorted(top, key=lambda pair: -pair[1])[:count]
    return [top[0], *(pair for pair in likeliest if pair != top[0])]


def _generate(options: Options, prompt: list[int], asked: int) -> Iterator[Token]:
    """The likeliest token after the prompt, then after that, and so on."""
    seen = _digest(prompt)
    noise = _share(f"noise {options.seed}", seen) < options.output_noise
    differs_from = int(_share(f"from {options.seed}", seen) * asked) if noise else asked
    for position in range(asked):
        candidates = _candidates(options, seen)
        if position == differs_from:
            candidates[0], candidates[1] = (candidates[1][0], candidates[0][1]), (candidates[0][0], candidates[1][1])
        yield Token(candidates[0][0], tuple(candidates))
        seen = _digest([candidates[0][0]], seen)


def _judge(options: Options, prompt: list[int]) -> Iterator[Token]:
    """The tokens of a prompt with the logprobs that they have after what stands before them."""
    seen = b""
    for position, number in enumerate(prompt):
        if position == 0:
            yield Token(number, None)
        else:
            candidates = _candidates(options, seen)
            known = dict(candidates)
            own = known.pop(number, candidates[-1][1] - 1.0 - 8.0 * _share("own", seen + number.to_bytes(4)))
            yield Token(number, ((number, own), *known.items()))
        seen = _digest([number], seen)


def _candidates(options: Options, seen: bytes) -> list[tuple[int, float]]:
    """The likeliest next tokens, the likeliest first; more than can be asked for."""
    drift = -2 * options.logprob_drift * _share(f"drift {options.seed}", seen) if options.logprob_drift else 0.0
    first = -0.05 - 2.0 * _share("first", seen) + drift
    start = int.from_bytes(hashlib.sha256(b"token" + seen).digest()[:4])
    return [((start + 97 * rank) % VOCABULARY, first - 0.7 * rank) for rank in range(MAX_LOGPROBS + 1)]


def text_of(number: int) -> str:
    return f" t{number}"


def _ids(prompt: str | list[int]) -> list[int]:
    """A word is a token; those that we have written come back as the same."""
    if isinstance(prompt, list):
        return prompt
    return [
        int(word[1:])
        if re.fullmatch(r"t\d{1,6}", word)
        else int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % VOCABULARY
        for word in prompt.split()
    ]


def _digest(numbers: list[int], before: bytes = b"") -> bytes:
    for number in numbers:
        before = hashlib.sha256(before + number.to_bytes(8, signed=True)).digest()
    return before


def _share(what: str, seen: bytes) -> float:
    """A number in [0, 1) that is always the same for the same."""
    return int.from_bytes(hashlib.sha256(what.encode() + seen).digest()[:6]) / 2**48
