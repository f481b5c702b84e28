"""What a server answered, greedily, to a fixed set of prompts: the evidence on whether an upgrade changed its words.

Not for judging the answers: the gate holds those of two versions against each other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """One prompt's. All tuples are of tokens in order."""

    prompt: str
    """Which prompt of the set, by its name."""
    tokens: tuple[str, ...]
    """As the server names them; equal names are equal tokens of one tokenizer."""
    logprobs: tuple[float | None, ...]
    """Natural logarithm of each token's probability; None for what is no number. Empty where the server has none."""
    prompt_logprobs: tuple[float | None, ...] = ()
    """Of the prompt's own tokens after the first: the same text on both sides, so that nothing compounds."""
    prompt_tokens: tuple[str, ...] = ()
    """Those same tokens: another tokenizer splits the same text otherwise."""
    alternatives: tuple[Mapping[str, float], ...] = ()
    """For each token of the answer the likeliest ones that it was chosen from, with their log-probabilities."""
    error: str | None = None
    """Why there is no answer, in one line; it then has no tokens."""


@dataclass(frozen=True, slots=True)
class Outputs:
    prompt_set: str
    """Name and version of the set; answers to different sets are not compared."""
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
    # What few servers leave out and few answers have is not written where it is empty.
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
        raise ValueError(f"{value} is no log-probability")
    return number
