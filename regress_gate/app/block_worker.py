"""`python -m regress_gate.app.block_worker DIRECTORY PARENT`: make the block that the task in this directory asks for.

An engine starts it on a host, with nothing but the task, and takes the result from the directory. Two processes watch
each other: one measures, the other ends the servers of one that was killed. Both end when their parent does, so that no
server outlives the engine's task. PARENT is the process that started this one; 0: the one that is the parent now.
"""

import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from regress_gate.bench.fleet.worker_files import WorkerFiles, WorkerProgress
from regress_gate.bench.server.recovery import end_orphan, find_orphans
from regress_gate.errors import InputError, RegressGateError

if TYPE_CHECKING:
    from regress_gate.app.settings import ProgressReporter
    from regress_gate.bench.experiment.experiment_runner import StoredRun
    from regress_gate.bench.fleet.block_task import BlockResult, BlockTask

TESTBED_VARIABLE = "REGRESS_GATE_TESTBED"
"""The name of a host as a testbed, in its own environment."""
_WORK = "--work"
_PARENT_POLL = 0.5
MACHINE_WAIT = 120.0
"""Seconds to wait at least for the servers of an attempt that was given up to end."""


def make_block(task: "BlockTask", progress: "ProgressReporter") -> "BlockResult":
    """Make all runs of the block as on this machine alone, and return them. Raises the errors of `run_experiment`."""
    # What measures is large, and the process that watches stays small without it.
    from regress_gate.app.experiment import run_experiment
    from regress_gate.app.measurement_task import MeasurementTask
    from regress_gate.app.provisioning import make_provisioner
    from regress_gate.app.settings import MeasurementAmount
    from regress_gate.bench.experiment.experiment_plan import suite_digest
    from regress_gate.bench.fleet.block_task import BlockResult
    from regress_gate.bench.machine.fingerprint import fingerprint
    from regress_gate.model.config import ProvisionConfig
    from regress_gate.model.suite import Suite
    from regress_gate.model.version import Version
    from regress_gate.store.repository import open_store

    if task.prune is not None:
        return _prune(task)
    suite = Suite.model_validate(task.suite)
    testbed = fingerprint(task.testbed or os.environ.get(TESTBED_VARIABLE) or None, accelerator=suite.accelerator)
    if task.plan is None:
        return BlockResult(testbed)
    plan = task.block_plan(testbed.name)
    if suite_digest(suite) != plan.suite_digest:
        raise InputError(f"a file of suite {plan.suite} is another one here", todo="copy it to every host")
    provisioning = ProvisionConfig.model_validate(task.provisioning)
    own = MeasurementTask(
        suite, testbed, {side: Version.parse(text) for side, text in plan.versions.items()}, provisioning, os.environ
    )
    amount = MeasurementAmount(
        ready_within=task.ready_within, wait_for_machine=max(task.wait_for_machine, MACHINE_WAIT)
    )
    provisioner = make_provisioner(provisioning, accelerator=testbed.accelerator, environ=os.environ)

    def tell(entry: "StoredRun", _: int, __: int) -> None:
        for note in entry.made.notes:  # the rest is told where the run is stored
            progress.note(f"block {task.block}: {note}")

    with (
        tempfile.TemporaryDirectory(prefix="regress-gate-") as directory,
        open_store(f"sqlite:///{directory}/block.db", create=True) as store,
    ):
        run_experiment(
            store,
            plan,
            own,
            amount,
            provisioner,
            progress,
            is_resumed=False,
            on_stored=tell,
            levels={scenario: tuple(rates) for scenario, rates in task.levels.items()},
        )
        return BlockResult(testbed, tuple(store.runs(with_samples=True)))


def _prune(task: "BlockTask") -> "BlockResult":
    """Find or delete what is old on this host."""
    # Large, as above.
    from regress_gate.app.old_files import find_old_files
    from regress_gate.bench.fleet.block_task import BlockResult
    from regress_gate.model.testbed import Testbed

    asked = task.prune or {}
    found = find_old_files(datetime.fromisoformat(asked["before"]), asked["kept"])
    if asked["delete"]:
        found = found.delete(asked["kept"])
    name = task.testbed or os.environ.get(TESTBED_VARIABLE) or platform.node() or "this-machine"
    return BlockResult(Testbed(name), old_files=found.counts())


def _work(directory: Path) -> None:
    """Make the task and write its result. A worker that is interrupted, or dies, writes none."""
    from regress_gate.bench.fleet.block_task import BlockResult, BlockTask  # large, as above

    files = WorkerFiles(directory)
    try:
        result = make_block(BlockTask.from_text(files.read_task()), WorkerProgress(directory))
        text = result.as_text()
    except (RegressGateError, OSError) as error:
        text = BlockResult(error=str(error)).as_text()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from here on it is whole
    files.write_result(text)


def _supervise(directory: Path, parent: int) -> int:
    """Start the process that measures, wait for it, and end what it has left if it was killed."""
    command = [sys.executable, "-m", "regress_gate.app.block_worker", str(directory), str(os.getpid()), _WORK]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - this module
    _watch_parent(parent, process.terminate)
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.terminate()
        code = process.wait()
    if code:
        for orphan in find_orphans():
            end_orphan(orphan)
        from regress_gate.bench.machine.reservation import release_clocks  # large, as above

        release_clocks(lambda text: print(text, flush=True))  # noqa: T201 - into the log of the task
    return code


def _watch_parent(parent: int, gone: Callable[[], None]) -> None:
    """Call `gone` once the process that started this one has ended, which it may have done before this one ran."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_POLL)
        gone()

    threading.Thread(target=watch, daemon=True).start()


def main(directory: str, parent: str, *how: str) -> int:
    """The exit status: 0 where there is a result, also one that says why the host cannot measure."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    known = int(parent) or os.getppid()
    if how != (_WORK,):
        return _supervise(Path(directory), known)
    _watch_parent(known, lambda: os.kill(os.getpid(), signal.SIGTERM))
    try:
        _work(Path(directory))
    except KeyboardInterrupt:
        return 128 + signal.SIGTERM
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
