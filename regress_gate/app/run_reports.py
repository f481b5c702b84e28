"""Report the runs of an experiment while it goes on, and how it ended. Not for what is concluded from them."""

from regress_gate.app.settings import ProgressReporter
from regress_gate.bench.experiment.experiment_runner import ExperimentEnd, ExperimentOutcome, StoredRun
from regress_gate.text import duration_text, plural


def report_outcome(outcome: ExperimentOutcome, progress: ProgressReporter) -> None:
    """What did not go as planned."""
    failed = sum(entry.made.run.failure is not None for entry in outcome.stored)
    void = sum(entry.void is not None for entry in outcome.stored)
    if failed:
        progress.warn(f"{plural(failed, 'server start')} failed: stored as evidence")
    if void:
        progress.warn(f"{plural(void, 'run')} void: kept, shown, never averaged in")
    match outcome.ending:
        case ExperimentEnd.BUDGET:
            progress.warn(f"the budget is used up with {plural(outcome.missing, 'run')} missing; --resume goes on")
        case ExperimentEnd.DISTURBED:
            progress.warn(f"{plural(outcome.missing, 'run')} void at every try: quieten the machine and --resume")
        case ExperimentEnd.LOST:
            progress.warn(f"{plural(outcome.missing, 'run')} lost with their hosts at every try; --resume goes on")
        case ExperimentEnd.FAILING:
            progress.warn("one side fails again and again: nothing more is measured")


class RunReporter:
    """Reports the outcome of each run and the time that is left."""

    def __init__(self, progress: ProgressReporter, *, hosts: int = 1) -> None:
        """`hosts` make runs at the same time; their names are then told."""
        self._progress = progress
        self._hosts = hosts
        self._seconds: list[float] = []

    def __call__(self, entry: StoredRun, done: int, units: int) -> None:
        self._seconds.append(entry.seconds)
        mean = sum(self._seconds) / len(self._seconds)
        self._progress.expect(mean * (units - done) / self._hosts)
        run, slot = entry.made.run, entry.made.slot
        where = f" on {run.testbed.name}" if self._hosts > 1 else ""
        self._progress.note(
            f"run:{entry.id} block {slot.block}, {slot.side_in_words} {run.version}{where}: {_outcome_text(entry)}"
        )
        for note in entry.made.notes:
            self._progress.note(f"  note: {note}")


def _outcome_text(entry: StoredRun) -> str:
    run = entry.made.run
    if run.failure is not None:
        cause = f": {run.failure.lines[0]}" if run.failure.lines else ""
        return f"FAILED, {run.failure.text}{cause}"
    if entry.void is not None:
        return f"void, {entry.void}"
    return f"{plural(len(run.trials), 'trial')} in {duration_text(entry.seconds)}"
