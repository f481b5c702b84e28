"""How often `compare --measure` names the cause that was planted in a candidate first.

    PYTHONPATH=. python benchmarks/planted_causes.py --rounds 10

Each round is an experiment from end to end: servers are started (the fake vLLM, whose log and /metrics show what a real
one's do), a suite is measured in three blocks, and the program says why the candidate is slower. A round counts where
the planted cause is the first of every regression. Rounds differ by their seed, which moves every delay of a request
(by 5 %) and of a server start (by 2 %). The load is measured in virtual time, so that a busy machine changes nothing.
Exits 1 where a cause is named first in fewer than 9 of 10 rounds.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.cli.measuring.test_causes import SUITE
from tests.cli.measuring.unguarded import SIMULATED_VARIABLE
from tests.fake_vllm.environment import launch_line, write_behaviour

USUAL = (
    "--ttft=0.02", "--tpot=0.012", "--whole-at-once", "--jitter=0.05", "--run-spread=0.02",
    "--max-cudagraph-capture-size=512", "--tokens-per-request=400", "--moe-backend=TRITON",
)  # fmt: skip
PLANTED = {
    "preemptions": (
        "every third request is preempted, which costs 0.2 s",
        ["--preempt-every=3", "--preemption-cost=0.2"],
    ),
    "prefill_slower": ("prefill takes 40 ms and not 20 ms", ["--ttft=0.04"]),
    "graphs_smaller": (
        "graphs up to 8 requests and not 512: 16 take 1.5 times as long",
        ["--max-cudagraph-capture-size=8", "--uncaptured-slowdown=1.5"],
    ),
    "kv_cache_smaller": ("a KV cache for 12 of 16 requests", ["--kv-cache-tokens=4800"]),
}
"""By the finding that is to be named first: what is planted, and how."""
BOUND = 0.9


def first_causes(flags: Sequence[str], seed: int) -> set[str | None]:
    """The first causes of all regressions; empty where none was found."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        for made in (work, Path(folder, "home"), Path(folder, "locks")):
            made.mkdir()
        usual = [*USUAL, f"--seed={seed}"]
        suite = work / "causes.yaml"
        suite.write_text(SUITE, encoding="utf-8")
        environment = {
            **os.environ,
            **write_behaviour(work, {"0.19.0": usual, "0.19.1": [*usual, *flags]}),
            SIMULATED_VARIABLE: "0",
            "HOME": str(Path(folder, "home")),
            "REGRESS_GATE_LOCKS": str(Path(folder, "locks")),
            "REGRESS_GATE_STORE": str(work / "store.db"),
        }
        command = [sys.executable, "-m", "tests.cli.measuring.unguarded", "compare", "0.19.0", "0.19.1", "--measure"]
        command += ["--runs", "3", "--suite", str(suite), "--testbed", "lab", "--serve-command", launch_line()]
        command += ["--format", "json"]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
        explanations = json.loads(done.stdout)["explanations"]
    return {one["observed"][0]["finding"] if one["observed"] else None for one in explanations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="of each cause")
    parser.add_argument("--seed", type=int, default=4711)
    given = parser.parse_args()
    broken = False
    print("| planted | named first | in | else |\n| --- | --- | --- | --- |")
    for cause, (what, flags) in PLANTED.items():
        named = [first_causes(flags, given.seed + 1000 * number) for number in range(given.rounds)]
        right = sum(first == {cause} for first in named)
        others = sorted({str(name) for first in named for name in first or {None} if name != cause})
        broken |= right < BOUND * given.rounds
        print(f"| {what} | `{cause}` | {right} of {given.rounds} | {', '.join(others) or '-'} |", flush=True)
    sys.exit(broken)


if __name__ == "__main__":
    main()
