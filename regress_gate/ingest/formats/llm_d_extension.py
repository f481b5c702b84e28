"""What regress-gate adds to an llm-d report, so that reading it back gives the same trial.

llm-d has no fields for testbed, suite, scenario, run and trial, for goodput, or for percentiles without a mean. They
are written under `regress_gate` in the native configuration of the first component of the stack.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from regress_gate.errors import InputError
from regress_gate.ingest import fields
from regress_gate.ingest.fields import time_from_iso
from regress_gate.ingest.interface import Reading
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.metric import DEFINITIONS, metric
from regress_gate.text import excerpt, quoted

EXTENSION_KEY = "regress_gate"
IDENTITY_FIELDS = ("version", "testbed", "accelerator", "suite", "scenario", "run")
RATE_METRICS = ("goodput",)
_NAME = re.compile(r"[a-z0-9_]{1,80}")
_METADATA = {"version": "vllm_version", "client": "client_version"}


@dataclass(frozen=True, slots=True)
class LlmDExtension:
    metadata: Mapping[str, str]
    trial: int | None
    definitions: str | None
    completed: int | None
    failed: int | None
    duration: float | None
    started: datetime | None
    workload: Mapping[str, Any]
    metrics: Mapping[str, float]
    """Metrics without a field in the report, except the rates."""
    rates: Mapping[str, float]

    def reading(self, position: int, metrics: Mapping[str, float], notes: Sequence[str]) -> Reading:
        return Reading(
            position=position,
            completed=self.completed,
            failed=self.failed or 0,
            duration=self.duration,
            metrics=metrics,
            workload=self.workload,
            definitions=self.definitions,
            started=self.started,
            metadata=self.metadata,
            trial=self.trial,
            notes=tuple(notes),
        )


def read_extension(document: Mapping[str, Any]) -> LlmDExtension | None:
    """The extension of a report; None if there is none. Raises RefusalError if it is invalid."""
    stack = document.get("scenario", {}).get("stack") if isinstance(document.get("scenario"), dict) else None
    first = stack[0] if fields.is_list(stack) and stack and isinstance(stack[0], dict) else {}
    native = first.get("native")
    config = native.get("config") if isinstance(native, dict) else None
    if not isinstance(config, dict) or EXTENSION_KEY not in config:
        return None
    own = fields.obj(config, EXTENSION_KEY)
    definitions = fields.text(own, "definitions")
    if definitions is not None and definitions not in DEFINITIONS:
        raise RefusalError(f"unknown definitions {quoted(definitions)}: upgrade regress-gate")
    extra = _metrics(fields.obj(own, "metrics"))
    return LlmDExtension(
        metadata={
            _METADATA.get(name, name): text
            for name in (*IDENTITY_FIELDS, "client")
            if (text := fields.text(own, name)) is not None
        },
        trial=fields.count(own, "trial"),
        definitions=definitions,
        completed=fields.count(own, "completed"),
        failed=fields.count(own, "failed"),
        duration=fields.number(own, "duration"),
        started=time_from_iso(own.get("started")),
        workload=_workload(fields.obj(own, "workload")),
        metrics={name: value for name, value in extra.items() if name not in RATE_METRICS},
        rates={name: value for name, value in extra.items() if name in RATE_METRICS},
    )


def _metrics(stated: Mapping[str, Any]) -> dict[str, float]:
    metrics = {}
    for name in stated:
        if not _NAME.fullmatch(name):
            raise RefusalError(f"unknown metric {quoted(name)}")
        try:
            metric(name)
        except InputError as error:
            raise RefusalError(str(error)) from None
        if (value := fields.required(stated, name)) < 0:
            raise RefusalError(f"{name} is {value:g}, which cannot be")
        metrics[name] = value
    return metrics


def _workload(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers, texts and truth values; anything else is left out."""
    return {
        excerpt(key, 60): excerpt(value) if isinstance(value, str) else value
        for key, value in stated.items()
        if value is None or isinstance(value, str | int | float)
    }
