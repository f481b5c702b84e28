"""One look of the watch: the newest builds, each measured beside the pinned release, and what follows from it.

A look is a row of the store from its first step to its last, so that one that was interrupted goes on where it was: its
build stays the one that was found, blocks that are stored are not made again, and what others were told is told once.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import orjson
from filelock import FileLock, Timeout

from regress_gate.accelerators.registry import default_variant
from regress_gate.app.check import check_version
from regress_gate.app.compare import compare_stored, keep_comparison
from regress_gate.app.issue_tracking import discover_candidates
from regress_gate.app.measure_comparison import measure_comparison, plan_comparison
from regress_gate.app.provisioning import find_build
from regress_gate.app.publish import repository_client
from regress_gate.app.settings import DEFAULT_SUITE, MeasurementAmount, ProgressReporter, Settings
from regress_gate.bench.machine.fingerprint import fingerprint
from regress_gate.bench.provision.recipe import WHEEL_INDEX
from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.known.tracker.sync import Candidate
from regress_gate.model.config import ProvisionConfig, WatchConfig
from regress_gate.model.result import Decision, Result
from regress_gate.model.version import Channel, Version
from regress_gate.paths import watch_lock_file, wheel_index_cache_directory
from regress_gate.publish.writing import NotWrittenError
from regress_gate.report.stored import read_stored_view
from regress_gate.report.views.result_view import ResultView
from regress_gate.store.repository import Repository, find_store, open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.suites import load_suite
from regress_gate.text import one_line, plural
from regress_gate.watch.builds import FoundBuilds, IndexPages, PublishedBuild, find_builds, staleness
from regress_gate.watch.finding import LookSummary
from regress_gate.watch.following import Followed, LookPlace, follow
from regress_gate.watch.notification import read_webhook, send_notification
from regress_gate.watch.tracking_issue import IssueAction, sync_tracking_issues
from regress_gate.watch.visit_view import Look, Visit

VLLM = "vllm-project/vllm"
_THREADS_SHOWN = 5


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


@dataclass(frozen=True, slots=True)
class _Place:
    """What does not change between looks."""

    testbed: str
    suite: str
    """`NAME@VERSION`."""
    suite_argument: str
    pinned: Version

    @property
    def name(self) -> str:
        return f"{self.testbed} {self.suite}"


def visit(settings: Settings, request: WatchRequest, progress: ProgressReporter) -> Visit:
    """Find the newest builds, and look at each one that is new here. Raises InputError where nothing is pinned or
    another watch of this store is at work."""
    url = str(settings.store_url.value)
    with _alone(url), open_store(url, create=True) as store:
        config, now = settings.config.watch, datetime.now(UTC)
        place, variant = _find_place(settings, request, store)
        progress.say("asking for the newest builds")
        found = _find(settings, request, variant, config)
        earlier = store.looks(place.name)
        alarms = [*found.problems, *watch_alarms(earlier, config, now), *_stale(found.builds, earlier, config, now)]
        looks = []
        for unfinished, build in _to_look_at(found.builds, earlier, place, request):
            progress.say(f"looking at {build}")
            begun = StoredLook(_look_name(build, place, now), place.name, now, None, build, {})
            look = unfinished or begun
            store.put_look(look)
            looks.append(_look(settings, request, place, store, look, progress))
        if not looks:
            _note_nothing_new(store, place, found, now)
        return Visit(tuple(looks), found.builds, tuple(dict.fromkeys(alarms)), now + timedelta(days=config.every_days))


@contextmanager
def _alone(url: str) -> Iterator[None]:
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


def _find_place(settings: Settings, request: WatchRequest, store: Repository) -> tuple[_Place, str | None]:
    argument = str(settings.suite.value or DEFAULT_SUITE)
    suite = load_suite(argument)
    testbed = fingerprint(settings.testbed.value, accelerator=suite.accelerator)
    pins = store.pinned()
    if not pins:
        raise InputError(
            "no version is pinned to compare new builds with",
            todo="pin one: regress-gate baseline pin VERSION --unmeasured",
        )
    pinned = max(pins, key=lambda pin: pin.pinned_at).version
    accelerator = testbed.accelerator if suite.accelerator is None else suite.accelerator
    variant = request.provisioning.variant or default_variant(accelerator)
    return _Place(testbed.name, f"{suite.name}@{suite.version}", argument, pinned), variant


def _find(settings: Settings, request: WatchRequest, variant: str | None, config: WatchConfig) -> FoundBuilds:
    if request.builds:
        versions = [find_build(text, settings, request.provisioning, accelerator=None) for text in request.builds]
        return FoundBuilds(tuple(PublishedBuild(version, version.channel) for version in versions), ())
    pages = IndexPages(wheel_index_cache_directory())
    try:
        return find_builds(
            [Channel(channel) for channel in config.channels],
            variant=variant,
            wheel_index=request.provisioning.wheel_index or WHEEL_INDEX,
            environ=settings.environment,
            pages=pages,
        )
    finally:
        pages.close()


def _to_look_at(
    builds: Iterable[PublishedBuild], earlier: Sequence[StoredLook], place: _Place, request: WatchRequest
) -> list[tuple[StoredLook | None, Version]]:
    """An interrupted look first, then builds that no look has decided against this pin; with the look to go on with."""
    kind = "check" if request.check_only else "measure"
    unfinished = {look.candidate: look for look in earlier if look.ended is None and look.candidate is not None}
    decided = {
        look.candidate
        for look in earlier
        if look.data.get("decision") and look.data.get("kind") == kind and look.data.get("pinned") == str(place.pinned)
    }
    wanted = list(dict.fromkeys([*unfinished, *(build.version for build in builds)]))
    return [(unfinished.get(build), build) for build in wanted if build not in decided and build != place.pinned]


def _look_name(build: Version, place: _Place, now: datetime) -> str:
    where = hashlib.sha256(place.name.encode()).hexdigest()[:6]
    return f"{now:%Y%m%dT%H%M%S}-{re.sub(r'[^A-Za-z0-9.]+', '-', str(build))}-{where}"


def _look(
    settings: Settings,
    request: WatchRequest,
    place: _Place,
    store: Repository,
    look: StoredLook,
    progress: ProgressReporter,
) -> Look:
    """Everything from measuring to telling others. Each step is kept before the next one begins."""
    build = look.candidate
    assert build is not None  # noqa: S101 - looks without a build have nothing to go on with  # nosec B101
    before = [one for one in store.looks(place.name) if one.ended is not None]
    followed_before = _followed(before)
    data: dict[str, Any] = {"kind": "check" if request.check_only else "measure", "pinned": str(place.pinned)}
    result, problem = None, None
    try:
        result = _decide(settings, request, place, build, progress)
    except RegressGateError as error:
        if error.exit_code is not ExitCode.COULD_NOT_MEASURE:
            raise
        problem = one_line(str(error))
    followed = [one.unseen() for one in followed_before]
    if result is not None and not request.check_only:
        where = LookPlace(
            testbed=place.testbed,
            suite=place.suite,
            candidate=build,
            last_good=_last_good(before, place),
            day=look.begun.date(),
            suite_argument=place.suite_argument,
        )
        followed = follow(followed_before, result, where)
    summary = _summary(look, place, result, followed, problem)
    data |= {
        "decision": None if result is None else result.decision.value,
        "exit_code": ExitCode.COULD_NOT_MEASURE if result is None else result.exit_code,
        "headline": summary.headline,
        "alarms": list(summary.alarms),
        "followed": [one.to_json() for one in followed],
        "told": request.check_only,
    }
    threads, notes = _new_threads(before, request, progress)
    store.put_look(replace(look, data=data, ended=datetime.now(UTC)))
    suspected = tuple(one for one in followed if not one.is_confirmed)
    return Look(summary, data["exit_code"], suspected=suspected, threads=threads, notes=tuple(notes))


def _decide(
    settings: Settings, request: WatchRequest, place: _Place, build: Version, progress: ProgressReporter
) -> Result:
    if request.check_only:
        return check_version(settings, str(build), baseline=str(place.pinned), offline=request.offline).result
    amount = replace(request.amount, resume=False, resume_if_any=True)
    planned = plan_comparison(
        settings, str(place.pinned), str(build), amount, request.provisioning, decide=partial(compare_stored, settings)
    )
    result = compare_stored(settings, measure_comparison(settings, planned, progress))
    keep_comparison(settings, result)
    return result


def _followed(before: Sequence[StoredLook]) -> list[Followed]:
    for look in reversed(before):
        if "followed" in look.data:
            return [Followed.from_json(one) for one in look.data["followed"]]
    return []


def _last_good(before: Sequence[StoredLook], place: _Place) -> Version:
    """The newest build that a look measured and passed; without one, the pinned version, which is the baseline."""
    for look in reversed(before):
        if look.data.get("kind") == "measure" and look.data.get("decision") == Decision.PASS and look.candidate:
            return look.candidate
    return place.pinned


def _summary(
    look: StoredLook, place: _Place, result: Result | None, followed: Sequence[Followed], problem: str | None
) -> LookSummary:
    findings = tuple(one.finding for one in followed if one.is_confirmed)
    waiting = len(followed) - len(findings)
    if result is None:
        headline = f"{look.candidate} could not be measured: {problem}"
    else:
        headline = f"{place.pinned} → {look.candidate}: {result.decision.value}"
        if findings:
            headline += f", {plural(len(findings), 'regression is', 'regressions are')} followed"
        if waiting:
            headline += f", {plural(waiting, 'suspicion waits', 'suspicions wait')} for the next look"
    alarms = () if problem is None else (f"{look.candidate} could not be measured: {problem}",)
    return LookSummary(look.name, look.begun.date(), look.candidate, place.pinned, result, headline, alarms, findings)


def _new_threads(
    before: Sequence[StoredLook], request: WatchRequest, progress: ProgressReporter
) -> tuple[tuple[Candidate, ...], list[str]]:
    """Threads since the look before, a week at least. Not knowing them decides nothing, but is said."""
    if request.offline:
        return (), ["threads of the tracker were not looked up (offline)"]
    since: date = min((before[-1].begun if before else datetime.now(UTC)), datetime.now(UTC) - timedelta(days=7)).date()
    progress.say("looking for new threads")
    try:
        view, problem = discover_candidates(
            [VLLM], since=since, limit=_THREADS_SHOWN, directory=None, drafts=None, offline=False, advance=None
        )
    except RegressGateError as error:
        return (), [f"threads of the tracker are not known: {one_line(str(error))}"]
    return tuple(view.candidates), [] if problem is None else [one_line(str(problem))]


def tell(settings: Settings, *, dry_run: bool) -> Visit:
    """Bring the tracking issues and the web hook to what stored looks found, the oldest first. Measures nothing.

    A look counts as told when nothing failed; until then it is told again, which doubles nothing. A dry run reads only.
    Raises InputError without a token or a repository.
    """
    url, config = str(settings.store_url.value), settings.config.watch
    given = dict(settings.environment) | ({"GITHUB_REPOSITORY": config.repository} if config.repository else {})
    webhook = read_webhook(settings.environment)
    client, repository = repository_client(given)
    told, now = list[Look](), datetime.now(UTC)
    with _alone(url), client, open_store(url, create=False) as store:
        for look in store.looks():
            if look.ended is None or look.data.get("told", True):
                continue
            summary = _stored_summary(store, look)
            actions, problems = list[IssueAction](), list[str]()
            try:
                actions = sync_tracking_issues(
                    client, repository, summary.findings, look=summary, dashboard=config.dashboard, dry_run=dry_run
                )
                problems = [f"{one.title}: {one_line(str(one.problem))}" for one in actions if one.problem]
            except NotWrittenError as error:
                problems.append(one_line(str(error)))
            if webhook is not None and not dry_run:
                problem = send_notification(webhook, summary, issues=actions, dashboard=config.dashboard)
                problems += [] if problem is None else [problem]
            if not dry_run and not problems:
                store.put_look(replace(look, data={**look.data, "told": True}))
            code = ExitCode.COULD_NOT_MEASURE if problems else ExitCode.PASS
            told.append(Look(replace(summary, result=None), code, tuple(actions), notes=tuple(problems)))
    return Visit(tuple(told), (), (), now + timedelta(days=config.every_days), is_telling=True)


def _stored_summary(store: Repository, look: StoredLook) -> LookSummary:
    """What the look found, with the result as it was kept; without one where it was deleted since."""
    data, result = look.data, None
    pinned = Version.parse(data["pinned"])
    for one in store.comparisons():
        if (one.baseline, one.candidate, f"{one.testbed} {one.suite}") == (pinned, look.candidate, look.place):
            document = None if one.id is None else store.comparison_document(one.id) if one.id is not None else None
            view = None if document is None else read_stored_view(orjson.dumps(document), look.name)
            result = view.result if isinstance(view, ResultView) else None
            break
    return LookSummary(
        look=look.name,
        day=look.begun.date(),
        candidate=look.candidate,
        pinned=pinned,
        result=result if data.get("decision") else None,
        headline=str(data["headline"]),
        alarms=tuple(_alarms_of(data)),
        findings=tuple(one.finding for one in map(Followed.from_json, data["followed"]) if one.is_confirmed),
    )


def _stale(
    builds: Iterable[PublishedBuild], earlier: Sequence[StoredLook], config: WatchConfig, now: datetime
) -> list[str]:
    found = []
    for build in builds:
        first = min((look.begun for look in earlier if look.candidate == build.version), default=None)
        found.append(staleness(build, first, now, timedelta(days=config.nightly_max_age_days)))
    return [text for text in found if text is not None]


def _note_nothing_new(store: Repository, place: _Place, found: FoundBuilds, now: datetime) -> None:
    """Keep that the watch looked: a watch that does not run must be told from one that finds nothing."""
    data = {"kind": "nothing new" if found.builds else "no answer", "alarms": list(found.problems)}
    store.put_look(StoredLook(f"{now:%Y%m%dT%H%M%S%f}-none", place.name, now, now, None, data))


def watch_alarms(looks: Sequence[StoredLook], config: WatchConfig, now: datetime) -> list[str]:
    """What the looks at one place, the oldest first, lack. Empty without looks."""
    alarms = list[str]()
    ended = [look for look in looks if look.ended is not None]
    if ended and now - ended[-1].begun > timedelta(days=1.5 * config.every_days):
        age = (now - ended[-1].begun).days
        alarms.append(
            f"the last look was {plural(age, 'day')} ago, one is due every {plural(config.every_days, 'day')}"
        )
    for look in looks:
        if look.ended is None and now - look.begun > timedelta(days=1):
            alarms.append(f"the look at {look.candidate} of {look.begun:%Y-%m-%d} did not end: run the watch again")
    measured = [look for look in ended if look.data.get("kind") == "measure"]
    if measured and all(look.data.get("decision") is None for look in measured[-2:]):
        alarms.append(
            f"nothing was measured since {measured[-1].begun:%Y-%m-%d}: {measured[-1].data.get('headline', '')}"
        )
    return alarms


@dataclass(frozen=True, slots=True)
class WatchState:
    """How the watch stands at one place, for `doctor` and the dashboard."""

    place: str
    last: StoredLook
    alarms: tuple[str, ...]
    next_due: datetime


def watch_states(settings: Settings, now: datetime) -> list[WatchState]:
    """One for each place that was ever looked at. Empty where there is no store or no look."""
    store = find_store(str(settings.store_url.value))
    if store is None:
        return []
    with store:
        looks = store.looks()
    config = settings.config.watch
    by_place: dict[str, list[StoredLook]] = {}
    for look in looks:
        by_place.setdefault(look.place, []).append(look)
    states = []
    for place, group in by_place.items():
        alarms = [*watch_alarms(group, config, now), *_alarms_of(group[-1].data)]
        due = group[-1].begun + timedelta(days=config.every_days)
        states.append(WatchState(place, group[-1], tuple(dict.fromkeys(alarms)), due))
    return states


def _alarms_of(data: Mapping[str, object]) -> list[str]:
    alarms = data.get("alarms")
    return [str(one) for one in alarms] if isinstance(alarms, list) else []
