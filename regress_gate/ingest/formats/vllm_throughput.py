"""`vllm bench throughput` (and benchmarks/benchmark_throughput.py): all requests at once to an engine without a server.

One sample a file. What was sent is only in a `.commands` file of vLLM's CI beside it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.bench_arguments import read_commands, with_commands
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_latency import OFFLINE
from regress_gate.ingest.interface import Certainty, Context, Generation, NoReading, Reading, RefusalError
from regress_gate.ingest.plausibility import check_rate
from regress_gate.ingest.reports import Outcome
from regress_gate.ingest.text import clean


class VllmThroughput:
    name = "vllm-throughput"
    tool = "vllm bench throughput"
    bare_constants = False
    generations = (
        Generation(
            "all",
            "`elapsed_time` and `requests_per_second`",
            "batch_throughput, total_throughput",
            "`tokens_per_second` counts prompt and output tokens: total_throughput; output tokens alone are not saved; "
            "the model from 0.31 on",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if content.documents and is_throughput_result(content.documents[0]) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:
        commands = read_commands(content.name, context)
        return [with_commands(read_throughput(data, place), commands) for place, data in enumerate(content.each())]


def is_throughput_result(data: object) -> bool:
    return isinstance(data, dict) and "elapsed_time" in data and "requests_per_second" in data


def read_throughput(data: object, position: int) -> Reading | NoReading:
    """One JSON value as a reading, or why it is none."""
    if not isinstance(data, dict) or not is_throughput_result(data):
        return NoReading(
            position, Outcome.REFUSED, "not a vllm bench throughput result, unlike others in the same file"
        )
    try:
        return normalise(data, position)
    except RefusalError as refusal:
        return NoReading(position, Outcome.REFUSED, str(refusal))


def normalise(data: Mapping[str, Any], position: int) -> Reading:
    """Raises RefusalError with the reason when the result must not be used."""
    requests = fields.count(data, "num_requests")
    elapsed = fields.required(data, "elapsed_time")
    tokens = fields.count(data, "total_num_tokens")
    rate = fields.required(data, "requests_per_second")
    token_rate = fields.number(data, "tokens_per_second")
    if requests == 0:
        raise RefusalError("num_requests is 0: nothing was measured")
    if elapsed <= 0:
        raise RefusalError(f"elapsed_time is {elapsed:g} s")
    check_rate("requests_per_second", rate, requests, elapsed)
    metrics = {"batch_throughput": rate}
    if token_rate is not None:
        check_rate("tokens_per_second", token_rate, tokens, elapsed)
        metrics["total_throughput"] = token_rate
    model = fields.text(data, "model_id")
    workload: dict[str, Any] = {} if model is None else {"model": clean(model)}
    if requests is not None:
        workload["num_prompts"] = requests
    return Reading(
        position=position,
        completed=requests,
        failed=0,
        duration=elapsed,
        metrics=metrics,
        workload=workload | {"benchmark": "throughput"},
        definitions=OFFLINE,
    )
