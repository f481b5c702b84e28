"""Recorded traffic: when requests came, how long they and their answers were, and which beginnings they shared.

Reads files in four formats and reports what is wrong with one. Not for recorded texts without times (`dataset`), and
not for making or sending requests.
"""

import codecs
import csv
import hashlib
import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from regress_gate.errors import InputError
from regress_gate.files import open_regular
from regress_gate.model.samples import Floats, Ints
from regress_gate.model.suite import RecordedTrace, TraceFacts
from regress_gate.text import plural, quoted

MAX_TRACE_REQUESTS = 100_000
MAX_TRACE_TOKENS = 200_000_000
"""Of all prompts. Their requests are in memory before the first is sent, about five bytes a token."""
MAX_TRACE_BYTES = 2**30
"""Of the part of a file that is read, which ends with the last request that is needed."""
MAX_LINE_BYTES = 16 * 2**20
MAX_INPUT_TOKENS = 10_000_000
MAX_OUTPUT_TOKENS = 1_000_000
MAX_TRACE_SECONDS = 3000.0
"""From the first measured request to the last. The load client ends a trial after an hour, answers included."""
MAX_TIME = 1e13
"""Of a time in a file, in its unit: milliseconds since 1970 have this size, and their differences are still exact."""


class TraceFormat(StrEnum):
    REGRESS_GATE = "regress-gate"
    MOONCAKE = "mooncake"
    AZURE = "azure"
    VLLM = "vllm"

    @property
    def block_tokens(self) -> int:
        """Tokens of one block of `hash_ids`; 0 for formats that have none."""
        return {TraceFormat.MOONCAKE: 512, TraceFormat.VLLM: 16}.get(self, 0)

    @property
    def time_unit(self) -> float:
        """Seconds."""
        return 0.001 if self is TraceFormat.MOONCAKE else 1.0


@dataclass(frozen=True, slots=True)
class Trace:
    """The requests of a trace that are sent: first those of the warm-up, then n measured ones."""

    format: TraceFormat
    sha256: str
    """Of everything below."""
    warmup: int
    times: Floats = field(compare=False)
    """When each is due, in seconds from the first measured one, ascending. The warm-up is sent without them."""
    input_tokens: Ints = field(compare=False)
    """Of each prompt; 0 for a text, which only a server can count."""
    output_tokens: Ints = field(compare=False)
    blocks: npt.NDArray[np.uint64] = field(compare=False)
    """The ids of all blocks, request after request. Equal ids stand for equal tokens."""
    block_start: Ints = field(compare=False)
    """Request i's blocks are `blocks[block_start[i]:block_start[i + 1]]`, which cover its whole prompt, or none."""
    block_tokens: int
    texts: tuple[str | None, ...] = field(compare=False)
    """Prompts as texts, where the file has them."""

    def blocks_of(self, number: int) -> list[int]:
        """The ids of one request's blocks, empty if it shares nothing."""
        ids: list[int] = self.blocks[self.block_start[number] : self.block_start[number + 1]].tolist()
        return ids

    @property
    def has_texts(self) -> bool:
        return any(text is not None for text in self.texts)

    @property
    def measured_times(self) -> Floats:
        return self.times[self.warmup :]

    @property
    def mean_rate(self) -> float | None:
        """Measured requests a second; None if all are due at once."""
        span = float(self.measured_times[-1])
        return (len(self.measured_times) - 1) / span if span > 0 else None


def trace_facts(trace: Trace) -> TraceFacts:
    times = trace.measured_times
    within = np.searchsorted(times, times + 1.0, side="left") - np.arange(len(times))
    prompts, answers = trace.input_tokens[trace.warmup :], trace.output_tokens[trace.warmup :]
    return TraceFacts(
        format=trace.format.value,
        requests=len(times),
        seconds=float(times[-1]),
        mean_rate=trace.mean_rate,
        busiest_second=int(within.max()),
        input_tokens=None if trace.has_texts else _spread(prompts),
        output_tokens=_spread(answers),
        shared=_shared_prefixes(trace) if len(trace.blocks) else None,
    )


def _spread(values: Ints) -> tuple[float, float, float]:
    median, high = np.percentile(values, (50, 95))
    return float(median), float(high), float(values.max())


def _shared_prefixes(trace: Trace) -> float:
    _, first, inverse = np.unique(trace.blocks, return_index=True, return_inverse=True)
    starts = trace.block_start
    owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    is_new = first[inverse] >= starts[owner]  # where a block comes up first is in this request or later
    shared = 0
    for number in range(trace.warmup, len(starts) - 1):
        fresh = is_new[starts[number] : starts[number + 1]]
        leading = int(fresh.argmax()) if fresh.any() else len(fresh)
        shared += min(leading * trace.block_tokens, int(trace.input_tokens[number]))
    return shared / int(trace.input_tokens[trace.warmup :].sum())


