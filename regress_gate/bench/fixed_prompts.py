"""The fixed prompts whose answers are compared between versions, and the collection of a server's answers.

There are two kinds. Text is what models are trained on: its next tokens are clear, so that an answer changes for a
reason. Token ids come from a generator, bypass the tokenizer and can be long, so that attention covers many blocks of
the cache; they are noise to a trained model, and its answers to them change more easily. Any change of the prompts
needs a new version of the set: answers to different sets are not compared.

Prompts are sent greedily and one at a time, because the rest of a batch changes kernels and the order of sums, and
after the trials, because log-probabilities of prompts need memory that a deployment does not. A server's response may
contain anything and is read accordingly. Not for timing, and not for judging answers.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256, shake_256
from typing import Any

import httpx

from regress_gate.bench.load.load_workload import FIRST_TOKEN, LAST_TOKEN
from regress_gate.model.run import Answer, Outputs

PROMPT_SET_NAME, PROMPT_SET_VERSION = "sanity", "1"
PROMPT_SET = f"{PROMPT_SET_NAME}@{PROMPT_SET_VERSION}"
ANSWER_TOKENS = 32


@dataclass(frozen=True, slots=True)
class SanityPrompt:
    name: str
    content: str | list[int]
    """Text, or token ids."""


# Written for this set. The first is short, because it finds out which requests the server accepts.
TEXTS = {
    "capital": "The capital of France is",
    "story": "Once upon a time, in a village between the mountains and the sea, there lived a clockmaker who",
    "sum": "Question: A box holds 12 pencils. How many pencils do 7 boxes hold?\nAnswer:",
    "python": 'def fibonacci(n: int) -> int:\n    """Return the n-th Fibonacci number."""\n',
    "sql": "-- The five customers who ordered most in 2024\nSELECT customer_id, COUNT(*) AS orders FROM",
    "json": '{"planets": [{"name": "Mercury", "moons": 0}, {"name": "Venus", "moons": 0}, {"name": "Earth", "moons":',
    "list": "The months of the year in order:\n1. January\n2. February\n3. March\n4.",
    "german": "Übersetze ins Englische. Deutsch: Der Zug nach München fährt heute zehn Minuten später ab. Englisch:",
    "chinese": "问题：水在标准大气压下多少摄氏度沸腾？\n回答：",
    "science": "Plants look green because the pigment in their leaves absorbs red and blue light and",
    "copy": "Repeat: alpha bravo charlie delta echo foxtrot. Repeat: alpha bravo charlie delta echo foxtrot. Repeat:",
    "summary": (
        "The committee met on Tuesday to decide on the new bridge. The engineers explained that the old one, built in "
        "1931, could carry lorries of twelve tonnes at most, and that every repair of the last ten years had cost more "
        "than the one before. The shopkeepers of the left bank feared two summers without visitors. The mayor proposed "
        "to build the new bridge beside the old one and to close the road for three weeks only, in November. After "
        "four hours the proposal was accepted with nine votes against two.\n\nIn one sentence, what was decided?"
    ),
}
ID_LENGTHS = (32, 64, 128, 256)
"""Tokens. With the answer they fit a context of 512 tokens."""


def sanity_prompts() -> list[SanityPrompt]:
    """The prompts of the set, always in this order."""
    return [
        *(SanityPrompt(name, text) for name, text in TEXTS.items()),
        *(SanityPrompt(f"ids-{length}", _random_ids(length)) for length in ID_LENGTHS),
    ]


def _random_ids(length: int) -> list[int]:
    """Ids within every vocabulary above 10,000 tokens. They come from a hash, so that they never change."""
    stream = shake_256(f"{PROMPT_SET}/{length}".encode()).digest(4 * length)
    numbers = (int.from_bytes(stream[at : at + 4], "little") for at in range(0, len(stream), 4))
    return [FIRST_TOKEN + number % (LAST_TOKEN - FIRST_TOKEN + 1) for number in numbers]


MAX_ANSWER_TOKENS = 1024
"""An answer with more tokens is refused."""
LOGPROB_DECIMALS = 5
"""Decimals of stored log-probabilities: far more precise than needed, and half the text."""
MAX_TOKEN_NAME = 64
"""Characters of a token's name; longer names end in a hash."""
_TOKEN_ID_PREFIX = "token_id:"  # noqa: S105 - no secret: how vLLM names a token by its id
"""vLLM's prefix of tokens that are named by their id."""


class UnreadableAnswerError(ValueError):
    """The body is not a completion; the text says why."""


