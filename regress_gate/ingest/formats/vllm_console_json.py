"""The printed numbers of `vllm bench serve` in the JSON of a harness, as text or key by key.

Rows with `request_throughput_req_s` (their keys are the printed labels), alone, in lists, or in phases; and records
with the whole printed block in one of their texts, as in ISO-Bench. Numbers have two decimals, as printed. Records
without the number of successful requests are refused.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_client import (
    add_client_definitions,
    parse_words,
    served_model,
    workload_from_arguments,
)
from regress_gate.ingest.formats.vllm_serve import normalise
from regress_gate.ingest.formats.vllm_serve_console import VllmServeConsole
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
from regress_gate.text import excerpt, is_valid_name, quoted

BANNER = "Serving Benchmark Result"
_MARK = "request_throughput_req_s"
_KEYS = {
    "successful_requests": "completed",
    "failed_requests": "failed",
    "benchmark_duration_s": "duration",
    "total_input_tokens": "total_input_tokens",
    "total_generated_tokens": "total_output_tokens",
    _MARK: "request_throughput",
    "output_token_throughput_tok_s": "output_throughput",
    "total_token_throughput_tok_s": "total_token_throughput",
}
_COMMITS = ("parent_commit", "parent_short", "commit_short", "human_commit")
"""Every record of ISO-Bench has one of these and `status`."""
_MAX_WORDS = 1000
_GOOD = ("success", "ok", "completed")


class VllmConsoleJson:
    name = "vllm-console-json"
    tool = "vllm bench serve"
    bare_constants = False
    generations = (
        Generation(
            "rows of a harness",
            "`metrics` with `request_throughput_req_s`",
            "means, medians and percentiles as printed, rates; model, lengths and dataset from `command`",
            "two decimals; which commit it is of has to be said; rows that are not `ok` are refused",
        ),
        Generation(
            "records that quote the printed block (ISO-Bench)",
            "a text with the banner `Serving Benchmark Result`; `status` and a commit",
            "as `vllm-serve-console`",
            "records without the number of successful requests are refused",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        if not content.documents:
            return Certainty.NO
        first = next(iter(_rows(content.documents[0])), None)
        if not isinstance(first, dict):
            return Certainty.NO
        if _MARK in _metrics(first) or _quotes(first):
            return Certainty.SURE
        return Certainty.LIKELY if "status" in first and any(key in first for key in _COMMITS) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        rows = (row for document in content.each() for row in _rows(document))
        return read_documents(rows, lambda row, place: _read(row, place, context))


def _rows(document: object) -> Iterator[object]:
    """Rows of a document: itself, its items, or those of its phases."""
    if fields.is_list(document):
        yield from document
    elif isinstance(document, dict) and fields.is_list(phases := document.get("phases")):
        for phase in phases:
            rows = phase.get("bench") if isinstance(phase, dict) else None
            for row in rows if fields.is_list(rows) else ():
                yield {"variant": phase.get("variant"), **row} if isinstance(row, dict) else row
    else:
        yield document


def _metrics(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object that holds the numbers: `metrics`, or the row itself."""
    metrics = row.get("metrics")
    return metrics if isinstance(metrics, dict) else row


def _quotes(row: Mapping[str, Any]) -> list[str]:
    return [value for value in row.values() if isinstance(value, str) and BANNER in value]


def _read(row: object, place: int, context: Context) -> Reading | UnusedResult:
    if not isinstance(row, dict):
        return UnusedResult(place, FileOutcome.REFUSED, "not a row of results, unlike others in the same file")
    try:
        _check_status(row)
        facts = _facts(row)
        texts = _quotes(row)
        if len(texts) > 1:
            raise RefusalError(f"quotes {len(texts)} printed results, of which one may be another version's")
        if texts:
            readings = VllmServeConsole().read(Content("", "", text=texts[0]), context)
            if len(readings) != 1:
                raise RefusalError(f"quotes a text with {len(readings)} printed results; put it into a file of its own")
            result = replace(readings[0], position=place)
        else:
            data = _translated(_metrics(row)) | _limits(row)
            result = add_client_definitions(normalise(data, place, with_samples=False, printed=True), context)
    except RefusalError as refusal:
        return UnusedResult(place, FileOutcome.REFUSED, str(refusal))
    return result if isinstance(result, UnusedResult) else replace(result, workload={**result.workload, **facts})


def _check_status(row: Mapping[str, Any]) -> None:
    status = row.get("status", "ok")
    if row.get("ok", True) is not True or status not in _GOOD:
        why = row.get("error") or row.get("detail") or row.get("skip_reason")
        reason = f": {excerpt(why, 120)}" if isinstance(why, str) else ""
        raise RefusalError(f"its {'status is ' + quoted(status) if 'status' in row else 'ok is false'}{reason}")


def _translated(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The keys as `vllm bench serve` saves them."""
    if "successful_requests" not in metrics:
        raise RefusalError("does not say how many requests succeeded, so its numbers may be the survivors'")
    data = {_KEYS.get(key, key): value for key, value in metrics.items()}
    return {key: value for key, value in data.items() if key in _KEYS.values() or key.endswith("_ms")}


def _command(row: Mapping[str, Any]) -> list[str]:
    words = row.get("command")
    if not fields.is_list(words) or not all(isinstance(word, str) for word in words[:_MAX_WORDS]):
        return []
    return list(words[:_MAX_WORDS])


def _limits(row: Mapping[str, Any]) -> dict[str, Any]:
    """The limits in the command, under the keys of a saved result."""
    options = parse_words(_command(row))
    limits: dict[str, Any] = {}
    for name in ("num_prompts", "max_concurrency", "request_rate"):
        text = options.get(name)
        if isinstance(text, str) and text.replace(".", "", 1).isdecimal() and text.isascii() and len(text) < 16:
            limits[name] = float(text)
    return limits


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    words = _command(row)
    options = parse_words(words)
    facts = workload_from_arguments(options)
    if (model := served_model(" ".join(words), options) or fields.text(row, "model")) is not None:
        facts["model"] = excerpt(model)
    if isinstance(variant := row.get("variant"), str) and is_valid_name(variant):
        facts["variant"] = variant
    return facts
