"""How many blocks an hour 2 and 3 hosts of a Ray cluster make, against one: 0.9 of as many times at least.

    PYTHONPATH=. python benchmarks/fleet_throughput.py [--seconds 40] [--blocks 2]

A real cluster on this machine with a fake server; what a host measures is a sleep of `--seconds` for each run, so that
hosts do not take the processor from each other. Counted is from the first run's start to the end of the last, with all
that lies between two blocks: collecting, storing, beginning the next. Needs the extras `ray` and `test`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from measure import Row, report

from regress_gate.bench.machine.reservation import DIRECTORY_VARIABLE
from regress_gate.model.run import Run
from regress_gate.store.repository import open_store
from tests.cli.measuring.lab import QUICK, SUITE
from tests.cli.measuring.unguarded import SIMULATED_VARIABLE
from tests.fake_vllm.environment import ROOT, launch_line, write_behaviour
from tests.fleet.ray_cluster import RayCluster

HOSTS = (1, 2, 3)
SHARE = 0.9


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="that each run of a block takes")
    parser.add_argument("--blocks", type=int, default=2, help="of each host")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "locks").mkdir()
        os.environ |= {
            **write_behaviour(directory, dict.fromkeys(("0.19.0", "0.19.1"), QUICK)),
            "HOME": name,
            DIRECTORY_VARIABLE: str(directory / "locks"),
            SIMULATED_VARIABLE: str(arguments.seconds),
            "PYTHONPATH": f"{ROOT / 'tests/fleet/site'}:{ROOT}",
        }
        suite = directory / "small.yaml"
        suite.write_text(SUITE.format(requests=6, warmup=2, tokens=6, margin=0.5, timeout=60), encoding="utf-8")
        cluster = RayCluster(directory / "nodes")
        try:
            cluster.start(*(f"host-{number}" for number in range(1, max(HOSTS) + 1)))
            rates = {hosts: blocks_per_hour(directory, suite, cluster, hosts, arguments.blocks) for hosts in HOSTS}
        finally:
            cluster.stop()
    one = rates[1]
    rows = []
    for hosts in HOSTS[1:]:
        found, promised = f"{rates[hosts]:.1f} blocks/h", f"{one:.1f} blocks/h on one"
        rows.append(Row(f"{hosts} hosts", found, promised, hosts * SHARE * one / rates[hosts], 1.0))
    return report(rows)


def blocks_per_hour(directory: Path, suite: Path, cluster: RayCluster, hosts: int, blocks: int) -> float:
    """Blocks of two runs an hour, with so many hosts of the cluster."""
    store = f"sqlite:///{directory}/{hosts}.db"
    words = ["compare", "0.19.0", "0.19.1", "--measure", "--all-blocks", "--runs", blocks * hosts, "--report-only"]
    words += ["--suite", suite, "--serve-command", launch_line(), "--store", store]
    words += ["--on", f"ray://127.0.0.1:{cluster.client_port}"]
    words += [word for number in range(1, hosts + 1) for word in ("--testbed", f"host-{number}")]
    program = [sys.executable, "-m", "tests.cli.measuring.unguarded"]
    subprocess.run([*program, *map(str, words)], check=True, capture_output=True)
    with open_store(store, create=False) as opened:
        runs = opened.runs()
    begin = min(run.started for run in runs if run.started)
    return 3600 * blocks * hosts / max(seconds_after(run, begin) for run in runs)


def seconds_after(run: Run, begin: datetime) -> float:
    """From `begin` to the end of the run."""
    assert run.started is not None
    assert run.place is not None
    return (run.started - begin).total_seconds() + (run.place.seconds or 0.0)


if __name__ == "__main__":
    sys.exit(main())
