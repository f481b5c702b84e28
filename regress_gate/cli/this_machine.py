"""The machine around a measurement: servers that were left, others who keep it busy, the GPUs that will be used."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regress_gate.cli.live import Live
    from regress_gate.cli.measuring import Assignment
    from regress_gate.model.testbed import Testbed

PATIENCE = 5.0
"""Seconds of waiting that need no word."""
QUIET_WITHIN = 120.0
"""Seconds to wait for others to leave the machine alone before each start; then it is measured all the same, and what
the others did decides whether the run counts."""


def gpus_of(wanted: "Assignment") -> tuple[int, ...]:
    """Numbers of the GPUs that the suite's servers will take, the way they are started; empty: none that we know."""
    from regress_gate.bench.machine.server_gpus import server_gpus
    from regress_gate.model.provisioning import Way

    if wanted.testbed.accelerator == "cpu":
        return ()
    container = None
    if wanted.provisioning.way is Way.DOCKER:
        container = wanted.provisioning.gpus or wanted.environment.get("CUDA_VISIBLE_DEVICES") or "all"
    servers = [scenario.server for scenario in wanted.suite.scenarios]
    return server_gpus(servers, wanted.environment, container=container)


def note_what_is_not_recorded(testbed: "Testbed", live: "Live") -> None:
    """NVIDIA's GPUs are found by the driver's program too, but watched by its library only."""
    from regress_gate.bench.machine.nvml import has_nvml

    if testbed.driver is not None and not has_nvml():
        live.note(
            "note: throttling and other processes on the GPUs are not recorded: "
            "pip install 'vllm-regress-gate[gpu]' to have them watched"
        )


def wait_until_quiet(wanted: "Assignment", live: "Live") -> None:
    """Wait for the others, but not for ever."""
    from regress_gate.bench.machine import quiet
    from regress_gate.gate.sides import DISTURBANCE_SHARE, UNKNOWN_CORES

    limit = wanted.suite.conditions.max_outside_cpu_cores
    if limit is None:
        limit = DISTURBANCE_SHARE * (wanted.testbed.cpu_count or UNKNOWN_CORES)
    if limit >= (os.cpu_count() or UNKNOWN_CORES):  # nothing can be beyond it
        return

    def waiting(_: float, waited: float) -> None:
        if waited > PATIENCE:
            live.say("waiting for others to leave the machine alone")

    seen = quiet.wait_until_quiet(limit, QUIET_WITHIN, waiting)
    if not seen.quiet:
        live.note(f"note: others keep {seen.outside_cpu_cores:.1f} cores busy; measuring all the same")


def end_orphans(live: "Live") -> None:
    """End servers that a killed run has left."""
    from regress_gate.bench.server.orphans import end_orphan, find_orphans

    for orphan in find_orphans():
        live.note(f"note: {orphan}; ending what is ours")
        report = end_orphan(orphan)
        if report.left:
            live.note(f"note: processes {', '.join(map(str, report.left))} could not be ended")
        if report.trouble:
            live.note(f"note: {report.trouble}")
