"""Faults of the whole fake server: deaths, and processes that are hard to end. Those of answers are in `server`."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import NoReturn

from tests.fake_vllm import log
from tests.fake_vllm.options import Options

SLEEP = "import time; time.sleep(3600)"
RUNAWAY = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"

DEATHS: dict[str, Callable[[], None] | signal.Signals | None] = {
    "memory": log.out_of_device_memory,
    "import": log.import_failed,
    "killed": signal.SIGKILL,
    "illegal": signal.SIGILL,
    "silent": None,
}
"""How to die: with a traceback, by a signal as the kernel sends it, or without any output."""


def refuse_arguments(options: Options) -> None:
    """End as vLLM does when it is given a flag that it does not know."""
    unknown = [
        word
        for word in (*options.engine_args, *options.launch_flags)
        if word.startswith("--") and word[2:].partition("=")[0].replace("-", "_") in options.reject_arg
    ]
    if unknown:
        log.unrecognized(unknown)
        sys.exit(2)


def die(how: str) -> NoReturn:
    cause = DEATHS[how]
    if isinstance(cause, signal.Signals):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), cause)
    elif cause is not None:
        cause()
    os._exit(1)


def ignore_sigterm() -> None:
    """For a child, which inherits it: set before the child can receive a signal."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def start_child(kind: str) -> None:
    """`stubborn`: ignores SIGTERM. `runaway`: in a session of its own, with a parent that has ended."""
    if kind == "runaway":
        subprocess.run([sys.executable, "-c", RUNAWAY], check=True)
    else:
        subprocess.Popen([sys.executable, "-c", SLEEP], preexec_fn=ignore_sigterm)
