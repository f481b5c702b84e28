"""Large JSON whose long lists are parsed when they are read, some thousand elements at a time.

Python's objects need up to thirty times the memory of their text. Here a list that fills megabytes stays text, and the
document around it is parsed as usual. A scan over the bytes, with numpy, finds such lists and places to divide them; it
knows brackets, commas and strings and nothing else, so every byte is still parsed by orjson, now or when it is read.
"""

import json
import re
import secrets
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, overload

import numpy as np
import orjson

from regress_gate.measurement.plausibility import RefusalError

PIECE = 1024 * 1024
"""Bytes that are scanned at once. A list is deferred only if it is longer, and is divided about so finely."""
MAX_PART = 4 * PIECE
"""Bytes of the longest part of a list; a list with a longer element is parsed with the document."""
MAX_LEVEL = 24
"""Lists within more containers are not deferred."""

_OPEN, _CLOSE, _COMMA, _COLON, _QUOTE, _CONSTANT = range(1, 7)
_KIND = np.zeros(256, dtype=np.uint8)
for _kind, _signs in ((_OPEN, b"[{"), (_CLOSE, b"]}"), (_COMMA, b","), (_COLON, b":"), (_QUOTE, b'"')):
    _KIND[list(_signs)] = _kind
_KIND[list(b"NI")] = _CONSTANT  # outside strings only NaN and Infinity begin so
_STEP = np.zeros(7, dtype=np.int64)
_STEP[_OPEN], _STEP[_CLOSE] = 1, -1
_BACKSLASH = ord("\\")


class DeferredList(Sequence[Any]):
    """A list in JSON whose elements are parsed each time they are asked for.

    Raises RefusalError, wherever elements are asked for, if they are not JSON.
    """

    def __init__(self, data: bytes | bytearray, bounds: Sequence[int], ends: Sequence[int], constants: bool) -> None:
        """`bounds`: positions of the opening bracket, of the commas between parts, and of the closing bracket; `ends`:
        for each part how many elements end with it. `constants`: whether NaN and Infinity are taken."""
        self._data, self._bounds, self._ends, self._constants = data, bounds, ends, constants
        self._last: tuple[int, list[Any]] | None = None

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[Any]:
        for part in range(len(self._ends)):
            yield from self._part(part)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError("list index out of range")
        part = bisect_right(self._ends, place)
        if self._last is None or self._last[0] != part:
            self._last = part, self._part(part)
        return self._last[1][place - self._begin(part)]

    def _begin(self, part: int) -> int:
        return self._ends[part - 1] if part else 0

    def _part(self, part: int) -> list[Any]:
        begin, end = self._bounds[part] + 1, self._bounds[part + 1]
        text = b"".join((b"[", self._data[begin:end], b"]"))
        try:
            values = json.loads(text) if self._constants else orjson.loads(text)
        except (ValueError, RecursionError):  # also what is not UTF-8
            values = []
        if len(values) != self._ends[part] - self._begin(part):  # too few also for `[1,,2]`
            line = self._data.count(b"\n", 0, begin) + 1
            raise RefusalError(f"not valid JSON in the list that goes on at line {line}: make the result again")
        return values  # type: ignore[no-any-return]


