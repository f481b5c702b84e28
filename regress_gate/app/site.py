"""Build the static dashboard of a store: gather what is known of each suite on each testbed, write its pages.

One place after the other, so that memory holds the numbers of one. What a page looks like is `report.site`'s.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from packaging.version import Version as Pep440
from pydantic import ValidationError

from regress_gate.app.check import check_version
from regress_gate.app.history import SuiteOnTestbed, read_lines, with_known_issues
from regress_gate.app.known_issues import Releases, seen_releases
from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import is_selected
from regress_gate.app.watch_state import WatchState, watch_states
from regress_gate.errors import InputError, NoDataError, RegressGateError, StoreError
from regress_gate.gate.history import HistoryFilter
from regress_gate.model.deployment import Deployment
from regress_gate.model.result import Result
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import is_wanted_testbed
from regress_gate.model.version import Version
from regress_gate.report.site.content import Place, PlaceSummary, summary_of
from regress_gate.report.site.data import index_data, place_data
from regress_gate.report.site.feed import FeedEntry, render_feed
from regress_gate.report.site.folder import SiteFolder
from regress_gate.report.site.pages import (
    CHANGES_PAGE,
    ISSUES_PAGE,
    changes_page,
    comparison_list_pages,
    index_page,
    place_pages,
)
from regress_gate.report.site.series_pages import series_pages
from regress_gate.report.site.templates import TITLE, licence_text, render_view
from regress_gate.report.site.watch_page import (
    WATCH_PAGE,
    FollowedRegression,
    PastLook,
    WatchedPlace,
    watch_page,
)
from regress_gate.report.views.history_words import line_change_text
from regress_gate.report.views.result_view import ResultView
from regress_gate.store.combined import CombinedStore, open_combined_store
from regress_gate.store.store_interface import Holding, HoldingOrigin, StoredComparison, StoredLook, StoreLocation
from regress_gate.suites import find_shipped_suite, is_suite_path, load_suite
from regress_gate.watch.alarm import AlarmKind

_Key = tuple[str, SuiteRef]


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """What a build has written."""

    index: Path
    places: int
    files: int
    changed: int
    """Files that differ from the build before."""
    deleted: int
    findings: int
    unreadable: int
    """Comparisons that are listed without a page: damaged, or of a newer program."""


def build_site(
    settings: Settings,
    directory: Path,
    *,
    base_url: str | None = None,
    force: bool = False,
    advance: Callable[[int, int], None] | None = None,
    now: datetime | None = None,
) -> BuiltSite:
    """Write the dashboard of the store into a folder. `base_url`: where it will stand, for the links of the feed.

    Raises NoDataError if nothing is stored for the settings, InputError for a folder that holds something else.
    """
    built = datetime.now(UTC) if now is None else now
    url = str(settings.store_url.value)
    base = None if base_url is None else _folder_url(base_url)
    with open_combined_store(url) as store, store.one_state():
        held = _by_place(holding for holding in store.inventory() if is_selected(holding, settings))
        if not held:
            raise NoDataError("no stored runs of that suite and testbed; see `regress-gate baseline list`")
        folder = SiteFolder(directory, force=force)
        releases = seen_releases(settings.config.check.release_index, built)
        summaries: list[PlaceSummary] = []
        findings: list[FeedEntry] = []
        unreadable = 0
        compared = list[_ComparisonPage]()
        counter = _Counter(advance)
        for key, holdings in held.items():
            place = _gather(store, settings, key, holdings, releases)
            counter.expect(len(place.series) + len(place.comparisons))
            place = _write_place(folder, store, place, counter)
            unreadable += len(place.unreadable)
            summaries.append(summary_of(place, built))
            findings += _findings(place)
            compared += _comparison_pages(place)
    watched = [_watched(state, compared) for state in watch_states(settings, built) if _is_shown(state, settings)]
    folder.announce([*_FRONT, *([WATCH_PAGE] if watched else [])])
    if watched:
        folder.write(WATCH_PAGE, watch_page(watched))
    folder.write("index.json", index_data(summaries, watched, built))
    identity = base or StoreLocation.parse(url).shown
    folder.write("feed.xml", render_feed(findings, identity=identity, title="Findings of regress-gate", base_url=base))
    folder.write("uplot-license.txt", licence_text())
    folder.write(".nojekyll", "")
    folder.write("index.html", index_page(summaries, findings, watched, built))
    deleted = folder.finish()
    return BuiltSite(
        index=directory / "index.html",
        places=len(summaries),
        files=folder.files,
        changed=folder.changed,
        deleted=deleted,
        findings=len(findings),
        unreadable=unreadable,
    )


@dataclass(frozen=True, slots=True)
class _ComparisonPage:
    testbed: str
    suite: str
    baseline: Version
    candidate: Version
    page: str


def _comparison_pages(place: Place) -> Iterator[_ComparisonPage]:
    """Those that can be read, the newest first."""
    for one in place.comparisons:
        if (page := place.comparison_page(one)) is not None:
            whole = f"{place.folder}/{page}"
            yield _ComparisonPage(place.testbed, str(place.suite), one.baseline, one.candidate, whole)


def _is_shown(state: WatchState, settings: Settings) -> bool:
    suite = settings.suite.value
    return suite in (None, state.suite, state.suite.partition("@")[0]) and is_wanted_testbed(
        state.testbed, settings.testbeds.value
    )


def _watched(state: WatchState, compared: Sequence[_ComparisonPage]) -> WatchedPlace:
    name, _, version = state.suite.partition("@")
    own = [each for each in compared if (each.testbed, each.suite) == (state.testbed, state.suite)]
    return WatchedPlace(
        testbed=state.testbed,
        suite=SuiteRef(name, version),
        looks=[_past_look(look, own) for look in state.looks],
        next_due=state.next_due,
        is_overdue=any(alarm.kind is AlarmKind.OVERDUE for alarm in state.alarms),
        alarms=[(alarm.kind.value, alarm.text, alarm.todo) for alarm in state.alarms],
        followed=[
            FollowedRegression(
                one.finding.title,
                one.finding.state.value,
                not one.is_confirmed,
                one.finding.looks,
                one.finding.bisect_command,
            )
            for one in state.followed
        ],
    )


def _past_look(look: StoredLook, compared: Sequence[_ComparisonPage]) -> PastLook:
    data, build = look.data, look.candidate
    decision = data.get("decision")
    outcome = decision or ("not measured" if data.get("kind") in ("measure", "check") else str(data.get("kind")))
    page = None
    if decision and build is not None:
        pinned = Version.parse(data["pinned"])
        pages = (one.page for one in compared if one.baseline.matches(pinned) and one.candidate.matches(build))
        page = next(pages, None)
    return PastLook(
        begun=look.begun,
        build="" if build is None else str(build),
        outcome="not ended" if look.ended is None else outcome,
        text=_look_text(look, decision),
        alarms=len(data.get("alarms", ())),
        page=page,
    )


def _look_text(look: StoredLook, decision: str | None) -> str:
    """Without what other columns say."""
    data, headline = look.data, str(look.data.get("headline", ""))
    if look.candidate is None or look.ended is None:
        return ""
    if decision is None:
        return headline.removeprefix(f"{look.candidate} could not be measured: ")
    how = "known issues only" if data.get("kind") == "check" else f"beside {data['pinned']}"
    return how + headline.partition(f": {decision}")[2]


class _Counter:
    """Pages that are written, and all that are known so far."""

    def __init__(self, advance: Callable[[int, int], None] | None):
        self._advance, self._done, self._total = advance, 0, 0

    def expect(self, pages: int) -> None:
        self._total += pages

    def step(self) -> None:
        self._done += 1
        if self._advance is not None:
            self._advance(self._done, self._total)


_FRONT = ("index.json", "feed.xml", "uplot-license.txt", ".nojekyll", "index.html")


def _folder_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise InputError("is no web address", where="--base-url", todo="write it as https://HOST/PATH/")
    return url.rstrip("/") + "/"


# Gather


def _by_place(holdings: Iterator[Holding]) -> dict[_Key, list[Holding]]:
    """By testbed and suite; the user's own first, then by name."""
    places: dict[_Key, list[Holding]] = defaultdict(list)
    for holding in holdings:
        places[holding.testbed, holding.suite].append(holding)

    def order(key: _Key) -> tuple[bool, str, str, str]:
        return _is_shipped(places[key]), key[0], key[1].name, key[1].version

    return {key: places[key] for key in sorted(places, key=order)}


