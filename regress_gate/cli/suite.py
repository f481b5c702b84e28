"""`regress-gate suite`: the suites that can be measured, and help with writing one."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.options import CONTEXT, format_option
from regress_gate.errors import ExitCode, InputError
from regress_gate.known.records.loading import load_records
from regress_gate.report import print_view
from regress_gate.report.views.list_view import printable
from regress_gate.report.views.suite_view import SuiteListView, SuiteView
from regress_gate.suites import is_suite_path, load_suite, shipped_suites, suite_template
from regress_gate.text import plural

MAX_BYTES = 16 * 1024 * 1024


@click.command(
    "import", epilog="Example: regress-gate suite import serving-tests.json -o suites", context_settings=CONTEXT
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "directory", metavar="DIR", type=click.Path(path_type=Path), help="Write a file for each suite there."
)
def import_(files: tuple[Path, ...], directory: Path | None) -> None:
    """Make suites of vLLM's CI definitions (serving-tests.json). Names what it leaves out; never overwrites a file.

    Exits 2 when a definition has no test that a suite can say.
    """
    from regress_gate.suites.vllm_ci import convert_definition, suite_text

    texts: dict[str, str] = {}
    fruitless = False
    for file, name in zip(files, _suite_names(files), strict=True):
        imported = convert_definition(_read_definition(file), name, file.name)
        for reason in imported.left_out:
            click.echo(f"left out  {printable(file)}: {printable(reason)}", err=True)
        if imported.suite is None:
            fruitless = True
            click.echo(f"{printable(file)}: no suite, as no test of it can be said in one", err=True)
            continue
        comments = ["The temperature is 0 where vLLM's CI leaves it to the client's or the server's default."]
        comments += [f"Left out: {printable(reason)}" for reason in imported.left_out]
        texts[name] = suite_text(imported.suite, comments)
        click.echo(f"{printable(file)}: {plural(len(imported.suite['scenarios']), 'scenario')}", err=True)
    if directory is not None:
        for name, text in texts.items():
            click.echo(f"wrote {printable(_write_new_file(directory / f'{name}.yaml', text))}")
    elif len(texts) > 1:
        raise InputError(f"{len(texts)} suites are several files", todo="give -o DIR, or one FILE at a time")
    else:
        click.echo("".join(texts.values()), nl=False)
    if fruitless:
        raise click.exceptions.Exit(ExitCode.USAGE)


def _suite_names(files: tuple[Path, ...]) -> Iterator[str]:
    """A name for each file's suite: its stem, with the folder's name before it where two would be the same."""
    stems = [_suite_name(file.stem) for file in files]
    longer = [_suite_name(f"{file.resolve().parent.name}-{file.stem}") for file in files]
    for index, (stem, long) in enumerate(zip(stems, longer, strict=True)):
        name = stem if stems.count(stem) == 1 else long
        if stems.count(stem) > 1 and longer.count(long) > 1:
            raise InputError("would be two suites of one name", where=files[index], todo="import one of them at a time")
        yield name


def _suite_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text).lstrip("._-")[:80] or "imported"


def _read_definition(file: Path) -> Any:
    """The definition in a file. Raises InputError."""
    from regress_gate.suites.vllm_ci import is_definition

    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=file) from None
    if len(data) > MAX_BYTES:
        raise InputError("larger than 16 MiB, which no test definition is", where=file)
    try:
        definition = json.loads(data)
    except json.JSONDecodeError as error:
        raise InputError(f"not valid JSON: {error.msg}", where=file, line=error.lineno) from None
    except (ValueError, RecursionError):
        raise InputError("not valid JSON: not UTF-8, or nested too deeply", where=file) from None
    if not is_definition(definition):
        raise InputError(
            "is no test definition of vLLM's CI", where=file, todo="give serving-tests.json or one like it"
        )
    return definition


def _write_new_file(file: Path, text: str) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError("is there already and is left as it is", where=file, todo="give another folder") from None
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=file) from None
    return file


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
