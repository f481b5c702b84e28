"""Tell others of what looks of the watch found: tracking issues, the web hook, drafts. Measures nothing.

Of drafts nothing is sent, and no file is replaced: a person may have begun to complete it. Not for what there is to
tell: a look keeps that when it ends (`watch`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from regress_gate.app.publish import repository_client
from regress_gate.app.settings import DEFAULT_SUITE, Settings
from regress_gate.app.watch import only_watch
from regress_gate.app.watch_history import with_charts
from regress_gate.app.watch_state import alarms_of
from regress_gate.errors import ExitCode, InputError
from regress_gate.files import create_file
from regress_gate.github import GitHub
from regress_gate.model.result import Decision
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import Scenario
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.publish.writing import NotWrittenError
from regress_gate.report.stored import read_stored_view
from regress_gate.report.views.result_view import ResultView
from regress_gate.store.repository import Repository, open_store
from regress_gate.store.store_interface import StoredLook
from regress_gate.suites import load_suite
from regress_gate.text import one_line
from regress_gate.watch.drafts import MeasuredWith, draft_finding_record, draft_upstream_report
from regress_gate.watch.finding import FindingState, LookSummary, WatchFinding
from regress_gate.watch.following import Followed
from regress_gate.watch.notification import ADDRESS, Webhook, read_webhook, send_notification
from regress_gate.watch.tracking_issue import IssueAction, sync_tracking_issues
from regress_gate.watch.visit_view import Look, Visit


def tell(settings: Settings, *, dry_run: bool, drafts: Path | None = None) -> Visit:
    """Bring the tracking issues and the web hook to what stored looks found, the oldest first. Measures nothing.

    A look counts as told when nothing failed; until then it is told again, which doubles nothing. A dry run reads only.
    `drafts`: directory for drafts of what is told. Raises InputError without a token or a repository, and, before
    anybody is told, for a draft that cannot be written.
    """
    url, config = str(settings.store_url.value), settings.config.watch
    given = dict(settings.environment) | ({"GITHUB_REPOSITORY": config.repository} if config.repository else {})
    webhook = read_webhook(settings.environment)
    client, repository = repository_client(given)
    now = datetime.now(UTC)
    with only_watch(url), client, open_store(url, create=False) as store:
        untold = [look for look in store.looks() if look.ended is not None and not look.data.get("told", True)]
        written = list[str]()
        if drafts is not None:
            summaries = [_stored_summary(store, look) for look in untold]
            written = list(_write_drafts(settings, store, summaries, drafts, dry_run=dry_run))
        teller = _Teller(store, client, repository, webhook, config.dashboard, dry_run)
        told = [teller.tell(look) for look in untold]
    due = now + timedelta(days=config.every_days)
    return Visit(tuple(told), (), (), due, is_telling=True, is_dry_run=dry_run, drafts=tuple(written))


@dataclass
class _Teller:
    """Tells of looks, the oldest first: the issues of a place must end as its newest look has them."""

    store: Repository
    client: GitHub
    repository: str
    webhook: Webhook | None
    dashboard: str | None
    dry_run: bool
    _waiting: set[str] = field(default_factory=set)
    """Places of which a look could not be told to GitHub: later ones must not overtake it."""

    def tell(self, look: StoredLook) -> Look:
        summary = _stored_summary(self.store, look)
        actions, problems, data = list[IssueAction](), list[str](), dict(look.data)
        if look.data["kind"] == "measure":  # nothing else knows of findings
            actions, problems = self._sync_issues(look, summary)
            data["issues_told"] = look.data.get("issues_told", False) or not problems
        message = self._send(summary, actions, data, problems)
        if not self.dry_run:
            self.store.put_look(replace(look, data={**data, "told": not problems}))
        code = ExitCode.COULD_NOT_MEASURE if problems else ExitCode.PASS
        return Look(replace(summary, result=None), code, tuple(actions), message=message, notes=tuple(problems))

    def _send(self, summary: LookSummary, actions: list[IssueAction], data: dict[str, Any], problems: list[str]) -> str:
        """Send the message of a look that was not sent yet, and note in `data` and `problems` how that went. What was
        done with it, for people."""
        if self.webhook is None:
            lost = "; nobody is told of its alarms" if summary.alarms else ""
            return f"none, for {ADDRESS} is not set{lost}"
        if data.get("webhook_told"):
            return "was sent before"
        if self.dry_run:
            return "would be sent"
        problem = send_notification(self.webhook, summary, issues=actions, dashboard=self.dashboard)
        data["webhook_told"] = problem is None
        problems += [] if problem is None else [problem]
        return "sent" if problem is None else "not sent"

    def _sync_issues(self, look: StoredLook, summary: LookSummary) -> tuple[list[IssueAction], list[str]]:
        """What was done to the issues, and what could not be."""
        if look.place in self._waiting:
            return [], ["its issues wait for those of the look before"]
        if self._is_overtaken(look):
            return [], []
        actions, problems = list[IssueAction](), list[str]()
        try:
            actions = sync_tracking_issues(
                self.client,
                self.repository,
                summary.findings,
                look=summary,
                dashboard=self.dashboard,
                dry_run=self.dry_run,
            )
            problems = [f"{one.title}: {one_line(str(one.problem))}" for one in actions if one.problem]
        except NotWrittenError as error:
            problems = [one_line(str(error))]
        if problems:
            self._waiting.add(look.place)
        return actions, problems

    def _is_overtaken(self, look: StoredLook) -> bool:
        """Whether the issues say already what a later look found, as when only the web hook failed for this one. To
        bring them back to this look would open an issue again that nothing closes."""
        later = [one for one in self.store.looks(look.place) if one.begun > look.begun]
        return any(one.data.get("issues_told") for one in later)


def _stored_summary(store: Repository, look: StoredLook) -> LookSummary:
    """What the look found, with the result as it was kept; without one where it was deleted since, and of a check."""
    data, result = look.data, None
    pinned = Version.parse(data["pinned"])
    is_check = data["kind"] == "check"
    for one in () if is_check else store.comparisons():
        is_same = one.baseline.matches(pinned) and look.candidate is not None and one.candidate.matches(look.candidate)
        if is_same and f"{one.testbed} {one.suite}" == look.place:
            document = None if one.id is None else store.comparison_document(one.id)
            view = None if document is None else read_stored_view(orjson.dumps(document), look.name)
            result = view.result if isinstance(view, ResultView) else None
            break
    looks = [one for one in store.looks(look.place) if one.begun <= look.begun]
    return LookSummary(
        look=look.name,
        day=look.begun.date(),
        candidate=look.candidate,
        pinned=pinned,
        result=result if data.get("decision") else None,
        headline=str(data["headline"]),
        alarms=tuple(map(str, alarms_of(data))),
        findings=tuple(
            with_charts(one.finding, looks)
            for one in map(Followed.from_json, data.get("followed", ()))
            if one.is_confirmed
        ),
        checked=Decision(data["decision"]) if is_check and data.get("decision") else None,
    )


# Drafts


def _write_drafts(
    settings: Settings, store: Repository, looks: Iterable[LookSummary], directory: Path, *, dry_run: bool
) -> Iterator[str]:
    """Write two files for each regression that these looks, the oldest first, have seen and not seen gone: the record
    `DRAFT-….yaml` and the report `DRAFT-….md`. A dry run writes none. Gives what was done with each file, a sentence.

    Raises InputError for a file that cannot be written.
    """
    newest = {
        finding.key: (finding, look)
        for look in looks
        for finding in look.findings
        if finding.state is not FindingState.UNKNOWN
    }
    scenarios = _scenarios(settings)
    for finding, look in newest.values():
        if finding.state is FindingState.GONE:
            continue
        measured = _measured_with(store, finding, look, scenarios)
        name, record = draft_finding_record(finding, measured, today=datetime.now(UTC).date())
        title, report = draft_upstream_report(finding, look, measured)
        path = directory / name
        for file, text in ((path, record), (path.with_suffix(".md"), f"# {title}\n\n{report}")):
            if file.exists():
                yield f"{file} is there already and is left as it is"
            elif dry_run:
                yield f"{file} would be written"
            else:
                create_file(file, text, todo="move it away", with_folder=True)
                yield f"{file} was written"


def _scenarios(settings: Settings) -> tuple[str, dict[str, Scenario]]:
    """`NAME@VERSION` of the suite in force, and its scenarios by name; none where it cannot be read: the drafts then
    leave the commands to the person."""
    try:
        suite = load_suite(str(settings.suite.value or DEFAULT_SUITE))
    except InputError:
        return "", {}
    return f"{suite.name}@{suite.version}", {one.name: one for one in suite.scenarios}


def _measured_with(
    store: Repository, finding: WatchFinding, look: LookSummary, scenarios: tuple[str, dict[str, Scenario]]
) -> MeasuredWith:
    """From the newest run of the build that was looked at."""
    name, _, version = finding.suite.partition("@")
    runs = store.runs(version=look.candidate, testbed=finding.testbed, suite=SuiteRef(name, version))
    testbed = runs[-1].testbed if runs else Testbed(finding.testbed)
    suite, known = scenarios
    return MeasuredWith(known if suite == finding.suite else {}, testbed, runs[-1].libraries if runs else {})
