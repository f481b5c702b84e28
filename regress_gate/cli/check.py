"""`regress-gate check`: the known issues of a version or a move, for one deployment. Measures nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from regress_gate.app.check import CheckedVersion, check_servers, suggest_suite
from regress_gate.cli.options import (
    CONTEXT,
    SectionedCommand,
    decision_options,
    deployment_fact_options,
    deployment_options,
    launch_line_option,
    report_options,
    settings_from,
    store_options,
)
from regress_gate.cli.output import deliver, deliver_view, parse_outputs
from regress_gate.errors import ExitCode
from regress_gate.model.policy import PolicyOverrides
from regress_gate.report import OF_A_VERDICT
from regress_gate.report.views.list_view import printable


@click.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate check v0.20.0 --from v0.19.1 --accelerator H200 --model mistralai/Mixtral-8x7B-v0.1",
)
@click.argument("version", required=False)
@click.option(
    "--from", "base", metavar="BASE", help="Version you run now, to separate new issues from those you already have."
)
@click.option(
    "--candidate-env",
    metavar="PATH|IMAGE",
    help="The build to move to: virtual environment, site-packages, source tree, wheel or image. Its code decides.",
)
@click.option("--recommend", is_flag=True, help="Name the newest reviewed release that no known issue blocks.")
@click.option(
    "--min-release-age", type=click.IntRange(0, 365), metavar="DAYS", help="Recommend none that is younger.  [7]"
)
@click.option(
    "--suggest-scenarios", is_flag=True, help="Print a suite in which the issues would show, and no report; exits 0."
)
@click.option("--suite", metavar="NAME|FILE", help="With --suggest-scenarios: what is measured already.")
@deployment_options
@deployment_fact_options
@launch_line_option
@decision_options
@report_options
@store_options
def check(
    version: str | None,
    base: str | None,
    candidate_env: str | None,
    recommend: bool,
    min_release_age: int | None,
    suggest_scenarios: bool,
    format_: str,
    outputs: tuple[str, ...],
    on_inconclusive: Any,
    report_only: bool,
    verbose: int,
    quiet: bool,
    offline: bool,
    **options: Any,
) -> int:
    """List the known issues that a move to VERSION would bring, carry or resolve for your deployment.

    Without VERSION, --recommend chooses it, or --candidate-env says it. Without --from, the version in --deployment,
    --server-log or --collect-env is the one that you run now. Each vLLM server in --deployment is checked; the worst
    decides. Exits 1 if an issue blocks, 3 if a missing fact about the deployment would decide or a release of the move
    was not reviewed, else 0.
    """
    if version is None and not recommend and candidate_env is None:
        raise click.UsageError("name a VERSION, or let --recommend choose one")
    settings = settings_from(options)
    files = parse_outputs(outputs, *OF_A_VERDICT, format_=format_)
    checked = check_servers(
        settings,
        version,
        baseline=base,
        recommend=recommend,
        min_age_days=min_release_age,
        overrides=PolicyOverrides(on_inconclusive=on_inconclusive),
        report_only=report_only,
        offline=offline,
        candidate_env=candidate_env,
    )
    if suggest_scenarios:
        settings.deployed_server  # noqa: B018 - refuses a file with several servers
        click.echo(suggest_suite(settings, checked[0]), nl=False)
        return ExitCode.PASS
    return print_checked(checked, format_, files, verbose=verbose > 0, quiet=quiet)


def print_checked(
    checked: Sequence[CheckedVersion], format_: str, files: list[tuple[str, Path]], *, verbose: bool, quiet: bool
) -> int:
    """Print the checks of one server or several, and return the worst exit code."""
    for one in () if quiet else checked:
        about = f"{one.result.deployment.name}: " if one.result.deployment and len(checked) > 1 else ""
        for note in one.notes:
            click.echo(f"regress-gate: note: {printable(about + note)}", err=True)
    if len(checked) == 1:
        deliver(checked[0].result, format_, files, verbose=verbose, quiet=quiet)
        return checked[0].result.exit_code
    from regress_gate.report.views.servers_view import ServersView, worst_exit_code  # with the report, as `deliver`

    results = [one.result for one in checked]
    deliver_view(ServersView(results), format_, files, verbose=verbose, quiet=quiet)
    return worst_exit_code(results)
