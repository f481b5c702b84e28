"""Files of recorded prompts: what is read of them, and what is said of those that cannot be used."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regress_gate.bench.load.dataset import Dataset, DatasetFormat, RecordedTexts, open_dataset, read_texts
from regress_gate.errors import InputError

SHAREGPT, CUSTOM = DatasetFormat.SHAREGPT, DatasetFormat.CUSTOM


def turns(*values: object) -> list[dict[str, object]]:
    return [{"from": "human" if place % 2 == 0 else "gpt", "value": value} for place, value in enumerate(values)]


def written(folder: Path, content: object) -> Path:
    """A JSON file of a value, or a file of that text or those bytes."""
    file = folder / "texts.json"
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def texts(format_: DatasetFormat, file: Path) -> RecordedTexts:
    return read_texts(open_dataset(format_, file))


def refusal(format_: DatasetFormat, file: Path) -> str:
    with pytest.raises(InputError) as raised:
        open_dataset(format_, file)
    return str(raised.value).replace(str(file), "FILE")


def test_a_conversation_gives_its_first_two_turns(tmp_path):
    file = written(tmp_path, [{"id": "a", "conversations": turns("one", "two", "three")}])
    assert texts(SHAREGPT, file) == RecordedTexts(hashlib.sha256(file.read_bytes()).hexdigest(), ("one",), ("two",))


@pytest.mark.parametrize(
    "entry",
    [
        {"conversations": turns("alone")},
        {"conversations": turns("with", "a picture"), "image": "a.jpg"},
        {"conversations": turns("with", "a film"), "video": "a.mp4"},
        {"conversations": turns("a number", 3)},
        {"conversations": ["no", "turns"]},
        {"conversations": None},
        {"id": "without"},
        "text",
    ],
)
def test_what_is_no_conversation_of_two_texts_is_passed_over(tmp_path, entry):
    file = written(tmp_path, [entry, {"conversations": turns("one", "two")}])
    assert texts(SHAREGPT, file).prompts == ("one",)
    assert "holds no conversation of two turns; give a file in the format sharegpt" in refusal(
        SHAREGPT, written(tmp_path, [entry])
    )


def test_half_a_character_spoils_its_own_conversation_alone(tmp_path):
    """As for vLLM's client, which reads the file with Python's own reader."""
    spoilt, whole = ({"conversations": turns(text, "two")} for text in ("\ud800", "one"))
    assert texts(SHAREGPT, written(tmp_path, [spoilt, whole])).prompts == ("one",)


def test_a_line_gives_a_prompt_and_the_length_of_its_answer(tmp_path):
    first = '{"prompt": "a\\nb", "output_tokens": 7, "more": 1}\r\n'
    file = written(tmp_path, first + '\n{"prompt": "c"}\n{"prompt": "d", "output_tokens": 9.0}')
    found = texts(CUSTOM, file)
    assert (found.prompts, found.answers) == (("a\nb", "c", "d"), (7, None, 9))


@pytest.mark.parametrize(
    ("format_", "text"), [(CUSTOM, '{"prompt": "a"}'), (SHAREGPT, json.dumps([{"conversations": turns("a", "b")}]))]
)
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path, format_, text):
    file = written(tmp_path, text.encode("utf-8-sig"))
    assert texts(format_, file).prompts == ("a",)
    assert texts(format_, file).sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("format_", "content", "says"),
    [
        (SHAREGPT, "[{", "FILE: is no JSON: "),
        (SHAREGPT, b"\xff\xfe", "FILE: is no JSON: "),
        (SHAREGPT, "", "FILE: is no JSON: "),
        (SHAREGPT, "[" * 5000, "FILE: is no JSON: "),
        (SHAREGPT, '{"conversations": []}', "FILE: is no list of conversations; give"),
        (SHAREGPT, "[]", "FILE: holds no conversation of two turns; give"),
        (CUSTOM, "", "FILE: holds no prompt; give a file in the format custom"),
        (CUSTOM, '{"prompt": "a"}\nnot', "FILE:2: is no JSON: "),
        (CUSTOM, '{"prompt": "a"}\n\n{"text": "b"}', 'FILE:3: has no text as prompt; write {"prompt": '),
        (CUSTOM, '{"prompt": ""}', "FILE:1: has no text as prompt"),
        (CUSTOM, "[1]", "FILE:1: has no text as prompt"),
        (CUSTOM, '{"prompt": "a", "output_tokens": 0}', "FILE:1: output_tokens is 0, not a whole number from 1 to"),
        (CUSTOM, '{"prompt": "a", "output_tokens": 1e9}', "FILE:1: output_tokens is 1000000000, not a whole"),
        (CUSTOM, '{"prompt": "a", "output_tokens": 1.5}', "FILE:1: output_tokens is 1.5, not a whole number"),
        (CUSTOM, '{"prompt": "a", "output_tokens": true}', "FILE:1: output_tokens is True, not a whole number"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(tmp_path, format_, content, says):
    assert refusal(format_, written(tmp_path, content)).startswith(says)


def test_a_file_that_is_not_there_is_named_and_so_is_where_it_is_looked_for(tmp_path):
    said = refusal(SHAREGPT, tmp_path / "none.json")
    assert said.startswith(
        "FILE: cannot be read (No such file or directory); a suite's file is looked for in the folder"
    )
    assert "cannot be read" in refusal(SHAREGPT, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "cannot be read" in refusal(CUSTOM, tmp_path / "pipe")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "large"
    with file.open("wb") as opened:
        opened.truncate(2**31 + 1)
    assert "2,147,483,649 bytes are more than 2,147,483,648" in refusal(CUSTOM, file)


def test_a_file_that_was_changed_is_another(tmp_path):
    file = written(tmp_path, '{"prompt": "a"}')
    dataset = open_dataset(CUSTOM, file)
    assert read_texts(dataset).prompts == ("a",)
    written(tmp_path, '{"prompt": "abc"}')
    with pytest.raises(InputError, match="was changed while it was in use; measure again"):
        read_texts(dataset)


@given(
    entries=st.lists(st.tuples(st.text(min_size=1), st.none() | st.integers(1, 5000)), min_size=1),
    cut=st.integers(0, 200),
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_a_file_that_was_cut_is_read_to_its_beginning_or_refused(tmp_path, entries, cut):
    """Never a prompt that was not in it: JSON lines that are cut in a line are no JSON."""
    lines = [json.dumps({"prompt": prompt, "output_tokens": tokens}) for prompt, tokens in entries]
    whole = "\n".join(lines).encode()
    file = written(tmp_path, whole[: max(0, len(whole) - cut)])
    try:
        found = texts(CUSTOM, file)
    except InputError:
        return
    assert list(zip(found.prompts, found.answers, strict=True)) == entries[: len(found.prompts)]


def test_a_dataset_is_its_format_its_place_and_its_content(tmp_path):
    file = written(tmp_path, '{"prompt": "a"}')
    assert open_dataset(CUSTOM, file) == Dataset(CUSTOM, file, hashlib.sha256(b'{"prompt": "a"}').hexdigest())
