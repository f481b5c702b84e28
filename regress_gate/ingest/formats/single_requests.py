"""A reading of another tool's result from its single requests.

The statistics follow vLLM's definitions and pass the same checks as those of its client. Not for knowing any format.
"""

from collections.abc import Sequence

from regress_gate.ingest.interface import Reading
from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.totals import LoadTotals, MeasuredRequest


def reading_from_requests(
    requests: Sequence[MeasuredRequest],
    failed: int,
    duration: float,
    concurrency: int | None,
    *,
    position: int = 0,
    with_samples: bool = True,
) -> Reading:
    """`requests` succeeded, `failed` others did not. `duration`: seconds. `concurrency`: None means without limit.

    Raises RefusalError for what cannot be a measurement, such as no success at all.
    """
    from regress_gate.measurement.request_statistics import pass_metrics, statistics_of_requests

    completed = len(requests)
    if not completed:
        raise RefusalError(f"no request succeeded ({failed} failed); look at the server's log")
    if duration <= 0:
        raise RefusalError(f"its duration is {duration:g} s")
    input_tokens = sum(request.input_tokens for request in requests)
    output_tokens = sum(request.output_tokens for request in requests)
    totals = LoadTotals.from_counts(
        completed=completed,
        num_prompts=completed + failed,
        duration=duration,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        max_concurrency=concurrency,
    )
    statistics = statistics_of_requests(requests, failed)
    plausibility.check_counts(totals, failed)
    metrics, notes = pass_metrics(statistics, totals)
    metrics["failed_requests"] = failed / (completed + failed)
    return Reading(
        position=position,
        completed=completed,
        failed=failed,
        duration=duration,
        metrics=metrics,
        workload={
            "max_concurrency": concurrency,
            "num_prompts": completed + failed,
            "mean_input_tokens": input_tokens / completed,
            "mean_output_tokens": output_tokens / completed,
        },
        samples=statistics.samples if with_samples else None,
        notes=(*notes, *plausibility.failure_notes(completed, failed)),
    )
