"""What a GuideLLM benchmark was asked to send, from the pieces of configuration that its reports hold.

JSON, YAML and CSV reports of all releases hold the same pieces in different places. Not for measured numbers.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regress_gate.ingest import fields
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.text import clean, shown

_LENGTHS = {
    "input_len": "prompt_tokens",
    "output_len": "output_tokens",
    "input_len_stddev": "prompt_tokens_stdev",
    "output_len_stddev": "output_tokens_stdev",
}
_MEANS = ("input_len", "output_len")
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """The pieces; an empty one where the report does not hold it."""

    strategy: Object
    """How requests were sent: `{type_: concurrent, streams: 4}`."""
    profile: Object
    """Of which the strategy is one step."""
    model: str | None
    constraints: Object = field(default_factory=dict)
    """When it ended, by name: up to 0.3 numbers, later objects."""
    data: Any = None
    """What was sent: a text, or a list of sources from 0.7 on."""


def workload_of(asked: Asked) -> tuple[dict[str, Any], list[str]]:
    """The workload, and notes. Raises RefusalError for what no release writes."""
    workload: dict[str, Any] = {}
    if asked.model is not None:
        workload["model"] = clean(asked.model)
    kind = fields.text(asked.strategy, "type_")
    if kind is None:
        return workload | _end(asked.constraints) | _data(asked.data), ["does not say how requests were sent"]
    workload |= _sending(kind, asked)
    notes = []
    if "sweep" in (asked.profile.get("type_"), asked.profile.get("kind")) and kind in ("constant", "poisson"):
        notes.append("its rate was chosen by a sweep from what the server could do: another run has other rates")
    return workload | _end(asked.constraints) | _data(asked.data), notes


def _sending(kind: str, asked: Asked) -> dict[str, Any]:
    if kind == "synchronous":
        return {"request_rate": None, "max_concurrency": 1}
    if kind == "concurrent":
        streams = fields.count(asked.strategy, "streams")
        return {"request_rate": None} | ({} if streams is None else {"max_concurrency": _positive("streams", streams)})
    # The strategy's own limit is what the scheduler could do at most, not what somebody asked for.
    limit = fields.count(asked.profile, "max_concurrency")
    if kind == "throughput":
        return {"request_rate": None, "max_concurrency": limit}
    if kind in ("constant", "poisson"):
        rate = fields.number(asked.strategy, "rate")
        stated = {} if rate is None else {"request_rate": _positive("rate", rate)}
        return stated | {"max_concurrency": limit} | ({"arrival": kind} if kind == "constant" else {})
    return {"arrival": clean(kind, 40)}


def _positive(key: str, value: float) -> float:
    if value <= 0:
        raise RefusalError(f"{key} is {shown(value)}")
    return value


def _end(constraints: Object) -> dict[str, Any]:
    """Number of requests and seconds after which it ended."""
    found: dict[str, Any] = {}
    requests = _limit(constraints, ("max_requests", "max_number"), ("max_num", "count"))
    seconds = _limit(constraints, ("max_seconds", "max_duration"), ("max_duration", "max_seconds", "seconds"))
    if requests is not None:
        found["num_prompts"] = fields.count({"max_requests": requests}, "max_requests")
    if seconds is not None:
        found["seconds"] = seconds
    return found


def _limit(constraints: Object, names: tuple[str, ...], keys: tuple[str, ...]) -> float | None:
    """The number of one constraint; where it is a list, the one whose turn it was."""
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
    if isinstance(inner[key], list):
        turn = max(fields.count(outer, "current_index") or 0, 0) if outer.get("current_index") != -1 else 0
        values = inner[key]
        return fields.number({key: values[min(turn, len(values) - 1)]}, key) if values else None
    return fields.number(inner, key)


def _data(data: Any) -> dict[str, Any]:
    """Lengths of synthetic prompts and answers, or the name of a dataset."""
    if isinstance(data, list):
        data = data[0] if len(data) == 1 else None
    if isinstance(data, dict):
        if data.get("kind") == "synthetic_text":
            stated = {name: fields.count(data, key) for name, key in _LENGTHS.items()}
            return _lengths(stated)
        data = data.get("path") or data.get("source")
    if not isinstance(data, str) or not data:
        return {}
    if "prompt_tokens" in data:
        found = {name: re.search(rf"{key}[\"']?\s*[=:]\s*(\d{{1,9}})\b", data) for name, key in _LENGTHS.items()}
        return _lengths({name: int(match[1]) for name, match in found.items() if match})
    return {"dataset": clean(re.split(r"[/\\]", data.strip("[]'\" "))[-1], 60)}


def _lengths(stated: Mapping[str, int | None]) -> dict[str, Any]:
    """Those that are stated; a spread of 0 is none."""
    return {name: length for name, length in stated.items() if length is not None and (length or name in _MEANS)}
