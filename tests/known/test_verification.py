"""Whether a build has a fix, by its git history: ancestors, cherry-picks of a release branch, reverts."""

from pathlib import Path
from typing import Any

import pytest

from regress_gate.known.tracker.fixes import VLLM_REPO_NAME, build_history
from regress_gate.known.tracker.verification import collect_evidence, is_relevant, judge_fix
from regress_gate.model.issue import KnownIssue, Status
from regress_gate.model.version import Version
from tests.factories.records import REPO as REPO_URL
from tests.factories.records import affected, record
from tests.fake_github.server import BOT, GitHub, closed, comment, named_by, sha
from tests.known.github_session import session

IN, OUT = Status.FIX_IN_CANDIDATE, Status.FIX_NOT_IN_CANDIDATE
UNFIXED = [affected({"introduced": "0.20.0"})]


def known(**changes: Any) -> KnownIssue:
    """A record of thread 1 that knows of no fix."""
    url = f"{REPO_URL}/issues/1"
    return record(
        **{
            "references": [{"type": "REPORT", "url": url}],
            "affected": UNFIXED,
            "tracker": {"url": url, "state": "open", "checked": "2026-11-01"},
            **changes,
        }
    )


def fixed_by(*fixes: dict[str, Any], **changes: Any) -> KnownIssue:
    return known(changes={"fixed_by": list(fixes)}, **changes)


def verified(
    github: GitHub, tmp_path: Path, issue: KnownIssue, version: str, *, measured: str | None = None, **how: Any
) -> tuple[Status, str]:
    candidate = Version.parse(version)
    api = session(github, tmp_path, **how)
    return judge_fix(
        issue, candidate, collect_evidence(api, issue, build_history(api, VLLM_REPO_NAME, candidate), measured)
    )


@pytest.fixture
def story(github: GitHub) -> GitHub:
    """vllm#42325: fixed by #42379, which #46070 reverts: v0.23.0 has the fix, v0.24.0 lost it. v0.22.1 picked it."""
    github.history(
        ("base", "Start (#1000)"),
        ("cut22", "Something (#42000)"),
        ("fix", "[Bugfix] Faster sampling (#42379)"),
        ("cut23", "Else (#45000)"),
        ("revert", 'Revert "[Bugfix] Faster sampling (#42379)" (#46070)'),
        ("cut24", "More (#47000)"),
        ("head", "Most (#48000)"),
        **{
            "v0.22.0": ("cut22", [("rel", "Release notes")]),
            "v0.22.1": ("cut22", [("rel", "Release notes"), ("pick", "[Bugfix] Faster sampling (#42379)")]),
            "v0.22.2": (
                "cut22",
                [
                    ("pick", "[Bugfix] Faster sampling (#42379) (#43000)"),
                    ("unpick", 'Revert "[Bugfix] Faster sampling (#42379)"'),
                ],
            ),
            "v0.23.0": ("cut23", [("rel23", "Pick an unrelated one (#45500)")]),
            "v0.24.0": ("cut24", []),
            "v0.24.1": ("cut24", [("re", 'Reapply "[Bugfix] Faster sampling (#42379)" (#47500)')]),
        },
    )
    github.issue(1, closed("2026-05-20T00:00:00Z"), state="closed", state_reason="completed")
    github.pull(
        42379,
        named_by(46070, merged="2026-06-18T00:00:00Z", body="Reverts vllm-project/vllm#42379"),
        merged="2026-05-20T00:00:00Z",
        commit="fix",
    )
    github.pull(46070, merged="2026-06-18T00:00:00Z", commit="revert")
    return github


