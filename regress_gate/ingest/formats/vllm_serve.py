"""Results of `vllm bench serve` and of its predecessor `benchmarks/benchmark_serving.py`, of all releases.

A file holds one JSON object, or several one after another (`--append-result`). docs/importing.md lists what each
release writes. Formats with the same keys (sweeps, console text) pass their objects to `normalise`.

The `summary.json` of a `vllm bench sweep` cell is the list of its runs, for folders without the single `run=N.json`
files. Those are ordinary results with `run_number`; selection.py then skips the summary beside them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from regress_gate.ingest import fields
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.inferencex import aggregate_beside
from regress_gate.ingest.formats.vllm_client import add_client_definitions, add_commands, read_commands
from regress_gate.ingest.identity import IDENTITY_KEYS
from regress_gate.ingest.interface import (
    Certainty,
    Context,
    FileOutcome,
    Generation,
    Reading,
    UnusedResult,
    read_documents,
)
from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.totals import LoadTotals
from regress_gate.text import excerpt, quoted

if TYPE_CHECKING:
    from regress_gate.measurement.request_statistics import RequestStatistics


# Keys that the client writes. All other top-level keys of a sweep's result are swept parameters.
_CLIENT_KEYS = frozenset(
    """
    date endpoint_type backend label model_id tokenizer_id best_of use_beam_search num_prompts request_rate
    burstiness max_concurrency ramp_up_strategy ramp_up_start_rps ramp_up_end_rps rps_change_events duration
    completed failed total_input_tokens total_output_tokens request_throughput request_goodput request_goodput:
    output_throughput total_token_throughput input_lens output_lens ttfts itls generated_texts errors start_times
    latencies queue_times server_queue_times server_ttfts max_output_tokens_per_s max_concurrent_requests rtfx
    total_input_sequences input_sequence_throughput run_number
    """.split()  # noqa: SIM905 - a list would take a page
)
_CLIENT_KEY_PATTERN = re.compile(r".*_ms|spec_decode_.*|diffusion_.*|probe_.*")


def workload_of(data: Mapping[str, Any], totals: LoadTotals, *, sweep: bool) -> dict[str, Any]:
    """The workload. Raises RefusalError for values that no client writes. `sweep`: include the swept parameters."""
    workload: dict[str, Any] = {}
    if (model := fields.text(data, "model_id")) is not None:
        workload["model"] = excerpt(model)
    if "request_rate" in data:
        workload["request_rate"] = _request_rate(data)
    # Clients before 0.6.4 have no limit and do not write the key; console text without it may have been cut.
    if "max_concurrency" in data or not totals.rounding:
        workload["max_concurrency"] = totals.max_concurrency
    if totals.num_prompts is not None:
        workload["num_prompts"] = totals.num_prompts
    if (burstiness := fields.number(data, "burstiness")) is not None:
        if burstiness <= 0:
            raise RefusalError(f"burstiness is {burstiness:g}")
        workload["burstiness"] = burstiness
    if (strategy := fields.text(data, "ramp_up_strategy")) is not None:
        workload["ramp_up_strategy"] = excerpt(strategy)
        for key in ("ramp_up_start_rps", "ramp_up_end_rps"):
            workload[key] = fields.number(data, key)
    for name, total in (("input", totals.input_tokens), ("output", totals.output_tokens)):
        if total is not None:
            workload[f"mean_{name}_tokens"] = total / totals.completed
    if sweep:
        swept = {key: data[key] for key in sorted(_swept_keys(data))}
        workload |= {key: excerpt(value) if isinstance(value, str) else value for key, value in swept.items()}
    return workload


def _request_rate(data: Mapping[str, Any]) -> float | None:
    if data["request_rate"] == "inf":
        return None
    rate = fields.number(data, "request_rate")
    if rate is None or rate <= 0:
        raise RefusalError(f'request_rate is {quoted(data["request_rate"])}, neither a positive number nor "inf"')
    return rate


def _swept_keys(data: Mapping[str, Any]) -> list[str]:
    scalar = (str, int, float, bool)
    return [
        key
        for key, value in data.items()
        if isinstance(value, scalar)
        and key.isidentifier()
        and key not in _CLIENT_KEYS
        and key not in IDENTITY_KEYS
        and not _CLIENT_KEY_PATTERN.fullmatch(key)
    ]


def sweep_trial(data: Mapping[str, Any]) -> int:
    """The ordinal of the pass in a cell of a sweep, counted from 1."""
    number = fields.count(data, "run_number")
    if number is None:
        raise RefusalError("run_number is missing")
    return number + 1


def metadata_of(data: Mapping[str, Any], unknown: tuple[str, ...]) -> dict[str, str]:
    """Texts from `--metadata key=value`. `unknown`: the top-level keys that the client does not write itself."""
    return {key: value for key in unknown if isinstance(value := data[key], str)}


def unknown_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in keys if key not in _CLIENT_KEYS)


REQUEST_ARRAYS = ("ttfts", "itls", "output_lens")
"""Single requests can be read only if all of these arrays exist."""


def has_request_arrays(data: Mapping[str, Any]) -> bool:
    return all(fields.is_list(data.get(key)) for key in REQUEST_ARRAYS)


_SCALAR = re.compile(r"(mean|median|p\d+(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms")
_DATE = re.compile(r"[0-9]{8}-[0-9]{6}")
_NO_UNIT = re.compile(r"(?:mean|median|p\d+(?:\.\d+)?)_(?:ttft|tpot|itl|e2el)")


def is_serve_result(document: object) -> bool:
    """Whether a JSON value is an object of this format, usable or not."""
    return (
        isinstance(document, dict)
        and "request_throughput" in document
        and not isinstance(document["request_throughput"], dict)
        and ("model_id" in document or "num_prompts" in document)
        and "mean_e2e_latency_ms" not in document
        and "good_completed" not in document  # InferenceX's decode experiment: seconds
    )


class VllmServe:
    name = "vllm-serve"
    tool = "vllm bench serve"
    bare_constants = False
    generations = (
        Generation(
            "script up to 0.6.2",
            "`best_of` and `use_beam_search`",
            "ttft, tpot, itl, e2el, rates, failures; single requests",
            "mean and median e2el are written swapped: recomputed from the arrays, else swapped back",
        ),
        Generation(
            "0.6.4 to 0.9",
            "`request_goodput:` with a colon",
            "the same, and goodput",
            "no `failed` before 0.11.1: failures from `errors`, else `num_prompts` − `completed`",
        ),
        Generation(
            "0.9 and later",
            "`request_goodput`, `endpoint_type`",
            "the same; single requests with `--save-detailed`; several results with `--append-result`",
            "`latencies` and `queue_times` stay without details (0.30): not mistaken for samples",
        ),
        Generation("pooling models", "no ttft, tpot, itl", "e2el, rates, failures"),
    )

    def recognises(self, content: Content) -> Certainty:
        return Certainty.SURE if any(map(is_serve_result, content.documents)) else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        if _is_fork(content) and (aggregate := aggregate_beside(content.name, context)) is not None:
            return [
                UnusedResult(
                    0, FileOutcome.SKIPPED, f"{excerpt(aggregate)} beside it holds the same numbers, and says more"
                )
            ]
        commands = read_commands(content.name, context)
        return read_documents(
            content.each(),
            lambda document, place: add_client_definitions(
                add_commands(read_object(document, place, with_samples=context.with_samples), commands), context
            ),
        )


def _is_fork(content: Content) -> bool:
    """Whether it may come from InferenceX's fork, which still writes a key of 0.6 to 0.9."""
    return len(content.documents) == 1 and "request_goodput:" in content.documents[0]


