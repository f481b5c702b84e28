"""From the body of a completion to an answer. It comes from a program under test: anything may stand in it."""

import json
import math
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from regress_gate.model.outputs import Answer

MAX_TOKENS = 1024
"""More tokens than this are no answer to what was asked."""
DECIMALS = 5
"""Log-probabilities are kept to this many: far below what is judged, and half the text."""
MAX_NAME = 64
"""Characters of a token's name; longer ones are told apart by a hash."""
_ID = "token_id:"
"""What vLLM writes before an id where tokens are to be named by it."""


class UnreadableAnswerError(ValueError):
    """The body is no completion; the text says why."""


def read_answer(prompt: str, body: bytes) -> Answer:
    """The answer in the body of a completion. Raises UnreadableAnswerError for anything that is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise UnreadableAnswerError("the answer is not JSON") from None
    choice = _first(_mapping(document).get("choices"))
    logprobs = _mapping(choice.get("logprobs"))
    tokens = _names(logprobs.get("tokens")) or _names(choice.get("token_ids"))
    if not tokens:
        raise UnreadableAnswerError("the answer names no tokens")
    if len(tokens) > MAX_TOKENS:
        raise UnreadableAnswerError(f"the answer has {len(tokens)} tokens, where {MAX_TOKENS} are the most accepted")
    prompt_tokens, prompt_logprobs = _prompt(choice.get("prompt_logprobs"))
    chosen = tuple(_number(value) for value in _items(logprobs.get("token_logprobs")))
    alternatives = tuple(_alternatives(each) for each in _items(logprobs.get("top_logprobs")))
    return Answer(
        prompt,
        tokens,
        # Numbers that cannot be told which token they belong to are none.
        chosen if len(chosen) == len(tokens) else (),
        prompt_logprobs,
        prompt_tokens,
        alternatives if len(alternatives) == len(tokens) else (),
    )


def read_error(body: bytes) -> str:
    """What the server says of a request that it did not answer, in one line."""
    text = body.decode("utf-8", "replace")
    try:
        document = _mapping(json.loads(body))
    except (ValueError, RecursionError):
        document = {}
    error = document.get("error")
    message = error.get("message") if isinstance(error, dict) else document.get("message")
    if isinstance(message, str):
        text = message
    return " ".join(_plain(text).split())[:200]


def _prompt(value: Any) -> tuple[tuple[str, ...], tuple[float | None, ...]]:
    """Names and log-probabilities of the prompt's tokens but the first, which nothing comes before."""
    tokens, logprobs = [], []
    for entry in _items(value)[1:]:
        # The prompt's own token comes first; where others were asked for, they follow.
        name, found = next(iter(_mapping(entry).items()), ("", None))
        tokens.append(_name(name))
        logprobs.append(_number(_mapping(found).get("logprob")))
    return tuple(tokens), tuple(logprobs)


def _alternatives(value: Any) -> dict[str, float]:
    found = ((_name(token), _number(logprob)) for token, logprob in _mapping(value).items())
    return {token: logprob for token, logprob in found if logprob is not None}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(_name(token) for token in _items(value))


def _name(token: object) -> str:
    """As a name that every store can keep."""
    name = _plain(str(token).removeprefix(_ID))
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}… {sha256(name.encode()).hexdigest()[:16]}"


def _plain(text: str) -> str:
    """Without what is no Unicode or ends a text in some databases."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return round(number, DECIMALS) if math.isfinite(number) else None


def _first(value: Any) -> Mapping[str, Any]:
    items = _items(value)
    return _mapping(items[0]) if items else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