class TestTheHistoryOfTheBuild:
    @pytest.mark.parametrize(
        ("version", "status", "why"),
        [
            ("0.22.0", OUT, "v0.22.0 does not have #42379"),
            ("0.22.1", IN, "has a cherry-pick of it on its release branch"),
            ("0.22.2", OUT, "reverted it on its release branch"),
            ("0.23.0", IN, "v0.23.0 has #42379 (merged 2026-05-20) (seen 20"),
            (
                "0.24.0",
                OUT,
                "v0.24.0 has #42379 (merged 2026-05-20), and #46070 (merged 2026-06-18) reverts it",
            ),
            ("0.24.1", IN, "has a cherry-pick of it"),
            (f"commit:{sha('cut23')}", IN, "has #42379"),
            (f"0.24.1rc1.dev7+g{sha('head')[:9]}", OUT, "reverts it"),
        ],
    )
    def test_membership_of_a_fix_that_was_reverted_later(
        self, story: GitHub, tmp_path: Path, version: str, status: Status, why: str
    ) -> None:
        found, found_why = verified(story, tmp_path, fixed_by({"pull": 42379}), version)
        assert found is status
        assert why in found_why

    def test_a_revert_that_only_the_record_names(self, story: GitHub, tmp_path: Path) -> None:
        story.pull(42379, merged="2026-05-20T00:00:00Z", commit="fix")
        issue = fixed_by({"pull": 42379, "reverted_by": {"pull": 46070}})
        assert verified(story, tmp_path, issue, "0.24.0")[0] is OUT
        by_commit = fixed_by({"commit": sha("fix"), "reverted_by": {"commit": sha("revert")}})
        assert verified(story, tmp_path, by_commit, "0.24.0")[0] is OUT
        assert verified(story, tmp_path, by_commit, "0.23.0")[0] is IN

    def test_a_reapplied_fix_counts(self, story: GitHub, tmp_path: Path) -> None:
        again = named_by(48000, merged="2026-07-10T00:00:00Z", body="Reverts vllm-project/vllm#46070")
        story.pull(46070, again, merged="2026-06-18T00:00:00Z", commit="revert")
        story.pull(48000, merged="2026-07-10T00:00:00Z", commit="head")
        status, why = verified(story, tmp_path, fixed_by({"pull": 42379}), f"commit:{sha('head')}")
        assert status is IN
        assert "#48000 (merged 2026-07-10) reapplies it" in why
        assert verified(story, tmp_path, fixed_by({"pull": 42379}), "0.24.0")[0] is OUT

    def test_a_comparison_is_fetched_only_once(self, story: GitHub, tmp_path: Path) -> None:
        verified(story, tmp_path, fixed_by({"pull": 42379}), "0.24.0")
        story.asked.clear()
        verified(story, tmp_path, fixed_by({"pull": 42379}), "0.24.0")
        assert story.bodies == 0
        assert not any("compare" in path for path in story.paths())
        assert verified(story, tmp_path, fixed_by({"pull": 42379}), "0.24.0", offline=True)[0] is OUT

    def test_every_part_of_a_fix_must_be_there(self, story: GitHub, tmp_path: Path) -> None:
        story.pull(45000, merged="2026-06-01T00:00:00Z", commit="cut23")
        both = fixed_by({"pull": 42379}, {"pull": 45000})
        assert verified(story, tmp_path, both, "0.23.0")[0] is IN
        status, why = verified(story, tmp_path, both, "0.22.1")
        assert status is OUT
        assert "v0.22.1 does not have #45000" in why

    def test_a_later_fix_counts_if_the_first_was_reverted(self, story: GitHub, tmp_path: Path) -> None:
        story.pull(47000, merged="2026-06-20T00:00:00Z", commit="cut24")
        status, why = verified(story, tmp_path, fixed_by({"pull": 42379}, {"pull": 47000}), "0.24.0")
        assert status is IN
        assert "reverts it" in why

    def test_an_unmerged_claim_fixes_nothing(self, story: GitHub, tmp_path: Path) -> None:
        story.pull(3, merged=None)
        status, why = verified(story, tmp_path, fixed_by({"pull": 3}), "0.24.0")
        assert status is Status.CLOSED_UNFIXED
        assert "closed as completed, no fix known" in why

    def test_a_fix_of_another_project_is_not_looked_for_in_vllm(self, story: GitHub, tmp_path: Path) -> None:
        story.resources["/repos/ROCm/aiter/pulls/5"] = {
            "number": 5,
            "html_url": "https://github.com/ROCm/aiter/pull/5",
            "state": "closed",
            "merged_at": "2026-05-20T00:00:00Z",
            "merge_commit_sha": "a" * 40,
        }
        issue = fixed_by({"repo": "https://github.com/ROCm/aiter", "pull": 5})
        status, why = verified(story, tmp_path, issue, "0.24.0")
        assert status is Status.UNKNOWN
        assert "ROCm/aiter#5 is not part of vllm-project/vllm" in why


