"""`python -m tests.cli.measuring.unguarded …`: the program with short waits, on a machine that seems idle to it.

Where a whole experiment is the matter, a busy machine must not decide. For the same reason it measures in virtual time
where the environment says so.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from regress_gate.bench.load.load_client import OwnClientMeter
from regress_gate.bench.load.result import LoadResult
from regress_gate.bench.server import metrics_watch
from regress_gate.cli.main import run
from tests.fake_vllm.idle_machine import pretend_idle
from tests.fake_vllm.quick_starts import shorten_waits
from tests.fake_vllm.simulation import SimulatedMeter, fetch_simulated_metrics

SIMULATED_VARIABLE = "SIMULATE_LOAD_SECONDS"
"""How long each measurement in virtual time takes in real time: so that a signal can come within it."""


def simulate_load(seconds: float) -> None:
    """Measure by the flags of the versions, whatever else the machine does."""

    def measure(*given: Any, **more: Any) -> LoadResult:
        time.sleep(seconds)
        flags = json.loads(Path(os.environ["FAKE_VLLM_BEHAVIOUR"]).read_text(encoding="utf-8"))
        return SimulatedMeter(flags).measure(*given, **more)

    metrics_watch.fetch_metrics = fetch_simulated_metrics
    OwnClientMeter.__call__ = measure  # type: ignore[method-assign]


if __name__ == "__main__":
    pretend_idle(setattr)
    shorten_waits(setattr)
    if SIMULATED_VARIABLE in os.environ:
        simulate_load(float(os.environ[SIMULATED_VARIABLE]))
    run(sys.argv[1:])
