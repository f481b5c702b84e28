"""One look of the watch: the newest builds, each measured beside the pinned release, and what follows from it.

A look is a row of the store from its first step to its last, so that one that was interrupted goes on where it was: its
build stays the one that was found, blocks that are stored are not made again, and what others were told is told once.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from filelock import FileLock, Timeout

from regress_gate.accelerators.registry import default_variant
from regress_gate.app.check import check_version
from regress_gate.app.compare import compare_stored, keep_comparison
from regress_gate.app.diff_config import changed_configuration
from regress_gate.app.fleet import open_fleet
from regress_gate.app.history import SuiteOnTestbed
from regress_gate.app.measure_comparison import NotMeasuredError, measure_comparison, plan_comparison
from regress_gate.app.settings import DEFAULT_SUITE, MeasurementAmount, ProgressReporter, Settings
from regress_gate.app.watch_builds import build_alarms, find_newest, named_as_before
from regress_gate.app.watch_history import changes_so_far, measured_levels
from regress_gate.app.watch_refresh import NewThreads, Refreshed, find_new_threads, refresh_knowledge
from regress_gate.app.watch_state import (
    alarms_of,
    changed_libraries,
    changed_testbed,
    followed_by,
    look_runs,
    made_nothing,
    unmeasured_alarms,
    watch_alarms,
)
from regress_gate.bench.fleet.fleet import Fleet
from regress_gate.bench.machine.fingerprint import fingerprint
from regress_gate.bench.provision.recipe import WHEEL_INDEX
from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.model.config import ProvisionConfig
from regress_gate.model.result import Decision, Result
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.paths import watch_lock_file
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.suites import load_suite
from regress_gate.text import one_line, plural
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.builds import FoundBuilds, PublishedBuild
from regress_gate.watch.finding import FindingState, LookSummary
from regress_gate.watch.following import Followed, LookPlace, follow, is_tagged
from regress_gate.watch.visit_view import Look, Visit

_MEASURE, _CHECK = "measure", "check"
"""Kinds of looks."""
_ISSUES_NAMED = 3
"""Blocking known issues in a headline."""
_AGAIN = "interrupted: every run that was made is stored; the same command goes on"


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a visit is to do."""

    amount: MeasurementAmount
    provisioning: ProvisionConfig
    builds: tuple[str, ...] = ()
    """Look at these builds, not at the newest ones."""
    check_only: bool = False
    """Known issues, changed flags and threads only: no GPU."""
    offline: bool = False
    on: str | None = None
    """The engine of a fleet, one host of which is the testbed; None: this machine."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What does not change between looks."""

    machine: Testbed
    suite: SuiteRef
    suite_argument: str
    definition: Suite
    pinned: Version
    variant: str | None
    """Build of vLLM for this place; None: vLLM's default build."""
    fleet: Fleet | None = None
    """`machine` alone, reached by its engine; None: this machine."""

    @property
    def name(self) -> str:
        return f"{self.machine.name} {self.suite}"


