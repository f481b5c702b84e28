"""How far the records reach: which releases were reviewed on which platform, and whether that covers a move.

`known_issues/coverage.yaml` says what was reviewed, when, from which sources and how deeply. Where nothing was
reviewed, a missing record means nothing. Not for the records themselves (`loading`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated

from packaging.version import Version as Pep440
from pydantic import Field, StringConstraints, ValidationError, field_validator

from regress_gate.accelerators.registry import family_of_variant
from regress_gate.errors import InputError
from regress_gate.known.matching.facts import ScopeFacts, derive_facts
from regress_gate.known.matching.scope import match_keys
from regress_gate.known.matching.versions import affects, release_events
from regress_gate.known.records.loading import COVERAGE_NAME, read_document
from regress_gate.known.records.releases import nearest_release, shipped_releases
from regress_gate.model.deployment import Deployment, Platform
from regress_gate.model.documents import Document, LocatedMessage, StrictModel, validate
from regress_gate.model.issue import KnownIssue, Scope
from regress_gate.model.result import CoverageOut, Move, ReviewDepth
from regress_gate.model.version import Version, version_key
from regress_gate.paths import shipped_directory

INDEX_NAME = "coverage.json"
"""The same data for programs, made when a wheel is built: no YAML has to be parsed."""
SETTLING_TIME = timedelta(days=7)
"""A source has to reach so far beyond a release's publication: reports take time."""

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=10, max_length=1000)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$", max_length=40)]


class ReviewSource(StrictModel):
    what: Text
    until: date
    """The newest day that it shows."""


class Review(StrictModel):
    """All releases from `first` to `last`, on each of the platforms."""

    platforms: list[Platform] = Field(min_length=1)
    first: str
    last: str
    depth: ReviewDepth
    sources: list[Name] = Field(min_length=1)
    reviewed: date
    note: Text | None = None

    @field_validator("first", "last")
    @classmethod
    def _is_release(cls, text: str) -> str:
        version = Version.parse(text)
        if version.order_key is None or version.order_key.is_prerelease:
            raise ValueError(f"{text!r} is not a release")
        return text

    def contains(self, release: Pep440) -> bool:
        return version_key(self.first) <= release <= version_key(self.last)


class ReviewedReleases(StrictModel):
    """The content of coverage.yaml."""

    sources: dict[Name, ReviewSource] = Field(default_factory=dict)
    protocols: dict[ReviewDepth, Text] = Field(default_factory=dict)
    """What each depth means."""
    reviews: list[Review] = Field(default_factory=list)
    not_reviewed: dict[Platform, Text] = Field(default_factory=dict)
    """What is known of a platform beyond its reviews. It counts for nothing."""

    def of(self, platform: str | None) -> list[Review]:
        """The reviews that count: those in which threads were read."""
        return [one for one in self.reviews if platform in one.platforms and one.depth is not ReviewDepth.SOURCES]

    def compared(self, platform: str, releases: Iterable[Pep440]) -> list[Pep440]:
        """Those of the releases whose sources were compared for the platform, whatever else was done."""
        made = [one for one in self.reviews if platform in one.platforms and one.depth is ReviewDepth.SOURCES]
        return [release for release in releases if any(one.contains(release) for one in made)]

    def review_of(self, platform: str | None, release: Pep440) -> Review | None:
        """The deepest review of a release."""
        found = [one for one in self.of(platform) if one.contains(release)]
        return min(found, key=lambda one: list(ReviewDepth).index(one.depth), default=None)


