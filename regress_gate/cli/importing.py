"""`regress-gate import`: store benchmark results made by other tools."""

from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.options import CONTEXT, settings_from, store_options
from regress_gate.errors import ExitCode, InputError

if TYPE_CHECKING:
    from regress_gate.ingest.reports import FileReport, Intake

SHOWN_FILES = 20
"""Files that are listed of each outcome, unless all are asked for."""


@click.command(
    "import",
    context_settings=CONTEXT,
    epilog="Example: regress-gate import results/*.json --version v0.20.0 --testbed h200-node-3",
)
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("--version", metavar="REF", help="vLLM version that was measured.")
@click.option("--testbed", metavar="NAME", help="Machine that it was measured on.")
@click.option(
    "--testbed-fact", "facts", multiple=True, metavar="KEY=VALUE", help="accelerator=H200, cpu_count=64… (repeatable)."
)
@click.option("--suite", metavar="NAME[@VERSION]", help="Suite that was run; default: imported.")
@click.option("--scenario", metavar="NAME", help="Scenario of all files; default: named by what the file says.")
@click.option("--run", "run_label", metavar="LABEL", help="All files come from this one server start.")
@click.option("--run-per-file", is_flag=True, help="Each file comes from a server start of its own.")
@click.option(
    "--pattern", metavar="PATTERN", help="Identity from the path: '{version}/run{run}/{scenario}-r{trial}.json'."
)
@click.option("--no-samples", is_flag=True, help="Do not keep per-request measurements.")
@click.option("--dry-run", is_flag=True, help="Store nothing; exit 0 if everything would be stored, else 2.")
@click.option("-q", "--quiet", is_flag=True, help="Say only what was refused.")
@click.option("-v", "--verbose", count=True, help="List every file; -vv adds tracebacks.")
@store_options
def import_(
    paths: tuple[str, ...],
    version: str | None,
    testbed: str | None,
    facts: tuple[str, ...],
    suite: str | None,
    scenario: str | None,
    run_label: str | None,
    run_per_file: bool,
    pattern: str | None,
    no_samples: bool,
    dry_run: bool,
    quiet: bool,
    verbose: int,
    **options: Any,
) -> int:
    """Store `vllm bench serve` results: files, folders, globs, or - for standard input.

    What a file does not say (version, testbed, scenario, run) comes from these options, from --metadata keys in the
    file, from a conditions.json beside it, or from its path. Importing the same file twice adds nothing. Exits 2 if
    any file was refused; what is good is stored all the same.
    """
    settings = settings_from({**options, "suite": suite, "testbed": testbed})
    from regress_gate.cli.progress import progress_on_stderr
    from regress_gate.ingest.identity import IdentityFlags
    from regress_gate.ingest.intake import read_paths

    flags = IdentityFlags.parse(
        version=version,
        testbed=settings.testbed.value,
        testbed_facts=testbed_facts(facts),
        suite=settings.suite.value,
        scenario=scenario,
        run=run_label,
        run_per_file=run_per_file,
        pattern=pattern,
    )
    with progress_on_stderr("reading", quiet=quiet) as advance:
        intake = read_paths(paths, flags, with_samples=not no_samples, progress=advance)
    _report(intake, quiet=quiet, verbose=verbose > 0)
    if dry_run:
        click.echo(f"would store {_counted(intake)}; nothing was stored (--dry-run)")
    elif intake.runs:
        from regress_gate.store.repository import open_store

        with open_store(str(settings.store_url.value), create=True) as store:
            added = store.add_runs(intake.runs)
            if not quiet:
                _report_added(added, store.location.shown)
    refused = sum(report.outcome == "refused" for report in intake.files)
    if refused:
        click.echo(f"{refused} of {len(intake.files)} results were refused", err=True)
    elif not intake.runs:
        raise InputError("no results were found", where=", ".join(paths[:3]), todo="name files of `vllm bench serve`")
    return ExitCode.USAGE if refused else ExitCode.PASS


def testbed_facts(pairs: tuple[str, ...]) -> dict[str, Any] | None:
    """Read KEY=VALUE pairs as fields of a testbed. Raises InputError for a key that is none."""
    from dataclasses import fields

    from regress_gate.model.nearest import did_you_mean
    from regress_gate.model.testbed import Testbed

    known = {field.name for field in fields(Testbed)} - {"name"}
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not value:
            raise InputError(f"{pair!r} is no fact", where="--testbed-fact", todo="write KEY=VALUE")
        if key not in known:
            raise InputError(f"unknown fact {key!r}" + did_you_mean(key, sorted(known)), where="--testbed-fact")
        if key in ("accelerator_count", "cpu_count", "memory_bytes"):
            if not value.isascii() or not value.isdigit():
                raise InputError(f"{key} is a whole number, not {value!r}", where="--testbed-fact")
            found[key] = int(value)
        else:
            found[key] = value
    return found or None


def _report(intake: "Intake", *, quiet: bool, verbose: bool) -> None:
    refused = [report for report in intake.files if report.outcome == "refused"]
    others = [] if quiet else [report for report in intake.files if report.outcome != "refused"]
    limit = None if verbose else SHOWN_FILES
    for report in others[:limit]:
        click.echo(_line(report))
    for report in refused[:limit]:
        click.echo(f"refused  {_plain(report.where)}: {_plain(report.reason)}", err=True)
    hidden = len(others) + len(refused) - len(others[:limit]) - len(refused[:limit])
    if hidden:
        click.echo(f"… and {hidden} more (-v lists them)", err=True)
    if not quiet:
        for note in intake.notes:
            click.echo(f"note: {_plain(note)}", err=True)


def _line(report: "FileReport") -> str:
    if report.outcome == "skipped":
        return f"skipped  {_plain(report.where)}: {_plain(report.reason)}"
    what = f"{report.version} {report.scenario} run {report.run} trial {report.trial}, {len(report.metrics)} metrics"
    notes = f" ({'; '.join(report.notes)})" if report.notes else ""
    return f"read     {_plain(report.where)}: {_plain(report.format)}, {_plain(what)}{_plain(notes)}"


def _report_added(added: Any, where: str) -> None:
    parts = [f"{added.trials} trials in {len(added.new)} new runs"]
    if added.extended:
        parts.append(f"{len(added.extended)} runs extended")
    if added.duplicates:
        parts.append(f"{len(added.duplicates)} results were stored already and add nothing")
    runs = ", ".join(f"run:{number}" for number in added.new[:10]) + (", …" if len(added.new) > 10 else "")
    click.echo(f"stored {'; '.join(parts)} in {_plain(where)}" + (f" ({runs})" if runs else ""))


def _counted(intake: "Intake") -> str:
    return f"{sum(len(run.trials) for run in intake.runs)} trials in {len(intake.runs)} runs"


def _plain(value: object) -> str:
    from regress_gate.cli.text import plain

    return plain(value)
