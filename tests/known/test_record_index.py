"""An index of the records: the same records, as long as it belongs to exactly these files."""

import json
from pathlib import Path
from typing import Any

import pytest

from regress_gate.errors import InputError
from regress_gate.known.records.loading import INDEX_NAME, index_of, load_records
from tests.factories.records import record_data, write


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in (1, 2, 10):
        write(tmp_path, record_data(id=f"VLLM-{number}"))
    return tmp_path


def altered(directory: Path, **changes: Any) -> None:
    """Change what the index says, so that it shows whether it was read."""
    document = json.loads((directory / INDEX_NAME).read_text())
    document["records"][0].update(changes)
    (directory / INDEX_NAME).write_text(json.dumps(document))


def test_it_gives_the_same_records_in_the_same_order(directory: Path) -> None:
    without = load_records(directory)
    (directory / INDEX_NAME).write_text(index_of(directory))
    assert load_records(directory) == without
    altered(directory, summary="The index was read")
    assert load_records(directory)[0].summary == "The index was read"


def test_it_is_ignored_when_a_file_has_changed(directory: Path) -> None:
    (directory / INDEX_NAME).write_text(index_of(directory))
    altered(directory, summary="The index was read")
    write(directory, record_data(id="VLLM-2", severity="low"))
    assert [issue.severity for issue in load_records(directory)] == ["high", "high", "low"]
    assert load_records(directory)[0].summary != "The index was read"


def test_it_is_ignored_when_a_file_is_added_or_gone(directory: Path) -> None:
    (directory / INDEX_NAME).write_text(index_of(directory))
    (directory / "VLLM-1.yaml").unlink()
    assert [issue.id for issue in load_records(directory)] == ["VLLM-10", "VLLM-2"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"digest": 1, "records": 2}'])
def test_what_is_no_index_is_ignored(directory: Path, content: str) -> None:
    (directory / INDEX_NAME).write_text(content)
    assert len(load_records(directory)) == 3


def test_its_data_is_validated(directory: Path) -> None:
    (directory / INDEX_NAME).write_text(index_of(directory))
    altered(directory, severity="severe")
    assert load_records(directory)[0].severity == "high"


def test_none_is_made_of_records_that_cannot_be_used(directory: Path) -> None:
    write(directory, record_data(severity="severe"))
    with pytest.raises(InputError, match="severity"):
        index_of(directory)
