"""A process that is not a descendant of the tests, like those of other users."""

import subprocess
import sys
from collections.abc import Iterator

import psutil

_START = """
import subprocess, sys
started = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(started.pid)
"""


def neighbour(code: str) -> Iterator[psutil.Process]:
    """Runs Python code until the test is over."""
    starter = subprocess.run([sys.executable, "-c", _START, code], capture_output=True, text=True, check=True)
    process = psutil.Process(int(starter.stdout))
    yield process
    process.kill()
