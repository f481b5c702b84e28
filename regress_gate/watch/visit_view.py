"""A visit of the watch as a report: what is new, what was decided of it, what is followed, and what the watch lacks.

Not for single findings, which have a report of their own in an issue (`finding_view`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from regress_gate import __version__
from regress_gate.errors import ExitCode
from regress_gate.known.tracker.sync import Candidate
from regress_gate.model.result import Decision
from regress_gate.report.document import (
    Block,
    Code,
    Detail,
    Document,
    ItemList,
    Line,
    Link,
    Pair,
    Pairs,
    Paragraph,
    Section,
    Style,
    Styled,
    View,
    parts_of,
)
from regress_gate.report.findings import Case, Finding, Findings, Level, Outcome, Rule, worst_first
from regress_gate.report.views.result_findings import result_findings
from regress_gate.report.views.result_view import ResultView
from regress_gate.text import plural
from regress_gate.watch.alarm import AlarmKind, WatchAlarm
from regress_gate.watch.builds import PublishedBuild
from regress_gate.watch.finding import LookSummary
from regress_gate.watch.finding_view import build_text, finding_data, state_text
from regress_gate.watch.following import Followed
from regress_gate.watch.tracking_issue import IssueAction

_WORST_FIRST = (ExitCode.FAIL, ExitCode.COULD_NOT_MEASURE, ExitCode.INCONCLUSIVE, ExitCode.PASS)
_STYLES = {Decision.PASS: Style.GOOD, Decision.FAIL: Style.BAD, Decision.INCONCLUSIVE: Style.WARNING}


_ALARM_TITLES = {
    AlarmKind.OVERDUE: "The watch has not run",
    AlarmKind.UNFINISHED: "A look did not end",
    AlarmKind.NO_ANSWER: "An index did not answer",
    AlarmKind.STALE_BUILD: "The newest nightly is old",
    AlarmKind.TESTBED_CHANGED: "The testbed changed since the look before",
    AlarmKind.NEVER_QUIET: "The machine was never quiet",
    AlarmKind.NOT_MEASURED: "A new build was not measured",
}


@dataclass(frozen=True, slots=True)
class Look:
    """One build that was looked at."""

    summary: LookSummary
    exit_code: int
    issues: tuple[IssueAction, ...] = ()
    suspected: tuple[Followed, ...] = ()
    """Regressions that become findings if the next look that measures them sees them."""
    changes: tuple[str, ...] = ()
    """Change points for the worse over all builds so far, a sentence each."""
    threads: tuple[Candidate, ...] = ()
    """Threads since the search before that no record covers."""
    refreshed: tuple[str, ...] = ()
    """What was brought up to date before it was decided."""
    message: str = ""
    """What was done with the message to the web hook; empty where nobody was to be told."""
    notes: tuple[str, ...] = ()
    """What could not be looked up or told."""


@dataclass(frozen=True, slots=True)
class Visit(View):
    """All looks of one call of `watch`."""

    looks: tuple[Look, ...]
    newest: tuple[PublishedBuild, ...]
    alarms: tuple[WatchAlarm, ...]
    next_due: datetime
    is_telling: bool = False
    """Whether stored looks were told of, and nothing was looked at."""
    is_dry_run: bool = False
    """Whether nobody was told."""
    drafts: tuple[str, ...] = ()
    """What was done with the file of each draft, a sentence each."""
    threads: tuple[Candidate, ...] = ()
    """Of a visit without looks, which have their own."""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The worst of the looks; without one, 4 where no index answered, else 0: nothing is new. An alarm is no pass:
        3 where it would be 0."""
        codes = {look.exit_code for look in self.looks}
        if not codes and not self.newest and not self.is_telling:
            return ExitCode.COULD_NOT_MEASURE
        if self.alarms:
            codes.add(ExitCode.INCONCLUSIVE)
        return next((code for code in _WORST_FIRST if code in codes), ExitCode.PASS)

    def document(self, detail: Detail) -> Document:
        blocks: list[Block] = []
        if self.alarms:
            alarms = tuple((Styled(one.text, Style.WARNING), f" → {one.todo}") for one in self.alarms)
            blocks.append(Section("Alarms", (ItemList(alarms),)))
        for look in self.looks:
            name = "no new build" if look.summary.candidate is None else build_text(look.summary.candidate)
            # The headline of one look is the title already.
            said = [Paragraph(look.summary.headline)] if len(self.looks) > 1 or self.is_telling else []
            if parts := (*said, *_look_blocks(look, detail, is_dry_run=self.is_dry_run)):
                blocks.append(Section(name, parts))
        blocks += [*_thread_blocks(self.threads), *_note_blocks(self.notes)]
        if self.drafts:
            lead = "For a person to check, to complete and to send:"
            blocks.append(Section("Drafts", (Paragraph(lead), ItemList(self.drafts))))
        pairs = [Pair("newest", build_text(build.version) + _since(build)) for build in self.newest]
        if not self.is_telling:
            blocks.append(Pairs((*pairs, Pair("next look due", f"{self.next_due:%Y-%m-%d}"))))
        return Document(self._title(), tuple(blocks), name="Watch")

    def _title(self) -> Line:
        if self.is_telling:
            return _told_title(self.looks, is_dry_run=self.is_dry_run)
        if not self.looks:
            text = "nothing new" if self.newest else "no index answered: nothing is known of new builds"
            is_well = self.newest and not self.alarms
            return Styled(f"WATCH: {text}{self._alarm_count()}", Style.PLAIN if is_well else Style.WARNING)
        worst = min(self.looks, key=lambda look: _WORST_FIRST.index(ExitCode(look.exit_code)))
        decision = worst.summary.decision
        more = "" if len(self.looks) == 1 else f" ({plural(len(self.looks), 'build')})"
        style = Style.WARNING if decision is None else _STYLES[decision]
        if self.alarms and decision is Decision.PASS:
            style = Style.WARNING
        return Styled(f"WATCH: {worst.summary.headline}{more}{self._alarm_count()}", style)

    def _alarm_count(self) -> str:
        return f", {plural(len(self.alarms), 'alarm')}" if self.alarms else ""

    def findings(self) -> Findings:
        """Of all looks; the groups of their cases begin with the build. A build that was not measured is an error."""
        cases, found = list[Case](), list[Finding]()
        for look in self.looks:
            name, result = str(look.summary.candidate), look.summary.result
            if result is None:
                outcome = Outcome.PASSED if look.exit_code == ExitCode.PASS else Outcome.ERROR
                cases.append(Case("watch", name, outcome, message=look.summary.headline))
                continue
            part = result_findings(result)
            cases += [replace(case, group=f"{name}: {case.group}") for case in part.cases]
            found += part.findings
        if not self.looks and self.newest:
            cases.append(Case("watch", "new builds", Outcome.PASSED, message="nothing new"))
        found += [_alarm_finding(one) for one in self.alarms]
        cases += [
            Case("watch", f"alarm {at}", Outcome.ERROR, one.kind.value, str(one))
            for at, one in enumerate(self.alarms, 1)
        ]
        level = Level.NOTE if self.exit_code == ExitCode.PASS and not self.alarms else Level.WARNING
        return Findings(
            name="watch",
            headline="".join(
                part if isinstance(part, str) else part.text
                for part in parts_of(self._title())
                if isinstance(part, str | Styled)
            ),
            advice=f"The next look is due on {self.next_due:%Y-%m-%d}.",
            level=Level.ERROR if self.exit_code == ExitCode.FAIL else level,
            cases=tuple(cases),
            findings=worst_first(found),
            category="watch",
        )

    def data(self) -> dict[str, Any]:
        return {
            "schema_version": "1",
            "tool_version": __version__,
            "exit_code": int(self.exit_code),
            "alarms": [one.to_json() for one in self.alarms],
            "newest": [_build_data(build) for build in self.newest],
            "next_due": self.next_due.isoformat(),
            "is_dry_run": self.is_dry_run,
            "looks": [_look_data(look) for look in self.looks],
            "drafts": list(self.drafts),
            "threads": [one.thread.url for one in self.threads],
            "notes": list(self.notes),
        }


