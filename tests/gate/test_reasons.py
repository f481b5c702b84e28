"""What a decision says of issues and waivers: nothing of a record is lost, and the worst use of a waiver is named."""

from datetime import date, timedelta
from typing import Any

import pytest

from regress_gate.gate.reasons import WaiverBook, issue_out, issue_tally
from regress_gate.model.policy import Policy, Waiver
from regress_gate.model.result import Decision, Result
from regress_gate.model.version import Version
from tests.factories.runs import make_finding, side_with
from tests.gate.deciding import decide_sides

TODAY = date(2026, 11, 22)
STEADY = [0.1, 0.101, 0.099, 0.1]
POLICY = Policy(metrics=("ttft_median",))
FIX = {"text": "Choose the backend.", "engine_args": {"moe_backend": "triton"}, "cost": "a tenth of the throughput"}


def waiver(finding: str = "c8/*", *, days: int = 10, cap: float = 0.3) -> Waiver:
    return Waiver(finding=finding, until=TODAY + timedelta(days), max_change=cap, owner="serving", reason="agreed")


def used(*waivers: Waiver, **findings: float) -> list[tuple[str, str]]:
    """State and detail of each waiver after these findings of c8, by metric and largest loss."""
    book = WaiverBook(waivers, TODAY)
    for metric, loss in findings.items():
        book.covers(f"c8/{metric}", loss)
    return [(one.state, one.detail) for one in book.outcome()]


def decided(*findings: Any) -> Result:
    return decide_sides(
        side_with("0.19.0", STEADY), side_with("0.19.1", STEADY[::-1]), policy=POLICY, findings=findings
    )


class TestWaiverBook:
    def test_every_finding_that_it_covers_is_named(self) -> None:
        assert used(waiver(), ttft_median=0.1, tpot_median=0.2) == [
            ("used", "covers c8/ttft_median; covers c8/tpot_median")
        ]

    @pytest.mark.parametrize("losses", [{"a": 0.1, "b": 0.9}, {"b": 0.9, "a": 0.1}])
    def test_one_finding_that_lost_more_makes_it_exceeded_whatever_the_order(self, losses: dict[str, float]) -> None:
        assert used(waiver(), **losses) == [("exceeded", "c8/b may have lost 90.0%, more than the 30.0% waived")]

    def test_a_loss_of_exactly_the_cap_is_covered(self) -> None:
        assert WaiverBook([waiver()], TODAY).covers("c8/a", 0.3)
        assert not WaiverBook([waiver()], TODAY).covers("c8/a", 0.3001)

    def test_an_expired_one_says_since_when_and_holds_nothing(self) -> None:
        gone = waiver(days=-1)
        assert not WaiverBook([gone], TODAY).covers("c8/a", 0.1)
        assert used(gone, a=0.1) == [("expired", "ended on 2026-11-21; c8/a counts again")]
        assert used(gone) == [("unused", "expired on 2026-11-21, and nothing needs it")]
        assert used(waiver()) == [("unused", "nothing needs it")]

    def test_of_several_one_that_holds_is_enough(self) -> None:
        assert WaiverBook([waiver(cap=0.05), waiver("c8/a")], TODAY).covers("c8/a", 0.1)
        assert not WaiverBook([waiver("c64/*")], TODAY).covers("c8/a", 0.1)

    def test_a_known_issue_has_no_size_that_a_cap_could_exceed(self) -> None:
        assert WaiverBook([waiver("VLLM-1", cap=0.01)], TODAY).covers("VLLM-1", None)


class TestIssues:
    def test_a_workaround_keeps_its_settings_and_its_cost(self) -> None:
        (fix,) = issue_out(make_finding(workarounds=[FIX]), blocks=True).workarounds
        assert (fix.text, fix.engine_args, fix.env, fix.cost) == (FIX["text"], FIX["engine_args"], {}, FIX["cost"])

    @pytest.mark.parametrize(("applies", "blocks"), [("yes", True), ("unknown", False), ("no", False)])
    def test_only_an_issue_that_applies_can_block(self, applies: str, blocks: bool) -> None:
        assert issue_out(make_finding(applies=applies), blocks=True).blocks is blocks

    def test_the_advice_names_issues_that_have_a_workaround(self) -> None:
        with_fix = decided(make_finding(workarounds=[FIX]), make_finding("VLLM-2"))
        assert with_fix.decision is Decision.FAIL
        assert with_fix.advice.endswith("; a workaround is known for VLLM-1.")
        assert decided(make_finding()).advice == "Stay on 0.19.0: blocked by VLLM-1."

    def test_a_pass_says_what_was_shown(self) -> None:
        result = decided()
        assert result.advice.startswith("You may move to 0.19.1: every gated series was shown to be within its margin")

    def test_a_pass_counts_the_issues_as_the_report_below_it(self) -> None:
        result = decided(
            make_finding(severity="medium"),
            make_finding("VLLM-2", applies="unknown"),
            make_finding("VLLM-3", applies="unknown", effect="resolved"),
        )
        assert result.advice.endswith("; read the known issues (1 applies, 2 may apply (1 resolved)).")
        assert issue_tally(result.known_issues) == "1 applies, 2 may apply (1 resolved)"
        left_behind = decided(make_finding(effect="resolved"))
        assert left_behind.advice.endswith("within its margin.")


def test_both_sides_say_where_their_runs_came_from() -> None:
    result = decided()
    assert (result.baseline.origin, result.candidate.origin) == ("store", "store")
    assert (result.baseline.runs, result.candidate.runs) == (4, 4)
    assert Version.parse(result.candidate.version) == Version.parse("0.19.1")
