"""A thread that is the causing change: its merge starts the issue."""

from typing import Any

import pytest

from regress_gate.known.matching.versions import fix_status
from regress_gate.model.issue import Status
from regress_gate.model.version import Version
from tests.factories.records import REPO, affected, record

PULL = f"{REPO}/pull/7"


def status(version: str = "0.24.0", **changes: Any) -> tuple[Status, str]:
    issue = record(
        **{
            "kind": "default-change",
            "references": [{"type": "REPORT", "url": PULL}],
            "affected": [affected({"introduced": "0.20.0"})],
            "tracker": {"url": PULL, "state": "merged", "checked": "2026-11-01"},
            **changes,
        }
    )
    return fix_status(issue, Version.parse(version))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"changes": {"introduced_by": [{"pull": 7}]}},
        {"kind": "performance", "changes": {"introduced_by": [{"pull": 7}]}},
        {
            "kind": "removed-flag",
            "references": [{"type": "REPORT", "url": PULL}, {"type": "INTRODUCED", "url": PULL}],
        },
    ],
)
def test_the_merge_of_a_changed_default_is_not_a_fix(changes: dict[str, Any]) -> None:
    found, why = status(**changes)
    assert found is Status.CLOSED_UNFIXED
    assert why == "the thread is the change itself; no revert is known (tracker seen 2026-11-01)"


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "performance"},
        {"changes": {"fixed_by": [{"pull": 7}]}},
        {"references": [{"type": "REPORT", "url": PULL}, {"type": "FIX", "url": PULL}]},
        {"kind": "performance", "changes": {"introduced_by": [{"pull": 7, "repo": "https://github.com/a/b"}]}},
    ],
)
def test_the_merge_of_anything_else_may_be_a_fix_of_which_no_release_is_known(changes: dict[str, Any]) -> None:
    found, why = status(**changes)
    assert found is Status.UNKNOWN
    assert why.startswith("merged, but no fixed release is recorded")


def test_a_reverted_default_is_reverted_and_not_fixed() -> None:
    back = [affected({"introduced": "0.20.0"}, {"fixed": "0.23.0"})]
    assert status(affected=back)[1].startswith("0.24.0 has the recorded revert")
    assert "does not have the recorded revert" in status("0.22.0", affected=back)[1]
    again = [affected({"introduced": "0.18.0"}, {"fixed": "0.20.0"}, {"introduced": "0.22.0"})]
    assert status("0.23.0", affected=again)[1].startswith("reverted earlier, but back in 0.23.0")
