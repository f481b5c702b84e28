"""A visit of the watch as a report: what the formats print, as files to be read in a review."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from syrupy.assertion import SnapshotAssertion

from regress_gate.model.result import Decision
from regress_gate.model.version import Channel, Version
from regress_gate.report import RenderOptions, render
from regress_gate.report.findings import Level
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.builds import PublishedBuild
from regress_gate.watch.finding import FindingState, LookSummary, WatchFinding
from regress_gate.watch.following import Followed
from regress_gate.watch.tracking_issue import IssueAction
from regress_gate.watch.visit_view import Look, Visit
from tests.factories.results import failing
from tests.factories.watching import BAD, a_finding, a_look
from tests.report.golden import golden

DUE = datetime(2026, 11, 30, 4, 17, tzinfo=UTC)
RELEASE, NIGHTLY = Version.parse("0.33.0"), BAD
NEWEST = (
    PublishedBuild(RELEASE, Channel.RELEASE),
    PublishedBuild(NIGHTLY, Channel.NIGHTLY, datetime(2026, 11, 16, 3, tzinfo=UTC),
                   f"vllm/vllm-openai:nightly-{'4080263b' * 5}@sha256:{'0123456789abcdef' * 4}"),
)  # fmt: skip
STALE = WatchAlarm(AlarmKind.STALE_BUILD, "the newest nightly is 7 days old", "see whether it is still built")


def failed(finding: WatchFinding) -> Look:
    summary: LookSummary = a_look(
        0, finding, result=failing(), candidate=NIGHTLY, headline=f"0.23.0 → {NIGHTLY}: fail, 1 regression is followed"
    )
    url = "https://github.com/team/serving/issues/7"
    return Look(
        summary,
        1,
        issues=(IssueAction(finding.key, finding.title, "created", url, 7, ()),),
        suspected=(
            Followed(a_finding(2, title="ttft of chat-c8 is 4 % higher"), "chat-c8", "ttft", is_confirmed=False),
        ),
        refreshed=(f"the arguments of {NIGHTLY} were read from its wheel",),
        notes=("threads of the tracker were not looked up (offline)",),
    )


def told(look: Look) -> Look:
    return Look(replace(look.summary, result=None), 0, issues=look.issues)


def would_be_told() -> Look:
    return replace(told(failed(a_finding())), message="would be sent")


def alarm_without_a_web_hook() -> Look:
    summary = a_look(result=None, candidate=None, headline="nothing new", alarms=(str(STALE),))
    return Look(summary, 0, message="none, for REGRESS_GATE_WEBHOOK is not set; nobody is told of its alarms")


def crept() -> Look:
    change = f"chat-c8/ttft_median: ramp of +4.1% [+3.0, +5.2], worse, at {NIGHTLY}, from 0.23.0 to {NIGHTLY}"
    return Look(a_look(candidate=NIGHTLY, headline=f"0.23.0 → {NIGHTLY}: pass"), 0, changes=(change,))


def not_seen_again() -> Look:
    gone = a_finding(2, title="ttft of chat-c8 is 4 % higher", state=FindingState.GONE)
    headline = f"0.23.0 → {NIGHTLY}: pass, 1 suspicion was not seen again"
    summary = a_look(candidate=NIGHTLY, headline=headline)
    return Look(summary, 0, suspected=(Followed(gone, "chat-c8", "ttft", is_confirmed=False),))


VISITS = {
    "nothing-new": Visit((), NEWEST, (), DUE),
    "silent": Visit((), NEWEST, (STALE,), DUE),
    "no-answer": Visit((), (), (WatchAlarm(AlarmKind.NO_ANSWER, "releases are not known: 503", "ask again"),), DUE),
    "failed": Visit((failed(a_finding()),), NEWEST, (STALE,), DUE),
    "not-measured": Visit(
        (Look(a_look(result=None, headline=f"{NIGHTLY} could not be measured: no wheel", candidate=NIGHTLY), 4),),
        NEWEST,
        (),
        DUE,
    ),
    "gone": Visit((not_seen_again(),), NEWEST, (), DUE),
    "crept": Visit((crept(),), NEWEST, (), DUE),
    "quiet": Visit((), NEWEST, (), DUE, notes=("threads of the tracker were not looked up (offline)",)),
    "dry-run": Visit((would_be_told(), alarm_without_a_web_hook()), (), (), DUE, is_telling=True, is_dry_run=True),
    "told": Visit((told(failed(a_finding())),), (), (), DUE, is_telling=True),
}
ENDINGS = {"table": "txt", "markdown": "md", "json": "json", "junit": "xml", "sarif": "sarif", "github": "github"}
visits = pytest.mark.parametrize("kind", VISITS)


@visits
@pytest.mark.parametrize("name", ENDINGS)
def test_golden(kind: str, name: str, snapshot: SnapshotAssertion) -> None:
    assert render(VISITS[kind], name, RenderOptions(width=100)) == golden(snapshot, ENDINGS[name])


@pytest.mark.parametrize(
    ("kind", "code"), [("nothing-new", 0), ("silent", 3), ("no-answer", 4), ("failed", 1), ("not-measured", 4)]
)
def test_the_exit_code_is_that_of_the_worst(kind: str, code: int) -> None:
    assert VISITS[kind].exit_code == code
    assert VISITS[kind].data()["exit_code"] == code


@visits
def test_only_a_visit_without_fault_and_without_alarm_reads_as_good(kind: str) -> None:
    found = VISITS[kind].findings()
    assert (found.level is Level.NOTE) == (kind in ("nothing-new", "gone", "crept", "quiet", "dry-run", "told"))


def test_the_worst_of_several_builds_is_the_headline() -> None:
    passed = Look(a_look(headline="0.23.0 → 0.33.0: pass", candidate=RELEASE), 0)
    assert passed.summary.decision is Decision.PASS
    shown = render(Visit((passed, failed(a_finding())), NEWEST, (), DUE), "table", RenderOptions(width=100))
    assert shown.startswith(f"WATCH: 0.23.0 → {NIGHTLY}: fail, 1 regression is followed (2 builds)")
