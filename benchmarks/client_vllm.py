"""regress-gate's load client against the client of `vllm bench serve`: do they agree, and how much can each take?

    python benchmarks/client_vllm.py VLLM --tokenizer MODEL_DIR [--real] [--skip agreement|capacity|processes …]

VLLM is the executable of any environment that has vLLM (a CPU build is enough). Both clients get the same workload
(random prompts, exact lengths, closed loop) on the same server in turns, A B B A, each pass in a process of its own and
after a warm-up by the same client.

Agreement: the fake server's latencies are fixed and it writes down what it did, so that each client's number is held
against what the server did in that very pass. The bound is 2 % between the clients. Of several passes the least TTFT
counts, to which neighbours on the machine can only add, and the median TPOT.

Capacity: another tool's event loop cannot be watched from outside, so both are held to what can be: how long after
the server's sending the client stamps each chunk (same clock; p99 of half-second windows, lower quartile). A client has
capacity for the largest rate at which that is below 1 ms. Processor time per chunk is read from the process while its
requests run, and hardly depends on what else the machine does.

With --real a server of VLLM itself is measured too: only the clients' numbers against each other, with real noise.
"""

import argparse
import statistics
import sys
import tempfile
from math import inf
from pathlib import Path

from client_passes import Pass, Shape, own_pass, own_passes, vllm_pass
from client_servers import AnyServer, FakeServer, RealServer
from client_truth import COMPARED, over_truth
from measure import Row, report

OURS, THEIRS = "regress-gate", "vllm bench serve"
BOUND = 0.02
MAX_DELAY = 0.001
STREAMING = Shape(input_len=128, output_len=32, rounds=20)
"""Capacity in chunks: answers of 32 tokens, 10 ms each."""
SHORT = Shape(input_len=128, output_len=2, rounds=100)
"""Capacity in requests: answers of two tokens."""
HEAD = (
    "client           conc  chunks/s   req/s  µs/chunk  delay median ms  p99 ms  "
    "tpot p99 off by ms  own lag p99 ms  failed"
)


def in_turns(
    server: AnyServer, vllm: Path, tokenizer: str, blocks: int, concurrency: int, requests: int
) -> tuple[list[Pass], list[Pass]]:
    """Passes of regress-gate's client and of vLLM's: A B, B A, …"""
    shape = Shape(input_len=128, output_len=32, requests=requests)
    ours: list[Pass] = []
    theirs: list[Pass] = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for block in range(1, blocks + 1):
            for own in (True, False) if block % 2 else (False, True):
                if own:
                    ours.append(own_pass(server, shape, concurrency, folder, block))
                else:
                    theirs.append(vllm_pass(vllm, tokenizer, server, shape, concurrency, folder, block))
    return ours, theirs


def agreement(vllm: Path, tokenizer: str, blocks: int, concurrency: int, requests: int) -> list[Row]:
    with FakeServer(ttft=0.25, tpot=0.025) as server:
        passes = in_turns(server, vllm, tokenizer, blocks, concurrency, requests)
    rows = []
    for name in COMPARED:
        values = [[over_truth(done.metrics, done.truth)[name] for done in side] for side in passes]
        own, other = (min(side) if name.startswith("ttft") else statistics.median(side) for side in values)
        shown = [f"{chosen:.4f} (to {max(side):.4f})" for chosen, side in zip((own, other), values, strict=True)]
        apart = 1 + abs(own / other - 1)
        rows.append(Row(f"{name} over the server's own", shown[0], f"{shown[1]}, {THEIRS}", apart, 1 + BOUND))
    return rows


def capacity(vllm: Path, tokenizer: str, shape: Shape, levels: list[int], repeats: int) -> dict[str, list[Pass]]:
    """Passes of both clients under rising load, each on a server of its own."""
    passes: dict[str, list[Pass]] = {OURS: [], THEIRS: []}
    print(HEAD)
    for turn, concurrency in enumerate(concurrency for concurrency in levels for _ in range(repeats)):
        for name in (OURS, THEIRS) if turn % 2 == 0 else (THEIRS, OURS):
            with FakeServer(ttft=0.02, tpot=0.01, jitter=0.2) as server, tempfile.TemporaryDirectory() as made:
                if name == OURS:
                    done = own_pass(server, shape, concurrency, Path(made))
                else:
                    done = vllm_pass(vllm, tokenizer, server, shape, concurrency, Path(made), 1)
            print(f"{name:16} {concurrency:4d} {done.line}", flush=True)
            passes[name].append(done)
    return passes