def read_object(document: object, position: int, *, with_samples: bool) -> Reading | UnusedResult:
    """One JSON value of a file as a reading, or the reason why it is unused."""
    if not isinstance(document, dict) or not is_serve_result(document):
        return UnusedResult(
            position, FileOutcome.REFUSED, "not a vllm bench serve result, unlike others in the same file"
        )
    if (run_number := document.get("run_number")) == -1:
        return UnusedResult(position, FileOutcome.SKIPPED, "the warm-up of a sweep (run_number −1)")
    try:
        sweep = run_number is not None
        reading = normalise(document, position, with_samples=with_samples, sweep=sweep)
    except RefusalError as refusal:
        return UnusedResult(position, FileOutcome.REFUSED, str(refusal))
    return reading


def normalise(
    data: Mapping[str, Any], position: int, *, with_samples: bool, sweep: bool = False, printed: bool = False
) -> Reading:
    """A result object as a reading. `printed`: the numbers were rounded to two decimals for the console.

    Raises RefusalError with the reason when the object must not be used.
    """
    if "aggregation_method" in data:
        how = quoted(data["aggregation_method"])
        raise RefusalError(f"an aggregate over repeats ({how}), not one measurement; import the single repeats instead")
    keys = _classify_keys(tuple(data))
    if (bare := keys.without_unit) is not None:
        raise RefusalError(f"{bare} has no unit in its name (InferenceX writes seconds); import the client's own file")
    totals = _totals(data, printed)
    notes: list[str] = []
    statistics = _statistics(data, totals.completed) if totals.completed and has_request_arrays(data) else None
    failed, failed_known = _failed(data, totals, statistics)
    plausibility.check_counts(totals, failed)
    stated = _stated_latencies(data, keys.latencies)
    if swapped := "best_of" in data and "use_beam_search" in data:
        stated = _unswapped(stated)
    if statistics is None:
        latencies = plausibility.catalogue_statistics(stated)
        if swapped and stated.get("e2el"):
            notes.append("mean and median e2el are swapped back: this client (0.6.2 and earlier) wrote them so")
    else:
        # With numpy, which statistics without requests do without.
        from regress_gate.ingest.formats.vllm_serve_arrays import checked_latencies

        plausibility.check_output_tokens(totals, int(statistics.samples.output_tokens[statistics.samples.ok].sum()))
        latencies = checked_latencies(statistics, stated, may_be_swapped=swapped)
    notes += plausibility.check_latencies(latencies, totals)
    metrics = plausibility.metrics_by_name(latencies)
    metrics |= plausibility.throughput_metrics(totals)
    if failed_known:
        metrics["failed_requests"] = failed / (totals.completed + failed)
    else:
        notes.append("does not say how many requests failed")
    notes += plausibility.failure_notes(totals.completed, failed)
    if not latencies:
        notes.append("no latencies in it")
    started = _started(data, notes)
    return Reading(
        position=position,
        completed=totals.completed,
        failed=failed,
        duration=totals.duration,
        metrics=metrics,
        workload=workload_of(data, totals, sweep=sweep),
        started=started,
        samples=statistics.samples if statistics and with_samples else None,
        metadata=metadata_of(data, keys.unknown),
        trial=sweep_trial(data) if sweep else None,
        notes=tuple(notes),
    )


