"""How many known issues a check leaves to read, on a sample of the table of benchmarks/check_table.py."""

from pathlib import Path

import pytest

from tests.factories.scripts import load_script

TABLE = load_script("benchmarks/check_table.py")


def test_a_check_leaves_one_issue_to_read_with_the_launch_line_and_two_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path))
    answers = TABLE.answers(range(0, len(TABLE.DEPLOYMENTS), 6))
    assert {one["decision"] for one in answers} <= {"pass", "fail", "inconclusive"}
    assert TABLE.mean_to_read(answers, TABLE.WITH) <= 1
    assert TABLE.mean_to_read(answers, TABLE.WITHOUT) <= 2
