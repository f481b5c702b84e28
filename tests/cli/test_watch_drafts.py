"""`watch --publish --drafts`: files for a person to complete, of what is told, never over what somebody has begun."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
import yaml

from regress_gate import github as client
from regress_gate.known.records.curation import lint_records
from regress_gate.model.run import SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.watch.finding import FindingState
from regress_gate.watch.following import Followed
from tests.factories.runs import make_run
from tests.factories.watching import BAD, a_finding
from tests.fake_github.server import GitHub, serving
from tests.fake_github.state import WATCH, State

pytestmark = pytest.mark.usefixtures("github")
TEAM = "team/serving"
SUITE = """\
name: chat
version: 3
description: One scenario.
accelerator: H100
scenarios:
  - name: chat-c8
    server: {model: Qwen/Qwen3-8B, engine_args: {max_model_len: 4096}}
    workload: {input_len: 512, output_len: 128, concurrency: 8, num_requests: 200}
"""
TESTBED = Testbed("h100-a", accelerator="NVIDIA H100 80GB HBM3", accelerator_count=1, driver="580.65")


@pytest.fixture
def github(monkeypatch):
    """The team's repository, to which the job may write."""
    monkeypatch.setattr(client, "SECONDS_BETWEEN_WRITES", 0)
    state = State()
    state.add_repository(TEAM)
    state.add_token("ghs_of_the_job", TEAM, WATCH)
    with serving(GitHub(state=state)) as server:
        for name, value in {"API_URL": server.url, "REPOSITORY": TEAM, "TOKEN": "ghs_of_the_job"}.items():
            monkeypatch.setenv(f"GITHUB_{name}", value)
        yield state


@pytest.fixture
def watched(gate):
    """A look that found one regression, with a run of the build, and the suite that it was measured with."""
    (gate.directory / "chat.yaml").write_text(SUITE)
    with open_store(f"sqlite:///{gate.store}", create=True) as store:
        store.add_runs(
            [make_run(version=str(BAD), testbed=TESTBED, suite=SuiteRef("chat", "3"), libraries={"torch": "2.9.1"})]
        )
    keep_look(gate, 1, a_finding())
    return gate


def keep_look(gate, number, finding):
    followed = Followed(finding, "chat-c8", "output_throughput", is_confirmed=True)
    data = {"kind": "measure", "pinned": "0.23.0", "decision": "fail", "headline": "Slower.", "told": False}
    begun = datetime(2026, 11, number, tzinfo=UTC)
    look = StoredLook(f"look-{number}", "h100-a chat@3", begun, begun, BAD, data | {"followed": [followed.to_json()]})
    with open_store(f"sqlite:///{gate.store}", create=False) as store:
        store.put_look(look)


def told(gate, *options):
    return gate("watch", "--publish", "--suite", "chat.yaml", "--drafts", "drafts", *options)


def files(gate):
    return {path.name: path.read_text() for path in (gate.directory / "drafts").glob("*")}


def test_a_record_and_a_report_are_left_for_a_person(watched):
    done = told(watched)
    assert done.code == 0, done
    assert " ".join(done.out.split()).count("was written") == 2
    report, record = (text for _, text in sorted(files(watched).items()))
    assert report.startswith("# [Performance]: output_throughput -9.0% [-11.0%, -7.0%], worse since 0.23.1rc1")
    for text in ("vllm serve Qwen/Qwen3-8B", "--max-model-len=4096", "torch (library)", "2.9.1", "580.65"):
        assert text in report, text
    assert yaml.safe_load(record)["scope"]["model"] == ["Qwen/Qwen3-8B"]
    found = [one.what for one in lint_records(watched.directory / "drafts", today=date(2026, 11, 23))]
    assert "summary still has a TODO" in found
    assert "h100-a" not in report + record


def test_what_a_person_has_begun_is_left_as_it_is(watched):
    assert told(watched).code == 0
    path = next((watched.directory / "drafts").glob("*.yaml"))
    path.write_text("begun")
    keep_look(watched, 8, a_finding(looks=2))
    done = told(watched)
    assert (done.code, path.read_text()) == (0, "begun")
    assert " ".join(done.out.split()).count("is there already and is left as it is") == 2


def test_what_is_gone_or_was_told_before_needs_no_draft(watched):
    keep_look(watched, 8, replace(a_finding(), state=FindingState.GONE))
    assert (told(watched).code, files(watched)) == (0, {})
    assert (told(watched).code, files(watched)) == (0, {})


def test_a_dry_run_writes_nothing(watched):
    done = told(watched, "--dry-run")
    assert (done.code, files(watched)) == (0, {})
    assert " ".join(done.out.split()).count("would be written") == 2


def test_on_a_terminal_it_is_a_dry_run_until_it_is_said_to_be_for_real(watched, github, monkeypatch):
    monkeypatch.setattr("regress_gate.cli.watch._is_terminal", lambda: True)
    done = told(watched)
    assert (done.code, github.issues(TEAM), files(watched)) == (0, [], {})
    assert "a dry run, as always on a terminal; --for-real writes" in done.err
    assert (told(watched, "--for-real").code, len(github.issues(TEAM)), len(files(watched))) == (0, 1, 2)


def test_nobody_is_told_if_a_draft_cannot_be_written(watched, github):
    (watched.directory / "drafts").symlink_to("nowhere/drafts")
    refused = told(watched)
    assert (refused.code, github.issues(TEAM)) == (2, [])
    assert refused.error == "drafts: cannot be made (File exists)"


def test_without_the_suite_the_commands_are_left_to_the_person(watched):
    (watched.directory / "chat.yaml").write_text(SUITE.replace("version: 3", "version: 4"))
    assert told(watched).code == 0
    report = next(text for name, text in files(watched).items() if name.endswith(".md"))
    assert "TODO: the command that serves" in report


def test_drafts_are_for_publishing(gate):
    assert gate("watch", "--once", "--drafts", "drafts").error.startswith("--drafts is for --publish")
