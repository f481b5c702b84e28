"""A draft from a thread's address: loads nowhere and lints nowhere until a person has filled it in."""

from datetime import date
from pathlib import Path

import pytest

from regress_gate.errors import InputError
from regress_gate.known.records.curation import draft_id, draft_record, lint_records

TODAY = date(2026, 11, 21)
URL = "https://github.com/vllm-project/vllm/issues/28882"


@pytest.mark.parametrize(
    ("url", "id_"),
    [
        (URL, "VLLM-28882"),
        (f"{URL}#issuecomment-1", "VLLM-28882"),
        ("https://github.com/vllm-project/vllm/pull/44220/files", "VLLM-44220"),
        ("https://github.com/ROCm/aiter/issues/3909", "AITER-3909"),
        ("https://github.com/vllm-project/vllm-ascend/issues/4649?x=1", "VLLM-ASCEND-4649"),
        ("https://github.com/somebody/3d.x/issues/1", "X-3D-X-1"),
    ],
)
def test_the_id_is_the_threads(url: str, id_: str) -> None:
    assert draft_id(url) == id_


@pytest.mark.parametrize(
    "url",
    ["", "28882", "http://github.com/a/b/issues/1", "https://github.com/a/b", f"{URL}x", "https://evil/a/b/issues/1"],
)
def test_what_is_no_thread_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="is not a thread on GitHub"):
        draft_record(url, today=TODAY)


def test_lint_refuses_it_until_the_marks_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "VLLM-28882.yaml"
    text = draft_record(URL, today=TODAY)
    path.write_text(text)
    assert any("'TODO' is not a vLLM version" in one.what for one in lint_records(tmp_path, today=TODAY))
    path.write_text(text.replace('introduced: "TODO"', 'introduced: "0.11.1"'))
    marks = [one for one in lint_records(tmp_path, today=TODAY) if "still has a TODO" in one.what]
    assert {one.severity for one in marks} == {"error"}
    assert [one.what.split()[0] for one in marks] == ["summary", "accelerator", "model", "evidence"]
    path.write_text(text.replace("TODO", "0.11.1"))
    assert [str(one) for one in lint_records(tmp_path, today=TODAY)] == []
