"""The requests of another tool's result, brought into the shape of vLLM's own client and read by the same code.

So every tool's numbers meet the same definitions and the same checks. Not for knowing any tool's format.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regress_gate.ingest.formats.vllm_serve import normalise
from regress_gate.ingest.interface import Reading
from regress_gate.measurement.plausibility import RefusalError


@dataclass(frozen=True, slots=True)
class MeasuredRequest:
    """One request that succeeded; seconds."""

    start: float
    ttft: float
    e2el: float
    """To the last chunk with tokens."""
    gaps: Sequence[float]
    """Between its chunks; empty where the tool does not keep them."""
    input_tokens: int
    output_tokens: int


def reading_from_requests(
    requests: Sequence[MeasuredRequest],
    failed: int,
    duration: float,
    concurrency: int | None,
    *,
    position: int = 0,
    with_samples: bool = True,
) -> Reading:
    """Raises RefusalError for what cannot be a measurement; no success at all is one such."""
    completed = len(requests)
    if not completed:
        raise RefusalError(f"no request succeeded ({failed} failed); look at the server's log")
    if duration <= 0:
        raise RefusalError(f"its duration is {duration:g} s")
    requests = sorted(requests, key=lambda request: request.start)
    input_tokens = sum(request.input_tokens for request in requests)
    output_tokens = sum(request.output_tokens for request in requests)
    return normalise(
        {
            "completed": completed,
            "failed": failed,
            "num_prompts": completed + failed,
            "duration": duration,
            "max_concurrency": concurrency,
            "total_input_tokens": input_tokens,
            "total_output_tokens": output_tokens,
            "request_throughput": completed / duration,
            "output_throughput": output_tokens / duration,
            "total_token_throughput": (input_tokens + output_tokens) / duration,
            # The failed ones keep a place, as in the files of vLLM's client.
            "ttfts": [request.ttft for request in requests] + [0.0] * failed,
            "itls": [list(request.gaps) for request in requests] + [[]] * failed,
            "latencies": [request.e2el for request in requests] + [0.0] * failed,
            "input_lens": [request.input_tokens for request in requests] + [0] * failed,
            "output_lens": [request.output_tokens for request in requests] + [0] * failed,
            "start_times": [request.start for request in requests] + [requests[0].start] * failed,
            "errors": [""] * completed + ["failed"] * failed,
        },
        position,
        with_samples=with_samples,
    )
