"""An experiment from its plan to stored runs: the machine is locked, versions are got, what the plan lacks is made.

Not for making the plan, and not for what is done with the runs afterwards.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regress_gate.cli.experiments import begin_experiment
from regress_gate.cli.telling import Teller
from regress_gate.cli.this_machine import end_orphans, gpus_of, note_what_is_not_recorded, wait_until_quiet

if TYPE_CHECKING:
    from regress_gate.bench.experiment.making import Side
    from regress_gate.bench.experiment.plan import Plan
    from regress_gate.bench.experiment.runner import AfterBlock, Outcome
    from regress_gate.bench.experiment.trials import Meter
    from regress_gate.bench.provision.interface import Provisioner
    from regress_gate.cli.live import Live
    from regress_gate.cli.measuring import Amount, Assignment
    from regress_gate.model.run import Run
    from regress_gate.model.suite import Suite
    from regress_gate.store.repository import Repository


def carry_out(
    store: "Repository",
    plan: "Plan",
    wanted: "Assignment",
    amount: "Amount",
    provisioner: "Provisioner",
    live: "Live",
    *,
    is_resumed: bool,
    after_block: "AfterBlock | None" = None,
) -> "Outcome":
    """Get the versions and make the runs that the plan lacks, or fewer where `after_block` says that these will do.
    Raises what could not be measured."""
    from regress_gate.bench.experiment.making import Bench
    from regress_gate.bench.experiment.runner import carry_out as make
    from regress_gate.bench.machine.lock import machine_lock
    from regress_gate.model.provisioning import Way

    meter = meter_of(plan.driver, wanted.suite)
    until = None if amount.budget is None else time.monotonic() + amount.budget
    store.check_testbed(wanted.testbed)
    gpus = gpus_of(wanted)
    with machine_lock(gpus or None, wait=amount.wait_for_machine or 0.0), ExitStack() as stack:
        end_orphans(live)
        note_what_is_not_recorded(wanted.testbed, live)
        if not is_resumed:  # before versions are got, which takes long enough to be interrupted
            begin_experiment(store, plan)
        sides = _provision(wanted, provisioner, store, live, stack)
        bench = Bench(
            suite=plan.suite,
            testbed=wanted.testbed,
            trials=plan.trials,
            meter=meter,
            gpus=gpus,
            ready_within=amount.ready_within,
            logs=_logs(plan),
            say=live.say,
            progress=live.requests,
        )
        live.expect(_expected_seconds(store, plan))
        return make(
            plan,
            wanted.suite,
            sides,
            bench,
            store,
            why_void=_why_void(wanted.suite),
            way=(wanted.provisioning.way or Way.VENV).value,
            until=until,
            before_unit=lambda: wait_until_quiet(wanted, live),
            watcher=Teller(live),
            after_block=after_block,
        )


def _expected_seconds(store: "Repository", plan: "Plan") -> float | None:
    """By what earlier runs of the suite took here; None where there are none."""
    held = [run.place for run in store.runs(testbed=plan.testbed, suite=plan.suite) if run.place is not None]
    took = [place.seconds for place in held if place.seconds is not None]
    if not took:
        return None
    groups = len({place.group for place in held})
    done = sum(place.experiment == plan.experiment for place in held)
    return max(0, plan.blocks * len(plan.versions) * groups - done) * sum(took) / len(took)


def _provision(
    wanted: "Assignment", provisioner: "Provisioner", store: "Repository", live: "Live", stack: ExitStack
) -> "dict[str, Side]":
    from regress_gate.bench.experiment.making import Side
    from regress_gate.bench.inspect.ask import inspect_environment
    from regress_gate.bench.inspect.collect_env import collect_env
    from regress_gate.bench.provision.interface import ProvisionError

    environments: dict[Any, Any] = {}
    libraries: dict[Any, dict[str, str]] = {}
    for version in dict.fromkeys(wanted.versions.values()):
        live.say(f"getting vLLM {version}")
        environment = environments[version] = stack.enter_context(provisioner.provision(version, progress=live.say))
        if environment.version is not None and store.build_config(environment.version) is None:
            try:
                store.add_build_config(inspect_environment(environment, progress=live.say))
            except ProvisionError as error:  # what changed besides speed is worth knowing, and no condition
                live.note(f"note: {error}")
        libraries[version] = {}
        try:
            libraries[version] = collect_env(environment, progress=live.say)
        except ProvisionError as error:
            live.note(f"note: {error}")
    return {
        side: Side(side, version, environments[version], libraries[version])
        for side, version in wanted.versions.items()
    }


def meter_of(driver: str | None, suite: "Suite", *, allow_remote: bool = False) -> "Meter":
    """Our own client, or another's. Raises InputError for a workload that the other cannot send, LoadError where it is
    not installed: before any server is started."""
    if driver is None:
        from regress_gate.bench.load.measure import Limits
        from regress_gate.bench.load.meter import OwnClient

        return OwnClient(Limits(request=suite.request_timeout), allow_remote=allow_remote)
    from regress_gate.bench.drivers.meter import DriverMeter
    from regress_gate.bench.drivers.registry import find_driver
    from regress_gate.bench.suite_run import load_workloads
    from regress_gate.bench.tiny_model import model_path

    other = find_driver(driver)
    for _, workload in load_workloads(suite):
        other.check(workload)
    tokenizers = {scenario.name: model_path(scenario.server.model) for scenario in suite.scenarios}
    return DriverMeter(other, tokenizers, allow_remote)


def _why_void(suite: "Suite") -> "Callable[[Run], str | None]":
    """Why a run does not count, by the rules of the gate."""
    from regress_gate.gate.sides import make_side

    def why(run: "Run") -> str | None:
        void = make_side(run.version, [run], suite.conditions).void
        return void[0].reason if void else None

    return why


def _logs(plan: "Plan") -> Path:
    import platformdirs

    return platformdirs.user_state_path("regress-gate", appauthor=False) / "logs" / plan.experiment
