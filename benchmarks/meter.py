"""What makes the meter quieter: one version against itself, measured in several ways on this machine.

    python benchmarks/meter.py v0.32.0 --blocks 3 --ways free,bound,resident --neighbour 0.0

`bound` is the suite as it is, one compute thread bound to one core, one server after the other; `free` leaves the
threads to vLLM; `resident` is `bound` with both servers of a block up and taking turns. `--neighbour 0.5` keeps half a
core busy in spells of 20 s. Printed is the standard deviation of logarithms, per metric the median over scenarios:

run     between server starts of the same version (pooled over both names of it)
pair    of the difference of the two runs of a block, over √2: what is left where blocks are compared as pairs
trial   between the passes of one run

Needs the version's environment (`regress-gate env add v0.32.0 --accelerator cpu`). Runs are not judged here: also void
ones count, and how many there were is said.
"""

import argparse
import json
import math
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from regress_gate import suites
from regress_gate.model.run import Run
from regress_gate.store.repository import open_store

METRICS = ("ttft_median", "tpot_median", "e2el_median", "output_throughput")
SPELL = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--ways", default="free,bound,resident")
    parser.add_argument("--neighbour", type=float, default=0.0, help="cores kept busy in spells")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        for way in given.ways.split(","):
            neighbour = multiprocessing.Process(target=burn, args=(given.neighbour,), daemon=True)
            if given.neighbour:
                neighbour.start()
            begin = time.monotonic()
            decision, runs = measure(way, given, Path(made))
            minutes = (time.monotonic() - begin) / 60
            if given.neighbour:
                neighbour.terminate()
            show(way, decision, runs, minutes)


def measure(way: str, given: argparse.Namespace, directory: Path) -> tuple[str, list[Run]]:
    """What the gate said of the version against itself, and the runs."""
    suite = directory / f"{way}.yaml"
    suite.write_text(suite_text(way), encoding="utf-8")
    store = directory / f"{way}.db"
    command = [sys.executable, "-m", "regress_gate", "calibrate", given.version, "--suite", str(suite)]
    command += ["--runs", str(given.blocks), "--trials", str(given.trials), "--store", str(store), "--format", "json"]
    command += ["--resident"] if way == "resident" else []
    told = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout
    with open_store(f"sqlite:///{store}", create=False) as opened:
        return json.loads(told)["decision"] if told else "nothing", opened.runs()


def suite_text(way: str) -> str:
    """cpu-tiny with no limit on conditions, so that no run is made again, and unbound where asked."""
    text = Path(suites.__file__).with_name("cpu-tiny.yaml").read_text(encoding="utf-8")
    text = text.replace("max_outside_cpu_cores: 0.3", "max_outside_cpu_cores: 9")
    return text.replace(', VLLM_CPU_OMP_THREADS_BIND: "1"', "") if way == "free" else text


def show(way: str, decision: str, runs: list[Run], minutes: float) -> None:
    served = [run for run in runs if run.trials]
    loads = [run.conditions.outside_cpu_cores or 0.0 for run in served]
    print(
        f"\n{way}: {len(served)} runs in {minutes:.1f} min, others kept {statistics.mean(loads):.2f} cores busy "
        f"(at most {max(loads):.2f}), {sum(len(run.trials) for run in served)} trials used; "
        f"the gate says {decision}"
    )
    print(f"{'metric':20}{'run':>8}{'pair':>8}{'trial':>8}")
    for name in METRICS:
        spreads = [spread for scenario in scenarios(served) if (spread := scatter(served, scenario, name))]
        columns = [[spread[i] for spread in spreads if spread[i] is not None] for i in range(3)]
        print(f"{name:20}" + "".join(f"{statistics.median(c):8.1%}" if c else f"{'-':>8}" for c in columns))


def scenarios(runs: list[Run]) -> list[str]:
    return sorted({trial.scenario for run in runs for trial in run.trials})


def scatter(runs: list[Run], scenario: str, name: str) -> tuple[float | None, float | None, float | None]:
    values: dict[int, dict[str, float]] = defaultdict(dict)
    everything, within = [], []
    for run in runs:
        logs = [math.log(t.metrics[name]) for t in run.trials if t.scenario == scenario and name in t.metrics]
        if logs and run.place is not None:
            values[run.place.block][run.place.side] = statistics.mean(logs)
            everything.append(statistics.mean(logs))
            within += [statistics.stdev(logs)] if len(logs) > 1 else []
    pairs = [block["baseline"] - block["candidate"] for block in values.values() if len(block) == 2]
    return (
        statistics.stdev(everything) if len(everything) > 1 else None,
        math.sqrt(statistics.mean(difference**2 for difference in pairs) / 2) if pairs else None,
        math.sqrt(statistics.mean(each**2 for each in within)) if within else None,
    )


def burn(cores: float) -> None:
    """Busy for a spell, idle for a spell; within a busy one, a share of every 50 ms."""
    while True:
        end = time.monotonic() + SPELL
        while time.monotonic() < end:
            stop = time.monotonic() + 0.05 * cores
            while time.monotonic() < stop:
                pass
            time.sleep(0.05 * (1 - cores))
        time.sleep(SPELL)


if __name__ == "__main__":
    main()
