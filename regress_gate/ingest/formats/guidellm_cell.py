"""One benchmark of a GuideLLM report, of any layout: its workload, and its numbers as a reading.

GuideLLM's names mislead: its inter-token latency is a time per output token (weighted by tokens); its time per output
token is (last token − first token) / tokens up to 0.3 and (last token − start of request) / tokens from 0.4 on; of its
rates only the mean is a rate of the run; its attainment leaves out requests without a value for an objective. If the
times of all requests are known, the statistics are made from them by vLLM's definitions. Checked against the source of
0.2.1, 0.3.1, 0.4.0, 0.5.4, 0.6.0, 0.7.1 and 0.8.1.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from math import isfinite
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.interface import Reading, reading_from_requests
from regress_gate.measurement import plausibility
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.totals import MeasuredRequest
from regress_gate.text import excerpt, plural, quoted

REQUESTS = "guidellm-requests"
"""Definitions of statistics made from the times of each request."""
_TOLERANCE = 0.02
_VERSION = re.compile(r"(?:guidellm[ =]*)?v?(\d{1,4})\.(\d{1,4})\b.*", re.IGNORECASE)
_CELL_RATES = ("request_throughput", "output_throughput", "total_throughput")

Object = Mapping[str, Any]


class Era(Enum):
    """Releases with the same layout and the same meaning of their time per output token."""

    EARLY = "tpot_per_token"
    LATER = "normalized_latency"
    UNKNOWN = "unclear_tpot"

    @property
    def releases(self) -> str:
        return {Era.EARLY: "0.2 and 0.3", Era.LATER: "0.4 and later"}.get(self, "an unknown release")


@dataclass(frozen=True, slots=True)
class Cell:
    """What a file states about one benchmark. Times in seconds, of requests that succeeded unless noted otherwise."""

    era: Era
    completed: int
    errored: int
    incomplete: int
    """Cut off when the benchmark ended."""
    duration: float
    trimmed: bool
    """Whether requests of a warm-up or cool-down are left out, so that counts differ from rate × duration."""
    statistics: Mapping[str, Mapping[str, float]]
    """By the catalogue's families and statistics; GuideLLM's own time per output token is `own_tpot`."""
    rates: Mapping[str, float]
    """Means, by the catalogue's names."""
    input_tokens: float | None
    """Mean of a request."""
    output_tokens: float | None
    workload: Mapping[str, Any]
    attainment: float | None = None
    """The share of `determined` requests that met the objectives; None if there were none."""
    determined: int | None = None
    """Requests with a value for every objective, and those that failed; None if not stated."""
    requests: Sequence[MeasuredRequest] | None = None
    """All that succeeded in the measured time; None if the file does not hold all of them."""
    started: datetime | None = None
    client: str | None = None
    notes: tuple[str, ...] = ()


def reading_of_cell(cell: Cell, position: int, *, with_samples: bool) -> Reading:
    """Raises RefusalError with the reason when the cell must not be used."""
    if not cell.completed:
        raise RefusalError(f"no request succeeded ({cell.errored} failed): look at the server's log")
    if cell.duration <= 0:
        raise RefusalError(f"its duration is {cell.duration:g} s")
    # In early releases the rate has its own time span if some requests failed.
    if not cell.trimmed and (cell.era is not Era.EARLY or not cell.errored + cell.incomplete):
        stated = cell.rates.get("request_throughput")
        if stated is not None:
            plausibility.check_rate("requests_per_second", stated, cell.completed, cell.duration)
    made = _by_statistics(cell, position) if cell.requests is None else _by_requests(cell, position, with_samples)
    attained, notes = _attainment(cell)
    metrics = {**made.metrics, **_rates(cell), **attained}
    workload = {**cell.workload, "mean_input_tokens": cell.input_tokens, "mean_output_tokens": cell.output_tokens}
    return replace(
        made,
        metrics=metrics,
        workload={key: value for key, value in workload.items() if value is not None or key not in _MEASURED},
        started=cell.started,
        metadata={} if cell.client is None else {"client_version": cell.client},
        notes=(*made.notes, *cell.notes, *_cut_off(cell), *notes),
    )


