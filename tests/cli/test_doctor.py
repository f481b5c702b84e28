"""`doctor`: what is missing or stale is said with what to do; what is not there yet is no fault."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from regress_gate.accelerators import registry
from regress_gate.app import doctor as examined
from regress_gate.known.records.coverage import load_coverage
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from tests.fake_github.server import GitHub, Scripted, serving

COMPOSE = "services: {llm: {image: vllm/vllm-openai:v0.19.1, command: [--model, org/Model-8B]}}\n"
TOKEN = "ghp_secret0123456789"


def items(done):
    return {one["what"]: (one["health"], one["text"], one["todo"]) for one in done.json["items"]}


@pytest.fixture
def home(gate, repo, monkeypatch):
    """A repository with a deployment, a configuration and a pin, in a world whose newest release was reviewed."""
    for name in ("GITHUB_TOKEN", "REGRESS_GATE_GITHUB_API"):
        monkeypatch.delenv(name, raising=False)
    repo.commit({"compose.yaml": COMPOSE})
    assert gate("init", "--accelerator", "H100", "--suite", "none", "--action", "team/regress-gate@v1").code == 0
    reviews = load_coverage().of("cuda")
    last = max(one.last for one in reviews)
    day = datetime.now(UTC).date() - timedelta(days=3)
    monkeypatch.setattr(examined, "load_coverage", lambda: type(load_coverage()).model_validate({
        "sources": {"threads": {"what": "all threads of it", "until": day}},
        "protocols": {reviews[0].depth: "all threads read"},
        "reviews": [{"platforms": ["cuda"], "first": "0.18.0", "last": last, "depth": reviews[0].depth,
                     "sources": ["threads"], "reviewed": day}],
    }))  # fmt: skip
    monkeypatch.setattr(
        examined, "_releases", lambda *_, **__: examined.KnownReleases({examined.Pep440(last): day}, note=None)
    )
    return repo


def test_nothing_is_wrong_right_after_init(gate, home):  # noqa: ARG001 - the world it looks at
    done = gate("doctor", "--offline", "--format", "json")
    found = items(done)
    assert (done.code, done.json["exit_code"]) == (0, 0), found
    assert {what for what, one in found.items() if one[0] in ("stale", "broken")} == set()
    assert found["workflow upgrade-gate"] == ("fine", "as shipped", None)
    assert found["pinned version"][:2] == ("fine", "0.19.1")
    assert found["threads"] == ("note", "never looked at from here", "regress-gate issues sync")
    shown = gate("doctor", "--offline")
    assert shown.out.startswith("nothing is broken or stale")
    assert "fine: configuration, store" in " ".join(shown.out.split())


def test_each_line_that_is_not_fine_says_what_to_do(gate):
    done = gate("doctor", "--offline", "--format", "json")
    assert done.code == 3
    assert all(one[2] for one in items(done).values() if one[0] != "fine")


def test_a_deployment_that_moved_on_without_its_pin_is_stale(gate, home):
    home.commit({"compose.yaml": COMPOSE.replace("0.19.1", "0.20.0")})
    done = gate("doctor", "--offline", "--format", "json")
    assert done.code == 3
    health, text, todo = items(done)["pinned version"]
    assert (health, todo) == ("stale", "regress-gate baseline pin 0.20.0")
    assert text == "0.19.1 is pinned, and the deployment file starts 0.20.0"


def test_records_that_end_before_the_newest_release_are_stale(gate, home, monkeypatch):  # noqa: ARG001
    day = datetime.now(UTC).date()
    monkeypatch.setattr(
        examined, "_releases", lambda *_, **__: examined.KnownReleases({examined.Pep440("9.9.0"): day}, note=None)
    )
    done = gate("doctor", "--offline", "--format", "json")
    found = items(done)
    assert done.code == 3
    assert "9.9.0 is out since" in found["records"][1]
    assert found["tables of flags"][0] == "stale"


@pytest.mark.parametrize(
    ("text", "what", "said"),
    [
        ("[deploymnt]\n", "configuration", "deployment"),
        ("not toml", "configuration", ""),
        ('[deployment]\nfile = "gone.yaml"\n', "deployment", "cannot be read"),
        ('[defaults]\nsuite = "h100-lama8b"\n', "suite", "h100-llama8b"),
    ],
)
def test_a_broken_configuration_is_exit_2_and_the_rest_is_looked_at(gate, home, text, what, said):
    (home.root / "regress-gate.toml").write_text(text)
    done = gate("doctor", "--offline", "--format", "json")
    found = items(done)
    assert done.code == 2
    assert found[what][0] == "broken"
    assert said in found[what][1] + found[what][2]
    assert found["workflow upgrade-gate"][0] == "fine"


def test_a_damaged_store_is_exit_4(gate, home):  # noqa: ARG001
    gate.store.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    done = gate("doctor", "--offline", "--format", "json")
    assert done.code == 4
    assert items(done)["store"][0] == "broken"
    assert str(gate.store) in items(done)["store"][1]


def test_workflows_are_compared_with_those_that_ship(gate, home):
    folder = home.root / ".github" / "workflows"
    own = folder / "upgrade-gate.yml"
    own.write_text(own.read_text().replace("mode: check", "mode: compare"))
    shutil.copy(folder / "upgrade-gate-comment.yml", folder / "kept.yml")
    other = folder / "upgrade-gate-comment.yml"
    other.write_text(other.read_text().replace("team/regress-gate@v1", "OWNER/regress-gate@0000"))
    done = gate("doctor", "--offline", "--format", "json")
    found = items(done)
    assert done.code == 2
    assert found["workflow upgrade-gate"][0] == "note"
    assert found["workflow upgrade-gate-comment"][0] == "broken"


def test_a_changed_machine_is_stale_under_its_own_name_only(gate, home, monkeypatch):  # noqa: ARG001
    name = examined.fingerprint().name
    gate.import_starts("v0.19.1", "--testbed-fact", "cpu_count=4096", testbed=name)
    found = items(gate("doctor", "--offline", "--format", "json"))["testbed"]
    assert found[0] == "stale"
    assert "not as when its runs were made" in found[1]
    found = items(gate("doctor", "--offline", "--testbed", name, "--format", "json"))["testbed"]
    assert found[0] == "note"


def test_an_accelerator_that_cannot_be_watched_is_stale(gate, home, monkeypatch):  # noqa: ARG001
    here = registry.Accelerators("Intel Gaudi 3", 8, None)
    monkeypatch.setattr(examined, "find_accelerators", lambda: here)
    found = items(gate("doctor", "--offline", "--format", "json"))
    assert found["accelerator"][0] in ("stale", "note")
    assert "Gaudi" in json.dumps(found["accelerator"])


class TestGitHub:
    @pytest.fixture
    def github(self, gate, home, monkeypatch):  # noqa: ARG002 - their environment comes first
        with serving(GitHub()) as server:
            server.resources["/rate_limit"] = {"resources": {}}
            monkeypatch.setenv("REGRESS_GATE_GITHUB_API", server.url)
            monkeypatch.setenv("NO_PROXY", "127.0.0.1")
            yield server

    def test_the_scopes_of_the_token_are_said_and_the_token_is_not(self, gate, github, monkeypatch):
        assert "without a token" in items(gate("doctor", "--format", "json"))["GitHub"][1]
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        github.headers = {"X-OAuth-Scopes": "repo, read:org"}
        done = gate("doctor", "--format", "json")
        assert items(done)["GitHub"][:2] == ("fine", "127.0.0.1 answers; scopes of the token: repo, read:org")
        assert TOKEN not in done.out + done.err

    def test_a_token_that_is_refused_is_said(self, gate, github, monkeypatch):
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        github.script = [Scripted(401, {}, f'{{"message": "{TOKEN}"}}'.encode())]
        done = gate("doctor", "--format", "json")
        assert "renew it or unset it" in items(done)["GitHub"][1]
        assert TOKEN not in done.out + done.err

    def test_offline_asks_nobody(self, gate, github):
        gate("doctor", "--offline")
        assert github.asked == []


def test_a_deployment_file_of_several_servers_is_looked_at_by_its_first(gate, home):
    home.commit({"compose.yaml": COMPOSE.replace("services: {", "services: {two: {image: vllm/vllm-openai:v0.19.1}, ")})
    assert gate("doctor", "--offline", "--format", "json").code == 0


def test_hostile_names_never_steer_the_terminal(gate, home):
    (home.root / "regress-gate.toml").write_text('[deployment]\nfile = "a\\u001b[31m::error::##[x]"\n')
    shown = gate("doctor", "--offline")
    assert "\x1b" not in shown.out
    assert "##[" not in shown.out


def test_a_watch_that_is_configured_and_has_never_run_is_stale(gate, home):
    path = home.root / "regress-gate.toml"
    assert "watch" not in items(gate("doctor", "--offline", "--format", "json"))
    path.write_text(path.read_text() + "\n[watch]\nevery_days = 7\n")
    health, text, todo = items(gate("doctor", "--offline", "--format", "json"))["watch"]
    assert (health, text.partition(":")[0]) == ("stale", "the watch has not run")
    assert "regress-gate watch --once" in todo


def test_the_last_look_the_next_and_every_alarm_stand_in_lines_of_their_own(gate, home):  # noqa: ARG001 - as above
    begun = datetime.now(UTC) - timedelta(days=20)
    alarm = WatchAlarm(AlarmKind.STALE_BUILD, "the newest nightly is 9 days old", "see whether it is still built")
    data = {"kind": "nothing new", "headline": "nothing new", "alarms": [alarm.to_json()]}
    with open_store(f"sqlite:///{gate.store}", create=True) as store:
        store.put_look(StoredLook("one", "h100-a chat@3", begun, begun, None, data))
    done = gate("doctor", "--offline", "--format", "json")
    lines = {(one["health"], one["text"]): one["todo"] for one in done.json["items"] if one["what"] == "watch"}
    assert done.code == 3
    due = (begun + timedelta(days=7)).date()
    assert lines["note", f"looked on {begun.date()}: nothing new; the next is due {due}"] == "see its alarms"
    assert lines["stale", "the newest nightly is 9 days old"] == "see whether it is still built"
    assert (
        "regress-gate watch --once" in lines["stale", "the watch has not run for 20 days; a look is due every 7 days"]
    )
