"""One of each view, in which every text that comes from outside is the given one."""

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from regress_gate.gate.config_changes import ChangeRelevance, ConfigChange, ConfigChangeKind
from regress_gate.gate.early_stopping import ExpectedStop
from regress_gate.gate.history import HistoryFilter, history_lines
from regress_gate.gate.history_changes import ChangeMethod, HistoryChange, HistoryChanges
from regress_gate.gate.launch_line import LaunchProblem, LaunchTest, RefusalKind
from regress_gate.gate.planning import RunPlan, SeriesPlan
from regress_gate.gate.sides import sides_by_version
from regress_gate.gate.table_changes import DetectedChanges, DetectionReport, DetectionRequest
from regress_gate.github import TransferCounts
from regress_gate.ingest.interface import FileOutcome, FileReport, ImportResult
from regress_gate.ingest.table_series import Layout, TableSeries
from regress_gate.known.tracker.snapshot import FoundThread, Snapshot, Thread
from regress_gate.known.tracker.sync import Candidate, ChangeKind, SyncResult, ThreadChange
from regress_gate.known.tracker.verification import VerificationResult, VerifiedIssue
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies, Status
from regress_gate.model.metric import Direction, Scale
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import DeploymentOut
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Channel, Version
from regress_gate.pins.git_tree import EmptyTree
from regress_gate.pins.moves import PinReport, find_moves, judge_moves
from regress_gate.pins.pin import Pin, Pinned
from regress_gate.report.document import Chart, View
from regress_gate.report.views.audit_view import AuditView
from regress_gate.report.views.config_view import ConfigChangesView
from regress_gate.report.views.detection_view import DetectionView
from regress_gate.report.views.doctor_view import CheckedItem, DoctorView, Health
from regress_gate.report.views.history_view import HistoryView
from regress_gate.report.views.history_words import IssueEvent, LineView
from regress_gate.report.views.import_view import ImportView
from regress_gate.report.views.list_view import ListView
from regress_gate.report.views.pins_view import PinsView
from regress_gate.report.views.planning_view import CalibrationView, PlanView
from regress_gate.report.views.record_view import IssueRecordView, issue_records
from regress_gate.report.views.result_view import ResultView
from regress_gate.report.views.servers_view import ServersView
from regress_gate.report.views.suite_view import SuiteListView, SuiteView
from regress_gate.report.views.tracking_view import DiscoveryView, SyncView, VerificationView, seen_threads
from regress_gate.stats.bisection import VariancePrior
from regress_gate.stats.changepoints import ChangePoint
from regress_gate.stats.search_length import ExpectedRuns
from regress_gate.suites import load_suite
from regress_gate.watch import candidates
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.bisect_view import BisectReport, KnownIssueNote, SearchStage, StageEnd
from regress_gate.watch.bisection import SearchedSeries, SearchRun, assess
from regress_gate.watch.builds import PublishedBuild
from regress_gate.watch.finding_view import FindingView
from regress_gate.watch.following import Followed
from regress_gate.watch.search_plan_view import SearchPlan
from regress_gate.watch.tracking_issue import IssueAction
from regress_gate.watch.visit_view import Look, Visit
from tests.factories.audits import a_log, an_audit, observed
from tests.factories.records import record
from tests.factories.results import checked, filled_with
from tests.factories.runs import make_run, make_trial
from tests.factories.watching import a_finding, a_look

MOMENT = datetime(2026, 11, 1, tzinfo=UTC)
OLD, NEW = Version.parse("0.19.1"), Version.parse("0.24.0")


def comparison(text: str) -> View:
    return ResultView(filled_with(text))


def check(text: str) -> View:
    return ResultView(filled_with(text).model_copy(update={"command": "check", "series": []}))


def servers(text: str) -> View:
    results = [checked(), filled_with(text)]
    return ServersView([one.model_copy(update={"deployment": DeploymentOut(name=text, where=text)}) for one in results])