def _is_shipped(holdings: Sequence[Holding]) -> bool:
    return all(holding.origin is HoldingOrigin.SHIPPED for holding in holdings)


_EARLIEST = datetime.min.replace(tzinfo=UTC)


def _gather(
    store: CombinedStore, settings: Settings, key: _Key, holdings: Sequence[Holding], releases: Releases
) -> Place:
    testbed, suite = key
    definition = _definition(settings, suite)
    measured = SuiteOnTestbed(testbed, suite, definition)
    lines = with_known_issues(read_lines(store, measured, settings, HistoryFilter(), detect=True), measured, settings)
    comparisons = [] if store.store is None else store.store.comparisons(testbed=testbed, suite=suite)
    ordered = sorted(holdings, key=lambda holding: (holding.last or _EARLIEST, str(holding.version)), reverse=True)
    place = Place(
        testbed=testbed,
        suite=suite,
        is_shipped=_is_shipped(holdings),
        facts=[],
        holdings=ordered,
        lines=lines,
        comparisons=comparisons,
        unmeasured=_unmeasured(holdings, releases),
    )
    return _with_issues(place, settings, definition)


def _definition(settings: Settings, suite: SuiteRef) -> Suite | None:
    """Of a shipped suite, or of the suite file of the settings."""
    name = settings.suite.value
    if name is not None and is_suite_path(name):
        own = load_suite(name)
        if (own.name, own.version) == (suite.name, suite.version):
            return own
    return find_shipped_suite(suite)


