"""Nodes of a Slurm cluster. Each task is a batch job that is tied to its node and starts the worker there.

By Slurm's own commands, because they need no accounting, without which submitit does not learn how a job ended. What a
job is called with, and its result, lie in a directory that all nodes see.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regress_gate.accelerators.registry import accelerator_matches
from regress_gate.bench.fleet.executor import FleetError, FleetHost, TaskReport, TaskState
from regress_gate.bench.fleet.worker_files import STOP_WAIT, WorkerFiles
from regress_gate.errors import InputError

COMMANDS = ("sinfo", "sbatch", "squeue", "scancel")
_UP = ("idle", "mixed", "allocated", "completing")
"""States of nodes that take jobs, now or when others have ended. A mark behind the state (`idle*`: it does not answer)
is no part of it."""
_WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED")
_RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED")
ASK_EVERY = 2.0
"""Seconds between two questions to the controller, for all jobs at once."""
CONTROLLER_WAIT = 300.0
"""Seconds for which a controller may not answer, as while it is started again."""
RESULT_WAIT = 30.0
"""Seconds within which the result of a job that has ended is seen here: file systems are slow to tell."""
LONGER_BY = 4
"""Times what a block is expected to take, and an hour for the installation: the time limit of its job."""
_INSTALLATION = 3600.0
_ANSWER_WITHIN = 60.0
_IS_AWAY = re.compile("contact slurm controller|[Ss]ocket timed out|[Cc]onnection|TimeoutExpired")
"""In the words of Slurm's commands for a controller that does not answer."""
NOT_FOR_JOBS = ("REGRESS_GATE_STORE", "PGPASSWORD", "PGPASSFILE", "GITHUB_TOKEN", "GH_TOKEN")
"""Variables that hold secrets of the one who measures and that no block needs."""


@dataclass(slots=True)
class _Job:
    id: str
    files: WorkerFiles
    offset: int = 0
    """Bytes of its progress that were read."""
    ended: float | None = None
    """When it was first seen to have ended (time.monotonic)."""


