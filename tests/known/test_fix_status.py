"""The status of a fix by the record: its ranges first, then the state of the thread. Closed alone is never fixed."""

import pytest

from regress_gate.known.matching.versions import affects, fix_status
from regress_gate.model.issue import Status
from regress_gate.model.version import Version
from tests.factories.records import REPO, affected, record

UNFIXED = affected({"introduced": "0.20.0"})
FIXED = affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"})
BACK = affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"}, {"introduced": "0.24.0"})
GONE = affected({"introduced": "0.20.0"}, {"last_affected": "0.22.0"})
IN_MAIN = affected({"introduced": "0.20.0"}, commits=({"introduced": "b" * 7}, {"fixed": "a" * 7}))


@pytest.mark.parametrize(
    ("ranges", "state", "reason", "candidate", "status", "why"),
    [
        (UNFIXED, "open", None, "0.21.0", Status.OPEN, "open, no fix known (tracker seen 2026-11-01)"),
        (UNFIXED, "closed", "stale", "0.21.0", Status.CLOSED_UNFIXED, "closed by the inactivity bot, no fix known"),
        (UNFIXED, "closed", "completed", "0.21.0", Status.CLOSED_UNFIXED, "closed as completed, no fix known"),
        (UNFIXED, "closed", "duplicate", "0.21.0", Status.CLOSED_UNFIXED, "closed as a duplicate, no fix known"),
        (UNFIXED, "closed", "not_planned", "0.21.0", Status.CLOSED_UNFIXED, "closed as not planned, no fix known"),
        (UNFIXED, "closed", None, "0.21.0", Status.CLOSED_UNFIXED, "closed for an unknown reason, no fix known"),
        (UNFIXED, "merged", None, "0.21.0", Status.UNKNOWN, "merged, but no fixed release is recorded"),
        (UNFIXED, "unknown", None, "0.21.0", Status.UNKNOWN, "the state of the thread is not known"),
        (FIXED, "open", None, "0.23.0", Status.FIX_IN_CANDIDATE, "0.23.0 has the recorded fix"),
        (FIXED, "closed", "stale", "0.25.0", Status.FIX_IN_CANDIDATE, "0.25.0 has the recorded fix"),
        (FIXED, "closed", "completed", "0.22.0", Status.FIX_NOT_IN_CANDIDATE, "0.22.0 does not have the recorded fix"),
        (FIXED, "open", None, "0.19.0", Status.FIX_NOT_IN_CANDIDATE, "0.19.0 has neither the issue nor the fix"),
        (FIXED, "closed", "completed", "0.23.0rc1", Status.UNKNOWN, "whether 0.23.0rc1 has the fix is not known"),
        (FIXED, "closed", "completed", "commit:ccccccc", Status.UNKNOWN, "whether commit:ccccccc has the fix is not"),
        (BACK, "closed", "completed", "0.23.0", Status.FIX_IN_CANDIDATE, "0.23.0 has the recorded fix"),
        (BACK, "closed", "completed", "0.24.0", Status.FIX_NOT_IN_CANDIDATE, "fixed earlier, but back in 0.24.0"),
        (GONE, "closed", "completed", "0.23.0", Status.CLOSED_UNFIXED, "closed as completed, no fix known"),
        (IN_MAIN, "open", None, "0.21.0", Status.FIX_NOT_IN_CANDIDATE, "0.21.0 does not have the recorded fix"),
        (IN_MAIN, "open", None, f"commit:{'a' * 7}", Status.FIX_IN_CANDIDATE, "commit:aaaaaaa has the recorded fix"),
        (IN_MAIN, "open", None, f"commit:{'b' * 7}", Status.FIX_NOT_IN_CANDIDATE, "does not have the recorded fix"),
    ],
)
def test_the_status_and_its_reason(
    ranges: dict[str, object], state: str, reason: str | None, candidate: str, status: Status, why: str
) -> None:
    tracker = {"url": f"{REPO}/issues/1", "state": state, "state_reason": reason, "checked": "2026-11-01"}
    found, found_why = fix_status(record(affected=[ranges], tracker=tracker), Version.parse(candidate))
    assert found is status
    assert why in found_why


@pytest.mark.parametrize(
    ("page", "kind"), [("blob/v0.24.0/vllm/config/vllm.py#REL-0240-91", "source"), ("releases/tag/v1", "release notes")]
)
def test_a_record_without_a_thread_is_said_to_have_none(page: str, kind: str) -> None:
    tracker = {"url": f"{REPO}/{page}", "state": "unknown", "checked": "2026-11-01"}
    found = fix_status(record(affected=[UNFIXED], tracker=tracker), Version.parse("0.21.0"))
    assert found == (Status.UNKNOWN, f"no thread; read in the published {kind} on 2026-11-01")


@pytest.mark.parametrize("ranges", [UNFIXED, FIXED, BACK, GONE, IN_MAIN])
@pytest.mark.parametrize("state", ["open", "closed", "merged", "unknown"])
@pytest.mark.parametrize("candidate", ["0.19.0", "0.20.0", "0.22.0", "0.23.0", "0.24.0", "0.30.0", "commit:ccccccc"])
def test_no_affected_build_is_called_fixed(ranges: dict[str, object], state: str, candidate: str) -> None:
    tracker = {"url": f"{REPO}/issues/1", "state": state, "checked": "2026-11-01"}
    issue = record(affected=[ranges], tracker=tracker)
    status, why = fix_status(issue, Version.parse(candidate))
    if affects(issue, Version.parse(candidate)) is not False:
        assert status is not Status.FIX_IN_CANDIDATE
    assert "2026-11" in why
