"""`regress-gate suite`: the suites that can be measured, and help with writing one."""

from pathlib import Path

import click

from regress_gate.app.authoring import convert_definitions, lint_suites, new_suite, write_suites
from regress_gate.cli.options import CONTEXT, format_option
from regress_gate.errors import ExitCode, InputError
from regress_gate.report import print_view
from regress_gate.report.views.list_view import printable
from regress_gate.report.views.suite_view import SuiteListView, SuiteView
from regress_gate.suites import load_suite, shipped_suites
from regress_gate.text import plural


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate suite show h100-llama8b")
def suite() -> None:
    """Suites: list, show, lint, new, import."""


@suite.command("list", epilog="Example: regress-gate suite list", context_settings=CONTEXT)
@format_option
def list_(format_: str) -> None:
    """The suites that come with the program, and what each is for."""
    print_view(SuiteListView(tuple(shipped_suites().values())), format_)


@suite.command(epilog="Example: regress-gate suite show cpu-tiny", context_settings=CONTEXT)
@click.argument("name", metavar="NAME|FILE")
@format_option
def show(name: str, format_: str) -> int:
    """One suite, whole: what is sent to which server, why, and what decides. Exits 2 where a trace cannot be used."""
    from regress_gate.app.recorded_traffic import suite_traces  # with the load client, which the others do not need

    found = load_suite(name)
    traces = suite_traces(found)
    print_view(SuiteView(found, traces), format_)
    return ExitCode.USAGE if any(isinstance(each, str) for each in traces.values()) else ExitCode.PASS


@suite.command(epilog="Example: regress-gate suite lint chat.yaml", context_settings=CONTEXT)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def lint(files: tuple[Path, ...]) -> int:
    """Check suite files. Shows every error and doubt; exits 2 when there is an error, 0 with warnings only."""
    report = lint_suites(files)
    for message in report.messages:
        click.echo(printable(message))
    counts = (plural(report.files, "suite"), plural(report.errors, "error"), plural(report.warnings, "warning"))
    click.echo(", ".join(counts), err=True)
    return ExitCode.USAGE if report.errors else ExitCode.PASS


@suite.command(epilog="Example: regress-gate suite new chat.yaml", context_settings=CONTEXT)
@click.argument("file", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Write a commented suite to begin with. Never overwrites a file."""
    new_suite(file)
    click.echo(f"wrote {printable(file)}; edit it, then: regress-gate suite lint {printable(file)}")


@suite.command(
    "import", epilog="Example: regress-gate suite import serving-tests.json -o suites", context_settings=CONTEXT
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "directory", metavar="DIR", type=click.Path(path_type=Path), help="Write a file for each suite there."
)
def import_(files: tuple[Path, ...], directory: Path | None) -> int:
    """Make suites of vLLM's CI definitions (serving-tests.json). Names what it leaves out; never overwrites a file.

    Exits 2 when a definition has no test that a suite can say.
    """
    definitions = convert_definitions(files)
    for definition in definitions:
        for reason in definition.left_out:
            click.echo(f"left out  {printable(definition.file)}: {printable(reason)}", err=True)
        scenarios = plural(definition.scenarios, "scenario")
        result = "no suite, as no test of it can be said in one" if definition.text is None else scenarios
        click.echo(f"{printable(definition.file)}: {result}", err=True)
    texts = [definition.text for definition in definitions if definition.text is not None]
    if directory is not None:
        for path in write_suites(definitions, directory):
            click.echo(f"wrote {printable(path)}")
    elif len(texts) > 1:
        raise InputError(f"{len(texts)} suites are several files", todo="give -o DIR, or one FILE at a time")
    else:
        click.echo("".join(texts), nl=False)
    return ExitCode.USAGE if len(texts) < len(files) else ExitCode.PASS
