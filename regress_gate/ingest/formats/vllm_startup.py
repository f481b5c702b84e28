"""`vllm bench startup`: how long an engine takes to start, with empty caches (cold) and with filled ones (warm).

Each time is that of a process of its own, without a server; all of a file are one trial, whose metrics are the means.
"""

from collections.abc import Mapping
from typing import Any

from regress_gate.ingest import fields, repeats
from regress_gate.ingest.formats.vllm_offline import OfflineReader
from regress_gate.ingest.interface import Generation, Reading, RefusalError
from regress_gate.ingest.text import plural

_METRICS = {
    "cold_startup": "cold_start_time",
    "warm_startup": "warm_start_time",
    "cold_compilation": "cold_compilation_time",
    "warm_compilation": "warm_compilation_time",
}
"""Names in the file's keys to those of the catalogue. Encoders' compilation has none."""


class VllmStartup(OfflineReader):
    name = "vllm-startup"
    tool = "vllm bench startup"
    generations = (
        Generation(
            "0.13 and later",
            "`avg_cold_startup_time` or `avg_warm_startup_time`",
            "cold_start_time, warm_start_time, cold_compilation_time, warm_compilation_time",
            "without a server, so no startup_time; a compilation of 0 s (eager mode) is left out",
        ),
    )

    def is_result(self, data: object) -> bool:
        return isinstance(data, dict) and any(f"avg_{name}_time" in data for name in _METRICS)

    def normalise(self, data: Mapping[str, Any], position: int) -> Reading:
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
