"""The dashboard's data for programs: one file that lists the places, and one of each place."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from regress_gate import __version__
from regress_gate.redaction import redact
from regress_gate.report.site.content import Place, PlaceSummary, comparison_data
from regress_gate.report.site.watch_page import WatchedPlace, watch_data
from regress_gate.report.views.history_view import change_data
from regress_gate.report.views.history_words import LineView

SCHEMA_VERSION = "1"
"""Keys are added, never removed or renamed, within one."""


def index_data(places: Sequence[PlaceSummary], watched: Sequence[WatchedPlace], built: datetime) -> str:
    return _json(
        {
            "schema_version": SCHEMA_VERSION,
            "tool_version": __version__,
            "created": built.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "feed": "feed.xml",
            "places": [place.data for place in places],
            "watch": watch_data(watched),
        }
    )


def place_data(place: Place) -> str:
    """Everything that the pages of a place show, without rounding. Values stand in the order of the line's versions."""
    return _json(
        {
            "schema_version": SCHEMA_VERSION,
            "testbed": place.testbed,
            "suite": place.suite.name,
            "suite_version": place.suite.version,
            "lines": [_line(place, view) for view in place.lines],
            "change_points": [
                {
                    **change_data(view.line, change),
                    "line": number,
                    "page": f"{place.folder}/{place.series_page(change.scenario, change.metric)}",
                }
                for number, view in enumerate(place.lines)
                for change in view.reported
            ],
            "comparisons": [comparison_data(place, one) for one in place.comparisons],
        }
    )


def _line(place: Place, view: LineView) -> dict[str, Any]:
    line = view.line
    return {
        "order": line.order,
        "variant": line.variant,
        "versions": [str(version) for version in line.versions],
        "first_runs": [None if time is None else time.isoformat() for time in line.first_runs],
        "series": [
            {
                "scenario": one.scenario,
                "metric": one.metric.name,
                "unit": one.metric.unit,
                "direction": one.metric.direction,
                "page": f"{place.folder}/{place.series_page(one.scenario, one.metric.name)}",
                "values": [None if np.isnan(value) else value for value in one.values.tolist()],
                "runs": one.counts.tolist(),
            }
            for one in line.series
        ],
    }


def _json(document: dict[str, Any]) -> str:
    """Without secrets; ASCII, so that any server and program can carry it."""
    return redact(json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False)) + "\n"
