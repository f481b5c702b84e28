"""Causes of regressions and what came of claims, in a line each; objectives in a table."""

import pytest

from regress_gate.model.issue import Applies
from regress_gate.model.metric import Direction
from regress_gate.model.result import (
    AuditEffect,
    AuditFindingOut,
    CauseOut,
    ExplanationOut,
    IssueObservation,
    ObjectiveOut,
    ObjectiveSide,
    ObservedCauseOut,
)
from regress_gate.report import RenderOptions
from regress_gate.report.document import Cell, Detail, Section, Styled, Table
from regress_gate.report.views import issues_view
from regress_gate.report.views.result_view import ResultView
from tests.factories.results import a_cause, a_result, an_issue, render_result


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


def test_what_a_counter_test_explains_is_not_called_unexplained() -> None:
    measured = explanation("a/x", VLLM_1=0.2).model_copy(update={"measured": True})
    assert lines(measured) == []


def lead(*observed: ObservedCauseOut, series: str = "a/peak_memory", verbose: bool = False) -> str:
    """The report of one regression, with these differences between the servers."""
    changed = [
        AuditFindingOut(
            id=one.finding, text=one.text, effect=AuditEffect.NEW, baseline="1", candidate="2", evidence=one.evidence
        )
        for one in observed
    ]
    result = a_result(
        explanations=[ExplanationOut(series=[series], issue=None, observed=list(observed))], audit=changed
    )
    return " ".join(render_result(result, "table", RenderOptions(verbose=verbose, width=100)).split())


def library(name: str, **changes: float) -> ObservedCauseOut:
    text = f"other dependency: {name} 1.0 → 2.0"
    return a_cause(**{"finding": f"library_changed:{name}", "text": text, "weight": 0.067, **changes})


def test_a_dependency_among_others_is_not_called_the_cause() -> None:
    text = lead(library("compressed-tensors"), library("numba"))
    assert "What may have caused it: - a/peak_memory: the cause is not known: 2 dependencies changed (-v lists" in text
    assert "Measure whether" not in text
    assert "unexplained" not in text
    listed = lead(library("compressed-tensors"), library("numba"), verbose=True)
    assert "2 dependencies changed (compressed-tensors 1.0 → 2.0; numba 1.0 → 2.0)" in listed
    assert "1 dependency changed (numba 1.0 → 2.0)" in lead(library("numba"))


def test_changes_that_weigh_the_same_are_all_named() -> None:
    text = lead(a_cause(finding="x", text="X changed", weight=0.2), a_cause(finding="y", text="Y changed", weight=0.2))
    assert "the cause is not known: X changed; Y changed weigh the same" in text
    assert "Measure whether" not in text


@pytest.mark.parametrize(("series", "word"), [("a/ttft_p99", "as slow"), ("a/peak_memory", "as bad")])
def test_what_stands_out_is_named_with_what_would_settle_it(series: str, word: str) -> None:
    text = lead(a_cause(), library("numba"), series=series)
    assert f"{series}: KV cache 18% smaller" in text
    assert f"Measure whether 0.19.0 with --num-gpu-blocks-override 8954 is {word}: regress-gate" in text


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


def objective(**changes: object) -> ObjectiveOut:
    given = {
        "scenario": "c4",
        "metric": "ttft_p99",
        "unit": "s",
        "direction": Direction.LOWER,
        "limit": 0.5,
        "baseline": ObjectiveSide(level=0.4, interval=(0.38, 0.42), runs=5),
        "candidate": ObjectiveSide(level=0.6123, interval=(0.59, 0.64), runs=4),
        "state": "broken",
        "text": "told elsewhere",
    }
    return ObjectiveOut.model_validate(given | changes)


def objective_cells(*objectives: ObjectiveOut) -> list[list[str]]:
    result = a_result(objectives=list(objectives))
    document = ResultView(result).document(Detail(is_page=True))
    section = next(one for one in document.blocks if isinstance(one, Section) and one.title == "Objectives")
    table = next(one for one in section.blocks if isinstance(one, Table))
    cells = [[each if isinstance(each, Cell) else Cell(each) for each in row.cells] for row in table.rows]
    return [[f"{plain(cell.text)} {cell.detail}".strip() for cell in row] for row in cells]


def plain(text: object) -> str:
    return text.text if isinstance(text, Styled) else str(text)


def test_objectives_have_their_limit_and_both_levels_and_those_that_are_broken_come_first() -> None:
    unanswered = ObjectiveSide(level=None, interval=(None, None), runs=3)
    rows = objective_cells(objective(state="kept", scenario="c1"), objective(), objective(candidate=unanswered))
    assert rows[0] == [
        "c4/ttft_p99", "≤ 500.0 ms", "400.0 ms [380.0, 420.0] n=5", "612.3 ms [590.0, 640.0] n=4", "broken",
    ]  # fmt: skip
    assert rows[1][3] == "no answer n=3"
    assert [row[4] for row in rows] == ["broken", "broken", "kept"]
