"""How much memory `regress-gate import` needs for a long file of JSON lines, as a share of the file's size.

    python benchmarks/import_memory.py [--megabytes N]

The file is an AIPerf `profile_export.jsonl`, one line for each request, made here from a fixed seed: 128 gaps between
chunks a line, with all the digits that AIPerf writes. Up to 8 million gaps the import keeps them all, beyond that a
histogram: memory grows with the file at first and hardly afterwards. A small file shows mostly the first part. Against
a process that does no more than `json.loads` on each line and keeps nothing.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import Row, mebibytes, report, run_command

SEED = 20261122
GAPS = 128
MAX_SHARE = 0.25
LINES_AT_ONCE = 500
LOAD_EACH = """
import json, sys
with open(sys.argv[1]) as file:
    for line in file:
        json.loads(line)
"""


def make_file(path: Path, size: int) -> None:
    generator = np.random.default_rng(SEED)
    number = 0
    with path.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            gaps = generator.gamma(9, 2.0, (LINES_AT_ONCE, GAPS))
            firsts = generator.gamma(9, 5.0, LINES_AT_ONCE)
            for first, line in zip(firsts.tolist(), gaps.tolist(), strict=True):
                file.write(json.dumps(_record(number, first, line)) + "\n")
                number += 1


def _record(number: int, first: float, gaps: list[float]) -> dict[str, object]:
    """What AIPerf writes of one request; milliseconds."""
    latency = first + sum(gaps)
    start = 1_795_000_000_000_000_000 + number * 100_000_000
    return {
        "metadata": {
            "session_num": number,
            "x_request_id": f"{number:036}",
            "request_start_ns": start,
            "request_end_ns": start + int(latency * 1e6),
            "worker_id": "worker_1",
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {
            "output_sequence_length": {"value": GAPS + 1, "unit": "tokens"},
            "input_sequence_length": {"value": 256, "unit": "tokens"},
            "time_to_first_token": {"value": first, "unit": "ms"},
            "request_latency": {"value": latency, "unit": "ms"},
            "inter_chunk_latency": {"value": gaps, "unit": "ms"},
        },
        "error": None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        path = directory / "profile_export.jsonl"
        # In a process of its own: a child's peak memory is never less than its parent's.
        spawn = multiprocessing.get_context("spawn")
        making = spawn.Process(target=make_file, args=(path, arguments.megabytes * 1_000_000))
        making.start()
        making.join()
        if making.exitcode:
            return 1
        size = path.stat().st_size
        flags = f"--version v0.19.1 --testbed bench --scenario chat -q --store sqlite:///{directory}/store.db"
        command = [sys.executable, "-m", "regress_gate", "import", str(path), *flags.split()]
        nothing = run_command([sys.executable, "-m", "regress_gate", "import", "--list-formats"], directory)
        load = run_command([sys.executable, "-c", LOAD_EACH, str(path)], directory)
        bare = run_command([*command, "--no-samples", "--dry-run"], directory)
        full = run_command(command, directory)
    rows = [Row("start of the program", mebibytes(nothing.peak))]
    for what, found in (("reading without samples", bare), ("import", full)):
        share = (found.peak - nothing.peak) / size
        rows.append(Row(f"{what}, {size / 1e6:.0f} MB", mebibytes(found.peak), "the file's size", share, MAX_SHARE))
        rows.append(Row("    its time", f"{found.seconds:.0f} s", f"{load.seconds:.0f} s (json.loads)"))
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
