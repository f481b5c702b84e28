"""Reads benchmark reports of llm-d (0.1, 0.2, 0.2.1), as YAML or JSON; what is in which version is in llm_d_parts.

Each statistic says its unit, which is what is gone by. What TPOT and ITL mean depends on the tool that the report was
converted from. Reports that `regress-gate report --format llm-d` wrote carry their identity and read back exactly.
"""

import re
from collections.abc import Sequence
from typing import Any

from regress_gate.ingest import yaml_text
from regress_gate.ingest.content import Content
from regress_gate.ingest.each import read_each
from regress_gate.ingest.formats import llm_d_own, llm_d_parts
from regress_gate.ingest.interface import Certainty, Context, Generation, NoReading, Reading, RefusalError
from regress_gate.ingest.summary import Summary, measured
from regress_gate.ingest.text import shown

_LOOKED_AT = 200_000
"""Characters of a text that are searched for the marks."""
_GROSS = 2.0
_NEW = re.compile(r"^ {2}request_performance:", re.MULTILINE)
_OLD = tuple(re.compile(mark, re.MULTILINE) for mark in (r"^version: ['\"]?0\.1\b", r"^scenario:", r"^metrics:"))


class LlmD:
    name = "llm-d"
    tool = "llm-d benchmark report"
    bare_constants = False
    generations = (
        Generation(
            "0.1",
            "`version: 0.1`, `scenario`, `metrics`",
            "ttft, tpot, itl, e2el, normalized_latency, rates, failures",
            "tpot and itl mean what the tool behind the report means; the version is that of the engine",
        ),
        Generation(
            "0.2, 0.2.1",
            "`results.request_performance`",
            "the same",
            "its duration is the harness's, longer than the measurement, and not used",
        ),
        Generation("made by regress-gate", "`regress_gate` in the stack's native configuration", "everything, exactly"),
    )

    def recognises(self, content: Content) -> Certainty:
        if content.text is not None:
            text = content.text[:_LOOKED_AT]
            known = _NEW.search(text) or all(mark.search(text) for mark in _OLD)
        else:
            known = any(map(llm_d_parts.is_report, content.documents))
        return Certainty.SURE if known else Certainty.NO

    def read(self, content: Content, context: Context) -> Sequence[Reading | NoReading]:  # noqa: ARG002
        documents = content.each() if content.text is None else [yaml_text.parse(content.text, content.name)]
        return read_each(documents, _reading)


def _reading(document: Any, position: int) -> Reading:
    if not llm_d_parts.is_report(document):
        raise RefusalError("not an llm-d benchmark report")
    own = llm_d_own.read(document)
    report = llm_d_parts.parts(document, may_be_empty=own is not None)
    tool = None if own is not None else report.tool
    families, definitions = llm_d_parts.families(tool) if own is None else (llm_d_parts.OWN_FAMILIES, own.definitions)
    latencies = {
        family: statistics
        for name, family in families.items()
        if (statistics := report.latencies.get(name)) is not None
    }
    workload = report.workload if own is None else own.workload
    if own is None:
        _check_rates(report)
    limit = workload.get("max_concurrency")
    metrics, notes = measured(
        Summary(
            latencies=latencies,
            rates=report.rates if own is None else {**report.rates, **own.rates},
            others={} if own is None else own.metrics,
            completed=report.completed if own is None else own.completed,
            failed=report.failed if own is None else own.failed,
            duration=report.duration if own is None else own.duration,
            max_concurrency=limit,
        )
    )
    if own is not None:
        return own.reading(position, metrics, notes)
    if left_out := sorted(report.latencies.keys() - families.keys()):
        notes.append(f"{', '.join(left_out)} left out: what {shown(tool)} means by it is not known")
    return Reading(
        position=position,
        completed=report.completed,
        failed=report.failed or 0,
        duration=report.duration,
        metrics=metrics,
        workload=workload,
        definitions=definitions,
        started=report.started,
        metadata=report.metadata,
        notes=(*report.notes, *notes),
    )


def _check_rates(report: llm_d_parts.Parts) -> None:
    """Refuse rates that contradict the lengths of answers. Some tools weight rates by time, so only grossly."""
    requests, tokens = report.rates.get("request_throughput"), report.rates.get("output_throughput")
    length = report.workload.get("mean_output_tokens")
    if requests and tokens and length and not 1 / _GROSS < tokens / (requests * length) < _GROSS:
        raise RefusalError(
            f"output_throughput says {tokens:g}, but {requests:g} requests/s of {length:g} tokens are "
            f"{requests * length:g}: wrong unit, or made up"
        )
