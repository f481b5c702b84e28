"""`doctor`: whether configuration, store, machine, records and workflows are there and up to date.

Each check gives lines and raises nothing; what one cannot find out is a line, too. Nothing is changed, but for the
state files of servers that have ended, as every measurement removes them.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version as Pep440

from regress_gate.accelerators.registry import accelerator_matches, find_accelerators, unwatched_note
from regress_gate.app.settings import Settings
from regress_gate.app.watch_state import watch_states
from regress_gate.bench.machine.fingerprint import fingerprint
from regress_gate.bench.server.recovery import find_orphans
from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.files import read_bounded
from regress_gate.known.matching.facts import derive_facts
from regress_gate.known.records.coverage import load_coverage
from regress_gate.known.records.releases import KnownReleases, find_releases
from regress_gate.known.tracker.snapshot import api_base, api_directory, read_snapshot
from regress_gate.paths import (
    WORKFLOW_FOLDER,
    environments_directory,
    release_cache_file,
    shipped_workflows,
    tracker_cache_directory,
)
from regress_gate.pins.git_tree import Repository
from regress_gate.report.views.doctor_view import CheckedItem, Health
from regress_gate.store.repository import Repository as Store
from regress_gate.store.repository import find_store
from regress_gate.store.store_interface import StoreLocation
from regress_gate.suites import load_suite
from regress_gate.text import plural
from regress_gate.vllm import release_tables

if TYPE_CHECKING:
    from regress_gate.github import GitHub

DISK_NEEDED = 12 * 1024**3
"""Bytes that two versions take at most (README)."""
RECORDS_AGE = 45
"""Days after which the newest review is called old: three releases of vLLM."""
SYNC_AGE = 30
"""Days after which the threads of the records should be looked at again."""
_MAX_WORKFLOW = 1024 * 1024
_OURS = re.compile(r"(?:\s#.*|^\s*#.*)$")
_NAMES = re.compile(r"^(\s*(?:- )?(?:suite|testbed|group|runs-on|budget|deployment|timeout-minutes|cron|name):).*$")
_ACTION = re.compile(r"uses:\s*\S+/regress-gate@\S+")

Lines = Iterator[CheckedItem]


def examine(settings: Settings, *, offline: bool, directory: Path | None = None) -> list[CheckedItem]:
    """All checks of a directory (by default the current one) and this machine."""
    now = datetime.now(UTC)
    items = list(_configuration(settings, now.date()))
    if any(item.health is Health.BROKEN for item in items):
        return [*items, *_tools(), *_disk(), *_accelerator(None), *_workflows(directory)]
    releases = _releases(settings, now, offline=offline)
    steps: dict[str, Callable[[], Lines]] = {
        "store": lambda: _stored(settings),
        "accelerator": lambda: _accelerator(settings),
        "installers": _tools,
        "disk": _disk,
        "servers": _orphans,
        "records": lambda: _records(settings, releases, now.date()),
        "tables of flags": lambda: _tables(releases),
        "workflows": lambda: _workflows(directory),
        "releases": lambda: _network(releases, offline=offline),
        "watch": lambda: _watch(settings, now),
    }
    for what, step in steps.items():
        try:
            items += step()
        except RegressGateError as error:
            items.append(_broken(what, error))
    return items


def _fine(what: str, text: str) -> CheckedItem:
    return CheckedItem(what, Health.FINE, text)


def _broken(what: str, error: RegressGateError) -> CheckedItem:
    text, _, todo = str(error).partition("; ") if isinstance(error, InputError) and error.todo else (str(error), "", "")
    code = error.exit_code if error.exit_code in (ExitCode.USAGE, ExitCode.COULD_NOT_MEASURE) else ExitCode.USAGE
    return CheckedItem(what, Health.BROKEN, text, todo or "correct it", ExitCode(code))


def _configuration(settings: Settings, today: date) -> Lines:
    try:
        path, config = settings.file
    except RegressGateError as error:
        yield _broken("configuration", error)
        return
    if path is None:
        yield CheckedItem("configuration", Health.NOTE, "no regress-gate.toml was found", "regress-gate init")
    else:
        yield _fine("configuration", str(path))
    for what, read in (("deployment", lambda: settings.deployed_servers), ("suite", lambda: _suite(settings))):
        try:
            read()
        except RegressGateError as error:
            yield _broken(what, error)
    expired = [waiver.finding for waiver in config.waivers if waiver.is_expired(today)]
    if expired:
        yield CheckedItem("waivers", Health.NOTE, f"expired: {', '.join(expired)}", "regress-gate waive check")


def _suite(settings: Settings) -> None:
    if settings.suite.value is not None:
        load_suite(str(settings.suite.value))


def _stored(settings: Settings) -> Lines:
    url = str(settings.store_url.value)
    try:
        store = find_store(url)
        if store is None:
            shown = StoreLocation.parse(url).shown
            yield CheckedItem("store", Health.NOTE, f"{shown}: there is none yet", "measure or import runs; init pins")
            return
        with store:
            yield from _opened(store, settings)
    except RegressGateError as error:
        todo = "regress-gate db migrate" if "db migrate" in str(error) else "see `regress-gate db info`"
        code = ExitCode.USAGE if error.exit_code == ExitCode.USAGE else ExitCode.COULD_NOT_MEASURE
        yield CheckedItem("store", Health.BROKEN, str(error), todo, code)


def _opened(store: Store, settings: Settings) -> Lines:
    state = store.info()
    yield _fine("store", f"{state.location}, schema {state.revision}, {plural(state.runs, 'run')}")
    yield from _testbed(store, settings)
    yield from _pinned(store, settings)
    unfinished = store.experiments(unfinished_only=True)
    if unfinished:
        days = ", ".join(one.begun.date().isoformat() for one in unfinished[:5])
        todo = "the same command with --resume goes on; or leave them"
        text = f"{plural(len(unfinished), 'experiment')} begun and not ended ({days}), interrupted or running"
        yield CheckedItem("experiments", Health.NOTE, text, todo)
    else:
        yield _fine("experiments", "none is unfinished")


def _testbed(store: Store, settings: Settings) -> Lines:
    """A name of the user's may be that of another machine; one that follows from this machine is its own."""
    given = settings.testbed.value
    here = fingerprint(given)
    held = [holding for holding in store.inventory() if holding.testbed == here.name]
    if not held:
        yield CheckedItem("testbed", Health.NOTE, f"no runs of {here.name} are stored", "regress-gate run VERSION")
        return
    try:
        store.check_testbed(here)
    except InputError as error:
        health = Health.STALE if given is None else Health.NOTE
        todo = "measure the baselines again under a new --testbed name"
        if given is not None:
            todo = f"fine where this machine is not {given}; else {todo}"
        yield CheckedItem("testbed", health, f"not as when its runs were made: {error.what}", todo)
        return
    yield _fine("testbed", f"{here.name} is as when its {plural(sum(one.runs for one in held), 'run')} were made")


