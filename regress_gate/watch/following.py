"""Which regressions the watch follows over its looks, and when one of them becomes a finding.

One comparison fails an unchanged version in up to one of twenty cases, so a year of weekly looks would cry wolf two or
three times. A regression is reported to others when the next look that measures it sees it too, or when the first shows
it beyond the doubt of a whole year.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from regress_gate.model.issue import Applies
from regress_gate.model.metric import STATISTICS
from regress_gate.model.result import KnownIssueOut, Result, SeriesResult, Verdict
from regress_gate.model.version import Channel, Version
from regress_gate.report.views.wording import bisect_command
from regress_gate.watch.finding import FindingState, WatchFinding

BEYOND_DOUBT = 0.0001
"""Family-wise error of one look at or below which its regression needs no second look. Far below what a year of looks
would need: the starts of a look share their luck, so that one unlucky look shows many regressions at once, and of so
small an error only the order of magnitude is known (benchmarks/watch.py)."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A regression over all looks, and whether it is a finding yet."""

    finding: WatchFinding
    scenario: str
    family: str
    """Of metrics: `ttft`."""
    is_confirmed: bool
    """Others are told of it."""

    @property
    def is_gone(self) -> bool:
        return self.finding.state is FindingState.GONE

    def unseen(self) -> "Followed":
        """After a look that did not measure it, or did not decide it."""
        return replace(self, finding=replace(self.finding, state=FindingState.UNKNOWN))

    def to_json(self) -> dict[str, Any]:
        one = self.finding
        return {
            "key": one.key,
            "title": one.title,
            "testbed": one.testbed,
            "suite": one.suite,
            "first_bad": str(one.first_bad),
            "last_good": None if one.last_good is None else str(one.last_good),
            "first_seen": one.first_seen.isoformat(),
            "looks": one.looks,
            "series": [series.model_dump(mode="json") for series in one.series],
            "known_issues": [issue.model_dump(mode="json") for issue in one.known_issues],
            "bisect_command": one.bisect_command,
            "state": one.state.value,
            "scenario": self.scenario,
            "family": self.family,
            "confirmed": self.is_confirmed,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Followed":
        """Raises ValueError, KeyError or TypeError for damaged content."""
        finding = WatchFinding(
            key=data["key"],
            title=data["title"],
            testbed=data["testbed"],
            suite=data["suite"],
            first_bad=Version.parse(data["first_bad"]),
            last_good=None if data["last_good"] is None else Version.parse(data["last_good"]),
            first_seen=date.fromisoformat(data["first_seen"]),
            looks=int(data["looks"]),
            series=tuple(SeriesResult.model_validate(_stored(one)) for one in data["series"]),
            known_issues=tuple(KnownIssueOut.model_validate(one) for one in data["known_issues"]),
            bisect_command=data["bisect_command"],
            state=FindingState(data["state"]),
        )
        return cls(finding, data["scenario"], data["family"], bool(data["confirmed"]))


def _stored(series: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in series.items() if key not in ("natural_change", "natural_interval")}


@dataclass(frozen=True, slots=True)
class LookPlace:
    """Where a look measured, and what."""

    testbed: str
    suite: str
    """`NAME@VERSION`."""
    candidate: Version
    last_good: Version
    """The newest build of its line that passed, or the pinned version."""
    day: date
    suite_argument: str
    """As the user names the suite: a name or a path."""
    variant: str | None = None
    """Build of vLLM that the command is to search; None: vLLM's default build."""


def follow(before: Sequence[Followed], result: Result, place: LookPlace) -> list[Followed]:
    """What is followed after a look: what was followed before with its new state, and what is new, the worst first.

    What was gone in the look before is dropped; if it comes back, it is another finding. Only a build of the line that
    had it first shows it to be gone: a release that was cut before a nightly's regression does not. A suspicion is gone
    when the next look that measures it does not see it again.
    """
    families: dict[tuple[str, str], list[SeriesResult]] = {}
    for series in result.series:
        if series.gated:
            families.setdefault((series.scenario, _family(series.metric)), []).append(series)
    known = {(one.scenario, one.family): one for one in before if not one.is_gone}
    issues = tuple(issue for issue in result.known_issues if issue.applies is Applies.YES)
    followed = [
        _again(one, families.get(key, []), issues, place) if key in families else one.unseen()
        for key, one in known.items()
    ]
    for key, members in families.items():
        worse = _worst_first(members)
        if key not in known and worse:
            followed.append(_new(*key, worse, issues, place))
    return sorted(followed, key=lambda one: -max((series.change or 0.0 for series in one.finding.series), default=0.0))


def _family(metric: str) -> str:
    """`ttft` of `ttft_p99`: its percentiles move together, and are one finding."""
    name, _, statistic = metric.rpartition("_")
    return name if statistic in STATISTICS else metric


def _worst_first(members: Sequence[SeriesResult]) -> tuple[SeriesResult, ...]:
    worse = [series for series in members if series.verdict is Verdict.REGRESSION]
    return tuple(sorted(worse, key=lambda series: -(series.change or 0.0)))


def _is_beyond_doubt(worse: Sequence[SeriesResult]) -> bool:
    return any(series.q_worse is not None and series.q_worse <= BEYOND_DOUBT for series in worse)


def _again(
    one: Followed, members: Sequence[SeriesResult], issues: tuple[KnownIssueOut, ...], place: LookPlace
) -> Followed:
    if worse := _worst_first(members):
        finding = replace(
            one.finding,
            looks=one.finding.looks + 1,
            series=worse,
            known_issues=issues,
            state=FindingState.SEEN,
            title=_title(one.scenario, worse[0], one.finding.first_bad, place.testbed),
        )
        return replace(one, finding=finding, is_confirmed=True)
    if one.is_confirmed:
        # Every member must be shown to be within its margin: not knowing is not gone.
        within = (Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT)
        is_gone = all(series.verdict in within for series in members)
    else:
        # To be measured and not seen again is enough: a suspicion that waits for months meets a second unlucky look.
        is_gone = all(series.interval is not None for series in members)
    if not is_gone or is_tagged(place.candidate) != is_tagged(one.finding.first_bad):
        return one.unseen()
    return replace(one, finding=replace(one.finding, state=FindingState.GONE, series=tuple(members)))


def is_tagged(build: Version) -> bool:
    """Whether it is of the line of releases and their candidates, and not a build of main."""
    return build.channel in (Channel.RELEASE, Channel.CANDIDATE)


def _new(
    scenario: str, family: str, worse: tuple[SeriesResult, ...], issues: tuple[KnownIssueOut, ...], place: LookPlace
) -> Followed:
    name = place.suite.partition("@")[0]
    key = hashlib.sha256("\0".join((place.testbed, name, scenario, family)).encode()).hexdigest()[:24]
    command = bisect_command(
        str(place.last_good),
        str(place.candidate),
        scenario=scenario,
        metric=worse[0].metric,
        suite=place.suite_argument,
        testbed=place.testbed,
        variant=place.variant,
    )
    finding = WatchFinding(
        key=key,
        title=_title(scenario, worse[0], place.candidate, place.testbed),
        testbed=place.testbed,
        suite=place.suite,
        first_bad=place.candidate,
        last_good=place.last_good,
        first_seen=place.day,
        looks=1,
        series=worse,
        known_issues=issues,
        bisect_command=command,
        state=FindingState.SEEN,
    )
    return Followed(finding, scenario, family, _is_beyond_doubt(worse))


def _title(scenario: str, worst: SeriesResult, since: Version, testbed: str) -> str:
    return f"{scenario}/{worst.metric} {worst.change_text} since {since.channel} {since} on {testbed}"
