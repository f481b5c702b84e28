"""How much of a file is read at first is a matter of speed alone."""

import gzip
import json

import pytest

from regress_gate.ingest.candidate import Folders, OnDisk
from regress_gate.ingest.content import _SMALL, read_content
from regress_gate.ingest.unpacking import unpacked


def text_of(size):
    """JSON of that many bytes."""
    return json.dumps({"a": "x" * (size - 9)}).encode()


@pytest.mark.parametrize("size", [_SMALL - 1, _SMALL, _SMALL + 1, 3 * _SMALL])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_of_any_size_is_read_to_its_end(tmp_path, size, pack):
    path = tmp_path / "result.json"
    path.write_bytes(pack(text_of(size)))
    place = OnDisk(path, str(tmp_path), Folders())
    content = read_content(path.name, lambda: unpacked(place.open()))
    assert content.documents == (json.loads(text_of(size)),)
