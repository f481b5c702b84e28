"""`regress-gate audit`: rules on a deployment, by its launch line, start log, metrics and model configuration."""

from pathlib import Path
from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    Duration,
    SectionedCommand,
    deployment_fact_options,
    deployment_options,
    launch_line_option,
    settings_from,
    store_options,
    verdict_options,
)
from regress_gate.cli.output import deliver_view, parse_outputs
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.report import OF_A_VERDICT


@click.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate audit --server-log server.log --metrics http://localhost:8000/metrics "
    "--metrics http://localhost:8000/metrics",
)
@click.argument("version", required=False)
@click.option(
    "--metrics", multiple=True, metavar="URL|FILE", help="Answer of /metrics; twice: what happens in between too."
)
@click.option("--window", type=Duration(), default="15s", show_default=True, help="Between two scrapes of an address.")
@click.option(
    "--model-config",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Directory with the model's config.json.",
)
@click.option("--concurrency", type=click.IntRange(1, 10**6), help="Requests that your users send at once.")
@click.option("--ttft-target", type=Duration(), help="Time to the first token that you want (0.5s).")
@click.option("--itl-target", type=Duration(), help="Time between tokens that you want (0.05s).")
@click.option("--report-only", is_flag=True, help="Exit 0 whatever is found.")
@deployment_options
@deployment_fact_options
@launch_line_option
@verdict_options
@click.option("-v", "--verbose", count=True, help="Show all answers in full; -vv adds tracebacks.")
@click.option("-q", "--quiet", is_flag=True, help="Print no report; the exit code and --output say it all.")
@store_options
def audit(
    version: str | None,
    metrics: tuple[str, ...],
    window: float,
    model_config: Path | None,
    concurrency: int | None,
    ttft_target: float | None,
    itl_target: float | None,
    report_only: bool,
    format_: str,
    outputs: tuple[str, ...],
    verbose: int,
    quiet: bool,
    **options: Any,
) -> int:
    """Look for lost speed in a deployment of vLLM: settings, backends and load that cost more than they need to.

    VERSION is the vLLM that runs, where no log and no file says it. Exits 1 if a finding is as severe as what blocks a
    check ([gate] block_severity), 3 if no rule could be answered, else 0: read how many rules were answered.
    """
    # With the rules and the readers of files: --help does not need them.
    from regress_gate.app.audit import audit_servers
    from regress_gate.gate.audit.observations import Targets
    from regress_gate.report.views.audit_view import AuditView

    settings = settings_from(options)
    files = parse_outputs(outputs, *OF_A_VERDICT, format_=format_)
    with progress_on_stderr(quiet=quiet) as progress:
        audits = audit_servers(
            settings,
            version=version,
            metrics=metrics,
            window=window,
            model_config=model_config,
            targets=Targets(concurrency, ttft_target, itl_target),
            report_only=report_only,
            say=progress.say,
        )
    view = AuditView(audits)
    deliver_view(view, format_, files, verbose=verbose > 0, quiet=quiet)
    return view.exit_code
