"""What holds for every format: a damaged file gives the numbers that stand in it, or none, and never an accident."""

import json
import math
import tempfile
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.ingest import content as content_module
from regress_gate.ingest.content import parse_content
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.importer import read_paths
from regress_gate.ingest.interface import Certainty, FileOutcome, ImportResult
from regress_gate.ingest.registry import READERS, Recogniser
from regress_gate.model.metric import METRICS
from regress_gate.model.run import Run
from tests.ingest.formats.samples import SAMPLES, Sample

FLAGS = IdentityFlags.parse(testbed="box")
Numbers = list[dict[str, float]]
EVERY = [pytest.param(sample, id=key) for key, sample in SAMPLES.items()]


def read(sample: Sample, data: bytes, folder: Path) -> ImportResult:
    """What is made of the bytes in place of the sample's own; version and scenario are said where they have to be."""
    (folder / sample.name).write_bytes(data)
    for name, other in sample.beside.items():
        (folder / name).write_bytes(other)
    for said in ({}, {"version": "0.19.1"}, {"version": "0.19.1", "scenario": "chat"}, {"scenario": "chat"}):
        try:
            return read_paths([folder / sample.name], IdentityFlags.parse(testbed="box", **said))
        except InputError as error:
            told = str(error)
            assert told.isprintable()
            assert "not stated by" in told
    raise AssertionError(f"more is missing than version and scenario: {told}")


def read_anew(sample: Sample, data: bytes) -> ImportResult:
    with tempfile.TemporaryDirectory() as folder:
        return read(sample, data, Path(folder))


def numbers(intake: ImportResult) -> Numbers:
    """Of each result that would be stored, in the order of the file."""
    trials = sorted((trial for run in intake.runs for trial in run.trials), key=lambda trial: trial.source.position)
    return [dict(trial.metrics) for trial in trials]


def whole_numbers(sample: Sample) -> Numbers:
    """Those of the undamaged file, which is read once for all examples."""
    key = sample.name, sample.make()
    if key not in _WHOLE:
        _WHOLE[key] = numbers(read_anew(sample, sample.make()))
    return _WHOLE[key]


_WHOLE: dict[tuple[str, bytes], Numbers] = {}


def check(intake: ImportResult) -> None:
    """Nothing of it would be a lie or an accident, whatever was read."""
    for report in intake.files:
        assert report.outcome is FileOutcome.STORED or report.reason
        said = [report.reason or "", *report.notes, report.scenario or "", report.version or "", report.run or ""]
        assert all(text.isprintable() for text in said)
        assert all(len(text) < 1000 for text in said)
    for run in intake.runs:
        _check_run(run)


def _check_run(run: Run) -> None:
    for trial in run.trials:
        assert trial.completed is None or trial.completed > 0
        assert trial.duration is None or (trial.duration > 0 and math.isfinite(trial.duration))
        assert trial.failed >= 0
        for name, value in trial.metrics.items():
            assert name in METRICS
            assert math.isfinite(value)
            assert value >= 0
        _check_order(trial.metrics)
        json.dumps(trial.workload, allow_nan=False)


def _check_order(metrics):
    """Percentiles rise; two decimals of a millisecond are as exact as printed numbers are."""
    for family in {name.removesuffix("_median") for name in metrics if name.endswith("_median")}:
        found = [metrics[name] for part in ("median", "p90", "p95", "p99") if (name := f"{family}_{part}") in metrics]
        assert all(low <= high * (1 + 1e-6) + 2e-5 for low, high in pairwise(found))


def test_every_format_has_samples():
    assert {key.partition("/")[0] for key in SAMPLES} == {reader.name for reader in READERS}


@pytest.mark.parametrize("sample", EVERY)
def test_a_valid_file_is_read(sample, tmp_path):
    intake = read(sample, sample.make(), tmp_path)
    check(intake)
    assert all(numbers(intake)), "each result has metrics"
    assert intake.runs
    assert intake.complete


@pytest.mark.parametrize("key", SAMPLES)
def test_one_reader_is_surest_and_it_is_the_right_one(key):
    sample = SAMPLES[key]
    content = parse_content(sample.name, sample.make())
    sure = {reader.name: reader.recognises(content) for reader in READERS}
    surest = max(sure.values())
    assert surest > Certainty.NO
    assert [name for name, certainty in sure.items() if certainty is surest] == [key.partition("/")[0]]


@pytest.mark.parametrize("sample", EVERY)
def test_to_recognise_a_long_file_only_its_beginning_is_read(sample):
    def whole():
        raise AssertionError("the whole file was read to recognise it")

    long = replace(parse_content(sample.name, sample.make()), stream=whole)
    assert Recogniser(READERS).reader(long) is not None


