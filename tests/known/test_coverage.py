"""How far the records reach: what was reviewed, and whether that covers a move."""

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version as Pep440

from regress_gate.errors import InputError
from regress_gate.known.records.coverage import (
    INDEX_NAME,
    ReviewedReleases,
    assess_coverage,
    coverage_index,
    load_coverage,
    move_of,
    never_released,
)
from regress_gate.known.records.curation import lint_records
from regress_gate.known.records.loading import COVERAGE_NAME, load_records
from regress_gate.known.records.releases import shipped_releases
from regress_gate.model.issue import KnownIssue
from regress_gate.model.result import CoverageOut, Move, ReviewDepth
from regress_gate.model.version import Version
from tests.factories.records import ROOT, affected, record

SHIPPED = load_coverage(ROOT / "known_issues")
RELEASES = {Pep440(f"0.{minor}.0"): date(2026, minor, 1) for minor in range(1, 9)}
"""0.1.0 to 0.8.0."""
SOURCES = {"tracker": {"what": "All threads of the tracker.", "until": "2026-11-01"}}
PROTOCOLS = {
    "sweep": "Every thread was read.",
    "search": "Threads were searched for.",
    "sources": "The sources were compared.",
}


def review(first: str, last: str, *platforms: str, **changes: Any) -> dict[str, Any]:
    return {
        "platforms": list(platforms or ("cuda",)),
        "first": first,
        "last": last,
        "depth": "sweep",
        "sources": ["tracker"],
        "reviewed": "2026-11-02",
        **changes,
    }


def reviewed(*reviews: dict[str, Any]) -> ReviewedReleases:
    return ReviewedReleases.model_validate({"sources": SOURCES, "protocols": PROTOCOLS, "reviews": list(reviews)})


REVIEWED = reviewed(review("0.2.0", "0.4.0"), review("0.5.0", "0.6.0", depth="search", reviewed="2026-11-03"))
GAP = reviewed(review("0.2.0", "0.3.0"), review("0.5.0", "0.6.0"))


def assess(
    base: str | None,
    candidate: str,
    platform: str | None = "cuda",
    what: ReviewedReleases = REVIEWED,
    issues: tuple[KnownIssue, ...] = (),
) -> CoverageOut:
    start = None if base is None else Version.parse(base)
    return assess_coverage(what, RELEASES, platform, start, Version.parse(candidate), issues)


def test_a_move_between_reviewed_releases_is_covered() -> None:
    found = assess("0.2.0", "0.6.0")
    assert (found.covered, found.why, found.unreviewed, found.reviewed_through) == (True, "", [], "0.6.0")


def test_the_least_depth_and_the_oldest_day_of_the_interval_are_given() -> None:
    assert (assess("0.2.0", "0.4.0").depth, assess("0.2.0", "0.6.0").depth) == (ReviewDepth.SWEEP, ReviewDepth.SEARCH)
    assert assess("0.4.0", "0.6.0").reviewed == date(2026, 11, 3)
    assert assess("0.2.0", "0.6.0").reviewed == date(2026, 11, 2)


def test_the_release_to_come_from_needs_no_review() -> None:
    """What it brought is there already."""
    assert assess("0.1.0", "0.2.0").covered


@pytest.mark.parametrize(
    ("base", "candidate", "why"),
    [
        ("0.6.0", "0.7.0", "0.7.0 was not reviewed; the review for cuda reaches from 0.2.0 to 0.6.0"),
        ("0.5.0", "0.8.0", "0.7.0 and 0.8.0 were not reviewed; the review for cuda reaches from 0.2.0 to 0.6.0"),
        (None, "0.1.0", "0.1.0 was not reviewed; the review for cuda reaches from 0.2.0 to 0.6.0"),
        ("0.2.0", "0.9.0", "0.9.0 is newer than all known releases (up to 0.8.0 of 2026-08-01); the review"),
        ("0.2.0", "0.4.7", "there is no release 0.4.7: the nearest is 0.4.0"),
        ("0.2.0", "0.4.1.dev3+g1234567", "0.4.1.dev3+g1234567 has no place among the releases; the review"),
        ("0.2.0", "0.4.7+acme", "0.4.7+acme is no build of a known release; the review for cuda reaches"),
        ("0.2.0", "0.4.7rc1", "0.4.7rc1 is no build of a known release; the review for cuda reaches"),
        ("0.2.0", "commit:1234567", "commit:1234567 has no place among the releases; the review"),
    ],
)
def test_an_interval_without_review_is_not_covered(base: str | None, candidate: str, why: str) -> None:
    found = assess(base, candidate)
    assert not found.covered
    assert found.why.startswith(why)