def load_coverage(directory: Path | None = None) -> ReviewedReleases:
    """What was reviewed, of a directory of records (by default the shipped one); nothing without a file.

    Raises InputError with file and line if the file cannot be used.
    """
    path = (directory or shipped_directory("known_issues")) / COVERAGE_NAME
    if not path.exists():
        return ReviewedReleases()
    try:
        index = json.loads(path.with_name(INDEX_NAME).read_bytes())
        if index["digest"] == hashlib.sha256(path.read_bytes()).hexdigest():
            return ReviewedReleases.model_validate(index["coverage"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        pass  # there is no index of this file: the file itself gives the data, or the error
    return _read_coverage(read_document(path))


def coverage_index(directory: Path) -> str:
    """The text of the index of a directory's coverage.yaml. Raises InputError if the file cannot be used."""
    path = directory / COVERAGE_NAME
    document = read_document(path)
    _read_coverage(document)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return json.dumps({"digest": digest, "coverage": document.data}, ensure_ascii=False) + "\n"


def _read_coverage(document: Document) -> ReviewedReleases:
    return validate(ReviewedReleases, document)


def lint_coverage(document: Document, today: date) -> Iterator[LocatedMessage]:
    """What is wrong or doubtful. Raises InputError for a file that breaks the schema."""
    given = _read_coverage(document)
    for at, review in enumerate(given.reviews):
        here = ("reviews", at)
        for key, text in (("first", review.first), ("last", review.last)):
            if Pep440(text) not in shipped_releases():
                near = nearest_release(Pep440(text), shipped_releases())
                yield (*here, key), f"there is no release {text}; the nearest is {near}", "error"
        if Pep440(review.last) < Pep440(review.first):
            yield (*here, "last"), f"{review.last} is before {review.first}", "error"
        if review.reviewed > today:
            yield (*here, "reviewed"), f"reviewed in the future ({review.reviewed})", "error"
        if review.depth not in given.protocols:
            yield (*here, "depth"), f"protocols does not say what {review.depth} means", "error"
        known = [given.sources[name] for name in review.sources if name in given.sources]
        for index, name in enumerate(review.sources):
            if name not in given.sources:
                yield (*here, "sources", index), f"{name} is none of the sources above", "error"
            elif given.sources[name].until > review.reviewed:
                yield (*here, "reviewed"), f"the source {name} shows later days than the review", "error"
        published = shipped_releases().get(Pep440(review.last))
        newest = max((source.until for source in known), default=None)
        is_read = review.depth is not ReviewDepth.SOURCES  # sources are whole on the day of the release
        if is_read and published and newest and newest - published < SETTLING_TIME:
            days = SETTLING_TIME.days
            what = f"{review.last} was published on {published}: no source reaches {days} days beyond it ({newest})"
            yield (*here, "last"), what, "error"
    for name in given.sources.keys() - {name for review in given.reviews for name in review.sources}:
        yield ("sources", name), f"no review uses the source {name}", "warning"


def assess_coverage(
    reviewed: ReviewedReleases,
    releases: Mapping[Pep440, date],
    platform: str | None,
    baseline: Version | None,
    candidate: Version,
    issues: Sequence[KnownIssue],
) -> CoverageOut:
    """Whether every release of a move was reviewed: those after the baseline up to the candidate, or, for a downgrade,
    from the candidate up to the baseline. Without a baseline the candidate alone counts.

    `releases` are all that are known, with their days.
    """
    start, end = _release_key(baseline), _release_key(candidate)
    span = _span(start, end, releases)
    unreviewed = [release for release in span if reviewed.review_of(platform, release) is None]
    why = _why_not_covered(reviewed, releases, platform, baseline, candidate, unreviewed)
    if baseline is not None and baseline == candidate and candidate.order_key is not None:
        why, unreviewed = "", []  # nothing changes
    nearest = never_released(candidate, releases)
    ends = [Pep440(one.last) for one in reviewed.of(platform)]
    used = [one for release in span if not why and (one := reviewed.review_of(platform, release)) is not None]
    compared = reviewed.compared(platform, unreviewed) if platform is not None and why else []
    return CoverageOut(
        platform=platform,
        reviewed_through=str(max(ends)) if ends else None,
        records_in_interval=sum(_lies_in(issue, start, end, candidate) for issue in _of_platform(issues, platform)),
        covered=not why,
        depth=max((one.depth for one in used), key=list(ReviewDepth).index, default=None),
        reviewed=min((one.reviewed for one in used), default=None),
        unreviewed=[str(release) for release in unreviewed],
        why=why,
        sources=range_text(compared) if compared else None,
        nearest_release=None if nearest is None else str(nearest),
        too_new=next((str(one) for one in (candidate, baseline) if _is_too_new(one, releases)), None),
    )


def _is_too_new(version: Version | None, releases: Mapping[Pep440, date]) -> bool:
    key = _release_key(version)
    return key is not None and key > max(releases)


def move_of(baseline: Version | None, candidate: Version) -> Move | None:
    """Whether the candidate is newer or older; None without a baseline, or if the versions have no order."""
    if baseline is None:
        return None
    if baseline.order_key is not None and baseline.order_key == candidate.order_key:
        return Move.SAME
    older = candidate.is_before(baseline)
    return None if older is None else Move.DOWNGRADE if older else Move.UPGRADE


def _release_key(version: Version | None) -> Pep440 | None:
    """The release that a version belongs to: a candidate to the one that it became."""
    key = None if version is None else version.order_key
    return Pep440(key.base_version) if key is not None and key.is_prerelease else key


def _span(start: Pep440 | None, end: Pep440 | None, releases: Mapping[Pep440, date]) -> list[Pep440]:
    """The releases whose changes the move brings or takes back, the oldest first; the candidate even if unknown."""
    if end is None:
        return []
    if start is None or start == end:
        return [end]
    low, high = min(start, end), max(start, end)
    between = {release for release in releases if low <= release <= high and release != start}
    return sorted(between | {end})


def _why_not_covered(
    reviewed: ReviewedReleases,
    releases: Mapping[Pep440, date],
    platform: str | None,
    baseline: Version | None,
    candidate: Version,
    unreviewed: Sequence[Pep440],
) -> str:
    """One clause; empty if everything was reviewed."""
    if platform is None:
        return "the platform is not known (--accelerator), so no review can be said to count"
    counting = reviewed.of(platform)
    if not counting:
        return f"no release was reviewed for {platform}"
    reach = f"the review for {platform} reaches from {min(Pep440(one.first) for one in counting)} to "
    reach += str(max(Pep440(one.last) for one in counting))
    if candidate.order_key is None:
        return f"{candidate} has no place among the releases; {reach}"
    newest = max(releases)
    if _is_too_new(baseline, releases) and candidate.order_key <= newest:
        return f"{baseline}, which runs now, is no known release: the newest is {newest} of {releases[newest]}; {reach}"
    if candidate.order_key > newest:
        return f"{candidate} is newer than all known releases (up to {newest} of {releases[newest]}); {reach}"
    if (missing := never_released(candidate, releases)) is not None:
        return f"there is no release {candidate.number}: the nearest is {missing}"
    if _release_key(candidate) not in releases and min(releases) < candidate.order_key:
        return f"{candidate} is no build of a known release; {reach}"
    if not unreviewed:
        return ""
    return f"{range_text(unreviewed)} {'was' if len(unreviewed) == 1 else 'were'} not reviewed; {reach}"


def refuse_never_released(version: Version, releases: Mapping[Pep440, date], where: str | None = None) -> None:
    """Raises InputError for a version that was never released, with the nearest one: a typing error."""
    if (nearest := never_released(version, releases)) is not None:
        raise InputError(f"vLLM {version} was never released", where=where, todo=f"the nearest release is {nearest}")


def never_released(version: Version, releases: Mapping[Pep440, date]) -> Pep440 | None:
    """The nearest release, if the version is none; None if it is one, or if the list cannot tell.

    The list cannot tell for nightlies, commits, candidates, builds of a fork, and releases outside of its time.
    """
    key = version.order_key
    if key is None or key.is_prerelease or key in releases or not min(releases) < key < max(releases):
        return None
    if version.commit is not None or (version.variant is not None and family_of_variant(version.variant) is None):
        return None
    return nearest_release(key, releases)


def range_text(releases: Sequence[Pep440]) -> str:
    """`0.30.0`, `0.30.0 and 0.31.0`, `0.30.0 to 0.33.0`."""
    first, last = min(releases), max(releases)
    return str(first) if first == last else f"{first} {'and' if len(releases) == 2 else 'to'} {last}"


def _of_platform(issues: Iterable[KnownIssue], platform: str | None) -> Iterator[KnownIssue]:
    """The records whose hardware keys allow the platform."""
    for issue in issues:
        if platform is None or not _excludes(issue.scope, platform):
            yield issue


def _excludes(scope: Scope, platform: str) -> bool:
    if not (scope.platform or scope.accelerator or scope.gpu_arch):
        return False
    hardware = Scope(platform=scope.platform, accelerator=scope.accelerator, gpu_arch=scope.gpu_arch)
    return any(key.holds is False for key in match_keys(hardware, _facts_of(platform)))


@cache
def _facts_of(platform: str) -> ScopeFacts:
    return derive_facts(Deployment.model_validate({"platform": platform}))


def _lies_in(issue: KnownIssue, start: Pep440 | None, end: Pep440 | None, candidate: Version) -> bool:
    """Whether the issue begins or ends between two releases; without a baseline, whether the candidate may have it."""
    if start is None or end is None:
        return affects(issue, candidate) is not False
    low, high = min(start, end), max(start, end)
    keys = [event.key for event in release_events(issue) if event.value != "0"]
    return any(low < version_key(key.base_version) <= high for key in keys)
