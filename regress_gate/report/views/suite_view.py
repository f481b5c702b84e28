"""Suites: the list of those that are shipped, and one as a whole."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from regress_gate.model.suite import RunCost, ServerConfig, Suite, TraceFacts, Workload
from regress_gate.report.document import (
    Block,
    Column,
    Detail,
    Document,
    ItemList,
    Pair,
    Pairs,
    Paragraph,
    Row,
    Table,
    View,
)
from regress_gate.report.views.list_view import value_text
from regress_gate.text import duration_text, plural


@dataclass(frozen=True, slots=True)
class SuiteListView(View):
    suites: tuple[Suite, ...]

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        rows = []
        for suite in self.suites:
            rows.append(Pair(f"{suite.name}@{suite.version}", _summary(suite), (suite.description,)))
        return Document("", (Pairs(tuple(rows)),), name="Suites")

    def data(self) -> dict[str, Any]:
        return {
            "schema_version": "1",
            "suites": [
                {
                    "name": suite.name,
                    "version": suite.version,
                    "accelerator": suite.accelerator,
                    "scenarios": len(suite.scenarios),
                    "description": suite.description,
                }
                for suite in self.suites
            ],
        }


def _summary(suite: Suite) -> str:
    return f"{suite.accelerator or 'any accelerator'}, {plural(len(suite.scenarios), 'scenario')}"


@dataclass(frozen=True, slots=True)
class SuiteView(View):
    """What is sent to which server, why, and what decides."""

    suite: Suite
    traces: Mapping[str, TraceFacts | str] = field(default_factory=dict)
    """By scenario: what its trace asks for, or why the file cannot be read."""

    def document(self, detail: Detail) -> Document:  # noqa: ARG002 - there is nothing to leave out
        suite = self.suite
        blocks: list[Block] = [Paragraph(suite.description)]
        blocks += [Paragraph(suite.notice)] if suite.notice else []
        servers = list({scenario.server.model_dump_json(): scenario.server for scenario in suite.scenarios}.values())
        shared = servers[0] if len(servers) == 1 else None
        pairs = [*_run_pairs(suite), *(_server_pairs(shared) if shared else [])]
        blocks += [Pairs(tuple(pairs)), _scenarios(suite)]
        mixes = suite.mixes()
        for scenario in suite.scenarios:
            items = list(_workload_details(scenario.workload))
            if scenario.together is not None:
                others = [other.name for other in mixes[scenario.together] if other is not scenario]
                items.append(f"sent at the same time as {', '.join(others)}")
            items += [trace_text(self.traces[scenario.name])] if scenario.name in self.traces else []
            items += [f"sees {value_text(scenario.sees)}"] if scenario.sees else []
            items += [] if shared else [f"{pair.label} {pair.text}" for pair in _server_pairs(scenario.server)]
            blocks.append(Paragraph(f"{scenario.name}: {scenario.why or 'no why'}"))
            blocks += [ItemList(tuple(items))] if items else []
        return Document(f"{suite.name}@{suite.version}", tuple(blocks), name="Scenarios")

    def data(self) -> dict[str, Any]:
        data = {"schema_version": "1", "suite": self.suite.model_dump(mode="json", exclude_none=True)}
        return data | ({"traces": traces_data(self.traces)} if self.traces else {})


def trace_text(facts: TraceFacts | str) -> str:
    """`500 requests in 10 min (0.8/s, at most 6 in a second), …`; or why the file cannot be read."""
    if isinstance(facts, str):
        return facts
    rate = "all at once" if facts.mean_rate is None else f"{facts.mean_rate:.3g}/s"
    amount = f"{plural(facts.requests, 'request')} in {duration_text(facts.seconds)}"
    parts = [
        f"{amount} ({rate}, at most {facts.busiest_second} within a second)",
        "prompts are texts" if facts.input_tokens is None else f"prompts {_spread_text(facts.input_tokens)}",
        f"answers {_spread_text(facts.output_tokens)}",
    ]
    if facts.shared is not None:
        parts.append(f"{facts.shared:.0%} of all prompt tokens repeat the beginning of an earlier prompt")
    return f"{facts.format} trace: {'; '.join(parts)}"


def _spread_text(values: tuple[float, float, float]) -> str:
    median, high, most = values
    return f"of {median:.0f} tokens (median; p95 {high:.0f}, at most {most:.0f})"


def traces_data(traces: Mapping[str, TraceFacts | str]) -> dict[str, Any]:
    """By scenario; `error` where the file cannot be read. Lengths are median, 95th percentile and maximum."""
    return {name: {"error": facts} if isinstance(facts, str) else asdict(facts) for name, facts in traces.items()}


def _run_pairs(suite: Suite) -> Iterator[Pair]:
    if suite.accelerator:
        yield Pair("accelerator", suite.accelerator)
    limits = suite.conditions.model_dump(exclude_none=True)
    if limits:
        first, *more = (f"{key.removeprefix('max_')} is above {value:g}" for key, value in limits.items())
        yield Pair("void when", first, tuple(more))
    yield Pair("run", f"trials={suite.trials}, request_timeout={suite.request_timeout:g} s")
    if suite.blocks is not None:
        yield Pair("blocks", f"at most {suite.blocks}")
    if suite.cost is not None:
        yield Pair("cost", _cost_text(suite.cost, suite.blocks), (f"estimated by {suite.cost.source}",))
    policy = suite.gate.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    yield from (Pair(key, value_text(value)) for key, value in policy.items())


def _cost_text(cost: RunCost, blocks: int | None) -> str:
    """`7 min a run; 112 GPU minutes for 8 blocks`."""
    text = f"{cost.minutes:g} min a run" + (f" on {plural(cost.gpus, 'GPU')}" if cost.gpus else "")
    if blocks is None:
        return text
    minutes = 2 * blocks * cost.minutes
    whole = f"{minutes * cost.gpus:.0f} GPU minutes" if cost.gpus else f"{minutes:.0f} min"
    return f"{text}; {whole} for {plural(blocks, 'block')}"


def _server_pairs(server: ServerConfig) -> Iterator[Pair]:
    yield Pair("model", server.model)
    for title, values in (("engine args", server.engine_args), ("environment", server.env)):
        if values:
            yield Pair(title, value_text(values))


def _scenarios(suite: Suite) -> Table:
    columns = tuple(map(Column, ("scenario", "sends", "load", "requests")))
    rows = tuple(Row((scenario.name, *_workload_row(scenario.workload))) for scenario in suite.scenarios)
    return Table.of(columns, rows)


def _workload_row(workload: Workload) -> tuple[str, str, str]:
    """What one request is, how many there are at once, how many in all."""
    if workload.api == "rerank":
        sends = f"{workload.documents} documents x {_number(workload.input_len)} words"
    elif workload.api == "embeddings":
        sends = f"{_number(workload.input_len)} tokens"
    elif workload.trace is not None:
        sends = f"recorded -> {'' if workload.ignore_eos else 'up to '}recorded"
    else:
        unknown = "?" if isinstance(workload.dataset, str) else "recorded"
        prompt, answer = (length or unknown for length in (workload.input_len, workload.output_len))
        sends = f"{prompt} -> {'' if workload.ignore_eos else 'up to '}{answer}"
        if workload.conversation is not None:
            sends += f", {workload.conversation.turns} turns"
    loads = []
    if workload.request_rate is not None:
        loads.append(f"{workload.request_rate:g}/s {_arrival_text(workload)}")
    if workload.trace is not None:
        loads.append("trace" if workload.trace.scale == 1 else f"trace, times x {workload.trace.scale:g}")
    if workload.concurrency is not None:
        loads.append(f"{'at most ' if loads else 'concurrency '}{workload.concurrency}")
    if workload.capacity is not None:
        loads.append(f"searched: {100 * workload.capacity:g}% within slo")
    requests = _number(workload.num_requests)
    if workload.warmup_requests:
        requests += f" + {workload.warmup_requests}"
    return sends, ", ".join(loads) or "all at once", requests


def _arrival_text(workload: Workload) -> str:
    if workload.burstiness is not None:
        return f"{workload.arrival} {workload.burstiness:g}"
    if workload.phases is not None:
        return f"{workload.phases.on:g} s on, {workload.phases.off:g} s off"
    return workload.arrival


def _workload_details(workload: Workload) -> Iterator[str]:
    """What the table has no column for."""
    if workload.trace is not None:
        yield f"recorded traffic of {workload.trace.file}"
    if not isinstance(workload.dataset, str):
        yield f"{workload.dataset.format} prompts of {workload.dataset.file}"
    if workload.api != "completions":
        yield f"api {workload.api}"
    if workload.conversation is not None and workload.conversation.think_time:
        yield f"think time {workload.conversation.think_time:g} s"
    if (images := workload.images) is not None:
        same = ", the same in all requests" if images.repeat else ""
        yield f"{plural(images.count, 'image')} of {images.width} x {images.height} pixels{same}"
    if workload.prefix_len:
        yield f"shared prefix {workload.prefix_len} tokens"
    if workload.lora_adapters:
        yield f"LoRA adapters {value_text(workload.lora_adapters)}"
    if workload.slo is not None:
        yield f"objective {value_text({key: f'{value:g} s' for key, value in workload.slo if value is not None})}"
    if workload.extra_body:
        yield f"body {json.dumps(workload.extra_body)}"


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