def read_answer(prompt: str, body: bytes) -> Answer:
    """The answer in the body of a completion. Raises UnreadableAnswerError for other bodies."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise UnreadableAnswerError("the answer is not JSON") from None
    choice = _first(_mapping(document).get("choices"))
    logprobs = _mapping(choice.get("logprobs"))
    tokens = _token_names(logprobs.get("tokens")) or _token_names(choice.get("token_ids"))
    if not tokens:
        raise UnreadableAnswerError("the answer names no tokens")
    if len(tokens) > MAX_ANSWER_TOKENS:
        raise UnreadableAnswerError(
            f"the answer has {len(tokens)} tokens, where {MAX_ANSWER_TOKENS} are the most accepted"
        )
    prompt_tokens, prompt_logprobs = _read_prompt_logprobs(choice.get("prompt_logprobs"))
    chosen = tuple(_finite_number(value) for value in _items(logprobs.get("token_logprobs")))
    alternatives = tuple(_read_top_logprobs(each) for each in _items(logprobs.get("top_logprobs")))
    return Answer(
        prompt,
        tokens,
        # Log-probabilities that cannot be matched to tokens are left out.
        chosen if len(chosen) == len(tokens) else (),
        prompt_logprobs,
        prompt_tokens,
        alternatives if len(alternatives) == len(tokens) else (),
    )


def read_error(body: bytes) -> str:
    """The server's error message, in one line."""
    text = body.decode("utf-8", "replace")
    try:
        document = _mapping(json.loads(body))
    except (ValueError, RecursionError):
        document = {}
    error = document.get("error")
    message = error.get("message") if isinstance(error, dict) else document.get("message")
    if isinstance(message, str):
        text = message
    return " ".join(_storable_text(text).split())[:200]


def _read_prompt_logprobs(value: Any) -> tuple[tuple[str, ...], tuple[float | None, ...]]:
    """Names and log-probabilities of the prompt's tokens except the first, which has none."""
    tokens, logprobs = [], []
    for entry in _items(value)[1:]:
        # The prompt's own token is the first entry; alternatives may follow.
        name, alternative = next(iter(_mapping(entry).items()), ("", None))
        tokens.append(_token_name(name))
        logprobs.append(_finite_number(_mapping(alternative).get("logprob")))
    return tuple(tokens), tuple(logprobs)


def _read_top_logprobs(value: Any) -> dict[str, float]:
    logprobs = ((_token_name(token), _finite_number(logprob)) for token, logprob in _mapping(value).items())
    return {token: logprob for token, logprob in logprobs if logprob is not None}


def _token_names(value: Any) -> tuple[str, ...]:
    return tuple(_token_name(token) for token in _items(value))


def _token_name(token: object) -> str:
    """A name that every database can store."""
    name = _storable_text(str(token).removeprefix(_TOKEN_ID_PREFIX))
    return name if len(name) <= MAX_TOKEN_NAME else f"{name[:MAX_TOKEN_NAME]}… {sha256(name.encode()).hexdigest()[:16]}"


def _storable_text(text: str) -> str:
    """Without lone surrogates and NUL, which some databases refuse."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _finite_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return round(number, LOGPROB_DECIMALS) if math.isfinite(number) else None


def _first(value: Any) -> Mapping[str, Any]:
    items = _items(value)
    return _mapping(items[0]) if items else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


ANSWER_TIMEOUT = 120.0
"""Seconds for one answer. The first with log-probabilities took 13 s on two CPU cores, to compile kernels."""
MAX_ANSWER_BYTES = 2**20
"""Bytes of one response; vLLM's have about 30,000."""
TOP_LOGPROBS = 5
"""Likeliest tokens requested for each token of an answer; vLLM's default limit is 20."""

PromptProgress = Callable[[int, int], None]
"""Called with the finished and all prompts."""

_REQUEST_FORMS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("", {"logprobs": TOP_LOGPROBS, "prompt_logprobs": 0, "return_tokens_as_token_ids": True}),
    (
        "the server gives no log-probabilities of prompts",
        {"logprobs": TOP_LOGPROBS, "return_tokens_as_token_ids": True},
    ),
    ("the server gives no log-probabilities", {"return_token_ids": True}),
)
"""Additional parameters of a request, the most detailed first, with a note for the less detailed forms."""
_REFUSAL_STATUSES = (400, 404, 405, 422, 501)


@dataclass(frozen=True, slots=True)
class CollectedOutputs:
    outputs: Outputs | None
    """None if the server refuses such requests."""
    notes: tuple[str, ...]


