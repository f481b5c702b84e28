"""Measure servers that already run (`run --url`, `compare --measure --url --url`). One server start is one run."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from regress_gate.app.experiment import choose_meter
from regress_gate.app.settings import MeasurementAmount, ProgressReporter, Settings
from regress_gate.bench.external_servers import (
    ExternalRun,
    ExternalServer,
    find_listener_processes,
    inspect_server,
    is_local,
    measure_external_servers,
)
from regress_gate.bench.load.load_errors import LoadError
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.bench.machine.reservation import machine_lock
from regress_gate.errors import InputError
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.testbed import Testbed
from regress_gate.model.version import Version
from regress_gate.report.views.list_view import printable
from regress_gate.store.database import Patience
from regress_gate.store.repository import open_store
from regress_gate.store.store_interface import AddedRuns, ChangeKind
from regress_gate.suites import load_suite
from regress_gate.text import plural


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """One server to be measured."""

    version: Version
    url: str
    label: str | None = None
    """Of its run; None: the moment of its start."""


@dataclass(frozen=True, slots=True)
class ServersMeasured:
    versions: tuple[Version, ...]
    """As the servers report them."""
    suite: str
    testbed: str
    stored: tuple[str, ...]
    """One line for each stored run."""
    unmeasured: tuple[Version, ...]
    """Versions without a usable trial: nothing was stored of them."""
    is_complete: bool
    """No server failed, and every trial was usable."""


def measure_servers(
    settings: Settings,
    targets: Sequence[ServerTarget],
    amount: MeasurementAmount,
    progress: ProgressReporter,
    *,
    testbed_facts: Mapping[str, Any] | None = None,
    allow_remote: bool = False,
) -> ServersMeasured:
    """Send the suite to the servers in turns and store one run of each. A server that fails meanwhile has a failed run.

    Raises InputError for options that running servers cannot have, LoadError for servers that cannot be measured.
    """
    resumes = amount.resume or amount.resume_if_any
    if amount.runs is not None or resumes or amount.resident is not None or amount.budget is not None:
        raise InputError(
            "a server that already runs is one run", todo="leave --runs, --resume, --budget, --resident out"
        )
    if amount.lock_clocks is not None:
        what = "clocks are locked for servers that this tool starts"
        raise InputError(what, where="--lock-clocks", todo="leave it out")
    if settings.suite.value is None or settings.testbed.value is None:
        raise InputError("the suite and the testbed are not known", todo="give --suite FILE and --testbed NAME")
    suite = load_suite(str(settings.suite.value))
    load_workloads(suite)
    if searched := [scenario.name for scenario in suite.scenarios if scenario.workload.capacity is not None]:
        raise InputError(
            f"the capacity of {searched[0]} is searched on servers that this tool starts", todo="leave --url out"
        )
    servers = [inspect_server(target.url, allow_remote=allow_remote) for target in targets]
    for server, target in zip(servers, targets, strict=True):
        _check_version(server, target.version)
    labels = [target.label or _start_label(server) for server, target in zip(servers, targets, strict=True)]
    ref = SuiteRef(suite.name, suite.version)
    testbed = Testbed(str(settings.testbed.value), **(testbed_facts or {}))
    with ExitStack() as stack:
        url = str(settings.store_url.value)
        store = stack.enter_context(open_store(url, create=True, patience=Patience(progress.warn)))
        store.check_testbed(testbed)
        if any(is_local(target.url) for target in targets):
            stack.enter_context(machine_lock(wait=amount.wait_for_machine or 0.0))
        earlier = [
            _find_stored_run(store.runs(version=server.version, testbed=testbed.name, suite=ref), label)
            for server, label in zip(servers, labels, strict=True)
        ]
        measured = measure_external_servers(
            servers,
            suite,
            testbed,
            labels,
            trials=amount.trials or suite.trials,
            done=[_trials_done(run) for run in earlier],
            asked=[run is not None and run.outputs is not None for run in earlier],
            meter=choose_meter(amount.driver, suite, allow_remote=allow_remote),
            processes=lambda: [process for target in targets for process in find_listener_processes(target.url)],
            progress=progress.requests,
        )
        runs = [result.run for result in measured if result.run is not None]
        added = [store.add_runs([run], log_as=ChangeKind.MEASURE) for run in runs]
    for result in measured:
        _report_server(result, progress)
    return ServersMeasured(
        tuple(server.version for server in servers),
        str(settings.suite.value),
        testbed.name,
        tuple(_stored_line(run, change) for run, change in zip(runs, added, strict=True)),
        tuple(server.version for server, result in zip(servers, measured, strict=True) if result.run is None),
        all(result.run is not None and result.run.failure is None and not result.void for result in measured),
    )


def _report_server(measured: ExternalRun, progress: ProgressReporter) -> None:
    for text in measured.void:
        progress.warn(f"void: {text}")
    for text in measured.notes:
        progress.note(f"note: {text}")
    if measured.run is None:
        progress.warn("nothing was stored: no trial could be used")
    elif measured.run.failure is not None:
        progress.warn(f"FAILED, {measured.run.failure.text}: stored as evidence")


def _stored_line(run: Run, added: AddedRuns) -> str:
    what = plural(len(run.trials), "trial") if run.failure is None else "a failure"
    # Where the answer to the first attempt was lost, the second finds everything stored.
    held = (one.run for one in added.duplicates if one.run is not None)
    ids = (*added.new, *added.extended, *held)
    name = f"run:{ids[0]} ({printable(run.label)})" if ids else printable(run.label)
    return (
        f"stored {what} of {run.version} on {printable(run.testbed.name)}, {run.suite}, "
        f"as {'more of ' if added.extended else ''}{name}"
    )


def _check_version(server: ExternalServer, wanted: Version) -> None:
    if not server.version.matches(wanted):
        raise LoadError(f"the server at {server.url} is vLLM {server.version}, not {wanted}; nothing was measured")


def _start_label(server: ExternalServer) -> str:
    """By the moment of the server's start, which stays the same between measurements."""
    if server.started is None:
        raise InputError(
            f"{server.url}/metrics does not say when the server started",
            todo="name this server start with --run LABEL, another one for each start",
        )
    return server.started.strftime("started-%Y%m%dT%H%M%S.%f")[:-3] + "Z"


def _find_stored_run(runs: list[Run], label: str) -> Run | None:
    """The stored run of this server start. Raises LoadError if the run failed."""
    for run in runs:
        if run.label == label:
            if run.failure is not None:
                raise LoadError(f"run {label} has failed already ({run.failure.text}); start the server again")
            return run
    return None


def _trials_done(run: Run | None) -> dict[str, int]:
    done: dict[str, int] = {}
    for trial in run.trials if run is not None else ():
        done[trial.scenario] = max(done.get(trial.scenario, 0), trial.ordinal)
    return done