class TestSourcesOfFixes:
    def test_the_thread_names_it_where_the_record_does_not(self, story: GitHub, tmp_path: Path) -> None:
        event = named_by(42379, merged="2026-05-20T00:00:00Z", body="Fixes #1")
        story.issue(1, event, state="closed", state_reason="completed")
        assert verified(story, tmp_path, known(), "0.23.0")[0] is IN
        assert verified(story, tmp_path, known(), "0.24.0")[0] is OUT

    def test_a_fix_reference_names_it(self, story: GitHub, tmp_path: Path) -> None:
        url = f"{REPO_URL}/issues/1"
        references = [{"type": "REPORT", "url": url}, {"type": "FIX", "url": f"{REPO_URL}/pull/42379"}]
        assert verified(story, tmp_path, known(references=references), "0.23.0")[0] is IN

    def test_the_original_of_a_duplicate_names_it(self, story: GitHub, tmp_path: Path) -> None:
        story.issue(1, comment("Duplicate of #5"), state="closed", state_reason="duplicate")
        event = named_by(42379, merged="2026-05-20T00:00:00Z", body="Fixes #5")
        story.issue(5, event, state="closed", state_reason="completed")
        assert verified(story, tmp_path, known(), "0.23.0")[0] is IN

    def test_a_commit_that_closed_the_thread(self, story: GitHub, tmp_path: Path) -> None:
        story.issue(1, closed("2026-05-20T00:00:00Z", commit_id=sha("fix")), state="closed")
        assert verified(story, tmp_path, known(), "0.23.0")[0] is IN
        assert verified(story, tmp_path, known(), "0.22.0")[0] is OUT

    def test_the_curators_fix_goes_before_what_the_thread_calls_one(self, story: GitHub, tmp_path: Path) -> None:
        event = named_by(45000, merged="2026-05-25T00:00:00Z", body="Fixes #1, in part")
        story.issue(1, event, state="closed", state_reason="completed")
        story.pull(45000, merged="2026-05-25T00:00:00Z", commit="cut23")
        story.pull(48000, merged="2026-07-10T00:00:00Z", commit="head")
        status, why = verified(story, tmp_path, fixed_by({"pull": 48000}), "0.23.0")
        assert status is OUT
        assert why.startswith("v0.23.0 does not have #48000")


class TestWithoutAFix:
    @pytest.mark.parametrize(
        ("events", "fields", "status", "why"),
        [
            ((), {}, Status.OPEN, "open, no fix known (tracker seen"),
            ((), {"state_reason": "reopened"}, Status.OPEN, "reopened, no fix known"),
            (
                (closed("2026-05-20T00:00:00Z", BOT),),
                {"state": "closed", "state_reason": "not_planned", "labels": [{"name": "stale"}]},
                Status.CLOSED_UNFIXED,
                "closed by the inactivity bot",
            ),
            ((), {"state": "closed", "state_reason": "not_planned"}, Status.CLOSED_UNFIXED, "closed as not planned"),
            ((), {"state": "closed", "state_reason": "completed"}, Status.CLOSED_UNFIXED, "closed as completed"),
            (
                (comment("Duplicate of #5"),),
                {"state": "closed", "state_reason": "duplicate"},
                Status.CLOSED_UNFIXED,
                "it is a duplicate of https://github.com/vllm-project/vllm/issues/5, which is open",
            ),
        ],
    )
    def test_the_thread_as_it_is_now(
        self, story: GitHub, tmp_path: Path, events: Any, fields: dict[str, Any], status: Status, why: str
    ) -> None:
        story.issue(5)
        story.issue(1, *events, **fields)
        found, found_why = verified(story, tmp_path, known(), "0.24.0")
        assert found is status
        assert why in found_why

    def test_a_thread_that_is_gone_leaves_the_records_state(self, story: GitHub, tmp_path: Path) -> None:
        story.gone[f"/repos/{VLLM_REPO_NAME}/issues/1"] = 410
        status, why = verified(story, tmp_path, known(), "0.24.0")
        assert status is Status.OPEN
        assert "(tracker seen 2026-11-01)" in why
        assert "the thread is gone" in why

    def test_the_merge_of_the_causing_change_is_not_a_fix(self, story: GitHub, tmp_path: Path) -> None:
        url = f"{REPO_URL}/pull/42379"
        issue = known(
            kind="default-change",
            references=[{"type": "REPORT", "url": url}],
            changes={"introduced_by": [{"pull": 42379}]},
            tracker={"url": url, "state": "merged", "checked": "2026-11-01"},
        )
        status, why = verified(story, tmp_path, issue, "0.23.0")
        assert status is Status.CLOSED_UNFIXED
        assert "the thread is the change itself" in why
        assert "fixed" not in why


