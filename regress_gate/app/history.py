"""The history of a suite on a testbed: all stored versions, and which of them changed something."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from regress_gate.app.known_issues import issue_finder, seen_releases
from regress_gate.app.settings import Settings
from regress_gate.errors import InputError, NoDataError
from regress_gate.gate.history import HistoryFilter, HistoryOrder, HistoryReader, WantedMetrics, history_lines
from regress_gate.gate.history_changes import find_line_changes, without_improvements
from regress_gate.gate.sides import ComparisonSide, make_side
from regress_gate.model.issue import Applies, Effect
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import ConditionLimits, Suite
from regress_gate.model.version import Version
from regress_gate.report.views.history_view import HistoryView
from regress_gate.report.views.history_words import IssueEvent, LineView
from regress_gate.store.combined import CombinedStore, open_combined_store
from regress_gate.store.store_interface import Holding, HoldingOrigin
from regress_gate.suites import find_shipped_suite, is_suite_path, load_suite
from regress_gate.text import plural


def show_history(
    settings: Settings,
    wanted: HistoryFilter,
    *,
    detect: bool = False,
    improvements: bool = False,
    advance: Callable[[int, int], None] | None = None,
) -> HistoryView:
    """The series over all stored versions; with `detect` also their changes, for the better only with `improvements`.

    Raises NoDataError if nothing is stored, InputError if the settings leave more than one suite or testbed.
    """
    if improvements and not detect:
        raise InputError("needs --detect", where="--improvements", todo="give --detect too")
    name = settings.suite.value
    own = load_suite(name) if name is not None and is_suite_path(name) else None
    if own is not None:
        name = f"{own.name}@{own.version}"
    with open_combined_store(str(settings.store_url.value)) as store:
        ref, testbed = _choose_suite_and_testbed(store.inventory(), name, settings.testbed.value)
        place = SuiteOnTestbed(testbed, ref, own or find_shipped_suite(ref))
        lines = read_lines(store, place, settings, wanted, detect=detect, advance=advance)
    if detect:
        lines = with_known_issues(lines, place, settings)
    views = [view if improvements else _without_improvements(view) for view in lines]
    return HistoryView(str(ref), testbed, views)


_MOST_STEPS = 24
"""Steps between the newest versions for which known issues are looked up: each takes a twentieth of a second."""


def with_known_issues(lines: Sequence[LineView], place: "SuiteOnTestbed", settings: Settings) -> list[LineView]:
    """The issues that are sure to apply to the deployment and say which metrics they change. Builds that have no order
    have no place between two releases."""
    deployment = (
        settings.deployment if place.definition is None else settings.deployment.over(place.definition.deployment())
    )
    find = issue_finder(deployment, seen_releases(settings.config.check.release_index, datetime.now(UTC)))
    views = []
    for view in lines:
        versions = view.line.versions if view.line.order is HistoryOrder.VERSION else ()
        events = []
        for at in range(max(1, len(versions) - _MOST_STEPS), len(versions)):
            for found in find(versions[at - 1], versions[at]).findings:
                if found.applies is Applies.YES and found.issue.signature and found.effect is not Effect.CARRIED:
                    metrics = tuple(dict.fromkeys(part.metric for part in found.issue.signature))
                    begins = found.effect is Effect.NEW
                    events.append(IssueEvent(at, found.issue.id, found.issue.summary, begins, metrics))
        views.append(replace(view, issues=events))
    return views


@dataclass(frozen=True, slots=True)
class SuiteOnTestbed:
    """What has one history."""

    testbed: str
    suite: SuiteRef
    definition: Suite | None
    """None: results without a suite, or of a suite that is not shipped."""

    @property
    def limits(self) -> ConditionLimits:
        return self.definition.conditions if self.definition else ConditionLimits()


def read_lines(
    store: CombinedStore,
    place: SuiteOnTestbed,
    settings: Settings,
    wanted: HistoryFilter,
    *,
    detect: bool,
    advance: Callable[[int, int], None] | None = None,
) -> list[LineView]:
    """The lines of a history; with `detect` also all of their changes. Reads one version after the other."""
    limits, policy = place.limits, settings.policy(place.definition.gate if place.definition else None)

    def full_side(version: Version) -> ComparisonSide:
        runs = store.runs(version=version, testbed=place.testbed, suite=place.suite)
        return make_side(version, [run for run in runs if run.version == version], limits)

    def sides() -> Iterator[ComparisonSide]:
        metrics = WantedMetrics(wanted, policy)
        for runs in store.runs_by_version(testbed=place.testbed, suite=place.suite, metrics=metrics):
            yield make_side(runs[0].version, runs, limits)

    lines = history_lines(HistoryReader(sides, full_side), policy, wanted)
    releases = seen_releases(settings.config.check.release_index, datetime.now(UTC))
    views = []
    for done, line in enumerate(lines):
        if advance is not None:
            advance(done, len(lines))
        changes = find_line_changes(line, policy, limits) if detect else None
        keys = [version.order_key for version in line.versions]
        released = [None if key is None else releases.get(key) for key in keys]
        views.append(LineView(line, changes, released=released))
    return views


def _without_improvements(view: LineView) -> LineView:
    if view.changes is None:
        return view
    changes, hidden = without_improvements(view.changes)
    return replace(view, changes=changes, improvements=hidden)


def _choose_suite_and_testbed(held: Sequence[Holding], suite: str | None, testbed: str | None) -> tuple[SuiteRef, str]:
    """The only suite and testbed that are left. The user's own runs go before the shipped ones, as in a comparison."""
    kept = [h for h in held if suite in (None, h.suite.name, str(h.suite)) and testbed in (None, h.testbed)]
    if not kept:
        raise NoDataError("no stored runs of that suite and testbed; see `regress-gate baseline list`")
    own = [holding for holding in kept if holding.origin is HoldingOrigin.STORE]
    choices: dict[tuple[SuiteRef, str], set[str]] = {}
    for holding in own or kept:
        choices.setdefault((holding.suite, holding.testbed), set()).add(str(holding.version))
    if len(choices) > 1:
        listed = sorted(f"--suite {s} --testbed {t} ({plural(len(v), 'version')})" for (s, t), v in choices.items())
        raise InputError("runs of more than one suite or testbed are stored", todo=f"choose: {' | '.join(listed[:8])}")
    return next(iter(choices))
