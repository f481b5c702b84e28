"""Reads results of InferenceX's experiment on decode latency (experimental/token_position_decode_slo).

Its client measures and names like vLLM's, except that latencies are in seconds and have no unit in their name. All
prompts have one length. Only the file name states the layout of the server (`tp8`, `dep8`) and the requested tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats import vllm_serve
from regress_gate.ingest.interface import Certainty, Context, Generation, Reading, UnusedResult, read_documents
from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import RefusalError

_SECONDS = re.compile(r"(?:median|p99)_(?:ttft|tpot|e2el)")
_NAME = re.compile(r".*_(?P<layout>[a-z]{1,3}p\d{1,4})_isl\d{1,8}_osl(?P<osl>\d{1,8})_conc\d{1,8}\.json")


class InferenceXDecode:
    name = "inferencex-decode"
    tool = "InferenceX benchmark_serving_random"
    bare_constants = False
    generations = (
        Generation(
            "experimental/token_position_decode_slo",
            "`median_ttft` beside `good_completed`",
            "median and p99 of ttft, tpot, e2el; rates, failures",
            "seconds without a unit in the name",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if any(map(is_decode_result, content.documents)) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:  # noqa: ARG002
        return read_documents(content.each(), lambda document, position: _reading(document, position, content.name))


def is_decode_result(document: object) -> bool:
    return isinstance(document, dict) and {"good_completed", "median_ttft", "input_throughput"} <= document.keys()


def _reading(document: Any, position: int, name: str) -> Reading:
    if not is_decode_result(document):
        raise RefusalError("not a result of this client, unlike others in the same file")
    seconds = {
        key: value
        for key in document
        if _SECONDS.fullmatch(key) and (value := fields.number(document, key)) is not None
    }
    as_vllm = {key: value for key, value in document.items() if not _SECONDS.fullmatch(key)}
    as_vllm |= {f"{key}_ms": value * 1000 for key, value in seconds.items()}
    del as_vllm["good_completed"]
    tokens = fields.count(document, "total_input_tokens")
    rate = fields.number(as_vllm, "input_throughput")
    del as_vllm["input_throughput"]
    reading = vllm_serve.normalise(as_vllm, position, with_samples=False)
    if rate is not None:
        plausibility.check_rate("input_throughput", rate, tokens, reading.duration)
    workload = dict(reading.workload)
    if tokens and reading.completed and tokens % reading.completed == 0:
        workload["input_len"] = tokens // reading.completed
    if named := _NAME.fullmatch(name):
        workload |= {"output_len": int(named["osl"]), "layout": named["layout"]}
    return replace(reading, workload=workload)