def _totals(data: Mapping[str, Any], printed: bool) -> LoadTotals:
    completed = fields.count(data, "completed")
    if completed is None:
        raise RefusalError("completed is missing: how many requests succeeded is not known")
    goodput = fields.number(data, "request_goodput")
    return LoadTotals(
        completed=completed,
        num_prompts=fields.count(data, "num_prompts"),
        duration=fields.required(data, "duration"),
        input_tokens=fields.count(data, "total_input_tokens"),
        output_tokens=fields.count(data, "total_output_tokens"),
        max_concurrency=fields.count(data, "max_concurrency"),
        request_throughput=fields.required(data, "request_throughput"),
        output_throughput=fields.number(data, "output_throughput"),
        total_throughput=fields.number(data, "total_token_throughput"),
        goodput=fields.number(data, "request_goodput:") if goodput is None else goodput,
        rounding=0.005 if printed else 0.0,
    )


def _statistics(data: Mapping[str, Any], completed: int) -> "RequestStatistics":
    # Imported here because it needs numpy, and files without details do not.
    from regress_gate.ingest.formats.vllm_serve_arrays import read_request_arrays

    return read_request_arrays(data, completed)


def _failed(data: Mapping[str, Any], totals: LoadTotals, statistics: "RequestStatistics | None") -> tuple[int, bool]:
    """The number of failed requests, and whether the file states it at all."""
    stated = fields.count(data, "failed")
    if statistics is not None:
        counted = len(statistics.samples) - totals.completed  # read_request_arrays has checked how many succeeded
        if stated is not None and stated != counted:
            raise RefusalError(f"failed says {stated}, the arrays hold {counted} failed requests: edited or cut")
        return counted, True
    if stated is not None:
        return stated, True
    errors = data.get("errors")
    if fields.is_list(errors) and len(errors) >= totals.completed > 0:
        return len(errors) - totals.completed, True
    if totals.num_prompts is not None:
        return max(totals.num_prompts - totals.completed, 0), True
    return 0, False


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a result, classified. Most files of an import have the same keys."""

    without_unit: str | None
    """The first statistic whose name has no unit."""
    latencies: tuple[tuple[str, str, str], ...]
    """Keys of statistics, each with its family and statistic."""
    unknown: tuple[str, ...]
    """Keys that the client does not write itself."""


@lru_cache(maxsize=64)
def _classify_keys(keys: tuple[str, ...]) -> _Keys:
    return _Keys(
        next((key for key in keys if _NO_UNIT.fullmatch(key)), None),
        tuple((key, match[2], match[1]) for key in keys if (match := _SCALAR.fullmatch(key))),
        unknown_keys(keys),
    )


def _stated_latencies(data: Mapping[str, Any], keys: tuple[tuple[str, str, str], ...]) -> dict[str, dict[str, float]]:
    """The stated statistics in seconds, by family, then by the statistic's name in the file."""
    latencies: dict[str, dict[str, float]] = {}
    for key, family, statistic in keys:
        if (value := fields.number(data, key)) is not None:
            latencies.setdefault(family, {})[statistic] = value / 1000
    return latencies


