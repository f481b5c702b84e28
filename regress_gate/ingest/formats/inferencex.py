"""Reads InferenceX (InferenceMAX) aggregates: `agg_*.json`, one object or a list of them.

Each is a result of InferenceX's fork of vLLM's client: every `*_ms` is renamed and divided by 1000, throughputs are
divided by a number of GPUs, and TPOT is repeated as its inverse (`*_intvty`). Source: utils/process_result.py of
SemiAnalysisAI/InferenceX. The fork's own files have the format of vllm_serve. One beside its aggregate is skipped,
because the aggregate states version and machine; only the number of failed requests is taken from it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.server_manifest import version_of_image
from regress_gate.ingest.interface import Certainty, Context, Generation, Reading, UnusedResult, read_documents
from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import RefusalError, Summary, checked_metrics
from regress_gate.text import excerpt, is_valid_name, quoted

_LATENCY = re.compile(r"(mean|median|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)")
_TOLERANCE = 0.02
_AGENTIC = "total_tput_tps"
_PREFIX = "agg_"
_COUNTS = frozenset(("completed", "num_prompts", "request_throughput"))


class InferenceX:
    name = "inferencex"
    tool = "InferenceX"
    bare_constants = False
    generations = (
        Generation(
            "one node",
            "`tput_per_gpu`, `hw`, `tp`",
            "ttft, tpot, itl, e2el, output and total throughput",
            "seconds without a unit in the name; throughput is per GPU and multiplied by `tp`; `*_intvty` is the "
            "inverse of tpot and used to check it; the version is the image's tag",
        ),
        Generation(
            "several nodes",
            "`is_multinode`",
            "the same",
            "each throughput has its own number of GPUs: prefill, decode, both",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if any(map(_is_aggregate, _objects(content.documents))) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        raw = _raw_beside(content, context)
        return read_documents(_objects(content.each()), lambda data, position: _reading(data, position, raw))


def _objects(documents: Iterable[Any]) -> Iterator[Any]:
    return (item for document in documents for item in (document if fields.is_list(document) else [document]))


def _is_aggregate(data: object) -> bool:
    return isinstance(data, dict) and {"tput_per_gpu", "hw", "framework"} <= data.keys()


def aggregate_beside(name: str, context: Context) -> str | None:
    """Name of the aggregate made from a result of the fork; None if none lies beside it."""
    beside = context.beside(other := _PREFIX + name)
    return other if beside is not None and any(map(_is_aggregate, _objects(beside.documents))) else None


def _raw_beside(content: Content, context: Context) -> Mapping[str, Any]:
    """The result from which the only aggregate of a file was made; empty if it is missing."""
    if not content.name.startswith(_PREFIX) or len(list(islice(_objects(content.documents), 2))) != 1:
        return {}
    beside = context.beside(content.name.removeprefix(_PREFIX))
    document = beside.documents[0] if beside is not None and len(beside.documents) == 1 else None
    return document if isinstance(document, dict) and document.keys() >= _COUNTS else {}


def _reading(data: Any, position: int, raw: Mapping[str, Any]) -> Reading:
    if not _is_aggregate(data):
        raise RefusalError("not an InferenceX aggregate, unlike others in the same file")
    framework = fields.text(data, "framework") or ""
    if "vllm" not in framework.lower():
        raise RefusalError(f"measures {quoted(framework)}, not vLLM")
    if _AGENTIC in data:
        raise RefusalError("an agentic run, made from an AIPerf export; import that export")
    latencies = _latencies(data)
    limit = fields.count(data, "conc")
    rates = _rates(data)
    completed, sent = fields.count(raw, "completed"), fields.count(raw, "num_prompts")
    failed = None if completed is None or sent is None else max(sent - completed, 0)
    summary = Summary(latencies, rates, completed=completed, failed=failed, max_concurrency=limit)
    metrics, notes = checked_metrics(summary)
    output_len = fields.count(data, "osl")
    if limit and output_len and "output_throughput" in rates:
        # Answers have at most osl tokens, so at least this many were in flight; too many mean a wrong number of GPUs.
        plausibility.check_in_flight(latencies, rates["output_throughput"] / output_len, limit)
    workload, metadata = _workload(data), _metadata(data)
    if "vllm_version" not in metadata:
        notes.append("its image does not name a vLLM version")
    return Reading(
        position=position,
        completed=completed,
        failed=failed or 0,
        duration=None,
        metrics=metrics,
        workload=workload,
        metadata=metadata,
        notes=tuple(notes),
    )


def _latencies(data: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    latencies: dict[str, dict[str, float]] = {}
    for key in data:
        if (match := _LATENCY.fullmatch(key)) is None or (value := fields.number(data, key)) is None:
            continue
        latencies.setdefault(match[2], {})[match[1]] = value
        inverse = fields.number(data, f"{match[1]}_intvty") if match[2] == "tpot" else None
        if inverse is not None and abs(value * inverse - 1) > _TOLERANCE:
            raise RefusalError(f"{match[1]}_intvty is {inverse:g}, {key} is {value:g} s: not each other's inverse")
    return latencies


def _rates(data: Mapping[str, Any]) -> dict[str, float]:
    """Throughput of the whole deployment: the stated rate times the number of GPUs it was divided by."""
    per_gpu = {kind: fields.required(data, f"{kind}tput_per_gpu") for kind in ("", "output_")}
    prefill, decode, both = _gpus(data)
    total, output = per_gpu[""] * both, per_gpu["output_"] * decode
    if (input_ := fields.number(data, "input_tput_per_gpu")) is not None:
        parts = input_ * prefill + output
        if abs(total - parts) > _TOLERANCE * max(total, parts):
            raise RefusalError(
                f"throughput is {total:g} tokens/s by tput_per_gpu and {parts:g} by its input and output parts: "
                "the numbers of GPUs are wrong, or it was edited"
            )
    rates = {"output_throughput": output, "total_throughput": total}
    return {name: fields.required(rates, name) for name in rates}


def _gpus(data: Mapping[str, Any]) -> tuple[int, int, int]:
    """The numbers of GPUs by which input, output and total throughput were divided."""
    if data.get("is_multinode") is not True:
        tp = _gpu_count(data, "tp")
        return tp, tp, tp
    prefill, decode = _gpu_count(data, "num_prefill_gpu"), _gpu_count(data, "num_decode_gpu")
    return prefill, decode, prefill + decode


def _gpu_count(data: Mapping[str, Any], key: str) -> int:
    if not (count := fields.count(data, key)):
        raise RefusalError(f"{key} is missing: throughput is per GPU, of how many is not known")
    return count


def _workload(data: Mapping[str, Any]) -> dict[str, Any]:
    """The workload and the layout of the server."""
    workload: dict[str, Any] = {}
    if (model := fields.text(data, "model")) is not None:
        workload["model"] = excerpt(model)
    if (limit := fields.count(data, "conc")) is not None:
        workload["max_concurrency"] = limit
    for name, key in (("input_len", "isl"), ("output_len", "osl")):
        if (length := fields.count(data, key)) is not None:
            workload[name] = length
    if (precision := fields.text(data, "precision")) is not None:
        workload["precision"] = excerpt(precision)
    if data.get("is_multinode") is True:
        workload["nodes"] = "+".join(
            f"{fields.count(data, f'{part}_num_workers')}x{fields.count(data, f'{part}_tp')}"
            for part in ("prefill", "decode")
        )
    elif (tp := fields.count(data, "tp")) is not None:
        workload["tp"] = tp
    if (ep := fields.count(data, "ep")) not in (None, 1):
        workload["ep"] = ep
    if data.get("dp_attention") in (True, "true"):
        workload["dp_attention"] = "true"
    speculative = data.get("spec_decoding", data.get("mtp"))
    if isinstance(speculative, str) and speculative not in ("", "none", "off"):
        workload["spec"] = excerpt(speculative)
    return workload


def _metadata(data: Mapping[str, Any]) -> dict[str, str]:
    metadata: dict[str, str] = {}
    if (version := version_of_image(fields.text(data, "image"))) is not None:
        metadata["vllm_version"] = version
    if (hardware := fields.text(data, "hw")) is not None and is_valid_name(hardware):
        metadata["accelerator"] = hardware
    return metadata
