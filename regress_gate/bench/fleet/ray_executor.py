"""Hosts of a Ray cluster. Each task is an actor that is tied to its node and starts the worker there.

This program is a client of the cluster (port 10001 of the head), not a part of it: a head that dies ends the
measurement with an error, not this process. Every host needs the same Ray, Python and regress-gate.
"""

import os
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from regress_gate.accelerators.registry import VISIBLE_VARIABLES, accelerator_matches
from regress_gate.bench.fleet.executor import FleetError, FleetHost, TaskReport, TaskState
from regress_gate.bench.fleet.worker_files import STOP_WAIT, WorkerProcess
from regress_gate.errors import InputError

CLIENT_PORT = 10001
CONNECTIONS = 3
"""Times that a head is asked which answers and does not get ready."""
TESTBED_RESOURCE = "testbed:"
"""Before the name of a host, in the custom resource that names it as a testbed."""
_TYPE_RESOURCE = "accelerator_type:"
_ACCELERATORS = ("GPU", "NPU", "HPU", "TPU")
_SET_BY_RAY = ("OMP_NUM_THREADS", *VISIBLE_VARIABLES)
"""What Ray sets for each task, and would change what is measured. A block has the whole node."""


class NodeWorker:
    """Runs as an actor on the node: holds the worker process, which ends with it."""

    def __init__(self, task: str, module: str) -> None:
        node = psutil.Process(os.getppid()).environ()
        for name in _SET_BY_RAY:
            os.environ.pop(name, None)
            os.environ.update({name: node[name]} if name in node else {})
        self._directory = tempfile.TemporaryDirectory(prefix="regress-gate-block-")
        self._worker = WorkerProcess(Path(self._directory.name), task, module)

    def look(self) -> TaskReport:
        return self._worker.look()

    def end(self) -> None:
        """Returns when the worker and its servers have ended."""
        self._worker.stop()
        self._worker.wait()
        self._directory.cleanup()


@dataclass(slots=True)
class _RayTask:
    actor: Any
    answer: Any = None
    """To the look that is under way."""
    has_begun: bool = False
    """Whether it is known to have its node."""
    ending: Any = None
    """Answers when its servers have ended."""


