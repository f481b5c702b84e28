"""Loading: which files are records, and the error for each kind of invalid file."""

import subprocess
import sys
from pathlib import Path

import pytest

from regress_gate import paths
from regress_gate.errors import InputError, RegressGateError
from regress_gate.known.records.loading import MAX_BYTES, load_record, load_records
from tests.factories.records import record_data, write


def test_records_are_loaded_in_the_order_of_their_names(tmp_path: Path) -> None:
    for number in ("3", "1", "2"):
        write(tmp_path, record_data(id=f"VLLM-{number}"))
    assert [issue.id for issue in load_records(tmp_path)] == ["VLLM-1", "VLLM-2", "VLLM-3"]


def test_other_files_and_an_editors_hidden_copies_are_no_records(tmp_path: Path) -> None:
    write(tmp_path, record_data())
    (tmp_path / "README.md").write_text("about the records")
    (tmp_path / ".VLLM-1.yaml").write_text("half a rec")
    assert len(load_records(tmp_path)) == 1


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    for severity in ("low", "high", "low"):
        path = write(tmp_path, record_data(severity=severity))
        assert load_record(path).severity == severity


def test_a_file_must_be_named_by_its_id(tmp_path: Path) -> None:
    path = write(tmp_path, record_data(), name="VLLM-2.yaml")
    with pytest.raises(InputError, match=r"VLLM-2.yaml:1: the file is not named by its id VLLM-1; call it VLLM-1.yaml"):
        load_record(path)


def test_a_schema_error_names_file_line_and_the_nearest_key(tmp_path: Path) -> None:
    path = write(tmp_path, {**record_data(), "severty": "high"})
    line = len(path.read_text().splitlines())
    with pytest.raises(InputError) as caught:
        load_records(tmp_path)
    assert str(caught.value) == f"{path}:{line}: unknown key 'severty' (did you mean 'severity'?)"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "the file is empty"),
        (b"- a\n- b\n", "expected keys and values"),
        (b"id: [1, 2\n", "not valid YAML"),
        (b"id: \xff\xfe\n", "not UTF-8 at byte 4"),
        (b"a: &x 1\nb: *x\n", "missing|unknown key|alias"),
        (b"a: !!python/object/apply:os.system [id]\n", "not supported"),
        (b"a: " + b"[" * 3000 + b"]" * 3000, "nested too deeply|not valid YAML"),
        (b"#" * (MAX_BYTES + 1), "larger than 256 KiB"),
    ],
)
def test_files_that_are_no_records_are_refused_in_one_line(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "VLLM-1.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint) as caught:
        load_record(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\u202e", "\u200b", "\x00", "\x9b", "\r"])
def test_text_that_steers_a_terminal_or_hides_is_refused(tmp_path: Path, hidden: str) -> None:
    path = write(tmp_path, record_data(evidence=f"The report{hidden} says so."))
    with pytest.raises(InputError, match=r"hidden character|not valid YAML") as caught:
        load_record(path)
    assert hidden not in str(caught.value)


def test_markup_and_typographic_text_are_plain_text(tmp_path: Path) -> None:
    text = "<script>alert(1)</script> | `x` — 20 % più lento, 速い"
    path = write(tmp_path, record_data(evidence=text))
    assert load_record(path).evidence == text


def test_a_directory_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: cannot list the records"):
        load_records(tmp_path / "nowhere")


def test_an_installed_copy_of_the_data_wins_over_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "regress_gate"
    monkeypatch.setattr(paths, "PACKAGE_DIRECTORY", package)
    with pytest.raises(RegressGateError, match="lacks its known_issues directory"):
        paths.shipped_directory("known_issues")
    (tmp_path / "known_issues").mkdir()
    assert paths.shipped_directory("known_issues") == tmp_path / "known_issues"
    (package / "_data" / "known_issues").mkdir(parents=True)
    assert paths.shipped_directory("known_issues") == package / "_data" / "known_issues"


def test_checking_known_issues_imports_nothing_heavy() -> None:
    heavy = "numpy", "scipy", "pandas", "sqlalchemy", "rich"
    code = (
        "import sys, regress_gate.known.matching.findings, regress_gate.known.records.loading as records;"
        " records.load_records();"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
