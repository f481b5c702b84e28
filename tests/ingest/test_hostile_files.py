"""Whatever stands in a file: it is read to the numbers that stand in it, or refused. Never wrong, never a crash."""

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.ingest.interface import FileOutcome, ImportResult
from regress_gate.model.metric import METRICS
from tests.factories.serve_results import (
    FLAGS,
    Result,
    console,
    detailed,
    import_all,
    made_up,
    percentile,
    plain,
    script_0_6_2,
    script_0_6_4,
    write,
)

DETAILED = detailed(made_up(seed=11, requests=6, tokens=4, failed=1))
PLAIN = plain(made_up(seed=12, requests=6, tokens=4))
RESULTS = (DETAILED, PLAIN, script_0_6_2(made_up(13, 6, 4)), script_0_6_4(made_up(14, 6, 4)))


def read(data: bytes, name: str = "r.json") -> ImportResult:
    with tempfile.TemporaryDirectory() as folder:
        return import_all(write(Path(folder) / name, data), flags=FLAGS)


def check(data: bytes, name: str = "r.json") -> None:
    """Every number that was taken is one that stands in the file, or follows from its samples."""
    try:
        intake = read(data, name)
    except InputError:
        return  # identity is missing, which is asked for
    for report in intake.files:
        assert report.outcome is not FileOutcome.REFUSED or report.reason
        told = (report.reason or "") + "".join(report.notes) + (report.scenario or "")
        assert told.isprintable()
    if not intake.runs:
        return
    (run,) = intake.runs
    documents = _documents(data.decode())
    for trial in run.trials:
        document = documents[trial.source.position]
        for metric, value in trial.metrics.items():
            assert metric in METRICS
            assert math.isfinite(value)
            assert value == pytest.approx(_second_opinion(document, metric), rel=1e-9, abs=1e-12)


def _documents(text: str) -> list[Any]:
    decoder, at, found = json.JSONDecoder(), 0, []
    text = text.strip()
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        found.append(document)
        at += len(text[at:]) - len(text[at:].lstrip())
    return found


def _second_opinion(document: Result, metric: str) -> float:
    """The metric by its definition, from the JSON as the standard library reads it."""
    rates = {"total_throughput": "total_token_throughput"}
    detailed_arrays = all(isinstance(document.get(key), list) for key in ("ttfts", "itls", "output_lens"))
    if metric == "failed_requests":
        if detailed_arrays:
            return 1 - document["completed"] / len(document["ttfts"])
        errors = document.get("errors")
        if document.get("failed") is None and isinstance(errors, list) and len(errors) >= document["completed"]:
            return 1 - document["completed"] / len(errors)
        failed = document.get("failed")
        failed = max(document["num_prompts"] - document["completed"], 0) if failed is None else failed
        return failed / (failed + document["completed"])
    if metric == "goodput":
        goodput = document.get("request_goodput")
        return document["request_goodput:"] if goodput is None else goodput
    if metric.endswith("throughput"):
        return document[rates.get(metric, metric)]
    family, _, statistic = metric.partition("_")
    if not detailed_arrays:
        old = "use_beam_search" in document and "best_of" in document
        swapped = {"mean": "median", "median": "mean"} if family == "e2el" and old else {}
        stated = document.get(f"{swapped.get(statistic, statistic)}_{family}_ms")
        return (document[f"p50_{family}_ms"] if stated is None else stated) / 1000
    values = _values(document, family)
    return sum(values) / len(values) if statistic == "mean" else percentile(values, _percent(statistic))


def _percent(statistic: str) -> float:
    return 50 if statistic == "median" else float(statistic[1:])


def _values(document: Result, family: str) -> list[float]:
    errors = document.get("errors")
    values = []
    for index, (ttft, gaps, tokens) in enumerate(
        zip(document["ttfts"], document["itls"], document["output_lens"], strict=True)
    ):
        if (errors[index] if isinstance(errors, list) else "") or not (ttft > 0 or tokens > 0):
            continue
        latencies = document.get("latencies")
        e2el = latencies[index] if isinstance(latencies, list) else ttft + sum(gaps)
        if family == "itl":
            values += gaps
        elif family != "tpot":
            values.append(ttft if family == "ttft" else e2el)
        elif tokens > 1:
            values.append((e2el - ttft) / (tokens - 1))
    return values


