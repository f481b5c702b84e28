"""Which reader a file is for does not depend on what was read before it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.registry import READERS, Recogniser
from regress_gate.measurement.plausibility import RefusalError
from tests.ingest.formats.samples import SAMPLES

BANNER = "============ Serving Benchmark Result ============"
SAME_KIND = {
    type(None): st.none(),
    bool: st.booleans(),
    int: st.integers(-10, 10),
    float: st.floats(-1e9, 1e9),
    str: st.sampled_from(["", "x", BANNER]),
}


def content_of(document):
    return parse_content("result.json", json.dumps(document).encode())


def same_kind(value):
    """Values of a value's type; lists of its elements' types, in the order they have."""
    return st.tuples(*map(same_kind, value)).map(list) if isinstance(value, list) else SAME_KIND[type(value)]


def holds_no_object(value):
    return all(map(holds_no_object, value)) if isinstance(value, list) else not isinstance(value, dict)


def shortened(value):
    """Two elements of every list: drawing more takes long, and readers look only at their types."""
    return [shortened(element) for element in value[:2]] if isinstance(value, list) else value


def outcome(recogniser, document):
    """The reader's name, or why there is none."""
    try:
        reader = recogniser.reader(content_of(document))
    except RefusalError as refusal:
        return str(refusal)
    return reader and reader.name


def plain_samples():
    """Of every format that is an object: its keys and values without nested objects, with short lists."""
    for key, sample in SAMPLES.items():
        documents = parse_content(sample.name, sample.make()).documents
        if len(documents) == 1 and isinstance(documents[0], dict):
            yield pytest.param({k: shortened(v) for k, v in documents[0].items() if holds_no_object(v)}, id=key)


@pytest.mark.parametrize("document", list(plain_samples()))
@given(data=st.data())
def test_the_reader_of_an_object_does_not_depend_on_what_was_read_before(document, data):
    recogniser = Recogniser(READERS)
    outcome(recogniser, document)
    other = data.draw(st.fixed_dictionaries({key: same_kind(value) for key, value in document.items()}))
    assert outcome(recogniser, other) == outcome(Recogniser(READERS), other)


def test_a_text_that_quotes_a_printed_block_is_seen_after_a_file_without_one():
    recogniser = Recogniser(READERS)
    found = [outcome(recogniser, {"log": text}) for text in ("nothing", BANNER)]
    assert found == [None, "vllm-console-json"]


def test_the_kind_of_a_value_counts():
    recogniser = Recogniser(READERS)
    rows = [{"metric": "ttft_mean", "value": 1.0}, {"metric": 3, "value": 1.0}]
    assert [outcome(recogniser, row) for row in rows] == ["long-table", None]


def test_an_object_in_a_list_counts():
    recogniser = Recogniser(READERS)
    rows = [{"models": [1.0]}, {"models": [{"perf_configs": []}]}, {"models": []}]
    assert [outcome(recogniser, row) for row in rows] == [None, "perf-eval", None]
