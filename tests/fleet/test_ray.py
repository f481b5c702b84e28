"""A real Ray cluster on this machine: nodes with fake GPUs, and the fake vLLM."""

import os
import random
import time
from contextlib import suppress

import psutil
import pytest

from tests.cli.measuring.unguarded import SIMULATED_VARIABLE
from tests.fleet.conftest import FleetLab
from tests.fleet.ray_cluster import RayCluster

pytestmark = pytest.mark.engines


def test_a_comparison_is_measured_on_the_nodes_that_are_testbeds(lab: FleetLab, cluster: RayCluster) -> None:
    cluster.start("h100-a", "h100-b")
    made = lab("compare", "0.19.0", "0.19.1", "--measure", "--all-blocks", "--runs", "4")
    assert made.code == 0, made.err
    runs = [run for run in lab.runs() if run.place]
    assert sorted(run.place.block for run in runs if run.place) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert {run.testbed.name for run in runs} == {"h100-a", "h100-b"}
    assert len({(run.place.block, run.testbed.name) for run in runs if run.place}) == 4
    assert "PASS" in made.out
    assert lab.servers() == []


ROUNDS = int(os.environ.get("REGRESS_GATE_KILL_ROUNDS", "2"))
"""A worker and a node by default, which .ci/run has the time for; from 3 on the head, too, by hand."""
BLOCKS = 4


def check_round(lab: FleetLab) -> None:
    """Every block exactly once, by one host, without a failure, and no server left."""
    counted = [run for run in lab.runs() if run.void is None and run.place]
    assert sorted(run.place.block for run in counted if run.place) == sorted([*range(1, BLOCKS + 1)] * 2)
    assert len({(run.place.block, run.testbed.name) for run in counted if run.place}) == BLOCKS
    assert [run.failure for run in counted] == [None] * len(counted)
    deadline = time.monotonic() + 60
    while lab.servers():
        assert time.monotonic() < deadline, "a server is left"
        time.sleep(0.5)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_whatever_is_killed_each_block_is_there_once_and_the_verdict_stays(
    lab: FleetLab, cluster: RayCluster, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker, a node, or the head, at a random moment of the measurement."""
    monkeypatch.setenv(SIMULATED_VARIABLE, "1.5")
    luck = random.Random(number)
    kind = ("worker", "node", "head")[number % 3]
    cluster.start("h100-a", "h100-b")
    words = ("compare", "0.19.0", "0.19.1", "--measure", "--all-blocks", "--runs", BLOCKS)
    measuring = lab.start(*map(str, words))
    deadline = time.monotonic() + 120
    while not lab.servers() and measuring.poll() is None:
        assert time.monotonic() < deadline, "nothing is measured"
        time.sleep(0.1)
    time.sleep(luck.uniform(0, 6))
    if kind == "worker":
        kill_a_worker(luck)
    elif kind == "node":
        name = luck.choice(["h100-a", "h100-b"])
        cluster.kill(name)
        cluster.start_node(name)
    else:
        cluster.kill("head")
    out, err = measuring.communicate(timeout=300)
    if kind == "head":
        assert measuring.returncode in (0, 4), err
        cluster.stop()
        if measuring.returncode == 4:
            cluster.start("h100-a", "h100-b")
            measuring = lab.start(*map(str, words), "--resume")
            out, err = measuring.communicate(timeout=300)
    assert measuring.returncode == 0, err  # as undisturbed: the test above
    assert "PASS" in out
    check_round(lab)


def kill_a_worker(luck: random.Random) -> None:
    """The process that measures, or the one that watches it: as the kernel does when there is no memory left."""
    workers, own = [], os.environ["FAKE_VLLM_BEHAVIOUR"]
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if (
                "regress_gate.app.block_worker" in process.cmdline()
                and process.environ().get("FAKE_VLLM_BEHAVIOUR") == own
            ):
                workers.append(process)
    if workers:
        with suppress(psutil.NoSuchProcess):
            luck.choice(workers).kill()