def visit(settings: Settings, request: WatchRequest, progress: ProgressReporter) -> Visit:
    """Find the newest builds, and look at each one that is new here. Raises InputError where nothing is pinned or
    another watch of this store is at work."""
    url = str(settings.store_url.value)
    with (
        only_watch(url),
        open_store(url, create=True) as store,
        open_fleet(settings, request.on, progress, one_host=True) as fleet,
    ):
        config, now = settings.config.watch, datetime.now(UTC)
        place = _find_place(settings, request, store, fleet)
        progress.say("asking for the newest builds")
        found = find_newest(settings, request.provisioning, place.variant, request.builds, offline=request.offline)
        earlier = _end_looks_at_pinned(store, place, now)
        found = named_as_before(found, earlier)
        alarms = build_alarms(found, earlier, config, now)
        alarms += [one for one in watch_alarms(earlier, config, now) if one.kind is AlarmKind.OVERDUE]
        alarms += [one for one in [changed_testbed(earlier, place.machine)] if one is not None]
        images = {one.version: one.image for one in found.builds if one.image is not None}
        looks, threads, kind = [], NewThreads(), _kind(request)
        builds = _to_look_at(found.builds, earlier, place, kind)
        if builds or request.check_only:
            if not request.offline:
                progress.say("looking for new threads")
            threads = find_new_threads(earlier, now, offline=request.offline)
        for at, (unfinished, build) in enumerate(builds):
            progress.say(f"looking at {build}")
            # Each with a time of its own: they are followed, and told of, in the order in which they began.
            begun = datetime.now(UTC)
            known = {"kind": kind} | ({"image": images[build]} if build in images else {})
            look = unfinished or StoredLook(_look_name(build, place, begun), place.name, begun, None, build, known)
            store.put_look(look)
            # The threads are those of the visit: its first look has them.
            news = NewThreads() if at else threads
            looks.append(_look(settings, request, place, store, look, alarms, news, progress))
        if not looks:
            _note_nothing_new(store, place, found, alarms, threads, now)
        stored = store.looks(place.name)
        made = {look.summary.look for look in looks}
        alarms += [alarm for look in stored if look.name in made for alarm in alarms_of(look.data)]
        alarms += watch_alarms(stored, config, now)
        due = now + timedelta(days=config.every_days)
        quiet = NewThreads() if looks else threads
        return Visit(
            tuple(looks),
            found.builds,
            tuple(dict.fromkeys(alarms)),
            due,
            threads=quiet.threads,
            notes=quiet.notes,
        )


@contextmanager
def only_watch(url: str) -> Iterator[None]:
    path = watch_lock_file(hashlib.sha256(url.encode()).hexdigest()[:16])
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError("another watch of this store is at work", todo="wait for it to end") from None
    try:
        yield
    finally:
        lock.release()


def _find_place(settings: Settings, request: WatchRequest, store: Repository, fleet: Fleet | None) -> _Place:
    argument = str(settings.suite.value or DEFAULT_SUITE)
    suite = load_suite(argument)
    own = None if fleet is None else fleet.testbeds[0]
    testbed = own or fingerprint(settings.testbed.value, accelerator=suite.accelerator)
    pins = store.pinned()
    if not pins:
        raise InputError(
            "no version is pinned to compare new builds with",
            todo="pin one: regress-gate baseline pin VERSION --unmeasured",
        )
    pinned = max(pins, key=lambda pin: pin.pinned_at).version
    accelerator = testbed.accelerator if suite.accelerator is None else suite.accelerator
    if request.check_only:
        # The builds for the machine that is asked about, which need not be this one.
        accelerator = settings.deployment.accelerator or accelerator
    variant = request.provisioning.variant or default_variant(accelerator)
    ref = SuiteRef(suite.name, suite.version)
    return _Place(testbed, ref, argument, suite, pinned, variant, fleet)


def _end_looks_at_pinned(store: Repository, place: _Place, now: datetime) -> list[StoredLook]:
    """The looks so far. One that was interrupted, and whose build was pinned since, is ended: nothing is left to do."""
    for look in store.looks(place.name):
        if look.ended is None and look.candidate is not None and _is_pinned(look.candidate, place):
            store.put_look(replace(look, ended=now, data={"kind": "nothing new", "alarms": []}))
    return store.looks(place.name)


def _is_pinned(build: Version, place: _Place) -> bool:
    """An index leaves open what a pin may name, such as the variant, and the other way round."""
    return build.matches(place.pinned) or place.pinned.matches(build)


