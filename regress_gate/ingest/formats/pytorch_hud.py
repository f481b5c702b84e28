"""vLLM's results in the form of PyTorch's benchmark database (`*.pytorch.json`): one record for each metric.

Every record of a benchmark run repeats its arguments and the rest of its result. The records are joined and read by the
reader of that benchmark. No other file of vLLM states the workload as completely as these arguments.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_client import add_client_definitions, workload_from_arguments
from regress_gate.ingest.formats.vllm_offline import VllmLatency, VllmStartup, VllmThroughput
from regress_gate.ingest.formats.vllm_serve import is_serve_result, read_object
from regress_gate.ingest.interface import Certainty, Context, FileOutcome, Generation, Reading, UnusedResult
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.text import excerpt, quoted

_VLLM = "vLLM benchmark"
_MAX_RECORDS = 1000
"""Of one run, which has a record for each of some sixty metrics."""
_STARTUP_PARTS = (".cold_startup", ".warm_startup", ".cold_compilation", ".warm_compilation")
_OFFLINE = (VllmLatency(), VllmThroughput(), VllmStartup())


class PytorchHud:
    name = "pytorch-hud"
    tool = "vllm bench"
    bare_constants = False
    generations = (
        Generation(
            "0.7.3 and later",
            "a list of records with `metric.benchmark_values`",
            "as `vllm bench serve`, `latency`, `throughput` or `startup`; lengths and dataset from the arguments",
            "records of one run are one result; skipped if the plain result lies beside it; records of other "
            "projects are refused",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        first = next(_records(content.documents), None)
        return Certainty.SURE if first is not None and _is_record(first) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        runs = groupby(_records(content.each()), key=_run)
        results: list[Reading | UnusedResult] = []
        seen: set[bytes] = set()
        for position, (run, records) in enumerate(runs):
            digest = hashlib.sha256(run.encode("utf-8", "surrogatepass")).digest()
            if run and digest in seen:
                why = "more records of a run that stands above in the same file: put the records of a run together"
                results.append(UnusedResult(position, FileOutcome.REFUSED, why))
            else:
                results.append(_read(position, list(islice(records, _MAX_RECORDS + 1)), context))
            seen.add(digest)
        if (plain := _plain_beside(content.name, context)) is not None:
            return [
                UnusedResult(result.position, FileOutcome.SKIPPED, f"a copy of {excerpt(plain)} beside it")
                for result in results
            ]
        return results


def _records(documents: Iterable[Any]) -> Iterator[Any]:
    """The records of a list, or of one JSON value for each record."""
    for document in documents:
        if fields.is_list(document):
            yield from document
        else:
            yield document


def _is_record(record: object) -> bool:
    metric = record.get("metric") if isinstance(record, dict) else None
    return isinstance(metric, dict) and "benchmark_values" in metric and "name" in metric


def _run(record: Any) -> str:
    """Equal for all records of one benchmark run: its arguments, its model, and the rest of its result."""
    if not _is_record(record):
        return ""
    try:
        parts = [record.get("benchmark"), record.get("model"), record["metric"].get("extra_info")]
        return json.dumps(parts, sort_keys=True)
    except RecursionError:
        raise RefusalError("nested too deeply for a record") from None


def _plain_beside(name: str, context: Context) -> str | None:
    """The result beside a startup's records that has the same numbers; selection.py handles the other benchmarks."""
    stem = name.removesuffix(".pytorch.json")
    for part in _STARTUP_PARTS:
        if stem.endswith(part) and context.is_beside(plain := stem.removesuffix(part) + ".json"):
            return plain
    return None


def _read(position: int, records: list[Any], context: Context) -> Reading | UnusedResult:
    try:
        data, arguments = _rebuilt(records)
        read = _reader_of(data, context)
        result = read(data, position)
        if isinstance(result, UnusedResult):
            return result
        if arguments.get("dataset_name") != "random":
            # Defaults are written even if the benchmark did not use them.
            arguments = {key: value for key, value in arguments.items() if not key.startswith("random_")}
        facts = workload_from_arguments(arguments)
        model = fields.text(fields.obj(records[0], "model"), "name")
        if model is not None:
            facts["model"] = excerpt(model)
    except RefusalError as refusal:
        return UnusedResult(position, FileOutcome.REFUSED, str(refusal))
    workload = {**result.workload, **{key: value for key, value in facts.items() if key not in result.workload}}
    reading = replace(result, workload=workload)
    return add_client_definitions(reading, context) if is_serve_result(data) else reading


def _rebuilt(records: list[Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The result object that the benchmark wrote, and its arguments. Raises RefusalError."""
    if not _is_record(records[0]):
        raise RefusalError("not a record with a metric and its benchmark_values, unlike others in the same file")
    if len(records) > _MAX_RECORDS:
        raise RefusalError(f"more than {_MAX_RECORDS} records of one run: several runs are mixed")
    benchmark = fields.obj(records[0], "benchmark")
    if (name := fields.text(benchmark, "name")) != _VLLM:
        raise RefusalError(f"a record of the benchmark {quoted(name)}; only those of {_VLLM!r} are read")
    data = dict(fields.obj(records[0]["metric"], "extra_info"))
    for record in records:
        metric = record["metric"]
        name, values = metric["name"], metric["benchmark_values"]
        if not isinstance(name, str) or name in data:
            raise RefusalError(f"metric {quoted(name)} stands twice in one result: several runs are mixed")
        if name == "latency":
            data["latencies"] = values
        elif not fields.is_list(values):
            data[name] = values
        elif len(values) == 1:
            data[name] = values[0]
        else:
            raise RefusalError(f"{excerpt(name)} has {len(values)} values: an aggregate of several runs")
    return data, fields.obj(fields.obj(benchmark, "extra_info"), "args")


def _reader_of(data: Mapping[str, Any], context: Context) -> Callable[[object, int], Reading | UnusedResult]:
    """The reader of the benchmark with these keys. Raises RefusalError if there is none."""
    if is_serve_result(data):
        return lambda value, position: read_object(value, position, with_samples=context.with_samples)
    for reader in _OFFLINE:
        if reader.is_result(data):
            return reader.read_value
    names = ", ".join(excerpt(str(key), 40) for key in list(data)[:5])
    raise RefusalError(f"no result of vllm bench serve, latency, throughput or startup has only {names}")
