"""`regress-gate issues`: the known-issues database."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from regress_gate.cli.issues_tracking import sync, verify
from regress_gate.cli.options import CONTEXT, format_option
from regress_gate.errors import ExitCode, InputError
from regress_gate.known.records.loading import SUFFIX, load_records, record_files
from regress_gate.model.issue import IssueKind
from regress_gate.paths import shipped_directory
from regress_gate.report import Source, find_format, format_names, print_view
from regress_gate.report.views.list_view import printable
from regress_gate.report.views.record_view import IssueRecordView, issue_records
from regress_gate.text import did_you_mean, plural

if TYPE_CHECKING:
    pass

_directory = click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Records of your own instead of the shipped ones.",
)


@click.group(context_settings=CONTEXT, epilog="Example: regress-gate issues show VLLM-28882")
def issues() -> None:
    """The known-issues database: list, show, lint, new, sync, verify."""


issues.add_command(sync)
issues.add_command(verify)


@issues.command("list", epilog="Example: regress-gate issues list --kind crash", context_settings=CONTEXT)
@click.option("--kind", help="Only records of this kind: performance, accuracy, crash, hang, memory…")
@click.option(
    "--format",
    "format_",
    type=click.Choice(format_names(Source.VIEW, Source.RECORDS)),
    default="table",
    show_default=True,
)
@_directory
def list_(kind: str | None, format_: str, directory: Path | None) -> None:
    """All records, or those of one kind."""
    if kind is not None and kind not in list(IssueKind):
        raise InputError(f"unknown kind {kind!r}" + did_you_mean(kind, list(IssueKind)), where="--kind")
    records = [record for record in load_records(directory) if kind in (None, record.kind)]
    if format_ in format_names(Source.RECORDS):
        click.echo(find_format(format_, Source.RECORDS).load()(records), nl=False)
    else:
        print_view(issue_records(records), format_)


@issues.command(epilog="Example: regress-gate issues show VLLM-28882", context_settings=CONTEXT)
@click.argument("id_", metavar="ID")
@format_option
@_directory
def show(id_: str, format_: str, directory: Path | None) -> None:
    """One record, whole. ID may be given as 28882."""
    records = {name: record for record in load_records(directory) for name in (record.id, *record.aliases)}
    wanted = id_.upper() if id_.upper() in records else f"VLLM-{id_.lstrip('#')}"
    if wanted not in records:
        raise InputError(f"no record {id_!r}" + did_you_mean(id_.upper(), records))
    record = records[wanted]
    print_view(IssueRecordView(record), format_)


@issues.command(epilog="Example: regress-gate issues lint known_issues/", context_settings=CONTEXT)
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False, exists=True))
def lint(directory: Path | None) -> None:
    """Check records: schema, ids, links, versions, evidence. Exits 2 when there is an error, 0 with warnings only."""
    from regress_gate.known.records.lint import lint_records

    where = directory or shipped_directory("known_issues")
    complaints = lint_records(where, today=datetime.now(UTC).date())
    for complaint in complaints:
        line = "" if complaint.line is None else f":{complaint.line}"
        click.echo(printable(f"{complaint.file}{line}: {complaint.severity}: {complaint.what}"))
    errors = sum(complaint.severity == "error" for complaint in complaints)
    records, warnings = len(record_files(where)), len(complaints) - errors
    click.echo(f"{plural(records, 'record')}, {plural(errors, 'error')}, {plural(warnings, 'warning')}", err=True)
    if errors:
        raise click.exceptions.Exit(ExitCode.USAGE)


@issues.command(
    epilog="Example: regress-gate issues new https://github.com/vllm-project/vllm/issues/28882",
    context_settings=CONTEXT,
)
@click.argument("url", metavar="URL")
@click.option("--output", type=click.Path(path_type=Path), metavar="DIRECTORY", help="Write ID.yaml there.")
def new(url: str, output: Path | None) -> None:
    """Draft a record from the address of a thread. What you have to find out is marked TODO, which `lint` refuses."""
    from regress_gate.known.records.draft import draft_id, draft_record

    text = draft_record(url, today=datetime.now(UTC).date())
    if output is None:
        click.echo(text, nl=False)
        return
    path = output / (draft_id(url) + SUFFIX)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError("there is a record of this thread already", where=path) from None
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=path) from None
    click.echo(str(path))
