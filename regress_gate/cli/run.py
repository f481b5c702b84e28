"""`regress-gate run`: measure a suite on one version and store it; no decision."""

from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.options import CONTEXT, settings_from, store_options
from regress_gate.errors import ExitCode, InputError

if TYPE_CHECKING:
    from regress_gate.bench.running import RunningServer
    from regress_gate.model.version import Version


@click.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate run v0.19.1 --url http://127.0.0.1:8000 --suite chat.yaml --testbed h200-node-3",
)
@click.argument("version")
@click.option("--url", required=True, help="Server that is running: http://127.0.0.1:8000.")
@click.option("--suite", metavar="FILE|NAME", help="Suite: a YAML file, or the name of a shipped one.")
@click.option("--testbed", metavar="NAME", help="Machine that the server runs on.")
@click.option("--testbed-fact", "facts", multiple=True, metavar="KEY=VALUE", help="accelerator=H200… (repeatable).")
@click.option("--trials", type=click.IntRange(1, 100), default=1, show_default=True, help="Passes of each scenario.")
@click.option("--run", "label", metavar="LABEL", help="Name of this server start; default: the moment of its start.")
@click.option("--allow-remote", is_flag=True, help="Measure a server on another machine.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@store_options
def run(
    version: str,
    url: str,
    suite: str | None,
    testbed: str | None,
    facts: tuple[str, ...],
    trials: int,
    label: str | None,
    allow_remote: bool,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> int:
    """Measure the server at --url, which must be VERSION, and store the run.

    One server start is one run: measuring the same server again adds trials to its run, and only a restarted server
    gives a new one. Exits 4 when the server could not be measured.
    """
    settings = settings_from({**options, "suite": suite, "testbed": testbed})
    from regress_gate.bench.running import ask
    from regress_gate.bench.suite_run import load_workloads, measure_suite
    from regress_gate.cli.importing import testbed_facts
    from regress_gate.cli.progress import progress_on_stderr
    from regress_gate.cli.text import plain
    from regress_gate.model.run import SuiteRef
    from regress_gate.model.testbed import Testbed
    from regress_gate.model.version import Version
    from regress_gate.store.repository import open_store
    from regress_gate.suites import load_suite

    wanted = Version.parse(version)
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
        known = store.runs(version=server.version, testbed=machine.name, suite=ref)
        done = _trials_done(known, name)
        with progress_on_stderr("measuring", quiet=quiet) as advance:
            measured = measure_suite(
                server,
                chosen,
                machine,
                name,
                trials=trials,
                done=done,
                allow_remote=allow_remote,
                progress=None if advance is None else lambda _, sent, total: advance(sent, total),
            )
        for text in measured.void:
            click.echo(f"void: {plain(text)}", err=True)
        for text in () if quiet else measured.notes:
            click.echo(f"note: {plain(text)}", err=True)
        if measured.run is None:
            click.echo("nothing was stored: in every trial the client was the bottleneck", err=True)
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


def _trials_done(runs: "list[Any]", label: str) -> dict[str, int]:
    done: dict[str, int] = {}
    for run_ in runs:
        if run_.label == label:
            for trial in run_.trials:
                done[trial.scenario] = max(done.get(trial.scenario, 0), trial.ordinal)
    return done
