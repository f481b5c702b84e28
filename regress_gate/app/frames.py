"""Stored runs as pandas frames: tidy and long, one row for each value or request.

Not for deciding anything: requests of one run share its luck and are no replicates, see `docs/python.md`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from regress_gate.model.metric import metric
from regress_gate.model.result import Result
from regress_gate.model.run import Run
from regress_gate.model.samples import Samples
from regress_gate.model.version import Version

_SERIES_NUMBERS = ("baseline", "candidate", "change", "natural_change", "low", "high", "margin", "p_worse", "q_worse")
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_SAMPLE_UNITS = {
    "start": "s",
    "ttft": "s",
    "tpot": "s",
    "e2el": "s",
    "input_tokens": "tokens",
    "output_tokens": "tokens",
}


def run_name(run: Run) -> str:
    """`run:17` for a stored run; a shipped one is named by its key. Unique in a frame."""
    return f"run:{run.id}" if run.id is not None else f"{run.version}/{run.testbed.name}/{run.suite}/{run.label}"


def version_categories(runs: Iterable[Run]) -> list[str]:
    """The versions in order: releases and candidates by version, then nightlies and commits by the day of their first
    run, because their names have no order."""
    first: dict[Version, datetime] = {}
    for run in runs:
        started = run.started or next((trial.started for trial in run.trials if trial.started), None) or _EARLIEST
        started = started if started.tzinfo else started.replace(tzinfo=UTC)
        first[run.version] = min(first.get(run.version, started), started)
    ordered = sorted(
        (version for version in first if version.order_key is not None),
        key=lambda version: (version.order_key, str(version)),
    )
    dated = sorted(
        (version for version in first if version.order_key is None), key=lambda version: (first[version], str(version))
    )
    return [str(version) for version in (*ordered, *dated)]


def runs_frame(runs: Sequence[Run], counted: set[int], metrics: Sequence[str] = ()) -> pd.DataFrame:
    """One row for each value of a metric: of a trial, or of a run (then `scenario` and `trial` are missing).

    `counted` are the positions of the runs that a comparison counts. `attrs["units"]` has the unit of each metric.
    """
    owners: list[int] = []
    scenarios: list[str | None] = []
    ordinals: list[int | None] = []
    names: list[str] = []
    values: list[float] = []
    wanted = set(metrics)

    def add(owner: int, scenario: str | None, ordinal: int | None, measured: Mapping[str, float]) -> None:
        kept = [name for name in measured if not wanted or name in wanted]
        owners.extend([owner] * len(kept))
        scenarios.extend([scenario] * len(kept))
        ordinals.extend([ordinal] * len(kept))
        names.extend(kept)
        values.extend([measured[name] for name in kept])

    for position, run in enumerate(runs):
        add(position, None, None, run.metrics)
        for trial in run.trials:
            add(position, trial.scenario, trial.ordinal, trial.metrics)
    frame = _run_columns(runs, counted, np.asarray(owners, dtype=np.int64))
    frame["scenario"] = pd.Categorical(scenarios)
    frame["trial"] = pd.array(ordinals, dtype="Int64")
    frame["metric"] = pd.Categorical(names)
    frame["value"] = np.asarray(values, dtype=np.float64)
    frame.attrs["units"] = {name: metric(name).unit for name in sorted(set(names))}
    return frame


def samples_frame(runs: Sequence[Run], counted: set[int]) -> pd.DataFrame:
    """One row for each request of the trials that have per-request measurements.

    Times of failed requests are missing. A request is no replicate: group by `run` before any statistics.
    """
    owners: list[int] = []
    lengths: list[int] = []
    scenarios: list[str] = []
    ordinals: list[int] = []
    parts: list[dict[str, npt.NDArray[Any]]] = []
    for position, run in enumerate(runs):
        for trial in run.trials:
            if trial.samples is None:
                continue
            owners.append(position)
            lengths.append(len(trial.samples))
            scenarios.append(trial.scenario)
            ordinals.append(trial.ordinal)
            parts.append(_sample_columns(trial.samples))
    counts = np.asarray(lengths, dtype=np.int64)
    frame = _run_columns(runs, counted, np.repeat(np.asarray(owners, dtype=np.int64), counts))
    categories = sorted(set(scenarios))
    codes = np.asarray([categories.index(scenario) for scenario in scenarios], dtype=np.int64)
    frame["scenario"] = pd.Categorical.from_codes(np.repeat(codes, counts), pd.Index(categories, dtype=object))
    frame["trial"] = np.repeat(np.asarray(ordinals, dtype=np.int64), counts)
    for name in ("request", *_SAMPLE_UNITS, "ok"):
        frame[name] = np.concatenate([part[name] for part in parts]) if parts else np.empty(0)
    frame.attrs["units"] = dict(_SAMPLE_UNITS)
    return frame


def series_frame(result: Result) -> pd.DataFrame:
    """The series of a comparison, one row each. `change`, `low` and `high` are losses: positive is worse;
    `natural_change` has the sign of what happened."""
    rows = [
        {
            "scenario": series.scenario,
            "metric": series.metric,
            "unit": series.unit,
            "gated": series.gated,
            "baseline": series.baseline.mean,
            "baseline_runs": series.baseline.runs,
            "candidate": series.candidate.mean,
            "candidate_runs": series.candidate.runs,
            "change": series.change,
            "natural_change": series.natural_change,
            "low": None if series.interval is None else series.interval[0],
            "high": None if series.interval is None else series.interval[1],
            "margin": series.margin,
            "p_worse": series.p_worse,
            "q_worse": series.q_worse,
            "verdict": series.verdict.value,
            "runs_needed": series.runs_needed,
        }
        for series in result.series
    ]
    columns = list(rows[0]) if rows else ["scenario", "metric", "change", "verdict"]
    frame = pd.DataFrame(rows, columns=columns)
    numbers = [name for name in _SERIES_NUMBERS if name in frame]
    return frame.astype(dict.fromkeys(numbers, "float64"))


def issues_frame(result: Result) -> pd.DataFrame:
    """The known issues of a move, one row each."""
    columns = ["id", "summary", "kind", "severity", "applies", "why", "status", "effect", "blocks", "url"]
    rows = [issue.model_dump(mode="json", include=set(columns)) for issue in result.known_issues]
    return pd.DataFrame(rows, columns=columns)


def _run_columns(runs: Sequence[Run], counted: set[int], owners: npt.NDArray[np.int64]) -> pd.DataFrame:
    """What every frame says of the run of a row."""
    started = [run.started for run in runs]
    moments = (
        pd.to_datetime(pd.Series(started, dtype=object), utc=True)
        if runs
        else pd.Series([], dtype="datetime64[ns, UTC]")
    )
    return pd.DataFrame(
        {
            "run": _categorical([run_name(run) for run in runs], owners),
            "version": _categorical([str(run.version) for run in runs], owners, version_categories(runs)),
            "testbed": _categorical([run.testbed.name for run in runs], owners),
            "suite": _categorical([str(run.suite) for run in runs], owners),
            "started": moments.take(owners).reset_index(drop=True),
            "counted": np.asarray([position in counted for position in range(len(runs))], dtype=bool)[owners],
        }
    )


def _categorical(
    values: Sequence[str], owners: npt.NDArray[np.int64], order: Sequence[str] | None = None
) -> "pd.Categorical[Any]":
    categories = list(dict.fromkeys(values)) if order is None else list(order)
    places = {name: place for place, name in enumerate(categories)}
    codes = np.asarray([places[value] for value in values], dtype=np.int64)
    return pd.Categorical.from_codes(codes[owners], pd.Index(categories, dtype=object), ordered=order is not None)


def _sample_columns(samples: Samples) -> dict[str, npt.NDArray[Any]]:
    count = len(samples)
    total = np.concatenate([[0.0], np.cumsum(samples.itl)])
    decode = total[samples.itl_start[1:]] - total[samples.itl_start[:-1]]
    gaps = samples.output_tokens - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(gaps > 0, decode / gaps, np.nan)
    failed = ~samples.ok
    columns: dict[str, npt.NDArray[Any]] = {
        "request": np.arange(count),
        "start": np.full(count, np.nan) if samples.start is None else samples.start,
        "ttft": np.where(failed, np.nan, samples.ttft),
        "tpot": np.where(failed, np.nan, tpot),
        "e2el": np.where(failed, np.nan, samples.ttft + decode),
        "input_tokens": samples.input_tokens,
        "output_tokens": samples.output_tokens,
        "ok": samples.ok,
    }
    return columns
