"""The Markdown report: whatever a text contains, the document keeps its shape and GitHub has nothing to act on."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from regress_gate.model.result import Reason, ReasonCode, Result
from regress_gate.report import COMMENT_LIMIT, RenderOptions
from regress_gate.report.render.markdown import escape
from regress_gate.text import one_line
from tests.factories.results import HOSTILE, a_result, a_series, an_issue, crowded, failing, filled_with, render_result

from .strategies import hostile_text

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
OUR_HTML = re.compile(r"<details><summary>[\w :,]+</summary>|</details>")
GITHUB_ACTS_ON = re.compile(
    r"@\w|#\d|GH-\d|(?:https?|ftp|mailto|xmpp):[^\s\u200b]|www\.|:[\w+-]+:|[\u202a-\u202e\u2066-\u2069\x00-\x09\x0b-\x1f\x7f-\x9f]",
    re.IGNORECASE,
)
TRACKER = "https://github.com/vllm-project/vllm/issues/28882"


def tokens(markdown: str) -> list[Token]:
    flat = []
    for token in PARSER.parse(markdown):
        flat += [token, *(token.children or [])]
    return flat


def shape(markdown: str) -> list[str]:
    """The blocks of a document without what stands in them."""
    return [token.type for token in PARSER.parse(markdown)]


def cells(row: str) -> int:
    return len(re.findall(r"(?<!\\)\|", row)) - 1


@example(text="_gone_")
@example(text="a _gone_ b")
@example(text="__gone__")
@example(text="*gone*")
@example(text="~~gone~~")
@given(text=hostile_text)
def test_no_text_becomes_markup(text: str) -> None:
    markdown = render_result(filled_with(text), "markdown", RenderOptions(max_bytes=10**9))
    found = tokens(markdown)
    assert not [token for token in found if token.type in ("image", "html_inline", "link_open", "fence", "code_block")]
    assert not [token for token in found if token.type in ("em_open", "s_open", "hr", "softbreak", "hardbreak")]
    for token in found:
        if token.type == "html_block":
            assert OUR_HTML.fullmatch(token.content.strip())
        if token.type == "text":
            assert not GITHUB_ACTS_ON.search(token.content), ascii(token.content)


@given(text=hostile_text)
def test_no_text_changes_the_shape_of_the_document(text: str) -> None:
    harmless = render_result(filled_with("x"), "markdown", RenderOptions(max_bytes=10**9))
    markdown = render_result(filled_with(f"x{text}"), "markdown", RenderOptions(max_bytes=10**9))
    assert shape(markdown) == shape(harmless)
    tables, expected = (
        [cells(line) for line in one.split("\n") if line.startswith("|")] for one in (markdown, harmless)
    )
    assert tables == expected


@example(text="_gone_")
@example(text="a _gone_ b")
@example(text="__gone__")
@example(text="x _a_b_ y_")
@example(text="*gone*")
@example(text="**gone**")
@example(text="~~gone~~")
@example(text="`gone`")
@given(text=hostile_text)
def test_the_reader_sees_the_text_itself(text: str) -> None:
    paragraph = [token for token in PARSER.parse(escape(text)) if token.type == "inline"]
    assert not [child.type for token in paragraph for child in token.children or [] if child.type != "text"]
    visible = "".join(child.content for token in paragraph for child in token.children or [])
    assert visible.replace("\u200b", "") == one_line(text)


def test_a_thread_is_linked_through_the_host_that_leaves_no_cross_reference() -> None:
    markdown = render_result(a_result(known_issues=[an_issue(url=TRACKER)]), "markdown")
    links = [token.attrs["href"] for token in tokens(markdown) if token.type == "link_open"]
    assert links == ["https://redirect.github.com/vllm-project/vllm/issues/28882"]


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://evil.example/vllm-project/vllm/issues/1",
        TRACKER + ")[x](https://evil.example",
        TRACKER + "\n",
        "https://github.com/vllm-project/vllm/issues/1?x=<b>",
    ],
)
def test_any_other_address_is_text(url: str) -> None:
    markdown = render_result(a_result(known_issues=[an_issue(url=url)]), "markdown")
    assert not [token for token in tokens(markdown) if token.type == "link_open"]


def test_a_flag_can_be_copied_as_it_is() -> None:
    spans = [
        token.content
        for token in tokens(render_result(failing(), "markdown", RenderOptions(verbose=True)))
        if token.type == "code_inline"
    ]
    assert spans[0] == "regress-gate compare 0.19.0 0.20.0 --measure --suite cpu-tiny"
    assert spans[1].startswith("regress-gate bisect 0.19.0 0.20.1 --scenario ")
    assert spans[2:] == [
        "VLLM_MOE_USE_DEEP_GEMM=0",
        "--prefix-caching-hash-algo builtin",
        "--gpu-memory-utilization 0.85",
        "--enforce-eager",
    ]


def _long(text: str) -> Result:
    return a_result(
        advice=text,
        reasons=[Reason(code=ReasonCode.REGRESSION, text=text) for _ in range(300)],
        series=[a_series(f"{text}{number}", notes=[text]) for number in range(300)],
        known_issues=[an_issue(number, summary=text, why=text) for number in range(300)],
        warnings=[text] * 300,
    )


@pytest.mark.parametrize("text", ["@|" * 2000, HOSTILE * 5, "中" * 4000], ids=["references", "hostile", "wide"])
def test_a_comment_never_exceeds_its_limit_and_keeps_what_decides(text: str) -> None:
    markdown = render_result(_long(text), "markdown")
    assert len(markdown.encode()) <= COMMENT_LIMIT
    assert markdown.startswith("## PASS: you may move\n")
    assert "**What to do:** " in markdown
    told = markdown.count("\n- regression: ")
    assert told >= 20
    assert f", {300 - told} reasons" in markdown


@pytest.mark.parametrize("limit", [8_000, 20_000, 40_000, COMMENT_LIMIT])
def test_what_is_left_out_is_said_and_the_decision_stays(limit: int) -> None:
    markdown = render_result(crowded(), "markdown", RenderOptions(max_bytes=limit))
    assert len(markdown.encode()) <= limit
    for text in ("## FAIL: do not move", "**What to do:** Stay on 0.19.0.", "- regression: 4 gated series"):
        assert text in markdown
    left_out = "Left out, too long for this place:" in markdown
    assert left_out == (len(render_result(crowded(), "markdown", RenderOptions(max_bytes=10**9)).encode()) > limit)


def test_nothing_is_left_out_of_a_report_that_fits() -> None:
    assert "Left out" not in render_result(failing(), "markdown")


def test_what_decides_is_open_and_what_reassures_is_folded() -> None:
    markdown = render_result(failing(), "markdown")
    open_part = re.sub(r"<details>.*?</details>", "", markdown, flags=re.DOTALL)
    for shown in ("ttft_p99", "ttft_mean", "/itl_p99 |", "VLLM-28882", "VLLM-30101", "exceeded"):
        assert shown in open_part
    for folded in ("tpot_mean", "e2el_p99", "VLLM-27007", "VLLM-25555"):
        assert folded in markdown
        assert folded not in open_part


def test_an_issue_that_blocks_is_never_folded() -> None:
    changes: dict[str, Any] = {"effect": "carried", "blocks": True}
    markdown = render_result(a_result(known_issues=[an_issue(**changes)]), "markdown")
    assert "**BLOCKS**" in re.sub(r"<details>.*?</details>", "", markdown, flags=re.DOTALL)
