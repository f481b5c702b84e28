"""`watch --check-only` against indexes on loopback: what a new build is checked with, and what silence is made of."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from regress_gate.app import watch_refresh
from regress_gate.model.version import Version
from regress_gate.store.repository import find_store
from regress_gate.vllm.release_tables import build_config, known_releases
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
    assert 0 < len(threads) < 250


def test_what_cannot_be_brought_up_to_date_is_a_note_and_ends_nothing(check, index, github):
    index.status[WHEEL] = 503
    github.quota = 0
    (look,) = check(code=3)["looks"]
    assert look["decision"] is not None
    notes = " ".join(look["notes"])
    assert f"the arguments of {NIGHTLY} are not known" in notes
    assert "threads were not seen" in notes


def test_nothing_is_brought_up_to_date_where_nothing_is_new(check, index, github, monkeypatch):
    check(code=3)
    asked, github.asked[:] = len(index.asked), []
    monkeypatch.setattr(watch_refresh, "refresh_build", pytest.fail)
    assert check(code=0)["looks"] == []
    assert index.asked[asked:] == [("nightly/cpu/vllm/metadata.json", 304)]
    assert github.asked == []


def test_a_nightly_that_is_no_longer_built_is_an_alarm_though_nothing_is_new(check, index):
    check(code=3)
    index.changed = datetime.now(UTC) - timedelta(days=9)
    index.files["nightly/cpu/vllm/metadata.json"] += b" "
    seen = check(code=3)
    assert seen["looks"] == []
    (alarm,) = seen["alarms"]
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
    seen = check(code=0)
    assert seen["looks"] == []
    assert [(build["version"], build["image"]) for build in seen["newest"]] == [
        (str(NIGHTLY), f"{image}:nightly-{COMMIT}@{digest}")
    ]
    store = find_store(f"sqlite:///{gate.store}")
    assert store is not None
    with store:
        assert [one.data.get("image") for one in store.looks()] == [f"{image}:nightly-{COMMIT}@{digest}", None]
