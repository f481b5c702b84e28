"""`regress-gate ci`: the gate in continuous integration. Which version a change moves, its check, and publishing it."""

import os
from pathlib import Path
from typing import Any

import click

from regress_gate.cli.check import print_checked
from regress_gate.cli.options import (
    CONTEXT,
    SectionedCommand,
    decision_options,
    deployment_fact_options,
    deployment_options,
    format_option,
    launch_line_option,
    report_options,
    section,
    settings_from,
    store_options,
)
from regress_gate.cli.output import parse_outputs
from regress_gate.errors import ExitCode, InputError
from regress_gate.model.policy import PolicyOverrides
from regress_gate.report import OF_A_VERDICT, print_view
from regress_gate.report.views.list_view import printable
from regress_gate.text import without_workflow_commands

_FILE = click.Path(path_type=Path, dir_okay=False)
_CHOICE = "name the files of one deployment: `{command} PATH…`"

change_options = section(
    "Which change",
    click.option(
        "--base",
        metavar="REV",
        help="Commit before the change; `origin/main...` for where the branch began.  [what CI or pre-commit says, "
        "else where the branch began]",
    ),
    click.option("--head", metavar="REV", help="Commit after the change.  [the working tree]"),
)
"""--base and --head."""


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate ci versions --base origin/main...")
def ci() -> None:
    """The gate in continuous integration: which version a change moves, its check, and publishing the answer."""


@ci.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate ci versions --base v1.4 deploy/ --format json",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@change_options
@click.option("--pins", "pins_only", is_flag=True, help="List what is pinned now, and compare nothing.")
@click.option("--offline", is_flag=True, help="Fetch nothing, also if a shallow checkout lacks the commit.")
@format_option
def versions(
    paths: tuple[str, ...], base: str | None, head: str | None, pins_only: bool, offline: bool, format_: str
) -> int:
    """Show which vLLM version a change moves, from what to what, with file and line.

    Reads tracked files only: requirements, pyproject and lock files, Dockerfiles, Compose, Kubernetes, Helm values,
    Kustomize, workflows, .env, scripts. PATHs, folders or patterns choose among several deployments. Exits 0 if one
    version moved or none, 2 if pins moved to different versions, 3 if one moved to something that names no version.
    """
    # With git and the parsers, which --help does not need.
    from regress_gate.app.version_pins import moved_versions, pinned_versions
    from regress_gate.pins.moves import Outcome
    from regress_gate.report.views.pins_view import PinsView

    if pins_only:
        if base is not None:
            raise click.UsageError("--pins compares nothing: leave --base out")
        print_view(PinsView(pinned_versions(head, paths)), format_)
        return ExitCode.PASS
    report = moved_versions(base, head, paths, offline=offline)
    print_view(PinsView(report), format_)
    assert report.move is not None  # noqa: S101 - it was asked for
    if report.move.outcome is Outcome.AMBIGUOUS:
        raise InputError(report.move.why, todo=_CHOICE.format(command="regress-gate ci versions"))
    return ExitCode.INCONCLUSIVE if report.move.outcome is Outcome.UNKNOWN else ExitCode.PASS


@ci.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate ci check --accelerator H100 --model Qwen/Qwen3-8B",
)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@change_options
@deployment_options
@deployment_fact_options
@launch_line_option
@decision_options
@report_options
@store_options
def check(
    paths: tuple[str, ...],
    base: str | None,
    head: str | None,
    format_: str,
    outputs: tuple[str, ...],
    on_inconclusive: Any,
    report_only: bool,
    verbose: int,
    quiet: bool,
    offline: bool,
    **options: Any,
) -> int:
    """Check the known issues of the vLLM version that a change moves, from the pinned version to the new one.

    `ci versions` and `check` in one: exits as `check` does, and 0 at once if no version moved. A move to something that
    names no version is inconclusive.
    """
    # As above, and with the records of known issues, which a change without a moved version does not need.
    from regress_gate.app.version_pins import moved_versions
    from regress_gate.pins.moves import Outcome

    files = parse_outputs(outputs, *OF_A_VERDICT, format_=format_)
    move = moved_versions(base, head, paths, offline=offline).move
    assert move is not None  # noqa: S101 - it was asked for
    if move.outcome is Outcome.AMBIGUOUS:
        raise InputError(move.why, todo=_CHOICE.format(command="regress-gate ci check"))
    if not quiet:
        click.echo(f"regress-gate: note: {printable(move.why)}", err=True)
    if move.candidate is None:
        unknown = move.outcome is Outcome.UNKNOWN and not report_only
        return (
            {None: ExitCode.INCONCLUSIVE, "fail": ExitCode.FAIL}.get(on_inconclusive, 0) if unknown else ExitCode.PASS
        )
    from regress_gate.app.check import check_servers  # as above

    checked = check_servers(
        settings_from(options),
        str(move.candidate),
        baseline=None if move.baseline is None else str(move.baseline),
        overrides=PolicyOverrides(on_inconclusive=on_inconclusive),
        report_only=report_only,
        offline=offline,
    )
    return print_checked(checked, format_, files, verbose=verbose > 0, quiet=quiet)


