"""Chat requests: one message of the user, a text of an exact length and perhaps images after it.

The server puts the message into the model's template, so that only the server can count the prompt. The words follow
from the workload's seed, the scenario's name and the pass; how many of them make the length, the server says. Images
are squares of random colours: in PNG they take little memory here, and a model takes as long for them as for a photo.
"""

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_256
from typing import Any

import numpy as np

from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.load_workload import LoadWorkload, random_words
from regress_gate.bench.load.token_counting import COUNTED_AT_ONCE, CountTokens, count_at_once
from regress_gate.errors import InputError

_TEMPLATE_KEYS = (
    *("chat_template", "chat_template_kwargs", "tools", "add_generation_prompt", "continue_final_message"),
    *("add_special_tokens", "mm_processor_kwargs"),
)
_MOST_COUNTS = 20
"""Times that a text is changed until it has its length. One is enough where a word is a token."""
_PACE_WORDS = 65
MAX_PIXELS = 10**10
"""Of all images of a pass. A megapixel takes 20 to 40 ms to make and 32 KiB to keep."""
_SQUARE = 16
"""Pixels of a side of a square of one colour."""


def template_keys(workload: LoadWorkload) -> Mapping[str, Any]:
    """The part of a request's body that changes what the template makes of a message."""
    return {key: workload.extra_body[key] for key in _TEMPLATE_KEYS if key in workload.extra_body}


@dataclass(frozen=True, slots=True)
class _Pace:
    """How tokens grow with words."""

    base: float
    """Tokens of a message without words: those of the template, and of a shared beginning."""
    per_word: float


async def make_chat_texts(workload: LoadWorkload, scenario: str, ordinal: int, count: CountTokens) -> list[str]:
    """The messages of the measured requests of pass `ordinal` (from 1) in the order of sending, then of the warm-up.

    By `count`, which includes the template, each has `input_len` tokens, and what they share alone has `prefix_len`.
    Raises InputError for a length that the template exceeds, LoadError if no text has the length, and what `count`
    raises.
    """
    stream = f"{workload.seed}/{scenario}/{ordinal}/chat"
    pace = await _measure_pace(count)
    shared = ""
    if workload.prefix_len:
        shared = await _fitting_text("", f"{stream}/prefix", workload.prefix_len, pace, count)
        pace = _Pace(workload.prefix_len, pace.per_word)
    keys = [f"{stream}/request/{number}" for number in range(workload.num_requests)]
    keys += [f"{stream}/warm-up/{number}" for number in range(workload.warmup_requests)]
    texts: list[str] = []
    for first in range(0, len(keys), COUNTED_AT_ONCE):
        some = keys[first : first + COUNTED_AT_ONCE]
        texts += await count_at_once(_fitting_text(shared, key, workload.input_len, pace, count) for key in some)
    return texts


async def _measure_pace(count: CountTokens) -> _Pace:
    words = random_words("pace", _PACE_WORDS)
    one, many = await count(words[0]), await count(" ".join(words))
    per_word = max(1.0, (many - one) / (_PACE_WORDS - 1))
    return _Pace(one - per_word, per_word)


async def _fitting_text(shared: str, key: str, length: int, pace: _Pace, count: CountTokens) -> str:
    """Words after the shared text, and dots for a rest that is shorter than a word."""
    drawn = max(1, int((length - pace.base) / pace.per_word))
    words, dots, counted = random_words(key, drawn), 0, 0
    for _ in range(_MOST_COUNTS):
        text = " ".join([shared, *words] if shared else words) + "." * dots
        counted = await count(text)
        missing = length - counted
        if missing == 0:
            return text
        if missing >= pace.per_word:
            more = int(missing / pace.per_word)
            words += random_words(key, drawn + more)[drawn:]
            drawn += more
        elif missing > 0:
            dots += missing
        elif len(words) == 1 and not dots:
            what = f"a prompt of {length} tokens is asked for, and with one word it has {counted} in the chat template"
            raise InputError(what, todo="give a longer input_len or prefix_len")
        else:
            words = words[: max(1, len(words) - math.ceil(-missing / pace.per_word))]
            dots = 0
    raise LoadError(f"no text of {length} tokens was found: the server counts {counted} for {len(words)} words")


def pixels_of_pass(workload: LoadWorkload) -> int:
    """Of all images that are made for a pass."""
    images = workload.images
    if images is None:
        return 0
    requests = 1 if images.repeat else workload.num_requests + workload.warmup_requests
    return requests * images.count * images.width * images.height


def chat_bodies(workload: LoadWorkload, texts: Sequence[str], stream: str) -> Iterator[dict[str, Any]]:
    """The messages of each request, one after another. `stream` names the pass and whether it is the warm-up."""
    for number, text in enumerate(texts):
        yield {"messages": [{"role": "user", "content": _content(workload, text, f"{stream}/{number}")}]}


def _content(workload: LoadWorkload, text: str, request: str) -> str | list[dict[str, Any]]:
    images = workload.images
    if images is None:
        return text
    key = f"{workload.seed}/images" if images.repeat else f"{workload.seed}/{request}/image"
    urls = (_image_url(f"{key}/{number}", images.width, images.height) for number in range(images.count))
    return [{"type": "text", "text": text}, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]


@lru_cache(maxsize=32)  # as many as one request may have, for those that repeat them
def _image_url(key: str, width: int, height: int) -> str:
    return "data:image/png;base64," + b64encode(_png(key, width, height)).decode()


def _png(key: str, width: int, height: int) -> bytes:
    """A picture in RGB. The same key gives the same pixels everywhere, and the same bytes with one build of zlib."""
    across, down = math.ceil(width / _SQUARE), math.ceil(height / _SQUARE)
    digest = shake_256(key.encode()).digest(3 * across * down)
    colours = np.frombuffer(digest, dtype=np.uint8).reshape(down, across, 3)
    # Each row begins with its filter: 2 is the difference to the row above, 0 the row itself.
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    rows[:, 0] = 2
    rows[::_SQUARE, 0] = 0
    rows[::_SQUARE, 1:] = colours.repeat(_SQUARE, axis=1)[:, :width].reshape(down, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
