"""`regress-gate import`: store benchmark results made by other tools."""

import gc
import sys
from functools import partial
from typing import Any

import click

from regress_gate.app.importing import ImportRequest, import_results
from regress_gate.cli.options import (
    CONTEXT,
    REPORT,
    SectionedCommand,
    format_option,
    parse_testbed_facts,
    section,
    settings_from,
    store_options,
)
from regress_gate.cli.progress import counter_on_stderr
from regress_gate.errors import ExitCode, InputError
from regress_gate.ingest.identity import IdentityFlags
from regress_gate.report import print_view
from regress_gate.report.views.import_view import ImportPart, ImportView, input_formats_text


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
    format_option,
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
    any file was refused, or all results are stored as those of another version; what is good is stored all the same.
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
    request = ImportRequest(paths, flags, reader=forced, with_samples=not no_samples, is_dry_run=dry_run)
    # Nothing that an import makes is garbage before its end; looking for it would take a tenth of the time.
    gc.set_threshold(1_000_000)
    report = import_results(request, str(settings.store_url.value), count=partial(counter_on_stderr, quiet=quiet))
    _print_report(report, format_, quiet=quiet, verbose=verbose > 0)
    if report.refused:
        click.echo(report.refusal_text, err=True)
        return ExitCode.USAGE
    if report.is_all_copies:
        return ExitCode.USAGE
    if not report.intake.runs:
        raise InputError("no results were found", where=", ".join(paths[:3]), todo="name files that hold results")
    return ExitCode.PASS


def _print_report(report: ImportView, format_: str, *, quiet: bool, verbose: bool) -> None:
    """In one piece for a file; on a terminal refusals and notes go to stderr, and --quiet leaves only refusals."""
    if format_ != "table":
        print_view(report, format_, verbose=verbose)
        return
    if not quiet:
        print_view(report.restricted(ImportPart.RESULTS), verbose=verbose)
    if report.refused or not quiet:
        problems = ImportPart.REFUSALS if quiet else ImportPart.REFUSALS | ImportPart.NOTES
        print_view(report.restricted(problems), stream=sys.stderr, verbose=verbose)
