"""`watch` from end to end: what is looked at, what is measured again and what is not, what is followed and told."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from regress_gate import github as client
from regress_gate.app import watch
from regress_gate.app.measure_comparison import NotMeasuredError
from regress_gate.bench.experiment import experiment_runner
from regress_gate.gate import sides
from regress_gate.model.version import Version
from regress_gate.store.repository import Repository, find_store, open_store
from regress_gate.store.store_interface import StoredLook
from tests.fake_github.server import GitHub, serving
from tests.fake_github.state import WATCH, State

TIMES = ("--ttft=0.02", "--tpot=0.012", "--whole-at-once", "--jitter=0.02", "--run-spread=0.01")


@pytest.fixture(autouse=True)
def pinned(lab):
    lab.write_suite(requests=12, warmup=0, tokens=24, margin=0.05)
    lab.simulate_load()
    lab.behave({"0.20.0": ["--tpot=0.0135"], "0.20.1": ["--tpot=0.0136"], "0.20.2": []}, usual=TIMES)
    assert lab.gate("baseline", "pin", "v0.19.0").code == 0
    yield
    assert lab.servers() == []


def looked(lab, *builds, code):
    options = [part for build in builds for part in ("--build", build)]
    outcome = lab("watch", "--once", "--offline", "--runs", 3, "--format", "json", *options)
    assert outcome.code == code, outcome
    return outcome.json


def stored(lab):
    store = find_store(f"sqlite:///{lab.gate.store}")
    assert store is not None
    with store:
        return store.looks()


def test_a_build_is_measured_beside_the_pinned_release_once(lab):
    seen = looked(lab, "0.19.1", code=0)
    (look,) = seen["looks"]
    assert (look["pinned"], look["candidate"], look["decision"]) == ("0.19.0", "0.19.1", "pass")
    made = [(run.place.block, str(run.version)) for run in lab.runs()]
    assert {version for _, version in made} == {"0.19.0", "0.19.1"}
    assert looked(lab, "0.19.1", code=0)["looks"] == []
    assert [(run.place.block, str(run.version)) for run in lab.runs()] == made
    assert [look.data["kind"] for look in stored(lab)] == ["measure", "nothing new"]


@pytest.mark.slow
def test_a_regression_is_followed_until_it_is_gone_and_its_issue_with_it(lab, monkeypatch):
    (first,) = looked(lab, "0.20.0", code=1)["looks"]
    (one,) = [*first["findings"], *first["suspected"]]
    assert one["title"].startswith("c4/tpot_median +1")
    assert "bisect 0.19.0 0.20.0 --scenario c4 --metric tpot_median" in one["bisect_command"]
    (second,) = looked(lab, "0.20.1", code=1)["looks"]
    (again,) = second["findings"]
    assert (again["key"], again["first_bad"], again["looks"], again["state"]) == (one["key"], "0.20.0", 2, "seen")
    monkeypatch.setattr(client, "SECONDS_BETWEEN_WRITES", 0)
    state = State()
    state.add_repository("team/serving")
    state.add_token("ghs_of_the_job", "team/serving", WATCH)
    with serving(GitHub(state=state)) as github:
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        monkeypatch.setenv("GITHUB_REPOSITORY", "team/serving")
        monkeypatch.setenv("GITHUB_TOKEN", "ghs_of_the_job")
        for _ in range(2):
            assert lab.gate("watch", "--publish").code == 0
        (issue,) = state.issues("team/serving")
        assert issue["state"] == "open"
        (third,) = looked(lab, "0.20.2", code=0)["looks"]
        assert third["findings"][0]["state"] == "gone"
        assert lab.gate("watch", "--publish").code == 0
        assert [issue["state"] for issue in state.issues("team/serving")] == ["closed"]
        assert lab.gate("watch", "--publish").out.startswith("WATCH: nothing to tell")


@pytest.mark.slow
def test_an_interrupted_look_goes_on_with_its_build_and_its_blocks(lab, monkeypatch):
    put, puts = Repository.put_look, []

    def dies_when_it_ends(self, look):
        puts.append(look)
        if look.ended is not None:
            raise KeyboardInterrupt
        put(self, look)

    monkeypatch.setattr(Repository, "put_look", dies_when_it_ends)
    assert lab("watch", "--once", "--offline", "--build", "0.19.1").code == 130
    made = len(lab.runs())
    assert made >= 4
    monkeypatch.setattr(Repository, "put_look", put)
    (look,) = looked(lab, "0.19.1", code=0)["looks"]
    assert (look["candidate"], len(lab.runs())) == ("0.19.1", made)
    assert [one.ended is not None for one in stored(lab)] == [True]


def test_a_build_that_cannot_be_measured_is_an_alarm_and_is_tried_again(lab, monkeypatch):
    def is_never_quiet(*_, **__):
        raise NotMeasuredError("0.19.1 could not be measured: others kept 3.0 cores busy")

    with monkeypatch.context() as patched:
        patched.setattr(watch, "measure_comparison", is_never_quiet)
        outcome = lab("watch", "--once", "--offline", "--build", "0.19.1")
    assert outcome.code == 4, outcome
    assert "others kept 3.0 cores busy" in " ".join(outcome.out.split())
    (look,) = stored(lab)
    assert "others kept 3.0 cores busy" in look.data["alarms"][0]["text"]
    assert looked(lab, "0.19.1", code=0)["looks"][0]["decision"] == "pass"


@pytest.mark.slow
def test_another_machine_under_the_name_of_the_testbed_is_not_measured_and_what_changed_is_named(lab, monkeypatch):
    looked(lab, "0.19.1", code=0)
    made, fingerprint = len(lab.runs()), watch.fingerprint
    monkeypatch.setattr(
        watch, "fingerprint", lambda *given, **named: replace(fingerprint(*given, **named), cpu_count=999, driver="9")
    )
    seen = looked(lab, "0.20.2", code=4)
    kinds = {alarm["kind"]: alarm["text"] for alarm in seen["alarms"]}
    assert set(kinds) == {"testbed_changed", "not_measured"}
    assert "→ 999" in kinds["testbed_changed"]
    assert "another testbed name" in kinds["not_measured"]
    assert len(lab.runs()) == made


@pytest.mark.slow
def test_a_machine_that_is_never_quiet_is_an_alarm_of_watch_and_doctor(lab, monkeypatch):
    monkeypatch.setattr(sides, "outside_load", lambda _: 1001.0)
    seen = looked(lab, "0.19.1", code=4)
    (alarm,) = [one for one in seen["alarms"] if one["kind"] == "never_quiet"]
    assert "cores were kept busy by other processes" in alarm["text"]
    assert "regress-gate baseline show 0.19.1" in alarm["todo"]
    told = lab.gate("doctor", "--offline", "--format", "json").json["items"]
    assert alarm["text"] in [one["text"] for one in told if one["health"] == "stale"]


def test_the_last_good_build_is_of_the_line_of_the_first_bad_one(lab):
    place, begun = "lab small@1", datetime.now(UTC) - timedelta(days=9)
    passed = {"kind": "measure", "decision": "pass", "pinned": "0.19.0", "headline": "pass", "alarms": [], "told": True}
    with open_store(f"sqlite:///{lab.gate.store}", create=False) as store:
        for days, build in enumerate(("0.19.1", "0.22.0", f"0.20.1.dev7+g{'1' * 9}")):
            at = begun + timedelta(days=days)
            store.put_look(StoredLook(f"look-{days}", place, at, at, Version.parse(build), passed))
    (look,) = looked(lab, "0.20.0", code=1)["looks"]
    (one,) = [*look["findings"], *look["suspected"]]
    assert one["last_good"] == "0.19.1"
    assert one["bisect_command"].startswith("regress-gate bisect 0.19.1 0.20.0 --scenario c4 ")
    assert one["bisect_command"].endswith("--testbed lab --variant cpu")


def test_a_watch_that_is_interrupted_names_the_command_that_it_has(lab, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment_runner, "make_runs", interrupt)
    outcome = lab("watch", "--once", "--offline", "--build", "0.19.1")
    assert outcome.code == 130, outcome
    assert "the same command goes on" in outcome.err
    assert "--resume" not in outcome.err


def test_offline_without_a_named_build_knows_of_no_build(lab):
    outcome = lab("watch", "--once", "--offline", "--format", "json")
    assert outcome.code == 4, outcome
    assert [alarm["kind"] for alarm in outcome.json["alarms"]] == ["no_answer"]


def test_looks_of_one_visit_are_kept_in_the_order_in_which_they_were_made(lab, monkeypatch):
    def is_never_quiet(*_, **__):
        raise NotMeasuredError("could not be measured: others kept 3.0 cores busy")

    monkeypatch.setattr(watch, "measure_comparison", is_never_quiet)
    looked(lab, "0.20.2", "0.20.1", "0.20.0", code=4)
    assert [str(look.candidate) for look in stored(lab)] == ["0.20.2", "0.20.1", "0.20.0"]


def test_the_pinned_build_is_not_looked_at_however_it_is_written(lab):
    with open_store(f"sqlite:///{lab.gate.store}", create=False) as store:
        place = "lab small@1"
        begun = datetime.now(UTC) - timedelta(days=2)
        store.put_look(StoredLook("interrupted", place, begun, None, Version.parse("0.19.1"), {}))
    assert lab.gate("baseline", "pin", "v0.19.1+cpu", "--unmeasured").code == 0
    seen = looked(lab, "0.19.1", code=0)
    assert (seen["looks"], seen["alarms"], lab.runs()) == ([], [], [])
    assert all(look.ended is not None for look in stored(lab))


def test_without_a_pin_there_is_nothing_to_compare_with(lab):
    lab.gate("baseline", "unpin", "v0.19.0")
    outcome = lab("watch", "--once", "--offline", "--build", "0.19.1")
    assert outcome.code == 2
    assert "regress-gate baseline pin VERSION" in outcome.err


def test_a_check_needs_no_measurement(lab):
    outcome = lab("watch", "--check-only", "--offline", "--build", "0.19.1", "--format", "json")
    assert outcome.code in (0, 1, 3), outcome
    assert json.loads(outcome.out)["looks"][0]["decision"] is not None
    assert lab.runs() == []
