"""A worker ends with the process that started it, even if that one was gone before the worker ran."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from regress_gate.app.fleet import WORKER
from tests.fake_vllm.environment import ROOT

STARTER = f"""
import os, subprocess, sys
worker = subprocess.Popen([sys.executable, "-m", "{WORKER}", sys.argv[1], str(os.getpid())], start_new_session=True)
print(worker.pid, flush=True)
"""
"""Starts a worker and ends at once."""


@pytest.mark.slow
def test_a_worker_whose_starter_was_gone_before_it_ran_ends(tmp_path):
    os.mkfifo(tmp_path / "task.json")  # nobody writes the task, so that nothing else ends the worker
    started = subprocess.run(
        [sys.executable, "-c", STARTER, tmp_path], capture_output=True, text=True, check=True, cwd=ROOT
    )
    worker = int(started.stdout)
    deadline = time.monotonic() + 60
    while psutil.pid_exists(worker) and psutil.Process(worker).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the worker goes on without anybody who waits for it"
        time.sleep(0.1)