def _to_look_at(
    builds: Iterable[PublishedBuild], earlier: Sequence[StoredLook], place: _Place, kind: str
) -> list[tuple[StoredLook | None, Version]]:
    """An interrupted look of this kind first, then builds that no look has measured and decided beside this pin; with
    the look to go on with. A check is made again each time: deployment, records and waivers may be others."""
    unfinished = {
        look.candidate: look
        for look in earlier
        if look.ended is None and look.candidate is not None and look.data.get("kind", _MEASURE) == kind
    }
    decided = {
        look.candidate
        for look in earlier
        if kind == _MEASURE
        and look.data.get("decision")
        and look.data.get("kind") == kind
        and look.data.get("pinned") == str(place.pinned)
        and not made_nothing(look)
    }
    wanted = dict.fromkeys([*unfinished, *(build.version for build in builds)])
    new = [build for build in wanted if build not in decided and not _is_pinned(build, place)]
    return [(unfinished.get(build), build) for build in new]


def _kind(request: WatchRequest) -> str:
    return _CHECK if request.check_only else _MEASURE


def _look_name(build: Version, place: _Place, now: datetime) -> str:
    where = hashlib.sha256(place.name.encode()).hexdigest()[:6]
    return f"{now:%Y%m%dT%H%M%S%f}-{re.sub(r'[^A-Za-z0-9.]+', '-', str(build))}-{where}"


def _look(
    settings: Settings,
    request: WatchRequest,
    place: _Place,
    store: Repository,
    look: StoredLook,
    alarms: Sequence[WatchAlarm],
    threads: NewThreads,
    progress: ProgressReporter,
) -> Look:
    """Everything from measuring to what others are to be told. Each step is kept before the next one begins."""
    build = look.candidate
    assert build is not None  # noqa: S101 - looks without a build have nothing to go on with  # nosec B101
    before = [one for one in store.looks(place.name) if one.ended is not None]
    followed_before = followed_by(before)
    data: dict[str, Any] = {**look.data, "kind": _kind(request), "pinned": str(place.pinned)}
    known = Refreshed((), ("nothing was brought up to date (offline)",))
    if not request.offline:
        index = request.provisioning.wheel_index or WHEEL_INDEX
        known = refresh_knowledge(settings, place.pinned, build, index, progress.say)
    result, problem = None, None
    try:
        result = _decide(settings, request, place, store, build, progress)
    except RegressGateError as error:
        if error.exit_code is not ExitCode.COULD_NOT_MEASURE:
            raise
        problem = one_line(str(error))
    own = list(alarms)
    if not request.check_only:
        data |= {"testbed": place.machine.facts} | _runs_made(store, place, look)
        changed = changed_libraries(before, place.machine.name, place.pinned, data.get("libraries", {}))
        own += [] if changed is None else [changed]
    followed = [one.unseen() for one in followed_before if one.finding.state is not FindingState.GONE]
    if result is not None and not request.check_only:
        where = LookPlace(
            testbed=place.machine.name,
            suite=str(place.suite),
            candidate=build,
            last_good=_last_good(before, build, place.pinned),
            day=look.begun.date(),
            suite_argument=place.suite_argument,
            variant=place.variant,
        )
        followed = follow(followed_before, result, where)
    headline = _headline(build, place, result, followed, problem)
    data |= {
        "decision": None if result is None else result.decision.value,
        "exit_code": ExitCode.COULD_NOT_MEASURE if result is None else result.exit_code,
        "headline": headline,
        **threads.kept(),
    }
    changes = list[str]()
    if not request.check_only:  # what is followed is the measuring looks' alone
        data["followed"] = [one.to_json() for one in followed]
        if result is not None:
            at = SuiteOnTestbed(place.machine.name, place.suite, place.definition)
            changes = changes_so_far(settings, at, build)
            data |= {**measured_levels(result), "changes": changes}
    ended = replace(look, data=data, ended=datetime.now(UTC))
    own += unmeasured_alarms([*before, ended])
    # Others hear of a check that does not pass, and of every measurement.
    data["told"] = request.check_only and data["exit_code"] == ExitCode.PASS and not own
    store.put_look(replace(ended, data=data | {"alarms": [one.to_json() for one in own]}))
    findings = tuple(one.finding for one in followed if one.is_confirmed)
    suspected = tuple(one for one in followed if not one.is_confirmed)
    texts = tuple(map(str, own))
    summary = LookSummary(look.name, look.begun.date(), build, place.pinned, result, headline, texts, findings)
    return Look(
        summary,
        data["exit_code"],
        suspected=suspected,
        changes=tuple(changes),
        threads=threads.threads,
        refreshed=known.done,
        notes=(*known.problems, *threads.notes),
    )