def test_a_gap_in_the_middle_is_not_covered() -> None:
    found = assess("0.2.0", "0.6.0", what=GAP)
    assert (found.covered, found.unreviewed) == (False, ["0.4.0"])
    assert assess("0.4.0", "0.6.0", what=GAP).covered


@pytest.mark.parametrize(
    ("platform", "why"), [(None, "the platform is not known"), ("tpu", "no release was reviewed for tpu")]
)
def test_a_platform_that_is_unknown_or_without_review_is_not_covered(platform: str | None, why: str) -> None:
    found = assess("0.2.0", "0.3.0", platform)
    assert (found.covered, found.reviewed_through, found.platform) == (False, None, platform)
    assert found.why.startswith(why)


def test_compared_sources_are_named_and_cover_nothing() -> None:
    what = reviewed(review("0.2.0", "0.6.0"), review("0.5.0", "0.7.0", depth="sources"))
    found = assess("0.5.0", "0.8.0", what=what)
    assert (found.covered, found.reviewed_through, found.depth) == (False, "0.6.0", None)
    assert found.why == "0.7.0 and 0.8.0 were not reviewed; the review for cuda reaches from 0.2.0 to 0.6.0"
    assert found.sources == "0.7.0"
    assert assess("0.5.0", "0.6.0", what=what).depth == ReviewDepth.SWEEP
    only = reviewed(review("0.2.0", "0.6.0", depth="sources"))
    unread = assess("0.2.0", "0.3.0", what=only)
    assert (unread.why, unread.sources) == ("no release was reviewed for cuda", "0.3.0")


def test_a_candidate_of_a_release_counts_as_the_release() -> None:
    assert assess("0.2.0", "0.4.0rc1").covered
    assert not assess("0.2.0", "0.7.0rc1").covered


def test_without_a_baseline_the_version_alone_counts() -> None:
    assert assess(None, "0.5.0", what=GAP).covered


def test_a_downgrade_needs_the_releases_down_to_the_candidate() -> None:
    assert assess("0.6.0", "0.2.0").covered
    assert assess("0.7.0", "0.6.0").covered, "what 0.7.0 brought is left behind"
    assert assess("0.6.0", "0.1.0").unreviewed == ["0.1.0"]
    assert assess("0.6.0", "0.3.0", what=GAP).unreviewed == ["0.4.0"]


def test_the_same_release_brings_nothing() -> None:
    assert assess("0.8.0", "0.8.0").covered
    assert not assess("0.8.0+cpu", "0.8.0").covered, "another build"


@pytest.mark.parametrize(
    ("base", "candidate", "move"),
    [
        (None, "0.2.0", None),
        ("0.2.0", "0.3.0", Move.UPGRADE),
        ("0.3.0", "0.2.0", Move.DOWNGRADE),
        ("0.3.0", "0.3.0rc1", Move.DOWNGRADE),
        ("0.3.0", "0.3.0", Move.SAME),
        ("0.3.0", "commit:1234567", None),
    ],
)
def test_the_direction_of_a_move(base: str | None, candidate: str, move: Move | None) -> None:
    assert move_of(None if base is None else Version.parse(base), Version.parse(candidate)) is move


