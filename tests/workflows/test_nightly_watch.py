"""The workflow of the watch: nightly code sees no token, and a regression has one issue, however often it runs."""

import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from regress_gate.model.version import Version
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.watch.finding import WatchFinding
from regress_gate.watch.following import Followed
from tests.factories.watching import a_finding
from tests.fake_github.state import WATCH
from tests.workflows.conftest import NAME, SERVES, STEADY, SUITE, Team
from tests.workflows.runner import ROOT, TOKEN, Run

pytestmark = pytest.mark.workflows

FILE = "nightly-watch.yml"
PLACE = "h200-node-3 serving@1"
PINNED = Version.parse("0.19.0")
BUILD = "0.23.1rc1.dev{number}+g{commit:.9}.cpu"
SETTINGS = """\
[defaults]
suite = "serving.yaml"
testbed = "h200-node-3"
[provision]
way = "command"
command = "sh build.sh {version} {port}"
wheel_index = "WHEEL_INDEX"
[watch]
channels = ["nightly"]
"""
RECORDS = """\
# A build that writes down what it and every process above it were given, and does not serve.
pid=$$
while [ "$pid" -gt 1 ]; do
  tr '\\0' '\\n' <"/proc/$pid/environ" >>"$BUILD_SAW"
  pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
done
exit 1
"""


class Watched:
    """The team's machine, and the index of nightly builds that it asks."""

    def __init__(self, team: Team):
        self.team = team
        self.saw = team.directory / "build-saw"
        team.variables["BUILD_SAW"] = str(self.saw)
        settings = SETTINGS.replace("WHEEL_INDEX", (team.directory / "index").as_uri())
        self.files = {"regress-gate.toml": settings, "serving.yaml": SUITE, "build.sh": RECORDS}
        team.push_main(self.files)

    def serve(self, flags: Mapping[Version, list[str]]) -> None:
        """Builds serve from now on, as the fake vLLM does with these flags."""
        behaviour = self.team.directory / "behaviour.json"
        behaviour.write_text(json.dumps({str(version): given for version, given in flags.items()}))
        self.team.variables["FAKE_VLLM_BEHAVIOUR"] = str(behaviour)
        settings = self.files["regress-gate.toml"].replace("sh build.sh {version} {port}", SERVES)
        self.team.push_main(self.files | {"regress-gate.toml": settings})

    def publish_nightly(self, number: int) -> Version:
        """The index names this build from now on."""
        commit = f"{number:040x}"
        version = BUILD.format(number=number, commit=commit)
        listing = self.team.directory / "index" / "nightly" / "cpu" / "vllm" / "metadata.json"
        listing.parent.mkdir(parents=True, exist_ok=True)
        entry = {
            "package_name": "vllm",
            "version": version,
            "platform_tag": f"manylinux_2_28_{platform.machine()}",
            "variant": "cpu",
            "path": f"../../../{commit}/cpu/vllm-{version.replace('+', '%2B')}-cp38-abi3-linux.whl",
        }
        listing.write_text(json.dumps([entry]))
        return Version(Version.parse(version).number, commit, "cpu")

    def keep_look(self, number: int, build: Version, finding: WatchFinding) -> None:
        """A look that measured the build and found this, and that nobody was told of."""
        followed = Followed(finding, "chat-c8", "output_throughput", is_confirmed=True)
        data = {"kind": "measure", "pinned": str(PINNED), "decision": "fail", "exit_code": 1, "headline": "Slower."}
        data |= {"alarms": [], "followed": [followed.to_json()], "told": False}
        begun = datetime.now(UTC) - timedelta(hours=3 - number)
        with open_store(self.team.secrets["REGRESS_GATE_STORE"], create=True) as store:
            store.put_look(StoredLook(f"look-{number}", PLACE, begun, begun, build, data))

    def run(self, **inputs: str) -> Run:
        """By the schedule, or with inputs by hand."""
        event = "workflow_dispatch" if inputs else "schedule"
        content: dict[str, Any] = {"repository": {"full_name": NAME, "default_branch": "main"}}
        content |= {"inputs": {"build": "", **inputs}} if inputs else {"schedule": "17 4 * * 1"}
        return self.team.run(FILE, event, content, permissions=WATCH)


@pytest.fixture
def watched(measuring: Team) -> Watched:
    return Watched(measuring)


def test_a_regression_has_one_issue_which_is_edited_in_place(watched: Watched) -> None:
    first = watched.publish_nightly(1403)
    watched.keep_look(1, first, a_finding())
    run = watched.run(pin=f"v{PINNED}")
    assert run.code == 0, run.text
    (issue,) = watched.team.state.issues(NAME)
    assert (issue["state"], issue["edits"]) == ("open", 0)
    assert issue["body"].startswith("<!-- regress-gate:watch:v1:")
    assert {name.rpartition(".")[2] for name in run.artifact("drafts")} == {"yaml", "md"}

    second = watched.publish_nightly(1404)
    watched.keep_look(2, second, a_finding(looks=2))
    for _ in range(2):
        run = watched.run()
        assert (run.code, watched.saw.exists()) == (0, False), run.text
        (again,) = watched.team.state.issues(NAME)
        assert (again["number"], again["edits"], again["state"]) == (issue["number"], 1, "open")
    assert "in 2 looks so far" in again["body"]


def test_a_slower_build_is_measured_followed_and_told_once(watched: Watched) -> None:
    slow = ["--ttft=0.01", "--tpot=1", "--jitter=0", "--run-spread=0", "--whole-at-once"]
    watched.serve({PINNED: STEADY, watched.publish_nightly(1403): slow})
    run = watched.run(pin=f"v{PINNED}")
    assert [name.partition(" --budget")[0] for name in run.failed] == ["regress-gate watch --once"], run.text
    watched.serve({PINNED: STEADY, watched.publish_nightly(1404): slow})
    run = watched.run()
    (look,) = json.loads(run.artifact("look")["look.json"])["looks"]
    assert (look["decision"], look["findings"][0]["looks"]) == ("fail", 2), run.text
    (issue,) = watched.team.state.issues(NAME)
    assert "tpot_median" in issue["title"]
    run = watched.run()
    assert run.code == 0, run.text
    assert watched.team.state.issues(NAME) == [issue]


def test_nightly_code_finds_no_token_and_a_red_look_is_told(watched: Watched) -> None:
    watched.publish_nightly(1403)
    run = watched.run(pin=f"v{PINNED}")
    assert [name.partition(" --budget")[0] for name in run.failed] == ["regress-gate watch --once"], run.text
    seen = watched.saw.read_text()
    assert "REGRESS_GATE_STORE=" in seen, "the build was started by the watch"
    assert TOKEN not in seen
    (tell,) = (step for step in run.steps.values() if step.name.startswith("regress-gate watch --publish"))
    assert (tell.result, "0.23.1rc1.dev1403" in tell.summary) == ("success", True), run.text


def test_only_the_step_that_tells_is_given_a_token() -> None:
    jobs = yaml.safe_load((ROOT / "ci" / FILE).read_text())["jobs"]
    assert {name: job["permissions"] for name, job in jobs.items()} == {
        "look": {"contents": "read"},
        "tell": {"contents": "read", "issues": "write"},
    }
    holders = [
        (name, number)
        for name, job in jobs.items()
        for number, step in enumerate([job.get("env", {}), *job["steps"]])
        if "github.token" in json.dumps(step) or "GITHUB_TOKEN" in json.dumps(step)
    ]
    assert holders == [("tell", 3)]
    assert jobs["tell"]["steps"][2]["run"].startswith("regress-gate watch --publish ")
