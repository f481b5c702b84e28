"""How fast `regress-gate import` stores results of `vllm bench serve`, and how small it keeps them.

    python benchmarks/import_speed.py [--files N] [--requests N[,N…]] [--tokens N] [--small N] [--rounds N]

Two kinds: `--files` detailed results of `--requests` requests (several numbers take turns) with `--tokens` output
tokens each, and `--small` ones without details (1 kB each), for which the work on each file weighs more than its bytes.

The whole command, with every check it makes, against a process that does no more than `json.load` on the same files.
The files are made here, from a fixed seed. Their times have all the
digits that a difference of two clock readings has, and the generated texts are empty: the import drops them, so any
text would only make its store look smaller. Not for trying the readers on real files: that is import_survey.py.
"""

import argparse
import json
import multiprocessing
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from measure import Measured, Row, mebibytes, report, run_command

REQUESTS, INPUT_TOKENS, OUTPUT_TOKENS, CONCURRENCY = (200,), 256, 128, 8
SEED = 20261121
MAX_TIME, MAX_SIZE = 3.0, 0.40
LOAD_ALL = """
import json, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    with path.open() as file:
        json.load(file)
"""
LEAST = """
import json, pathlib, sqlite3, sys, time
_, files, store, new = sys.argv
made = sqlite3.connect(store)
tables = made.execute("select name, sql from sqlite_master where type = 'table' and name not like 'sqlite%'").fetchall()
indexes = made.execute("select sql from sqlite_master where type = 'index' and sql is not null").fetchall()
rows = {name: made.execute(f"select * from {name}").fetchall() for name, _ in tables}
begun = time.perf_counter()
for path in sorted(pathlib.Path(files).iterdir()):
    with path.open() as file:
        json.load(file)
database = sqlite3.connect(new, isolation_level=None)
for setting in ("auto_vacuum = full", "journal_mode = wal", "foreign_keys = on"):
    database.execute(f"pragma {setting}")
database.execute("begin")
for (statement,) in [(sql,) for _, sql in tables] + indexes:
    database.execute(statement)
for name, values in rows.items():
    if values:
        database.executemany(f"insert into {name} values ({','.join('?' * len(values[0]))})", values)
database.execute("commit")
database.close()
print(time.perf_counter() - begun)
"""
"""The least possible work: reading the files, and writing the rows that an import writes."""


def make_files(directory: Path, files: int, detailed: bool, requests: Sequence[int], tokens: int) -> None:
    generator = np.random.default_rng(SEED)
    for number in range(files):
        result = _result(generator, requests[number % len(requests)], tokens)
        if not detailed:
            result = {key: value for key, value in result.items() if not isinstance(value, list)}
        (directory / f"run{number:05d}.json").write_text(json.dumps(result), encoding="utf-8")


def _result(generator: np.random.Generator, requests: int, tokens: int) -> dict[str, Any]:
    """What the client writes with --save-result --save-detailed, with statistics that fit the samples."""
    gaps = np.concatenate(
        [generator.gamma(9, 0.005, (requests, 1)), generator.gamma(9, 0.001, (requests, tokens - 1))], axis=1
    )
    # The client's clock counts nanoseconds from the machine's start; its differences carry the rounding of that.
    sent = generator.uniform(0, 100_000, (requests, 1))
    times = np.diff(np.round(np.concatenate([sent, sent + np.cumsum(gaps, axis=1)], axis=1), 9), axis=1)
    ttft, itl, latency = times[:, 0], times[:, 1:], times.sum(axis=1)
    duration = float(latency.sum() / CONCURRENCY * 1.1)
    families = {"ttft": ttft, "tpot": itl.mean(axis=1), "itl": itl.ravel()}
    return {
        "date": "20261121-101500",
        "endpoint_type": "openai",
        "backend": "openai",
        "label": None,
        "model_id": "org/model",
        "tokenizer_id": "org/model",
        "num_prompts": requests,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": CONCURRENCY,
        "duration": duration,
        "completed": requests,
        "failed": 0,
        "total_input_tokens": requests * INPUT_TOKENS,
        "total_output_tokens": requests * tokens,
        "request_throughput": requests / duration,
        "request_goodput": None,
        "output_throughput": requests * tokens / duration,
        "total_token_throughput": requests * (INPUT_TOKENS + tokens) / duration,
        "input_lens": [INPUT_TOKENS] * requests,
        "output_lens": [tokens] * requests,
        "ttfts": ttft.tolist(),
        "itls": itl.tolist(),
        "generated_texts": [""] * requests,
        "errors": [""] * requests,
        **{
            f"{name}_{family}_ms": float(value) * 1000
            for family, values in families.items()
            for name, value in (
                ("mean", values.mean()),
                ("median", np.median(values)),
                ("std", values.std()),
                ("p99", np.percentile(values, 99)),
            )
        },
    }