def history(text: str) -> View:
    levels = {"0.19.0": 0.1, "0.19.1": 0.1, "0.24.0": 0.134, "0.32.0": 0.134}
    runs = [
        make_run(f"{version} {luck}", version, make_trial(ttft_median=level * (1 + 0.01 * luck)), started=MOMENT)
        for version, level in levels.items()
        for luck in (-1, 1)
    ]
    found = history_lines(sides_by_version(runs, ConditionLimits()), Policy(), HistoryFilter(("ttft_median",), ()))
    series = tuple(replace(one, scenario=text) for one in found[0].series)
    step = HistoryChange(text, "ttft_median", Scale.RATIO, "step", 2, (1, 2), 0.34, (0.31, 0.371), None)
    changes = HistoryChanges(ChangeMethod.NEIGHBOURS, 1, 3, (step,), (text,))
    issues = [IssueEvent(2, text, text, begins, ("ttft",)) for begins in (True, False)]
    return HistoryView(text, text, [LineView(replace(found[0], series=series, variant=text), changes, 1, issues)])


def detection(text: str) -> View:
    step = ChangePoint(4, (3, 5), "step", 0.34, (0.31, 0.371), 0.991, True)
    values = np.array([100.0, 101, 99, np.nan, 134, 133, 135, 134])
    series = TableSeries((text,), values, None, (text,) * 8, 2)
    layout = Layout(text, text, (text,))
    found = (DetectedChanges(series, (step,), 1), DetectedChanges(series, (), 0))
    return DetectionView(DetectionReport(text, layout, DetectionRequest(Direction.LOWER), found))


def configuration(text: str) -> View:
    changes = [
        ConfigChange(kind, text, text, [text] if kind is ConfigChangeKind.CHOICES_CHANGED else text, matters, text)
        for kind in ConfigChangeKind
        for matters in ChangeRelevance
    ]
    launch = LaunchTest([LaunchProblem(RefusalKind.FLAG, text, text, text)], [text], text)
    return ConfigChangesView(OLD, NEW, Deployment(model=text), launch, changes)


def calibration(text: str) -> View:
    effect = {"effect": 0.04, "interval": [0.01, 0.07], "p_adjusted": 0.01}
    series = {
        "scenario": text,
        "metric": text,
        "margin": 0.3,
        "run_cv": 0.13,
        "noise_runs": 6,
        "detectable_change": {"3": None, "5": 0.913, "10": 12.0},
        "shown_within": {"3": None, "5": 0.9, "10": 0.5},
        "second_in_block": effect,
        "drift_per_block": None,
    }
    data: dict[str, Any] = {
        "version": text,
        "suite": text,
        "testbed": text,
        "decision": "inconclusive",
        "reasons": [text, text],
        "runs": 6,
        "void_runs": [text],
        "failed_runs": 1,
        "minutes_a_block": 5.25,
        "series": [series, {**series, "run_cv": 0.02}],
    }
    return CalibrationView(data)


def plan(text: str) -> View:
    series = tuple(SeriesPlan(text, text, 0.05, cv, 6, 0.04, 0.06) for cv in (0.02, 0.03))
    planned = RunPlan(4, 6, 300.0, series, text, 2, ExpectedStop(3, 2))
    return PlanView((text, text), text, text, planned, 2700.0)


def listing(text: str) -> View:
    return ListView(("name", "a very long title of a column", "runs"), [(text, text, 5), (text, None, 6)], notes=[text])


def imported(text: str) -> View:
    files = [
        FileReport(text, outcome, text, text, (text, text), 0, text, text, text, 1, ("ttft_mean",))
        for outcome in FileOutcome
    ]
    return ImportView(ImportResult((), tuple(files), (text,)), text)


def import_plan(text: str) -> View:
    view = imported(text)
    assert isinstance(view, ImportView)
    return replace(view, is_dry_run=True)


def _issue(text: str) -> Any:
    one = record()
    workarounds = [one.workarounds[0].model_copy(update={"text": text, "cost": text})]
    texts = {"summary": text, "evidence": text, "details": text, "workarounds": workarounds}
    return one.model_copy(update=texts)  # the records' own rules on texts are not what is tested here


