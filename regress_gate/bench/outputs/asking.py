"""Asks the prompts, one at a time, greedily. Not for judging the answers, and not while anything is timed.

One at a time, because what else is in the batch changes which kernels run and in which order they add up; and after
the trials, because log-probabilities of prompts cost memory that a deployment never needs.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from regress_gate.bench.outputs.prompts import ANSWER_TOKENS, PROMPT_SET, Prompt, sanity_prompts
from regress_gate.bench.outputs.reading import UnreadableAnswerError, read_answer, read_error
from regress_gate.model.outputs import Answer, Outputs

TIMEOUT = 120.0
"""Seconds for one answer: the first with log-probabilities took 13 s on two CPU cores, where kernels are compiled."""
MAX_BODY = 2**20
"""Bytes of one answer; those of vLLM have some 30,000."""
ALTERNATIVES = 5
"""Likeliest tokens asked for with each token of an answer; vLLM gives up to 20 unless it is told otherwise."""

Progress = Callable[[int, int], None]
"""Called with the prompts that were asked and how many there are."""

_WAYS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("", {"logprobs": ALTERNATIVES, "prompt_logprobs": 0, "return_tokens_as_token_ids": True}),
    (
        "the server gives no log-probabilities of prompts",
        {"logprobs": ALTERNATIVES, "return_tokens_as_token_ids": True},
    ),
    ("the server gives no log-probabilities", {"return_token_ids": True}),
)
"""What is asked for besides the answer, the most first, and what a reader has to know of the lesser ways."""
_REFUSED = (400, 404, 405, 422, 501)


@dataclass(frozen=True, slots=True)
class CollectedOutputs:
    outputs: Outputs | None
    """None when the server answers no such request, so that nothing can be said of its answers."""
    notes: tuple[str, ...]


class _NoAnswerError(Exception):
    """The text says what came instead. `refused`: the server does not take such requests; `lost`: it may be gone."""

    def __init__(self, text: str, *, refused: bool = False, lost: bool = False) -> None:
        super().__init__(text)
        self.refused, self.lost = refused, lost


def collect_outputs(
    url: str, model: str, *, timeout: float = TIMEOUT, progress: Progress | None = None
) -> CollectedOutputs:
    """What `model` answers to the fixed prompts, on a server that is idle otherwise. Never raises for what it does.

    A prompt that is not answered is kept with its error: a version that fails where another answers has changed.
    Once an answer stays away for `timeout` seconds or the connection breaks, the prompts that are left are not asked.
    """
    prompts = sanity_prompts()
    with httpx.Client(base_url=url, timeout=timeout, trust_env=False) as client:
        asking = _Asking(client, model, timeout)
        try:
            way, first = _find_way(asking, prompts[0])
        except _NoAnswerError as error:
            return CollectedOutputs(None, (f"the answers to {PROMPT_SET} were not collected: {error}",))
        answers, lost = [first], ""
        for number, prompt in enumerate(prompts[1:], 1):
            if progress is not None:
                progress(number, len(prompts))
            if lost:
                answers.append(_unanswered(prompt, f"not asked, because before: {lost}"))
                continue
            try:
                answers.append(asking.ask(prompt, way))
            except _NoAnswerError as error:
                answers.append(_unanswered(prompt, str(error)))
                lost = str(error) if error.lost else ""
    if progress is not None:
        progress(len(prompts), len(prompts))
    return CollectedOutputs(Outputs(PROMPT_SET, tuple(answers)), tuple(_notes(way, answers)))


class _Asking:
    def __init__(self, client: httpx.Client, model: str, timeout: float) -> None:
        self._client, self._model, self._timeout = client, model, timeout

    def ask(self, prompt: Prompt, way: int) -> Answer:
        """Raises _NoAnswerError."""
        body = {
            "model": self._model,
            "prompt": prompt.content,
            "max_tokens": ANSWER_TOKENS,
            "ignore_eos": True,
            "temperature": 0,
            "seed": 0,
            **_WAYS[way][1],
        }
        try:
            status, content = self._post(body)
        except httpx.TimeoutException:
            raise _NoAnswerError(f"no answer within {self._timeout:g} s", lost=True) from None
        except httpx.HTTPError as error:
            raise _NoAnswerError(f"the connection failed ({error or type(error).__name__})", lost=True) from None
        if status != httpx.codes.OK:
            said = read_error(content)
            raise _NoAnswerError(f"HTTP {status}" + (f": {said}" if said else ""), refused=status in _REFUSED)
        try:
            return read_answer(prompt.name, content)
        except UnreadableAnswerError as error:
            raise _NoAnswerError(str(error)) from None

    def _post(self, body: Mapping[str, Any]) -> tuple[int, bytes]:
        """Status and body. Read in pieces, so that neither a huge answer nor a trickle of bytes holds us up."""
        deadline = time.monotonic() + self._timeout
        content = bytearray()
        with self._client.stream("POST", "/v1/completions", json=body) as answer:
            for piece in answer.iter_bytes():
                content += piece
                if len(content) > MAX_BODY:
                    raise _NoAnswerError(f"the answer is larger than {MAX_BODY} bytes")
                if time.monotonic() > deadline:
                    raise _NoAnswerError(f"no whole answer within {self._timeout:g} s", lost=True)
        return answer.status_code, bytes(content)


def _find_way(asking: _Asking, prompt: Prompt) -> tuple[int, Answer]:
    """The fullest way of asking that the server takes, and the first answer.

    Raises _NoAnswerError when it takes none, or is not there.
    """
    for way in range(len(_WAYS)):
        try:
            return way, asking.ask(prompt, way)
        except _NoAnswerError as error:
            if error.lost or (error.refused and way == len(_WAYS) - 1):
                raise
            if not error.refused:  # a failure, and no word on the way of asking
                return way, _unanswered(prompt, str(error))
    raise AssertionError("unreachable")


def _unanswered(prompt: Prompt, why: str) -> Answer:
    return Answer(prompt.name, (), (), error=why)


def _notes(way: int, answers: list[Answer]) -> list[str]:
    notes = [_WAYS[way][0]] if way else []
    answered = [answer for answer in answers if answer.error is None]
    failed = [answer for answer in answers if answer.error is not None]
    if failed:
        count = f"{len(failed)} of {len(answers)} prompts were not answered"
        notes.append(f"{count}; the first, {failed[0].prompt}: {failed[0].error}")
    # Asked for, not refused, and not given.
    if not way and answered and not any(answer.prompt_logprobs for answer in answered):
        notes.append(_WAYS[1][0])
    return notes
