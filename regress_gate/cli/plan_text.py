"""What `compare --plan` prints. Not for making the plan."""

from typing import TYPE_CHECKING

import click

from regress_gate.text import duration_text, plural

if TYPE_CHECKING:
    from regress_gate.app.measurement_amount import MeasurementAmount
    from regress_gate.app.measurement_task import MeasurementTask
    from regress_gate.gate.early_stopping import ExpectedStop
    from regress_gate.gate.planning import RunPlan

SENSELESS = 10.0
"""A loss beyond which its size says nothing any more."""
_LEGEND = """\
SPREAD   between server starts of one version, in so many RUNS
FINDS    the smallest loss that is called a regression, four times in five
SHOWS    the smallest margin that an unchanged version is shown to keep, four
         times in five; `~` where that is more than the MARGIN, and the series
         will probably stay undecided
Both are of a series by itself: what the gate learns from the other series, from
earlier runs and from pairs comes on top."""


def print_plan(what: "MeasurementTask", plan: "RunPlan", amount: "MeasurementAmount", format_: str) -> None:
    """As a table, or as the object that `RunPlan.as_document` tells of, under the key `plan`."""
    from regress_gate.report.render.plain_text import columns, json_text, plain
    from regress_gate.stats.sequential import FIRST_ANALYSIS

    if format_ == "json":
        click.echo(json_text({"plan": plan.as_document()}))
        return
    versions = " and ".join(plain(version) for version in what.versions.values())
    blocks = plural(plan.blocks, "block")
    most = "at most " if plan.stops_early and plan.blocks > 1 else ""
    suite = f"{plain(what.suite.name)}@{plain(what.suite.version)}"
    click.echo(f"{most}{blocks} of {versions} with {suite} on {plain(what.testbed.name)}")
    after = f", {most}{plan.runs_a_side} after that" if plan.blocks else ": nothing is missing"
    click.echo(f"runs  {plan.runs_a_side - plan.blocks} a side are stored{after}")
    if plan.blocks:
        click.echo(f"time  {_time(plan, amount)}")
        if plan.likely_end is not None and plan.runs_a_side > FIRST_ANALYSIS:
            click.echo(f"ends  {_ends(plan.likely_end)}")
    rows = [
        (
            each.name,
            percent(each.run_cv),
            str(each.noise_runs) if each.noise_runs else "assumed",
            percent(each.margin),
            percent(each.detectable),
            percent(each.shown_within) + (" ~" if each.stays_undecided else ""),
        )
        for each in sorted(plan.series, key=lambda each: (-each.shown_within / each.margin, each.name))
    ]
    click.echo(f"\n{columns(('SERIES', 'SPREAD', 'RUNS', 'MARGIN', ' FINDS', ' SHOWS'), rows)}\n\n{_LEGEND}")
    undecided = sum(each.stays_undecided for each in plan.series)
    if undecided:
        click.echo(
            f"\n{undecided} of {len(plan.series)} gated series will probably stay undecided even if nothing changed:\n"
            "plan more runs (--runs), quieten the machine, or widen the margins."
        )


def _ends(likely: "ExpectedStop") -> str:
    unchanged = f"about block {likely.unchanged}" if likely.unchanged else "the last block"
    lost = f"block {likely.lost}" if likely.lost else "the last"
    return f"after {unchanged} if unchanged, {lost} if twice a margin is lost"


def _time(plan: "RunPlan", amount: "MeasurementAmount") -> str:
    if plan.seconds is None or plan.seconds_a_block is None:
        return "not known: no run of this suite was made on this testbed yet"
    text = f"about {duration_text(plan.seconds)}"
    if plan.blocks > 1:
        text += f"{' at most' if plan.stops_early else ''}, {duration_text(plan.seconds_a_block)} a block"
    if amount.budget is None:
        return text
    if plan.seconds > amount.budget:
        return f"{text}: not one block fits the budget of {duration_text(amount.budget)}"
    return f"{text}, within the budget of {duration_text(amount.budget)}"


def percent(value: float | None) -> str:
    """Six signs wide, so that columns stand right; `none` for what no number is large enough for."""
    if value is None or value >= SENSELESS:
        return "  none"
    return (f"{value:.1%}" if value < 0.9995 else f"{value:.0%}").rjust(6)
