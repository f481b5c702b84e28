"""Alarms of the watch: what its looks lack is said, with what to do, and is never good news."""

from datetime import UTC, datetime, timedelta

import pytest

from regress_gate.app.watch_state import (
    changed_libraries,
    changed_testbed,
    look_runs,
    unmeasured_alarms,
    watch_alarms,
)
from regress_gate.model.config import WatchConfig
from regress_gate.model.run import Conditions
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Channel, Version
from regress_gate.report import RenderOptions, render
from regress_gate.store.store_interface import StoredLook
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.builds import PublishedBuild, staleness
from regress_gate.watch.visit_view import Visit
from tests.factories.runs import make_run, make_trial

NOW = datetime(2026, 11, 23, 4, 17, tzinfo=UTC)
PINNED, BUILD = Version.parse("0.33.0"), Version.parse("0.33.1")
MACHINE = Testbed("h100-a", "NVIDIA H100", 1, "570.10", "Xeon", 32, 1 << 37, "Ubuntu 24.04", "3.12.3")
CONFIG = WatchConfig()
NOISY = "1.20 CPU cores were kept busy by other processes (limit 0.5)"


def look(days_ago, *, ended=True, **data):
    begun = NOW - timedelta(days=days_ago)
    whole = {"kind": "measure", "pinned": str(PINNED), "decision": "pass", "headline": "0.33.0 → 0.33.1: pass", **data}
    name = f"{begun:%Y%m%dT%H%M%S}"
    return StoredLook(name, "h100-a chat@3", begun, begun if ended else None, BUILD, whole if ended else {})


def void(days_ago):
    runs = {"counted": 0, "failed": 0, "void": 6, "why": NOISY}
    return look(days_ago, decision=None, headline="0.33.1 could not be measured: noise", runs=runs)


def kinds(looks):
    return [alarm.kind for alarm in watch_alarms(looks, CONFIG, NOW)]


def test_a_watch_that_ran_in_time_has_no_alarm():
    assert kinds([look(14), look(7)]) == []
    assert kinds([]) == []


def test_a_watch_that_has_not_run_is_an_alarm_after_one_and_a_half_times_its_interval():
    assert kinds([look(10)]) == []
    (alarm,) = watch_alarms([look(30), look(11)], CONFIG, NOW)
    assert alarm.kind is AlarmKind.OVERDUE
    assert alarm.text == "the watch has not run for 11 days; a look is due every 7 days"
    assert "regress-gate watch --once" in alarm.todo


def test_a_look_that_finds_nothing_new_shows_that_the_watch_runs():
    assert kinds([look(20), look(3, kind="nothing new", decision=None)]) == []


def test_a_look_that_did_not_end_is_an_alarm_after_a_day_whatever_ended_since():
    assert kinds([look(0.5, ended=False)]) == []
    (alarm,) = watch_alarms([look(2, ended=False), look(1)], CONFIG, NOW)
    assert (alarm.kind, alarm.text) == (AlarmKind.UNFINISHED, "the look at 0.33.1 of 2026-11-21 did not end")


def test_a_look_that_hangs_does_not_hide_that_the_watch_has_not_run():
    assert kinds([look(12), look(3, ended=False)]) == [AlarmKind.OVERDUE, AlarmKind.UNFINISHED]


def test_a_machine_that_was_never_quiet_is_an_alarm_with_the_reason_and_the_way_to_see_it():
    (alarm,) = unmeasured_alarms([look(21), void(14), void(7)])
    assert alarm.kind is AlarmKind.NEVER_QUIET
    assert alarm.text.startswith("the machine was never quiet: of 6 runs in the last of 2 looks without")
    assert NOISY in alarm.text
    assert "regress-gate baseline show 0.33.1" in alarm.todo


def test_a_decision_of_a_look_whose_runs_are_all_void_does_not_hide_them():
    runs = {"counted": 0, "failed": 0, "void": 6, "why": NOISY}
    assert kinds([look(7, runs=runs, decision="pass")]) == [AlarmKind.NEVER_QUIET]


def test_the_next_measured_look_ends_the_alarm_and_one_without_measuring_does_not():
    assert kinds([void(14), look(7)]) == []
    assert kinds([void(14), look(7, kind="nothing new", decision=None)]) == [AlarmKind.NEVER_QUIET]


def test_builds_that_are_not_measured_for_another_reason_are_an_alarm_with_the_day_since_when():
    failed = [look(days, decision=None, headline="0.33.1 could not be measured: no wheel") for days in (14, 7)]
    (alarm,) = unmeasured_alarms([look(21), *failed])
    assert alarm.kind is AlarmKind.NOT_MEASURED
    assert alarm.text == "nothing was measured since 2026-11-09: 0.33.1 could not be measured: no wheel"