def import_of(results: Path, store: Path) -> list[str]:
    asked = f"-m regress_gate import {results} --version v0.19.1 --testbed bench --run-per-file -q"
    return [sys.executable, *asked.split(), "--store", f"sqlite:///{store}"]


def measured(files: int, rounds: int, *, detailed: bool, requests: Sequence[int], tokens: int) -> list[Row]:
    """The whole command against loading, in turns."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        results = directory / "results"
        results.mkdir()
        # In a process of its own: a child's peak memory is never less than its parent's.
        making = multiprocessing.get_context("spawn").Process(
            target=make_files, args=(results, files, detailed, requests, tokens)
        )
        making.start()
        making.join()
        if making.exitcode:
            raise RuntimeError("the files could not be made")
        size = sum(path.stat().st_size for path in results.iterdir())
        loads: list[Measured] = []
        imports: list[Measured] = []
        starts: list[Measured] = []
        least: list[float] = []
        kept = 0
        # The first round fills the caches of files and byte code, and does not count.
        for number in range(rounds + 1):
            loads.append(run_command([sys.executable, "-c", LOAD_ALL, str(results)], directory))
            store = directory / f"store{number}.db"
            imports.append(run_command(import_of(results, store), directory))
            with closing(sqlite3.connect(store)) as database:
                (trials,) = database.execute(f"select count(*) from {'samples' if detailed else 'trial'}").fetchone()
            if trials != files:
                raise RuntimeError(f"{trials} results were stored, not {files}")
            if not detailed:
                said = directory / "least.txt"
                script = [sys.executable, "-c", LEAST, str(results), str(store), str(directory / f"{store.name}-least")]
                run_command(script, directory, output=said)
                least.append(float(said.read_text()))
                starts.append(run_command(import_of(next(results.iterdir()), directory / f"one{number}.db"), directory))
            stored = [path for path in directory.glob(store.name + "*") if "least" not in path.name]
            kept = sum(path.stat().st_size for path in stored)
            for path in stored:
                path.unlink()
    load, import_ = (statistics.median(run.seconds for run in runs[1:]) for runs in (loads, imports))
    peak = max(run.peak for run in imports)
    what = f"{files} {'detailed' if detailed else 'small'} files, {size / 1e6:.0f} MB"
    rows = [
        Row(f"import of {what}", f"{import_:.2f} s", f"{load:.2f} s (json.load)", import_ / load, MAX_TIME),
        Row("    rate of the import", f"{size / 1e6 / import_:.0f} MB/s", f"{size / 1e6 / load:.0f} MB/s (json.load)"),
        Row("    peak memory", mebibytes(peak), f"{mebibytes(max(run.peak for run in loads))} (json.load)"),
    ]
    if detailed:
        rows.append(
            Row("    the store", f"{kept / 1e6:.1f} MB", f"{size / 1e6:.1f} MB (the files)", kept / size, MAX_SIZE)
        )
    else:
        limit, start = statistics.median(least[1:]), statistics.median(run.seconds for run in starts[1:])
        rows[1:1] = [
            Row(f"    {what}", f"{seconds:.2f} s", f"{load:.2f} s (json.load)", seconds / load)
            for what, seconds in (("json.load and the same rows by sqlite3", limit), ("import of one of them", start))
        ]
        grown = (peak - max(run.peak for run in loads)) / files
        rows.append(Row("    memory a file", f"{grown / 1024:.0f} KiB", "50 KiB", grown / 1024 / 50, 1.0))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--requests", type=lambda text: [int(part) for part in text.split(",")], default=REQUESTS)
    parser.add_argument("--tokens", type=int, default=OUTPUT_TOKENS)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows: list[Row] = []
    if arguments.files:
        asked = {"requests": arguments.requests, "tokens": arguments.tokens}
        rows += measured(arguments.files, arguments.rounds, detailed=True, **asked)
    if arguments.small:
        rows += measured(arguments.small, arguments.rounds, detailed=False, requests=REQUESTS, tokens=OUTPUT_TOKENS)
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
