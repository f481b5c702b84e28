"""`regress-gate issues`: the known-issues database."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regress_gate.cli.issues_tracking import sync, verify
from regress_gate.cli.options import CONTEXT
from regress_gate.errors import ExitCode, InputError
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.model.issue import Change, KnownIssue

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
@click.option("--format", "format_", type=click.Choice(["table", "json", "osv"]), default="table", show_default=True)
@_directory
def list_(kind: str | None, format_: str, directory: Path | None) -> None:
    """All records, or those of one kind."""
    from regress_gate.known.matching.versions import range_text
    from regress_gate.known.records.loading import load_records
    from regress_gate.model.issue import IssueKind
    from regress_gate.report.render.plain_text import columns, json_text
    from regress_gate.text import did_you_mean

    if kind is not None and kind not in list(IssueKind):
        raise InputError(f"unknown kind {kind!r}" + did_you_mean(kind, list(IssueKind)), where="--kind")
    records = [record for record in load_records(directory) if kind in (None, record.kind)]
    if format_ == "json":
        data = [record.model_dump(mode="json", exclude_none=True) for record in records]
        click.echo(json_text({"schema_version": "1", "issues": data}))
        return
    if format_ == "osv":
        from regress_gate.known.records.osv import osv_document

        click.echo(json_text([osv_document(record) for record in records]))
        return
    rows = [(r.id, r.severity.value, r.kind.value, range_text(r), _tracker(r), r.summary) for r in records]
    click.echo(columns(("id", "severity", "kind", "affected", "tracker", "summary"), rows))


@issues.command(epilog="Example: regress-gate issues show VLLM-28882", context_settings=CONTEXT)
@click.argument("id_", metavar="ID")
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@_directory
def show(id_: str, format_: str, directory: Path | None) -> None:
    """One record, whole. ID may be given as 28882."""
    from regress_gate.known.records.loading import load_records
    from regress_gate.report.render.plain_text import json_text
    from regress_gate.text import did_you_mean

    records = {name: record for record in load_records(directory) for name in (record.id, *record.aliases)}
    wanted = id_.upper() if id_.upper() in records else f"VLLM-{id_.lstrip('#')}"
    if wanted not in records:
        raise InputError(f"no record {id_!r}" + did_you_mean(id_.upper(), records))
    record = records[wanted]
    if format_ == "json":
        click.echo(json_text(record.model_dump(mode="json", exclude_none=True)))
        return
    click.echo("\n".join(_described(record)))


@issues.command(epilog="Example: regress-gate issues lint known_issues/", context_settings=CONTEXT)
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False, exists=True))
def lint(directory: Path | None) -> None:
    """Check records: schema, ids, links, versions, evidence. Exits 2 when there is an error, 0 with warnings only."""
    from datetime import UTC, datetime

    from regress_gate.known.records.lint import lint_records
    from regress_gate.known.records.loading import record_files
    from regress_gate.paths import shipped_directory
    from regress_gate.report.render.plain_text import plain

    where = directory or shipped_directory("known_issues")
    complaints = lint_records(where, today=datetime.now(UTC).date())
    for complaint in complaints:
        line = "" if complaint.line is None else f":{complaint.line}"
        click.echo(plain(f"{complaint.file}{line}: {complaint.severity}: {complaint.what}"))
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
    from datetime import UTC, datetime

    from regress_gate.known.records.draft import draft_id, draft_record
    from regress_gate.known.records.loading import SUFFIX

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


def _tracker(record: "KnownIssue") -> str:
    reason = record.tracker.state_reason
    return record.tracker.state + (f" ({reason})" if reason else "")


def _change(change: "Change") -> str:
    """`#44220, commit 1234567, merged 2026-06-02; reverted by #46070`."""
    from regress_gate.model.issue import VLLM_REPO, Fix

    parts = [
        f"#{change.pull}" if change.pull else None,
        f"commit {change.commit}" if change.commit else None,
        f"merged {change.merged}" if change.merged else None,
        None if change.repo == VLLM_REPO else f"of {change.repo}",
    ]
    text = ", ".join(part for part in parts if part)
    back = change.reverted_by if isinstance(change, Fix) else None
    return f"{text}; reverted by {_change(back)}" if back else text


def _size(low: float, high: float) -> str:
    """`50 %`, `5 to 21 %`: the direction says whether it is a loss or a gain."""
    ends = sorted({f"{abs(end) * 100:.3g}" for end in (low, high)}, key=float)
    return f"{' to '.join(ends)} %"


def _described(record: "KnownIssue") -> list[str]:
    from regress_gate.known.matching.versions import range_text
    from regress_gate.report.render.plain_text import plain

    lines = [
        f"{record.id}: {plain(record.summary)}",
        f"kind        {record.kind}, severity {record.severity}, confidence {record.confidence}",
        f"affected    {range_text(record)}"
        + ("" if record.version_regression else " (no regression between versions)"),
        f"tracker     {_tracker(record)}, seen {record.tracker.checked}: {plain(record.tracker.url)}",
    ]
    scope = record.scope.model_dump(exclude_none=True)
    lines += [f"scope       {plain(key)}: {plain(value)}" for key, value in scope.items()]
    if not scope:
        lines.append("scope       every deployment")
    for part in record.signature:
        size = "" if part.change is None else f" by {_size(*part.change)}"
        region = "" if part.workload is None else f" at {plain(part.workload.model_dump(exclude_none=True))}"
        lines.append(f"signature   {part.metric} {part.direction}{size}{region}")
    for what, listed in (("brought by", record.changes.introduced_by), ("fixed by", record.changes.fixed_by)):
        lines += [f"{what:<11} {_change(change)}" for change in listed]
    for fix in record.workarounds:
        cost = f" (cost: {plain(fix.cost)})" if fix.cost else ""
        lines.append(f"workaround  {plain(fix.text)}{cost}")
    if record.details:
        lines.append(f"details     {plain(record.details)}")
    lines.append(f"evidence    {plain(record.evidence)}")
    lines += [f"{reference.type.lower():<11} {plain(reference.url)}" for reference in record.references]
    lines.append(f"reviewed    {record.reviewed}")
    return lines