@dataclass(frozen=True, slots=True)
class _Row:
    """One request as a file has it: the time in the file's unit."""

    time: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    text: str | None = None


_ReadRow = Callable[[bytes], _Row]
"""Raises ValueError with what is wrong with the line."""


def open_trace(recorded: RecordedTrace, *, warmup: int, requests: int) -> Trace:
    """The first requests of a file. Raises InputError, with the line, if it cannot be used."""
    file = Path(recorded.file)
    if warmup + requests > MAX_TRACE_REQUESTS:
        what = f"{warmup + requests:,} requests are more than {MAX_TRACE_REQUESTS:,}"
        raise InputError(what, where=file, todo="send fewer requests")
    try:
        rows = _Rows(recorded, file)
        for line, text in _lines(file):
            rows.add(line, text)
            if rows.count == warmup + requests:
                break
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        todo = "a suite's file is looked for in the folder where the tool is started" if missing else None
        raise InputError(f"cannot be read ({error.strerror or error})", where=file, todo=todo) from None
    return rows.trace(warmup, requests)


def _lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Line numbers and lines that are not blank."""
    read = 0
    with open_regular(file) as opened:
        number = 0
        while line := opened.readline(MAX_LINE_BYTES + 1):
            number += 1
            read += len(line)
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"is longer than {MAX_LINE_BYTES:,} bytes", where=file, line=number)
            if read > MAX_TRACE_BYTES:
                what = f"more than {MAX_TRACE_BYTES:,} bytes hold the requests"
                raise InputError(what, where=file, line=number, todo="send fewer requests")
            text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).strip()
            if text:
                yield number, text


class _Rows:
    """The columns of a file while it is read."""

    def __init__(self, recorded: RecordedTrace, file: Path) -> None:
        self._recorded = recorded
        self._file = file
        self._format = None if recorded.format == "auto" else TraceFormat(recorded.format)
        self._read: _ReadRow | None = None
        self._times, self._inputs, self._outputs = array("d"), array("q"), array("q")
        self._blocks, self._block_start = array("Q"), array("q", [0])
        self._texts: list[str | None] = []
        self._tokens = 0

    @property
    def count(self) -> int:
        return len(self._times)

    def add(self, line: int, text: bytes) -> None:
        try:
            if self._read is None:
                self._read, is_row = self._reader(text)
                if not is_row:
                    return
            self._append(self._read(text))
        except ValueError as error:
            raise InputError(str(error), where=self._file, line=line) from None

    def _reader(self, first: bytes) -> tuple[_ReadRow, bool]:
        """How lines are read, and whether the first one holds a request already."""
        is_json = first.startswith(b"{")
        if self._format is TraceFormat.AZURE or (self._format is None and not is_json):
            self._format = TraceFormat.AZURE
            return partial(_azure_row, _azure_columns(first)), False
        if self._format is TraceFormat.REGRESS_GATE or (self._format is None and "time" in _json_object(first)):
            self._format = TraceFormat.REGRESS_GATE
            return _own_row, True
        return _hashed_row, True

    def _append(self, row: _Row) -> None:
        if self._times and row.time < self._times[-1]:
            raise ValueError("is earlier than the request before it: sort the file by time")
        if row.blocks:
            self._check_blocks(row)
        self._tokens += row.input_tokens
        if self._tokens > MAX_TRACE_TOKENS:
            raise ValueError(f"the prompts have more than {MAX_TRACE_TOKENS:,} tokens by here: send fewer requests")
        self._times.append(row.time)
        self._inputs.append(row.input_tokens)
        self._outputs.append(row.output_tokens)
        self._blocks.extend(row.blocks)
        self._block_start.append(len(self._blocks))
        self._texts.append(row.text)

    def _check_blocks(self, row: _Row) -> None:
        """Mooncake's format and vLLM's have the same keys. How many blocks a prompt has tells them apart."""
        fitting = [
            format_
            for format_ in ((TraceFormat.MOONCAKE, TraceFormat.VLLM) if self._format is None else (self._format,))
            if math.ceil(row.input_tokens / self._block_tokens(format_)) == len(row.blocks)
        ]
        if not fitting:
            sizes = "512 or 16" if self._format is None else str(self._block_tokens(self._format))
            raise ValueError(
                f"hash_ids holds {len(row.blocks)}, which is no prompt of {row.input_tokens} tokens in blocks of "
                f"{sizes}: give the trace its block_tokens, or its format"
            )
        if len(fitting) == 1:
            self._format = fitting[0]

    def _block_tokens(self, format_: TraceFormat) -> int:
        return self._recorded.block_tokens or format_.block_tokens

    def trace(self, warmup: int, requests: int) -> Trace:
        """Raises InputError if there are too few requests, or they last too long."""
        if self.count < warmup + requests:
            needed = f"{requests} are to be measured" + (f" after a warm-up of {warmup}" if warmup else "")
            what = f"holds {plural(self.count, 'request')}, and {needed}"
            raise InputError(what, where=self._file, todo="send fewer requests")
        if self._format is None:
            what = "has the keys of two formats: mooncake (times in ms) and vllm (times in s)"
            raise InputError(what, where=self._file, todo="say which `format` it is")
        raw = np.array(self._times)
        times = (raw - raw[warmup]) * self._format.time_unit * self._recorded.scale
        if times[-1] > MAX_TRACE_SECONDS:
            what = f"the requests take {times[-1]:,.0f} s, more than the {MAX_TRACE_SECONDS:,.0f} s of a trial"
            raise InputError(what, where=self._file, todo="send fewer requests, or give a smaller scale")
        columns = (
            np.array(self._inputs, dtype=np.int64),
            np.array(self._outputs, dtype=np.int64),
            np.array(self._blocks, dtype=np.uint64),
            np.array(self._block_start, dtype=np.int64),
        )
        block_tokens = self._block_tokens(self._format) if len(self._blocks) else 0
        digest = hashlib.sha256(orjson.dumps([warmup, block_tokens, self._texts]))
        for column in (times, *columns):
            digest.update(column.tobytes())
        return Trace(self._format, digest.hexdigest(), warmup, times, *columns, block_tokens, tuple(self._texts))


def _own_row(line: bytes) -> _Row:
    entry = _json_object(line)
    text = entry.get("prompt")
    if text is not None and (not isinstance(text, str) or not text):
        raise ValueError(f"prompt is {quoted(text)}, not a text")
    if (text is None) == ("input_tokens" not in entry):
        raise ValueError("needs either input_tokens or a prompt")
    prompt_len = 0 if text is not None else _whole(entry, "input_tokens", MAX_INPUT_TOKENS)
    return _Row(_number(entry, "time"), prompt_len, _whole(entry, "output_tokens", MAX_OUTPUT_TOKENS), text=text)


def _hashed_row(line: bytes) -> _Row:
    entry = _json_object(line)
    ids = entry.get("hash_ids") or []
    if not isinstance(ids, list) or not all(type(each) is int and 0 <= each < 2**64 for each in ids):
        raise ValueError("hash_ids is no list of whole numbers from 0 to 2^64 - 1")
    return _Row(
        _number(entry, "timestamp"),
        _whole(entry, "input_length", MAX_INPUT_TOKENS),
        _whole(entry, "output_length", MAX_OUTPUT_TOKENS),
        tuple(ids),
    )


def _json_object(line: bytes) -> Mapping[str, Any]:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(entry, dict):
        raise ValueError("is no JSON object")
    return entry


def _whole(entry: Mapping[str, Any], key: str, most: int) -> int:
    if key not in entry:
        raise ValueError(f"has no {key}")
    value = entry[key]
    if isinstance(value, float) and value.is_integer():  # tables with gaps write integers like this
        value = int(value)
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{key} is {quoted(value)}, not a whole number from 1 to {most:,}")
    return value


def _number(entry: Mapping[str, Any], key: str) -> float:
    if key not in entry:
        raise ValueError(f"has no {key}")
    value = entry[key]
    if type(value) not in (int, float) or not 0 <= value <= MAX_TIME:
        raise ValueError(f"{key} is {quoted(value)}, not a number from 0 to {MAX_TIME:.0e}")
    return float(value)


AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def _azure_columns(header: bytes) -> dict[str, int]:
    """The place of each column that is read. Raises ValueError without them."""
    names = _fields(header)
    if not set(AZURE_COLUMNS) <= set(names):
        raise ValueError(f"is neither a JSON object nor a header with the columns {', '.join(AZURE_COLUMNS)}")
    return {name: names.index(name) for name in AZURE_COLUMNS}


def _azure_row(columns: Mapping[str, int], line: bytes) -> _Row:
    fields = _fields(line)
    if len(fields) <= max(columns.values()):
        raise ValueError(f"has {plural(len(fields), 'column')}, fewer than the header")
    values = {name: fields[place] for name, place in columns.items()}
    lengths = {name: int(text) if text.isdecimal() and len(text) < 10 else text for name, text in values.items()}
    try:
        moment = datetime.fromisoformat(values["TIMESTAMP"])
        time = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"TIMESTAMP is {quoted(values['TIMESTAMP'])}, not a date and time") from None
    return _Row(
        time,
        _whole(lengths, "ContextTokens", MAX_INPUT_TOKENS),
        _whole(lengths, "GeneratedTokens", MAX_OUTPUT_TOKENS),
    )


def _fields(line: bytes) -> list[str]:
    try:
        return [text.strip() for text in next(csv.reader([line.decode()], strict=True), [])]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"is no line of a CSV file: {error}") from None