_MEASURED = ("mean_input_tokens", "mean_output_tokens")


def _rates(cell: Cell) -> dict[str, float]:
    """Counts divided by the duration; the stated rates if warm-up or cool-down are left out.

    Up to 0.7 the stated token rates are over the time from the first to the last token, which is shorter.
    """
    for name, tokens in (("prompt_token_count", cell.input_tokens), ("output_token_count", cell.output_tokens)):
        if tokens is not None and tokens < 0:
            raise RefusalError(f"{name} is {tokens:g}")
    if cell.trimmed:
        rates = {name: rate for name, rate in cell.rates.items() if name in _CELL_RATES and rate}
    else:
        rates = {"request_throughput": cell.completed / cell.duration}
        if cell.output_tokens:
            rates["output_throughput"] = cell.completed * cell.output_tokens / cell.duration
            if cell.input_tokens is not None:
                rates["total_throughput"] = cell.completed * (cell.input_tokens + cell.output_tokens) / cell.duration
    for name, rate in rates.items():
        plausibility.check_rate(name, rate, None, None)
    goodput, limit = cell.rates.get("goodput"), rates.get("request_throughput", 0.0)
    if goodput is not None and not 0 <= goodput <= limit * (1 + _TOLERANCE):
        raise RefusalError(f"request_goodput is {goodput:g}, throughput {limit:g}")
    if not all(map(isfinite, rates.values())):
        raise RefusalError(f"its rates are without bounds: {cell.completed} requests in {cell.duration:g} s")
    return rates if goodput is None else {**rates, "goodput": goodput}


def _attainment(cell: Cell) -> tuple[dict[str, float], list[str]]:
    """The attainment as stated, and a note if it is not of all requests."""
    if cell.attainment is None:
        return {}, []
    sent, determined = cell.completed + cell.errored, cell.determined
    if not 0 <= cell.attainment <= 1:
        raise RefusalError(f"slo_attainment is {cell.attainment:g}, which is no share")
    if determined is not None and not max(cell.errored, 1) <= determined <= sent:
        raise RefusalError(f"slo_determined_requests is {determined}, of {plural(sent, 'request')}")
    if cell.attainment * (sent if determined is None else determined) > cell.completed * (1 + _TOLERANCE):
        raise RefusalError(f"slo_attainment is {cell.attainment:g}, but {cell.errored} of {sent} requests failed")
    notes = []
    if determined is None:
        notes.append("does not say of how many requests its attainment is")
    elif determined < sent:
        left_out = plural(sent - determined, "request")
        notes.append(f"{left_out} without a value for an objective: neither met nor missed in determined_attainment")
    return {"determined_attainment": cell.attainment}, notes


def objectives(stated: Object) -> dict[str, Any]:
    """The objectives as those of our workloads, in seconds: `{"slo": {"ttft": 0.5}}`; empty without any."""
    limits = {name: fields.number(stated, f"{name}_ms") for name in ("ttft", "tpot", "e2el")}
    found = {name: limit / 1000 for name, limit in limits.items() if limit is not None}
    return {"slo": found} if found else {}


def _by_requests(cell: Cell, position: int, with_samples: bool) -> Reading:
    requests = cell.requests or ()
    limit = None if cell.trimmed else cell.workload.get("max_concurrency")
    made = reading_from_requests(
        requests, cell.errored, cell.duration, limit, position=position, with_samples=with_samples
    )
    tokens = sum(request.output_tokens - 1 for request in requests if request.output_tokens > 1)
    weighted = sum(request.e2el - request.ttft for request in requests if request.output_tokens > 1)
    _check("ttft", cell, made.metrics.get("ttft_mean"))
    _check("tpot", cell, weighted / tokens if tokens else None)
    # Its requests end with their connection, after the last token.
    _check("e2el", cell, made.metrics.get("e2el_mean"), may_be_longer=True)
    return replace(made, definitions=REQUESTS)


