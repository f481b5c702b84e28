"""A real Slurm with two nodes on this machine, and the fake vLLM."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from regress_gate.bench.fleet.slurm_executor import gpus_of
from tests.cli.measuring.unguarded import SIMULATED_VARIABLE
from tests.fleet.conftest import FleetLab
from tests.fleet.slurm_cluster import SlurmCluster, is_installed
from tests.fleet.test_ray import BLOCKS, ROUNDS, check_round, kill_a_worker


@pytest.fixture
def slurm(
    lab: FleetLab, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlurmCluster]:
    directory: Path = tmp_path_factory.mktemp("slurm")
    monkeypatch.setenv("SLURM_CONF", str(directory / "slurm.conf"))
    lab.on = "slurm"
    cluster = SlurmCluster(directory, "h100-a", "h100-b")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    ("resources", "request_"),
    [
        ("gpu:h100:8(S:0-1)", "gpu:h100:8"),
        ("gpu:8", "gpu:8"),
        ("gpu:a100:4(S:0,2),gpu:h100:2,nvme:1", "gpu:a100:4,gpu:h100:2"),
        ("(null)", None),
        ("nvme:1", None),
    ],
)
def test_a_block_gets_all_gpus_of_a_node(resources: str, request_: str | None) -> None:
    assert gpus_of(resources) == request_


@pytest.mark.engines
@pytest.mark.skipif(not is_installed(), reason="Debian's slurmctld, slurmd, slurm-client and munge, and root")
class TestOnRealSlurm:
    @pytest.mark.usefixtures("slurm")
    def test_a_comparison_is_measured_on_its_nodes(self, lab: FleetLab) -> None:
        made = lab("compare", "0.19.0", "0.19.1", "--measure", "--all-blocks", "--runs", "4")
        assert made.code == 0, made.err
        runs = [run for run in lab.runs() if run.place]
        assert sorted(run.place.block for run in runs if run.place) == [1, 1, 2, 2, 3, 3, 4, 4]
        assert {run.testbed.name for run in runs} == {"h100-a", "h100-b"}
        assert len({(run.place.block, run.testbed.name) for run in runs if run.place}) == 4
        assert lab.servers() == []

    @pytest.mark.parametrize("number", range(ROUNDS))
    def test_whatever_is_killed_each_block_is_there_once_and_the_verdict_stays(
        self, lab: FleetLab, slurm: SlurmCluster, number: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A worker, a node, or the controller, at a random moment of the measurement."""
        monkeypatch.setenv(SIMULATED_VARIABLE, "1.5")
        luck = random.Random(number)
        words = ("compare", "0.19.0", "0.19.1", "--measure", "--all-blocks", "--runs", BLOCKS)
        measuring = lab.start(*map(str, words))
        deadline = time.monotonic() + 120
        while not lab.servers() and measuring.poll() is None:
            assert time.monotonic() < deadline, "nothing is measured"
            time.sleep(0.1)
        time.sleep(luck.uniform(0, 6))
        part = ("worker", luck.choice(["h100-a", "h100-b"]), "controller")[number % 3]
        if part == "worker":
            kill_a_worker(luck)
        else:
            slurm.kill(part)
            time.sleep(luck.uniform(0, 5))
            (slurm.start_controller if part == "controller" else lambda: slurm.start_node(part))()
        out, err = measuring.communicate(timeout=300)
        assert measuring.returncode == 0, err
        assert "PASS" in out
        check_round(lab)

    @pytest.mark.usefixtures("slurm")
    def test_each_node_says_which_logs_of_servers_it_can_do_without(self, lab: FleetLab) -> None:
        assert lab.gate("baseline", "pin", "v0.19.0", "--unmeasured").code == 0  # makes the store
        log = lab.gate.directory.parent / "home/.local/state/regress-gate/logs/gone/server.log"
        log.parent.mkdir(parents=True)
        log.write_bytes(b"x" * 2**20)
        for path in (log, log.parent):
            os.utime(path, (0, 0))
        asked = lab.gate("db", "prune", "--older-than", "30d", "--on", "slurm", "--dry-run")
        assert (asked.code, asked.err) == (0, "")
        assert asked.out.splitlines()[-2:] == [  # both share the home of this machine
            "logs of 1 experiment on h100-a, 1.0 MiB",
            "logs of 1 experiment on h100-b, 1.0 MiB",
        ]
        assert lab.gate("db", "prune", "--older-than", "30d", "--on", "slurm", "--yes").code == 0
        assert not log.exists()

    @pytest.mark.usefixtures("slurm")
    def test_no_secret_of_the_one_who_measures_reaches_a_job(
        self, lab: FleetLab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PGPASSWORD", "s3cret")
        monkeypatch.setenv("KEPT", "yes")
        seen: list[tuple[str | None, str | None]] = []
        with lab.start("run", "0.19.0", "--runs", "1") as measuring:
            deadline = time.monotonic() + 120
            while not seen and measuring.poll() is None and time.monotonic() < deadline:
                environments = [server.environ() for server in lab.servers()]
                seen = [(each.get("PGPASSWORD"), each.get("KEPT")) for each in environments]
                time.sleep(0.05)
            measuring.communicate(timeout=120)
        assert set(seen) == {(None, "yes")}
