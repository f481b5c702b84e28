"""A laboratory with a fleet of local processes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from regress_gate.app import fleet
from tests.cli.conftest import Gate, gate
from tests.cli.measuring.lab import QUICK, Lab
from tests.cli.measuring.unguarded import SIMULATED_VARIABLE
from tests.fake_vllm.environment import ROOT
from tests.fleet.local_executor import LocalExecutor
from tests.fleet.ray_cluster import RayCluster

__all__ = ["gate"]


class FleetLab(Lab):
    """The testbed is not named: the engine names its hosts."""

    on = "ray"

    def behave(self, versions: dict[str, list[str]], *, usual: tuple[str, ...] = QUICK) -> None:
        """The same, and the workers of its hosts still find their machine idle and measure in virtual time."""
        super().behave(versions, usual=usual)
        self._monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent / 'site'}:{ROOT}")

    def arguments(self, command: str, *more: object) -> list[str]:
        words = super().arguments(command, *more, "--on", self.on)
        at = len(words) - 1 - words[::-1].index("--testbed")
        return words[:at] + words[at + 2 :]


@pytest.fixture
def lab(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetLab]:
    lab = FleetLab(gate, monkeypatch)
    lab.simulate_load()
    monkeypatch.setenv(SIMULATED_VARIABLE, "0.05")
    yield lab
    lab.close()


@pytest.fixture
def engine(lab: FleetLab, monkeypatch: pytest.MonkeyPatch) -> Callable[..., LocalExecutor]:
    """Makes the engine that `--on` finds, with hosts of these names."""

    def make(*names: str) -> LocalExecutor:
        executor = LocalExecutor(lab.gate.directory / "hosts", list(names))
        executor.directory.mkdir(exist_ok=True)
        monkeypatch.setattr(fleet, "make_executor", lambda *_: executor)
        return executor

    return make


@pytest.fixture
def cluster(lab: FleetLab) -> Iterator[RayCluster]:
    cluster = RayCluster(lab.gate.directory / "nodes")
    lab.on = f"ray://127.0.0.1:{cluster.client_port}"
    yield cluster
    cluster.stop()
