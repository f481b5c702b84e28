"""Files of recorded traffic: what is read of them, and what is said of those that cannot be used."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from regress_gate.bench.load import trace as traces
from regress_gate.bench.load.trace import Trace, TraceFormat, open_trace, trace_facts
from regress_gate.errors import InputError
from regress_gate.model.suite import RecordedTrace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def written(folder: Path, content: str | bytes | Iterable[dict[str, Any]]) -> Path:
    """A file of that text or those bytes, or of JSON lines."""
    file = folder / "traffic"
    if not isinstance(content, str | bytes):
        content = "".join(json.dumps(entry) + "\n" for entry in content)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def opened(file: Path, requests: int, *, warmup: int = 0, **more: Any) -> Trace:
    return open_trace(RecordedTrace(file=str(file), **more), warmup=warmup, requests=requests)


def refusal(file: Path, requests: int = 2, **more: Any) -> str:
    with pytest.raises(InputError) as raised:
        opened(file, requests, **more)
    return str(raised.value).replace(str(file), "FILE")


def own(*times: float, prompt: int = 8, answer: int = 4) -> list[dict[str, Any]]:
    return [{"time": time, "input_tokens": prompt, "output_tokens": answer} for time in times]


def hashed(*requests: tuple[float, int, list[int]]) -> list[dict[str, Any]]:
    return [
        {"timestamp": time, "input_length": length, "output_length": 7, "hash_ids": ids}
        for time, length, ids in requests
    ]


def test_own_lines_give_seconds_and_lengths_relative_to_the_first_measured_request(tmp_path):
    file = written(tmp_path, [*own(100.0, 101.0), *own(103.5, prompt=9, answer=5)])
    found = opened(file, 3)
    assert (found.format, found.warmup) == (TraceFormat.REGRESS_GATE, 0)
    assert found.measured_times.tolist() == [0.0, 1.0, 3.5]
    assert (found.input_tokens.tolist(), found.output_tokens.tolist()) == ([8, 8, 9], [4, 4, 5])
    later = opened(file, 2, warmup=1)
    assert (later.warmup, later.measured_times.tolist()) == (1, [0.0, 2.5])


def test_times_are_scaled(tmp_path):
    file = written(tmp_path, own(0.0, 1.0, 3.0))
    assert opened(file, 3, scale=0.5).measured_times.tolist() == [0.0, 0.5, 1.5]


def test_a_line_may_hold_the_prompt_itself(tmp_path):
    file = written(tmp_path, [{"time": 0, "prompt": "Say hello", "output_tokens": 3}, *own(1.0)])
    found = opened(file, 2)
    assert (found.texts, found.input_tokens.tolist()) == (("Say hello", None), [0, 8])
    assert trace_facts(found).input_tokens is None


def test_mooncakes_times_are_milliseconds_and_its_blocks_512_tokens(tmp_path):
    file = written(tmp_path, hashed((0, 1000, [0, 1]), (3052, 600, [0, 2])))
    found = opened(file, 2)
    assert found.format is TraceFormat.MOONCAKE
    assert found.measured_times.tolist() == [0.0, 3.052]
    assert (found.block_tokens, found.blocks_of(0), found.blocks_of(1)) == (512, [0, 1], [0, 2])


def test_vllms_times_are_seconds_and_its_blocks_16_tokens(tmp_path):
    file = written(tmp_path, hashed((0, 33, [0, 1, 2]), (61.25, 16, [0])))
    found = opened(file, 2)
    assert (found.format, found.block_tokens) == (TraceFormat.VLLM, 16)
    assert found.measured_times.tolist() == [0.0, 61.25]


def test_blocks_may_have_another_size(tmp_path):
    file = written(tmp_path, hashed((0, 100, [5, 2**64 - 1]), (1, 64, [5])))
    found = opened(file, 2, format="vllm", block_tokens=64)
    assert (found.block_tokens, found.blocks_of(0)) == (64, [5, 2**64 - 1])
    assert "say which `format` it is" in refusal(file, block_tokens=64)


def test_azures_table_gives_moments_and_token_counts(tmp_path):
    text = AZURE + "2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:05.2299600,110,27\n"
    found = opened(written(tmp_path, text), 2)
    assert found.format is TraceFormat.AZURE
    assert found.measured_times.tolist() == pytest.approx([0.0, 1.25])
    assert (found.input_tokens.tolist(), found.output_tokens.tolist()) == ([4808, 110], [10, 27])


def test_azures_columns_may_have_another_order_and_moments_a_time_zone(tmp_path):
    text = (
        "GeneratedTokens,ContextTokens,TIMESTAMP\r\n7,50,2024-05-10 00:00:00.5+00:00\r\n8,51,2024-05-10 02:00:01+02:00"
    )
    found = opened(written(tmp_path, text), 2)
    assert found.measured_times.tolist() == pytest.approx([0.0, 0.5])
    assert found.output_tokens.tolist() == [7, 8]


def test_what_follows_the_last_needed_request_is_not_read(tmp_path):
    file = written(tmp_path, json.dumps(own(1.0)[0]) + "\n" + "garbage\n" * 10)
    assert len(opened(file, 1).times) == 1


def test_a_byte_order_mark_and_blank_lines_are_nothing(tmp_path):
    file = written(tmp_path, b"\xef\xbb\xbf\n\n" + json.dumps(own(1.0)[0]).encode() + b"\n\n")
    assert opened(file, 1).format is TraceFormat.REGRESS_GATE


@pytest.mark.parametrize(
    ("content", "more", "says"),
    [
        ("", {}, "FILE: holds 0 requests, and 2 are to be measured; send fewer requests"),
        (own(1.0), {}, "FILE: holds 1 request, and 2 are to be measured"),
        (own(1.0, 2.0), {"warmup": 1}, "FILE: holds 2 requests, and 2 are to be measured after a warm-up of 1"),
        (own(1.0, 0.5), {}, "FILE:2: is earlier than the request before it: sort the file by time"),
        (own(-1.0), {}, "FILE:1: time is -1.0, not a number from 0 to 1e+13"),
        ('{"time": NaN, "input_tokens": 1, "output_tokens": 1}', {}, "FILE:1: is no JSON: "),
        ('{"time": 1e999, "input_tokens": 1, "output_tokens": 1}', {}, "FILE:1: is no JSON: "),
        ('{"time": 1e99, "input_tokens": 1, "output_tokens": 1}', {}, "FILE:1: time is 1e+99, not a number"),
        ('{"time": true, "input_tokens": 1, "output_tokens": 1}', {}, "FILE:1: time is True, not a number"),
        ('{"time": 1, "input_tokens": 1', {}, "FILE:1: is no JSON: "),
        ('{"time": 1, "output_tokens": 1}', {}, "FILE:1: needs either input_tokens or a prompt"),
        ('{"time": 1, "input_tokens": 1}', {}, "FILE:1: has no output_tokens"),
        ('{"time": 1, "prompt": "", "output_tokens": 1}', {}, "FILE:1: prompt is '', not a text"),
        (own(1.0, prompt=0), {}, "FILE:1: input_tokens is 0, not a whole number from 1 to 10,000,000"),
        (own(1.0, answer=10**12), {}, "FILE:1: output_tokens is 1000000000000, not a whole number from 1 to 1,000,000"),
        (own(0.0, 9999.0), {}, "FILE: the requests take 9,999 s, more than the 3,000 s of a trial; send fewer"),
        ("[1, 2]", {}, "FILE:1: is neither a JSON object nor a header with the columns TIMESTAMP, ContextTokens,"),
        (b"\xff\xfe\x00", {}, "FILE:1: is no line of a CSV file: "),
        (own(1.0), {"format": "mooncake"}, "FILE:1: has no timestamp"),
        (hashed((0, 100, [1]), (1, 9, [1])), {"format": "regress-gate"}, "FILE:1: needs either input_tokens"),
        (
            hashed((0, 100, [1, 2])),
            {},
            "FILE:1: hash_ids holds 2, which is no prompt of 100 tokens in blocks of 512 or 16: ",
        ),
        (
            hashed((0, 1000, [1, 2]), (1, 1000, [1])),
            {},
            "FILE:2: hash_ids holds 1, which is no prompt of 1000 tokens in blocks of 512: ",
        ),
        (hashed((0, 9, []), (1, 9, [])), {}, "FILE: has the keys of two formats: mooncake (times in ms) and vllm"),
        (hashed((0, 9, [-1])), {}, "FILE:1: hash_ids is no list of whole numbers"),
        (AZURE + "2023-11-16 18:17:03,1", {}, "FILE:2: has 2 columns, fewer than the header"),
        (AZURE + "yesterday,1,1", {}, "FILE:2: TIMESTAMP is 'yesterday', not a date and time"),
        (AZURE + "2023-11-16 18:17:03,1,nan", {}, "FILE:2: GeneratedTokens is 'nan', not a whole number"),
        (AZURE + "2023-11-16 18:17:03,-4,1", {}, "FILE:2: ContextTokens is '-4', not a whole number"),
        (AZURE + '2023-11-16 18:17:03,"4\x1b[31m,1', {}, "FILE:2: is no line of a CSV file: "),
        (AZURE + "\x1b]0;title\x07,1,1", {}, r"FILE:2: TIMESTAMP is '\x1b]0;title\x07', not a date"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line_that_names_its_own(tmp_path, content, more, says):
    said = refusal(written(tmp_path, content), **more)
    assert said.startswith(says)
    assert said.isprintable()


def test_a_file_that_is_not_there_is_named_and_so_is_where_it_is_looked_for(tmp_path):
    said = refusal(tmp_path / "none")
    assert said.startswith(
        "FILE: cannot be read (No such file or directory); a suite's file is looked for in the folder"
    )
    os.mkfifo(tmp_path / "pipe")
    assert "cannot be read" in refusal(tmp_path / "pipe")


def test_what_is_kept_in_memory_has_limits(tmp_path, monkeypatch):
    file = written(tmp_path, own(*range(40), prompt=100))
    assert "more than 100,000; send fewer requests" in refusal(file, 100_000, warmup=1)
    monkeypatch.setattr(traces, "MAX_TRACE_TOKENS", 250)
    assert refusal(file, 40).startswith("FILE:3: the prompts have more than 250 tokens by here: send fewer requests")
    monkeypatch.setattr(traces, "MAX_LINE_BYTES", 60)
    assert refusal(file, 40).startswith("FILE:3: the prompts")
    assert refusal(written(tmp_path, [*own(1.0), {"pad": "x" * 100}])).startswith("FILE:2: is longer than 60 bytes")
    monkeypatch.setattr(traces, "MAX_TRACE_BYTES", 50)
    assert refusal(file, 40).startswith("FILE:1: more than 50 bytes hold the requests; send fewer")


def test_the_digest_is_that_of_the_requests_and_not_of_the_file(tmp_path):
    file = written(tmp_path, own(1.0, 2.0, 4.0))
    first = opened(file, 2)
    spaced = written(tmp_path, json.dumps(own(11.0)[0], indent=None) + "\n\n" + json.dumps(own(12.0)[0]))
    assert opened(spaced, 2) == first
    others = [
        opened(written(tmp_path, own(1.0, 2.0)), 2, scale=2.0),
        opened(written(tmp_path, own(1.0, 2.5)), 2),
        opened(written(tmp_path, own(1.0, 2.0, prompt=9)), 2),
        opened(written(tmp_path, own(1.0, 2.0, answer=9)), 2),
        opened(written(tmp_path, own(0.0, 1.0, 2.0)), 2, warmup=1),
        opened(written(tmp_path, [{"time": t, "prompt": "a", "output_tokens": 4} for t in (1, 2)]), 2),
        opened(written(tmp_path, [{"time": t, "prompt": "b", "output_tokens": 4} for t in (1, 2)]), 2),
        opened(written(tmp_path, hashed((1, 40, [1, 2, 3]), (2, 40, [1, 2, 4]))), 2),
        opened(written(tmp_path, hashed((1, 40, [1, 2, 3]), (2, 40, [1, 2, 3]))), 2),
    ]
    assert len({each.sha256 for each in [first, *others]}) == 10


def test_the_facts_say_how_much_how_fast_and_how_long(tmp_path):
    facts = trace_facts(opened(written(tmp_path, own(0.0, 0.1, 0.9, 1.05, 4.0)), 5))
    assert (facts.requests, facts.seconds, facts.mean_rate, facts.busiest_second) == (5, 4.0, 1.0, 3)
    assert (facts.input_tokens, facts.output_tokens, facts.shared) == ((8, 8, 8), (4, 4, 4), None)
    assert trace_facts(opened(written(tmp_path, own(7.0, 7.0)), 2)).mean_rate is None


def test_the_facts_say_which_share_of_the_prompts_begins_as_an_earlier_one(tmp_path):
    """Of 100 tokens of the measured prompts: all 48 of a whole repetition, 16 of the last; block 9 begins nothing."""
    requests = hashed((0, 48, [1, 2, 3]), (1, 48, [1, 2, 3]), (2, 20, [4, 5]), (3, 32, [1, 9]))
    file = written(tmp_path, requests)
    assert trace_facts(opened(file, 3, warmup=1)).shared == pytest.approx(64 / 100)
    assert trace_facts(opened(file, 4)).shared == pytest.approx(64 / 148)


WHOLE = st.integers(1, 10_000)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.sampled_from([512, 16]),
    st.lists(st.tuples(st.floats(0, 2000), WHOLE, WHOLE, st.booleans()), min_size=1, max_size=12),
)
def test_what_is_written_in_a_format_is_read_from_it(tmp_path, block, rows):
    rows.sort()
    rows.append((2000.0, 600, 5, True))  # tells the two formats apart
    entries = [
        {
            "timestamp": time * (1000 if block == 512 else 1),
            "input_length": prompt,
            "output_length": answer,
            "hash_ids": list(range(-(-prompt // block))) if hashes else [],
        }
        for time, prompt, answer, hashes in rows
    ]
    found = opened(written(tmp_path, entries), len(rows))
    assert found.block_tokens == block
    assert np.allclose(found.measured_times, [row[0] - rows[0][0] for row in rows], atol=1e-6)
    assert found.input_tokens.tolist() == [row[1] for row in rows]
    assert found.output_tokens.tolist() == [row[2] for row in rows]


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers(-(10**25), 10**25) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
KEYS = ["time", "timestamp", "input_tokens", "input_length", "output_tokens", "output_length", "hash_ids", "prompt"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5).map(json.dumps), min_size=1, max_size=3)
    | st.lists(st.text(max_size=40), max_size=3)
    | st.lists(st.text('0123456789-:.,TZ "', max_size=40), max_size=3).map(lambda lines: [AZURE.strip(), *lines]),
    st.sampled_from(["auto", "regress-gate", "mooncake", "azure", "vllm"]),
)
@example(['{"time": 1, "prompt": "\\ud800", "output_tokens": 1}'], "auto")
@example([AZURE.strip(), "0001-01-01 00:00:00+14:00,1,1"], "azure")
def test_any_file_is_read_or_refused_in_one_line(tmp_path, lines, format_):
    file = written(tmp_path, "\n".join(lines).encode(errors="surrogatepass"))
    try:
        found = opened(file, 1, format=format_)
    except InputError as error:
        said = str(error)
    else:
        said = ""
        assert found.times.tolist() == [0.0]
        assert found.output_tokens[0] >= 1
    assert not said or said.isprintable()
