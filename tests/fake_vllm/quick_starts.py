"""Short waits for the servers of tests, which start at once. No result depends on the waits.

A server of the tests keeps its priority: where several tests run at once, a lower one would cost seconds.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from regress_gate.bench.server import lifecycle, server


def shorten_waits(set_attribute: Callable[[ModuleType, str, Any], object]) -> None:
    """Give `monkeypatch.setattr`, or `setattr` in a process of its own."""
    set_attribute(server, "_START_POLL", 0.02)
    set_attribute(lifecycle, "_END_POLL", 0.01)
    set_attribute(server, "lower_priority", lambda _pid: None)