@ci.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate ci publish --result gate.json --pins versions.json --dry-run",
)
@section(
    "What is published",
    click.option("--result", type=_FILE, help="What `compare` or `check` wrote with --output json:FILE."),
    click.option("--pins", type=_FILE, help="What `ci versions --format json` wrote: the place of annotations."),
    click.option("--started", is_flag=True, help="Show the check as running, before measuring."),
    click.option("--could-not-measure", metavar="TEXT", help="Conclude the check without a decision, and say why."),
    click.option(
        "--artifact", "artefact", metavar="NAME", default="regress-gate", show_default=True,
        help="In a workflow_run: what the run uploaded, with gate.json and versions.json.",
    ),
)  # fmt: skip
@section(
    "Where",
    click.option(
        "--comment", type=click.Choice(["off", "on-change", "always"]), default="on-change", show_default=True,
        help="on-change: none for a first pass; edited when the decision or the findings change.",
    ),
    click.option("--check/--no-check", default=True, show_default=True, help="Whether to conclude a check run."),
    click.option(
        "--name", metavar="NAME", default="upgrade", show_default=True,
        help="Tells several gates of one repository apart.",
    ),
    click.option("--report-url", metavar="URL", help="Page with the full report, to be linked."),
    click.option("--dry-run", is_flag=True, help="Print what would be written, and use no network."),
)  # fmt: skip
def publish(started: bool, dry_run: bool, comment: str, **options: Any) -> int:
    """Write the job summary, the check run with its annotations, and one comment on the pull request.

    Reads GITHUB_TOKEN and the variables of the workflow. The report is made here from the result, which may come from a
    fork: nothing of it is trusted. Exits 0 when everything was written, or when the token of a fork or of Dependabot
    cannot write; 4 when GitHub could not be written to; 2 for a result that cannot be used. The decision is not the
    exit code: it is the output `exit-code`.
    """
    from regress_gate.app import publish as use_case  # with pydantic and PyGithub
    from regress_gate.publish.comment import CommentMode  # as above

    request = use_case.PublishRequest(comment=CommentMode(comment), **options)
    if started and (dry_run or any((request.result, request.could_not_measure))):
        raise InputError("goes with nothing that is published", where="--started", todo="call it before measuring")
    if request.result is not None and request.could_not_measure is not None:
        raise InputError("there is a result", where="--could-not-measure", todo="give only one of the two")
    if dry_run:
        report = use_case.preview(request)
    elif started:
        report = use_case.open_check(request, os.environ)
    else:
        report = use_case.publish(request, os.environ)
    return _print(report)


def _print(report: Any) -> int:
    for place, what in report.done:
        click.echo(without_workflow_commands(printable(f"{place}: {what}")))
    if report.preview:
        click.echo()
        click.echo(without_workflow_commands(report.preview), nl=False)
    click.echo(report.commands, nl=False)
    for note in report.notes:
        click.echo(without_workflow_commands(printable(f"regress-gate: note: {note}")), err=True)
    *others, last = report.problems or [None]
    for problem in others:
        click.echo(printable(f"regress-gate: error: {problem}"), err=True)
    if last is not None:
        raise last
    return ExitCode.PASS
