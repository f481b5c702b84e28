"""`regress-gate diff-config`: what changed besides speed between two versions, and whether a launch line works."""

from pathlib import Path
from typing import Any

import click

from regress_gate.cli.options import CONTEXT, deployment_options, settings_from, store_options, verdict_options
from regress_gate.cli.output import deliver_view, parse_outputs
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.errors import ExitCode
from regress_gate.report import OF_A_VERDICT
from regress_gate.report.views.config_view import ConfigChangesView, read_release_text
from regress_gate.report.views.list_view import printable


@click.command(
    "diff-config",
    context_settings=CONTEXT,
    epilog="Example: regress-gate diff-config v0.19.1 v0.32.0 --serve-command 'vllm serve M --max-num-seqs 64'",
)
@click.argument("versions", metavar="[BASE CAND]", nargs=-1)
@click.option("--serve-command", metavar="LINE", help="Your `vllm serve` line.")
@deployment_options
@click.option("--variant", metavar="NAME", help="Build of vLLM: cpu, cu129, rocm…; default: by the accelerator.")
@verdict_options
@click.option(
    "--refresh", is_flag=True, help="Read releases from the package index: those named, else all unknown ones."
)
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --refresh: write all to FILE.",
)
@click.option("--all", "everything", is_flag=True, help="List also what is only counted otherwise.")
@click.option("--offline", is_flag=True, help="Install nothing; exit 5 for a version that is not known here.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "--verbose", count=True, help="Like --all; -vv adds tracebacks.")
@store_options
def diff_config(
    versions: tuple[str, ...],
    serve_command: str | None,
    variant: str | None,
    format_: str,
    outputs: tuple[str, ...],
    refresh: bool,
    write: Path | None,
    everything: bool,
    offline: bool,
    quiet: bool,
    verbose: int,
    **options: Any,
) -> int:
    """Compare the arguments, variables and dependencies of two versions, and try your launch line on CAND.

    Exits 1 if CAND does not take your launch line, else 0. The launch line consists of the flags, --serve-command and
    [deployment] of the configuration file. Releases since 0.8.5 are known; a newer one is read from its published
    wheel, another build is installed and asked. No model is loaded.
    """
    # The provisioners are imported here: --help does not need them.
    from regress_gate.app.diff_config import diff_builds, refresh_releases

    settings = settings_from(options)
    if refresh:
        if offline:
            raise click.UsageError("--refresh reads from the package index; leave out --offline")
        with progress_on_stderr(quiet=quiet) as progress:
            releases = refresh_releases(versions, write, progress.say)
        for release in releases:
            click.echo(printable(read_release_text(release)))
        if not releases:
            click.echo("all published releases are known")
        return ExitCode.PASS
    if write is not None:
        raise click.UsageError("--write belongs to --refresh")
    if len(versions) != 2:
        raise click.UsageError("name two versions: BASE and CAND")
    base, cand = versions
    files = parse_outputs(outputs, *OF_A_VERDICT, format_=format_)
    with progress_on_stderr(quiet=quiet) as progress:
        diff = diff_builds(
            settings, base, cand, serve_command=serve_command, variant=variant, offline=offline, say=progress.say
        )
    if diff.variants_differ:
        note = f"{diff.baseline} and {diff.candidate} are builds of two variants, which differ for that reason too"
        click.echo(f"regress-gate: warning: {printable(note)}", err=True)
    for notice in () if quiet else [*diff.launch.notices, *filter(None, [diff.launch.untested])]:
        click.echo(f"regress-gate: note: {printable(notice)}", err=True)
    view = ConfigChangesView(diff.baseline, diff.candidate, diff.deployment, diff.launch, diff.changes, diff.server)
    deliver_view(view, format_, files, verbose=everything or verbose > 0)
    return ExitCode.FAIL if diff.launch.problems else ExitCode.PASS