def test_runs_of_a_look_are_counted_from_its_beginning_and_by_the_limits_of_the_suite():
    limits = ConditionLimits(max_outside_cpu_cores=0.5)

    def made(label, version, load, hours, **changes):
        trial = make_trial(ttft_median=0.1)
        conditions = Conditions(outside_cpu_cores=load)
        started = NOW + timedelta(hours=hours)
        return make_run(label, version, trial, conditions=conditions, started=started, **changes)

    earlier = made("1", "0.33.0", 0.1, -24)
    noisy = [made(str(n), version, 1.2, n, libraries={"torch": "2.9"}) for n, version in ((2, "0.33.0"), (3, "0.33.1"))]
    found = look_runs([earlier, *noisy], limits, PINNED, NOW)
    assert (found["runs"]["counted"], found["runs"]["void"]) == (0, 2)
    assert NOISY in found["runs"]["why"]
    assert found["libraries"] == {"torch": "2.9"}
    assert look_runs([earlier], limits, PINNED, NOW)["runs"]["void"] == 0


def test_a_changed_testbed_is_an_alarm_that_names_what_changed():
    before = look(7, testbed=MACHINE.facts)
    now = Testbed(**{"name": "h100-a", **MACHINE.facts, "driver": "580.65", "cpu_count": 16})
    alarm = changed_testbed([look(14, testbed={}), before], now)
    assert alarm is not None
    assert alarm.kind is AlarmKind.TESTBED_CHANGED
    assert alarm.text == "h100-a changed since the look of 2026-11-16: cpu_count: 32 → 16, driver: 570.10 → 580.65"
    assert changed_testbed([before], MACHINE) is None
    assert changed_testbed([look(7)], MACHINE) is None


def test_a_change_of_the_testbed_is_told_until_a_look_on_it_has_ended():
    before = look(7, testbed=MACHINE.facts)
    now = Testbed(**{"name": "h100-a", **MACHINE.facts, "driver": "580.65"})
    assert changed_testbed([before, look(1, ended=False)], now) is not None
    assert changed_testbed([before, look(1, testbed=now.facts)], now) is None


def test_a_library_that_changed_under_the_pinned_version_is_an_alarm():
    before = look(7, libraries={"torch": "2.8.0", "triton": "3.4"})
    alarm = changed_libraries([before], "h100-a", PINNED, {"torch": "2.9.1", "triton": "3.4"})
    assert alarm is not None
    assert alarm.text.endswith("2026-11-16: torch: 2.8.0 → 2.9.1")
    assert changed_libraries([before], "h100-a", PINNED, {"torch": "2.8.0", "triton": "3.4"}) is None
    assert changed_libraries([before], "h100-a", BUILD, {"torch": "2.9.1"}) is None, "another pin has other libraries"
    assert changed_libraries([before], "h100-a", PINNED, {}) is None, "nothing was measured"


@pytest.mark.parametrize(("days", "stale"), [(2, False), (4, True)])
def test_a_nightly_is_stale_by_the_day_it_was_published_or_first_seen(days, stale):
    then, nightly = NOW - timedelta(days=days), Version.parse("0.33.1rc1.dev7+g0123456ab")
    for published, seen in ((then, None), (NOW, then), (then, NOW)):
        alarm = staleness(PublishedBuild(nightly, Channel.NIGHTLY, published), seen, NOW, timedelta(days=3))
        assert (alarm is not None) is stale
        assert alarm is None or (alarm.kind is AlarmKind.STALE_BUILD and "is 4 days old" in alarm.text)
    release = PublishedBuild(PINNED, Channel.RELEASE, NOW - timedelta(days=300))
    assert staleness(release, None, NOW, timedelta(days=3)) is None


def test_no_alarm_is_green():
    newest = (PublishedBuild(PINNED, Channel.RELEASE),)
    assert Visit((), newest, (), NOW).exit_code == 0
    for kind in AlarmKind:
        alarm = WatchAlarm(kind, "something is missing", "mend it")
        seen = Visit((), newest, (alarm,), NOW)
        assert seen.exit_code == 3
        assert "something is missing" in render(seen, "table", RenderOptions())
        assert "mend it" in render(seen, "markdown", RenderOptions())
        assert seen.data()["alarms"] == [{"kind": kind.value, "text": "something is missing", "todo": "mend it"}]
        assert WatchAlarm.from_json(alarm.to_json()) == alarm


def test_an_alarm_does_not_soften_a_worse_outcome():
    alarm = WatchAlarm(AlarmKind.NO_ANSWER, "no index answered", "ask again")
    assert Visit((), (), (alarm,), NOW).exit_code == 4
