"""Deaths and bad manners of the whole fake server. Faults of single answers are in `server`."""

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
"""How to die: with a traceback, by a signal as the kernel sends it, or without a word."""


def refuse_arguments(options: Options) -> None:
    """End as vLLM does when it is given a flag that it does not know."""
    unknown = [
        word
        for word in options.engine_args
        if word.startswith("--") and word[2:].partition("=")[0].replace("-", "_") in options.reject_arg
    ]
    if unknown:
        log.unrecognized(unknown)
        sys.exit(2)


def die(how: str) -> NoReturn:
    manner = DEATHS[how]
    if isinstance(manner, signal.Signals):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), manner)
    elif manner is not None:
        manner()
    os._exit(1)


def be_deaf() -> None:
    """Ignore being asked to end: from the first moment of a child, which inherits it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def start_child(kind: str) -> None:
    """`deaf`: ignores being asked to end. `runaway`: in a session of its own, and nobody's child."""
    if kind == "runaway":
        subprocess.run([sys.executable, "-c", RUNAWAY], check=True)
    else:
        subprocess.Popen([sys.executable, "-c", SLEEP], preexec_fn=be_deaf)