class SlurmExecutor:
    """`partition` is Slurm's name of one; empty: the default. `accelerator` is the suite's; `module` is what nodes
    start; `directory` is seen by all nodes under this path."""

    def __init__(self, partition: str, accelerator: str | None, module: str, directory: Path) -> None:
        missing = [name for name in COMMANDS if shutil.which(name) is None]
        if missing:
            todo = "measure from a machine that submits jobs to the cluster"
            raise InputError(f"Slurm's {' and '.join(missing)} is not installed", where="--on", todo=todo)
        self._partition = [f"--partition={partition}"] if partition else []
        self._accelerator = accelerator
        self._module = module
        self._directory = directory
        self._gpus: dict[str, str] = {}
        """Of each node, as a request of a job."""
        self._states: dict[str, str] = {}
        """Of our jobs, by id."""
        self._asked = float("-inf")
        self._jobs: list[_Job] = []

    def hosts(self) -> list[FleetHost]:
        rows = [
            line.split("|")
            for line in self._run("sinfo", "--noheader", "--Node", "--format=%N|%T|%G", *self._partition)
        ]
        found = {}
        for name, state, resources in (row for row in rows if len(row) == 3):
            gpus = gpus_of(resources)
            if re.sub(r"\W+$", "", state) in _UP and not state.endswith("*") and self._fits(gpus):
                found[name] = gpus
        self._gpus |= {name: "" if gpus is None else gpus for name, gpus in found.items()}
        return [FleetHost(name, name) for name in sorted(found)]

    def _fits(self, gpus: str | None) -> bool:
        """Whether the node has what the suite is made for, as far as Slurm knows."""
        if self._accelerator in (None, "cpu"):
            return True
        if gpus is None:
            return False
        kinds = [part.split(":")[1] for part in gpus.split(",") if part.count(":") == 2]
        return not kinds or any(accelerator_matches(str(self._accelerator), kind) for kind in kinds)

    def submit(self, host: FleetHost, task: str, name: str, *, alone: bool, seconds: float | None) -> _Job:
        directory = self._directory / f"{name}-{host.id}-{os.getpid()}-{time.monotonic_ns()}"
        files = WorkerFiles(directory)
        files.write_task(task)
        script = directory / "job.sh"
        words = [sys.executable, "-m", self._module, str(directory), "0"]
        script.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n", encoding="utf-8")
        options = [f"--job-name=regress-gate-{name}", f"--nodelist={host.id}", "--nodes=1", "--no-requeue"]
        options += [f"--output={directory / 'log'}", "--exclusive" if alone else "--ntasks=1", *self._partition]
        if self._accelerator not in (None, "cpu") and self._gpus.get(host.id):
            options.append(f"--gres={self._gpus[host.id]}")
        if seconds is not None and "SBATCH_TIMELIMIT" not in os.environ:
            options.append(f"--time={int((LONGER_BY * seconds + _INSTALLATION) / 60) + 1}")
        (answer, *_) = [*self._run("sbatch", "--parsable", *options, str(script)), ""]
        job = _Job(answer.partition(";")[0].strip(), files)
        if not job.id.isdecimal():
            raise FleetError(f"Slurm's sbatch gave no number of a job ({answer[:200]!r})")
        self._jobs.append(job)
        self._asked = float("-inf")
        return job

    def look(self, handle: _Job) -> TaskReport:
        self._ask()
        lines, handle.offset = handle.files.read_lines(handle.offset)
        if (result := handle.files.read_result()) is not None:
            return TaskReport(TaskState.DONE, lines, result)
        state = self._states.get(handle.id, "")
        if state in _WAITING:
            return TaskReport(TaskState.WAITING, lines)
        if state in _RUNNING:
            handle.ended = None
            return TaskReport(TaskState.RUNNING, lines)
        handle.ended = handle.ended or time.monotonic()
        if time.monotonic() - handle.ended < RESULT_WAIT:
            return TaskReport(TaskState.RUNNING, lines)
        hint = ": give the jobs longer with SBATCH_TIMELIMIT" if state == "TIMEOUT" else ""
        text = f"its job {handle.id} ended as {state or 'unknown to Slurm'}{hint}{handle.files.last_line()}"
        return TaskReport(TaskState.LOST, lines, text)

    def cancel(self, handle: _Job) -> None:
        with suppress(FleetError):  # a controller that does not answer is asked again by `close`
            self._run("scancel", "--quiet", handle.id, patience=0)

    def close(self) -> None:
        until = time.monotonic() + STOP_WAIT
        with suppress(FleetError):
            while (there := [job.id for job in self._jobs if self._is_there(job)]) and time.monotonic() < until:
                self._run("scancel", "--quiet", *there, patience=0)
                time.sleep(ASK_EVERY)
                self._ask()
        for job in self._jobs:
            shutil.rmtree(job.files.directory, ignore_errors=True)

    def _is_there(self, job: _Job) -> bool:
        return self._states.get(job.id) in (*_WAITING, *_RUNNING)

    def _ask(self) -> None:
        """What became of our jobs, but not more often than the controller likes."""
        if time.monotonic() - self._asked < ASK_EVERY or not self._jobs:
            return
        ids = ",".join(job.id for job in self._jobs)
        try:
            rows = self._run("squeue", "--noheader", "--states=all", "--format=%i|%T", f"--jobs={ids}")
        except FleetError as error:
            if "Invalid job id" not in str(error):  # said where it remembers none of them any more
                raise
            rows = []
        self._asked = time.monotonic()
        self._states = dict(line.strip().split("|", 1) for line in rows if "|" in line)

    def _run(self, *words: str, patience: float = CONTROLLER_WAIT) -> list[str]:
        """The lines that a command prints. It is called again for so many seconds while the controller does not answer,
        as while that one is started again. Raises FleetError if it fails."""
        environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_JOBS}
        until = time.monotonic() + patience
        while True:
            try:
                done = subprocess.run(  # noqa: S603 - Slurm's own commands
                    words, capture_output=True, text=True, timeout=_ANSWER_WITHIN, check=False, env=environment
                )
                said = next(reversed(done.stderr.strip().splitlines()), f"status {done.returncode}")[:200]
                if not done.returncode:
                    return done.stdout.splitlines()
            except (OSError, subprocess.TimeoutExpired) as error:
                said = type(error).__name__
            if not _IS_AWAY.search(said) or time.monotonic() > until:
                raise FleetError(f"Slurm's {words[0]} failed ({said})")
            time.sleep(ASK_EVERY)


def gpus_of(resources: str) -> str | None:
    """What a job asks for to get all GPUs of a node, from sinfo's list of generic resources: `gpu:h100:8` from
    `gpu:h100:8(S:0-1),nvme:1`. None: it has none."""
    parts = re.sub(r"\([^)]*\)", "", resources).split(",")
    gpus = [part.strip() for part in parts if re.fullmatch(r"gpu(:[\w.-]+)?:\d+", part.strip())]
    return ",".join(gpus) or None
