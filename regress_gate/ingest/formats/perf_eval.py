"""Data that vllm-project/perf-eval sends to its dashboards: times in seconds, rates for each GPU.

Two layouts: the row of one result, and `perf_eval.json`, a dashboard's export of many nightlies, metric by metric. The
numbers come from `vllm bench serve`. vllm_serve.py reads its own result files, and refuses its medians over repeated
measurements.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.fields import time_from_iso
from regress_gate.ingest.formats.server_manifest import version_of_image
from regress_gate.ingest.formats.vllm_client import uniform_accelerator
from regress_gate.ingest.interface import (
    Certainty,
    Context,
    FileOutcome,
    Generation,
    Reading,
    UnusedResult,
    read_documents,
)
from regress_gate.measurement.plausibility import RefusalError, catalogue_statistics, check_in_flight, check_statistics
from regress_gate.text import excerpt, quoted

_STATISTIC = re.compile(r"(mean|median|p\d{1,2}(?:\.\d{1,3})?)_(ttft|tpot|itl|e2el)")
_RATES = {"output_tput_per_gpu": "output_throughput", "tput_per_gpu": "total_throughput"}
_TOLERANCE = 0.02
_MOST_GPUS = 100_000
_MANY = "may be a median over repeated measurements; the dashboard does not mark these"
_MAX_KEYS = 1000
"""Of one configuration; each of its rows gets all of them."""


class PerfEval:
    name = "perf-eval"
    tool = "vllm-project/perf-eval"
    bare_constants = False
    generations = (
        Generation(
            "the row of one result",
            "`device` and `tput_per_gpu`, without `hw`",
            "ttft, tpot, itl, e2el, output and total throughput",
            "seconds although vLLM writes ms; rates are multiplied by `tp`, the GPUs they were divided by; the version "
            "only from the image's tag",
        ),
        Generation(
            "`perf_eval.json` of its dashboard",
            "`models` with `perf_configs`",
            "the same of every nightly build",
            "rates only where the number of GPUs is stated; accuracy is left out; may be medians over repeats",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        first = content.documents[0] if content.documents else None
        if fields.is_list(first):
            first = first[0] if first else None
        return Certainty.SURE if _is_row(first) or _is_dashboard(first) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:  # noqa: ARG002
        return read_documents(_rows(content), _read)


def _is_row(data: object) -> bool:
    return isinstance(data, dict) and "tput_per_gpu" in data and "device" in data and "hw" not in data


def _is_dashboard(data: object) -> bool:
    models = data.get("models") if isinstance(data, dict) else None
    return fields.is_list(models) and any(isinstance(model, dict) and "perf_configs" in model for model in models)


def _rows(content: Content) -> Iterator[object]:
    """One flat object for each result, of either layout. Raises RefusalError for an invalid dashboard."""
    for document in content.each():
        if _is_dashboard(document):
            yield from _points(document)
        elif fields.is_list(document):
            yield from document
        else:
            yield document


def _points(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The metrics of a dashboard as a row for each build of each configuration."""
    builds = fields.obj(dashboard, "builds")
    for model in _objects(dashboard, "models"):
        for config in _objects(model, "perf_configs"):
            if len(config) > _MAX_KEYS:
                raise RefusalError(f"a configuration has {len(config)} keys, more than {_MAX_KEYS}")
            rows: dict[str, dict[str, Any]] = {}
            for name, metric in fields.obj(config, "metrics").items():
                for point in _objects(metric, "series") if isinstance(metric, dict) else ():
                    build = str(point.get("build", point.get("build_number", point.get("date"))))
                    row = rows.setdefault(build, {"run": f"build-{build}", **_identity(builds.get(build), point)})
                    row[name] = point.get("value")
            for row in rows.values():
                yield {**config, "model": model.get("model"), **row, "several": True}


def _identity(build: object, point: Mapping[str, Any]) -> dict[str, Any]:
    known = {**(build if isinstance(build, dict) else {}), **point}
    return {key: known.get(key) for key in ("vllm_commit", "image", "date", "completed_requests", "failed_requests")}


