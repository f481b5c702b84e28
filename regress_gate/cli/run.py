"""`regress-gate run`: measure a suite on one version and store it; no decision."""

from pathlib import Path
from typing import Any

import click

from regress_gate.app.settings import DEFAULT_SUITE
from regress_gate.cli.options import (
    CONTEXT,
    SectionedCommand,
    amount_from,
    fleet_option,
    measure_options,
    measuring_settings,
    parse_testbed_facts,
    provision_options,
    provisioning_from,
    section,
    settings_from,
    spool_option,
    store_options,
)
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.errors import ExitCode, InputError
from regress_gate.model.version import Version
from regress_gate.text import plural


@click.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate run v0.19.1 --suite cpu-tiny --runs 2",
)
@click.argument("version")
@click.option(
    "--suite", metavar="FILE|NAME", help=f"Suite: a YAML file, or the name of a shipped one ({DEFAULT_SUITE})."
)
@click.option("--testbed", metavar="NAME", help="Name of this machine; default: its host's, and its GPU's.")
@measure_options
@fleet_option
@spool_option
@provision_options
@section(
    "A server that already runs",
    click.option("--url", help="Measure a server that is running: http://127.0.0.1:8000."),
    click.option("--testbed-fact", "facts", multiple=True, metavar="KEY=VALUE", help="With --url: accelerator=H200…"),
    click.option("--run", "label", metavar="LABEL", help="With --url: name of the server start; default: its moment."),
    click.option("--allow-remote", is_flag=True, help="With --url: measure a server on another machine."),
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@store_options
def run(
    version: str,
    url: str | None,
    on: str | None,
    spool: Path | None,
    facts: tuple[str, ...],
    label: str | None,
    allow_remote: bool,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> int:
    """Measure VERSION on this machine and store the runs: one fresh server each.

    The tool installs and serves the version (see --provision), or measures a server that already runs (--url).
    Measuring the same server again adds trials to its run; only a restarted server gives a new run. Exits 4 if the
    version could not be measured; what was measured before that stays stored. A machine that does not reach the store
    gives --spool DIR; `regress-gate import DIR` brings its runs in later.
    """
    # Measuring imports the HTTP client and the provisioners: --help does not need them.
    from regress_gate.app.experiment import measure_version
    from regress_gate.app.external_servers import ServerTarget, measure_servers
    from regress_gate.app.fleet import open_fleet

    amount = amount_from(options)
    settings = measuring_settings(settings_from(options), spool)
    provisioning = provisioning_from(options, settings)
    if url is None:
        for flag, given in (("--testbed-fact", facts), ("--run", label), ("--allow-remote", allow_remote)):
            if given:
                raise InputError(f"{flag} is for servers that already run", todo="give --url too")
        with progress_on_stderr(quiet=quiet) as progress, open_fleet(settings, on, progress) as fleet:
            measured = measure_version(settings, version, amount, provisioning, progress, fleet=fleet)
        hosts = dict.fromkeys(run.testbed.name for run in measured.runs)
        click.echo(
            f"stored {plural(measured.counted, 'run')} of {measured.version} on "
            f"{', '.join(hosts) or measured.plan.testbed}, "
            f"{measured.plan.suite} ({measured.plan.experiment})"
        )
        return ExitCode.PASS if measured.is_complete else ExitCode.COULD_NOT_MEASURE
    if on is not None:
        raise InputError("a server that already runs is measured from here", where="--on", todo="leave --on out")
    target = ServerTarget(Version.parse(version), url, label)
    with progress_on_stderr(quiet=quiet) as progress:
        servers = measure_servers(
            settings,
            [target],
            amount,
            progress,
            testbed_facts=parse_testbed_facts(facts),
            allow_remote=allow_remote,
        )
    for line in servers.stored:
        click.echo(line)
    return ExitCode.PASS if servers.is_complete else ExitCode.COULD_NOT_MEASURE