class RayExecutor:
    """`head` is HOST or HOST:PORT of the cluster's server for clients; empty: this machine's. `accelerator` is the
    suite's; `module` is what hosts start."""

    def __init__(self, head: str, accelerator: str | None, module: str) -> None:
        try:
            import ray  # an extra, and slow
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy  # as above
        except ImportError:
            todo = "install vllm-regress-gate[ray] here and on every host"
            raise InputError("Ray is not installed", where="--on", todo=todo) from None
        self._ray: Any = ray
        self._at_node: Any = NodeAffinitySchedulingStrategy
        self._accelerator = accelerator
        self._module = module
        self._resources: dict[str, dict[str, float]] = {}
        """Of each node, by id."""
        self._ending: list[_RayTask] = []
        host, _, port = (head or "127.0.0.1").partition(":")
        self._address = f"ray://{host}:{port or CLIENT_PORT}"
        self._connect()

    def _connect(self) -> None:
        """Once more where the head answers and does not get ready, as one does that has much else to do: it gives
        itself a fixed time."""
        for attempt in range(1, CONNECTIONS + 1):
            try:
                self._ray.init(self._address, log_to_driver=False, logging_level="ERROR")
            except Exception as error:
                if attempt == CONNECTIONS or "Initialization failure" not in str(error):
                    raise self._failure(error) from None
                self._ray.shutdown()
            else:
                return

    def _failure(self, error: Exception) -> FleetError:
        """Ray raises many kinds of errors for a cluster that is gone; none says anything about a version."""
        if "No module named 'regress_gate'" in str(error):
            text = f"the head of {self._address} lacks regress-gate; install vllm-regress-gate[ray] there, too"
            return FleetError(text)
        return FleetError(f"the Ray cluster at {self._address} does not answer ({_first_line(error)})")

    def hosts(self) -> list[FleetHost]:
        try:
            nodes = [node for node in self._ray.nodes() if node["Alive"] and self._fits(node["Resources"])]
        except Exception as error:
            raise self._failure(error) from None
        self._resources |= {node["NodeID"]: node["Resources"] for node in nodes}
        hosts = [FleetHost(node["NodeID"], _testbed_name(node["Resources"])) for node in nodes]
        # Where some nodes are named as testbeds, the others are not meant: the head, for one.
        return [host for host in hosts if host.testbed] or hosts

    def _fits(self, resources: dict[str, float]) -> bool:
        """Whether the node has what the suite is made for, as far as Ray knows."""
        if self._accelerator in (None, "cpu"):
            return bool(resources.get("CPU"))
        types = [name.removeprefix(_TYPE_RESOURCE) for name in resources if name.startswith(_TYPE_RESOURCE)]
        has_type = not types or any(accelerator_matches(str(self._accelerator), name) for name in types)
        return has_type and any(resources.get(name) for name in _ACCELERATORS)

    def submit(self, host: FleetHost, task: str, name: str, *, alone: bool, seconds: float | None) -> _RayTask:  # noqa: ARG002 - the protocol's
        wanted = {"num_cpus": 0.0, "num_gpus": 0.0, "resources": {}}
        if alone:
            has = self._resources[host.id]
            own = [each for each in has if each in _ACCELERATORS[1:] or each.startswith(TESTBED_RESOURCE)]
            wanted = {"num_cpus": has.get("CPU", 0.0), "num_gpus": has.get("GPU", 0.0)}
            wanted["resources"] = {each: has[each] for each in own}
        try:
            remote = self._ray.remote(NodeWorker).options(
                scheduling_strategy=self._at_node(host.id, soft=False),
                max_restarts=0,
                max_task_retries=0,
                **wanted,
            )
            return _RayTask(remote.remote(task, self._module))
        except Exception as error:
            raise self._failure(error) from None

    def look(self, handle: _RayTask) -> TaskReport:
        self._end_finished()
        ray = self._ray
        try:
            handle.answer = handle.answer or handle.actor.look.remote()
            if not ray.wait([handle.answer], timeout=0)[0]:
                return TaskReport(TaskState.RUNNING if handle.has_begun else TaskState.WAITING)
            answer, handle.answer = handle.answer, None
            report: TaskReport = ray.get(answer)
        except _losses(ray.exceptions) as error:
            return TaskReport(TaskState.LOST, text=f"its node or its process is gone ({_first_line(error)})")
        except Exception as error:
            raise self._failure(error) from None
        handle.has_begun = True
        return report

    def cancel(self, handle: _RayTask) -> None:
        with suppress(Exception):  # a cluster that is gone has no task either
            if handle.has_begun:
                handle.ending = handle.actor.end.remote()
                self._ending.append(handle)
            else:
                self._ray.kill(handle.actor)

    def _end_finished(self, within: float = 0) -> None:
        """Give back the nodes of tasks that have ended, or of all after so many seconds."""
        ending, self._ending = self._ending, []
        until = time.monotonic() + within
        for task in ending:
            with suppress(Exception):  # as above
                left = max(0.0, until - time.monotonic())
                if self._ray.wait([task.ending], timeout=left)[0] or within:
                    self._ray.kill(task.actor)
                else:
                    self._ending.append(task)

    def close(self) -> None:
        self._end_finished(STOP_WAIT)
        self._ray.shutdown()


def _losses(exceptions: Any) -> tuple[type[Exception], ...]:
    """What Ray raises for a task whose node or process is gone, also between its end and the fetching of its result,
    and for one that cannot be started there. Everything else is said of the cluster."""
    names = ("RayActorError", "ActorUnschedulableError", "ObjectLostError", "NodeDiedError", "WorkerCrashedError")
    return tuple(getattr(exceptions, name) for name in (*names, "RayTaskError"))


def _first_line(error: Exception) -> str:
    return (next(iter(str(error).strip().splitlines()), "") or type(error).__name__)[:200]


def _testbed_name(resources: dict[str, float]) -> str | None:
    names = (name.removeprefix(TESTBED_RESOURCE) for name in resources if name.startswith(TESTBED_RESOURCE))
    return next(names, None)
