"""What is sent, to the token and to the moment. Everything follows from the workload, the scenario's name and the pass.

The generator is SHAKE-256 and not a library's, whose streams may change between releases: the same seed gives the
same tokens and times on every machine for ever. The scenario's name and the pass are part of the key because one
server answers them one after another, and with prefix caching a prompt seen before is another workload.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import shake_256
from typing import Any

import numpy as np
import numpy.typing as npt

from regress_gate.bench.load.dataset import Dataset
from regress_gate.bench.load.words import WORDS
from regress_gate.errors import InputError

FIRST_TOKEN, LAST_TOKEN = 1000, 9999
"""Token ids sent: within the vocabulary of every text model, and beyond the control tokens that some begin with."""


MAX_QUERY = 16
"""Words of a rerank query; of a shorter pair, half is query."""


class Api(StrEnum):
    """Which of vLLM's endpoints is measured."""

    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    RERANK = "rerank"

    @property
    def path(self) -> str:
        return "/rerank" if self is Api.RERANK else f"/v1/{self.value}"

    @property
    def streamed(self) -> bool:
        """Whether an answer has tokens that come one after another; the others come in one piece."""
        return self is Api.COMPLETIONS


class Arrival(StrEnum):
    """How open-loop requests are spread in time."""

    POISSON = "poisson"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Slo:
    """What a request must reach to count as good, in seconds; None: no demand."""

    ttft: float | None = None
    tpot: float | None = None
    e2el: float | None = None

    def __post_init__(self) -> None:
        for name in ("ttft", "tpot", "e2el"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"slo: {name} is {value}, not a positive number of seconds")


@dataclass(frozen=True, slots=True)
class LoadWorkload:
    """One workload. With `request_rate` the loop is open, and `concurrency` then only caps it.

    Without a rate the loop is closed: `concurrency` requests are in flight; None sends all at once.
    """

    input_len: int
    """Tokens of a whole prompt, the shared prefix included. For rerank: words of a pair of query and document. 0 for
    recorded prompts, which are as long as they are."""
    output_len: int
    """Tokens asked for; 0 where the API generates none, and for answers as long as those that were recorded."""
    num_requests: int
    concurrency: int | None = None
    request_rate: float | None = None
    """Requests per second."""
    arrival: Arrival = Arrival.POISSON
    prefix_len: int = 0
    """Tokens at the beginning that all prompts have in common, those of the warm-up too."""
    warmup_requests: int = 0
    """Sent before and left out of the results, closed-loop at the same concurrency."""
    seed: int = 0
    slo: Slo | None = None
    api: Api = Api.COMPLETIONS
    documents: int = 0
    """Of one rerank request; 0 for the other APIs."""
    ignore_eos: bool = True
    """Whether every answer has exactly `output_len` tokens; else that is the most that it may have."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """JSON that is merged into every request's body."""
    lora_adapters: tuple[str, ...] = ()
    """Served names that the requests take in turn; empty: the target's own."""
    dataset: Dataset | None = None
    """Recorded prompts, for completions; None: random tokens, or words for rerank."""

    def __post_init__(self) -> None:
        generated = self.dataset is None
        for name, least in (
            ("input_len", 2 if self.api is Api.RERANK else int(generated)),
            ("output_len", int(generated and self.api.streamed)),
            ("num_requests", 1),
            ("concurrency", 1),
            ("documents", 1 if self.api is Api.RERANK else 0),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"workload: {name} is {value}, must be at least {least}")
        if self.request_rate is not None and not 0 < self.request_rate < math.inf:
            raise InputError(f"workload: request_rate is {self.request_rate}, must be a positive number")
        if generated and not 0 <= self.prefix_len < self.input_len:
            raise InputError(f"workload: prefix_len is {self.prefix_len}, must be below input_len ({self.input_len})")
        if self.warmup_requests < 0:
            raise InputError(f"workload: warmup_requests is {self.warmup_requests}, must not be negative")


def prompts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[list[int]]:
    """The token ids of every measured request of pass `ordinal` (from 1), in the order in which they are sent."""
    return _prompts(workload, f"{scenario}/{ordinal}", "request", workload.num_requests)


def warmup_prompts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[list[int]]:
    """The same for the warm-up, whose prompts share nothing but the prefix with the measured ones."""
    return _prompts(workload, f"{scenario}/{ordinal}", "warm-up", workload.warmup_requests)


def rerank_texts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[tuple[str, list[str]]]:
    """Query and documents of every measured rerank request of pass `ordinal`, in the order in which they are sent."""
    return _rerank_texts(workload, f"{scenario}/{ordinal}", "request", workload.num_requests)


def warmup_rerank_texts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[tuple[str, list[str]]]:
    """The same for the warm-up."""
    return _rerank_texts(workload, f"{scenario}/{ordinal}", "warm-up", workload.warmup_requests)


def arrival_times(workload: LoadWorkload, scenario: str, ordinal: int) -> Sequence[float]:
    """When each request of an open loop is due, in seconds from the first. Needs a request rate."""
    if workload.request_rate is None:
        raise ValueError("a closed loop has no schedule")
    gaps = np.full(workload.num_requests, 1.0)
    if workload.arrival is Arrival.POISSON:
        uniform = _integers(f"{workload.seed}/{scenario}/{ordinal}/arrival", workload.num_requests) / 2**32
        gaps = -np.log1p(-uniform)
    gaps[0] = 0.0
    times: list[float] = (np.cumsum(gaps) / workload.request_rate).tolist()
    return times


def shuffled(workload: LoadWorkload, scenario: str, count: int) -> list[int]:
    """The numbers below `count` in the order in which a scenario takes recorded prompts, pass after pass."""
    keys = _integers(f"{workload.seed}/{scenario}/recorded", count)
    order: list[int] = np.argsort(keys, kind="stable").tolist()
    return order


def _prompts(workload: LoadWorkload, stream: str, use: str, count: int) -> list[list[int]]:
    prefix = _tokens(f"{workload.seed}/{stream}/prefix", workload.prefix_len)
    own = workload.input_len - workload.prefix_len
    return [prefix + _tokens(f"{workload.seed}/{stream}/{use}/{number}", own) for number in range(count)]


def _rerank_texts(workload: LoadWorkload, stream: str, use: str, count: int) -> list[tuple[str, list[str]]]:
    query_len = min(MAX_QUERY, workload.input_len // 2)

    def request(key: str) -> tuple[str, list[str]]:
        own = workload.input_len - query_len
        documents = [_text(f"{key}/document/{number}", own) for number in range(workload.documents)]
        return _text(f"{key}/query", query_len), documents

    return [request(f"{workload.seed}/{stream}/{use}/{number}") for number in range(count)]


def _text(key: str, words: int) -> str:
    return " ".join(WORDS[index] for index in (_integers(key, words) % len(WORDS)).tolist())


def _tokens(key: str, count: int) -> list[int]:
    tokens: list[int] = (FIRST_TOKEN + _integers(key, count) % (LAST_TOKEN - FIRST_TOKEN + 1)).tolist()
    return tokens


def _integers(key: str, count: int) -> npt.NDArray[np.uint32]:
    return np.frombuffer(shake_256(key.encode()).digest(4 * count), dtype="<u4")
