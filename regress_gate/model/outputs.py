"""Greedy answers of a server to a fixed set of prompts: evidence of whether an upgrade changed the output.

Not for judging answers: the gate compares those of two versions.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one prompt. All tuples have one item per token, in order."""

    prompt: str
    """Name of the prompt in the set."""
    tokens: tuple[str, ...]
    """Names given by the server; for one tokenizer, equal names are equal tokens."""
    logprobs: tuple[float | None, ...]
    """Natural logarithm of each token's probability; None if it is not a number. Empty: the server gives none."""
    prompt_logprobs: tuple[float | None, ...] = ()
    """Of the prompt's tokens after the first: both sides have the same text, so differences do not accumulate."""
    prompt_tokens: tuple[str, ...] = ()
    """These tokens: another tokenizer splits the same text differently."""
    alternatives: tuple[Mapping[str, float], ...] = ()
    """For each token of the answer, the most likely candidates with their log-probabilities."""
    error: str | None = None
    """Why there is no answer, in one line. An answer with an error has no tokens."""


@dataclass(frozen=True, slots=True)
class Outputs:
    prompt_set: str
    """Name and version of the set. Answers to different sets are not compared."""
    answers: tuple[Answer, ...]

    def as_document(self) -> dict[str, Any]:
        return {"prompt_set": self.prompt_set, "answers": [_as_document(answer) for answer in self.answers]}

    @classmethod
    def from_document(cls, data: Mapping[str, Any]) -> "Outputs":
        """The inverse of `as_document`. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(str(data["prompt_set"]), tuple(_from_document(dict(answer)) for answer in data["answers"]))


def _as_document(answer: Answer) -> dict[str, Any]:
    document: dict[str, Any] = {
        "prompt": answer.prompt,
        "tokens": list(answer.tokens),
        "logprobs": list(answer.logprobs),
        "prompt_logprobs": list(answer.prompt_logprobs),
    }
    # Optional parts are left out if empty.
    if answer.prompt_tokens:
        document["prompt_tokens"] = list(answer.prompt_tokens)
    if answer.alternatives:
        document["alternatives"] = [dict(each) for each in answer.alternatives]
    if answer.error is not None:
        document["error"] = answer.error
    return document


def _from_document(data: Mapping[str, Any]) -> Answer:
    error = data.get("error")
    return Answer(
        str(data["prompt"]),
        _names(data["tokens"]),
        _numbers(data["logprobs"]),
        _numbers(data["prompt_logprobs"]),
        _names(data.get("prompt_tokens") or ()),
        tuple(
            {str(token): _finite(value) for token, value in dict(each).items()}
            for each in data.get("alternatives") or ()
        ),
        None if error is None else str(error),
    )


def _names(values: Any) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _numbers(values: Any) -> tuple[float | None, ...]:
    return tuple(None if value is None else _finite(value) for value in values)


def _finite(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError(f"{value} is not a log-probability")
    return number
