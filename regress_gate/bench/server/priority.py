"""Lets a server yield to whoever measures it, where both share the cores. Nothing else about it changes.

Engines wait for work by spinning. On two cores such a server kept the load client of vLLM 0.24.0 waiting for up to half
a second (p99), and with this for 0.2 ms, at the same speed of its own.
"""

from contextlib import suppress
from pathlib import Path

import psutil

NICENESS = 10


def yield_to_the_client(pid: int) -> None:
    """Lower the priority of a server that has just been started in a session of its own. Never raises.

    Linux weighs sessions before it weighs the processes in them (autogroups, see sched(7)), where it does so at all;
    so both are told. Nobody needs a privilege to be nice.
    """
    with suppress(OSError, psutil.Error):
        psutil.Process(pid).nice(NICENESS)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(NICENESS), encoding="ascii")
