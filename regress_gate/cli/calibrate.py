"""`regress-gate calibrate`: measure a version against itself, to know the noise of the measurement."""

from typing import Any

import click

from regress_gate.cli.options import (
    CONTEXT,
    amount_from,
    measure_options,
    place_options,
    provision_options,
    provisioning_from,
    settings_from,
    store_options,
)
from regress_gate.cli.plan_text import SENSELESS, percent
from regress_gate.cli.progress import progress_on_stderr
from regress_gate.errors import ExitCode
from regress_gate.report.render.plain_text import columns, json_text, plain

STAR = 0.05
"""Probability that any effect of order or time is starred although there is none."""


@click.command(
    context_settings=CONTEXT, epilog="Example: regress-gate calibrate v0.19.1 --suite cpu-tiny --runs 5 --budget 30m"
)
@click.argument("version")
@click.option("--format", "format_", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no notes.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@measure_options
@provision_options
@place_options
@store_options
def calibrate(
    version: str,
    format_: str,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> int:
    """Measure VERSION against itself, in blocks as `compare --measure` does, and show how much each series scatters.

    The runs are stored: later plans estimate from them what a number of runs can show. Exits 0; 1 if the gate fails the
    version against itself, which happens by chance in at most 5 % of calibrations (if it fails twice, do not trust
    this machine's numbers); 4 if a server failed or too little was measured.
    """
    # Measuring imports the HTTP client and the statistics: --help does not need them.
    from regress_gate.app.calibrate import calibrate_version

    amount = amount_from(options)
    settings = settings_from(options)
    provisioning = provisioning_from(options, settings)
    with progress_on_stderr(quiet=quiet) as progress:
        summary = calibrate_version(settings, version, amount, provisioning, progress)
    if format_ == "json":
        click.echo(json_text(summary))
    else:
        _print(summary)
    if summary["failed_runs"] or summary["runs"] < 2:
        return ExitCode.COULD_NOT_MEASURE
    return ExitCode.FAIL if summary["decision"] == "fail" else ExitCode.PASS


def _print(shown: dict[str, Any]) -> None:
    said = {"pass": "passes", "fail": "FAILS", "inconclusive": "stays undecided"}[shown["decision"]]
    click.echo(f"{plain(shown['version'])} against itself {said}: {plain('; '.join(shown['reasons']))}")
    parts = [f"{shown['runs']} runs count"]
    parts += [f"{len(shown['void_runs'])} void ({plain(shown['void_runs'][0])})"] if shown["void_runs"] else []
    parts += [f"{shown['failed_runs']} failed"] if shown["failed_runs"] else []
    parts += [] if shown["minutes_a_block"] is None else [f"{shown['minutes_a_block']:.1f} minutes a block"]
    click.echo(f"{plain(shown['suite'])} on {plain(shown['testbed'])}: {', '.join(parts)}")
    if not shown["series"]:
        click.echo("\nNo series has two runs that count, so the spread is unknown.")
        return
    head = (
        "SERIES",
        "SPREAD",
        "MARGIN",
        *(f"n={n}".rjust(4) for n in shown["series"][0]["detectable_change"]),
        " SECOND",
        "A BLOCK",
    )
    rows = [
        (
            f"{each['scenario']}/{each['metric']}",
            percent(each["run_cv"]),
            percent(each["margin"]),
            *(_short(value) for value in each["detectable_change"].values()),
            _effect(each["second_in_block"]),
            _effect(each["drift_per_block"]),
        )
        for each in sorted(shown["series"], key=lambda each: -each["run_cv"])
    ]
    click.echo(f"\n{columns(head, rows)}\n")
    click.echo(_LEGEND)


_LEGEND = """\
SPREAD   between server starts, relative (of fractions for failures and answers)
n=5      the smallest loss that is called a regression with five runs a side,
         four times in five; `none` where no loss is large enough
SECOND   effect of being started second in a block
A BLOCK  drift from block to block; both are positive for larger values, which
         need not be worse; `*`: shown to be there, over all series together"""


def _short(loss: float | None) -> str:
    """Four signs wide: there are three of them in a row."""
    if loss is None or loss >= SENSELESS:
        return "none"
    return (f"{loss:.1%}" if loss < 0.0995 else f"{loss:.0%}").rjust(4)


def _effect(found: dict[str, Any] | None) -> str:
    if found is None:
        return "-".rjust(6)
    return f"{found['effect']:+.1%}".rjust(6) + ("*" if found["p_adjusted"] <= STAR else "")
