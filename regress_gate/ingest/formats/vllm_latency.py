"""`vllm bench latency` (and benchmarks/benchmark_latency.py): passes of one whole batch, without a server.

The file has one time for each pass, and neither the batch size nor the lengths: those come from a `.commands` file of
vLLM's CI beside it. The passes share one process, so they are one trial.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regress_gate.ingest import fields, repeats
from regress_gate.ingest.bench_arguments import read_commands, with_commands
from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import Certainty, Context, Generation, NoReading, Reading, RefusalError
from regress_gate.ingest.plausibility import check_statistics
from regress_gate.ingest.reports import Outcome
from regress_gate.ingest.text import clean

OFFLINE = "vllm-offline"
"""Key of DEFINITIONS."""


class VllmLatency:
    name = "vllm-latency"
    tool = "vllm bench latency"
    bare_constants = False
    generations = (
        Generation(
            "all",
            "`avg_latency` and `latencies`",
            "batch_latency",
            "a time of `latencies` is that of the whole batch, not of a request; percentiles that so few passes cannot "
            "have are left out; batch size and lengths only from `.commands`; the model from 0.31 on",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if content.documents and is_latency_result(content.documents[0]) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:
        commands = read_commands(content.name, context)
        return [with_commands(read_latency(data, place), commands) for place, data in enumerate(content.each())]


def is_latency_result(data: object) -> bool:
    return isinstance(data, dict) and "avg_latency" in data and isinstance(data.get("latencies"), list)


def read_latency(data: object, position: int) -> Reading | NoReading:
    """One JSON value as a reading, or why it is none."""
    if not isinstance(data, dict) or not is_latency_result(data):
        return NoReading(position, Outcome.REFUSED, "not a vllm bench latency result, unlike others in the same file")
    try:
        return normalise(data, position)
    except RefusalError as refusal:
        return NoReading(position, Outcome.REFUSED, str(refusal))


def normalise(data: Mapping[str, Any], position: int) -> Reading:
    """Raises RefusalError with the reason when the result must not be used."""
    latencies = repeats.times(data, "latencies")
    if not latencies:
        raise RefusalError("latencies is empty: no pass was measured")
    mean = fields.required(data, "avg_latency")
    if not any(latencies):
        raise RefusalError("every latency is 0: nothing was measured")
    if not all(latencies):
        raise RefusalError("latencies holds a 0, which no pass can reach")
    repeats.check_stated(latencies, ("avg_latency", mean), fields.obj(data, "percentiles"), "percentiles")
    found, note = repeats.statistics(latencies)
    check_statistics({"batch_latency": found}, None)
    model = fields.text(data, "model_id")
    return Reading(
        position=position,
        completed=None,
        failed=0,
        duration=None,
        metrics={f"batch_latency_{name}": value for name, value in found.items()},
        workload=({} if model is None else {"model": clean(model)}) | {"benchmark": "latency"},
        definitions=OFFLINE,
        notes=() if note is None else (note,),
    )
