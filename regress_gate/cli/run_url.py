"""`regress-gate run --url`: measure a server that is running. One server start is one run."""

from typing import TYPE_CHECKING

import click

from regress_gate.cli.measuring import meter_of
from regress_gate.errors import ExitCode, InputError

if TYPE_CHECKING:
    from regress_gate.bench.running import RunningServer
    from regress_gate.cli.measuring import Amount
    from regress_gate.cli.settings import Settings
    from regress_gate.model.run import Run
    from regress_gate.model.version import Version


def measure_url(
    settings: "Settings",
    wanted: "Version",
    url: str,
    facts: tuple[str, ...],
    label: str | None,
    allow_remote: bool,
    amount: "Amount",
    *,
    quiet: bool,
) -> int:
    """The exit code: 4 when a trial could not be used."""
    from regress_gate.bench.running import ask, processes_of
    from regress_gate.bench.suite_run import load_workloads, measure_running
    from regress_gate.cli.importing import testbed_facts
    from regress_gate.cli.live import live_on_stderr
    from regress_gate.cli.text import plain
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
    server = ask(url, allow_remote=allow_remote)
    _check_version(server, wanted)
    name = label or _label(server)
    ref = SuiteRef(chosen.name, chosen.version)
    machine = Testbed(str(settings.testbed.value), **(testbed_facts(facts) or {}))
    with open_store(str(settings.store_url.value), create=True) as store:
        store.check_testbed(machine)
        known = store.runs(version=server.version, testbed=machine.name, suite=ref)
        with live_on_stderr(quiet=quiet) as live:
            (measured,) = measure_running(
                [server],
                chosen,
                machine,
                [name],
                trials=amount.trials or chosen.trials,
                done=[_trials_done(known, name)],
                meter=meter_of(amount.driver, chosen, allow_remote=allow_remote),
                processes=lambda: processes_of(url),
                progress=live.requests,
            )
        for text in measured.void:
            click.echo(f"void: {plain(text)}", err=True)
        for text in () if quiet else measured.notes:
            click.echo(f"note: {plain(text)}", err=True)
        if measured.run is None:
            click.echo("nothing was stored: no trial could be used", err=True)
            return ExitCode.COULD_NOT_MEASURE
        added = store.add_runs([measured.run])
    number = (*added.new, *added.extended)[0]
    click.echo(
        f"stored {len(measured.run.trials)} trials of {server.version} on {plain(machine.name)}, {ref}, "
        f"as {'more of ' if added.extended else ''}run:{number} ({plain(name)})"
    )
    return ExitCode.COULD_NOT_MEASURE if measured.void else ExitCode.PASS


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
