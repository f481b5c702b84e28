"""`regress-gate diff-config`: what changed besides speed between two versions, and whether a launch line works."""

from typing import Any

import click

from regress_gate.cli.options import CONTEXT, deployment_options, format_option, settings_from, store_options
from regress_gate.errors import ExitCode


@click.command(
    "diff-config",
    context_settings=CONTEXT,
    epilog="Example: regress-gate diff-config v0.19.1 v0.32.0 --serve-command 'vllm serve M --max-num-seqs 64'",
)
@click.argument("base")
@click.argument("cand")
@click.option("--serve-command", metavar="LINE", help="Your `vllm serve` line.")
@deployment_options
@click.option("--variant", metavar="NAME", help="Build of vLLM: cpu, cu129, rocm…; default: by the accelerator.")
@format_option
@click.option("--all", "everything", is_flag=True, help="List also what is only counted otherwise.")
@click.option("--offline", is_flag=True, help="Install nothing; exit 5 for a version that is not known here.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "--verbose", count=True, help="Like --all; -vv adds tracebacks.")
@store_options
def diff_config(
    base: str,
    cand: str,
    serve_command: str | None,
    variant: str | None,
    format_: str,
    everything: bool,
    offline: bool,
    quiet: bool,
    verbose: int,
    **options: Any,
) -> int:
    """Compare the arguments, variables and dependencies of two versions, and try your launch line on CAND.

    Exits 1 when CAND would not start with your launch line, else 0. Flags, --serve-command and the file's
    [deployment] together are the launch line. A version that is not known here is installed and asked; no model is
    loaded.
    """
    from regress_gate.app.build_configs import get_build_config
    from regress_gate.cli.progress import live_on_stderr
    from regress_gate.gate.config_changes import compare_configs
    from regress_gate.gate.launch_line import launch_problem_texts
    from regress_gate.report import print_view
    from regress_gate.report.render.plain_text import plain
    from regress_gate.report.views.config_view import ConfigChangesView
    from regress_gate.vllm.serve_command import parse_serve_command

    settings = settings_from(options)
    if serve_command is not None:
        parse_serve_command(serve_command)  # what is no launch line is said before anything is installed
    with live_on_stderr(quiet=quiet) as live:
        before, after = (
            get_build_config(text, settings, variant=variant, offline=offline, say=live.say) for text in (base, cand)
        )
    if before.version.variant != after.version.variant:
        note = f"{before.version} and {after.version} are builds of two variants, which differ for that reason too"
        click.echo(f"regress-gate: warning: {plain(note)}", err=True)
    deployment = settings.deployment
    if serve_command is not None:
        line = parse_serve_command(serve_command, [before, after])
        deployment = settings.deployment_flags.over(line).over(settings.config.deployment)
    changes = compare_configs(before, after, deployment=deployment)
    problems = launch_problem_texts(after, deployment.engine_args, deployment.env)
    view = ConfigChangesView(before.version, after.version, deployment, problems, changes)
    print_view(view, format_, verbose=everything or verbose > 0)
    return ExitCode.FAIL if problems else ExitCode.PASS