ISSUES = (
    record(id="VLLM-1", scope={}, affected=[affected({"introduced": "0.3.0"})]),
    record(id="VLLM-2", scope={}, affected=[affected({"introduced": "0"}, {"fixed": "0.4.0"})]),
    record(id="VLLM-3", scope={}, affected=[affected({"introduced": "0.5.0"})]),
    record(id="VLLM-4", scope={"platform": ["rocm"]}, affected=[affected({"introduced": "0.3.0"})]),
    record(id="VLLM-5", scope={"accelerator": ["H200", "B200"]}, affected=[affected({"introduced": "0.4.0rc1"})]),
    record(id="VLLM-6", scope={"gpu_arch": ["gfx942"]}, affected=[affected({"introduced": "0.3.0"})]),
    record(id="VLLM-7", scope={}, affected=[affected(commits=({"introduced": "1234567"},))]),
)


@pytest.mark.parametrize(
    ("base", "candidate", "platform", "count"),
    [
        ("0.2.0", "0.4.0", "cuda", 3),
        ("0.4.0", "0.2.0", "cuda", 3),
        ("0.2.0", "0.4.0", "rocm", 4),
        ("0.2.0", "0.4.0", "cpu", 2),
        ("0.2.0", "0.4.0", None, 5),
        ("0.5.0", "0.6.0", "cuda", 0),
        (None, "0.3.0", "cuda", 3),
    ],
)
def test_the_records_of_the_interval_and_the_platform_are_counted(
    base: str | None, candidate: str, platform: str | None, count: int
) -> None:
    assert assess(base, candidate, platform, issues=ISSUES).records_in_interval == count


MINORS = st.integers(1, 8)


@given(base=MINORS, candidate=MINORS, spans=st.lists(st.tuples(MINORS, MINORS), max_size=3))
def test_covered_means_that_every_release_of_the_move_was_reviewed(
    base: int, candidate: int, spans: list[tuple[int, int]]
) -> None:
    ordered = [tuple(sorted(span)) for span in spans]
    what = reviewed(*(review(f"0.{first}.0", f"0.{last}.0") for first, last in ordered))
    step = 1 if candidate > base else -1
    passed = range(base + step, candidate + step, step) if candidate != base else ()
    inside = all(any(first <= minor <= last for first, last in ordered) for minor in passed)
    found = assess(f"0.{base}.0", f"0.{candidate}.0", what=what)
    assert found.covered == (base == candidate or (inside and bool(ordered)))
    assert found.covered == (not found.why)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("0.4.7", "0.4.0"),
        ("0.4.7+cpu", "0.4.0"),
        ("0.4.7+cu129", "0.4.0"),
        ("0.4.0", None),
        ("0.4.0+cpu", None),
        ("0.4.7+acme", None),
        ("0.4.7rc1", None),
        ("0.4.7.dev1", None),
        ("commit:1234567", None),
        ("0.9.0", None),
        ("0.0.9", None),
    ],
)
def test_a_version_that_never_existed_is_known_as_such(text: str, nearest: str | None) -> None:
    """A fork's build, a nightly, a commit, and what is newer or older than the list, may exist."""
    found = never_released(Version.parse(text), RELEASES)
    assert (None if found is None else str(found)) == nearest


@pytest.mark.parametrize(
    ("platform", "through"),
    [("cuda", "0.29.0"), ("rocm", "0.29.0"), ("cpu", "0.21.0"), ("xpu", "0.21.0")]
    + [(platform, None) for platform in ("ascend", "gaudi", "tpu", "other")],
)
def test_what_was_really_reviewed(platform: str, through: str | None) -> None:
    """A change here is a claim to have looked: coverage.yaml has to say from what, and how deeply."""
    found = assess_coverage(SHIPPED, shipped_releases(), platform, None, Version.parse("0.21.0"), ())
    assert (found.reviewed_through, found.covered) == (through, through is not None)


@pytest.mark.parametrize("release", ["0.30.0", "0.31.0", "0.32.0", "0.33.0"])
def test_no_platform_is_reviewed_where_no_thread_was_seen(release: str) -> None:
    for platform in ("cuda", "rocm", "cpu", "xpu", "ascend", "gaudi", "tpu", "other"):
        assert SHIPPED.review_of(platform, Pep440(release)) is None