def _alarm_finding(alarm: WatchAlarm) -> Finding:
    text = "What the watch itself lacks: nothing is known of what it did not see."
    rule = Rule(f"watch_{alarm.kind.value}", _ALARM_TITLES[alarm.kind], Level.WARNING, text, tags=("vllm", "watch"))
    return Finding(rule, Level.WARNING, rule.title, f"{alarm.text}; {alarm.todo}", fingerprint=("watch", alarm.kind))


def _told_title(looks: tuple[Look, ...], *, is_dry_run: bool) -> Line:
    failed = sum(look.exit_code != ExitCode.PASS for look in looks)
    if not looks:
        return "WATCH: nothing to tell"
    if failed:
        could_not = "could not be told" if not is_dry_run else "could not be prepared"
        return Styled(f"WATCH: {failed} of {plural(len(looks), 'look')} {could_not}", Style.WARNING)
    return f"WATCH: {'would tell' if is_dry_run else 'told'} of {plural(len(looks), 'look')}"


def _since(build: PublishedBuild) -> str:
    since = "" if build.published is None else f", published {build.published:%Y-%m-%d}"
    return since + ("" if build.image is None else f", {build.image}")


def _look_blocks(look: Look, detail: Detail, *, is_dry_run: bool) -> Iterator[Block]:
    if look.summary.findings:
        items = tuple(
            (Styled(one.title, Style.BAD), ". ", state_text(one, look.summary), " Find the commit: ",
             Code(one.bisect_command))
            for one in look.summary.findings
        )  # fmt: skip
        yield Section("Followed", (ItemList(items),))
    waiting = tuple(one.finding.title for one in look.suspected if not one.is_gone)
    if waiting:
        lead = (
            "Shown once, not beyond the doubt of a year of looks. They become findings if the next look sees them too."
        )
        yield Section("Suspected", (Paragraph(lead), ItemList(waiting)))
    gone = tuple(one.finding.title for one in look.suspected if one.is_gone)
    if gone:
        lead = "Shown once, and not by this look, which measured them. Nobody was told of them."
        yield Section("Not seen again", (Paragraph(lead), ItemList(gone)))
    if look.issues:
        done = tuple((f"{one.title}: {one.done} ", Link(one.url)) if one.url else f"{one.title}: {one.done}"
                     for one in look.issues)  # fmt: skip
        yield Section("Tracking issues, if it was for real" if is_dry_run else "Tracking issues", (ItemList(done),))
    if look.message:
        if look.summary.alarms:
            yield Section("Alarms", (ItemList(look.summary.alarms),))
        yield Section("Message to the web hook", (Paragraph(look.message),))
    if look.changes:
        lead = "Change points for the worse over all builds that were measured here. They decide nothing."
        yield Section("Over the builds", (Paragraph(lead), ItemList(look.changes)))
    yield from _thread_blocks(look.threads)
    if look.refreshed:
        yield Section("Brought up to date", (ItemList(look.refreshed),))
    yield from _note_blocks(look.notes)
    if look.summary.result is not None:
        part = ResultView(look.summary.result).document(detail)
        subtitle = [Paragraph(part.subtitle)] if part.subtitle else []
        yield Section(part.name or "Comparison", (Paragraph(part.title), *subtitle, *part.blocks))


