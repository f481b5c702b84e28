"""What `regress-gate import` needs for a large file of every generation of every format, as a share of the file.

    PYTHONPATH=. python benchmarks/import_formats.py [--megabytes N] [--only NAME]

The files are the samples of the tests (tests/ingest/formats/samples.py) with their longest list, or their last line,
repeated until the file is large enough. Most are refused after they were read, because their counts do not fit any
more; reports of GuideLLM and long tables are valid as well. Memory is that beyond the start of the program, and 64 MiB
are free, as in import_bounds.py.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from import_bounds import FREE, MAX_PEAK, MAX_SHARE
from measure import MIB, Row, mebibytes, report, run_command

from tests.ingest.formats import guidellm_results, long_tables
from tests.ingest.formats.samples import SAMPLES


def _lists(value: Any) -> Iterator[list[Any]]:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, list) and value:
        yield value
    for child in children:
        yield from _lists(child)


def grow(data: bytes, size: int) -> bytes:
    """The file with the list that takes most of its text repeated; of a text its last line."""
    try:
        document = json.loads(data)
    except ValueError:
        head, _, line = data.rstrip(b"\n").rpartition(b"\n")
        return head + (b"\n" + line) * (size // (len(line) + 1)) + b"\n"
    lists = list(_lists(document))
    if not lists:  # one object: many of them in a list
        return b"[" + b",\n".join([data] * (size // len(data))) + b"]"
    longest = max(lists, key=lambda each: len(json.dumps(each)) - sum(len(json.dumps(x)) for x in _lists(each[0])))
    longest *= max(1, size // len(json.dumps(longest)))
    return json.dumps(document).encode()


def grown_guidellm(generation: str, size: int, written: Callable[[Any], bytes]) -> bytes:
    """A valid report with many requests."""
    made = guidellm_results.report(generation)
    (benchmark,) = made["benchmarks"]
    listed = benchmark["requests"]["successful"]
    count = size // len(written(listed)) + 1
    for totals in _totals(benchmark):
        totals.update(successful=4 * count, total=4 * count)
    benchmark["requests"]["successful"] = listed * count
    return written(made)


def _totals(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.keys() == {"successful", "errored", "incomplete", "total"} and isinstance(value["total"], int):
            yield value
        for child in value.values():
            yield from _totals(child)


def flat_yaml(value: Any) -> bytes:
    """YAML as PyYAML writes it, of a report with one benchmark; the requests are written once and repeated as text."""
    listed = value["benchmarks"][0]["requests"]["successful"] if isinstance(value, dict) else value
    if not isinstance(value, dict):
        return guidellm_results.as_yaml({"benchmarks": [], "x": value})
    value["benchmarks"][0]["requests"]["successful"] = ["HERE"]
    text = guidellm_results.as_yaml(value).decode()
    line = next(line for line in text.split("\n") if "HERE" in line)
    indent = line[: line.index("- HERE")]
    four = guidellm_results.as_yaml(listed[:4]).decode()  # type: ignore[arg-type]
    block = "".join(f"{indent}{each}\n" for each in four.rstrip("\n").split("\n"))
    return text.replace(f"{line}\n", block * (len(listed) // 4)).encode()


def table_of_trials(size: int, written: Callable[[Any], bytes]) -> bytes:
    """A valid long table: 20 statistics of each of many trials, whose numbers differ."""
    statistics = {"median": 50.0, "mean": 52.0, "p90": 70.0, "p95": 80.0, "p99": 99.0}
    names = [
        (f"{family}_{name}", value) for family in ("ttft", "tpot", "itl", "e2el") for name, value in statistics.items()
    ]
    count = size // (len(names) * len(written(long_tables.rows(("ttft_mean", 50.123456789, "ms"), testbed="box"))))
    rows: list[dict[str, Any]] = []
    for number in range(min(count, 19_000)):
        values = [(name, value * (1 + number / 99_991), "ms") for name, value in names]
        rows += long_tables.rows(
            *values, testbed="box", run=f"r{number % 97}", trial=1 + number // 97, max_concurrency=""
        )
    return written(rows)


CASES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "valid guidellm/0.3": ("a.json", lambda size: grown_guidellm("0.3", size, guidellm_results.as_json)),
    "valid guidellm/0.8": ("a.json", lambda size: grown_guidellm("0.8", size, guidellm_results.as_json)),
    "valid guidellm/yaml": ("a.yaml", lambda size: grown_guidellm("0.3", size, flat_yaml)),
    "valid long-table/csv": ("a.csv", lambda size: table_of_trials(size, long_tables.as_csv)),
    "valid long-table/json": ("a.json", lambda size: table_of_trials(size, long_tables.as_json)),
    **{
        name: (sample.name, lambda size, name=name: grow(SAMPLES[name].make(), size))  # type: ignore[misc]
        for name, sample in SAMPLES.items()
    },
}


def write(path: Path, name: str, size: int) -> None:
    path.write_bytes(CASES[name][1](size))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--only", help="names that begin so")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        start = run_command([sys.executable, "-m", "regress_gate", "import", "--list-formats"], directory)
        for name in (name for name in CASES if name.startswith(arguments.only or "")):
            folder = directory / name.replace("/", "-").replace(" ", "-")
            folder.mkdir()
            path = folder / CASES[name][0]
            for other, data in (SAMPLES[name].beside if name in SAMPLES else {}).items():
                (folder / other).write_bytes(data)
            # In a process of its own: a child's peak memory is never less than its parent's.
            making = multiprocessing.get_context("spawn").Process(
                target=write, args=(path, name, arguments.megabytes * MIB)
            )
            making.start()
            making.join()
            size = path.stat().st_size
            asked = f"--version v0.19.1 --testbed bench --scenario chat -q --store sqlite:///{folder}/store.db"
            command = [sys.executable, "-m", "regress_gate", "import", str(path), *asked.split()]
            found = run_command(command, directory, expected=(0, 2), may_complain=True)
            path.unlink()
            share = max(found.peak - start.peak - FREE, 0) / size
            what = f"{name}, {size / MIB:.0f} MiB, {found.processor - start.processor:.1f} s"
            rows.append(Row(what, mebibytes(found.peak), "the file's size", share, MAX_SHARE))
            if found.peak > MAX_PEAK:
                rows.append(Row("    in all", mebibytes(found.peak), mebibytes(MAX_PEAK), found.peak / MAX_PEAK, 1.0))
            print(what, mebibytes(found.peak), f"{share:.2f}", file=sys.stderr, flush=True)
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
