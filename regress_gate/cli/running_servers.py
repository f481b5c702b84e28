"""Measuring servers that run already: `run --url`, and `compare --measure --url --url`. One server start is one run."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from regress_gate.app.experiment import choose_meter
from regress_gate.app.measurement_task import MeasurementAmount
from regress_gate.errors import InputError

if TYPE_CHECKING:
    from regress_gate.app.settings import Settings
    from regress_gate.bench.external_servers import ExternalRun, ExternalServer
    from regress_gate.model.run import Run
    from regress_gate.model.version import Version
    from regress_gate.store.holdings import AddedRuns


@dataclass(frozen=True, slots=True)
class ServerTarget:
    """One server to be measured."""

    version: "Version"
    url: str
    label: str | None = None
    """Of its run; None: the moment of its start."""


@dataclass(frozen=True, slots=True)
class ServersMeasured:
    versions: "tuple[Version, ...]"
    """As the servers tell them."""
    suite: str
    testbed: str
    stored: tuple[str, ...]
    """A line on each run that was stored."""
    unmeasured: "tuple[Version, ...]"
    """Those of which no trial could be used, so that nothing was stored."""
    is_whole: bool
    """Whether no server failed and every trial could be used."""


def measure_servers(
    settings: "Settings",
    wanted: Sequence[ServerTarget],
    amount: MeasurementAmount,
    *,
    facts: tuple[str, ...] = (),
    allow_remote: bool = False,
    quiet: bool,
) -> ServersMeasured:
    """Send the suite to each server, the servers taking turns, and store one run of each; a server that fails
    meanwhile has a failed run.

    Raises InputError for options that do not belong to servers which run already, LoadError for servers that cannot be
    measured.
    """
    from regress_gate.bench.external_servers import (
        find_listener_processes,
        inspect_server,
        is_local,
        measure_external_servers,
    )
    from regress_gate.bench.load.suite_workloads import load_workloads
    from regress_gate.bench.machine.reservation import machine_lock
    from regress_gate.cli.importing import testbed_facts
    from regress_gate.cli.progress import live_on_stderr
    from regress_gate.model.run import SuiteRef
    from regress_gate.model.testbed import Testbed
    from regress_gate.store.repository import open_store
    from regress_gate.suites import load_suite

    if amount.runs is not None or amount.resume or amount.resident is not None or amount.budget is not None:
        raise InputError(
            "a server that runs already is one run", todo="leave --runs, --resume, --budget, --resident out"
        )
    if settings.suite.value is None or settings.testbed.value is None:
        raise InputError("the suite and the testbed are not known", todo="give --suite FILE and --testbed NAME")
    chosen = load_suite(str(settings.suite.value))
    load_workloads(chosen)
    servers = [inspect_server(each.url, allow_remote=allow_remote) for each in wanted]
    for server, each in zip(servers, wanted, strict=True):
        _check_version(server, each.version)
    labels = [each.label or _label(server) for server, each in zip(servers, wanted, strict=True)]
    ref = SuiteRef(chosen.name, chosen.version)
    machine = Testbed(str(settings.testbed.value), **(testbed_facts(facts) or {}))
    with ExitStack() as stack:
        store = stack.enter_context(open_store(str(settings.store_url.value), create=True))
        store.check_testbed(machine)
        if any(is_local(each.url) for each in wanted):
            stack.enter_context(machine_lock(wait=amount.wait_for_machine or 0.0))
        held = [
            _run_held(store.runs(version=server.version, testbed=machine.name, suite=ref), label)
            for server, label in zip(servers, labels, strict=True)
        ]
        live = stack.enter_context(live_on_stderr(quiet=quiet))
        measured = measure_external_servers(
            servers,
            chosen,
            machine,
            labels,
            trials=amount.trials or chosen.trials,
            done=[_trials_done(run) for run in held],
            meter=choose_meter(amount.driver, chosen, allow_remote=allow_remote),
            processes=lambda: [process for each in wanted for process in find_listener_processes(each.url)],
            progress=live.requests,
        )
        runs = [result.run for result in measured if result.run is not None]
        added = [store.add_runs([run]) for run in runs]
    for result in measured:
        _report_server(result, quiet=quiet)
    return ServersMeasured(
        tuple(server.version for server in servers),
        str(settings.suite.value),
        machine.name,
        tuple(_stored_line(run, change) for run, change in zip(runs, added, strict=True)),
        tuple(server.version for server, result in zip(servers, measured, strict=True) if result.run is None),
        all(result.run is not None and result.run.failure is None and not result.void for result in measured),
    )


def _report_server(measured: "ExternalRun", *, quiet: bool) -> None:
    from regress_gate.report.render.plain_text import plain

    for text in measured.void:
        click.echo(f"void: {plain(text)}", err=True)
    for text in () if quiet else measured.notes:
        click.echo(f"note: {plain(text)}", err=True)
    if measured.run is None:
        click.echo("nothing was stored: no trial could be used", err=True)
    elif measured.run.failure is not None:
        click.echo(f"FAILED, {plain(measured.run.failure.text)}: stored as evidence", err=True)


def _stored_line(run: "Run", added: "AddedRuns") -> str:
    from regress_gate.report.render.plain_text import plain
    from regress_gate.text import plural

    what = plural(len(run.trials), "trial") if run.failure is None else "a failure"
    return (
        f"stored {what} of {run.version} on {plain(run.testbed.name)}, {run.suite}, "
        f"as {'more of ' if added.extended else ''}run:{(*added.new, *added.extended)[0]} ({plain(run.label)})"
    )


def _check_version(server: "ExternalServer", wanted: "Version") -> None:
    from regress_gate.bench.load.load_errors import LoadError

    if not server.version.matches(wanted):
        raise LoadError(f"the server at {server.url} is vLLM {server.version}, not {wanted}; nothing was measured")


def _label(server: "ExternalServer") -> str:
    """The moment of the server's start, which is the same however often that server is measured."""
    if server.started is None:
        raise InputError(
            f"{server.url}/metrics does not say when the server started",
            todo="name this server start with --run LABEL, another one for each start",
        )
    return server.started.strftime("started-%Y%m%dT%H%M%S.%f")[:-3] + "Z"


def _run_held(runs: "list[Run]", label: str) -> "Run | None":
    """What is stored of this server start. Raises LoadError when it failed: it says no more."""
    from regress_gate.bench.load.load_errors import LoadError

    for run in runs:
        if run.label == label:
            if run.failure is not None:
                raise LoadError(f"run {label} has failed already ({run.failure.text}); start the server again")
            return run
    return None


def _trials_done(run: "Run | None") -> dict[str, int]:
    done: dict[str, int] = {}
    for trial in run.trials if run is not None else ():
        done[trial.scenario] = max(done.get(trial.scenario, 0), trial.ordinal)
    return done
