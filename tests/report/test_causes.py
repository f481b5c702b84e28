"""Causes of regressions and what came of claims, in a line each."""

import pytest

from regress_gate.model.issue import Applies
from regress_gate.model.result import CauseOut, ExplanationOut, IssueObservation
from regress_gate.report.views import issues_view
from tests.factories.results import a_result, an_issue


def explanation(*series: str, issue: str | None = None, **shares: float) -> ExplanationOut:
    expected = [CauseOut(issue=name.replace("_", "-"), probability=share) for name, share in shares.items()]
    return ExplanationOut(series=list(series), issue=issue, causes=expected)


def lines(*explanations: ExplanationOut) -> list[str]:
    return issues_view.cause_lines(a_result(explanations=list(explanations)))


def test_one_line_for_each_issue_that_explains_something() -> None:
    found = lines(
        explanation("a/x", issue="VLLM-1", VLLM_1=0.9),
        explanation("b/x", issue="VLLM-2", VLLM_2=0.8),
        explanation("a/y", "a/z", issue="VLLM-1", VLLM_1=0.7),
    )
    assert found == [
        "a/x, a/y, a/z: explained by VLLM-1, probability 0.70",
        "b/x: explained by VLLM-2, probability 0.80",
    ]


def test_the_unexplained_come_last_with_what_is_nearest() -> None:
    found = lines(explanation("a/x", VLLM_1=0.2, VLLM_2=0.1), explanation("b/x", issue="VLLM-2", VLLM_2=0.8))
    assert found[1] == "a/x: unexplained; nearest VLLM-1 0.20, VLLM-2 0.10"
    assert lines(explanation("a/x")) == ["a/x: unexplained; no known issue comes near"]


def test_issues_that_share_the_blame_are_named_as_that() -> None:
    assert lines(explanation("a/x", VLLM_1=0.45, VLLM_2=0.4)) == ["a/x: made by one of VLLM-1 0.45, VLLM-2 0.40"]


def test_many_series_are_counted() -> None:
    found = lines(explanation(*(f"s{number}/x" for number in range(9)), issue="VLLM-1", VLLM_1=0.9))
    assert found == ["s0/x, s1/x, s2/x and 6 more: explained by VLLM-1, probability 0.90"]


def test_nothing_is_shown_as_certain() -> None:
    assert lines(explanation("a/x", issue="VLLM-1", VLLM_1=0.9999))[0].endswith("probability above 0.99")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"measured": IssueObservation.EXPLAINS, "matched_series": ["a/x"], "score": 0.8},
            "explains a/x (probability 0.80)",
        ),
        (
            {"measured": IssueObservation.NOT_OBSERVED, "measured_why": "less than it claims: a/x"},
            "predicted but not observed: less than it claims: a/x",
        ),
        (
            {"measured": IssueObservation.NOT_TESTABLE, "measured_why": "another model"},
            "not testable with this suite: another model",
        ),
        (
            {"measured": IssueObservation.UNCLEAR, "measured_why": "a/x", "score": 0.3},
            "unclear (probability 0.30): a/x",
        ),
        ({"measured": IssueObservation.UNCLEAR, "measured_why": "a/x"}, "unclear: a/x"),
        ({"measured": IssueObservation.UNCLEAR, "applies": Applies.UNKNOWN}, None),
        ({"measured": IssueObservation.NOT_TESTABLE, "applies": Applies.UNKNOWN}, None),
        ({}, None),
    ],
)
def test_what_came_of_an_issue_is_said_where_it_applies(changes: dict[str, object], expected: str | None) -> None:
    assert issues_view.observation_text(an_issue(**changes)) == expected
