"""`vllm bench startup`: how long an engine takes to start, with empty caches (cold) and with filled ones (warm).

Each time is that of a process of its own, without a server; all of a file are one trial, whose metrics are the means.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regress_gate.ingest import fields, repeats
from regress_gate.ingest.bench_arguments import read_commands, with_commands
from regress_gate.ingest.content import Content
from regress_gate.ingest.interface import Certainty, Context, Generation, NoReading, Reading, RefusalError
from regress_gate.ingest.reports import Outcome
from regress_gate.ingest.text import plural

_METRICS = {
    "cold_startup": "cold_start_time",
    "warm_startup": "warm_start_time",
    "cold_compilation": "cold_compilation_time",
    "warm_compilation": "warm_compilation_time",
}
"""Names in the file's keys to those of the catalogue. Encoders' compilation has none."""


class VllmStartup:
    name = "vllm-startup"
    tool = "vllm bench startup"
    bare_constants = False
    generations = (
        Generation(
            "0.13 and later",
            "`avg_cold_startup_time` or `avg_warm_startup_time`",
            "cold_start_time, warm_start_time, cold_compilation_time, warm_compilation_time",
            "without a server, so no startup_time; a compilation of 0 s (eager mode) is left out",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if content.documents and is_startup_result(content.documents[0]) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:
        commands = read_commands(content.name, context)
        return [with_commands(read_startup(data, place), commands) for place, data in enumerate(content.each())]


def is_startup_result(data: object) -> bool:
    return isinstance(data, dict) and any(f"avg_{name}_time" in data for name in _METRICS)


def read_startup(data: object, position: int) -> Reading | NoReading:
    """One JSON value as a reading, or why it is none."""
    if not isinstance(data, dict) or not is_startup_result(data):
        return NoReading(position, Outcome.REFUSED, "not a vllm bench startup result, unlike others in the same file")
    try:
        return normalise(data, position)
    except RefusalError as refusal:
        return NoReading(position, Outcome.REFUSED, str(refusal))


def normalise(data: Mapping[str, Any], position: int) -> Reading:
    """Raises RefusalError with the reason when the result must not be used."""
    metrics: dict[str, float] = {}
    notes: list[str] = []
    for name, metric in _METRICS.items():
        if (mean := fields.number(data, f"avg_{name}_time")) is None:
            continue
        if mean < 0:
            raise RefusalError(f"avg_{name}_time is negative")
        if values := repeats.times(data, f"{name}_times"):
            percentiles = fields.obj(data, f"{name}_percentiles")
            repeats.check_stated(values, (f"avg_{name}_time", mean), percentiles, f"{name}_percentiles")
            notes.append(f"{metric} is the mean of {plural(len(values), 'start')}")
        if mean == 0:
            if "startup" in name:
                raise RefusalError(f"avg_{name}_time is 0, which no start can reach")
            notes.append(f"{metric} is 0 and is left out: nothing was compiled")
            continue
        metrics[metric] = mean
    if not metrics:
        raise RefusalError("no time in it is a measurement")
    return Reading(
        position=position,
        completed=None,
        failed=0,
        duration=None,
        metrics=metrics,
        workload={"benchmark": "startup"},
        notes=tuple(notes),
    )
