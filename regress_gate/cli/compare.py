"""`regress-gate compare`: the gate."""

from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    DECISION,
    MEASURING,
    PROVISION_PARAMETERS,
    PROVISIONING,
    SectionedCommand,
    amount_from,
    comparison_options,
    decision_options,
    deployment_fact_options,
    deployment_options,
    fleet_option,
    fleet_place_options,
    measure_options,
    measuring_settings,
    provision_options,
    provisioning_from,
    section,
    settings_from,
    spool_option,
    store_options,
)
from regress_gate.cli.output import deliver, parse_outputs
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.errors import ExitCode, InputError
from regress_gate.model.policy import PolicyOverrides
from regress_gate.model.version import Ref
from regress_gate.report import OF_A_REPORT, find_format, print_view
from regress_gate.report.views.list_view import printable

_NO_TEMPLATE = (
    "--serve-command is what you deploy; the servers are started as the suite says, because it has no {version} and "
    "{port} to fill in"
)


def _check_price(context: click.Context, option: click.Parameter, price: float | None) -> float | None:
    # A range takes NaN, which is neither below nor above anything.
    if price is not None and isnan(price):
        raise click.BadParameter("nan is no price", context, option)
    return price


@click.command(
    cls=SectionedCommand,
    context_settings=CONTEXT,
    epilog="Example: regress-gate compare v0.19.0 v0.19.1 --measure --suite cpu-tiny --budget 45m",
)
@click.argument("baseline", metavar="BASE")
@click.argument("candidate", metavar="CAND")
@section(
    DECISION,
    click.option(
        "--gate",
        multiple=True,
        metavar="METRIC",
        help="Metric that gates, or a pattern: ttft_mean, '*_throughput' (repeatable); replaces [gate] metrics.",
    ),
    click.option("--allow-incomparable", is_flag=True, help="Compare all the same, and mark the report."),
    click.option(
        "--gpu-hour",
        type=click.FloatRange(min=0, min_open=True, max=1e6),
        metavar="PRICE",
        callback=_check_price,
        help="Price of one GPU for an hour: says what a million output tokens cost; replaces [cost] gpu_hour.",
    ),
    click.option("--no-keep", is_flag=True, help="Do not keep the result in the store, for `site`."),
)
@decision_options
@fleet_place_options
@comparison_options
@section(
    MEASURING,
    click.option("--measure", is_flag=True, help="Measure on this machine first, in blocks, until it can be decided."),
    click.option("--plan", "plan_only", is_flag=True, help="Say what --measure would do, how long, and what it shows."),
    click.option("--all-blocks", is_flag=True, help="With --measure: make every block, and look once, at the end."),
    click.option(
        "--attribute",
        is_flag=True,
        help="With --measure: if it is slower, measure also what would undo the causes, one after the other.",
    ),
)
@measure_options
@fleet_option
@spool_option
@section(
    PROVISIONING,
    click.option("--url", "urls", multiple=True, help="With --measure: servers that run, BASE's and then CAND's."),
)
@provision_options
@deployment_options
@deployment_fact_options
@store_options
def compare(
    baseline: str,
    candidate: str,
    allow_incomparable: bool,
    gpu_hour: float | None,
    no_keep: bool,
    measure: bool,
    all_blocks: bool,
    attribute: bool,
    on: str | None,
    spool: Path | None,
    urls: tuple[str, ...],
    plan_only: bool,
    format_: str,
    outputs: tuple[str, ...],
    figure: str | None,
    on_inconclusive: Any,
    report_only: bool,
    verbose: int,
    quiet: bool,
    offline: bool,
    **options: Any,
) -> int:
    """Decide whether to move from BASE to CAND, from stored runs or, with --measure, from new ones too.

    BASE and CAND are versions (v0.19.1, 0.20.0rc1, commit:SHA), pinned, latest, nightly or run:N. Exits 0 for pass, 1
    for fail, 3 for inconclusive.
    """
    # The statistics are imported here: --help does not need them.
    from regress_gate.app.compare import ComparisonScope, compare_stored, keep_comparison
    from regress_gate.app.deployment_facts import is_launch_template

    if attribute and urls:
        raise InputError(
            "--attribute starts servers with other settings, and those of --url run already",
            todo="give --serve-command in place of --url",
        )
    if on is not None and (urls or attribute or not (measure or plan_only)):
        what = "--url" if urls else "--attribute" if attribute else "a comparison of stored runs"
        raise InputError(f"{what} is not measured on a fleet", where="--on", todo="leave --on out, or give --measure")
    if spool is not None and not measure:
        raise InputError("a comparison of stored runs has nothing to spool", where="--spool", todo="give --measure too")
    amount = amount_from(options)
    if attribute and amount.resume:  # the comparison, or one of its counter-tests
        amount = replace(amount, resume=False, resume_if_any=True)
    flags = {key: options.pop(key) for key in PROVISION_PARAMETERS}
    if (line := flags["serve_command"]) is not None:
        options["launch_line"] = line
        if flags["provision"] != "command" and not is_launch_template(line):
            # It says what is deployed, as without --measure; it cannot start two versions on ports of our own.
            flags["serve_command"] = None
            if measure and not quiet:
                click.echo(f"regress-gate: note: {_NO_TEMPLATE}", err=True)
    settings = measuring_settings(settings_from(options), spool)
    if plan_only:
        find_format(format_)  # nothing in a plan passes or fails, and it has no pictures
        if outputs:
            raise InputError("--plan prints a plan and writes no file", where="--output", todo="leave it out")
    files = parse_outputs(outputs, *OF_A_REPORT, format_=format_)
    scope = ComparisonScope(Ref.parse(baseline), Ref.parse(candidate), settings.suite.value, settings.testbeds.value)
    decide = partial(
        compare_stored,
        settings,
        overrides=PolicyOverrides(on_inconclusive=on_inconclusive),
        allow_incomparable=allow_incomparable,
        report_only=report_only,
        gpu_hour=gpu_hour,
    )
    attribution = None
    if measure or plan_only:
        if measure and offline:
            raise InputError("--measure needs the network to get versions", todo="leave --offline or --measure out")
        # Measuring imports the HTTP client and the provisioners.
        from regress_gate.app import measure_comparison as measuring
        from regress_gate.app.attribution import Attribution, starts_of_counter_test
        from regress_gate.app.fleet import open_fleet

        if urls and not plan_only:
            if all_blocks:
                raise InputError("a server that already runs is one run", todo="leave --all-blocks out")
            with progress_on_stderr(quiet=quiet) as progress:
                scope = measuring.measure_running_comparison(settings, baseline, candidate, urls, amount, progress)
        else:
            with progress_on_stderr(quiet=quiet) as progress, open_fleet(settings, on, progress) as fleet:
                planned = measuring.plan_comparison(
                    settings,
                    baseline,
                    candidate,
                    amount,
                    provisioning_from(flags, settings),
                    decide=None if all_blocks else decide,
                    plan_only=plan_only,
                    fleet=fleet,
                )
                if not plan_only:
                    attribution = Attribution.begin(settings, planned) if attribute else None
                    scope = measuring.measure_comparison(settings, planned, progress)
            if plan_only:
                from regress_gate.app.recorded_traffic import suite_traces  # with the load client
                from regress_gate.report.views.planning_view import PlanView  # with the statistics

                task = planned.task
                starts = starts_of_counter_test(task, amount) if attribute else None
                suite, versions = f"{task.suite.name}@{task.suite.version}", tuple(map(str, task.versions.values()))
                traces = suite_traces(task.suite)
                print_view(PlanView(versions, suite, task.place, planned.plan, amount.budget, starts, traces), format_)
                return ExitCode.PASS
    elif urls or all_blocks or attribute:
        flag = "--url" if urls else "--all-blocks" if all_blocks else "--attribute"
        raise InputError(f"{flag} is for measuring", todo="give --measure too")
    result = decide(scope)
    if attribution is not None:
        with progress_on_stderr(quiet=quiet) as progress:
            result = attribution.explain(result, progress)
    deliver(result, format_, files, verbose=verbose > 0, quiet=quiet, figure=figure)
    reason = "--no-keep" if no_keep else keep_comparison(settings, result)
    if reason is not None and verbose and not quiet:
        click.echo(f"regress-gate: note: the result is not kept in the store: {printable(reason)}", err=True)
    return result.exit_code