def capacity_rows(passes: dict[str, list[Pass]], unit: str, per: int) -> list[Row]:
    reached = {
        name: max((one.chunks_per_second / per for one in done if one.delay_p99 <= MAX_DELAY), default=0.0)
        for name, done in passes.items()
    }
    cost = {name: statistics.median(one.cpu_per_chunk for one in done) * per * 1e6 for name, done in passes.items()}
    ratio = reached[THEIRS] / reached[OURS] if reached[OURS] else inf
    return [
        Row(f"{unit} a second with p99 delay below 1 ms", *_both(reached, ""), ratio, 1.0),
        Row(f"processor time for one of the {unit}", *_both(cost, " µs"), cost[OURS] / cost[THEIRS], 1.0),
    ]


def _both(values: dict[str, float], unit: str) -> tuple[str, str]:
    return f"{values[OURS]:.0f}{unit}", f"{values[THEIRS]:.0f}{unit}, {THEIRS}"


def processes(counts: list[int], concurrency: int) -> None:
    """Several processes of regress-gate's client at once, each with a fake server of its own."""
    print("processes  chunks/s  per process  µs/chunk  delay p99 ms (worst)")
    for count in counts:
        done = own_passes(count, STREAMING, concurrency)
        total = sum(each.chunks_per_second for each in done)
        cpu = statistics.mean(each.cpu_per_chunk for each in done)
        worst = max(each.delay_p99 for each in done)
        print(f"{count:9d}  {total:8.0f}  {total / count:11.0f}  {cpu * 1e6:8.1f}  {worst * 1e3:12.2f}", flush=True)


def real(vllm: Path, tokenizer: str, blocks: int, concurrency: int, requests: int) -> list[Row]:
    with RealServer(vllm, tokenizer) as server:
        in_turns(server, vllm, tokenizer, 1, concurrency, 2 * concurrency)  # a server's first requests are slow
        passes = in_turns(server, vllm, tokenizer, blocks, concurrency, requests)
    rows = []
    for name in (*COMPARED, "output_throughput"):
        unit, factor = ("tokens/s", 1.0) if name == "output_throughput" else ("ms", 1e3)
        values = [[done.metrics[name] * factor for done in side] for side in passes]
        shown = [f"{statistics.median(side):.1f} {unit} ({min(side):.1f} to {max(side):.1f})" for side in values]
        own, other = (statistics.median(side) for side in values)
        rows.append(Row(f"{name}, real server", shown[0], f"{shown[1]}, {THEIRS}", own / other))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vllm", type=Path, help="executable of the vLLM whose client is compared")
    parser.add_argument("--tokenizer", required=True, help="directory of a model, for the prompts of vLLM's client")
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1, help="passes of each client at each level")
    parser.add_argument("--requests", type=int, default=200, help="of each pass of the agreement")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--levels", type=int, nargs="+", default=[16, 32, 64, 128, 192, 256])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--skip", choices=("agreement", "capacity", "processes"), action="append", default=[])
    parser.add_argument(
        "--real", action="store_true", help="also a real server of that vLLM, with the tokenizer's model"
    )
    told = parser.parse_args()
    rows: list[Row] = []
    if "agreement" not in told.skip:
        rows += agreement(told.vllm, told.tokenizer, told.blocks, told.concurrency, told.requests)
    if "capacity" not in told.skip:
        for shape, unit, per in ((STREAMING, "chunks", 1), (SHORT, "requests", SHORT.output_len)):
            rows += capacity_rows(capacity(told.vllm, told.tokenizer, shape, told.levels, told.repeats), unit, per)
    if "processes" not in told.skip:
        processes(told.processes, 48)
    if told.real:
        rows += real(told.vllm, told.tokenizer, told.blocks, 4, told.requests)
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
