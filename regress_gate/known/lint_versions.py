"""Whether a record's versions can be: their order, and the days of its changes against those of the releases."""

from collections.abc import Iterator, Sequence
from datetime import date

from regress_gate.known.ranges import event_key
from regress_gate.known.releases import release_date
from regress_gate.model.complaint import Found
from regress_gate.model.documents import Location
from regress_gate.model.issue import VLLM_REPO, Change, Event, KnownIssue, Range


def versions(issue: KnownIssue, today: date) -> Iterator[Found]:  # noqa: ARG001 (all checks are called alike)
    ranges = [
        (("affected", at, "ranges", index), part)
        for at, entry in enumerate(issue.affected)
        for index, part in enumerate(entry.ranges)
    ]
    for location, part in ranges:
        yield from _events(part, location)
    events = [event for _, part in ranges for event in part.events]
    if any(event.fixed for event in events) and not any(link.type == "FIX" for link in issue.references):
        yield ("references",), "there is a fixed event, but no FIX reference that shows it", "error"
    if not any(part.type == "ECOSYSTEM" for _, part in ranges):
        yield ("affected",), "no ECOSYSTEM range: the record can be matched against no release", "warning"
    if not issue.version_regression and not any(event.introduced == "0" for event in events):
        what = 'not a version regression, yet introduced after version "0": a move across it would be reported as new'
        yield ("version_regression",), what, "warning"


def _events(part: Range, location: Location) -> Iterator[Found]:
    """Events stand in order and take turns: introduced, fixed (or last_affected), introduced, …"""
    before, open_ = None, False
    for index, event in enumerate(part.events):
        here = (*location, "events", index)
        if bool(event.introduced) == open_:
            yield here, f"{event.value}: introduced and fixed (or last_affected) must take turns", "error"
        open_ = bool(event.introduced)
        if part.type == "ECOSYSTEM":
            key = event_key(event)
            # A single affected version is introduced and last affected at once; a fix must come after.
            if before is not None and (key < before or (key == before and not event.last_affected)):
                yield here, f"{event.value} is not after the event before it", "error"
            before = key


def changes(issue: KnownIssue, today: date) -> Iterator[Found]:
    """A change is in no release that was published before it was merged, and no fix is older than its issue."""
    brought, fixes = issue.changes.introduced_by, issue.changes.fixed_by
    for key, listed in (("introduced_by", brought), ("fixed_by", fixes)):
        for index, change in enumerate(listed):
            if change.merged is not None and change.merged > today:
                yield ("changes", key, index, "merged"), f"merged in the future ({change.merged})", "error"
    first = min((change.merged for change in brought if change.merged), default=None)
    for index, fix in enumerate(fixes):
        here = ("changes", "fixed_by", index)
        if first is not None and fix.merged is not None and fix.merged < first:
            yield (*here, "merged"), f"merged on {fix.merged}, before what it fixes ({first})", "error"
        back = fix.reverted_by.merged if fix.reverted_by else None
        if back is not None and fix.merged is not None and back < fix.merged:
            yield (*here, "reverted_by"), f"reverted on {back}, before it was merged ({fix.merged})", "error"
    yield from _published_before(issue, "introduced", brought)
    yield from _published_before(issue, "fixed", [fix for fix in fixes if fix.reverted_by is None])
    if fixes and all(fix.reverted_by for fix in fixes) and _ends_fixed(issue):
        yield ("changes", "fixed_by"), "every fix was reverted, yet the last event is fixed", "error"


def _published_before(issue: KnownIssue, kind: str, listed: Sequence[Change]) -> Iterator[Found]:
    """The first release that is named for a turn must not be older than every change that may have made it."""
    days = [change.merged for change in listed if change.repo == VLLM_REPO]
    named = [(place, event.value) for place, event in _releases(issue) if getattr(event, kind) not in (None, "0")]
    if not days or None in days or not named:
        return
    earliest = min(day for day in days if day is not None)
    for place, version in named:
        published = release_date(version)
        if published is not None and published < earliest:
            what = f"{kind} {version} was published on {published}, before the change was merged ({earliest})"
            yield place, what, "error"


def _releases(issue: KnownIssue) -> Iterator[tuple[Location, Event]]:
    for at, entry in enumerate(issue.affected):
        for number, part in enumerate(entry.ranges):
            if part.type == "ECOSYSTEM" and entry.package.name == "vllm":
                for index, event in enumerate(part.events):
                    yield ("affected", at, "ranges", number, "events", index), event


def _ends_fixed(issue: KnownIssue) -> bool:
    events = sorted((event for _, event in _releases(issue)), key=event_key)
    return bool(events) and events[-1].fixed is not None