def _objects(data: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
    return (value for value in fields.items(data, key) if isinstance(value, dict))


def _read(row: object, position: int) -> Reading | UnusedResult:
    if not isinstance(row, dict):
        return UnusedResult(position, FileOutcome.REFUSED, "not a row of perf-eval, unlike others in the same file")
    try:
        return _normalise(row, position)
    except RefusalError as refusal:
        return UnusedResult(position, FileOutcome.REFUSED, str(refusal))


def _normalise(row: Mapping[str, Any], position: int) -> Reading:
    """Raises RefusalError with the reason when the row must not be used."""
    stated: dict[str, dict[str, float]] = {}
    for key in row:
        if (match := _STATISTIC.fullmatch(key)) and (value := fields.number(row, key)) is not None:
            stated.setdefault(match[2], {})[match[1]] = value
    latencies = catalogue_statistics(stated)
    notes = check_statistics(latencies, None)
    _check_own_sums(row)
    gpus, concurrency = _gpus(row), fields.count(row, "conc")
    rates: dict[str, float] = {}
    for key, name in _RATES.items():
        rate = fields.number(row, key)
        if rate is not None and rate <= 0:
            raise RefusalError(f"{key} is {rate:g}: nothing was measured")
        if rate is not None and gpus is not None:
            rates[name] = fields.required({key: rate * gpus}, key)
    if gpus is None:
        notes.append("throughput is for each GPU of an unknown number, and is left out")
    if not latencies and not rates:
        raise RefusalError("neither a latency nor a throughput is in it")
    osl = fields.count(row, "osl")
    if concurrency and osl and "output_throughput" in rates:
        check_in_flight(latencies, rates["output_throughput"] / osl, concurrency)
    completed, failed = fields.count(row, "completed_requests"), fields.count(row, "failed_requests")
    metrics = {
        f"{family}_{name}": value for family, statistics in latencies.items() for name, value in statistics.items()
    } | rates
    if completed == 0:
        raise RefusalError("no request succeeded: its numbers are not measurements")
    if completed is not None and failed is not None:
        metrics["failed_requests"] = failed / (completed + failed)
    if row.get("several"):
        notes.append(_MANY)
    return Reading(
        position=position,
        completed=completed,
        failed=failed or 0,
        duration=None,
        metrics=metrics,
        workload=_workload(row, concurrency, osl, gpus),
        started=time_from_iso(row.get("date")),
        metadata=_metadata(row),
        notes=tuple(notes),
    )


def _check_own_sums(row: Mapping[str, Any]) -> None:
    """Refuse a row whose numbers do not have the relations that perf-eval gives them."""
    rates = [fields.number(row, f"{name}tput_per_gpu") for name in ("", "input_", "output_")]
    total, *parts = rates
    if total and None not in parts and abs(total - sum(filter(None, parts))) > _TOLERANCE * abs(total):
        raise RefusalError(f"tput_per_gpu is {total:g}, not the sum of input and output: edited, or columns mixed up")
    for key in row:
        if not key.endswith("_tpot") or not _STATISTIC.fullmatch(key):
            continue
        tpot, speed = fields.number(row, key), fields.number(row, key.replace("tpot", "intvty"))
        if tpot and speed is not None and abs(tpot * speed - 1) > _TOLERANCE:
            raise RefusalError(f"{key} is {tpot:g} s, its inverse is said to be {speed:g}: wrong unit, or edited")


def _gpus(row: Mapping[str, Any]) -> int | None:
    """The number of GPUs by which the rates were divided: `tp` in a row, `gpus` in a dashboard."""
    gpus = fields.count(row, "tp") if "tp" in row else fields.count(row, "gpus")
    if gpus is not None and not 0 < gpus <= _MOST_GPUS:
        raise RefusalError(f"the number of GPUs is {gpus:g}")
    return gpus


def _workload(row: Mapping[str, Any], concurrency: int | None, osl: int | None, gpus: int | None) -> dict[str, Any]:
    model = fields.text(row, "model")
    facts: dict[str, Any] = {} if model is None else {"model": excerpt(model)}
    if concurrency is not None:
        facts["max_concurrency"] = concurrency
    stated = {"input_len": fields.count(row, "isl"), "output_len": osl, "gpus": gpus}
    facts |= {key: value for key, value in stated.items() if value is not None}
    if (precision := fields.text(row, "precision")) is not None:
        facts["precision"] = excerpt(precision)
    return facts


def _metadata(row: Mapping[str, Any]) -> dict[str, str]:
    metadata: dict[str, str] = {}
    commit, image = fields.text(row, "vllm_commit"), fields.text(row, "image")
    if commit is not None and not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        raise RefusalError(f"vllm_commit is {quoted(commit)}, not a commit")
    version = version_of_image(image)
    if commit is not None and (version is None or version.startswith("commit:")):
        version = f"commit:{commit}"
    if version is not None:
        metadata["vllm_version"] = version
    device = row.get("device")
    if (gpu := uniform_accelerator(device.upper() if isinstance(device, str) else None)) is not None:
        metadata["gpu_type"] = gpu
    if (run := row.get("run")) is not None:
        metadata["run"] = excerpt(str(run), 60)
    return metadata