@pytest.mark.parametrize("sample", EVERY)
def test_a_file_does_not_change_by_being_packed_or_by_coming_line_by_line(sample, tmp_path, monkeypatch):
    data = sample.make()
    expected = numbers(read(sample, data, tmp_path))
    monkeypatch.setattr(content_module, "STREAMED_FROM", len(data) - 1)
    assert numbers(read(sample, data, tmp_path)) == expected


@pytest.mark.parametrize("sample", EVERY)
@settings(max_examples=15, deadline=None)
@given(share=st.floats(0, 0.999))
def test_a_truncated_file_gives_whole_results_or_none(sample, share):
    data = sample.make()
    whole = whole_numbers(sample)
    cut = data[: int(len(data) * share)]
    intake = read_anew(sample, cut)
    check(intake)
    if cut.strip() != data.strip() and whole[: len(numbers(intake))] != numbers(intake):
        # A format of lines can be cut between two of them, even after the first: then it is a smaller file of its kind.
        assert _is_of_lines(data)


def _is_of_lines(data: bytes) -> bool:
    found = parse_content("r.jsonl", data)
    return len(found.documents) > 1 or found.text is not None


@pytest.mark.parametrize("sample", EVERY)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_changed_byte_is_read_as_it_stands_or_refused(sample, data):
    changed = bytearray(sample.make())
    at = data.draw(st.integers(0, len(changed) - 1))
    new = data.draw(st.sampled_from(list(b'0123456789.-eE"[]{},: aN\\\n\x00\xff')) | st.integers(0, 255))
    match data.draw(st.sampled_from(["replace", "insert", "delete"])):
        case "replace":
            changed[at] = new
        case "insert":
            changed.insert(at, new)
        case _:
            del changed[at]
    check(read_anew(sample, bytes(changed)))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("sample", [entry for entry in EVERY if parse_content("r", entry.values[0].make()).documents])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_value_anywhere_is_used_as_it_stands_or_refused(sample, data):
    documents = list(parse_content(sample.name, sample.make()).documents)
    document = data.draw(st.integers(0, len(documents) - 1))
    documents[document] = _with_another_value(documents[document], data)
    text = "\n".join(json.dumps(value) for value in documents)
    check(read_anew(sample, text.encode("utf-8", "replace")))


def _with_another_value(value, data):
    """The value with something else at one place in it."""
    if isinstance(value, (dict, list)) and value and data.draw(st.sampled_from([True, True, True, True, False])):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        changed = value.copy()
        changed[key] = _with_another_value(value[key], data)
        return changed
    return data.draw(ANYTHING)


def positive_numbers(value, path=()):
    """The path of each positive number in a JSON value."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from positive_numbers(inner, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        yield path


def negate(value, path):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = -value[path[-1]]


def json_values(sample):
    """The documents of a sample; None if it is no JSON."""
    try:
        return [json.loads(sample.make())]
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in sample.make().splitlines() if line.strip()]
    except ValueError:
        return None


@pytest.mark.parametrize("sample", [each for each in EVERY if json_values(each.values[0]) is not None])
@given(data=st.data())
def test_a_negative_number_changes_no_metric(sample, data):
    """A negative latency, duration or count is refused, or what it belongs to is left out; no mean is made from it."""
    documents = json_values(sample)
    paths = list(positive_numbers(documents))
    # By its keys first: most numbers of a file stand in its long arrays.
    kinds = sorted({tuple(key for key in path if isinstance(key, str)) for path in paths})
    kind = data.draw(st.sampled_from(kinds))
    path = data.draw(
        st.sampled_from([one for one in paths if tuple(key for key in one if isinstance(key, str)) == kind])
    )
    before = whole_numbers(sample)
    negate(documents, path)
    intake = read_anew(sample, "\n".join(map(json.dumps, documents)).encode())
    check(intake)
    after = numbers(intake)
    if len(after) == len(before):
        for old, new in zip(before, after, strict=True):
            assert {name: new[name] for name in new} == pytest.approx({name: old.get(name) for name in new})


@pytest.mark.parametrize("sample", [each for each in EVERY if json_values(each.values[0]) is not None])
@given(data=st.data())
def test_a_huge_number_takes_no_memory(sample, data):
    """A count may be any number; what is made of it must not grow with it."""
    documents = json_values(sample)
    paths = list(positive_numbers(documents))
    kinds = sorted({tuple(key for key in path if isinstance(key, str)) for path in paths})
    kind = data.draw(st.sampled_from(kinds))
    path = next(path for path in paths if tuple(key for key in path if isinstance(key, str)) == kind)
    inner = documents
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = data.draw(st.sampled_from([10**8, 10**12, 2**53, 1e300, 10**400]))
    tracemalloc.start()
    try:
        check(read_anew(sample, "\n".join(map(json.dumps, documents)).encode()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * 1024**2
