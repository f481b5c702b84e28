"""What is told of an experiment: of each run when it is stored, and of what went otherwise than planned."""

from typing import TYPE_CHECKING

import click

from regress_gate.cli.duration import in_words

if TYPE_CHECKING:
    from regress_gate.bench.experiment.runner import Outcome, Stored
    from regress_gate.cli.live import Live


def explain(outcome: "Outcome") -> None:
    """What went otherwise than planned, on standard error."""
    from regress_gate.bench.experiment.runner import Ending
    from regress_gate.ingest.text import plural

    failed = sum(entry.made.run.failure is not None for entry in outcome.stored)
    void = sum(entry.void is not None for entry in outcome.stored)
    if failed:
        click.echo(f"{plural(failed, 'server start')} failed: stored as evidence", err=True)
    if void:
        click.echo(f"{plural(void, 'run')} void: kept, shown, never averaged in", err=True)
    match outcome.ending:
        case Ending.BUDGET:
            click.echo(
                f"the budget is used up with {plural(outcome.missing, 'run')} missing; --resume goes on", err=True
            )
        case Ending.DISTURBED:
            click.echo(
                f"{plural(outcome.missing, 'run')} void at every try: quieten the machine and --resume", err=True
            )
        case Ending.FAILING:
            click.echo("one side fails again and again: nothing more is measured", err=True)


class Teller:
    """Says what became of each run, and how long the rest will take."""

    def __init__(self, live: "Live") -> None:
        self._live = live
        self._seconds: list[float] = []

    def __call__(self, entry: "Stored", done: int, units: int) -> None:
        self._seconds.append(entry.seconds)
        mean = sum(self._seconds) / len(self._seconds)
        self._live.expect(mean * (units - done))
        run, slot = entry.made.run, entry.made.slot
        self._live.note(f"run:{entry.id} block {slot.block}, {slot.side} {run.version}: {_became(entry)}")
        for note in entry.made.notes:
            self._live.note(f"  note: {note}")


def _became(entry: "Stored") -> str:
    from regress_gate.ingest.text import plural

    run = entry.made.run
    if run.failure is not None:
        cause = f": {run.failure.lines[0]}" if run.failure.lines else ""
        return f"FAILED, {run.failure.text}{cause}"
    if entry.void is not None:
        return f"void, {entry.void}"
    return f"{plural(len(run.trials), 'trial')} in {in_words(entry.seconds)}"
