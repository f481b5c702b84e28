"""`vllm bench throughput` (and benchmarks/benchmark_throughput.py): all requests at once to an engine without a server.

One sample a file. What was sent is only in a `.commands` file of vLLM's CI beside it.
"""

from collections.abc import Mapping
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.formats.vllm_offline import OFFLINE, OfflineReader
from regress_gate.ingest.interface import Generation, Reading, RefusalError
from regress_gate.ingest.plausibility import check_rate
from regress_gate.ingest.text import clean


class VllmThroughput(OfflineReader):
    name = "vllm-throughput"
    tool = "vllm bench throughput"
    generations = (
        Generation(
            "all",
            "`elapsed_time` and `requests_per_second`",
            "batch_throughput, total_throughput",
            "`tokens_per_second` counts prompt and output tokens: total_throughput; output tokens alone are not saved; "
            "the model from 0.31 on",
        ),
    )

    def is_result(self, data: object) -> bool:
        return isinstance(data, dict) and "elapsed_time" in data and "requests_per_second" in data

    def normalise(self, data: Mapping[str, Any], position: int) -> Reading:
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
