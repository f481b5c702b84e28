"""Workflow commands: ten annotations, the worst first, and no text that is a command of its own, in any format."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from regress_gate.model.issue import Severity
from regress_gate.model.result import Reason, ReasonCode, Verdict
from regress_gate.report import OF_A_VERDICT, RenderOptions, format_names, print_view, render
from regress_gate.report.document import View
from regress_gate.report.render.github import command
from regress_gate.report.views.result_view import ResultView
from regress_gate.text import one_line, without_workflow_commands
from tests.factories.findings import VIEWS_WITH_FINDINGS, a_deployed_result, views_filled_with
from tests.factories.results import a_result, a_series, an_issue, crowded, failing

from .actions_runner import KNOWN, Command, commands_in
from .golden import golden
from .strategies import hostile_text

ANNOTATIONS = {"error", "warning", "notice"}


def annotations(view: View) -> list[Command]:
    text = render(view, "github")
    found = commands_in(text)
    assert len(found) == len(text.splitlines()), "each line is a command"
    return found


@pytest.mark.parametrize("build", VIEWS_WITH_FINDINGS.values(), ids=VIEWS_WITH_FINDINGS)
def test_at_most_ten_annotations_errors_first_and_one_notice_at_the_end(build: Callable[[], View]) -> None:
    found = [one.name for one in annotations(build())]
    assert len(found) <= 10
    assert found[-1] == "notice"
    assert found[:-1] == sorted(found[:-1], key=["error", "warning"].index)


@pytest.mark.parametrize("kind", VIEWS_WITH_FINDINGS)
def test_github(kind: str, snapshot: SnapshotAssertion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert render(VIEWS_WITH_FINDINGS[kind](), "github") == golden(snapshot, "txt")


def test_the_worst_of_many_is_shown_and_the_rest_is_counted() -> None:
    mild = [an_issue(number, severity=Severity.MEDIUM) for number in range(50)]
    worst = an_issue(99_999, blocks=True, severity=Severity.CRITICAL)
    found = annotations(ResultView(crowded().model_copy(update={"known_issues": [*mild, worst]})))
    assert found[0].properties["title"] == "A series is worse"
    assert found[1].properties["title"] == "VLLM-99999 blocks"
    assert "more findings in the summary" in found[-1].text


def test_of_many_regressions_the_largest_share_of_a_margin_comes_first() -> None:
    sizes = {"small": 0.06, "largest": 0.9, "large": 0.5}
    series = [a_series(name, change=size, verdict=Verdict.REGRESSION) for name, size in sizes.items()]
    series.append(a_series("unknown", change=None, interval=None, verdict=Verdict.REGRESSION))
    reasons = [Reason(code=ReasonCode.REGRESSION, text="worse", series=one.name) for one in series]
    titles = [one.properties["title"] for one in annotations(ResultView(a_result(series=series, reasons=reasons)))]
    order = [title.partition(": ")[2].partition("/")[0] for title in titles[:-1]]
    assert order == ["unknown", "largest", "large", "small"]


def test_an_annotation_stands_at_the_line_that_pins_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    first, *_, last = annotations(a_deployed_result("my,files:1/compose.yaml:7"))
    assert (first.properties["file"], first.properties["line"]) == ("my,files:1/compose.yaml", "7")
    assert "file" not in last.properties


def test_what_is_waived_has_no_annotation() -> None:
    reason = Reason(code=ReasonCode.WAIVED, text="VLLM-28882", issue="VLLM-28882")
    waiver = failing().waivers[0].model_copy(update={"state": "used", "finding": "VLLM-28882"})
    found = annotations(ResultView(a_result(known_issues=[an_issue()], reasons=[reason], waivers=[waiver])))
    assert [one.name for one in found] == ["notice"]


@example(text="50 % of a, b: c\nd\r\ne %0A")
@given(text=hostile_text)
def test_a_command_is_read_as_it_was_written(text: str) -> None:
    (read,) = commands_in(command("error", f"x{text}\ny", title=text, file=f"a{text}"))
    assert read.name == "error"
    assert read.properties["file"] == one_line(f"a{text}")
    assert read.properties.get("title", "") == one_line(text)
    assert read.text.split("\n")[-1] == "y"


LINES = [name for name in format_names(*OF_A_VERDICT) if name != "html"]
"""Of a page no line begins with a text, and it takes its time."""


def printed(view: View, name: str, encoding: str) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    print_view(view, name, stream=stream)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]


def check_commands(view: View, name: str, encoding: str) -> None:
    found = commands_in(printed(view, name, encoding))
    assert {one.name for one in found} <= (ANNOTATIONS if name == "github" else set()), (name, found)
    assert len(found) <= 10


@given(text=hostile_text, name=st.sampled_from(LINES), encoding=st.sampled_from(["utf-8", "ascii"]))
def test_no_text_starts_a_command_of_its_own(text: str, name: str, encoding: str) -> None:
    """Whatever the format and the encoding of the log: only the annotations of the format github are commands."""
    for view in views_filled_with(text):
        check_commands(view, name, encoding)


@pytest.mark.parametrize("name", format_names(*OF_A_VERDICT))
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_command_hides_in_any_text(name: str, encoding: str) -> None:
    attacks = "::set-output name=a::b\n::error::x\r::add-mask::y ##[set-output name=decision]pass ##[stop-commands]x"
    for text in (attacks, "##[add-mask]fail", "::stop-commands::x", "：：error：：x", "＃＃［error］x"):
        for view in views_filled_with(text):
            check_commands(view, name, encoding)


@pytest.mark.parametrize("known", sorted(KNOWN))
def test_the_attacks_that_the_runner_would_obey_are_parted(known: str) -> None:
    for attack in (f"::{known} name=x::y", f" \t::{known}::y", f"table ##[{known} name=x]y", f"a\n::{known}::y"):
        assert commands_in(attack)
        assert not commands_in(without_workflow_commands(attack))


def test_other_text_stays_as_it_is() -> None:
    for text in ("std::vector and a::b", "## heading [link]", ": :", "#[x]", "::before { color: red }"):
        assert without_workflow_commands(text) == text


def test_json_with_an_attack_is_the_same_json() -> None:
    text = "##[set-output name=decision]pass"
    printed = render(ResultView(a_result(advice=text)), "json", RenderOptions())
    assert json.loads(printed)["advice"] == text
    assert not commands_in(printed)
