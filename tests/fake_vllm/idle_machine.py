"""A machine on which nobody else works, whatever it does meanwhile: for tests in which it must not decide.

What a busy machine does to a run is tested with the client's guards and with the conditions. Whether a run counts is
judged by its suite's limits where the suite's file is given, and by the defaults where only its name is.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regress_gate.bench.load import client_guards
from regress_gate.bench.machine.conditions import CpuMeter, CpuReading

_read = CpuMeter.read


def _read_idle(meter: CpuMeter) -> CpuReading:
    reading = _read(meter)
    return replace(reading, busy=reading.ours, steal=None if reading.steal is None else 0.0)


def pretend_idle(set_attribute: Callable[[Any, str, Any], object]) -> None:
    """Give `monkeypatch.setattr`, or `setattr` in a process of its own."""
    for limit in ("LAG_FLOOR", "MEDIAN_LAG_FLOOR", "MAX_CPU_SHARE", "LATENESS_FLOOR"):
        set_attribute(client_guards, limit, 1e9)
    set_attribute(CpuMeter, "read", _read_idle)
