"""First runs after a cold start (`--first-run cold`): they are kept and shown, and never averaged in.

In an environment that was just made, caches of compiled kernels are empty and the first server is slower. Files do not
say so; who measured may know it.
"""

import re
from dataclasses import replace

from regress_gate.errors import InputError
from regress_gate.ingest.text import plural
from regress_gate.model.run import Run

COLD = "the first run after a cold start (--first-run cold)"


def without_cold_starts(runs: tuple[Run, ...]) -> tuple[tuple[Run, ...], list[str]]:
    """The runs, the first of each version and testbed void; and a note on each.

    First is what started first or, where the files say no times, what has the lowest run number. Raises InputError
    where neither tells.
    """
    groups: dict[tuple[object, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.version, run.testbed.name), []).append(run)
    cold = {id(first): first for first in map(_first, groups.values())}
    notes = [
        f"run {run.label} of {run.version} on {run.testbed.name} is {COLD}: it does not count" for run in cold.values()
    ]
    return tuple(replace(run, void=COLD) if id(run) in cold else run for run in runs), notes


def _first(runs: list[Run]) -> Run:
    if len(runs) == 1:
        return runs[0]
    started = [(run.started, run) for run in runs if run.started is not None]
    if len(started) == len(runs):
        earliest = min(time for time, _ in started)
        first = [run for time, run in started if time == earliest]
    else:
        numbers = [_number(run.label) for run in runs]
        known = [number for number in numbers if number is not None]
        lowest = min(known) if len(known) == len(runs) else None
        first = [run for run, number in zip(runs, numbers, strict=True) if number == lowest and lowest is not None]
    if len(first) != 1:
        what = (
            f"which of {plural(len(runs), 'run')} of {runs[0].version} on {runs[0].testbed.name} was first is not known"
        )
        raise InputError(
            what, where="--first-run", todo="number the runs with --pattern and {run}, or import without it"
        )
    return first[0]


def _number(label: str) -> int | None:
    found = re.fullmatch(r"(?:run|start)?[-_= ]?([0-9]{1,9})", label, re.IGNORECASE)
    return int(found[1]) if found else None
