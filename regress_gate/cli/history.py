"""`regress-gate history`: every stored version of a suite on a testbed, and which of them changed something."""

from typing import TYPE_CHECKING, Any

import click

from regress_gate.cli.options import CONTEXT, format_option, place_options, settings_from, store_options
from regress_gate.errors import InputError, NoDataError
from regress_gate.text import plural

if TYPE_CHECKING:
    from regress_gate.model.run import SuiteRef
    from regress_gate.store.store_interface import Holding


@click.command(context_settings=CONTEXT, epilog="Example: regress-gate history --metric ttft_median --detect")
@click.option(
    "--metric", "metrics", metavar="NAME", multiple=True, help="Metric or glob (repeatable) [default: gating]"
)
@click.option("--scenario", "scenarios", metavar="NAME", multiple=True, help="Scenario or glob (repeatable).")
@click.option("--detect", "asked", is_flag=True, help="Say which versions changed something.")
@click.option("--improvements", is_flag=True, help="With --detect: tell changes for the better too.")
@format_option
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
@click.option("-v", "--verbose", count=True, help="-vv adds tracebacks.")
@place_options
@store_options
def history(
    metrics: tuple[str, ...],
    scenarios: tuple[str, ...],
    asked: bool,
    improvements: bool,
    format_: str,
    quiet: bool,
    verbose: int,  # noqa: ARG001 - main looks for -vv itself
    **options: Any,
) -> None:
    """Show the series of a suite on a testbed over all stored versions: releases by version, nightlies by date.

    From your store, and the shipped baselines where it has none. Eight versions or more are searched for change points;
    of fewer, neighbours are compared. Exits 0 whatever was found.
    """
    from regress_gate.cli.progress import counter_on_stderr
    from regress_gate.gate.history import HistoryFilter, history_lines, sides_by_version
    from regress_gate.gate.history_changes import find_line_changes, without_improvements
    from regress_gate.model.suite import ConditionLimits
    from regress_gate.report import print_view
    from regress_gate.report.views.history_view import HistoryView, LineView
    from regress_gate.store.combined import open_combined_store
    from regress_gate.suites import find_shipped_suite, is_suite_path, load_suite

    if improvements and not asked:
        raise InputError("there are none without --detect", where="--improvements", todo="give --detect too")
    settings = settings_from(options)
    name = settings.suite.value
    own = load_suite(name) if name is not None and is_suite_path(name) else None
    if own is not None:
        name = f"{own.name}@{own.version}"
    with open_combined_store(str(settings.store_url.value)) as library:
        ref, testbed = _place(library.inventory(), name, settings.testbed.value)
        runs = library.runs(testbed=testbed, suite=ref)
    suite = own or find_shipped_suite(ref)
    limits = suite.conditions if suite else ConditionLimits()
    policy = settings.policy(suite.gate if suite else None)
    lines = history_lines(sides_by_version(runs, limits), policy, HistoryFilter(metrics, scenarios))
    views = []
    with counter_on_stderr("looking for changes", quiet=quiet) as advance:
        for done, line in enumerate(lines):
            if advance is not None:
                advance(done, len(lines))
            changes = find_line_changes(line, policy, limits) if asked else None
            hidden = 0
            if changes is not None and not improvements:
                changes, hidden = without_improvements(changes)
            views.append(LineView(line, changes, hidden))
    print_view(HistoryView(str(ref), testbed, views), format_)


def _place(held: "list[Holding]", suite: str | None, testbed: str | None) -> "tuple[SuiteRef, str]":
    """The suite and testbed that are meant; the user's own before the shipped ones, as in a comparison."""
    from regress_gate.store.store_interface import HoldingOrigin

    kept = [h for h in held if suite in (None, h.suite.name, str(h.suite)) and testbed in (None, h.testbed)]
    if not kept:
        raise NoDataError("no stored runs of that suite and testbed; see `regress-gate baseline list`")
    own = [holding for holding in kept if holding.origin is HoldingOrigin.STORE]
    places: dict[tuple[SuiteRef, str], set[str]] = {}
    for holding in own or kept:
        places.setdefault((holding.suite, holding.testbed), set()).add(str(holding.version))
    if len(places) > 1:
        listed = sorted(f"--suite {s} --testbed {t} ({plural(len(v), 'version')})" for (s, t), v in places.items())
        raise InputError("runs of more than one suite or testbed are stored", todo=f"choose: {' | '.join(listed[:8])}")
    return next(iter(places))
