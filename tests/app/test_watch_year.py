"""A year of the watch, in which it is killed at every kind of step: nothing is doubled, nothing is lost."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regress_gate.app.settings import MeasurementAmount, NoProgress, Settings
from regress_gate.app.watch import WatchRequest, visit
from regress_gate.app.watch_telling import tell
from regress_gate.bench.machine.reservation import DIRECTORY_VARIABLE
from regress_gate.errors import ExitCode
from regress_gate.model.config import ProvisionConfig, ProvisionMethod
from regress_gate.model.run import Run
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository, find_store, open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.watch.alarm import AlarmKind
from regress_gate.watch.tracking_issue import LABEL
from regress_gate.watch.visit_view import Visit
from tests.factories.watch_year import (
    FAMILIES,
    SLOW_SCENARIO,
    START,
    SUITE,
    Crashes,
    SimulatedCrashError,
    World,
    crash_everywhere,
    live_in,
    publishing,
)
from tests.fake_github.server import GitHub, serving
from tests.fake_github.state import BOT, WATCH, State

TEAM = "team/serving"
WEEKS = 52
SLOW = range(15, 27)
"""Weeks in which main has a step of 10 %."""
ABSENT = (5, 22, 23, 40)
"""The index answers 403."""
STALE = (9, 10, 33, 46)
"""The nightly is that of the week before."""
NOISY = (12, 36)
HOOK_BROKEN = (16, 30, 31)
GITHUB_BROKEN = (17, 29)
WRITING = ("POST", "PATCH")
STEPS = (
    "put_look", "add_runs", "begin_experiment", "end_experiment", "add_comparison", "web hook", "POST issue or label",
    "POST comment", "PATCH issue or label",
)  # fmt: skip
PINNED = "0.40.0"
MARKER = re.compile(r"<!-- regress-gate:watch:v1:([0-9a-f]+) -->")


class Team:
    """Whose watch it is: a repository, a store, and a schedule that starts the watch again when it was killed."""

    def __init__(self, world: World, directory: Path, github: GitHub) -> None:
        (directory / "suite.yaml").write_text(SUITE)
        self.world, self.github = world, github
        self.killed = 0
        self.settings = Settings(
            store_flag=f"sqlite:///{directory / 'store.db'}",
            suite_flag=str(directory / "suite.yaml"),
            testbed_flag="lab",
            environment={
                "GITHUB_API_URL": github.url,
                "GITHUB_REPOSITORY": TEAM,
                "GITHUB_TOKEN": "ghs_of_the_job",
                "REGRESS_GATE_WEBHOOK": f"{world.url}/hook",
            },
        )
        with open_store(str(self.settings.store_url.value), create=True) as store:
            store.pin(Version.parse(PINNED))

    def until_done(self, call: Callable[[], Visit]) -> Visit:
        while True:
            try:
                return call()
            except SimulatedCrashError:
                self.killed += 1
                self.world.clock.set(self.world.clock.time + timedelta(minutes=5))

    def visit(self) -> Visit:
        config = ProvisionConfig(
            way=ProvisionMethod.COMMAND, command="serve {version} {port}", wheel_index=self.world.url
        )
        request = WatchRequest(MeasurementAmount(runs=3), config)
        return self.until_done(lambda: visit(self.settings, request, NoProgress()))

    def tell(self) -> Visit:
        return self.until_done(lambda: tell(self.settings, dry_run=False))

    def looks(self) -> list[StoredLook]:
        with self._store() as store:
            return store.looks()

    def runs(self) -> list[Run]:
        with self._store() as store:
            return store.runs()

    def _store(self) -> Repository:
        store = find_store(str(self.settings.store_url.value))
        assert store is not None
        return store

    @property
    def issues(self) -> list[dict[str, Any]]:
        """Those of the watch."""
        return [one for one in self.github.state.issues(TEAM) if one["login"] == BOT and MARKER.match(one["body"])]

    def markers(self, state: str) -> Counter[str]:
        found = (MARKER.match(one["body"]) for one in self.issues if one["state"] == state)
        return Counter(match[1] for match in found if match)


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", DIRECTORY_VARIABLE):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    world = World(slow_weeks=SLOW)
    live_in(world, monkeypatch)
    state = State()
    state.add_repository(TEAM)
    state.add_token("ghs_of_the_job", TEAM, WATCH)
    with publishing(world), serving(GitHub(state=state)) as github:
        yield Team(world, tmp_path, github)


def add_threads_of_others(state: State) -> list[dict[str, Any]]:
    """That look like issues of the watch to a careless eye."""
    key = "0123456789abcdef01234567"
    body = f"<!-- regress-gate:watch:v1:{key} -->\nI copied this."
    state.add_issue(TEAM, "Written by a person", "Words", login="somebody", labels=[LABEL])
    state.add_issue(TEAM, "Copied marker", body, login="somebody", labels=[LABEL])
    state.add_issue(TEAM, "Ours, of something else", "<!-- regress-gate:sticky -->", login=BOT, labels=["ci"])
    state.add_issue(TEAM, "Quotes the marker", f"See {body}", login=BOT, labels=[LABEL])
    return [deepcopy(one) for one in state.issues(TEAM)]


def next_week(world: World, week: int) -> None:
    world.clock.set(START + timedelta(weeks=week))
    world.is_noisy, world.hook_status = week in NOISY, 400 if week in HOOK_BROKEN else 200
    if week % 3 == 0:  # cut a week before it is out
        world.releases[f"0.{40 + week // 3}.0"] = week - 1
    if week in ABSENT:
        world.nightly = None
    elif week not in STALE:
        world.publish_nightly(week)


@pytest.mark.slow
def test_a_year_of_crashes_doubles_nothing_and_loses_nothing(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    world, state = team.world, team.github.state
    others = add_threads_of_others(state)
    crashes = Crashes(np.random.default_rng(20261123), share=0.1)
    crash_everywhere(crashes, monkeypatch)
    most_open, first_told = Counter[str](), dict[str, int]()
    team.github.after_change = lambda: most_open.update(team.markers("open") - most_open)
    for week in range(WEEKS):
        next_week(world, week)
        if week in GITHUB_BROKEN:
            state.faults += [{"method": method, "path": "/issues", "status": 502, "times": 1000} for method in WRITING]
        seen = team.visit()
        kinds = {alarm.kind for alarm in seen.alarms}
        assert (AlarmKind.STALE_BUILD in kinds, AlarmKind.NO_ANSWER in kinds) == (week in STALE, week in ABSENT), week
        team.tell()
        if week in NOISY:
            assert seen.exit_code == ExitCode.COULD_NOT_MEASURE
            world.is_noisy = False
            team.visit()
            team.tell()
        assert_nothing_is_done_again(team)
        state.faults.clear()
        for issue in team.issues:
            first_told.setdefault(issue["title"].partition(" ")[0], week)
    assert team.tell().exit_code == ExitCode.PASS

    assert max(most_open.values()) == 1
    assert [one for one in state.issues(TEAM) if one["number"] <= len(others)] == others
    assert_all_builds_were_measured_once(team, crashes)
    assert_everything_was_told(team, crashes)
    planted = {name: week for name, week in first_told.items() if name.startswith(f"{SLOW_SCENARIO}/")}
    assert {name.partition("/")[2].removesuffix("_median") for name in planted} == set(FAMILIES)
    assert set(planted.values()) <= {SLOW.start, SLOW.start + 1}, planted
    assert first_told == planted
    assert team.markers("open") == {}
    # Found at the first look of the step, at the latest at the second: by then there are weeks to be seen.
    assert all(", over the builds:\n\n```text" in issue["body"] for issue in team.issues)
    assert set(crashes.steps) == {f"{when} {step}" for when in ("before", "after") for step in STEPS}, crashes.steps


def assert_nothing_is_done_again(team: Team) -> None:
    """On the same day nothing is new: nothing is measured, and the issues stay as they are."""
    made, issues = len(team.world.made), deepcopy(team.issues)
    again = team.visit()
    assert (again.looks, len(team.world.made)) == ((), made)
    team.tell()
    assert team.issues == issues


def assert_all_builds_were_measured_once(team: Team, crashes: Crashes) -> None:
    looks = team.looks()
    assert all(look.ended is not None for look in looks)
    decided = Counter(str(look.candidate) for look in looks if look.data.get("decision"))
    nightlies = {f"0.40.1.dev{100 + week}" for week in range(WEEKS) if week not in (*ABSENT, *STALE)}
    releases = set(team.world.releases) - {PINNED}
    assert {name.partition("+")[0]: count for name, count in decided.items()} == dict.fromkeys(nightlies | releases, 1)
    runs = team.runs()
    places = [run.place for run in runs if run.place is not None]
    experiments = {(place.experiment, str(run.version)) for run, place in zip(runs, places, strict=True)}
    assert Counter(version for _, version in experiments) == {PINNED: len(decided), **dict.fromkeys(decided, 1)}
    assert max(Counter((place.experiment, place.block, place.side) for place in places).values()) == 1
    assert len(team.world.made) == len(runs) + crashes.steps["before add_runs"]


def assert_everything_was_told(team: Team, crashes: Crashes) -> None:
    looks = team.looks()
    assert all(look.data["told"] for look in looks)
    due = {look.name for look in looks if look.data["kind"] == "measure" or look.data["alarms"]}
    assert all(key == message["look"] for key, message in team.world.messages)
    heard = Counter(message["look"] for _, message in team.world.messages)
    assert set(heard) == due
    # A message is sent again only if the watch was killed before it could write down that it was sent.
    assert heard.total() - len(heard) <= crashes.steps["after web hook"] + crashes.steps["before put_look"]
