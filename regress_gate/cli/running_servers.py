"""Measuring servers that run already: `run --url`, and `compare --measure --url --url`. One server start is one run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from regress_gate.cli.measuring import Amount, meter_of
from regress_gate.errors import ExitCode, InputError

if TYPE_CHECKING:
    from regress_gate.bench.running import RunningServer
    from regress_gate.bench.suite_run import MeasuredRun
    from regress_gate.cli.settings import Settings
    from regress_gate.model.run import Run
    from regress_gate.model.version import Version
    from regress_gate.store.holdings import Added


@dataclass(frozen=True, slots=True)
class Wanted:
    """One server to be measured."""

    version: "Version"
    url: str
    label: str | None = None
    """Of its run; None: the moment of its start."""


@dataclass(frozen=True, slots=True)
class Outcome:
    versions: "tuple[Version, ...]"
    """As the servers tell them."""
    suite: str
    testbed: str
    stored: tuple[str, ...]
    """A line on each run that was stored."""
    exit_code: int
    """4 when a trial could not be used."""


def measure_servers(
    settings: "Settings",
    wanted: Sequence[Wanted],
    amount: Amount,
    *,
    facts: tuple[str, ...] = (),
    allow_remote: bool = False,
    quiet: bool,
) -> Outcome:
    """Send the suite to each server, the servers taking turns, and store one run of each.

    Raises InputError for options that do not belong to servers which run already.
    """
    from regress_gate.bench.running import ask, processes_of
    from regress_gate.bench.suite_run import load_workloads, measure_running
    from regress_gate.cli.importing import testbed_facts
    from regress_gate.cli.live import live_on_stderr
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
    servers = [ask(each.url, allow_remote=allow_remote) for each in wanted]
    for server, each in zip(servers, wanted, strict=True):
        _check_version(server, each.version)
    labels = [each.label or _label(server) for server, each in zip(servers, wanted, strict=True)]
    ref = SuiteRef(chosen.name, chosen.version)
    machine = Testbed(str(settings.testbed.value), **(testbed_facts(facts) or {}))
    with open_store(str(settings.store_url.value), create=True) as store:
        store.check_testbed(machine)
        done = [
            _trials_done(store.runs(version=server.version, testbed=machine.name, suite=ref), label)
            for server, label in zip(servers, labels, strict=True)
        ]
        with live_on_stderr(quiet=quiet) as live:
            measured = measure_running(
                servers,
                chosen,
                machine,
                labels,
                trials=amount.trials or chosen.trials,
                done=done,
                meter=meter_of(amount.driver, chosen, allow_remote=allow_remote),
                processes=lambda: [process for each in wanted for process in processes_of(each.url)],
                progress=live.requests,
            )
        for result in measured:
            _tell(result, quiet=quiet)
        runs = [result.run for result in measured if result.run is not None]
        added = [store.add_runs([run]) for run in runs]
    is_whole = all(result.run is not None and not result.void for result in measured)
    return Outcome(
        tuple(server.version for server in servers),
        str(settings.suite.value),
        machine.name,
        tuple(_stored(run, change) for run, change in zip(runs, added, strict=True)),
        ExitCode.PASS if is_whole else ExitCode.COULD_NOT_MEASURE,
    )


def _tell(measured: "MeasuredRun", *, quiet: bool) -> None:
    from regress_gate.cli.text import plain

    for text in measured.void:
        click.echo(f"void: {plain(text)}", err=True)
    for text in () if quiet else measured.notes:
        click.echo(f"note: {plain(text)}", err=True)
    if measured.run is None:
        click.echo("nothing was stored: no trial could be used", err=True)


def _stored(run: "Run", added: "Added") -> str:
    from regress_gate.cli.text import plain

    return (
        f"stored {len(run.trials)} trials of {run.version} on {plain(run.testbed.name)}, {run.suite}, "
        f"as {'more of ' if added.extended else ''}run:{(*added.new, *added.extended)[0]} ({plain(run.label)})"
    )


def _check_version(server: "RunningServer", wanted: "Version") -> None:
    from regress_gate.bench.load.errors import LoadError

    if not server.version.matches(wanted):
        raise LoadError(f"the server at {server.url} is vLLM {server.version}, not {wanted}; nothing was measured")


def _label(server: "RunningServer") -> str:
    """The moment of the server's start, which is the same however often that server is measured."""
    if server.started is None:
        raise InputError(
            f"{server.url}/metrics does not say when the server started",
            todo="name this server start with --run LABEL, another one for each start",
        )
    return server.started.strftime("started-%Y%m%dT%H%M%S.%f")[:-3] + "Z"


def _trials_done(runs: "list[Run]", label: str) -> dict[str, int]:
    done: dict[str, int] = {}
    for run in runs:
        if run.label == label:
            for trial in run.trials:
                done[trial.scenario] = max(done.get(trial.scenario, 0), trial.ordinal)
    return done