def _unmeasured(holdings: Sequence[Holding], releases: Releases) -> list[tuple[str, date]]:
    """The known releases after the newest stored version, the newest first. None where no version has an order."""
    keys = [key for holding in holdings if (key := holding.version.order_key) is not None]
    if not keys:
        return []
    newest: Pep440 = max(keys)
    return [(str(release), releases[release]) for release in sorted(releases, reverse=True) if release > newest]


def _with_issues(place: Place, settings: Settings, definition: Suite | None) -> Place:
    """With the check of the newest version that has an order, from the one before it; else of the newest of all."""
    line = next((view.line for view in place.lines if view.line.sides), None)
    if line is None:
        return place
    run = line.sides[-1].runs[-1]
    facts = [(label, str(value)) for label, value in _testbed_facts(run.testbed.facts)]
    place = replace(place, facts=facts)
    deployment = settings.deployment if definition is None else settings.deployment.over(definition.deployment())
    if not (deployment.accelerator or deployment.platform or deployment.gpu_arch):
        deployment = deployment.over(Deployment(accelerator=run.testbed.accelerator))
    before = str(line.versions[-2]) if len(line.versions) > 1 else None
    own = replace(settings, deployment_flag=deployment)
    try:
        checked = check_version(own, str(line.versions[-1]), baseline=before, offline=True)
    except RegressGateError as error:
        return replace(place, issues_note=f"The records could not be matched: {error}")
    return replace(place, issues=checked.result)


def _testbed_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name in ("accelerator", "accelerator_count", "driver", "cpu", "cpu_count", "os"):
        if facts.get(name) is not None:
            yield name.replace("_", " "), facts[name]


_TOLD = 5
"""Series of one version in an entry of the feed."""


# Write


def _write_place(folder: SiteFolder, store: CombinedStore, place: Place, counter: _Counter) -> Place:
    """Pages before those that link to them. Returns the place with the comparisons that could not be read."""
    names = [f"{place.folder}/{place.series_page(*each)}" for each in place.series]
    names += [f"{place.folder}/{page}" for one in place.comparisons if (page := place.comparison_page(one))]
    folder.announce([*names, place.data_page, f"{place.folder}/{ISSUES_PAGE}"])
    for name, text in series_pages(place):
        folder.write(name, text)
        counter.step()
    unreadable = set[int | None]()
    for one in place.comparisons:
        page, result = place.comparison_page(one), _read_result(store, one)
        if result is None or page is None:
            unreadable.add(one.id)
        else:
            folder.write(f"{place.folder}/{page}", _report(result, place, "../../../"))
        counter.step()
    place = replace(place, unreadable=frozenset(unreadable))
    if place.issues is not None:
        folder.write(f"{place.folder}/{ISSUES_PAGE}", _report(place.issues, place, "../../"))
    pages = [*comparison_list_pages(place), *changes_page(place), *place_pages(place)]
    folder.announce(name for name, _ in pages)
    for name, text in pages:
        folder.write(name, text)
    folder.write(place.data_page, place_data(place))
    return place


def _read_result(store: CombinedStore, comparison: StoredComparison) -> Result | None:
    """None for one that is damaged, or that a newer program wrote."""
    if store.store is None or comparison.id is None:
        return None
    try:
        return Result.model_validate(store.store.comparison_document(comparison.id))
    except (StoreError, ValidationError):
        return None


def _report(result: Result, place: Place, root: str) -> str:
    """A report with the way back to the dashboard; `root` leads to its folder."""
    trail = [(f"{root}index.html", TITLE), (f"{root}{place.folder}/index.html", place.title)]
    return render_view(ResultView(result), trail=trail)


def _findings(place: Place) -> Iterator[FeedEntry]:
    where = (place.testbed, place.suite.name, place.suite.version)
    first = {holding.version: holding.first for holding in place.holdings}
    for group in place.changes(worse=True):
        if (time := first.get(group.version)) is not None:
            yield FeedEntry(
                key=("changes", *where, str(group.version)),
                title=f"{group.title}: {place.title}",
                text="; ".join(
                    f"{change.name}: {line_change_text(group.view.line, change)}" for change in group.changes[:_TOLD]
                ),
                page=f"{place.folder}/{CHANGES_PAGE}#{group.id}",
                time=time,
            )
    for comparison in place.comparisons:
        page = place.comparison_page(comparison)
        if comparison.decision != "fail" or page is None:
            continue
        yield FeedEntry(
            key=("comparison", *where, comparison.created.isoformat(), comparison.digest),
            title=f"FAIL: {comparison.baseline} → {comparison.candidate}: {place.title}",
            text=f"The comparison of {comparison.baseline} with {comparison.candidate} failed.",
            page=f"{place.folder}/{page}",
            time=comparison.created,
        )
