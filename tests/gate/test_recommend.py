"""The newest release that passes, and why newer ones were passed over."""

from datetime import UTC, date, datetime

import pytest
from packaging.version import Version as Pep440

from regress_gate.gate.check import Recommendation, decide_check, recommend_release, recommendation_text
from regress_gate.known.matching.findings import match_issues
from regress_gate.known.records.coverage import ReviewedReleases, assess_coverage
from regress_gate.model.deployment import Deployment
from regress_gate.model.policy import Policy
from regress_gate.model.result import Result
from regress_gate.model.version import Version
from tests.factories.records import IN_SCOPE, record

NOW = datetime(2026, 6, 30, tzinfo=UTC)
DAYS = {Pep440(f"0.{minor}.0"): date(2026, 6, 2 * (minor - 15)) for minor in range(19, 28)}
"""0.19.0 on 8 June, then every second day, 0.27.0 on 24 June."""
RECORDS = [record()]
"""Blocks from 0.20.0 to before 0.23.0."""


def reviewed_through(release: str) -> ReviewedReleases:
    """Everything from 0.19.0 on."""
    review = {"platforms": ["cuda"], "first": "0.19.0", "last": release, "depth": "sweep"}
    return ReviewedReleases.model_validate({"reviews": [{**review, "sources": ["tracker"], "reviewed": "2026-06-30"}]})


ALL = reviewed_through("0.27.0")


def chosen(
    base: str | None = "0.19.0",
    *,
    deployment: Deployment = IN_SCOPE,
    newest: int = 27,
    min_age_days: int = 0,
    reviewed: ReviewedReleases = ALL,
    platform: str | None = "cuda",
) -> Recommendation:
    baseline = None if base is None else Version.parse(base)

    def check(candidate: Version) -> Result:
        found = match_issues(RECORDS, deployment, baseline, candidate)
        coverage = assess_coverage(reviewed, DAYS, platform, baseline, candidate, RECORDS)
        return decide_check(
            baseline, candidate, policy=Policy(), waivers=[], findings=found, coverage=coverage, now=NOW
        )

    days = {version: day for version, day in DAYS.items() if version <= Pep440(f"0.{newest}.0")}
    return recommend_release(days, check, baseline=baseline, today=NOW.date(), min_age_days=min_age_days)


def test_the_newest_that_passes() -> None:
    assert chosen() == Recommendation(Version.parse("0.27.0"), date(2026, 6, 24), [])


def test_a_young_release_is_passed_over() -> None:
    found = chosen(min_age_days=7)
    assert str(found.version) == "0.26.0"
    assert found.passed_over == [("0.27.0", "published 6 days ago")]


def test_releases_that_an_issue_blocks_are_passed_over_down_to_the_baseline() -> None:
    found = chosen(newest=22)
    assert found.version is None
    assert found.passed_over == [(f"0.{minor}.0", "VLLM-1 blocks") for minor in (22, 21, 20)]


def test_releases_of_which_a_fact_is_missing_are_passed_over() -> None:
    found = chosen(newest=22, deployment=Deployment())
    assert found.passed_over[0] == ("0.22.0", "VLLM-1 may apply")


def test_releases_without_review_are_passed_over() -> None:
    found = chosen(reviewed=reviewed_through("0.24.0"))
    assert str(found.version) == "0.24.0"
    assert found.passed_over == [(f"0.{minor}.0", "not reviewed for cuda") for minor in (27, 26, 25)]


@pytest.mark.parametrize(("platform", "why"), [("tpu", "not reviewed for tpu"), (None, "platform not known")])
def test_where_nothing_was_reviewed_nothing_is_recommended(platform: str | None, why: str) -> None:
    found = chosen(platform=platform)
    assert found.version is None
    assert {reason for _, reason in found.passed_over} == {why, "VLLM-1 blocks"}


def test_without_a_baseline_older_releases_count_too() -> None:
    found = chosen(None, newest=22)
    assert str(found.version) == "0.19.0"


def test_nothing_older_than_the_baseline_is_recommended() -> None:
    assert chosen("0.27.0") == Recommendation(None, None, [])


@pytest.mark.parametrize(
    ("found", "base", "said"),
    [
        (
            Recommendation(Version.parse("0.26.0"), date(2026, 6, 22), [("0.27.0", "published 6 days ago")]),
            "0.19.0",
            (
                "The recommended version is 0.26.0, published 2026-06-22: the newest that was reviewed and that no "
                "known issue of this deployment blocks. Passed over: 0.27.0: published 6 days ago."
            ),
        ),
        (
            Recommendation(None, None, [("0.22.0", "VLLM-1 blocks")]),
            "0.21.0",
            "Stay on 0.21.0: no newer release passes (0.22.0: VLLM-1 blocks).",
        ),
        (Recommendation(None, None, []), None, "No release can be recommended."),
        (
            Recommendation(None, None, [(f"0.{minor}.0", "VLLM-1 blocks") for minor in range(9, 3, -1)]),
            None,
            "No release can be recommended (0.9.0 to 0.4.0: VLLM-1 blocks).",
        ),
        (
            Recommendation(None, None, [(f"0.{minor}.0", f"VLLM-{minor % 2} blocks") for minor in range(9, 3, -1)]),
            None,
            (
                "No release can be recommended (0.9.0: VLLM-1 blocks; 0.8.0: VLLM-0 blocks; 0.7.0: VLLM-1 blocks; "
                "0.6.0: VLLM-0 blocks; and 2 older)."
            ),
        ),
        (
            Recommendation(
                Version.parse("0.5.0"), date(2026, 6, 1), [("0.7.0", "not reviewed"), ("0.6.0", "not reviewed")]
            ),
            None,
            (
                "The recommended version is 0.5.0, published 2026-06-01: the newest that was reviewed and that no "
                "known issue of this deployment blocks. Passed over: 0.7.0 and 0.6.0: not reviewed."
            ),
        ),
    ],
)
def test_it_is_said_in_words(found: Recommendation, base: str | None, said: str) -> None:
    assert recommendation_text(found, None if base is None else Version.parse(base)) == said
