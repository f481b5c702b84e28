"""A thread that looks at a server's processes once in a while: how much memory they hold, and who they are.

Of the rest of the machine it sees only whether it left them enough memory.
"""

import threading
import time
from collections.abc import Callable

import psutil

from regress_gate.bench.server.processes import Kin

INTERVAL = 1.0
"""Seconds between looks, at least."""
MAX_SHARE = 0.01
"""Of one core that looking may cost: on a machine of very many processes it is done less often."""
SHORT = 0.1
"""Share of the machine's memory: with less at hand between two looks, the kernel may have ended a process for it."""


class ServerWatch:
    """Sampling from `start` to `stop`; `peak_bytes` is the largest sum of resident memory that was seen.

    `squeezed`: whether memory was seen to be short while others held more of it than the server.
    """

    def __init__(self, kin: Kin, on_change: Callable[[], None], interval: float = INTERVAL) -> None:
        self.peak_bytes = 0
        self.squeezed = False
        self._kin = kin
        self._on_change = on_change
        self._interval = interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="server-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        told = self._kin.listed
        while not self._over.is_set():
            begin = time.monotonic()
            held = sum(map(_resident, self._kin.find()))
            self.peak_bytes = max(self.peak_bytes, held)
            memory = psutil.virtual_memory()
            if memory.available < SHORT * memory.total:
                self.squeezed = self.squeezed or memory.total - memory.available > 2 * held
            if self._kin.listed != told:  # by this look, or by another thread's since the last one
                told = self._kin.listed
                self._on_change()
            self._over.wait(max(self._interval, (time.monotonic() - begin) / MAX_SHARE))


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