@given(st.sampled_from(RESULTS), st.floats(0, 0.9999))
def test_a_truncated_result_is_refused(result, share):
    data = json.dumps(result).encode()
    (report,) = read(data[: int(len(data) * share)]).files
    assert report.outcome is FileOutcome.REFUSED


@given(st.floats(0, 1), st.sampled_from([None, 1]))
def test_truncated_appended_results_are_whole_ones_or_none(share, indent):
    data = "\n".join(json.dumps(result, indent=indent) for result in RESULTS).encode()
    check(data[: int(len(data) * share)])


@settings(max_examples=300)
@given(st.sampled_from(RESULTS), st.data())
def test_a_changed_byte_gives_the_number_that_stands_there_or_a_refusal(result, data):
    text = bytearray(json.dumps(result).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        new = data.draw(st.sampled_from(list(b'0123456789.-eE"[]{},: aN\\\n\x00\xff')))
        match data.draw(st.sampled_from(["replace", "insert", "delete"])):
            case "replace":
                text[at] = new
            case "insert":
                text.insert(at, new)
            case _:
                del text[at]
    check(bytes(text))


ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.sampled_from(RESULTS), st.data())
def test_any_value_under_any_key_is_used_as_it_stands_or_refused(result, data):
    keys = data.draw(st.lists(st.sampled_from(sorted(result)), min_size=1, max_size=3))
    check(json.dumps({**result, **{key: data.draw(ANY_VALUE) for key in keys}}).encode())


@given(st.sampled_from(RESULTS), st.data())
def test_missing_keys_lead_to_fewer_numbers_or_a_refusal(result, data):
    gone = data.draw(st.sets(st.sampled_from(sorted(result)), min_size=1, max_size=4))
    check(json.dumps({key: value for key, value in result.items() if key not in gone}).encode())


@given(ANY_VALUE)
def test_any_json_is_answered(value):
    check(json.dumps(value).encode())


@given(st.binary(max_size=200), st.sampled_from(["r.json", "r.txt"]))
def test_any_bytes_are_answered(data, name):
    (report,) = read(data, name).files
    assert report.outcome is FileOutcome.REFUSED


@given(st.data())
def test_damaged_console_text_never_gives_a_number_that_is_not_printed(data):
    lines = ("Namespace(model='tiny', num_prompts=12)\n" + console(made_up())).splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(lines) - 1))
        lines[at] = data.draw(st.sampled_from(["", lines[at][: data.draw(st.integers(0, 60))], lines[0], lines[-1]]))
    text = "\n".join(lines)
    try:
        intake = read(text.encode(), "r.txt")
    except InputError:
        return
    for run in intake.runs:
        for name, value in run.trials[0].metrics.items():
            if name != "failed_requests":
                shown = value if "throughput" in name else value * 1000
                assert f"{shown:.2f}".rstrip("0").rstrip(".") in text


HOSTILE = (
    "\x1b[31mred\x1b[0m",
    "<script>alert(1)</script>",
    "a\nb",
    "\u202egnp",
    "x" * 5000,
    "\ud800",
    "{version}",
    "%s",
)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "key", ["model_id", "date", "backend", "label", "request_rate", "version", "gpu", "scenario", "x" * 9000]
)
def test_hostile_text_in_any_field_reaches_no_message_and_no_name(key, text):
    check(json.dumps({**PLAIN, key: text}).encode())


def test_hostile_file_names_are_shown_harmlessly(tmp_path):
    (report,) = import_all(write(tmp_path / "a\x1b[2J\n.json", PLAIN)).files
    assert report.path.isprintable()


def test_deep_nesting_is_refused():
    (report,) = read(b'{"a":' * 100_000).files
    assert report.outcome is FileOutcome.REFUSED
