"""What `regress-gate import` needs for files that are made to need too much, and for large valid ones.

    python benchmarks/import_bounds.py [--scale 0.1]

Memory, less that of the program's start, is compared with the size of the file (for an archive: of its largest member)
and may be four times that, and in all 1 GiB. Time is compared with that of reading and hashing the unpacked bytes,
after the start of the program; a file with holes is not read to its end. Files are made here, from a fixed seed.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from import_speed import SEED, _result
from measure import MIB, Measured, Row, mebibytes, report, run_command

MAX_SHARE = 4.0
MAX_PEAK = 1024 * MIB
FREE = 64 * MIB
"""Any file may need so much: what small files need besides their own size."""
MAX_TIME = 25.0
"""Times the time of hashing. A large valid file is parsed, checked and stored: that one has a bound of its own."""
MAX_TIME_VALID = 120.0
HASH = """
import hashlib, sys, zipfile
if sys.argv[1].endswith(".zip"):
    with zipfile.ZipFile(sys.argv[1]) as archive:
        for name in archive.namelist():
            hashlib.sha256(archive.read(name))
else:
    with open(sys.argv[1], "rb") as file:
        hashlib.file_digest(file, "sha256")
"""


def empties(path: Path, scale: float) -> None:
    path.write_bytes(b"[" + b"{}," * int(40 * MIB * scale) + b"{}]")


def numbers(path: Path, scale: float) -> None:
    path.write_bytes(b"[" + b"1," * int(60 * MIB * scale) + b"1]")


def lines(path: Path, scale: float) -> None:
    path.write_bytes(b'{"a": 1}\n' * 8 + b"{}\n" * int(10 * MIB * scale))


def lists_in_zip(path: Path, scale: float) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(12):
            archive.writestr(f"{number}.json", b"[" + b"{}," * int(10 * MIB * scale) + b"{}]")


def sparse(path: Path, scale: float) -> None:
    with path.open("wb") as file:
        file.write(b'{"a": 1}\n' * 100_000)
        file.truncate(int(20 * 1024 * MIB * scale))


def valid(path: Path, scale: float) -> None:
    tokens = 500
    result = _result(np.random.default_rng(SEED), int(13_000 * scale), tokens)
    path.write_text(json.dumps(result), encoding="utf-8")


CASES: dict[str, tuple[str, Callable[[Path, float], None]]] = {
    "a list of {}": ("list.json", empties),
    "a list of 1": ("numbers.json", numbers),
    "lines of {}": ("lines.jsonl", lines),
    "12 zipped lists of {}": ("lists.zip", lists_in_zip),
    "a sparse file of lines": ("sparse.jsonl", sparse),
    "a valid result with its requests": ("valid.json", valid),
}


def made(directory: Path, name: str, scale: float) -> Path:
    file, make = CASES[name]
    path = directory / file
    # In a process of its own: a child's peak memory is never less than its parent's.
    making = multiprocessing.get_context("spawn").Process(target=make, args=(path, scale))
    making.start()
    making.join()
    if making.exitcode:
        raise RuntimeError(f"{name}: the file could not be made")
    return path


def rows_of(directory: Path, name: str, scale: float, start: Measured) -> list[Row]:
    path = made(directory, name, scale)
    size = path.stat().st_size
    if name == "a sparse file of lines":
        read, size = start, MIB  # what stands before the hole
    else:
        read = run_command([sys.executable, "-c", HASH, str(path)], directory)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            size = max(info.file_size for info in archive.infolist())
    asked = f"--version v0.19.1 --testbed bench --scenario chat -q --store sqlite:///{directory}/store.db"
    command = [sys.executable, "-m", "regress_gate", "import", str(path), *asked.split()]
    found = run_command(command, directory, expected=(0,) if path.name == "valid.json" else (2,))
    path.unlink()
    need = found.peak - start.peak
    seconds = max(found.seconds - start.seconds, 0.0)
    bound = MAX_TIME_VALID if path.name == "valid.json" else MAX_TIME
    return [
        Row(
            f"{name}, {size / MIB:.0f} MiB",
            mebibytes(found.peak),
            "the file's size",
            max(need - FREE, 0) / size,
            MAX_SHARE,
        ),
        Row("    in all", mebibytes(found.peak), mebibytes(MAX_PEAK), found.peak / MAX_PEAK, 1.0),
        Row("    time", f"{seconds:.1f} s", f"{read.seconds:.1f} s (hashing)", seconds / read.seconds, bound),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of the files; 1: 120 MiB and 20 GiB")
    parser.add_argument("--only", choices=sorted(CASES))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        start = run_command([sys.executable, "-m", "regress_gate", "import", "--list-formats"], directory)
        names = [arguments.only] if arguments.only else list(CASES)
        rows = [row for name in names for row in rows_of(directory, name, arguments.scale, start)]
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
