"""Results of SGLang's `bench_serving`: JSON lines, each a whole run, appended to the same file.

Its client derives from vLLM's, and after renaming three keys the same code reads it. Its clock differs: a request ends
with the last line of the stream (`[DONE]`) and not with the last token. So end-to-end latency and TPOT are taken as
stated, even if there are arrays of single requests. Its ITL is a gap between chunks or between tokens, depending on
backend and release.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_serve import REQUEST_ARRAYS, has_request_arrays, normalise
from regress_gate.ingest.interface import (
    Certainty,
    Context,
    FileOutcome,
    Generation,
    Reading,
    UnusedResult,
    read_documents,
)
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.text import excerpt, quoted

_E2E = re.compile(r"(mean|median|p\d+)_e2e_latency_ms")
_LATENCY = re.compile(r"(?:mean|median|p\d+)_(ttft|tpot|itl|e2el)_ms")
_NATIVE = ("sglang", "sglang-native")
"""Backends with SGLang's own protocol, in which each chunk states its number of tokens."""
_OPENAI = ("sglang-oai", "sglang-oai-chat")
_BY_CHUNK = "sglang-bench-serving"
_TOLERANCE = 0.02
_APPENDED = "one of several results of a file that the client appends to: older ones may be of another server"


class SglangBenchServing:
    name = "sglang-bench-serving"
    tool = "sglang bench_serving"
    bare_constants = True
    generations = (
        Generation(
            "0.4 to 0.5.2",
            "`mean_e2e_latency_ms`, no `server_info`",
            "ttft, tpot, itl, e2el, rates; failures and single requests with `--output-details`",
            "says neither model nor number of prompts; only the mean, the median and p99 of most",
        ),
        Generation(
            "0.5.5 and later",
            "`server_info` and `tag`",
            "the same, with p90 and p95 from 0.5.23, and goodput",
            "ITL with speculative decoding is spread over the tokens of a chunk: read as token_gap",
        ),
        Generation(
            "native backend",
            "`backend` is `sglang`",
            "the same",
            "ITL is spread over the tokens of a chunk: read as token_gap",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if any(map(_is_result, content.documents)) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        results = read_documents(content.each(), lambda document, position: _read(document, position, context))
        return results if len(results) == 1 else [_of_several(result) for result in results]


def _is_result(document: object) -> bool:
    return (
        isinstance(document, dict)
        and "request_throughput" in document
        and ("mean_e2e_latency_ms" in document or "median_e2e_latency_ms" in document)
    )


def _of_several(result: Reading | UnusedResult) -> Reading | UnusedResult:
    return result if isinstance(result, UnusedResult) else replace(result, notes=(*result.notes, _APPENDED))


def _read(document: Any, position: int, context: Context) -> Reading | UnusedResult:
    if not _is_result(document):
        return UnusedResult(position, FileOutcome.REFUSED, "not a bench_serving result, unlike others in the same file")
    try:
        return _reading(document, position, context)
    except RefusalError as refusal:
        return UnusedResult(position, FileOutcome.REFUSED, str(refusal))


def _reading(data: Mapping[str, Any], position: int, context: Context) -> Reading:
    stated = normalise(_scalars(data), position, with_samples=False)
    read = _with_arrays(data, stated, position, context.with_samples) if has_request_arrays(data) else stated
    gaps = _gaps(data)
    metrics = {
        name.replace("itl_", f"{gaps.family}_") if name.startswith("itl_") else name: value
        for name, value in read.metrics.items()
        if gaps.family is not None or not name.startswith("itl_")
    }
    return replace(
        read,
        metrics=metrics,
        workload=_workload(data, read.workload),
        definitions=gaps.definitions,
        metadata={},
        notes=(*read.notes, *gaps.notes, *_server(data)),
    )


def _scalars(data: Mapping[str, Any]) -> dict[str, Any]:
    """The result without its arrays, with vLLM's names for keys."""
    renamed = {"total_throughput": "total_token_throughput"}
    scalars = {
        renamed.get(key, f"{match[1]}_e2el_ms" if (match := _E2E.fullmatch(key)) else key): value
        for key, value in data.items()
        if key not in (*REQUEST_ARRAYS, "input_lens", "errors", "request_rate", "model_id")
    }
    if str(data.get("backend")).endswith("-embedding"):
        scalars = {key: value for key, value in scalars.items() if not _of_tokens(key)}
    return scalars


def _of_tokens(key: str) -> bool:
    """Whether the key is about output tokens and 0, as for embeddings."""
    match = _LATENCY.fullmatch(key)
    return key in ("total_output_tokens", "output_throughput") or (match is not None and match[1] != "e2el")


def _with_arrays(data: Mapping[str, Any], stated: Reading, position: int, with_samples: bool) -> Reading:
    """ttft, gaps, failures and samples from the arrays; what depends on the clock as stated.

    Refuses a file whose own statistics are not those of its arrays.
    """
    checked = {key: value for key, value in _scalars(data).items() if not _has_own_clock(key)}
    arrays = {key: data[key] for key in (*REQUEST_ARRAYS, "input_lens", "errors") if key in data}
    read = normalise(checked | arrays, position, with_samples=with_samples)
    for name, key in (("e2el_mean", "mean_e2e_latency_ms"), ("itl_mean", "mean_itl_ms")):
        mean, own = stated.metrics.get(name), read.metrics.get(name)
        if mean is None or own is None or (name == "itl_mean" and _is_speculative(data)):
            continue
        # The stream ends after its last chunk, and its end is not in the arrays.
        too_long = name == "itl_mean" and mean > own * (1 + _TOLERANCE)
        if mean < own * (1 - _TOLERANCE) or too_long:
            raise RefusalError(
                f"{key} says {mean * 1000:g}, its own samples say {own * 1000:g}: wrong unit, or the file was edited"
            )
    as_stated = {name: value for name, value in stated.metrics.items() if name.startswith(("tpot_", "e2el_"))}
    by_arrays = {name: value for name, value in read.metrics.items() if not name.startswith(("tpot_", "e2el_"))}
    return replace(read, metrics=by_arrays | as_stated)


def _has_own_clock(key: str) -> bool:
    match = _LATENCY.fullmatch(key)
    return match is not None and match[1] != "ttft"


def _is_speculative(data: Mapping[str, Any]) -> bool:
    """Whether gaps between tokens are stated, as since 0.5.5, by encoding the text of each chunk again."""
    return (fields.number(data, "accept_length") or 0) > 0 and data.get("backend") in _OPENAI


@dataclass(frozen=True, slots=True)
class _Gaps:
    """The meaning of the file's ITL."""

    family: str | None
    """Its family in the catalogue; None if the file does not determine it."""
    definitions: str
    notes: tuple[str, ...] = ()


def _gaps(data: Mapping[str, Any]) -> _Gaps:
    if data.get("backend") in _NATIVE:
        return _Gaps("token_gap", "sglang-bench-serving-native")
    if not _is_speculative(data):
        return _Gaps("itl", _BY_CHUNK)
    if has_request_arrays(data):
        return _Gaps("itl", _BY_CHUNK, ("itl is by the arrays: the file's own is spread over the tokens of a chunk",))
    if "server_info" in data:
        return _Gaps("token_gap", "sglang-bench-serving-retokenised")
    return _Gaps(None, _BY_CHUNK, ("itl is left out: with accept_length above 0 it may be by chunk or by token",))


def _workload(data: Mapping[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    workload: dict[str, Any] = {}
    if (model := fields.text(_server_info(data), "model_path")) is not None:
        workload["model"] = excerpt(model)
    rate = data.get("request_rate")
    if rate == "trace":
        workload["arrival"] = "trace"
    elif rate is not None:
        workload["request_rate"] = _rate(data)
    workload |= {
        key: read[key] for key in ("max_concurrency", "mean_input_tokens", "mean_output_tokens") if key in read
    }
    if (dataset := fields.text(data, "dataset_name")) is not None:
        workload["dataset"] = excerpt(dataset)
        if dataset.startswith("random"):
            stated = {"input_len": "random_input_len", "output_len": "random_output_len"}
            workload |= {name: value for name, key in stated.items() if (value := fields.count(data, key)) is not None}
            if (ratio := fields.number(data, "random_range_ratio")) is not None:
                workload["range_ratio"] = ratio
        elif (length := fields.count(data, "sharegpt_output_len")) is not None:
            workload["output_len"] = length
    return workload


def _rate(data: Mapping[str, Any]) -> float | None:
    """Requests per second; None (without limit) for a bare Infinity."""
    if data["request_rate"] in (math.inf, "inf"):
        return None
    rate = fields.required(data, "request_rate")
    if rate <= 0:
        raise RefusalError(f'request_rate is {quoted(rate)}, neither a positive number, nor Infinity, nor "trace"')
    return rate


def _server_info(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an SGLang server states about itself; other servers have no such page."""
    return fields.obj(data, "server_info")


def _server(data: Mapping[str, Any]) -> list[str]:
    if (version := _server_info(data).get("version")) is not None:
        return [f"server_info is of an SGLang server ({quoted(version)}), not of vLLM"]
    backend = data.get("backend")
    return [f"backend {quoted(backend)}: is the server vLLM?"] if backend in _NATIVE else []