def _unswapped(stated: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Swap mean and median end-to-end latency back; releases up to 0.6.2 write each as the other."""
    other = {"mean": "median", "median": "mean"}
    swapped = {other.get(name, name): value for name, value in stated.get("e2el", {}).items()}
    return {**stated, "e2el": swapped} if swapped else stated


def _started(data: Mapping[str, Any], notes: list[str]) -> datetime | None:
    """The file's date, taken as UTC because it has no time zone. It may be off by the client's offset."""
    if (date := data.get("date")) is None:
        return None
    try:
        # In ISO 8601 with a T for the hyphen and a Z; strptime takes ten times as long, replacing the zone three times.
        if not _DATE.fullmatch(date):
            raise ValueError(date)
        return datetime.fromisoformat(f"{date.replace('-', 'T')}Z")
    except (ValueError, TypeError):
        notes.append(f"date {quoted(date)} is not a date and is left out")
        return None


class VllmSweepSummary:
    name = "vllm-sweep"
    tool = "vllm bench sweep"

    bare_constants = False
    generations = (
        Generation(
            "0.11.1 and later",
            "`run_number`",
            "as vllm-serve; each `run=N.json` is a trial",
            "summaries, warm-ups and failed runs beside the runs are skipped; swept parameters name the scenario",
        ),
    )

    def recognises(self, content: Content) -> Certainty:
        runs = _runs(content)
        ours = bool(runs) and all(is_serve_result(run) and "run_number" in run for run in runs)
        return Certainty.SURE if ours else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | UnusedResult]:
        return read_documents(
            _runs(content),
            lambda run, position: add_client_definitions(
                read_object(run, position, with_samples=context.with_samples), context
            ),
        )


def _runs(content: Content) -> Sequence[Any]:
    """The list in the file; empty for any other content."""
    only = content.documents[0] if len(content.documents) == 1 else None
    return only if fields.is_list(only) else []
