"""`db prune --on`: each host deletes its own logs of servers, by what the store keeps. Each is a worker process."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regress_gate.app import fleet
from regress_gate.bench.fleet import fleet as fleet_module
from regress_gate.bench.fleet.executor import FleetHost, TaskReport, TaskState
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import StoredExperiment
from tests.cli.conftest import Gate, gate
from tests.fleet.local_executor import LocalExecutor, LocalTask

__all__ = ["gate"]


@dataclass
class SeparateHosts(LocalExecutor):
    """Each has directories of its own; one of them may be lost."""

    lost: set[str] = field(default_factory=set)

    def submit(self, host: FleetHost, *given: Any, **more: Any) -> LocalTask:
        with pytest.MonkeyPatch.context() as own:
            own.setenv("XDG_STATE_HOME", str(self.state(host.id)))
            own.setenv("TMPDIR", str(self.directory))
            return super().submit(host, *given, **more)

    def look(self, handle: LocalTask) -> TaskReport:
        if handle.host in self.lost:
            return TaskReport(TaskState.LOST, text="its node is gone")
        return super().look(handle)

    def state(self, host: str) -> Path:
        return self.directory / f"state-{host}"

    def logs(self, host: str) -> list[str]:
        return sorted(path.name for path in (self.state(host) / "regress-gate" / "logs").iterdir())


@pytest.fixture
def hosts(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> Iterator[SeparateHosts]:
    """Each has logs of an experiment that is gone, of one that has not ended, and of one of today."""
    executor = SeparateHosts(gate.directory / "hosts", ["h100-a", "h100-b"])
    executor.directory.mkdir()
    for name in executor.names:
        for experiment, age in (("gone", 100), ("unfinished", 100), ("young", 0)):
            path = executor.state(name) / "regress-gate" / "logs" / experiment
            path.mkdir(parents=True)
            (path / "server.log").write_bytes(b"x" * 2**20)
            when = time.time() - age * 86400
            for each in (path / "server.log", path):
                os.utime(each, (when, when))
    with open_store(f"sqlite:///{gate.store}", create=True) as store:
        store.begin_experiment(StoredExperiment("unfinished", datetime.now(UTC), {}))
    monkeypatch.setattr(fleet, "make_executor", lambda *_: executor)
    monkeypatch.setattr(fleet_module, "_POLL", 0.02)
    yield executor
    executor.close()


def test_hosts_say_first_what_they_have_and_then_delete_it(gate: Gate, hosts: SeparateHosts) -> None:
    asked = ("db", "prune", "--older-than", "30d", "--on", "ray")
    shown = gate(*asked, "--dry-run")
    assert shown.code == 0, shown.err
    assert shown.out.splitlines()[1:] == [
        "logs of 1 experiment on h100-a, 1.0 MiB",
        "logs of 1 experiment on h100-b, 1.0 MiB",
    ]
    assert hosts.logs("h100-a") == ["gone", "unfinished", "young"]
    deleted = gate(*asked, "--yes")
    assert deleted.out.splitlines()[-3:] == [
        "deleted 0 runs",
        "deleted logs of 1 experiment on h100-a, 1.0 MiB",
        "deleted logs of 1 experiment on h100-b, 1.0 MiB",
    ]
    assert [hosts.logs(name) for name in hosts.names] == [["unfinished", "young"]] * 2
    assert hosts.closed


def test_a_host_that_gives_no_answer_is_named(gate: Gate, hosts: SeparateHosts) -> None:
    hosts.lost.add("h100-a")
    pruned = gate("db", "prune", "--older-than", "30d", "--on", "ray", "--yes")
    assert pruned.code == 0
    assert "regress-gate: note: h100-a could not be asked: its node is gone\n" in pruned.err
    assert hosts.logs("h100-b") == ["unfinished", "young"]
    assert "gone" in hosts.logs("h100-a")


def test_without_an_engine_no_host_is_asked(gate: Gate, hosts: SeparateHosts) -> None:
    assert gate("db", "prune", "--older-than", "30d", "--yes").code == 0
    assert hosts.tasks == []
