"""The builds that the watch has measured, one after the other: pictures of a series, and change points over all.

Not for deciding on a build, which is done beside the pinned version alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from regress_gate.app.history import SuiteOnTestbed, read_lines
from regress_gate.app.settings import Settings
from regress_gate.gate.history import HistoryFilter
from regress_gate.model.result import Result, SeriesResult
from regress_gate.model.version import Version
from regress_gate.report.document import Chart
from regress_gate.report.views import units
from regress_gate.report.views.history_words import line_change_text
from regress_gate.store.combined import open_combined_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.watch.finding import WatchFinding

_MOST_CHARTS = 3
_MOST_CHANGES = 10


def measured_levels(result: Result) -> dict[str, Any]:
    """What a look keeps of the means of its build, as JSON values: of each series that gates."""
    means = {one.name: one.candidate.mean for one in result.series if one.gated and one.candidate.mean is not None}
    return {"levels": means} if means else {}


def with_charts(finding: WatchFinding, looks: Sequence[StoredLook]) -> WatchFinding:
    """With the levels of its worst series over the builds of these looks, the oldest first. One build is no picture."""
    charts = [(one.name, _chart(one, finding.first_bad, looks)) for one in finding.series[:_MOST_CHARTS]]
    return replace(finding, charts=tuple((name, chart) for name, chart in charts if chart is not None))


def _chart(series: SeriesResult, first_bad: Version, looks: Sequence[StoredLook]) -> Chart | None:
    points = [(look.candidate, _levels(look)[series.name]) for look in looks if series.name in _levels(look)]
    if len(points) < 2:
        return None
    builds, values = zip(*points, strict=True)
    return Chart(
        values,
        str(builds[0]),
        str(builds[-1]),
        marks=tuple(at for at, build in enumerate(builds) if build == first_bad)[:1],
        write=partial(_written, series, max(values)),
    )


def _levels(look: StoredLook) -> Mapping[str, float]:
    levels: Mapping[str, float] = look.data.get("levels", {})
    return levels


def _written(series: SeriesResult, largest: float, value: float) -> str:
    return units.values((value, largest), series.unit, series.metric)[0]


def changes_so_far(settings: Settings, place: SuiteOnTestbed, build: Version) -> list[str]:
    """Change points for the worse over all stored builds of the line of `build`, the newest first, a sentence each: a
    step of half a margin, which no look decides on, is seen after some. Not a level that creeps a little with each
    build. Empty where the builds are too few."""
    with open_combined_store(str(settings.store_url.value)) as store:
        views = read_lines(store, place, settings, HistoryFilter(), detect=True)
    texts = []
    for view in views:
        if build not in view.line.versions or view.changes is None:
            continue
        # Without a probability: neighbours alone were compared, which the look itself does better.
        found = [one for one in view.changes.found if one.is_worse and one.probability is not None]
        texts += [f"{one.name}: {line_change_text(view.line, one)}" for one in sorted(found, key=lambda one: -one.at)]
    rest = len(texts) - _MOST_CHANGES
    return [*texts[:_MOST_CHANGES], *([f"and {rest} more: regress-gate history --detect"] if rest > 0 else [])]