class TestOrderOfEvidence:
    def test_a_measurement_goes_before_everything(self, story: GitHub, tmp_path: Path) -> None:
        found = verified(story, tmp_path, fixed_by({"pull": 42379}), "0.24.0", measured="measured on lab")
        assert found == (Status.MEASURED_FIXED, "measured on lab")

    def test_the_history_goes_before_inferred_versions(self, story: GitHub, tmp_path: Path) -> None:
        inferred = [affected({"introduced": "0.20.0"}, {"fixed": "0.24.0"})]
        issue = fixed_by({"pull": 42379}, affected=inferred)
        assert verified(story, tmp_path, issue, "0.23.0")[0] is IN
        assert verified(story, tmp_path, issue, "0.24.0")[0] is OUT

    def test_an_issue_that_came_back_is_not_fixed(self, story: GitHub, tmp_path: Path) -> None:
        back = [affected({"introduced": "0.20.0"}, {"fixed": "0.22.1"}, {"introduced": "0.23.0"})]
        status, why = verified(story, tmp_path, fixed_by({"pull": 42379}, affected=back), "0.23.0")
        assert status is OUT
        assert "but the issue came back" in why

    def test_a_tag_that_is_not_there_leaves_the_record_and_is_said(self, story: GitHub, tmp_path: Path) -> None:
        status, why = verified(story, tmp_path, fixed_by({"pull": 42379}), "0.99.0")
        assert status is Status.CLOSED_UNFIXED
        assert "#42379 in v0.99.0: 127.0.0.1 has no such thing" in why

    def test_a_nightly_without_a_commit_has_no_history(self, story: GitHub, tmp_path: Path) -> None:
        assert verified(story, tmp_path, fixed_by({"pull": 42379}), "0.24.1rc1.dev7")[0] is Status.CLOSED_UNFIXED

    def test_offline_without_a_cache_the_record_stands_and_what_is_missing_is_said(
        self, story: GitHub, tmp_path: Path
    ) -> None:
        status, why = verified(story, tmp_path, fixed_by({"pull": 42379}), "0.23.0", offline=True)
        assert status is Status.OPEN
        assert "not in the cache (offline)" in why

    def test_reverts_that_could_not_be_looked_up_are_no_fix(self, story: GitHub, tmp_path: Path) -> None:
        story.gone[f"/repos/{VLLM_REPO_NAME}/issues/42379/timeline"] = 404
        status, why = verified(story, tmp_path, fixed_by({"pull": 42379}), "0.23.0")
        assert status is Status.UNKNOWN
        assert "not every later change could be looked up" in why

    def test_a_quota_that_ends_half_way_leaves_no_fix(self, story: GitHub, tmp_path: Path) -> None:
        api = session(story, tmp_path)
        issue, candidate = fixed_by({"pull": 42379}), Version.parse("0.23.0")
        story.quota = 4  # the thread, its timeline, the fix, its timeline
        status, why = judge_fix(
            issue, candidate, collect_evidence(api, issue, build_history(api, VLLM_REPO_NAME, candidate))
        )
        assert status is Status.CLOSED_UNFIXED
        assert "used up" in why


@pytest.mark.parametrize(
    ("version", "concerned"), [("0.19.0", False), ("0.20.0", True), ("0.25.0", True), ("commit:abcdefa", True)]
)
def test_a_build_from_before_the_issue_has_nothing_to_verify(version: str, concerned: bool) -> None:
    issue = known(affected=[affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"})])
    assert is_relevant(issue, Version.parse(version)) is concerned
