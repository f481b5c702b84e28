"""The directory of one task on its host: the task, what the worker says meanwhile, and the result.

The same for every engine. Only a whole result has its name, so that a worker that was killed has left none.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from regress_gate.bench.fleet.executor import TaskReport, TaskState
from regress_gate.files import replace_file

_SAY_EVERY = 1.0
"""Seconds between two counts of requests."""
_TASK, _PROGRESS, _RESULT = "task.json", "progress", "result.json"
STOP_WAIT = 60.0
"""Seconds that a worker may take to stop its servers."""


class WorkerFiles:
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write_task(self, text: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(self.directory / _TASK, text, mode=0o600)

    def read_task(self) -> str:
        return (self.directory / _TASK).read_text(encoding="utf-8")

    def write_result(self, text: str) -> None:
        replace_file(self.directory / _RESULT, text, mode=0o600)

    def read_result(self) -> str | None:
        """None: there is none yet, or never."""
        try:
            return (self.directory / _RESULT).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def read_lines(self, offset: int) -> tuple[list[list[Any]], int]:
        """What was said after so many bytes, and the bytes read by then. A line that is not whole is left for later."""
        try:
            with (self.directory / _PROGRESS).open("rb") as file:
                file.seek(offset)
                whole, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return [], offset
        return [json.loads(line) for line in whole.splitlines()], offset + len(whole) + len(end)

    def last_line(self) -> str:
        """What the worker itself printed last, in brackets; empty if nothing."""
        try:
            text = (self.directory / "log").read_text(encoding="utf-8", errors="replace").strip()
        except FileNotFoundError:
            return ""
        return f" ({text.splitlines()[-1][:200]})" if text else ""


class WorkerProgress:
    """A ProgressReporter that writes a line for each call: its name, and what it was given."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _PROGRESS
        self._next = 0.0

    def _write(self, *words: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(words) + "\n")

    def say(self, text: str) -> None:
        self._write("say", text)

    def requests(self, what: str, sent: int, total: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SAY_EVERY
            self._write("say", f"{what}, {sent} of {total} requests")

    def note(self, text: str) -> None:
        self._write("note", text)

    def warn(self, text: str) -> None:
        self._write("warn", text)

    def host(self, name: str, text: str | None) -> None:
        """A worker has no hosts."""

    def expect(self, seconds: float | None) -> None:
        """Of a single block: the loop over all knows more."""


class WorkerProcess:
    """A worker on this machine, for engines whose tasks are Python: start it, look at it, stop it."""

    def __init__(self, directory: Path, task: str, module: str) -> None:
        self._files = WorkerFiles(directory)
        self._files.write_task(task)
        self._offset = 0
        log = (directory / "log").open("wb")
        with log:
            # A session of its own: an engine that kills the process group of a task leaves the worker time to stop its
            # servers. It ends by itself when the process that started it is gone.
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter and a module of ours
                [sys.executable, "-m", module, str(directory), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def look(self) -> TaskReport:
        """What became of the task."""
        ended = self._process.poll() is not None
        lines, self._offset = self._files.read_lines(self._offset)
        if not ended:
            return TaskReport(TaskState.RUNNING, lines)
        result = self._files.read_result()
        if result is not None:
            return TaskReport(TaskState.DONE, lines, result)
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"status {code}"
        return TaskReport(TaskState.LOST, lines, f"its worker ended with {how}{self._files.last_line()}")

    def stop(self) -> None:
        """Ask the worker to end, which ends its servers first."""
        if self._process.poll() is None:
            self._process.terminate()

    def wait(self) -> None:
        """Until it has ended; one that does not is killed."""
        try:
            self._process.wait(STOP_WAIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
