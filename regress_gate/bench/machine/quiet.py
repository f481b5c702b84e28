"""Wait until others leave the machine alone, before something is measured on it. Not for what happens during it."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from regress_gate.bench.machine.cpu import CpuMeter, CpuReading, Find, cores_of_others

OVER = 3.0
"""Seconds that the load must stay below its limit on average."""
STEP = 0.5
"""Seconds between looks."""

Progress = Callable[[float, float], None]
"""Called with the cores that others keep busy now and the seconds that were waited."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """What was seen before a start."""

    quiet: bool
    """Whether others stayed below the limit in the end."""
    outside_cpu_cores: float
    """Cores kept busy by others, over the last seconds."""
    waited: float
    """Seconds."""


def wait_until_quiet(
    limit_cores: float,
    within: float,
    progress: Progress | None = None,
    *,
    find_server_processes: Find = tuple,
    over: float = OVER,
    step: float = STEP,
) -> Quiet:
    """Wait until other processes use at most `limit_cores` over `over` seconds; give up after `within` seconds.

    It takes `over` seconds at least. Servers of ours that are up already are no others where they are given.
    """
    meter = CpuMeter(find_server_processes)
    readings: deque[CpuReading] = deque([meter.read()])
    begin = readings[0].at
    while True:
        time.sleep(step)
        readings.append(meter.read())
        while len(readings) > 2 and readings[-1].at - readings[1].at >= over:
            readings.popleft()
        now = readings[-1].at
        cores, waited = cores_of_others(readings[0], readings[-1]), now - begin
        full = now - readings[0].at >= over
        if full and (cores <= limit_cores or waited >= within):
            return Quiet(cores <= limit_cores, cores, waited)
        if progress is not None:
            progress(cores, waited)
