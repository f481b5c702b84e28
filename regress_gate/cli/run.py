"""`regress-gate run`: measure a suite on one version and store it; no decision."""

from typing import TYPE_CHECKING, Any

import click

from regress_gate.app.measurement_task import DEFAULT_SUITE, MeasurementAmount, make_task
from regress_gate.app.provisioning import make_provisioner, provisioning_from
from regress_gate.cli.options import CONTEXT, measure_options, provision_options, settings_from, store_options
from regress_gate.errors import ExitCode, InputError

if TYPE_CHECKING:
    from regress_gate.app.settings import Settings
    from regress_gate.model.config import ProvisionConfig


@click.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate run v0.19.1 --suite cpu-tiny --runs 2",
)
@click.argument("version")
@click.option(
    "--suite", metavar="FILE|NAME", help=f"Suite: a YAML file, or the name of a shipped one ({DEFAULT_SUITE})."
)
@click.option("--testbed", metavar="NAME", help="Name of this machine; default: its host's, and its GPU's.")
@measure_options
@provision_options
@click.option("--url", help="Measure a server that is running: http://127.0.0.1:8000.")
@click.option("--testbed-fact", "facts", multiple=True, metavar="KEY=VALUE", help="With --url: accelerator=H200…")
@click.option("--run", "label", metavar="LABEL", help="With --url: name of the server start; default: its moment.")
@click.option("--allow-remote", is_flag=True, help="With --url: measure a server on another machine.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@store_options
def run(
    version: str,
    url: str | None,
    facts: tuple[str, ...],
    label: str | None,
    allow_remote: bool,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> int:
    """Measure VERSION on this machine and store the runs: one fresh server each.

    The version is got and served by the tool (see --provision), or is a server that runs already (--url): measuring
    that one again adds trials to its run, and only a restarted server gives a new one. Exits 4 when it could not be
    measured; what was measured before that stays stored.
    """
    amount = MeasurementAmount.taken_from(options)
    settings = settings_from(options)
    provisioning = provisioning_from(options, settings)
    if url is not None:
        from regress_gate.cli.running_servers import ServerTarget, measure_servers
        from regress_gate.model.version import Version

        wanted = ServerTarget(Version.parse(version), url, label)
        done = measure_servers(settings, [wanted], amount, facts=facts, allow_remote=allow_remote, quiet=quiet)
        for line in done.stored:
            click.echo(line)
        return ExitCode.PASS if done.is_whole else ExitCode.COULD_NOT_MEASURE
    for flag, given in (("--testbed-fact", facts), ("--run", label), ("--allow-remote", allow_remote)):
        if given:
            raise InputError(f"{flag} is for servers that run already", todo="give --url too")
    return _measure(settings, version, amount, provisioning, quiet=quiet)


def _measure(
    settings: "Settings", version: str, amount: MeasurementAmount, provisioning: "ProvisionConfig", *, quiet: bool
) -> int:
    from regress_gate.app.experiment import explain_outcome, find_plan, interruptible, run_experiment
    from regress_gate.bench.experiment.experiment_plan import SINGLE
    from regress_gate.bench.experiment.experiment_runner import ExperimentEnd
    from regress_gate.cli.progress import live_on_stderr
    from regress_gate.store.repository import open_store
    from regress_gate.text import plural

    what = make_task(settings, {SINGLE: version}, provisioning)
    provisioner = make_provisioner(provisioning, accelerator=what.testbed.accelerator, environ=settings.environment)
    with open_store(str(settings.store_url.value), create=True) as store:
        plan, is_resumed = find_plan(store, what, amount)
        with interruptible(store, plan), live_on_stderr(quiet=quiet) as live:
            outcome = run_experiment(store, plan, what, amount, provisioner, live, is_resumed=is_resumed)
    counted = sum(entry.void is None and entry.made.run.failure is None for entry in outcome.stored)
    stored = f"{plural(counted, 'run')} of {what.versions[SINGLE]}"
    click.echo(f"stored {stored} on {plan.testbed}, {plan.suite} ({plan.experiment})")
    explain_outcome(outcome)
    failed = any(entry.made.run.failure is not None for entry in outcome.stored)
    return ExitCode.PASS if outcome.ending is ExperimentEnd.COMPLETE and not failed else ExitCode.COULD_NOT_MEASURE
