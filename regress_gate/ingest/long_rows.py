"""From the rows of one result of a long table to its metrics, checked. Not for what else a row says."""

import re
from collections.abc import Iterable

from regress_gate.errors import InputError
from regress_gate.ingest import long_columns
from regress_gate.ingest.interface import RefusalError
from regress_gate.ingest.summary import Summary, measured
from regress_gate.ingest.text import clean, shown
from regress_gate.model.metric import LATENCIES, METRICS, OTHER_LATENCIES, STATISTICS, Metric, metric
from regress_gate.model.nearest import did_you_mean

_RATES = ("request_throughput", "output_throughput", "total_throughput", "goodput")
_TOLERANCE = 1e-6
_NAME = re.compile(r"[a-z0-9_]{1,80}")


def metrics_of(
    rows: Iterable[tuple[str, float | None, str]],
    *,
    completed: int | None,
    failed: int | None,
    duration: float | None,
    max_concurrency: float | None,
) -> tuple[dict[str, float], list[str]]:
    """Metrics by catalogue name in its units, and notes.

    `rows`: metric, value and unit. Raises RefusalError for unknown metrics and units, for values that cannot be, and
    for a metric that is there twice.
    """
    values: dict[str, float] = {}
    for name, value, unit in rows:
        found = _metric(name)
        if value is None:
            raise RefusalError(f"{name} has no value")
        if found.name in values:
            raise RefusalError(f"{name} is there twice in one result; tell results apart by scenario, run or trial")
        values[found.name] = _checked(found, value * long_columns.factor(found, unit))
    latencies: dict[str, dict[str, float]] = {}
    rest: dict[str, float] = {}
    for name, value in values.items():
        family, _, statistic = name.rpartition("_")
        if statistic in STATISTICS and (family in LATENCIES or family in OTHER_LATENCIES):
            latencies.setdefault(family, {})[statistic] = value
        elif name not in _RATES:
            rest[name] = value
    metrics, notes = measured(
        Summary(
            latencies=latencies,
            rates={name: values[name] for name in _RATES if name in values},
            others=rest,
            completed=completed,
            failed=failed,
            duration=duration,
            max_concurrency=max_concurrency,
        )
    )
    stated = rest.get("failed_requests")
    if stated is not None and abs(metrics["failed_requests"] - stated) > _TOLERANCE:
        raise RefusalError(f"failed_requests says {stated:g}, the counts say {metrics['failed_requests']:g}")
    return metrics, notes


def _metric(name: str) -> Metric:
    if not _NAME.fullmatch(name):
        raise RefusalError(f"unknown metric {shown(name)}" + did_you_mean(clean(name, 80), METRICS))
    try:
        return metric(name)
    except InputError as error:
        raise RefusalError(str(error)) from None


def _checked(found: Metric, value: float) -> float:
    if value < 0 or (found.unit == "fraction" and value > 1):
        raise RefusalError(f"{found.name} is {value:g} {found.unit}, which cannot be")
    return value
