"""Stored answers come back as they were, and nothing else is taken for them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.model.run import Answer, Outputs

NAMES = st.lists(st.text(max_size=5), max_size=4).map(tuple)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.lists(st.none() | FINITE, max_size=4).map(tuple)
LIKELIEST = st.lists(st.dictionaries(st.text(max_size=5), FINITE, max_size=3), max_size=3).map(tuple)
ANSWERS = st.builds(Answer, st.text(max_size=5), NAMES, NUMBERS, NUMBERS, NAMES, LIKELIEST, st.none() | st.text())


@given(st.builds(Outputs, st.text(max_size=8), st.lists(ANSWERS, max_size=3).map(tuple)))
def test_outputs_come_back_from_their_document(outputs):
    assert Outputs.from_document(json.loads(json.dumps(outputs.as_document(), allow_nan=False))) == outputs


def test_what_an_answer_does_not_have_is_not_written():
    document = Outputs("sanity@1", (Answer("p1", ("7",), (-0.5,)),)).as_document()
    assert document["answers"] == [{"prompt": "p1", "tokens": ["7"], "logprobs": [-0.5], "prompt_logprobs": []}]


@pytest.mark.parametrize(
    "change",
    [
        {"logprobs": [float("nan")]},
        {"logprobs": [float("-inf")]},
        {"logprobs": ["much"]},
        {"logprobs": [[]]},
        {"logprobs": None},
        {"tokens": 5},
        {"alternatives": [["a"]]},
        {"alternatives": [{"a": None}]},
    ],
)
def test_an_invalid_document_is_refused(change):
    answer = {"prompt": "p1", "tokens": ["7"], "logprobs": [-0.5], "prompt_logprobs": [], **change}
    with pytest.raises((KeyError, TypeError, ValueError)):
        Outputs.from_document({"prompt_set": "sanity@1", "answers": [answer]})


@pytest.mark.parametrize("document", [{}, {"prompt_set": "s@1"}, {"prompt_set": "s@1", "answers": ["p1"]}])
def test_a_document_without_answers_is_refused(document):
    with pytest.raises((KeyError, TypeError, ValueError)):
        Outputs.from_document(document)