def _pinned(store: Store, settings: Settings) -> Lines:
    pins = store.pinned()
    if not pins:
        yield CheckedItem("pinned version", Health.NOTE, "none", "regress-gate baseline pin VERSION")
        return
    running = {server.version for server in settings.deployed_servers if server.version is not None}
    newest = pins[0].version
    if running and not any(version.matches(newest) or newest.matches(version) for version in running):
        names = ", ".join(sorted(map(str, running)))
        text = f"{newest} is pinned, and the deployment file starts {names}"
        yield CheckedItem("pinned version", Health.STALE, text, f"regress-gate baseline pin {min(map(str, running))}")
    else:
        yield _fine("pinned version", str(newest))


def _accelerator(settings: Settings | None) -> Lines:
    found = find_accelerators()
    wanted = None if settings is None else _server(settings).deployment.accelerator
    if found is None and wanted == "cpu":
        yield _fine("accelerator", "the CPU")
    elif found is None:
        yield CheckedItem(
            "accelerator", Health.NOTE, "this machine has none that its drivers name", "measure elsewhere"
        )
    elif note := unwatched_note(found.name):
        yield CheckedItem(
            "accelerator", Health.STALE, f"{found.count} × {found.name}: {note}", "install what watches it"
        )
    else:
        yield _fine("accelerator", f"{found.count} × {found.name}, watched")
    if settings is not None and wanted is None:
        text = "the deployment's accelerator is not named, so known issues that depend on it stay unknown"
        yield CheckedItem("deployment", Health.STALE, text, "name it in [deployment] of the configuration")
    elif wanted is not None and found is not None and not accelerator_matches(wanted, found.name):
        text = f"the deployment has {wanted}, this machine {found.name}"
        yield CheckedItem("accelerator", Health.NOTE, text, "measure on a machine like the deployment's")