def _check(family: str, cell: Cell, own: float | None, *, may_be_longer: bool = False) -> None:
    """Refuse a stated mean that is not that of the file's own requests."""
    stated = cell.statistics.get(family, {}).get("mean")
    if stated is None or own is None:
        return
    if stated < own * (1 - _TOLERANCE) or (stated > own * (1 + _TOLERANCE) and not may_be_longer):
        raise RefusalError(
            f"the mean {_OWN_NAMES[family]} is {stated * 1000:.4g} ms, of its own requests {own * 1000:.4g} ms: "
            "wrong unit, or the file was edited"
        )


_OWN_NAMES = {"ttft": "time to first token", "tpot": "inter-token latency", "e2el": "request latency"}


def _by_statistics(cell: Cell, position: int) -> Reading:
    own_tpot = {cell.era.value: cell.statistics.get("own_tpot", {})}
    stated = {**cell.statistics, **own_tpot}
    notes: list[str] = []
    if not any(stated.get("ttft", {}).values()) and any(stated.get("e2el", {}).values()):
        stated = {family: statistics for family, statistics in stated.items() if family not in ("ttft", "tpot")}
        notes.append("no time to first token: answers were not streamed")
    latencies = plausibility.catalogue_statistics(stated)
    notes += plausibility.check_statistics(latencies, cell.duration)
    limit = cell.workload.get("max_concurrency")
    if limit is not None and not cell.trimmed:
        plausibility.check_in_flight(latencies, cell.completed / cell.duration, limit)
    if Era.UNKNOWN.value in latencies:
        notes.append(
            "the meaning of its time per output token depends on the release, which the file does not say: give "
            "--client-version; until then it is unclear_tpot and does not gate"
        )
    metrics = plausibility.metrics_by_name(latencies)
    metrics["failed_requests"] = cell.errored / (cell.completed + cell.errored)
    notes += plausibility.failure_notes(cell.completed, cell.errored)
    return Reading(
        position=position,
        completed=cell.completed,
        failed=cell.errored,
        duration=cell.duration,
        metrics=metrics,
        workload={},
        definitions="guidellm",
        notes=tuple(notes),
    )


def _cut_off(cell: Cell) -> list[str]:
    if not cell.incomplete:
        return []
    return [f"{plural(cell.incomplete, 'request')} cut off at the end: in no number, and no failures"]


def era_of(layout_era: Era, client_version: str | None) -> Era:
    """The era of a layout; if the layout does not decide it, the era of the release that the user gave.

    Raises RefusalError if the two contradict each other.
    """
    match = _VERSION.fullmatch(client_version or "")
    if match is None:
        return layout_era
    era = Era.EARLY if (int(match[1]), int(match[2])) < (0, 4) else Era.LATER
    if layout_era not in (Era.UNKNOWN, era):
        raise RefusalError(
            f"--client-version is {quoted(client_version)}, but this is the layout of {layout_era.releases}"
        )
    return era


_LENGTHS = {
    "input_len": "prompt_tokens",
    "output_len": "output_tokens",
    "input_len_stddev": "prompt_tokens_stdev",
    "output_len_stddev": "output_tokens_stdev",
}
_MEANS = ("input_len", "output_len")


@dataclass(frozen=True, slots=True)
class RequestedLoad:
    """What a benchmark was asked to send, from the configuration in its report; empty where not stated."""

    strategy: Object
    """How requests were sent: `{type_: concurrent, streams: 4}`."""
    profile: Object
    """The strategy is one step of it."""
    model: str | None
    constraints: Object = field(default_factory=dict)
    """The limits that end it, by name: numbers up to 0.3, later objects."""
    data: Any = None
    """The source of the prompts: a text, or a list of sources from 0.7 on."""


def guidellm_workload(load: RequestedLoad) -> tuple[dict[str, Any], list[str]]:
    """The workload, and notes. Raises RefusalError for values that no release writes."""
    workload: dict[str, Any] = {}
    if load.model is not None:
        workload["model"] = excerpt(load.model)
    kind = fields.text(load.strategy, "type_")
    if kind is None:
        return workload | _end(load.constraints) | _data(load.data), ["does not say how requests were sent"]
    workload |= _sending(kind, load)
    notes = []
    if "sweep" in (load.profile.get("type_"), load.profile.get("kind")) and kind in ("constant", "poisson"):
        notes.append("its rate was chosen by a sweep from what the server could do: another run has other rates")
    return workload | _end(load.constraints) | _data(load.data), notes


