"""Merging new results into a known run, and new facts into a known testbed. Pure: no database.

New facts fill in missing ones. Contradicting facts are an error that shows both values: one of the two results was then
made on another machine, or in another server process, than its name says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regress_gate.errors import InputError
from regress_gate.model.run import Run, Trial
from regress_gate.model.testbed import MEMORY_TOLERANCE, REPORTED_FACTS, Testbed
from regress_gate.store import stored_values


@dataclass(slots=True)
class RunDraft:
    """A run while an import adds to it."""

    label: str
    id: int | None = None
    """None until it is stored."""
    started: str | None = None
    conditions: dict[str, float] = field(default_factory=dict)
    libraries: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] | None = None
    """Answers to add; None: nothing new."""
    taken: set[tuple[str, int]] = field(default_factory=set)
    """Scenario and ordinal of its trials."""
    starts: set[str] = field(default_factory=set)
    """Known start times of its stored trials."""
    added: list[tuple[int, Trial]] = field(default_factory=list)
    """New trials with their ordinals in this run."""
    facts_changed: bool = False

    def absorb(self, run: Run, trials: Iterable[Trial]) -> None:
        """Add a run's facts and its new trials. Raises InputError for a contradiction."""
        trials = list(trials)
        self._absorb_start(run, trials)
        if given := stored_values.conditions(run.conditions):
            self.conditions = self._filled(run, self.conditions, given)
        if run.libraries:
            self.libraries = self._filled(run, self.libraries, stored_values.texts("library", run.libraries))
        if run.metrics:
            self.metrics = self._filled(run, self.metrics, stored_values.numbers("metric", run.metrics))
        if measured := stored_values.run_details(run):
            self.measured = self._filled(run, self.measured, measured)
        if self.outputs is None:
            self.outputs = stored_values.outputs(run)
        for trial in trials:
            ordinal = trial.ordinal
            while (trial.scenario, ordinal) in self.taken:
                ordinal += 1
            self.taken.add((trial.scenario, ordinal))
            self.added.append((ordinal, trial))

    def _absorb_start(self, run: Run, new: Sequence[Trial]) -> None:
        """Set the run's start time; `new` are its new trials.

        A start that equals that of the first trial was derived from it, not stated. An earlier trial or a stated start
        replaces it without contradiction.
        """
        given = stored_values.time_text(run.started)
        if given is None or given == self.started:
            return
        before = self.starts | _starts(trial for _, trial in self.added)
        is_stated = given != _first(_starts(run.trials))
        was_stated = self.started is not None and self.started != _first(before)
        if is_stated and was_stated:
            self._filled(run, {"started": self.started}, {"started": given})  # which raises
        started = given if is_stated else self.started if was_stated else _first(before | _starts(new))
        self.facts_changed |= started != self.started
        self.started = started

    def _filled(self, run: Run, stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        where = run.trials[0].source.path if run.trials else None
        found = merge_facts(f"run {run.label!r} of {run.version}", stored, given, where)
        self.facts_changed |= found != stored
        return found


def _starts(trials: Iterable[Trial]) -> set[str]:
    return {start for trial in trials if (start := stored_values.time_text(trial.started)) is not None}


def _first(times: Iterable[str]) -> str | None:
    return min(times, key=lambda text: text.removesuffix("Z"), default=None)  # fractions of a second go before the Z


def merge_testbed_facts(testbed: Testbed, stored: Mapping[str, Any], where: str | None) -> dict[str, Any]:
    """The stored facts of a testbed with those of a new result: informative facts are replaced, others must not change.

    Raises InputError for a contradiction.
    """
    given = dict(testbed.facts)
    stored = {key: value for key, value in stored.items() if key not in REPORTED_FACTS or key not in given}
    size, known_size = given.get("memory_bytes"), stored.get("memory_bytes")
    if size and known_size and abs(size - known_size) <= MEMORY_TOLERANCE * max(size, known_size):
        given["memory_bytes"] = known_size  # the same machine: firmware reserves a little more or less
    todo = "if the machine was changed, give it another testbed name"
    return merge_facts(
        f"testbed {testbed.name!r}", stored, stored_values.json_values("testbed fact", given), where, todo
    )


def merge_facts(
    who: str, stored: Mapping[str, Any], given: Mapping[str, Any], where: str | None, todo: str | None = None
) -> dict[str, Any]:
    if not given and not stored:
        return {}
    for key, value in given.items():
        if key in stored and stored[key] != value:
            raise InputError(
                f"{who}: {key} is {stored[key]} in the store and {value} here",
                where=where,
                todo=todo or "if this is another server process, give it another run label",
            )
    merged = {**stored, **given}
    return {key: merged[key] for key in sorted(merged)}