def _thread_blocks(threads: tuple[Candidate, ...]) -> Iterator[Block]:
    if threads:
        items = tuple((f"{one.thread.title} ", Link(one.thread.url)) for one in threads)
        yield Section("Threads that no record covers", (ItemList(items),))


def _note_blocks(notes: tuple[str, ...]) -> Iterator[Block]:
    if notes:
        yield Section("Not done", (ItemList(notes),))


def _build_data(build: PublishedBuild) -> dict[str, Any]:
    published = None if build.published is None else build.published.isoformat()
    return {
        "version": str(build.version),
        "channel": build.channel.value,
        "published": published,
        "image": build.image,
    }


def _look_data(look: Look) -> dict[str, Any]:
    one = look.summary
    return {
        "look": one.look,
        "candidate": None if one.candidate is None else str(one.candidate),
        "pinned": None if one.pinned is None else str(one.pinned),
        "decision": None if one.decision is None else one.decision.value,
        "exit_code": int(look.exit_code),
        "headline": one.headline,
        "findings": [finding_data(finding) for finding in one.findings],
        "suspected": [finding_data(followed.finding) for followed in look.suspected],
        "issues": [{"title": action.title, "done": action.done, "url": action.url} for action in look.issues],
        "message": look.message or None,
        "changes": list(look.changes),
        "threads": [thread.thread.url for thread in look.threads],
        "refreshed": list(look.refreshed),
        "notes": list(look.notes),
        "result": None if one.result is None else ResultView(one.result).data(),
    }
