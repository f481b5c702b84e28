"""Long lists in large JSON stay text until they are read, and have the same values then."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.ingest import deferred, parsing
from regress_gate.ingest.deferred import DeferredList
from regress_gate.measurement.plausibility import RefusalError

TEXTS = st.text('ab"\\\\,:[]{}NI\\n üé😀', max_size=12)
LEAVES = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    LEAVES | TEXTS,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=150,
)


@pytest.fixture
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deferred, "PIECE", 16)
        patch.setattr(deferred, "MAX_PART", 100)
        yield


def read(value: Any) -> Any:
    """The value with every deferred list parsed."""
    if isinstance(value, dict):
        return {key: read(each) for key, each in value.items()}
    if isinstance(value, list | DeferredList):
        return [read(each) for each in value]
    return value


def parsed(data: bytes) -> tuple[Any, list[DeferredList]]:
    rest, lists, mark = deferred.defer_lists(data, deferred.scan(data))
    return deferred.with_lists(json.loads(rest), lists, mark), lists


@pytest.mark.usefixtures("small_pieces")
class TestAnyDocument:
    @given(value=VALUES, indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
    def test_has_the_same_values(self, value: Any, indent: int | None, ascii_only: bool) -> None:
        data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
        document, lists = parsed(data)
        assert deferred.scan(data).is_whole
        assert read(document) == value
        for one in lists:
            whole = list(one)
            assert len(one) == len(whole) > 0
            assert [one[place] for place in range(len(one))] == whole
            assert (one[-1], one[:3], one[-2:]) == (whole[-1], whole[:3], whole[-2:])

    @given(value=VALUES, width=st.sampled_from([1, 2, 7, 64, 1000]))
    def test_has_the_same_signs_however_it_is_cut(self, value: Any, width: int) -> None:
        data = json.dumps(value, ensure_ascii=False).encode()
        expected = deferred.scan(data).signs
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(deferred, "PIECE", width)
            assert deferred.scan(data).signs == expected

    @given(data=st.binary(max_size=200) | st.text('[]{},:"\\\\ 1a\\n', max_size=200).map(str.encode))
    def test_bytes_that_are_no_json_never_become_values(self, data: bytes) -> None:
        try:
            expected = json.loads(data)
        except ValueError:
            expected = None
        scanned = deferred.scan(data)
        rest, lists, mark = deferred.defer_lists(data, scanned)
        try:
            found = read(deferred.with_lists(json.loads(rest), lists, mark))
        except (ValueError, RefusalError):
            found = None
        assert found == expected


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("text", ["[1,2,3,,5,6,7,8,9,10]", "[1,2,3,4,5,6,7,8,9,10,]", "[1,2,3,4 5,6,7,8,9,10,11]"])
def test_a_broken_list_is_refused_when_it_is_read(text: str) -> None:
    document, lists = parsed(text.encode())
    assert len(lists) == 1
    with pytest.raises(RefusalError, match="not valid JSON in the list that goes on at line 1: make the result again"):
        list(document)


def test_an_element_that_is_longer_than_a_part_keeps_its_own_list() -> None:
    value = {"runs": [{"requests": [{"ttft": number / 7} for number in range(90_000)]} for _ in range(3)]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deferred, "MAX_PART", deferred.PIECE + 1000)
        document, lists = parsed(json.dumps(value).encode())
    assert [len(one) for one in lists] == [90_000] * 3
    assert isinstance(document["runs"], list)
    assert document["runs"][1]["requests"] is lists[1]
    assert read(document) == value


class TestLargeFiles:
    @pytest.fixture(autouse=True)
    def _no_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(parsing, "FREE_MEMORY", 0)

    def requests(self) -> list[dict[str, Any]]:
        return [{"a": number / 7, "b": None, "c": {"d": [number]}, "text": "ü"} for number in range(30_000)]

    def test_lists_of_small_objects_are_deferred(self) -> None:
        value = {"metadata": {"version": 2}, "requests": self.requests()}
        (document,) = parsing.parse_json(json.dumps(value).encode()).documents
        assert isinstance(document["requests"], DeferredList)
        assert read(document) == value

    def test_prose_is_parsed_at_once(self) -> None:
        prose = json.dumps(['he said: "[{a, b}, {c: d}]\\" and ' * 40] * 3000).encode()
        (document,) = parsing.parse_json(prose).documents
        assert isinstance(document, list)

    def test_nan_is_named_with_its_place(self) -> None:
        data = json.dumps({"requests": self.requests()}, indent=0).encode().replace(b"null", b"NaN", 1)
        held = parsing.parse_json(data)
        assert held.constant == 'NaN is not a number (line 5, column 6 after "b")'
        assert repr(held.documents[0]["requests"][0]["b"]) == "nan"

    def test_what_is_cut_off_is_refused(self) -> None:
        data = json.dumps({"requests": self.requests()}).encode()
        with pytest.raises(parsing.LargeJsonError, match="the JSON is cut off"):
            parsing.parse_json(data[:-10])
        with pytest.raises(parsing.LargeJsonError, match="cut off or changed"):
            parsing.parse_json(data.replace(b'{"requests"', b'{"requests'))
        with pytest.raises(parsing.NotJsonError, match="not valid JSON: Expecting ':' delimiter"):
            parsing.parse_json(data.replace(b'{"requests":', b'{"requests"'))

    def test_an_object_of_many_small_objects_is_refused(self) -> None:
        data = json.dumps({f"request {number}": {"a": number, "b": None} for number in range(60_000)}).encode()
        with pytest.raises(parsing.LargeJsonError, match="values would need more than"):
            parsing.parse_json(data)