class _NoAnswerError(Exception):
    """The text says why. `refused`: the server refuses this form of request; `lost`: it may be gone."""

    def __init__(self, text: str, *, refused: bool = False, lost: bool = False) -> None:
        super().__init__(text)
        self.refused, self.lost = refused, lost


def collect_outputs(
    url: str, model: str, *, timeout: float = ANSWER_TIMEOUT, progress: PromptProgress | None = None
) -> CollectedOutputs:
    """The answers of `model` to the fixed prompts, from an otherwise idle server. Never raises for a server's failure.

    A prompt without an answer is kept with its error: a version that fails where another answers has changed. After a
    timeout or a broken connection the remaining prompts are not sent.
    """
    prompts = sanity_prompts()
    with httpx.Client(base_url=url, timeout=timeout, trust_env=False) as client:
        asking = _PromptClient(client, model, timeout)
        try:
            way, first = _find_request_form(asking, prompts[0])
        except _NoAnswerError as error:
            return CollectedOutputs(None, (f"the answers to {PROMPT_SET} were not collected: {error}",))
        answers, lost = [first], ""
        for number, prompt in enumerate(prompts[1:], 1):
            if progress is not None:
                progress(number, len(prompts))
            if lost:
                answers.append(_failed_answer(prompt, f"not asked, because before: {lost}"))
                continue
            try:
                answers.append(asking.ask(prompt, way))
            except _NoAnswerError as error:
                answers.append(_failed_answer(prompt, str(error)))
                lost = str(error) if error.lost else ""
    if progress is not None:
        progress(len(prompts), len(prompts))
    return CollectedOutputs(Outputs(PROMPT_SET, tuple(answers)), tuple(_notes(way, answers)))


class _PromptClient:
    def __init__(self, client: httpx.Client, model: str, timeout: float) -> None:
        self._client, self._model, self._timeout = client, model, timeout

    def ask(self, prompt: SanityPrompt, way: int) -> Answer:
        """Raises _NoAnswerError."""
        body = {
            "model": self._model,
            "prompt": prompt.content,
            "max_tokens": ANSWER_TOKENS,
            "ignore_eos": True,
            "temperature": 0,
            "seed": 0,
            **_REQUEST_FORMS[way][1],
        }
        try:
            status, content = self._post(body)
        except httpx.TimeoutException:
            raise _NoAnswerError(f"no answer within {self._timeout:g} s", lost=True) from None
        except httpx.HTTPError as error:
            raise _NoAnswerError(f"the connection failed ({error or type(error).__name__})", lost=True) from None
        if status != httpx.codes.OK:
            message = read_error(content)
            raise _NoAnswerError(
                f"HTTP {status}" + (f": {message}" if message else ""), refused=status in _REFUSAL_STATUSES
            )
        try:
            return read_answer(prompt.name, content)
        except UnreadableAnswerError as error:
            raise _NoAnswerError(str(error)) from None

    def _post(self, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """Status and body. Read in pieces, to stop at a huge or a very slow response."""
        deadline = time.monotonic() + self._timeout
        content = bytearray()
        with self._client.stream("POST", "/v1/completions", json=body) as answer:
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > MAX_ANSWER_BYTES:
                    raise _NoAnswerError(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise _NoAnswerError(f"no whole answer within {self._timeout:g} s", lost=True)
        return answer.status_code, bytes(content)


def _find_request_form(asking: _PromptClient, prompt: SanityPrompt) -> tuple[int, Answer]:
    """The most detailed form of request that the server accepts, and the first answer.

    Raises _NoAnswerError if it accepts none or does not answer.
    """
    for way in range(len(_REQUEST_FORMS)):
        try:
            return way, asking.ask(prompt, way)
        except _NoAnswerError as error:
            if error.lost or (error.refused and way == len(_REQUEST_FORMS) - 1):
                raise
            if not error.refused:  # a failure, which says nothing about the form of the request
                return way, _failed_answer(prompt, str(error))
    raise AssertionError("unreachable")


def _failed_answer(prompt: SanityPrompt, why: str) -> Answer:
    return Answer(prompt.name, (), (), error=why)


def _notes(way: int, answers: list[Answer]) -> list[str]:
    notes = [_REQUEST_FORMS[way][0]] if way else []
    answered = [answer for answer in answers if answer.error is None]
    failed = [answer for answer in answers if answer.error is not None]
    if failed:
        count = f"{len(failed)} of {len(answers)} prompts were not answered"
        notes.append(f"{count}; the first, {failed[0].prompt}: {failed[0].error}")
    # Requested and not refused, but missing.
    if not way and answered and not any(answer.prompt_logprobs for answer in answered):
        notes.append(_REQUEST_FORMS[1][0])
    return notes
