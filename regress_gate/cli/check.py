"""`regress-gate check`: the known issues of a version or a move, for one deployment. Measures nothing."""

from typing import Any

import click

from regress_gate.cli.options import CONTEXT, deployment_options, report_options, settings_from, store_options


@click.command(
    context_settings=CONTEXT,
    epilog="Example: regress-gate check v0.20.0 --from v0.19.1 --accelerator H200 --model mistralai/Mixtral-8x7B-v0.1",
)
@click.argument("version")
@click.option(
    "--from", "base", metavar="BASE", help="Version you run now: tells new issues from those you already have."
)
@deployment_options
@store_options
@report_options
def check(
    version: str,
    base: str | None,
    format_: str,
    outputs: tuple[str, ...],
    on_inconclusive: Any,
    report_only: bool,
    verbose: int,
    quiet: bool,
    offline: bool,  # noqa: ARG001 - see the option's help
    **options: Any,
) -> int:
    """List the known issues that a move to VERSION would bring, carry or resolve for your deployment.

    Exits 1 when one blocks, 3 when a fact about the deployment is missing that would decide it, else 0.
    """
    from datetime import UTC, datetime

    from regress_gate.cli.known import find_known_issues
    from regress_gate.cli.output import deliver, parse_outputs
    from regress_gate.gate.check import decide_check
    from regress_gate.model.policy import PolicyOverrides

    settings = settings_from(options)
    files = parse_outputs(outputs)
    candidate, baseline = _build(version, settings), None if base is None else _build(base, settings)
    result = decide_check(
        baseline,
        candidate,
        policy=settings.policy(flags=PolicyOverrides(on_inconclusive=on_inconclusive)),
        waivers=settings.waivers,
        findings=find_known_issues(settings.deployment, baseline, candidate, None),
        now=datetime.now(UTC),
        report_only=report_only,
    )
    deliver(result, format_, files, verbose=verbose > 0, quiet=quiet)
    return result.exit_code


def _build(text: str, settings: Any) -> Any:
    """The build that a ref means; only refs that are no version need the store."""
    from regress_gate.model.version import Ref

    ref = Ref.parse(text)
    if ref.version is not None:
        return ref.version
    from regress_gate.gate.select import resolve
    from regress_gate.store.library import open_library

    with open_library(str(settings.store_url.value)) as library:
        if ref.run is not None and (run := library.run(ref.run)) is not None:
            return run.version
        held = library.inventory()
        return resolve(ref, held, library.pinned(), everything=held)[0].version
