"""What one pass of a workload is made of: its requests, and its counts and rates. Plain values, without numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self


@dataclass(frozen=True, slots=True)
class MeasuredRequest:
    """One request that succeeded. Times in seconds."""

    start: float
    """When it was sent, by any clock."""
    ttft: float
    e2el: float
    """Up to the last chunk that holds tokens."""
    gaps: Sequence[float]
    """Between its chunks; empty if they were not recorded."""
    input_tokens: int
    output_tokens: int


class LoadTotals(NamedTuple):
    """The counts and rates of one pass; None if not stated."""

    completed: int
    """Requests that succeeded."""
    num_prompts: int | None
    """Requests that were sent."""
    duration: float
    """Seconds."""
    input_tokens: int | None
    output_tokens: int | None
    max_concurrency: int | None
    request_throughput: float
    output_throughput: float | None
    total_throughput: float | None
    goodput: float | None
    rounding: float
    """Half a unit of the last decimal that was written; 0 for full precision."""

    @classmethod
    def from_counts(
        cls,
        *,
        completed: int,
        duration: float,
        input_tokens: int,
        output_tokens: int,
        num_prompts: int | None = None,
        max_concurrency: int | None = None,
        goodput: float | None = None,
        is_streamed: bool = True,
    ) -> Self:
        """Totals whose rates are the counts divided by the duration. Without streaming no output rate is stated."""
        return cls(
            completed=completed,
            num_prompts=num_prompts,
            duration=duration,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            max_concurrency=max_concurrency,
            request_throughput=completed / duration,
            output_throughput=output_tokens / duration if is_streamed else None,
            total_throughput=(input_tokens + output_tokens) / duration,
            goodput=goodput,
            rounding=0.0,
        )
