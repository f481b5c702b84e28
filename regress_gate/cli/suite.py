"""`regress-gate suite`: the suites that can be measured, and help with writing one."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regress_gate.cli.options import CONTEXT, format_option
from regress_gate.cli.suite_import import import_
from regress_gate.errors import ExitCode, InputError
from regress_gate.known.records.loading import load_records
from regress_gate.report import print_view
from regress_gate.report.views.list_view import printable
from regress_gate.report.views.suite_view import SuiteListView, SuiteView
from regress_gate.suites import is_suite_path, load_suite, shipped_suites, suite_template
from regress_gate.text import plural

if TYPE_CHECKING:
    pass


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate suite show h100-llama8b")
def suite() -> None:
    """Suites: list, show, lint, new, import."""


suite.add_command(import_)


@suite.command("list", epilog="Example: regress-gate suite list", context_settings=CONTEXT)
@format_option
def list_(format_: str) -> None:
    """The suites that come with the program, and what each is for."""
    print_view(SuiteListView(tuple(shipped_suites().values())), format_)


@suite.command(epilog="Example: regress-gate suite show cpu-tiny", context_settings=CONTEXT)
@click.argument("name", metavar="NAME|FILE")
@format_option
def show(name: str, format_: str) -> None:
    """One suite, whole: what is sent to which server, why, and what decides."""
    print_view(SuiteView(load_suite(name)), format_)


@suite.command(epilog="Example: regress-gate suite lint chat.yaml", context_settings=CONTEXT)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
def lint(files: tuple[Path, ...]) -> None:
    """Check suite files. Shows every error and doubt; exits 2 when there is an error, 0 with warnings only."""
    from regress_gate.suites.lint import lint_suite

    known = {name for record in load_records() for name in (record.id, *record.aliases)}
    complaints = [complaint for file in files for complaint in lint_suite(file, known)]
    for complaint in complaints:
        click.echo(printable(complaint))
    errors = sum(complaint.severity == "error" for complaint in complaints)
    warnings = len(complaints) - errors
    click.echo(f"{plural(len(files), 'suite')}, {plural(errors, 'error')}, {plural(warnings, 'warning')}", err=True)
    if errors:
        raise click.exceptions.Exit(ExitCode.USAGE)


@suite.command(epilog="Example: regress-gate suite new chat.yaml", context_settings=CONTEXT)
@click.argument("file", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Write a commented suite to begin with. Never overwrites a file."""
    if not is_suite_path(file.name):
        raise InputError("a suite is a YAML file", where=file, todo=f"call it {file.name}.yaml")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", file.stem).lstrip("._-")[:80] or "my-suite"
    try:
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(suite_template(name))
    except FileExistsError:
        raise InputError("is there already and is left as it is", where=file, todo="name another file") from None
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=file) from None
    click.echo(f"wrote {printable(file)}; edit it, then: regress-gate suite lint {printable(file)}")