def _sending(kind: str, load: RequestedLoad) -> dict[str, Any]:
    if kind == "synchronous":
        return {"request_rate": None, "max_concurrency": 1}
    if kind == "concurrent":
        streams = fields.count(load.strategy, "streams")
        return {"request_rate": None} | ({} if streams is None else {"max_concurrency": _positive("streams", streams)})
    # The limit of the strategy is that of the scheduler, not the one that the user gave.
    limit = fields.count(load.profile, "max_concurrency")
    if kind == "throughput":
        return {"request_rate": None, "max_concurrency": limit}
    if kind in ("constant", "poisson"):
        rate = fields.number(load.strategy, "rate")
        stated = {} if rate is None else {"request_rate": _positive("rate", rate)}
        return stated | {"max_concurrency": limit} | ({"arrival": kind} if kind == "constant" else {})
    return {"arrival": excerpt(kind, 40)}


def _positive(key: str, value: float) -> float:
    if value <= 0:
        raise RefusalError(f"{key} is {quoted(value)}")
    return value


def _end(constraints: Object) -> dict[str, Any]:
    """The limits on requests and seconds."""
    limits: dict[str, Any] = {}
    requests = _limit(constraints, ("max_requests", "max_number"), ("max_num", "count"))
    seconds = _limit(constraints, ("max_seconds", "max_duration"), ("max_duration", "max_seconds", "seconds"))
    if requests is not None:
        limits["num_prompts"] = fields.count({"max_requests": requests}, "max_requests")
    if seconds is not None:
        limits["seconds"] = seconds
    return limits


def _limit(constraints: Object, names: tuple[str, ...], keys: tuple[str, ...]) -> float | None:
    """The number of one constraint; of a list, the number of this step."""
    name = next((name for name in names if constraints.get(name) is not None), None)
    if name is None:
        return None
    if not isinstance(constraints[name], dict):
        return fields.number(constraints, name)
    outer: Object = constraints[name]
    inner = fields.obj(outer, "args") or outer
    key = next((key for key in keys if inner.get(key) is not None), None)
    if key is None:
        return None
    if fields.is_list(inner[key]):
        turn = max(fields.count(outer, "current_index") or 0, 0) if outer.get("current_index") != -1 else 0
        values = inner[key]
        return fields.number({key: values[min(turn, len(values) - 1)]}, key) if values else None
    return fields.number(inner, key)


def _data(data: Any) -> dict[str, Any]:
    """Lengths of synthetic prompts and answers, or the name of a dataset."""
    if fields.is_list(data):
        data = data[0] if len(data) == 1 else None
    if isinstance(data, dict):
        if data.get("kind") == "synthetic_text":
            stated = {name: fields.count(data, key) for name, key in _LENGTHS.items()}
            return _lengths(stated)
        data = data.get("path") or data.get("source")
    if not isinstance(data, str) or not data:
        return {}
    if "prompt_tokens" in data:
        matches = {name: re.search(rf"{key}[\"']?\s*[=:]\s*(\d{{1,9}})\b", data) for name, key in _LENGTHS.items()}
        return _lengths({name: int(match[1]) for name, match in matches.items() if match})
    return {"dataset": excerpt(re.split(r"[/\\]", data.strip("[]'\" "))[-1], 60)}


def _lengths(stated: Mapping[str, int | None]) -> dict[str, Any]:
    """The stated lengths; a deviation of 0 is left out."""
    return {name: length for name, length in stated.items() if length is not None and (length or name in _MEANS)}


def report_version(report: Object) -> str | None:
    """The release that wrote the report, as stated; releases before 0.5 do not state it."""
    version = fields.text(fields.obj(report, "metadata"), "guidellm_version")
    return None if version is None else f"guidellm {excerpt(version, 60)}"
