"""What the dashboard says of a suite on a testbed, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from regress_gate.gate.history_changes import HistoryChange
from regress_gate.model.result import Result
from regress_gate.model.run import SuiteRef
from regress_gate.model.version import Version
from regress_gate.report.site.names import comparison_name, place_name, series_name, version_name
from regress_gate.report.views.history_words import LineView
from regress_gate.store.store_interface import Holding, StoredComparison
from regress_gate.text import plural

STALE_DAYS = 30
"""Days without a measurement from which on the first page warns."""
_NEWEST = 3
"""Versions of the first line that the first page names; of each other line it names one."""


@dataclass(frozen=True, slots=True, eq=False)
class VersionChanges:
    """The series of a line that one version made worse, or better; the largest change first."""

    view: LineView
    at: int
    is_worse: bool
    changes: tuple[HistoryChange, ...]

    @property
    def version(self) -> Version:
        return self.view.line.versions[self.at]

    @property
    def id(self) -> str:
        """On the page of all changes of the place."""
        return f"{'worse' if self.is_worse else 'better'}-{version_name(str(self.version))}"

    @property
    def title(self) -> str:
        """`3 series got worse with 0.24.0`."""
        what = self.changes[0].name if len(self.changes) == 1 else f"{len(self.changes)} series"
        return f"{what} got {'worse' if self.is_worse else 'better'} with {self.version}"


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A suite on a testbed, and everything that the dashboard says of it."""

    testbed: str
    suite: SuiteRef
    is_shipped: bool
    """Nothing of it is the user's own."""
    facts: Sequence[tuple[str, str]]
    """Of the testbed."""
    holdings: Sequence[Holding]
    """Its versions, the one measured last first."""
    lines: Sequence[LineView]
    comparisons: Sequence[StoredComparison]
    """The newest first."""
    unreadable: frozenset[int | None] = frozenset()
    """Ids of comparisons whose result cannot be shown."""
    issues: Result | None = None
    """The check of the newest version."""
    issues_note: str = ""
    """Why there is no check."""
    unmeasured: Sequence[tuple[str, date]] = field(default=())
    """Known releases that are newer than all of its versions, the newest first, with their days."""

    @property
    def name(self) -> str:
        return place_name(self.testbed, self.suite)

    @property
    def folder(self) -> str:
        return f"places/{self.name}"

    @property
    def title(self) -> str:
        return f"{self.suite} on {self.testbed}"

    @property
    def data_page(self) -> str:
        return f"data/{self.name}.json"

    def comparison_page(self, comparison: StoredComparison) -> str | None:
        """Relative to the folder of the place; None for one that cannot be read."""
        return None if comparison.id in self.unreadable else f"comparisons/{comparison_name(comparison)}.html"

    def series_page(self, scenario: str, metric: str) -> str:
        return f"series/{series_name(scenario, metric)}.html"

    def change_id(self, view: LineView, change: HistoryChange) -> str:
        """Of a change on the page of its series."""
        return f"{change.kind}-{version_name(str(view.line.versions[change.at]))}"

    def changes(self, *, worse: bool) -> list[VersionChanges]:
        """By version, the newest of each line first. A change of scatter counts as one for the worse."""
        found = []
        for view in self.lines:
            by_version: dict[int, list[HistoryChange]] = {}
            for change in view.reported:
                if (change.is_worse is not False) is worse:
                    by_version.setdefault(change.at, []).append(change)
            for at, changes in sorted(by_version.items(), reverse=True):
                largest_first = sorted(changes, key=lambda change: -abs(change.loss or 0.0))
                found.append(VersionChanges(view, at, worse, tuple(largest_first)))
        return found

    @property
    def series(self) -> list[tuple[str, str]]:
        """Scenario and metric of all lines, in their order."""
        return list(dict.fromkeys((one.scenario, one.metric.name) for view in self.lines for one in view.line.series))


@dataclass(frozen=True, slots=True)
class PlaceSummary:
    """What the first page says of a place."""

    values: dict[str, Any]
    data: dict[str, Any]
    """The same for programs."""


def summary_of(place: Place, built: datetime) -> PlaceSummary:
    last = place.comparisons[0] if place.comparisons else None
    measured = max((held.last for held in place.holdings if held.last is not None), default=None)
    days = None if measured is None else (built - measured).days
    page = None if last is None else place.comparison_page(last)
    newest = [
        str(version)
        for number, view in enumerate(place.lines)
        for version in reversed(view.line.versions[-1 if number else -_NEWEST :])
    ]
    values = {
        "page": f"{place.folder}/index.html",
        "suite": str(place.suite),
        "testbed": place.testbed,
        "is_shipped": place.is_shipped,
        "last": None
        if last is None
        else {
            "decision": last.decision,
            "baseline": str(last.baseline),
            "candidate": str(last.candidate),
            "created": last.created,
            "page": None if page is None else f"{place.folder}/{page}",
        },
        "worse": sum(len(each.changes) for each in place.changes(worse=True)),
        "better": sum(len(each.changes) for each in place.changes(worse=False)),
        "series": len(place.series),
        "versions": len({held.version for held in place.holdings}),
        "newest": newest,
        "unmeasured": unmeasured_text(place.unmeasured),
        "measured": measured,
        "age": "" if days is None or days < 1 else f"{plural(days, 'day')} before this page was built",
        "is_stale": days is not None and days >= STALE_DAYS and not place.is_shipped,
    }
    data = {key: values[key] for key in ("testbed", "suite", "page", "worse", "better", "series", "versions", "newest")}
    data |= {
        "suite": place.suite.name,
        "suite_version": place.suite.version,
        "shipped": place.is_shipped,
        "data": place.data_page,
        "measured": None if measured is None else measured.isoformat(),
        "unmeasured_releases": [version for version, _ in place.unmeasured],
        "comparisons": len(place.comparisons),
        "last_comparison": None if last is None else comparison_data(place, last),
    }
    return PlaceSummary(values, data)


def comparison_data(place: Place, comparison: StoredComparison) -> dict[str, Any]:
    """For programs. `page` is relative to the dashboard's first page."""
    page = place.comparison_page(comparison)
    return {
        "baseline": str(comparison.baseline),
        "candidate": str(comparison.candidate),
        "decision": comparison.decision,
        "created": comparison.created.isoformat(),
        "page": None if page is None else f"{place.folder}/{page}",
    }


def unmeasured_text(releases: Sequence[tuple[str, date]]) -> str:
    if not releases:
        return ""
    version, day = releases[0]
    more = f" and {plural(len(releases) - 1, 'release')} before it" if len(releases) > 1 else ""
    return f"{version} of {day.isoformat()}{more}"
