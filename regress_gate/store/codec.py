"""Per-request samples as a compact blob, and back.

Times are kept as whole microseconds. They are taken by a Python client whose own jitter (event loop, HTTP parsing)
is tens of microseconds and more, so nothing that was measured is lost. Everything else is kept exactly:
`decode(encode(x))` is x with its times rounded, and `encode(decode(blob))` holds what blob holds.

A blob is a version byte, the length of a raw deflate stream, the stream, and bytes that are stored as they are. The
stream holds the columns one after the other: a header, then the values less the smallest, one plane per byte. The
lowest of several planes is noise, which no compression makes smaller, so it goes to the end uncompressed. The others
hardly change, so runs and byte frequencies (zlib's Z_RLE strategy) are all there is to find: that takes half the time
of a search for repeats and gives no more bytes.
"""

import struct
import zlib

import numpy as np
import numpy.typing as npt

from regress_gate.errors import InputError
from regress_gate.model.samples import Floats, Ints, Samples

UNKNOWN = np.iinfo(np.int64).min
"""What NaN (not measured) becomes among whole microseconds."""

_LIMIT = 2**50
"""Microseconds (35 years) up to which seconds as a float name every microsecond; also the limit of token counts."""

_FORMAT = 1
_START = struct.Struct("<BI")
"""Format, bytes in the deflate stream."""

_HEADER = struct.Struct("<QqB?")
"""Values in the column, smallest value, bytes per value, whether the code 0 stands for UNKNOWN."""


def microseconds(times: Floats) -> Ints:
    """Seconds to whole microseconds, NaN to UNKNOWN. Raises InputError for infinite or absurdly large times."""
    scaled = np.rint(np.asarray(times, dtype=np.float64) * 1e6)
    if not scaled.size or (scaled.min() >= -_LIMIT and scaled.max() <= _LIMIT):
        return scaled.astype(np.int64)
    missing = np.isnan(scaled)
    scaled[missing] = 0
    if np.abs(scaled).max() > _LIMIT:
        raise InputError("a request's time is out of range", todo="times are in seconds, relative to the first request")
    result = scaled.astype(np.int64)
    result[missing] = UNKNOWN
    return result


def seconds(times: Ints) -> Floats:
    """The inverse of `microseconds`."""
    missing = times == UNKNOWN
    if not missing.any():
        return times / 1e6
    result = times / 1e6
    result[missing] = np.nan
    return result


def encode(samples: Samples) -> bytes:
    """Raises InputError for values that cannot be kept and ValueError for arrays that contradict each other."""
    check(samples)
    columns = [
        microseconds(samples.ttft),
        np.diff(samples.itl_start),
        microseconds(samples.itl),
        _counts(samples.input_tokens),
        _counts(samples.output_tokens),
        samples.ok.astype(np.int64),
    ]
    if samples.start is not None:
        columns.append(microseconds(samples.start))
    # Window bits -15: without zlib's header and checksum, the database has its own.
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15, 8, zlib.Z_RLE)
    compressed, raw = [], []
    for column in columns:
        packed, noise = _column(column)
        compressed.append(deflate.compress(packed))
        raw.append(noise)
    compressed.append(deflate.flush())
    stream = b"".join(compressed)
    return b"".join((_START.pack(_FORMAT, len(stream)), stream, *raw))


def decode(blob: bytes) -> Samples:
    """Raises ValueError for a blob that `encode` did not make."""
    if len(blob) < _START.size or blob[0] != _FORMAT:
        raise ValueError("samples of an unknown format")
    _, length = _START.unpack_from(blob)
    inflate = zlib.decompressobj(-15)
    try:
        data = inflate.decompress(blob[_START.size : _START.size + length])
    except zlib.error as error:
        raise ValueError(f"damaged samples: {error}") from None
    if not inflate.eof:
        raise ValueError("damaged samples: cut short")
    raw = blob[_START.size + length :]
    columns: list[Ints] = []
    at = raw_at = 0
    while at < len(data):
        values, at, raw_at = _read_column(data, at, raw, raw_at)
        columns.append(values)
    if len(columns) not in (6, 7) or raw_at != len(raw):
        raise ValueError("damaged samples: parts that do not fit together")
    ttft, gaps, itl, input_tokens, output_tokens, ok = columns[:6]
    samples = Samples(
        ttft=seconds(ttft),
        itl=seconds(itl),
        itl_start=np.concatenate(([0], np.cumsum(gaps))).astype(np.int64),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        ok=ok.astype(np.bool_),
        start=seconds(columns[6]) if len(columns) == 7 else None,
    )
    check(samples)
    return samples


def check(samples: Samples) -> None:
    """Raise ValueError unless all arrays speak of the same requests and gaps."""
    size = len(samples.ttft)
    lengths = {len(samples.input_tokens), len(samples.output_tokens), len(samples.ok), len(samples.itl_start) - 1}
    if samples.start is not None:
        lengths.add(len(samples.start))
    if lengths != {size}:
        raise ValueError("samples: arrays of different lengths")
    steps = np.diff(samples.itl_start)
    if samples.itl_start[0] != 0 or samples.itl_start[-1] != len(samples.itl) or (steps.size and steps.min() < 0):
        raise ValueError("samples: itl_start does not divide itl")


def _counts(tokens: Ints) -> Ints:
    counts = np.asarray(tokens).astype(np.int64)
    if counts.size and not (counts.min() >= -_LIMIT and counts.max() <= _LIMIT):
        raise InputError("a request's token count is out of range")
    return counts


def _column(values: Ints) -> tuple[bytes, bytes]:
    """What is to be compressed of a column, and what is not."""
    if not values.size:
        return _HEADER.pack(0, 0, 0, False), b""
    smallest = int(values.min())
    has_unknown = smallest == UNKNOWN
    if has_unknown:
        known = values != UNKNOWN
        smallest = int(values[known].min()) if known.any() else 0
        codes = np.where(known, values - smallest + 1, 0)
    else:
        codes = values - smallest
    width = max(1, (int(codes.max()).bit_length() + 7) // 8)
    planes = np.ascontiguousarray(codes.astype("<i8", copy=False).view(np.uint8).reshape(-1, 8)[:, :width].T)
    header = _HEADER.pack(len(values), smallest, width, has_unknown)
    if width == 1:
        return header + planes.tobytes(), b""
    return header + planes[1:].tobytes(), planes[0].tobytes()


def _read_column(data: bytes, at: int, raw: bytes, raw_at: int) -> tuple[Ints, int, int]:
    """A column's values, and where the next one begins in both parts."""
    try:
        size, smallest, width, has_unknown = _HEADER.unpack_from(data, at)
    except struct.error:
        raise ValueError("damaged samples: cut short") from None
    split = 1 if width > 1 else 0
    at += _HEADER.size
    end, raw_end = at + size * (width - split), raw_at + size * split
    if width > 8 or (size and not width) or end > len(data) or raw_end > len(raw):
        raise ValueError("damaged samples: cut short")
    wide: npt.NDArray[np.uint8] = np.zeros((size, 8), dtype=np.uint8)
    for plane in range(width):
        part, start = (raw, raw_at) if plane < split else (data, at + size * (plane - split))
        wide[:, plane] = np.frombuffer(part, dtype=np.uint8, count=size, offset=start)
    codes: Ints = wide.reshape(-1).view("<i8").astype(np.int64, copy=False)
    if not has_unknown:
        return codes + smallest, end, raw_end
    return np.where(codes == 0, UNKNOWN, codes - 1 + smallest), end, raw_end
