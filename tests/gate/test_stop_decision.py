"""Whether a plan stops after some of its blocks."""

from typing import Any

import pytest

from regress_gate.gate.early_stopping import StopDecision, decide_stop
from regress_gate.model.result import Reason, ReasonCode, Result, SeriesResult, Verdict
from tests.factories.results import a_result, a_series

OPEN = Reason(code=ReasonCode.UNDECIDED, text="some are undecided")


def within(number: int = 1, **more: Any) -> SeriesResult:
    return a_series(f"c{number}", **more)


def undecided(number: int = 1, *, interval: tuple[float, float] = (-0.1, 0.2), **more: Any) -> SeriesResult:
    return a_series(f"c{number}", interval=interval, verdict=Verdict.UNDECIDED, **more)


def regressed(*names: str) -> list[Reason]:
    return [Reason(code=ReasonCode.REGRESSION, text=f"{name} lost 9 %", series=name) for name in names]


def seen(*series: SeriesResult, reasons: list[Reason] | None = None, made: int = 3, most: int = 8) -> StopDecision:
    result: Result = a_result(series=list(series), reasons=reasons or [])
    return decide_stop(result, made=made, most=most)


class TestAnAnswer:
    def test_a_regression_stands_whatever_the_other_series_are(self) -> None:
        found = seen(within(1), undecided(2), reasons=[*regressed("c3/tpot_median"), OPEN])
        assert found == StopDecision(True, "c3/tpot_median is worse")

    def test_a_few_regressions_are_named_and_the_others_are_counted(self) -> None:
        assert seen(reasons=regressed("a/x", "b/x")).text == "a/x, b/x are worse"
        assert seen(reasons=regressed("a/x", "b/x", "c/x", "d/x", "e/x")).text == "a/x, b/x, c/x and 2 more are worse"

    def test_a_scenario_that_serves_nothing_any_more_stands_too(self) -> None:
        dead = Reason(code=ReasonCode.REGRESSION, text="2 of 2 trials of c8 completed no request on the candidate")
        assert seen(undecided(), reasons=[dead, OPEN]) == StopDecision(True, dead.text)

    def test_a_pass_of_all_gated_series_stands(self) -> None:
        described = undecided(9, gated=False)
        assert seen(*(within(n) for n in range(38)), described) == StopDecision(
            True, "all 38 gated series are within their margins"
        )
        assert seen(within()).text == "the only gated series is within its margin"

    def test_what_is_waived_is_no_question_any_more(self) -> None:
        waived = Reason(code=ReasonCode.WAIVED, text="c2/ttft_p99 lost 9 %", series="c2/ttft_p99")
        assert seen(within(1), undecided(2), reasons=[waived]) == StopDecision(
            True, "all 2 gated series are within their margins or waived (1)"
        )

    @pytest.mark.parametrize("code", [ReasonCode.KNOWN_ISSUE, ReasonCode.FLAG_REMOVED, ReasonCode.SERVER_FAILED])
    def test_what_no_measurement_can_change_ends_nothing(self, code: ReasonCode) -> None:
        """The gate fails anyway; who measures wants to know about the speed, too."""
        found = seen(within(1), undecided(2), reasons=[Reason(code=code, text="it fails anyway"), OPEN])
        assert found == StopDecision(False, "1 of 2 gated series undecided")


class TestNoAnswerYet:
    def test_undecided_series_are_counted(self) -> None:
        found = seen(*(within(n) for n in range(26)), *(undecided(n) for n in range(30, 42)), reasons=[OPEN])
        assert found == StopDecision(False, "12 of 38 gated series undecided")

    def test_waived_ones_are_not_among_them(self) -> None:
        waived = Reason(code=ReasonCode.WAIVED, text="c2/ttft_p99 lost 9 %", series="c2/ttft_p99")
        assert seen(undecided(1), undecided(2), reasons=[waived, OPEN]).text == "1 of 2 gated series undecided"

    @pytest.mark.parametrize("code", [ReasonCode.INCOMPARABLE, ReasonCode.MISSING_SERIES, ReasonCode.NO_GATED_SERIES])
    def test_where_something_else_keeps_it_from_passing_the_plan_is_carried_out(self, code: ReasonCode) -> None:
        """Another block may mend it: a side that was disturbed, a first start whose time is kept apart."""
        assert seen(within(), reasons=[Reason(code=code, text="one side was disturbed")]) == StopDecision(
            False, "one side was disturbed"
        )

    def test_when_more_blocks_would_not_decide_they_are_not_made(self) -> None:
        found = seen(within(1), undecided(2, interval=(-0.9, 3.0), change=0.01), reasons=[OPEN])
        assert found.stops
        assert found.text.startswith("c2/ttft_p99 cannot be shown within its margin with 8 blocks")

    def test_a_waived_series_is_not_waited_for(self) -> None:
        waived = Reason(code=ReasonCode.WAIVED, text="c2/ttft_p99 lost 9 %", series="c2/ttft_p99")
        hopeless = undecided(2, interval=(-0.9, 3.0), change=0.01)
        assert not seen(undecided(1), hopeless, reasons=[waived, OPEN]).stops

    def test_with_no_block_left_nothing_is_predicted(self) -> None:
        assert not seen(undecided(2, interval=(-0.9, 3.0), change=0.01), reasons=[OPEN], made=8).stops