def _thread(text: str) -> Thread:
    return Thread.model_construct(
        url=text, state="closed", reason=None, labels=[text], duplicate_of=text, fixes=[], closing_commit=None,
        complete=True, seen=MOMENT,
    )  # fmt: skip


def sync(text: str) -> View:
    change = ThreadChange(_issue(text), ChangeKind.NEW, _thread(text), (text,))
    outcome = SyncResult(Snapshot(), 2, 3, [change], [(_issue(text), text)], text)
    return SyncView(outcome, TransferCounts(3, 2, 1, 4096), is_first=False)


def _found_thread(text: str) -> Any:
    return FoundThread.model_construct(
        url=text, title=text, is_pull=True, state="open", labels=[text], created=MOMENT, versions=[text],
        signs=["revert"], closes=[], reverts=[], seen=MOMENT,
    )  # fmt: skip


def discovery(text: str) -> View:
    candidate = Candidate(_found_thread(text), ("revert", "label-other"), 0.5, (text,), (text,))
    return DiscoveryView((candidate, candidate), 3, MOMENT.date(), 40, 5, text, (text,), (text,))


def diagnosis(text: str) -> View:
    return DoctorView([CheckedItem(text, health, text, text) for health in Health])


def verification(text: str) -> View:
    one = VerifiedIssue(_issue(text), Applies.YES, text, Status.OPEN, text)
    return VerificationView(VerificationResult((one, one), 3), NEW, text)


def _pin(text: str, version: str | None, spec: str) -> Pin:
    build = None if version is None else Version.parse(version)
    return Pin(text, 3, text, text, Pinned(text, spec, build, "" if build else text))


def moved_pins(text: str) -> View:
    pins = [_pin(text, "0.19.1", text), _pin(text, None, "x" + text)]
    moves = find_moves([_pin(text, "0.19.0", text)], pins, EmptyTree(), EmptyTree())
    return PinsView(PinReport(judge_moves(moves), pins, (text,), text, text))


def watch_finding(text: str) -> View:
    result = filled_with(text)
    chart = Chart((1.0, float("nan"), 2.0), text, text, marks=(2,))
    finding = a_finding(
        title=text,
        testbed=text,
        suite=text,
        series=tuple(result.series),
        known_issues=tuple(result.known_issues),
        bisect_command=text,
        charts=((text, chart),),
    )
    return FindingView(finding, a_look(0, finding, result=result, headline=text, alarms=(text,)))


def watch_visit(text: str) -> View:
    """A build that failed, one that could not be measured, and alarms."""
    result, build = filled_with(text), Version.parse("0.33.1rc1.dev7+g4080263bb.cu129")
    finding = a_finding(title=text, testbed=text, suite=text, bisect_command=text)
    suspected = Followed(a_finding(2, title=text, bisect_command=text), text, text, is_confirmed=False)
    done = IssueAction(finding.key, text, text, text, 7, (text,))
    candidate = Candidate(_found_thread(text), ("revert",), 0.5)
    failed = Look(
        a_look(0, finding, result=result, headline=text, alarms=(text,)),
        1,
        issues=(done,),
        suspected=(suspected,),
        threads=(candidate,),
        refreshed=(text,),
        notes=(text,),
    )
    missing = Look(a_look(1, result=None, headline=text, candidate=NEW), 4)
    alarms = tuple(WatchAlarm(kind, text, text) for kind in AlarmKind)
    newest = (
        PublishedBuild(NEW, Channel.RELEASE),
        PublishedBuild(build, Channel.NIGHTLY, MOMENT, text),
    )
    return Visit((failed, missing), newest, alarms, MOMENT)