def _decide(
    settings: Settings,
    request: WatchRequest,
    place: _Place,
    store: Repository,
    build: Version,
    progress: ProgressReporter,
) -> Result:
    if request.check_only:
        checked = check_version(settings, str(build), baseline=str(place.pinned), offline=request.offline).result
        changes = changed_configuration(settings, place.pinned, build)
        return checked.model_copy(update={"config_changes": [change.as_document() for change in changes]})
    try:
        store.check_testbed(place.machine)
    except InputError as error:  # the machine is another one, which is no mistake of the call
        raise NotMeasuredError(str(error)) from None
    amount = replace(request.amount, resume=False, resume_if_any=True)
    planned = plan_comparison(
        settings,
        str(place.pinned),
        str(build),
        amount,
        request.provisioning,
        decide=partial(compare_stored, settings),
        fleet=place.fleet,
    )
    result = compare_stored(settings, measure_comparison(settings, planned, progress, hint=_AGAIN))
    keep_comparison(settings, result)
    return result


def _runs_made(store: Repository, place: _Place, look: StoredLook) -> dict[str, Any]:
    versions = [version for version in (place.pinned, look.candidate) if version is not None]
    runs = [
        run
        for version in versions
        for run in store.runs(version=version, testbed=place.machine.name, suite=place.suite)
    ]
    return look_runs(runs, place.definition.conditions, place.pinned, look.begun)


def _last_good(before: Sequence[StoredLook], build: Version, pinned: Version) -> Version:
    """The newest build of the line of `build` that a look measured and passed; without one, the pinned version, the
    baseline. A nightly that passed says nothing of a release that was cut elsewhere, nor does a later release."""
    for look in reversed(before):
        good = look.candidate
        if look.data.get("kind") != _MEASURE or look.data.get("decision") != Decision.PASS or good is None:
            continue
        if is_tagged(good) == is_tagged(build) and (not is_tagged(build) or good.is_before(build)):
            return good
    return pinned


def _headline(
    build: Version, place: _Place, result: Result | None, followed: Sequence[Followed], problem: str | None
) -> str:
    if result is None:
        return f"{build} could not be measured: {problem}"
    headline = f"{place.pinned} → {build}: {result.decision.value}"
    if blocking := [issue.id for issue in result.known_issues if issue.blocks]:
        headline += f" ({', '.join(blocking[:_ISSUES_NAMED])}{', …' if len(blocking) > _ISSUES_NAMED else ''})"
    for are_gone, are_confirmed, one, many in (
        (False, True, "regression is followed", "regressions are followed"),
        (False, False, "suspicion waits for the next look", "suspicions wait for the next look"),
        (True, True, "regression is gone", "regressions are gone"),
        (True, False, "suspicion was not seen again", "suspicions were not seen again"),
    ):
        if count := sum(each.is_gone is are_gone and each.is_confirmed is are_confirmed for each in followed):
            headline += f", {plural(count, one, many)}"
    return headline


def _note_nothing_new(
    store: Repository,
    place: _Place,
    found: FoundBuilds,
    alarms: Sequence[WatchAlarm],
    threads: NewThreads,
    now: datetime,
) -> None:
    """Keep that the watch looked: a watch that does not run must be told from one that finds nothing. Others are told
    of its alarms."""
    kept = {
        "kind": "nothing new" if found.builds else "no answer",
        "alarms": [one.to_json() for one in alarms],
        "headline": "nothing new" if found.builds else "no index answered",
        "pinned": str(place.pinned),
        "told": not alarms,
        **threads.kept(),
    }
    store.put_look(StoredLook(f"{now:%Y%m%dT%H%M%S%f}-none", place.name, now, now, None, kept))
