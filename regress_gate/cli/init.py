"""`regress-gate init`: a configuration, workflows and a first pin, from five questions or from flags."""

import re
import sys
from pathlib import Path

import click

from regress_gate.cli.options import CONTEXT
from regress_gate.errors import InputError
from regress_gate.report.views.list_view import printable

_ACTION = re.compile(r"[\w.-]{1,100}/[\w.-]{1,100}@[\w./-]{1,100}", re.ASCII)


@click.command(epilog="Example: regress-gate init --accelerator H200 --pin v0.19.1", context_settings=CONTEXT)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="Directory to set up; in a git repository, the repository [default: here].",
)
@click.option("--deployment", metavar="FILE[#NAME]", help="File that starts your servers, from the root; `none`.")
@click.option("--pin", metavar="VERSION", help="Version that you run now; `none`.")
@click.option("--accelerator", metavar="NAME", help="H200, MI300X, cpu…; `none`.")
@click.option("--suite", metavar="NAME", help="Suite to measure with; `none`.")
@click.option("--store", metavar="URL", help="Where measurements are kept; `default`.")
@click.option("--model", metavar="NAME", help="Model that you serve, where no file says it.")
@click.option("--testbed", metavar="NAME", help="Name of the machine that measures.")
@click.option(
    "--workflow",
    "workflows",
    multiple=True,
    metavar="NAME",
    help="Workflow to write (repeatable), `all` or `none` [default: upgrade-gate, upgrade-gate-comment].",
)
@click.option("--action", metavar="OWNER/NAME@REF", help="The action that the workflows call.")
@click.option("--yes", "-y", is_flag=True, help="Ask nothing: take what was found.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@click.option("--dry-run", is_flag=True, help="Write nothing.")
def init(
    directory: Path,
    deployment: str | None,
    pin: str | None,
    accelerator: str | None,
    suite: str | None,
    store: str | None,
    model: str | None,
    testbed: str | None,
    workflows: tuple[str, ...],
    action: str | None,
    yes: bool,
    force: bool,
    dry_run: bool,
) -> None:
    """Write regress-gate.toml, workflows and a first pin: five questions on a terminal, or flags.

    Each question has a default, found in the directory or on this machine; without a terminal, and with --yes, the
    defaults are taken. A file that is there is replaced with --force alone.
    """
    from regress_gate.app.setup import (  # with git, drivers and the store
        DEFAULT_WORKFLOWS,
        Answers,
        Detected,
        look_around,
        look_at_deployment,
        next_steps,
        plan_setup,
        propose_suite,
        write_setup,
    )
    from regress_gate.paths import shipped_workflows  # as above

    if action is not None and not _ACTION.fullmatch(action):
        raise InputError(f"{action!r} is no action", where="--action", todo="write OWNER/regress-gate@REF")
    around = look_around(directory)
    asks = sys.stdin is not None and sys.stdin.isatty() and not yes

    def answer(question: str, flag: str | None, found: Detected, nothing: str = "none") -> str | None:
        if flag is not None:
            return None if flag == nothing else flag
        if not asks:
            said = nothing if found.value is None else printable(found.value)
            click.echo(f"{question} {said} ({printable(found.source)})")
            return found.value
        click.echo(f"  {printable(found.source)}")
        given = click.prompt(question, default=printable(found.value) if found.value else nothing).strip()
        return None if given == nothing else str(given)

    starts = answer("Which file starts your servers?", deployment, around.deployment)
    told = look_at_deployment(around, starts, None if accelerator == "none" else accelerator)
    version = answer("Which version of vLLM do you run now?", pin, told.version)
    served_on = answer("Which accelerator do you serve on?", accelerator, told.accelerator)
    answers = Answers(
        deployment=starts,
        version=version,
        accelerator=served_on,
        suite=answer(
            "Which suite do you measure with?", suite, propose_suite(served_on, told.platform, told.model or model)
        ),
        store=answer(
            "Where are measurements kept?", store, Detected(None, f"default: {around.store.value}"), "default"
        ),
        model=model,
        testbed=testbed,
        workflows=_chosen(workflows, tuple(shipped_workflows()), DEFAULT_WORKFLOWS if around.is_repository else ()),
        action=action,
    )
    setup = plan_setup(answers, around)
    if dry_run:
        for file in setup.files:
            click.echo(f"would write {printable(file.path)} ({file.state})")
        return
    for file in setup.files:
        if file.state == "different" and force:
            click.echo(f"replacing {printable(file.path)}")
    is_new = write_setup(setup, force=force)
    for file in setup.files:
        click.echo(f"{'as it was' if file.state == 'same' else 'wrote'} {printable(file.path)}")
    if setup.pin is not None:
        click.echo(f"{'pinned' if is_new else 'pinned before:'} {setup.pin}")
    click.echo("\nNext:")
    for step in next_steps(answers, setup):
        click.echo(f"  {printable(step)}")
    if not around.is_repository and not workflows:
        click.echo("  no workflow was written: this is no git repository (--workflow NAME writes one all the same)")


def _chosen(given: tuple[str, ...], every: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    if not given:
        return default
    if "none" in given:
        return ()
    return every if "all" in given else tuple(dict.fromkeys(given))
