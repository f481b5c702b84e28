"""A history as a value that serialises to JSON. Decides nothing."""

from typing import Any

from regress_gate.gate.history import Line, begun
from regress_gate.gate.history_changes import Change
from regress_gate.report.history_view import HistoryView, LineView


def history_document(found: HistoryView) -> dict[str, Any]:
    """`change` of a change point is signed as in `compare`: positive is worse, for every metric; `interval` is that of
    the change, as there, and `between` the versions between which it came. `probability` is null where neighbouring
    versions were compared: there a change is shown at the family's error rate, or not told."""
    return {
        "schema_version": "1",
        "suite": found.suite,
        "testbed": found.testbed,
        "lines": [_line_document(view) for view in found.lines],
        "change_points": [_change_document(view.line, change) for view in found.lines for change in view.told],
    }


def _line_document(view: LineView) -> dict[str, Any]:
    line, changes = view.line, view.changes
    looked_at = None
    if changes is not None:
        looked_at = {
            "way": changes.way,
            "series": changes.series,
            "steps": changes.steps,
            "improvements_not_told": view.improvements,
            "notes": list(changes.notes),
        }
    return {
        "order": line.order,
        "variant": line.variant,
        "versions": [
            {
                "version": str(side.version),
                "runs": len(side.counted),
                "void_runs": len(side.void),
                "failed_runs": len(side.failed),
                "first": None if (time := begun(side)) is None else time.isoformat(),
            }
            for side in line.sides
        ],
        "series": [
            {
                "scenario": series.scenario,
                "metric": series.metric.name,
                "unit": series.metric.unit,
                "direction": series.metric.direction,
                "points": [
                    {"version": str(version), "value": series.value(place), "runs": len(series.per_version[place]),
                     "cv": series.spread(place)}
                    for place, version in enumerate(line.versions)
                ],
            }
            for series in line.series
        ],
        "looked_at": looked_at,
    }  # fmt: skip


def _change_document(line: Line, change: Change) -> dict[str, Any]:
    return {
        "scenario": change.scenario,
        "metric": change.metric,
        "kind": change.kind,
        "version": str(line.versions[change.at]),
        "index": change.at,
        "between": [str(line.versions[place]) for place in change.since],
        "change": change.loss,
        "interval": None if change.interval is None else list(change.interval),
        "probability": change.probability,
        "worse": change.is_worse,
    }