def _server(settings: Settings) -> Settings:
    """The settings of the first server of a deployment file that holds several."""
    return settings.for_each_server()[0]


def _tools() -> Lines:
    found = [name for name in ("uv", "pip", "docker", "podman") if shutil.which(name)]
    if found:
        yield _fine("installers", ", ".join(found))
    else:
        text = "neither uv nor pip, docker or podman is on the PATH"
        yield CheckedItem("installers", Health.NOTE, text, "install uv, to measure versions on this machine")


def _disk() -> Lines:
    place = environments_directory()
    there = next((folder for folder in (place, *place.parents) if folder.is_dir()), Path("/"))
    try:
        free = shutil.disk_usage(there).free
    except OSError as error:
        yield CheckedItem("disk", Health.NOTE, f"{there} cannot be looked at ({error.strerror})", "see its mount")
        return
    text = f"{free / 1024**3:.0f} GiB free for environments in {place}"
    if free < DISK_NEEDED:
        todo = "regress-gate env prune, or REGRESS_GATE_ENVIRONMENTS on another disk"
        yield CheckedItem("disk", Health.NOTE, f"{text}; two versions take 12", todo)
    else:
        yield _fine("disk", text)


def _orphans() -> Lines:
    orphans = find_orphans()
    for orphan in orphans:
        todo = "the next measurement ends what is certainly its own"
        yield CheckedItem("servers", Health.STALE, str(orphan), todo)
    if not orphans:
        yield _fine("servers", "none was left behind")


def _releases(settings: Settings, now: datetime, *, offline: bool) -> KnownReleases:
    index = settings.config.check.release_index
    return find_releases(index, release_cache_file(), now=now, offline=offline)


def _records(settings: Settings, releases: KnownReleases, today: date) -> Lines:
    reviewed, platform = load_coverage(), derive_facts(_server(settings).deployment).platform
    newest = max(releases.days)
    ends = [Pep440(one.last) for one in reviewed.of(platform)]
    days = [one.reviewed for one in reviewed.of(platform)]
    update = "upgrade regress-gate; `regress-gate issues discover` shows what may be new"
    if platform is None:
        text = "how far they reach is unknown without the platform"
        yield CheckedItem("records", Health.STALE, text, "name the accelerator in [deployment], or --platform")
    elif not ends:
        yield CheckedItem("records", Health.STALE, f"no release was reviewed for {platform}", update)
    elif max(ends) < newest:
        text = f"reviewed through {max(ends)} for {platform}; {newest} is out since {releases.days[newest]}"
        yield CheckedItem("records", Health.STALE, text, update)
    elif (today - max(days)).days > RECORDS_AGE:
        text = f"the last review for {platform} is of {max(days)}, {(today - max(days)).days} days ago"
        yield CheckedItem("records", Health.STALE, text, update)
    else:
        yield _fine("records", f"reviewed through {max(ends)} for {platform} on {max(days)}")
    cache = api_directory(tracker_cache_directory(), api_base(os.environ))
    seen = [thread.seen.date() for thread in read_snapshot(cache).threads.values()]
    if not seen:
        yield CheckedItem("threads", Health.NOTE, "never looked at from here", "regress-gate issues sync")
    elif (today - max(seen)).days > SYNC_AGE:
        yield CheckedItem("threads", Health.STALE, f"last looked at on {max(seen)}", "regress-gate issues sync")
    else:
        yield _fine("threads", f"looked at on {max(seen)}")


def _tables(releases: KnownReleases) -> Lines:
    last, newest = release_tables.known_releases()[-1], max(releases.days)
    if Pep440(str(last.number)) < newest:
        text = f"tables of arguments and variables end at {last}; {newest} is out"
        yield CheckedItem("tables of flags", Health.STALE, text, "regress-gate diff-config --refresh")
    else:
        yield _fine("tables of flags", f"through {last}")


