"""Zip files that are small and unpack to a gigabyte, made within milliseconds."""

import struct
import zlib
from collections.abc import Mapping

GIGABYTE = 1 << 30
_PART = 1 << 20
_CHECKSUM = 0x5B64C2B0
"""CRC-32 of a gigabyte of zeros."""


def zip_of_gigabytes(*names: str, others: Mapping[str, bytes] | None = None, stated: int = GIGABYTE) -> bytes:
    """A valid zip in which each file of these names is a gigabyte of zeros; `stated`: the size that the zip says."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    # After a full flush nothing refers to what came before, so one packed part can stand any number of times.
    part = packer.compress(bytes(_PART)) + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = part * (GIGABYTE // _PART) + packer.flush()
    members = [(name, 8, zeros, _CHECKSUM, stated) for name in names]
    members += [(name, 0, text, zlib.crc32(text), len(text)) for name, text in (others or {}).items()]
    files, directory = b"", b""
    for name, method, packed, checksum, size in members:
        # Version, flags, method, time, date, checksum, sizes, and lengths of the name and of the extra field.
        fields = struct.pack("<HHHHHIIIHH", 20, 0, method, 0, 33, checksum, len(packed), size, len(name), 0)
        directory += struct.pack("<IH", 0x02014B50, 20) + fields
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(files)) + name.encode()
        files += struct.pack("<I", 0x04034B50) + fields + name.encode() + packed
    count = len(members)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, count, count, len(directory), len(files), 0)
    return files + directory + end
