"""A measurement shows that an issue is fixed only if the issue would have been visible and was not."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from regress_gate.errors import InputError
from regress_gate.known.tracker.verification import measured_fixed, read_result
from regress_gate.model.issue import Applies, Effect
from regress_gate.model.result import IssueObservation, TestbedOut, VersionSide
from regress_gate.model.version import Version
from tests.factories.results import CREATED, a_result, an_issue

CANDIDATE = Version.parse("0.20.1")
GONE = {
    "effect": Effect.NEW,
    "applies": Applies.YES,
    "measured": IssueObservation.NOT_OBSERVED,
    "measured_why": "TTFT +1 %",
}


def found(build: Version = CANDIDATE, *, issue: dict[str, Any] | None = None, **changes: Any) -> dict[str, str]:
    return measured_fixed([a_result(known_issues=[an_issue(**{**GONE, **(issue or {})})], **changes)], build)


def test_what_was_excluded_in_this_build_is_fixed_in_it() -> None:
    why = "measured on h200-node against 0.19.0: TTFT +1 % (measured 2026-11-21)"
    assert found() == {"VLLM-28882": why}


@pytest.mark.parametrize(
    "issue",
    [
        {"measured": IssueObservation.EXPLAINS},
        {"measured": IssueObservation.UNCLEAR},
        {"measured": IssueObservation.NOT_TESTABLE},
        {"measured": None},
        {"effect": Effect.CARRIED},
        {"effect": Effect.RESOLVED},
        {"applies": Applies.UNKNOWN},
        {"applies": Applies.MITIGATED},
    ],
    ids=str,
)
def test_anything_less_shows_nothing(issue: dict[str, Any]) -> None:
    assert found(issue=issue) == {}


def test_another_build_shows_nothing() -> None:
    assert found(Version.parse("0.20.0")) == {}
    assert found(Version.parse("0.20.1+rocm"), candidate=VersionSide(version="0.20.1", variant="cuda")) == {}


def test_testbeds_that_differ_show_nothing() -> None:
    assert found(testbed=TestbedOut(name="h200-node", comparable=False)) == {}


def test_the_newest_measurement_counts() -> None:
    gone = a_result(known_issues=[an_issue(**GONE)])
    seen = an_issue(**{**GONE, "measured": IssueObservation.EXPLAINS})
    later = a_result(known_issues=[seen], created=CREATED + timedelta(days=1))
    assert measured_fixed([later, gone], CANDIDATE) == {}


def test_a_result_is_read_from_its_json(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(a_result(known_issues=[an_issue(**GONE)]).model_dump_json())
    assert list(measured_fixed([read_result(path)], CANDIDATE)) == ["VLLM-28882"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 100_000])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(InputError, match="is not a result"):
        read_result(path)