def _watch(settings: Settings, now: datetime) -> Lines:
    """For each place that is watched: the last look and the next, and each alarm with what to do."""
    states = watch_states(settings, now)
    for state in states:
        what = "watch" if len(states) == 1 else f"watch of {state.suite} on {state.testbed}"
        text = f"{state.look_text}; the next is due {state.next_due:%Y-%m-%d}"
        if confirmed := sum(one.is_confirmed and not one.is_gone for one in state.followed):
            text += f"; {plural(confirmed, 'regression is', 'regressions are')} followed"
        yield CheckedItem(what, Health.NOTE, text, "see its alarms") if state.alarms else _fine(what, text)
        for alarm in state.alarms:
            yield CheckedItem(what, Health.STALE, alarm.text, alarm.todo)
    if not states and "watch" in settings.config.model_fields_set:
        text = "the watch has not run: [watch] is in the configuration, and no look is stored"
        yield CheckedItem("watch", Health.STALE, text, "regress-gate watch --once, from a schedule")


def _workflows(directory: Path | None) -> Lines:
    try:
        with Repository.find(directory) as repository:
            root = repository.root
    except InputError:
        return
    written = 0
    for name, shipped in shipped_workflows().items():
        path = root / WORKFLOW_FOLDER / f"{name}.yml"
        try:
            content = read_bounded(path, _MAX_WORKFLOW) if path.is_file() else None
        except OSError:
            content = None
        if content is None:
            continue
        written += 1
        text = content.decode("utf-8", "replace")
        what = f"workflow {name}"
        if "OWNER/regress-gate" in text:
            todo = "put owner and commit in, or write it again: regress-gate init --action OWNER/NAME@REF --force"
            yield CheckedItem(what, Health.BROKEN, f"{path} calls no action: OWNER stands in it", todo, ExitCode.USAGE)
        elif _plain(text) != _plain(shipped.read_text(encoding="utf-8")):
            yield CheckedItem(
                what, Health.NOTE, "older than the shipped one, or changed by you", f"compare it with {shipped}"
            )
        else:
            yield _fine(what, "as shipped")
    if not written:
        yield CheckedItem("workflows", Health.NOTE, "none of ours is in .github/workflows", "regress-gate init")


def _plain(text: str) -> list[str]:
    """The lines of a workflow without comments, and without the names that everybody puts in."""
    lines = [_ACTION.sub("uses: regress-gate", _OURS.sub("", line)).rstrip() for line in text.splitlines()]
    return [_NAMES.sub(r"\1", line) for line in lines if line]


def _network(releases: KnownReleases, *, offline: bool) -> Lines:
    if releases.note is not None:
        health = Health.NOTE if offline else Health.STALE
        text, _, todo = releases.note.partition("; ")
        yield CheckedItem("releases", health, text, todo or "run it without --offline, or look at the index")
    else:
        yield _fine("releases", f"known through {max(releases.days)}")
    if offline:
        return
    from regress_gate.app.issue_tracking import open_github  # GitHub's client takes a third of the time to start

    try:
        with open_github(os.environ, offline=False) as client:
            yield _github(client)
    except InputError as error:
        yield _broken("GitHub", error)


def _github(client: "GitHub") -> CheckedItem:
    """Whether GitHub answers, and what the token may do; the token itself is shown nowhere."""
    from regress_gate.github import UnavailableError  # with the client, as above

    try:
        with client.reading():
            headers, _ = client.api.requester.requestJsonAndCheck("GET", "/rate_limit")
    except UnavailableError as error:
        text = f"{client.host} does not answer: {error}"
        return CheckedItem("GitHub", Health.NOTE, text, "see the network, the proxy, and GITHUB_TOKEN")
    if client.anonymous:
        return CheckedItem(
            "GitHub", Health.NOTE, f"{client.host} answers, without a token", "set GITHUB_TOKEN for its limits"
        )
    scopes = str(headers.get("x-oauth-scopes") or "").strip()
    rights = (
        f"scopes of the token: {scopes}" if scopes else "the token names no scopes (fine-grained, or of a workflow)"
    )
    return _fine("GitHub", f"{client.host} answers; {rights}")