def test_every_platform_is_reviewed_or_said_not_to_be() -> None:
    platforms = {"cuda", "rocm", "cpu", "xpu", "ascend", "gaudi", "tpu", "other"}
    assert {p for one in SHIPPED.reviews for p in one.platforms} | SHIPPED.not_reviewed.keys() == platforms


# The file


def written(directory: Path, *reviews: dict[str, Any], **changes: Any) -> Path:
    data = {"sources": SOURCES, "protocols": PROTOCOLS, "reviews": list(reviews), **changes}
    (directory / COVERAGE_NAME).write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return directory


def test_it_is_no_record(tmp_path: Path) -> None:
    assert load_records(written(tmp_path)) == []


def test_without_a_file_nothing_was_reviewed(tmp_path: Path) -> None:
    assert load_coverage(tmp_path) == ReviewedReleases()


def test_the_index_of_a_wheel_gives_the_same(tmp_path: Path) -> None:
    shutil.copy(ROOT / "known_issues" / COVERAGE_NAME, tmp_path)
    (tmp_path / INDEX_NAME).write_text(coverage_index(tmp_path), encoding="utf-8")
    assert load_coverage(tmp_path) == SHIPPED


def test_the_index_is_used_for_its_own_file_only(tmp_path: Path) -> None:
    (written(tmp_path) / INDEX_NAME).write_text(coverage_index(tmp_path), encoding="utf-8")
    written(tmp_path, review("0.19.0", "0.20.0"))
    assert len(load_coverage(tmp_path).reviews) == 1
    (tmp_path / INDEX_NAME).write_text("{}", encoding="utf-8")
    assert len(load_coverage(tmp_path).reviews) == 1


def test_an_unknown_key_is_refused_with_file_and_line(tmp_path: Path) -> None:
    written(tmp_path, review("0.19.0", "0.20.0", deph="sweep"))
    with pytest.raises(InputError, match=rf"{COVERAGE_NAME}:\d+: unknown key 'deph' .*did you mean 'depth'"):
        load_coverage(tmp_path)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"last": "0.20.7"}, "there is no release 0.20.7; the nearest is 0.20.2"),
        ({"first": "0.21.0"}, "0.20.0 is before 0.21.0"),
        ({"reviewed": "2026-12-01"}, "reviewed in the future (2026-12-01)"),
        ({"reviewed": "2026-10-01"}, "the source tracker shows later days than the review"),
        ({"sources": ["tracker", "notes"]}, "notes is none of the sources above"),
        ({"last": "0.33.0"}, "0.33.0 was published on 2026-11-02: no source reaches 7 days beyond it (2026-11-01)"),
        ({"last": "0.20.0rc1"}, "reviews.0.last: '0.20.0rc1' is not a release"),
        ({"platforms": []}, "platforms"),
    ],
)
def test_the_linter_finds_what_cannot_be_true(tmp_path: Path, changes: dict[str, Any], what: str) -> None:
    written(tmp_path, {**review("0.19.0", "0.20.0"), **changes})
    messages = lint_records(tmp_path, today=date(2026, 11, 20))
    assert any(what in str(one) and one.line is not None for one in messages), [str(one) for one in messages]
    assert any(one.severity == "error" for one in messages)


def test_the_linter_wants_depths_explained_and_sources_used(tmp_path: Path) -> None:
    written(tmp_path, review("0.19.0", "0.20.0"), protocols={"search": "Threads were searched for."})
    (message,) = lint_records(tmp_path, today=date(2026, 11, 20))
    assert message.what == "protocols does not say what sweep means"
    written(tmp_path)
    (message,) = lint_records(tmp_path, today=date(2026, 11, 20))
    assert (message.what, message.severity) == ("no review uses the source tracker", "warning")


def test_a_good_file_has_no_complaint(tmp_path: Path) -> None:
    written(tmp_path, review("0.19.0", "0.20.0"))
    assert lint_records(tmp_path, today=date(2026, 11, 20)) == []
