"""GuideLLM 0.8 (`guidellm run`). Its own statistics are not taken: what it calls inter-token latency is a time per
output token weighted by tokens, and its time per output token includes the first one. The times of each request are,
and the statistics are made from them by the definitions of this project. It keeps no gaps between chunks: no `itl`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regress_gate.bench.drivers.driver_interface import Driver, ToolOutput, ToolRequest, read_result_file
from regress_gate.bench.load.load_workload import Arrival, LoadWorkload
from regress_gate.ingest import fields
from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.guidellm import later_request
from regress_gate.ingest.formats.guidellm_cell import REQUESTS
from regress_gate.ingest.interface import reading_from_requests
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.totals import MeasuredRequest
from regress_gate.text import excerpt

RESULT = "benchmarks.json"


class GuideLlm(Driver):
    name = "guidellm"
    tool = "guidellm"
    result_format = "guidellm"
    program = "guidellm"
    install = "pip install guidellm"
    notes = (
        "guidellm keeps no gaps between chunks: itl is left out",
        "guidellm counts from the first chunk with text to the last",
    )

    def arguments(self, request: ToolRequest, folder: Path) -> Sequence[str]:
        workload = request.workload
        lengths = f"prompt_tokens={workload.input_len},output_tokens={workload.output_len}"
        return [
            "run",
            "--disable-console-interactive",
            f"--backend=kind=openai_http,target={request.url},model={request.served_model},request_format=/v1/completions",
            f"--profile={_profile(workload)}",
            f"--constraint=kind=max_requests,count={workload.num_requests}",
            f"--tokenizer=kind=hf_auto,model={request.tokenizer}",
            f"--data=kind=synthetic_text,{lengths}",
            f"--seed=kind=static,value={request.seed}",
            f"--output=kind=json,path={folder / RESULT}",
        ]

    def read(self, request: ToolRequest, folder: Path) -> ToolOutput:
        content = read_result_file(folder, RESULT, tool=self.tool)
        parsed = parse_content(RESULT, content)
        if parsed.problem is not None:
            raise RefusalError(parsed.problem)
        try:
            (document,) = parsed.documents
            version = excerpt(str(document["metadata"]["guidellm_version"]), 60)
            (benchmark,) = document["benchmarks"]
            made = benchmark["scheduler_metrics"]["requests_made"]
            failed = int(made["errored"]) + int(made["incomplete"])
            duration = fields.required(benchmark, "duration")
            requests = [_request(entry) for entry in benchmark["requests"]["successful"]]
        except (KeyError, TypeError, ValueError) as error:
            raise RefusalError(f"not as guidellm 0.8 writes it ({error!r}): another version?") from None
        if int(made["successful"]) != len(requests):
            raise RefusalError(f"it holds {len(requests)} of {made['successful']} requests: a sample")
        reading = reading_from_requests(requests, failed, duration, _concurrency_limit(request.workload))
        return ToolOutput(content, version, replace(reading, definitions=REQUESTS))


def _profile(workload: LoadWorkload) -> str:
    if workload.request_rate is None:
        return "kind=throughput" if workload.concurrency is None else f"kind=concurrent,streams={workload.concurrency}"
    kind = "poisson" if workload.arrival is Arrival.POISSON else "constant"
    cap = "" if workload.concurrency is None else f",max_concurrency={workload.concurrency}"
    return f"kind={kind},rate={workload.request_rate}{cap}"


def _concurrency_limit(workload: LoadWorkload) -> int | None:
    return workload.concurrency if workload.request_rate is None else None


def _request(entry: Mapping[str, Any]) -> MeasuredRequest:
    if (request := later_request(entry)) is None:
        raise ValueError("a request without its times or tokens")
    return request
