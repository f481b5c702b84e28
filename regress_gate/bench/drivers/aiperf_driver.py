"""AIPerf 0.13 (`aiperf profile`). What it calls inter-token latency is a time per output token; what it calls
inter-chunk latency is `itl`. The times of each request are taken, and the statistics made from them by the definitions
of this project, with the server's token counts: its own come from encoding the answer again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from regress_gate.bench.drivers.driver_interface import Driver, ToolOutput, ToolRequest, read_result_file
from regress_gate.ingest import fields
from regress_gate.ingest.formats.aiperf import SERVER_TOKENS
from regress_gate.ingest.formats.aiperf_values import request_times, seconds_in
from regress_gate.ingest.interface import reading_from_requests
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.totals import MeasuredRequest
from regress_gate.text import excerpt

SUMMARY, RECORDS = "profile_export_aiperf.json", "profile_export.jsonl"


class AiPerf(Driver):
    name = "aiperf"
    tool = "aiperf"
    result_format = "aiperf"
    program = "aiperf"
    install = "pip install aiperf"
    notes = ("aiperf counts from the first chunk with text to the last",)

    def arguments(self, request: ToolRequest, folder: Path) -> Sequence[str]:
        workload = request.workload
        arguments: dict[str, object] = {
            "model": request.served_model,
            "url": request.url,
            "endpoint-type": "completions",
            "tokenizer": request.tokenizer,
            "request-count": workload.num_requests,
            "synthetic-input-tokens-mean": workload.input_len,
            "synthetic-input-tokens-stddev": 0,
            "output-tokens-mean": workload.output_len,
            "output-tokens-stddev": 0,
            "random-seed": request.seed,
            "artifact-dir": folder,
            "ui": "none",
        }
        if workload.request_rate is not None:
            arguments |= {"request-rate": workload.request_rate, "arrival-pattern": workload.arrival.value}
        if workload.concurrency is not None or workload.request_rate is None:
            arguments["concurrency"] = workload.concurrency or workload.num_requests
        line = ["profile", "--streaming"]
        for extra in ("ignore_eos:true", f"min_tokens:{workload.output_len}"):
            line += ["--extra-inputs", extra]
        for key, value in arguments.items():
            line += [f"--{key}", str(value)]
        return line

    def read(self, request: ToolRequest, folder: Path) -> ToolOutput:
        content = read_result_file(folder, RECORDS, tool=self.tool)
        try:
            summary = orjson.loads(read_result_file(folder, SUMMARY, tool=self.tool))
            records = [orjson.loads(line) for line in content.splitlines() if line.strip()]
            version = excerpt(str(summary["aiperf_version"]), 60)
            duration = fields.required(summary["benchmark_duration"], "avg")
            duration *= seconds_in(summary["benchmark_duration"]["unit"])
            if summary.get("was_cancelled"):
                raise RefusalError("it was cancelled")
            measured = [record for record in records if record["metadata"]["benchmark_phase"] == "profiling"]
            good = [record for record in measured if not record.get("error")]
            requests = [_request(record) for record in good]
        except (KeyError, TypeError, ValueError) as error:
            raise RefusalError(f"not as aiperf 0.13 writes it ({error!r}): another version?") from None
        limit = request.workload.concurrency if request.workload.request_rate is None else None
        reading = reading_from_requests(requests, len(measured) - len(good), duration, limit)
        return ToolOutput(content, version, replace(reading, definitions=SERVER_TOKENS))


def _request(record: Mapping[str, Any]) -> MeasuredRequest:
    times = request_times(record)
    if times.ttft is None or times.input_tokens is None or times.output_tokens is None:
        raise RefusalError("a record lacks its first token or the server's counts: another version?")
    gaps = [gap * times.gap_unit for gap in times.gaps]
    return MeasuredRequest(times.start, times.ttft, times.e2el, gaps, times.input_tokens, times.output_tokens)
