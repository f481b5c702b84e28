"""Running another tool: to its end, or not at all."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from regress_gate.bench.drivers import driver_interface
from regress_gate.bench.drivers.driver_interface import run_tool
from regress_gate.bench.load.load_errors import LoadError

WITH_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""


class Impatient(subprocess.Popen[bytes]):
    """Reaches any time limit as soon as the tool has printed something."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None:
            return super().wait()
        deadline = time.monotonic() + 60
        while not Path("output.txt").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(self.args, timeout)


def test_a_tool_that_does_not_end_is_killed_with_its_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(driver_interface.subprocess, "Popen", Impatient)
    with pytest.raises(LoadError, match=r"did not end within 5 s: \d+"):
        run_tool([sys.executable, "-c", WITH_CHILD], tmp_path, tool="slow", limit=5.0)
    child = int((tmp_path / "output.txt").read_text())
    try:
        psutil.Process(child).wait(30)
    except psutil.NoSuchProcess:
        return


def test_a_file_that_cannot_be_run_is_said(tmp_path):
    program = tmp_path / "tool"
    program.write_text("no script")
    program.chmod(0o755)
    with pytest.raises(LoadError, match="tool does not start: Exec format error"):
        run_tool([str(program)], tmp_path, tool="tool")
