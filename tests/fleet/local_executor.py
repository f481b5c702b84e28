"""An engine of local processes: each host is a directory, and may be lost like a real one."""

import os
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from regress_gate.app.fleet import WORKER
from regress_gate.bench.fleet.executor import FleetHost, TaskReport, TaskState
from regress_gate.bench.fleet.worker_files import WorkerProcess
from regress_gate.bench.machine.reservation import DIRECTORY_VARIABLE


@dataclass
class LocalTask:
    host: str
    name: str
    worker: WorkerProcess
    lost: bool = False


@dataclass
class LocalExecutor:
    """Hosts by name; `tasks` are all that were begun, in order."""

    directory: Path
    names: list[str]
    tasks: list[LocalTask] = field(default_factory=list)
    closed: bool = False

    def hosts(self) -> list[FleetHost]:
        return [FleetHost(name, name) for name in self.names]

    def submit(self, host: FleetHost, task: str, name: str, *, alone: bool, seconds: float | None) -> LocalTask:  # noqa: ARG002 - the protocol's
        locks = self.directory / host.id
        locks.mkdir(parents=True, exist_ok=True)
        before = os.environ.get(DIRECTORY_VARIABLE)
        os.environ[DIRECTORY_VARIABLE] = str(locks)
        try:
            worker = WorkerProcess(Path(tempfile.mkdtemp(dir=self.directory)), task, WORKER)
        finally:
            os.environ[DIRECTORY_VARIABLE] = before or ""
        self.tasks.append(LocalTask(host.id, name, worker))
        return self.tasks[-1]

    def look(self, handle: LocalTask) -> TaskReport:
        if handle.lost:
            return TaskReport(TaskState.LOST, text="its host is gone")
        return handle.worker.look()

    def cancel(self, handle: LocalTask) -> None:
        handle.worker.stop()

    def close(self) -> None:
        for task in self.tasks:
            task.worker.wait()
        self.closed = True

    @property
    def blocks(self) -> list[LocalTask]:
        """Tasks that measure."""
        return [task for task in self.tasks if task.name != "survey"]


def kill_worker(task: LocalTask) -> None:
    """The process that measures, as the kernel does when there is no memory left."""
    for process in psutil.Process(task.worker.pid).children():
        process.send_signal(signal.SIGKILL)