def bisect_report(text: str) -> View:
    row = [candidates.Candidate(Version(None, sign * 40, "cpu"), text) for sign in "abcd"]
    series = SearchedSeries(text, "ttft_median", "server")
    runs = [_search_run(at, block, text) for block in (1, 2) for at in (0, 1, 3)]
    state = assess(row, series, runs, {2: text}, VariancePrior(1e-4, 20.0), MOMENT)
    stage = SearchStage("commits", state, StageEnd.FOUND, 6)
    notes = (KnownIssueNote("VLLM-1", text, text, text),)
    files = candidates.ChangedFiles((text,), 1, is_all=True)
    return BisectReport(
        (stage, stage), SuiteRef(text, "1"), text, notes, (text,), place_options=("--suite", text), files=files
    )


def _search_run(at: int, block: int, text: str) -> SearchRun:
    libraries = {"torch": text if at == 3 else "2.9.0"}
    run = make_run(f"{at}-{block}", started=MOMENT, libraries=libraries)
    value = 0.1 + 0.001 * block + (0.05 if at == 3 else 0.0)
    return SearchRun(at, block, run, value, math.log(value))


def bisect_plan(text: str) -> View:
    row = (candidates.Candidate(Version.parse("0.19.1"), text), candidates.Candidate(Version.parse("0.20.0"), text))
    series = SearchedSeries(text, "ttft_median", "server")
    expected = {2.5: ExpectedRuns(17.4, 29, 40)}
    return SearchPlan(series, SuiteRef(text, "1"), text, "releases", row, 8, expected, True, 90.0, 600.0, None)


def audited(text: str) -> View:
    """A finding with evidence of a line and one without, one that is waived, and rules without an answer."""
    log = a_log("Using default MoE config. Performance might be sub-optimal! Config file not found at /x.json")
    config = {"num_attention_heads": 32, "hidden_size": 4096, "num_local_experts": 8}
    seen = observed(log=log, config=config, engine_args={"tensor_parallel_size": 6})
    waiver = Waiver(finding="MOE001", until=date(2026, 12, 1), max_change=1.0, owner="o", reason="r")
    found = an_audit(seen, waivers=[waiver])
    results = []
    for one in found.results:
        evidence = tuple(replace(each, text=text) for each in one.outcome.evidence)
        needs = tuple(text for _ in one.outcome.needs)
        results.append(
            replace(one, outcome=replace(one.outcome, why=text, evidence=evidence, needs=needs, remedy=text))
        )
    waivers = tuple(one.model_copy(update={"owner": text, "reason": text, "detail": text}) for one in found.waivers)
    place = DeploymentOut(name=text, where=text)
    return AuditView([replace(found, results=tuple(results), log=text, deployment=place, waivers=waivers)])


EVERY_VIEW: dict[str, Callable[[str], View]] = {
    "comparison": comparison,
    "check": check,
    "servers": servers,
    "audit": audited,
    "history": history,
    "detection": detection,
    "configuration": configuration,
    "calibration": calibration,
    "plan": plan,
    "list": listing,
    "empty-list": lambda text: ListView(("name",), [], empty=text),
    "import": imported,
    "import-plan": import_plan,
    "records": lambda text: issue_records([_issue(text), _issue(text)]),
    "record": lambda text: IssueRecordView(_issue(text)),
    "threads": lambda text: seen_threads(Snapshot(threads={"vllm-project/vllm#1": _thread(text)})),
    "sync": sync,
    "verification": verification,
    "discovery": discovery,
    "diagnosis": diagnosis,
    "moved-pins": moved_pins,
    "pins": lambda text: PinsView(PinReport(None, [_pin(text, "0.19.1", text), _pin(text, None, text)], (text,))),
    "suites": lambda text: SuiteListView((_suite(text), _suite(text))),
    "suite": lambda text: SuiteView(_suite(text)),
    "watch-finding": watch_finding,
    "bisect": bisect_report,
    "bisect-plan": bisect_plan,
    "watch": watch_visit,
}


def _suite(text: str) -> Any:
    suite = load_suite("cpu-tiny")
    scenarios = [one.model_copy(update={"name": text, "why": text}) for one in suite.scenarios]
    return suite.model_copy(update={"name": text, "description": text, "notice": text, "scenarios": scenarios})
