"""`regress-gate import`: store benchmark results made by other tools."""

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    REPORT,
    SectionedCommand,
    parse_testbed_facts,
    section,
    settings_from,
    store_options,
)
from regress_gate.cli.progress import counter_on_stderr
from regress_gate.errors import ExitCode, InputError, StoreError, StoreVersionError
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.ingest.importer import read_paths
from regress_gate.ingest.interface import ImportResult, Reader
from regress_gate.ingest.registry import READERS
from regress_gate.model.run import Run
from regress_gate.report.render.json import json_text
from regress_gate.report.render.output_formats import options_for
from regress_gate.report.views.import_view import (
    dry_run_text,
    elsewhere_notes,
    grouped_reports,
    import_document,
    input_formats_text,
    report_line,
    stored_text,
    would_store_text,
)
from regress_gate.report.views.list_view import printable
from regress_gate.store.store_interface import AddedRuns, StoreLocation
from regress_gate.text import did_you_mean, plural

SHOWN_FILES = 20
"""Files that are listed of each outcome, unless all are asked for."""


def _list_formats(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
    if is_given:
        click.echo(input_formats_text())
        context.exit()


@click.command(
    "import",
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate import results/*.json --version v0.20.0 --testbed h200-node-3; regress-gate import "
    "artifacts.zip --testbed ci --pattern '{version}/{scenario}.json' --dry-run",
)
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@section(
    "What was measured, where the files do not say",
    click.option("--version", metavar="REF", help="vLLM version that was measured."),
    click.option("--testbed", metavar="NAME", help="Machine that it was measured on."),
    click.option(
        "--testbed-fact",
        "facts",
        multiple=True,
        metavar="KEY=VALUE",
        help="accelerator=H200, cpu_count=64… (repeatable).",
    ),
    click.option("--suite", metavar="NAME[@VERSION]", help="Suite that was run; default: imported."),
    click.option("--scenario", metavar="NAME", help="Scenario of all files; default: named by what the file says."),
    click.option(
        "--pattern", metavar="PATTERN", help="Identity from the path: '{version}/run{run}/{scenario}-r{trial}.json'."
    ),
    click.option("--client-version", metavar="VERSION", help="Of the program that made the files."),
)
@section(
    "Which server starts they come from",
    click.option("--run-per-file", is_flag=True, help="Each file comes from a server start of its own."),
    click.option("--run", "run_label", metavar="LABEL", help="All files come from this one server start."),
    click.option(
        "--first-run",
        type=click.Choice(["cold"]),
        help="The first run of each version was after a cold start: kept, but it does not count.",
    ),
)
@section(
    "Reading",
    click.option(
        "--from", "forced", metavar="FORMAT", help="Read all files by this reader; --list-formats names them."
    ),
    click.option(
        "--list-formats",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_list_formats,
        help="Print the formats that are read, and exit.",
    ),
    click.option("--no-samples", is_flag=True, help="Do not keep per-request measurements."),
    click.option("--dry-run", is_flag=True, help="Store nothing; exit 0 if everything would be stored, else 2."),
)
@section(
    REPORT,
    click.option(
        "--format",
        "format_",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Of what is said of the files.",
    ),
    click.option("-v", "--verbose", count=True, help="List every file; -vv adds tracebacks."),
    click.option("-q", "--quiet", is_flag=True, help="Say only what was refused."),
)
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
    forced: str | None,
    client_version: str | None,
    first_run: str | None,
    no_samples: bool,
    dry_run: bool,
    format_: str,
    quiet: bool,
    verbose: int,
    **options: Any,
) -> int:
    """Store what other tools measured: files, folders, archives, globs, or - for standard input.

    Read are the results of vllm bench (serve, latency, throughput, startup, sweep) and of vLLM's CI, of SGLang,
    GuideLLM, AIPerf, GenAI-Perf, inference-perf, llmperf, evalscope, InferenceX, MLPerf loadgen, llm-d and more, each
    recognised by its content; also as .gz and in zip and tar files.

    What a file does not say (version, testbed, scenario, run) comes from these options, from --metadata keys in the
    file, from a conditions.json beside it, or from its path. Importing the same file twice adds nothing. Exits 2 if
    any file was refused; what is good is stored all the same.
    """
    settings = settings_from({**options, "suite": suite, "testbed": testbed})
    flags = IdentityFlags.parse(
        version=version,
        testbed=settings.testbed.value,
        testbed_facts=parse_testbed_facts(facts),
        suite=settings.suite.value,
        scenario=scenario,
        run=run_label,
        run_per_file=run_per_file,
        pattern=pattern,
        client_version=client_version,
        cold_first=first_run == "cold",
    )
    reader = None if forced is None else _reader(forced)
    # Nothing that an import makes is garbage before its end; looking for it would take a tenth of the time.
    gc.set_threshold(1_000_000)
    with counter_on_stderr("reading", quiet=quiet) as advance:
        intake = read_paths(paths, flags, forced=reader, with_samples=not no_samples, progress=advance)
    listed = format_ == "table"
    if listed:
        _report(intake, dry_run=dry_run, quiet=quiet, verbose=verbose > 0)
    added = None
    if dry_run and listed:
        _report_dry_run(intake, str(settings.store_url.value))
    elif intake.runs and not dry_run:
        from regress_gate.store.repository import open_store

        with open_store(str(settings.store_url.value), create=True) as store:
            with counter_on_stderr("storing", quiet=quiet) as advance:
                added = store.add_runs(_counted(intake.runs, advance))
            if not quiet and listed:
                _report_added(added, store.location.shown)
    if not listed:
        click.echo(json_text(import_document(intake, added)))
    refused = sum(report.outcome == "refused" for report in intake.files)
    if refused:
        results = sum(report.outcome != "skipped" for report in intake.files)
        of = f"of {plural(results, 'result')}"
        click.echo(plural(refused, f"{of} was refused", f"{of} were refused"), err=True)
    elif not intake.runs:
        raise InputError("no results were found", where=", ".join(paths[:3]), todo="name files that hold results")
    return ExitCode.USAGE if refused else ExitCode.PASS


def _counted(runs: tuple[Run, ...], advance: Callable[[int, int], None] | None) -> Iterator[Run]:
    """The runs; reports progress as they are taken."""
    for done, run in enumerate(runs):
        if advance is not None:
            advance(done, len(runs))
        yield run


def _reader(name: str) -> Reader:
    readers = {reader.name: reader for reader in READERS}
    if name not in readers:
        near = did_you_mean(name, readers, limit=len(readers))
        raise InputError(f"unknown format {name!r}{near}", where="--from", todo="--list-formats names all")
    return readers[name]


def _report(intake: ImportResult, *, dry_run: bool, quiet: bool, verbose: bool) -> None:
    refused = [report for report in intake.files if report.outcome == "refused"]
    others = [] if quiet else [report for report in intake.files if report.outcome != "refused"]
    counted = len(others) + len(refused)
    if not verbose:
        others, refused = grouped_reports(others), grouped_reports(refused)
    limit = None if verbose else SHOWN_FILES
    width = _width() if dry_run else 0
    for report in others[:limit]:
        click.echo(dry_run_text(report, width) if dry_run else report_line(report))
    for report in refused[:limit]:
        click.echo(dry_run_text(report, width) if dry_run else report_line(report), err=True)
    hidden = len(others) + len(refused) - len(others[:limit]) - len(refused[:limit])
    if hidden:
        click.echo(f"… and {hidden} more (-v lists them)", err=True)
    elif counted > len(others) + len(refused):
        click.echo("(-v lists every file)", err=True)
    if not quiet:
        for note in intake.notes:
            click.echo(f"note: {_plain(note)}", err=True)


def _width() -> int:

    return options_for(sys.stdout).width


def _report_added(added: AddedRuns, where: str) -> None:
    click.echo(stored_text(added, where))
    for note in elsewhere_notes(added.mismatches):
        click.echo(f"note: {note}", err=True)


def _report_dry_run(intake: ImportResult, url: str) -> None:
    """What would be stored, by what the store has. Makes none, and migrates none."""
    held: dict[tuple[str, int], int] = {}
    location = StoreLocation.parse(url)
    if location.may_exist:
        from regress_gate.store.repository import find_store

        try:
            if (store := find_store(url)) is not None:
                with store:
                    held = store.holds(intake.runs)
        except (StoreError, StoreVersionError) as error:
            click.echo(f"note: what is stored already is not known: {_plain(error)}", err=True)
    click.echo(would_store_text(intake, held, location.shown))


def _plain(value: object) -> str:
    return printable(value)
