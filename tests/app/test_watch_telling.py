"""What others are told of stored looks: in their order, and once, whatever fails."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from regress_gate import github as client
from regress_gate.app import watch_telling
from regress_gate.app.settings import Settings
from regress_gate.app.watch_telling import tell
from regress_gate.errors import ExitCode
from regress_gate.model.result import Decision
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository, find_store, open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.finding import FindingState, LookSummary
from regress_gate.watch.following import Followed
from tests.factories.watching import a_finding
from tests.fake_github.server import GitHub, serving
from tests.fake_github.state import WATCH, State

TEAM = "team/serving"
MONDAY = datetime(2027, 1, 4, 4, 17, tzinfo=UTC)
SEEN, GONE = FindingState.SEEN, FindingState.GONE


class Team:
    def __init__(self, directory: Path, github: GitHub) -> None:
        self.github = github
        self.settings = Settings(
            store_flag=f"sqlite:///{directory / 'store.db'}",
            environment={
                "GITHUB_API_URL": github.url,
                "GITHUB_REPOSITORY": TEAM,
                "GITHUB_TOKEN": "ghs_of_the_job",
                "REGRESS_GATE_WEBHOOK": "http://127.0.0.1:1/hook",
            },
        )
        self.heard: list[str] = []
        self.hook_problem: str | None = None

    def look(self, week: int, state: FindingState, place: str = "lab small@1", **changes: Any) -> None:
        followed = Followed(a_finding(state=state), "chat-c8", "output_throughput", is_confirmed=True)
        begun = MONDAY + timedelta(weeks=week)
        data = {
            "kind": "measure", "pinned": "0.40.0", "decision": "fail", "headline": f"week {week}", "alarms": [],
            "followed": [followed.to_json()], "told": False, "levels": {"chat-c8/output_throughput": 512.0 - 20 * week},
            **changes,
        }  # fmt: skip
        with open_store(str(self.settings.store_url.value), create=True) as store:
            build = Version.parse(f"0.40.1.dev{week}")
            store.put_look(StoredLook(f"week-{week}-{place[:3]}", place, begun, begun, build, data))

    def tell(self, *, dry_run: bool = False) -> int:
        return tell(self.settings, dry_run=dry_run).exit_code

    def untold(self) -> list[str]:
        store = find_store(str(self.settings.store_url.value))
        assert store is not None
        with store:
            return [look.name for look in store.looks() if not look.data["told"]]

    @property
    def issues(self) -> list[str]:
        return [one["state"] for one in self.github.state.issues(TEAM)]

    def send(self, _: Any, look: Any, **__: Any) -> str | None:
        if self.hook_problem is None:
            self.heard.append(look.look)
        return self.hook_problem


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client, "SECONDS_BETWEEN_WRITES", 0)
    monkeypatch.setattr(client.GitHub, "pause", lambda *_: None)
    state = State()
    state.add_repository(TEAM)
    state.add_token("ghs_of_the_job", TEAM, WATCH)
    with serving(GitHub(state=state)) as github:
        team = Team(tmp_path, github)
        monkeypatch.setattr(watch_telling, "send_notification", team.send)
        yield team


def test_a_look_that_only_the_web_hook_was_not_told_of_opens_no_issue_again(team: Team) -> None:
    team.look(0, SEEN)
    team.hook_problem = "the webhook refuses (400)"
    assert team.tell() == ExitCode.COULD_NOT_MEASURE
    team.look(1, GONE)
    assert team.tell() == ExitCode.COULD_NOT_MEASURE
    assert team.issues == ["closed"]
    team.hook_problem = None
    assert team.tell() == ExitCode.PASS
    assert (team.issues, team.heard, team.untold()) == (["closed"], ["week-0-lab", "week-1-lab"], [])


def test_a_look_that_github_did_not_take_is_not_overtaken_by_a_later_one(team: Team) -> None:
    team.look(0, SEEN)
    team.look(1, GONE)
    team.look(0, SEEN, place="other small@1")
    team.github.state.faults.append({"method": "POST", "path": "/issues$", "status": 502, "times": 3})
    assert team.tell() == ExitCode.COULD_NOT_MEASURE
    assert team.heard == ["week-0-lab", "week-0-oth", "week-1-lab"]
    team.github.state.faults.clear()
    assert team.tell() == ExitCode.PASS
    assert (team.issues.count("closed"), team.untold()) == (1, [])
    assert len(team.heard) == 3


def test_the_alarms_of_a_look_without_a_new_build_are_told_and_touch_no_issue(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    team.look(0, SEEN)
    assert team.tell() == ExitCode.PASS
    alarm = WatchAlarm(AlarmKind.STALE_BUILD, "the newest nightly is 9 days old", "see whether it is still built")
    data = {"kind": "nothing new", "pinned": "0.40.0", "headline": "nothing new", "alarms": [alarm.to_json()]}
    begun = MONDAY + timedelta(weeks=1)
    with open_store(str(team.settings.store_url.value), create=False) as store:
        store.put_look(StoredLook("silent", "lab small@1", begun, begun, None, {**data, "told": False}))
    sent, writes = list[LookSummary](), len(team.github.state.writes())
    monkeypatch.setattr(watch_telling, "send_notification", lambda _, look, **__: sent.append(look))
    assert team.tell() == ExitCode.PASS
    assert [(look.look, look.alarms) for look in sent] == [("silent", (str(alarm),))]
    assert (team.issues, len(team.github.state.writes()), team.untold()) == (["open"], writes, [])


def test_a_check_that_does_not_pass_is_told_to_the_web_hook_and_touches_no_issue(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[LookSummary]()
    monkeypatch.setattr(watch_telling, "send_notification", lambda _, look, **__: sent.append(look))
    team.look(0, SEEN)
    team.look(1, SEEN, kind="check", headline="0.40.0 → 0.41.0: fail (VLLM-1)", followed=[])
    assert team.tell() == ExitCode.PASS
    assert [(look.headline, look.decision, look.result) for look in sent[1:]] == [
        ("0.40.0 → 0.41.0: fail (VLLM-1)", Decision.FAIL, None)
    ]
    assert (team.issues, team.untold()) == (["open"], [])


def test_a_measurement_that_ends_after_a_later_check_was_told_still_makes_its_issue(team: Team) -> None:
    team.look(1, SEEN, kind="check", followed=[])
    assert team.tell() == ExitCode.PASS
    team.look(0, SEEN)
    assert team.tell() == ExitCode.PASS
    assert team.issues == ["open"]


def test_an_issue_has_a_picture_of_the_levels_up_to_its_look(team: Team) -> None:
    for week in range(3):
        team.look(week, SEEN)
    assert team.tell() == ExitCode.PASS
    (issue,) = team.github.state.issues(TEAM)
    before, _, picture = issue["body"].partition("chat-c8/output_throughput, over the builds:")
    assert (bool(before), picture.count("```")) == (True, 2)
    assert all(text in picture for text in ("512", "472", "0.40.1.dev0", "0.40.1.dev2"))


def test_what_becomes_of_the_message_is_said(team: Team) -> None:
    alarm = WatchAlarm(AlarmKind.STALE_BUILD, "the newest nightly is 9 days old", "see whether it is still built")
    team.look(0, SEEN, alarms=[alarm.to_json()])
    (dry,) = tell(team.settings, dry_run=True).looks
    assert (dry.message, dry.summary.alarms) == ("would be sent", (str(alarm),))
    without = {name: value for name, value in team.settings.environment.items() if "WEBHOOK" not in name}
    (unheard,) = tell(replace(team.settings, environment=without), dry_run=True).looks
    assert unheard.message == "none, for REGRESS_GATE_WEBHOOK is not set; nobody is told of its alarms"
    (sent,) = tell(team.settings, dry_run=False).looks
    assert sent.message == "sent"


def test_a_dry_run_leaves_everything_to_be_told(team: Team) -> None:
    team.look(0, SEEN)
    assert team.tell(dry_run=True) == ExitCode.PASS
    assert (team.issues, team.heard, team.untold()) == ([], [], ["week-0-lab"])


def test_told_looks_are_not_told_again(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.look(0, SEEN)
    put = Repository.put_look

    def dies(store: Repository, look: StoredLook) -> None:
        put(store, replace(look, data={**look.data, "told": False}))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Repository, "put_look", dies)
        with pytest.raises(KeyboardInterrupt):
            team.tell()
    writes = len(team.github.state.writes())
    assert team.tell() == ExitCode.PASS
    assert team.tell() == ExitCode.PASS
    assert (team.issues, team.heard) == (["open"], ["week-0-lab"])
    assert len(team.github.state.writes()) == writes
