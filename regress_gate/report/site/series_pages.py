"""The page of each series: its picture, its changes and its values, and a chart to zoom into where it is long."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from regress_gate.gate.history import HistorySeries
from regress_gate.gate.history_changes import HistoryChange
from regress_gate.redaction import redact
from regress_gate.report.figures import draw_svg
from regress_gate.report.figures.timeline import shape_points
from regress_gate.report.site.charts import change_style, largest, value_text
from regress_gate.report.site.content import Place
from regress_gate.report.site.templates import TITLE, render_page
from regress_gate.report.views import units
from regress_gate.report.views.history_figures import series_figure
from regress_gate.report.views.history_words import LineView, line_change_text, line_title
from regress_gate.report.views.wording import DIRECTION_TEXT
from regress_gate.text import plural

MOST_ROWS = 100
"""Newest values in the table; those at a change are there too."""
MOST_OPEN_ROWS = 24
"""Rows up to which the table is not folded."""
ZOOM_FROM = 60
"""Versions from which on a chart can be zoomed."""
_ZOOM_PARTS = 500
"""Parts of a series of which each keeps its ends and its extremes: at most some 2,000 points."""


def series_pages(place: Place) -> Iterator[tuple[str, str]]:
    """Names and texts of the page of each series."""
    found: dict[tuple[str, str], list[tuple[LineView, HistorySeries]]] = {}
    for view in place.lines:
        for one in view.line.series:
            found.setdefault((one.scenario, one.metric.name), []).append((view, one))
    for (scenario, metric), parts in found.items():
        lines = [_series_line(place, view, one, number) for number, (view, one) in enumerate(parts)]
        heading = f"{metric} of {scenario}"
        yield (
            f"{place.folder}/{place.series_page(scenario, metric)}",
            render_page(
                "series.html",
                root="../../../",
                can_zoom=any(line["zoom"] for line in lines),
                trail=[("../../../index.html", TITLE), ("../index.html", place.title)],
                heading=heading,
                subtitle=DIRECTION_TEXT[parts[0][1].metric.direction],
                lines=lines,
                data=f"../../../{place.data_page}",
            ),
        )


def _series_line(place: Place, view: LineView, series: HistorySeries, number: int) -> dict[str, Any]:
    line = view.line
    changes = [change for change in view.reported if change.name == series.name]
    marked = {change.at for change in changes}
    known = [int(at) for at in np.flatnonzero(~np.isnan(series.values))]
    newest = set(known[-MOST_ROWS:])
    kept = [at for at in known if at in marked or at in newest]
    rows = [
        {
            "version": str(line.versions[at]),
            "value": value_text(series, float(series.values[at])),
            "spread": units.spread(series.spread(at), int(series.counts[at])),
            "time": line.first_runs[at],
        }
        for at in reversed(kept)
    ]
    left_out = len(known) - len(kept)
    return {
        "title": line_title(line),
        "figure": Markup(draw_svg(series_figure(view, series), heading=False)),  # nosec B704 # noqa: S704 - escaped by the drawing
        "changes": [
            {
                "id": place.change_id(view, change),
                "text": line_change_text(line, change),
                "style": change_style(change),
            }
            for change in changes
        ],
        "rows": rows,
        "is_long": len(rows) > MOST_OPEN_ROWS,
        "left_out": f"{plural(left_out, 'older value is', 'older values are')} left out" if left_out else "",
        "zoom": _zoom(view, series, changes) if len(known) >= ZOOM_FROM else "",
        "zoom_id": f"points-{number + 1}",
    }


def _zoom(view: LineView, series: HistorySeries, changes: Sequence[HistoryChange]) -> Markup:
    """The points of the chart that a script draws, as JSON in which nothing can end the element it stands in."""
    factor, unit = units.axis_unit([largest(series)], series.metric.unit, series.metric.name)
    places = shape_points(series.values.tolist(), [change.at for change in changes], parts=_ZOOM_PARTS)
    document = {
        "name": series.name,
        "unit": unit,
        "places": places,
        "versions": [str(view.line.versions[at]) for at in places],
        "values": [None if np.isnan(value) else float(f"{value * factor:.6g}") for value in series.values[places]],
        "changes": [{"at": change.at, "worse": change.is_worse is not False} for change in changes],
    }
    text = redact(json.dumps(document, separators=(",", ":"), ensure_ascii=True))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # nosec B704 # noqa: S704