@dataclass(slots=True)
class _Container:
    """An object or list that is open at the end of a piece."""

    start: int
    level: int
    """1 for the outermost."""
    commas: int = 0
    marks: list[tuple[int, int]] = field(default_factory=list)
    """The last of its commas in each piece: position, and how many commas there are up to it."""
    end: int = -1


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan of JSON found. Of text that is no JSON it means nothing."""

    signs: Counter[bytes]
    """How often each structural sign is there outside strings, and all quotes."""
    containers: Sequence[_Container]
    """Those that reach over the border of a piece and are closed, the outer before the inner."""
    constant: int | None
    """Position of the first NaN or Infinity."""
    is_whole: bool
    """Whether all that was opened is closed."""


def scan(data: bytes | bytearray) -> Scan:
    """Find the long containers of a JSON text, in linear time and with little memory."""
    state = _Scanner()
    for begin in range(0, len(data), PIECE):
        state.take(np.frombuffer(data, dtype=np.uint8, count=min(PIECE, len(data) - begin), offset=begin), begin)
        if state.depth < 0:
            break
    closed = sorted(state.closed, key=lambda one: one.start)
    return Scan(state.signs, closed, state.constant, state.depth == 0 and not state.in_string)


class _Scanner:
    def __init__(self) -> None:
        self.depth = 0
        self.in_string = False
        self.after_backslash = False
        """Whether the piece before ends in a backslash that escapes the next sign."""
        self.open: list[_Container] = []
        """The containers of level 1, 2, … up to MAX_LEVEL."""
        self.closed: list[_Container] = []
        self.signs: Counter[bytes] = Counter()
        self.constant: int | None = None

    def take(self, piece: np.ndarray[Any, np.dtype[np.uint8]], begin: int) -> None:
        kinds = _KIND[piece]
        at = np.flatnonzero(kinds)
        kind = kinds[at]
        escaped = self._escaped_quotes(piece, at[kind == _QUOTE])
        if len(escaped):
            places = np.searchsorted(at, escaped)
            at, kind = np.delete(at, places), np.delete(kind, places)
        is_quote = kind == _QUOTE
        within = (np.cumsum(is_quote) + self.in_string) % 2 == 1
        self.in_string = bool(within[-1]) if len(within) else self.in_string
        self.signs[b'"'] += int(np.count_nonzero(is_quote))
        outside = ~within & ~is_quote
        at, kind = at[outside], kind[outside]
        for sign, number in ((b",", _COMMA), (b":", _COLON)):
            self.signs[sign] += int(np.count_nonzero(kind == number))
        for sign in (b"[", b"{"):
            self.signs[sign] += int(np.count_nonzero(piece[at] == sign[0]))
        if self.constant is None and len(constants := at[kind == _CONSTANT]):
            self.constant = begin + int(constants[0])
        if len(at):
            self._take_containers(at, kind, begin)

    def _escaped_quotes(self, piece: np.ndarray[Any, Any], quotes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Positions of quotes after an odd number of backslashes."""
        backslashes = np.flatnonzero(piece == _BACKSLASH)
        carried, self.after_backslash = self.after_backslash, False
        if not len(backslashes):
            return quotes[:1][quotes[:1] == 0] if carried else quotes[:0]
        starts = np.concatenate(([True], np.diff(backslashes) > 1))
        first = backslashes[np.maximum.accumulate(np.where(starts, np.arange(len(backslashes)), 0))]
        odd = (backslashes - first) % 2 == 0
        if carried and backslashes[0] == 0:
            odd ^= first == 0
        if backslashes[-1] == len(piece) - 1:
            self.after_backslash = bool(odd[-1])
        after = backslashes[odd] + 1
        if carried and backslashes[0] != 0:
            after = np.concatenate(([0], after))
        return np.intersect1d(quotes, after, assume_unique=True)

    def _take_containers(self, at: np.ndarray[Any, Any], kind: np.ndarray[Any, Any], begin: int) -> None:
        """Follow the containers that are open before or after a piece with these signs outside strings."""
        depth = self.depth + np.cumsum(_STEP[kind])
        highest = np.maximum.accumulate(-depth)  # in ascending order, for the search
        is_comma = kind == _COMMA
        for container in reversed(self.open.copy()):
            # The first sign after which the container is closed; all signs if it stays open.
            end = int(np.searchsorted(highest, -container.level, side="right"))
            commas = np.flatnonzero(is_comma[:end] & (depth[:end] == container.level))
            if len(commas):
                container.commas += len(commas)
                container.marks.append((begin + int(at[commas[-1]]), container.commas))
            if end < len(at):
                container.end = begin + int(at[end])
                self.closed.append(container)
                self.open.pop()
        self.depth = int(depth[-1])
        for level in range(len(self.open) + 1, min(self.depth, MAX_LEVEL) + 1):
            opened = int(np.flatnonzero((kind == _OPEN) & (depth == level))[-1])
            commas = np.flatnonzero(is_comma[opened:] & (depth[opened:] == level))
            container = _Container(begin + int(at[opened]), level, len(commas))
            if len(commas):
                container.marks.append((begin + int(at[opened + commas[-1]]), len(commas)))
            self.open.append(container)


def defer_lists(data: bytes | bytearray, scanned: Scan) -> tuple[bytes, list[DeferredList], str]:
    """The document without its long lists, these lists, and the text that stands for list N in it: `"<text>N"`."""
    mark = secrets.token_hex(16)
    lists: list[DeferredList] = []
    rest: list[bytes | bytearray] = []
    done = 0
    for container in scanned.containers:
        if container.start < done or (bounds := _bounds(data, container)) is None:
            continue
        ends = [commas for _, commas in container.marks] + [container.commas + 1]
        rest += [data[done : container.start], f'"{mark}{len(lists)}"'.encode()]
        lists.append(DeferredList(data, bounds, ends, scanned.constant is not None))
        done = container.end + 1
    return b"".join((*rest, data[done:])), lists, mark


def _bounds(data: bytes | bytearray, container: _Container) -> list[int] | None:
    """Where a list is divided; None if it is none, or has too few or too long elements."""
    if not container.marks or data[container.start : container.start + 1] != b"[":
        return None
    if data[container.end : container.end + 1] != b"]":
        return None
    bounds = [container.start, *(position for position, _ in container.marks), container.end]
    longest = max(end - begin for begin, end in pairwise(bounds))
    return bounds if longest <= MAX_PART else None


def with_lists(document: Any, lists: Sequence[DeferredList], mark: str) -> Any:
    """The document with the deferred lists in their places."""

    def replaced(value: Any) -> Any:
        return lists[int(value[len(mark) :])] if isinstance(value, str) and value.startswith(mark) else value

    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key, each in value.items():
                value[key] = replaced(each)
            waiting += (each for each in value.values() if isinstance(each, dict | list))
        elif isinstance(value, list):
            value[:] = map(replaced, value)
            waiting += (each for each in value if isinstance(each, dict | list))
    return replaced(document)


_KEY_BEFORE = re.compile(rb'("(?:[^"\\]|\\.){0,60}")\s*:[^"]*\Z', re.DOTALL)


def constant_text(data: bytes | bytearray, at: int) -> str:
    """The NaN or Infinity at that position, with its place and the key before it, as text."""
    line, column = data.count(b"\n", 0, at) + 1, at - data.rfind(b"\n", 0, at)
    token = "NaN" if data[at : at + 1] == b"N" else "Infinity"
    key = _KEY_BEFORE.search(data[max(0, at - 300) : at])
    after = f" after {key[1].decode(errors='replace')}" if key else ""
    return f"{token} is not a number (line {line}, column {column}{after})"
