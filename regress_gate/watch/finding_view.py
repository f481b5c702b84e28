"""A finding of the watch as a report: since which build, which series, which known issues, and how to find the commit.

Not for where it is written; texts are escaped by the renderers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regress_gate.model.issue import VLLM_REPO
from regress_gate.model.version import Channel, Version
from regress_gate.report.document import (
    Block,
    Code,
    Detail,
    Document,
    EntryList,
    Line,
    Link,
    Pair,
    Pairs,
    Paragraph,
    Section,
    View,
)
from regress_gate.report.views.issues_view import issue_entry
from regress_gate.report.views.series_view import full_table
from regress_gate.text import plural
from regress_gate.watch.finding import FindingState, LookSummary, WatchFinding

_LEAST_SERIES, _MOST_SERIES = 10, 40
_MOST_ISSUES = 10
_MOST_CHARTS = 3


@dataclass(frozen=True, slots=True)
class FindingView(View):
    """As the newest look knows the finding."""

    finding: WatchFinding
    look: LookSummary
    has_title: bool = True
    """False where the title stands already: in an issue."""

    def document(self, detail: Detail) -> Document:
        blocks: list[Block] = [Paragraph(state_text(self.finding, self.look), is_lead=True), self._facts()]
        blocks += self._series(detail)
        shown = self.finding.known_issues[: min(_MOST_ISSUES, detail.issues)]
        if shown:
            blocks.append(Section("Known issues that may be it", (EntryList(tuple(map(issue_entry, shown))),)))
        blocks.append(Section("Find the commit", (Paragraph(Code(self.finding.bisect_command)),)))
        return Document(self.finding.title if self.has_title else "", tuple(blocks), name="Watch finding")

    def data(self) -> Any:
        return finding_data(self.finding)

    def _facts(self) -> Block:
        finding, look = self.finding, self.look
        pairs = [Pair("first build that has it", build_text(finding.first_bad))]
        if finding.last_good is not None:
            pairs.append(Pair("last build without it", build_text(finding.last_good)))
        if (url := commit_range(finding.last_good, finding.first_bad)) is not None:
            pairs.append(Pair("commits between them", Link(url)))
        pairs += [Pair("testbed", finding.testbed), Pair("suite", finding.suite), Pair("newest look", _look_text(look))]
        if (result := look.result) is not None and result.baseline is not None:
            sides = (("pinned", result.baseline), ("newest", result.candidate))
            texts = (
                f"{side} {version.version}: {plural(version.runs, 'run')}"
                + (f" ({version.origin})" if version.origin else "")
                for side, version in sides
            )
            pairs.append(Pair("runs", "; ".join(texts)))
        return Pairs(tuple(pairs))

    def _series(self, detail: Detail) -> Iterator[Block]:
        shown = self.finding.series[: min(_MOST_SERIES, max(detail.rows, _LEAST_SERIES))]
        if not shown:
            return
        lead = "The pinned version is the baseline." + (
            " From the last look that measured them." if self.finding.state is FindingState.UNKNOWN else ""
        )
        blocks: list[Block] = [Paragraph(lead), *full_table(shown)]
        if rest := len(self.finding.series) - len(shown):
            blocks.append(Paragraph(f"and {rest} more series"))
        for name, chart in self.finding.charts[:_MOST_CHARTS]:
            blocks += [Paragraph(f"{name}, over the builds:"), chart]
        yield Section("Series", tuple(blocks))


def state_text(finding: WatchFinding, look: LookSummary) -> str:
    """`Week 3 since nightly 0.23.1rc1.dev1403: seen again on 2026-11-23.`"""
    week = (look.day - finding.first_seen).days // 7 + 1
    since = f"Week {max(1, week)} since {build_text(finding.first_bad)}"
    match finding.state:
        case FindingState.SEEN if finding.looks <= 1:
            what = f"seen for the first time on {look.day}"
        case FindingState.SEEN:
            what = f"seen again on {look.day}, in {plural(finding.looks, 'look')} so far"
        case FindingState.GONE:
            what = f"gone on {look.day}: every series is shown to be within its margin again"
        case FindingState.UNKNOWN:
            what = f"not decided on {look.day}; seen in {plural(finding.looks, 'look')} so far"
    return f"{since}: {what}."


def build_text(version: Version) -> str:
    """`nightly 0.23.1rc1.dev1403+g4080263bb.cu129`, `release 0.32.0`, `commit:4080263bb`."""
    if version.channel is Channel.COMMIT:
        return str(version)
    return f"{version.channel} {version}"


def commit_range(last_good: Version | None, first_bad: Version) -> str | None:
    """The page of GitHub with the commits between two builds; None where a build names none."""
    ends = (None if last_good is None else _git_name(last_good)), _git_name(first_bad)
    return None if None in ends else f"{VLLM_REPO}/compare/{ends[0]}...{ends[1]}"


def _git_name(version: Version) -> str | None:
    """The commit, or the tag of a release."""
    if version.commit is not None:
        return version.commit
    return f"v{version.number}" if version.channel in (Channel.RELEASE, Channel.CANDIDATE) else None


def _look_text(look: LookSummary) -> Line:
    found = "no build" if look.candidate is None else build_text(look.candidate)
    against = "" if look.pinned is None else f", compared with the pinned {look.pinned}"
    decided = "" if look.decision is None else f": {look.decision}"
    return f"{look.day}, {found}{against}{decided}"


def finding_data(finding: WatchFinding) -> dict[str, Any]:
    """For programs. Changes are losses, as in the result of `compare`: positive is worse."""
    return {
        "key": finding.key,
        "title": finding.title,
        "state": finding.state.value,
        "testbed": finding.testbed,
        "suite": finding.suite,
        "first_bad": str(finding.first_bad),
        "last_good": None if finding.last_good is None else str(finding.last_good),
        "commits_url": commit_range(finding.last_good, finding.first_bad),
        "first_seen": finding.first_seen.isoformat(),
        "looks": finding.looks,
        "series": [one.model_dump(mode="json") for one in finding.series],
        "known_issues": [one.model_dump(mode="json") for one in finding.known_issues],
        "bisect_command": finding.bisect_command,
    }
