"""A sync finds what has changed since the last one, transfers nothing without changes, and continues where it
stopped."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from regress_gate.known.tracker.snapshot import SNAPSHOT_NAME, Snapshot, as_last_seen, read_snapshot, write_snapshot
from regress_gate.known.tracker.sync import SyncResult, sync
from regress_gate.model.issue import KnownIssue
from tests.factories.records import REPO as REPO_URL
from tests.factories.records import affected, record
from tests.fake_github.server import BOT, REPO, GitHub, Scripted, closed, named_by
from tests.known.github_session import NOW, session

TODAY = NOW.date()


def tracked(number: int, **changes: Any) -> KnownIssue:
    """A record without a fix of its own, tracked in the thread of that number."""
    url = f"{REPO_URL}/issues/{number}"
    return record(
        **{
            "id": f"VLLM-{number}",
            "references": [{"type": "REPORT", "url": url}],
            "affected": [affected({"introduced": "0.20.0"})],
            "tracker": {"url": url, "state": "open", "checked": "2026-11-01"},
            **changes,
        }
    )


def run(github: GitHub, tmp_path: Path, *issues: KnownIssue, **how: Any) -> SyncResult:
    api = session(github, tmp_path, **how)
    found = sync(api, issues, read_snapshot(tmp_path))
    assert write_snapshot(tmp_path, found.snapshot)
    return found


def told(found: SyncResult) -> list[tuple[str, str]]:
    return [(seen.issue.id, seen.kind.value) for seen in found.changes]


class TestChanges:
    def test_the_first_sync_finds_new_threads_and_the_second_no_change(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        assert told(run(github, tmp_path, tracked(1))) == [("VLLM-1", "new")]
        assert told(run(github, tmp_path, tracked(1))) == []

    def test_closed_with_a_fix_and_opened_again(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        run(github, tmp_path, tracked(1))
        fix = named_by(2, merged="2026-06-02T10:00:00Z", body="Fixes #1")
        github.pull(2, merged="2026-06-02T10:00:00Z", commit="b")
        github.issue(1, fix, closed("2026-06-02T10:00:00Z"), state="closed", state_reason="completed")
        assert told(run(github, tmp_path, tracked(1))) == [("VLLM-1", "closed"), ("VLLM-1", "fixed")]
        again = {"event": "reopened", "created_at": "2026-06-05T10:00:00Z"}
        github.issue(1, fix, closed("2026-06-02T10:00:00Z"), again, state_reason="reopened")
        assert told(run(github, tmp_path, tracked(1))) == [("VLLM-1", "reopened")]

    def test_closed_by_the_inactivity_bot_is_closed_and_not_fixed(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        run(github, tmp_path, tracked(1))
        github.issue(1, closed("2026-06-02T10:00:00Z", BOT), state="closed", labels=[{"name": "stale"}])
        found = run(github, tmp_path, tracked(1))
        assert told(found) == [("VLLM-1", "closed")]
        assert found.changes[0].thread.reason == "stale"

    def test_a_reverted_fix_is_a_change(self, github: GitHub, tmp_path: Path) -> None:
        fix = named_by(42379, merged="2026-05-20T00:00:00Z", body="Fixes #1")
        github.issue(1, fix, closed("2026-05-20T00:00:00Z"), state="closed", state_reason="completed")
        github.pull(42379, merged="2026-05-20T00:00:00Z", commit="fix")
        run(github, tmp_path, tracked(1))
        revert = named_by(46070, merged="2026-06-18T00:00:00Z", body="Reverts vllm-project/vllm#42379")
        github.pull(42379, revert, merged="2026-05-20T00:00:00Z", commit="fix")
        github.pull(46070, merged="2026-06-18T00:00:00Z", commit="revert")
        found = run(github, tmp_path, tracked(1))
        assert [(seen.kind.value, seen.reverts) for seen in found.changes] == [("reverted", (f"{REPO}#46070",))]
        assert told(run(github, tmp_path, tracked(1))) == []

    def test_a_pull_request_that_is_merged(self, github: GitHub, tmp_path: Path) -> None:
        github.pull(1, merged=None)
        run(github, tmp_path, tracked(1))
        github.pull(1, merged="2026-05-20T00:00:00Z", commit="a")
        assert told(run(github, tmp_path, tracked(1))) == [("VLLM-1", "merged")]

    def test_deleted_and_transferred(self, github: GitHub, tmp_path: Path) -> None:
        github.issue(1)
        github.issue(2)
        run(github, tmp_path, tracked(1), tracked(2))
        github.gone[f"/repos/{REPO}/issues/1"] = 410
        github.issue(9, repo="a/b")
        github.moved[f"/repos/{REPO}/issues/2"] = f"{github.url}/repos/a/b/issues/9"
        found = run(github, tmp_path, tracked(1), tracked(2))
        assert sorted(told(found)) == [("VLLM-1", "gone"), ("VLLM-2", "moved")]
        assert told(run(github, tmp_path, tracked(1), tracked(2))) == []

    def test_threads_elsewhere_are_not_asked_for(self, github: GitHub, tmp_path: Path) -> None:
        elsewhere = {"url": "https://discuss.vllm.ai/t/1", "state": "open", "checked": "2026-11-01"}
        found = run(github, tmp_path, tracked(1, tracker=elsewhere))
        assert (found.wanted, github.asked) == (0, [])


class TestCost:
    @pytest.mark.parametrize("threads", [20, pytest.param(200, marks=pytest.mark.slow)])
    def test_threads_that_have_not_changed_transfer_no_body(self, threads: int, github: GitHub, tmp_path: Path) -> None:
        issues = [tracked(number) for number in range(1, threads + 1)]
        for number in range(1, threads + 1):
            github.issue(number, named_by(1000 + number, merged="2026-06-02T10:00:00Z", body=f"Fixes #{number}"))
            github.pull(1000 + number, merged="2026-06-02T10:00:00Z", commit=str(number))
        run(github, tmp_path, *issues)
        github.asked.clear()
        found = run(github, tmp_path, *issues)
        assert (found.looked, told(found)) == (threads, [])
        assert {asked.status for asked in github.asked} == {304}
        assert github.bodies == 0

    def test_a_quota_that_is_too_small_gets_through_in_several_syncs(self, github: GitHub, tmp_path: Path) -> None:
        issues = [tracked(number) for number in range(1, 5)]
        for number in range(1, 5):
            github.issue(number)
        seen: set[str] = set()
        for _ in range(2):
            github.asked.clear()
            github.quota = 4
            api = session(github, tmp_path)
            found = sync(api, issues, read_snapshot(tmp_path))
            write_snapshot(tmp_path, found.snapshot)
            assert found.looked == 2
            assert found.stopped is not None
            assert not found.complete
            seen |= {change.issue.id for change in found.changes}
        assert seen == {"VLLM-1", "VLLM-2", "VLLM-3", "VLLM-4"}

    def test_one_thread_that_cannot_be_had_keeps_its_state_and_stops_no_other(
        self, github: GitHub, tmp_path: Path
    ) -> None:
        github.issue(1)
        github.issue(2)
        run(github, tmp_path, tracked(1), tracked(2))
        github.script = [Scripted(403)]
        found = run(github, tmp_path, tracked(1), tracked(2))
        assert (found.looked, [issue.id for issue, _ in found.problems]) == (1, ["VLLM-1"])
        assert f"{REPO}#1" in found.snapshot.threads


class TestTheSnapshot:
    def thread(self, github: GitHub, tmp_path: Path, **fields: Any) -> Snapshot:
        github.date = NOW.timestamp()
        github.issue(1, **fields)
        return run(github, tmp_path, tracked(1)).snapshot

    def test_the_newer_state_counts(self, github: GitHub, tmp_path: Path) -> None:
        snapshot = self.thread(github, tmp_path, state="closed", state_reason="not_planned")
        tracker = as_last_seen(tracked(1), snapshot, TODAY).tracker
        assert (tracker.state, tracker.state_reason, tracker.checked) == ("closed", "not_planned", TODAY)
        newer = {"url": f"{REPO_URL}/issues/1", "state": "open", "checked": str(TODAY + timedelta(days=1))}
        assert as_last_seen(tracked(1, tracker=newer), snapshot, TODAY).tracker.state == "open"

    def test_a_sync_with_a_clock_that_is_ahead_does_not_count(self, github: GitHub, tmp_path: Path) -> None:
        github.date = NOW.timestamp() + 400 * 86400
        github.issue(1, state="closed")
        snapshot = run(github, tmp_path, tracked(1)).snapshot
        assert as_last_seen(tracked(1), snapshot, TODAY).tracker.state == "open"

    def test_a_thread_that_is_gone_leaves_the_records_state(self, github: GitHub, tmp_path: Path) -> None:
        github.gone[f"/repos/{REPO}/issues/1"] = 404
        snapshot = run(github, tmp_path, tracked(1)).snapshot
        assert as_last_seen(tracked(1), snapshot, TODAY) == tracked(1)

    def test_a_reason_that_the_curator_knows_is_kept_where_github_has_none(
        self, github: GitHub, tmp_path: Path
    ) -> None:
        snapshot = self.thread(github, tmp_path, state="closed")
        known = {
            "url": f"{REPO_URL}/issues/1",
            "state": "closed",
            "state_reason": "stale",
            "checked": date(2026, 11, 1).isoformat(),
        }
        assert as_last_seen(tracked(1, tracker=known), snapshot, TODAY).tracker.state_reason == "stale"

    @pytest.mark.parametrize("damage", [b"", b"{", b'{"form": 2}', b'{"form": 1, "threads": {"a": 1}}', b"\xff"])
    def test_a_damaged_snapshot_counts_as_empty(self, tmp_path: Path, damage: bytes) -> None:
        (tmp_path / SNAPSHOT_NAME).write_bytes(damage)
        assert read_snapshot(tmp_path) == Snapshot()
