"""Per-request samples as a compact blob, and back.

Times are stored as whole microseconds. The Python client that measures them has a jitter (event loop, HTTP parsing) of
tens of microseconds and more, so no information is lost. Everything else is stored exactly: `decode(encode(x))` is x
with its times rounded, and `encode(decode(blob))` has the content of blob.

A blob is a version byte, the length of a raw deflate stream, the stream, and uncompressed bytes. The stream holds the
columns one after the other: a header, then the values minus the smallest, one plane per byte. The lowest of several
planes is noise that cannot be compressed, so it is stored uncompressed at the end. The other planes hardly change, so
run lengths and byte frequencies (zlib's Z_RLE strategy) suffice: a search for repeats takes twice the time and saves
nothing.
"""

import struct
import zlib
from math import isnan

import numpy as np
import numpy.typing as npt

from regress_gate.errors import InputError
from regress_gate.model.samples import Floats, Ints, Samples

UNKNOWN = np.iinfo(np.int64).min
"""NaN (not measured) as whole microseconds."""

_LIMIT = 2**50
"""Microseconds (35 years) up to which a float of seconds is exact to the microsecond; also limits token counts."""

_FORMAT = 1
_START = struct.Struct("<BI")
"""Format, bytes in the deflate stream."""

_HEADER = struct.Struct("<QqB?")
"""Values in the column, smallest value, bytes per value, whether the code 0 stands for UNKNOWN."""


def microseconds(times: Floats) -> Ints:
    """Seconds to whole microseconds, NaN to UNKNOWN. Raises InputError for infinite or absurdly large times."""
    whole = _whole(times)
    _, _, known = _range(whole)
    return (whole if known is None else np.where(known, whole, UNKNOWN)).astype(np.int64)


def seconds(times: Ints) -> Floats:
    """The inverse of `microseconds`."""
    missing = times == UNKNOWN
    if not missing.any():
        return times / 1e6
    result = times / 1e6
    result[missing] = np.nan
    return result


def encode(samples: Samples) -> bytes:
    """Raises InputError for values that cannot be stored and ValueError for inconsistent arrays."""
    check_samples(samples)
    columns: list[Floats | Ints] = [
        _whole(samples.ttft),
        _gaps(samples),
        _whole(samples.itl),
        np.asarray(samples.input_tokens, dtype=np.int64),
        np.asarray(samples.output_tokens, dtype=np.int64),
        samples.ok.astype(np.int64),
    ]
    if samples.start is not None:
        columns.append(_whole(samples.start))
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
    """The inverse of `encode`. Raises ValueError for any other blob."""
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
        raise ValueError("damaged samples: inconsistent parts")
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
    check_samples(samples)
    return samples


def check_samples(samples: Samples) -> None:
    """Raise ValueError unless all arrays are of the same requests and gaps."""
    size = len(samples.ttft)
    lengths = {len(samples.input_tokens), len(samples.output_tokens), len(samples.ok), len(samples.itl_start) - 1}
    if samples.start is not None:
        lengths.add(len(samples.start))
    if lengths != {size}:
        raise ValueError("samples: arrays of different lengths")
    gaps = _gaps(samples)
    if samples.itl_start[0] != 0 or samples.itl_start[-1] != len(samples.itl) or (size and gaps.min() < 0):
        raise ValueError("samples: itl_start does not divide itl")


def _gaps(samples: Samples) -> Ints:
    """Gaps of each request. As np.diff, in a quarter of its time: there are many trials with few requests."""
    return samples.itl_start[1:] - samples.itl_start[:-1]


def _whole(times: Floats) -> Floats:
    """Seconds to whole microseconds, as exact floats; NaN stays."""
    whole: Floats = np.rint(np.asarray(times, dtype=np.float64) * 1e6)
    return whole


def _range(values: Floats | Ints) -> tuple[int, int, npt.NDArray[np.bool_] | None]:
    """Smallest and largest value, and a mask of the known (not NaN) values; None: all are known.

    Raises InputError for values out of range.
    """
    if not values.size:
        return 0, 0, None
    known = None
    smallest, largest = values.min(), values.max()
    if isnan(smallest):
        known = ~np.isnan(values)
        smallest, largest = (values[known].min(), values[known].max()) if known.any() else (0, 0)
    if smallest >= -_LIMIT and largest <= _LIMIT:
        return int(smallest), int(largest), known
    if values.dtype == np.float64:
        raise InputError("a request's time is out of range", todo="times are in seconds, relative to the first request")
    raise InputError("a request's token count is out of range")


def _column(values: Floats | Ints) -> tuple[bytes, bytes]:
    """The part of a column to compress, and the part to store as it is. Values are whole numbers, or NaN if unknown."""
    if not values.size:
        return _HEADER.pack(0, 0, 0, False), b""
    smallest, largest, known = _range(values)
    # Codes are below 2**52, so they are exact as floats.
    codes = values - smallest if known is None else np.where(known, values - smallest + 1, 0)
    width = max(1, ((largest - smallest + (known is not None)).bit_length() + 7) // 8)
    octets = codes.astype("<i8", copy=False).view(np.uint8)
    planes = [octets[plane::8].tobytes() for plane in range(width)]
    header = _HEADER.pack(len(values), smallest, width, known is not None)
    if width == 1:
        return header + planes[0], b""
    return b"".join((header, *planes[1:])), planes[0]


def _read_column(data: bytes, at: int, raw: bytes, raw_at: int) -> tuple[Ints, int, int]:
    """A column's values, and the offsets of the next column in both parts."""
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
