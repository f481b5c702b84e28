"""What is sent, to the token and to the moment. Everything follows from the workload, the scenario's name and the pass.

The generator is SHAKE-256 and not a library's, whose streams may change between releases: the same seed gives the
same tokens and times on every machine for ever. The scenario's name and the pass are part of the key because one
server answers them one after another, and with prefix caching a prompt seen before is another workload.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import shake_256

import numpy as np
import numpy.typing as npt

from regress_gate.errors import InputError

FIRST_TOKEN, LAST_TOKEN = 1000, 9999
"""Token ids sent: within the vocabulary of every text model, and beyond the control tokens that some begin with."""


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
    """Tokens of a whole prompt, the shared prefix included."""
    output_len: int
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

    def __post_init__(self) -> None:
        for name in ("input_len", "output_len", "num_requests", "concurrency"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"workload: {name} is {value}, must be at least 1")
        if self.request_rate is not None and not 0 < self.request_rate < math.inf:
            raise InputError(f"workload: request_rate is {self.request_rate}, must be a positive number")
        if not 0 <= self.prefix_len < self.input_len:
            raise InputError(f"workload: prefix_len is {self.prefix_len}, must be below input_len ({self.input_len})")
        if self.warmup_requests < 0:
            raise InputError(f"workload: warmup_requests is {self.warmup_requests}, must not be negative")


def prompts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[list[int]]:
    """The token ids of every measured request of pass `ordinal` (from 1), in the order in which they are sent."""
    return _prompts(workload, f"{scenario}/{ordinal}", "request", workload.num_requests)


def warmup_prompts(workload: LoadWorkload, scenario: str, ordinal: int) -> list[list[int]]:
    """The same for the warm-up, whose prompts share nothing but the prefix with the measured ones."""
    return _prompts(workload, f"{scenario}/{ordinal}", "warm-up", workload.warmup_requests)


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


def _prompts(workload: LoadWorkload, stream: str, use: str, count: int) -> list[list[int]]:
    prefix = _tokens(f"{workload.seed}/{stream}/prefix", workload.prefix_len)
    own = workload.input_len - workload.prefix_len
    return [prefix + _tokens(f"{workload.seed}/{stream}/{use}/{number}", own) for number in range(count)]


def _tokens(key: str, count: int) -> list[int]:
    tokens: list[int] = (FIRST_TOKEN + _integers(key, count) % (LAST_TOKEN - FIRST_TOKEN + 1)).tolist()
    return tokens


def _integers(key: str, count: int) -> npt.NDArray[np.uint32]:
    return np.frombuffer(shake_256(key.encode()).digest(4 * count), dtype="<u4")
