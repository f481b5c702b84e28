"""`regress-gate ci`: the gate in continuous integration. Which version a change moves, and the check of that move."""

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
    """The gate in continuous integration: which version a change moves, and its check."""


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
