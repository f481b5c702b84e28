"""How much of a file is read at first is a matter of speed alone."""

import gzip
import json

import pytest

from regress_gate.files import open_regular
from regress_gate.ingest.content import parse_content, read_content
from regress_gate.ingest.unpacking import SMALL, read_small, unpacked


def text_of(size):
    """JSON of that many bytes."""
    return json.dumps({"a": "x" * (size - 9)}).encode()


@pytest.mark.parametrize("size", [SMALL - 1, SMALL, SMALL + 1, 3 * SMALL])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_of_any_size_is_read_to_its_end(tmp_path, size, pack):
    path = tmp_path / "result.json"
    path.write_bytes(pack(text_of(size)))
    content = read_content(path.name, lambda: unpacked(open_regular(path)))
    assert content.documents == (json.loads(text_of(size)),)


@pytest.mark.parametrize("size", [9, 100, SMALL - 1])
def test_a_small_file_is_read_at_once_to_the_same(tmp_path, size):
    path = tmp_path / "result.json"
    path.write_bytes(text_of(size))
    at_once = read_small(str(path))
    assert at_once == text_of(size)
    parsed, whole = parse_content(path.name, at_once), read_content(path.name, lambda: open_regular(path))
    assert (parsed.sha256, parsed.documents) == (whole.sha256, whole.documents)


def test_what_is_packed_large_or_no_file_is_not_read_at_once(tmp_path):
    path = tmp_path / "result.json"
    path.write_bytes(gzip.compress(text_of(100)))
    assert read_small(str(path)) is None
    path.write_bytes(text_of(SMALL))
    assert read_small(str(path)) is None
    with pytest.raises(OSError, match="not a regular file"):
        read_small("/dev/zero")
