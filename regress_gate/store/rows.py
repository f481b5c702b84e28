"""Runs, trials and sources as rows of their tables. Raises InputError for values that cannot be kept."""

from typing import Any

import orjson

from regress_gate.model.run import Source, Trial
from regress_gate.store import merge, records

RUN_COLUMNS = (
    "build_id", "testbed_id", "suite_id", "label", "started", "conditions", "libraries", "metrics", "measured",
)  # fmt: skip
TRIAL_COLUMNS = (
    "run_id", "scenario", "ordinal", "completed", "failed", "duration", "started", "conditions", "workload", "metrics",
    "counted",
)  # fmt: skip
SOURCE_COLUMNS = (
    "trial_id", "sha256", "position", "path", "format", "tool", "client_version", "command", "imported_at",
)  # fmt: skip


def facts(draft: merge.Draft) -> tuple[str | None, ...]:
    """The columns of a run that an import may change: those from `started` on."""
    return (
        draft.started,
        json_text(draft.conditions),
        json_text(draft.libraries),
        json_text(draft.metrics),
        json_text(draft.measured) if draft.measured else None,
    )


def trial_row(run_id: int, ordinal: int, trial: Trial) -> tuple[Any, ...]:
    return (
        run_id,
        records.name("scenario", trial.scenario),
        records.count("ordinal", ordinal),
        records.count("completed", trial.completed or 0),
        records.count("failed", trial.failed),
        None if trial.duration is None else records.number("duration", trial.duration),
        records.time_text(trial.started),
        json_text(records.conditions(trial.conditions)),
        json_text(records.plain("workload", trial.workload)),
        json_text(records.numbers("metric", trial.metrics)),
        trial.completed is not None,
    )


def source_row(trial_id: int, source: Source) -> tuple[Any, ...]:
    return (
        trial_id,
        source.sha256,
        records.count("position", source.position),
        records.remark(source.path),
        records.name("format", source.format),
        records.remark(source.tool),
        records.remark(source.client_version),
        records.remark(source.command),
        records.time_text(source.imported_at),
    )


def json_text(value: Any) -> str:
    return orjson.dumps(value).decode() if value else "{}"
