"""`vllm bench latency` (and benchmarks/benchmark_latency.py): passes of one whole batch, without a server.

The file has one time for each pass, and neither the batch size nor the lengths: those come from a `.commands` file of
vLLM's CI beside it. The passes share one process, so they are one trial.
"""

from collections.abc import Mapping
from typing import Any

from regress_gate.ingest import fields, repeats
from regress_gate.ingest.formats.vllm_offline import OFFLINE, OfflineReader
from regress_gate.ingest.interface import Generation, Reading, RefusalError
from regress_gate.ingest.plausibility import check_statistics
from regress_gate.ingest.text import clean


class VllmLatency(OfflineReader):
    name = "vllm-latency"
    tool = "vllm bench latency"
    generations = (
        Generation(
            "all",
            "`avg_latency` and `latencies`",
            "batch_latency",
            "a time of `latencies` is that of the whole batch, not of a request; percentiles that so few passes cannot "
            "have are left out; batch size and lengths only from `.commands`; the model from 0.31 on",
        ),
    )

    def is_result(self, data: object) -> bool:
        return isinstance(data, dict) and "avg_latency" in data and isinstance(data.get("latencies"), list)

    def normalise(self, data: Mapping[str, Any], position: int) -> Reading:
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
