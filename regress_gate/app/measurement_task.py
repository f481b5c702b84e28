"""What `run`, `compare --measure` and `calibrate` are asked to measure: options, the suite, the machine, the builds.

Not for doing it: see `experiments` for plans, `carrying_out` for the measurement.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from regress_gate.accelerators.registry import accelerator_matches, unwatched_note, visible_setting
from regress_gate.app.provisioning import find_build
from regress_gate.app.settings import DEFAULT_SUITE, ProgressReporter, Settings
from regress_gate.bench.experiment.experiment_plan import ServerSetting
from regress_gate.bench.fleet.fleet import Fleet
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.bench.machine import conditions
from regress_gate.bench.machine.fingerprint import fingerprint
from regress_gate.bench.machine.reservation import release_clocks, server_gpus
from regress_gate.bench.server.recovery import end_orphan, find_orphans
from regress_gate.errors import InputError
from regress_gate.gate.sides import DISTURBANCE_SHARE, UNKNOWN_CORES
from regress_gate.model.config import ProvisionConfig, ProvisionMethod
from regress_gate.model.suite import Suite
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.suites import load_suite


@dataclass(frozen=True, slots=True)
class MeasurementTask:
    """What is to be measured, before anything is."""

    suite: Suite
    testbed: Testbed
    versions: Mapping[str, Version]
    """By side, in the order of the odd blocks."""
    provisioning: ProvisionConfig
    environment: Mapping[str, str]
    """In which servers are started."""
    counter_test: ServerSetting | None = None
    """What servers of the side COUNTER_TEST are given."""
    fleet: Fleet | None = None
    """Hosts of one class, each of which makes whole blocks; None: this machine, which `testbed` is."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names and patterns of the testbeds that may make its blocks; empty: `testbed` alone."""
        return () if self.fleet is None else self.fleet.wanted

    @property
    def testbed_names(self) -> tuple[str, ...]:
        """Of the hosts of the fleet that may measure or have measured, or of this machine."""
        return (self.testbed.name,) if self.fleet is None else self.fleet.names

    @property
    def place(self) -> str:
        """What its plans have as their testbed."""
        return ", ".join(self.hosts) or self.testbed.name


def make_task(
    settings: Settings,
    versions: Mapping[str, str],
    provisioning: ProvisionConfig,
    *,
    plan_only: bool = False,
    fleet: Fleet | None = None,
) -> MeasurementTask:
    """The suite, this machine or the first host of the fleet, and the builds that the refs mean now. Raises InputError
    for a suite that cannot be sent as it is, or is made for another accelerator than the machine's."""
    suite = load_suite(str(settings.suite.value or DEFAULT_SUITE))
    load_workloads(suite)
    own = None if fleet is None else fleet.testbeds[0]
    testbed = own or fingerprint(settings.testbed.value, accelerator=suite.accelerator)
    _check_accelerator(suite, testbed, settings.deployment.accelerator, plan_only=plan_only)
    builds = {
        side: find_build(text, settings, provisioning, accelerator=testbed.accelerator)
        for side, text in versions.items()
    }
    return MeasurementTask(suite, testbed, builds, provisioning, settings.environment, fleet=fleet)


def _check_accelerator(suite: Suite, testbed: Testbed, declared: str | None, *, plan_only: bool) -> None:
    """The detected accelerator decides; if none is detected, the declared one.

    A plan may be made elsewhere than on the machine that it is for.
    """
    wanted, present = suite.accelerator, testbed.accelerator or "cpu"
    if wanted is None or present == "cpu":
        return
    if testbed.accelerator_count is None:
        if plan_only or (declared is not None and accelerator_matches(wanted, declared)):
            return
        raise InputError(
            f"suite {suite.name} is made for {wanted}, and no accelerator is found on this machine",
            todo="choose another --suite, or name an accelerator that is not detected in [deployment] of the "
            "configuration file",
        )
    if not any(accelerator_matches(wanted, name) for name in present.split(" + ")):
        raise InputError(
            f"suite {suite.name} is made for {wanted}, and this machine has {present}",
            todo="choose another --suite, or write one with `regress-gate suite new`",
        )


NOTE_WAITING_AFTER = 5.0
"""Seconds of waiting that need no word."""
QUIET_WITHIN = 120.0
"""Seconds to wait for others to leave the machine alone before each start; then it is measured all the same, and what
the others did decides whether the run counts."""


def find_server_gpus(task: MeasurementTask) -> tuple[int, ...]:
    """Numbers of the GPUs that the suite's servers will take, the way they are started; empty: none that we know."""
    if task.testbed.accelerator == "cpu":
        return ()
    container = None
    if task.provisioning.way is ProvisionMethod.DOCKER:
        container = task.provisioning.gpus or visible_setting(task.environment) or "all"
    servers = [scenario.server for scenario in task.suite.scenarios]
    return server_gpus(servers, task.environment, container=container)


def note_unwatched_gpus(testbed: Testbed, progress: ProgressReporter) -> None:
    """Report what will not be recorded of the accelerators, and what to do about it."""
    if note := unwatched_note(testbed.accelerator):
        progress.note(f"note: {note}")


def wait_until_quiet(task: MeasurementTask, progress: ProgressReporter) -> None:
    """Wait for the others, but not for ever."""
    limit = task.suite.conditions.max_outside_cpu_cores
    if limit is None:
        limit = DISTURBANCE_SHARE * (task.testbed.cpu_count or UNKNOWN_CORES)
    if limit >= (os.cpu_count() or UNKNOWN_CORES):  # nothing can be beyond it
        return

    def waiting(_: float, waited: float) -> None:
        if waited > NOTE_WAITING_AFTER:
            progress.say("waiting for others to leave the machine alone")

    seen = conditions.wait_until_quiet(limit, QUIET_WITHIN, waiting)
    if not seen.quiet:
        progress.note(f"note: others keep {seen.outside_cpu_cores:.1f} cores busy; measuring all the same")


def end_orphans(progress: ProgressReporter) -> None:
    """End servers that a killed run has left, and release clocks that it had locked."""
    release_clocks(progress.warn)
    for orphan in find_orphans():
        progress.note(f"note: {orphan}; ending what is ours")
        report = end_orphan(orphan)
        if report.left:
            progress.note(f"note: processes {', '.join(map(str, report.left))} could not be ended")
        if report.trouble:
            progress.note(f"note: {report.trouble}")
