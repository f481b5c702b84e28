"""Findings and looks of the watch."""

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from regress_gate.model.result import Verdict
from regress_gate.model.version import Version
from regress_gate.report.document import Chart
from regress_gate.watch.finding import FindingState, LookSummary, WatchFinding
from tests.factories.results import a_result, a_series

FIRST_DAY = date(2026, 11, 16)
GOOD = Version.parse("0.23.1rc1.dev1301+g1111111aa.cu129")
BAD = Version.parse("0.23.1rc1.dev1403+g4080263bb.cu129")
PINNED = Version.parse("0.23.0")


def a_finding(number: int = 1, **changes: Any) -> WatchFinding:
    finding = WatchFinding(
        key=f"{number:016x}",
        title="output_throughput of chat-c8 is 9 % lower since nightly 2026-11-16 on h100-a",
        testbed="h100-a",
        suite="chat@3",
        first_bad=BAD,
        last_good=GOOD,
        first_seen=FIRST_DAY,
        looks=1,
        series=(a_regression(),),
        known_issues=(),
        bisect_command="regress-gate bisect 0.23.1rc1.dev1301 0.23.1rc1.dev1403 --scenario chat-c8",
        state=FindingState.SEEN,
        charts=(("chat-c8/output_throughput", Chart((512.0, 510.5, 466.0), str(GOOD), str(BAD), marks=(2,))),),
    )
    return replace(finding, **changes)


def a_regression(scenario: str = "chat-c8", name: str = "output_throughput") -> Any:
    return a_series(
        scenario, name, means=(512.0, 466.0), change=0.09, interval=(0.07, 0.11), verdict=Verdict.REGRESSION
    )


def a_look(week: int = 0, *findings: WatchFinding, **changes: Any) -> LookSummary:
    day = FIRST_DAY + timedelta(weeks=week)
    look = LookSummary(
        look=f"{day}-cu129",
        day=day,
        candidate=Version.parse(f"0.23.1rc1.dev{1403 + week}+gabcdef{week:03}.cu129"),
        pinned=PINNED,
        result=a_result(),
        headline="1 regression is followed.",
        alarms=(),
        findings=findings,
    )
    return replace(look, **changes)
