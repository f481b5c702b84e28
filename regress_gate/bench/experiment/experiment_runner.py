"""Run an experiment: unit after unit, until it is complete, the budget is spent, or an interim analysis stops it.

Only whole runs are stored. After any interruption (Ctrl-C, a crash, a reboot) the experiment resumes with the missing
runs. Not for making a plan, and not for judging measurements.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from regress_gate.bench.experiment.capacity_search import at_levels
from regress_gate.bench.experiment.experiment_plan import (
    COUNTER_TEST,
    ExperimentPlan,
    ServerGroup,
    Slot,
    missing_units,
    server_groups,
)
from regress_gate.bench.experiment.run_maker import ExperimentSetup, ExperimentSide, MadeRun, make_runs
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.model.run import Run
from regress_gate.model.suite import Suite
from regress_gate.store.repository import Repository

RUN_ATTEMPTS = 3
"""Times that a run is made if its conditions make it void."""
MAX_FAILED_RUNS = 2
"""Failed runs of one side in a row that end the experiment. More would show the same."""


class ExperimentEnd(StrEnum):
    COMPLETE = "complete"
    BUDGET = "budget"
    """The next block would not have ended in time."""
    DISTURBED = "disturbed"
    """The missing runs were void at every attempt."""
    FAILING = "failing"
    """One side failed MAX_FAILED_RUNS times in a row, or a counter-test once."""
    LOST = "lost"
    """The missing blocks were lost with their hosts at every attempt."""
    STOPPED = "stopped"
    """The interim analysis after a block stopped it."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run that was made and stored."""

    made: MadeRun
    id: int
    void: str | None
    """Why it does not count."""
    seconds: float
    """Seconds that its unit took."""


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    ending: ExperimentEnd
    stored: tuple[StoredRun, ...]
    missing: int
    """Units of the plan that are missing."""
    why: str | None = None
    """Why the interim analysis stopped it; None otherwise."""


SlotKey = tuple[int, str, str]
"""Block, side and group of a slot."""

RunListener = Callable[[StoredRun, int, int], None]
"""Called with each stored run, the units done in this call, and the units to do."""

AfterBlock = Callable[[], str | None]
"""The interim analysis between blocks: the reason to stop, or None to go on."""


@dataclass(frozen=True, slots=True)
class ExperimentControl:
    """What decides, outside of the plan, which runs count and when the experiment ends."""

    why_void: Callable[[Run], str | None]
    """Why a run does not count; None: it counts. A void run is stored with the reason and made again."""
    way: str | None = None
    """How the versions were provisioned."""
    until: float | None = None
    """The end of the budget (time.monotonic). No block begins that would end later, except the first one."""
    before_unit: Callable[[], None] | None = None
    """Called before each unit, such as to wait for a quiet machine."""
    on_stored: RunListener | None = None
    after_block: AfterBlock | None = None
    """Called after every block whose runs all count and did not fail, and first of all if an earlier call made such
    blocks. An experiment that it stops is ended and cannot be resumed."""


def run_experiment(
    plan: ExperimentPlan,
    suite: Suite,
    sides: Mapping[str, ExperimentSide],
    setup: ExperimentSetup,
    store: Repository,
    control: ExperimentControl,
) -> ExperimentOutcome:
    """Make the missing runs of the plan. No block is left half made when the budget ends.

    Raises what make_runs raises. Stored runs stay.
    """
    return _ExperimentLoop(plan, suite, sides, setup, store, control).run()


class _ExperimentLoop:
    """One call of `run_experiment`. The store alone says what is missing: it is asked again before each unit."""

    def __init__(
        self,
        plan: ExperimentPlan,
        suite: Suite,
        sides: Mapping[str, ExperimentSide],
        setup: ExperimentSetup,
        store: Repository,
        control: ExperimentControl,
    ) -> None:
        self._plan = plan
        self._sides = sides
        self._setup = setup
        self._store = store
        self._control = control
        self._groups = {group.name: group for group in server_groups(suite)}
        self._workloads = at_levels(load_workloads(suite), setup.levels)
        self._tries: Counter[SlotKey] = Counter()
        self._stored: list[StoredRun] = []
        self._longest = 0.0
        """Seconds of the longest unit so far."""
        self._block: int | None = None
        """The block that is being made; None before the first."""

    def run(self) -> ExperimentOutcome:
        wanted: int | None = None
        held = find_plan_runs(self._plan, self._store)
        while units := self._missing_units(held, self._tries):
            wanted = wanted or len(units)
            if units[0][0].block != self._block:
                ending = self._ending_before_block(units, held)
                if ending is not None:
                    return ending
                self._block = units[0][0].block
            for entry in self._make_unit(units[0], held):
                self._stored.append(entry)
                if self._control.on_stored is not None:
                    self._control.on_stored(entry, wanted - len(units) + 1, wanted)
            if is_failing(self._stored):
                return self._outcome(ExperimentEnd.FAILING, len(units) - 1)
            held = find_plan_runs(self._plan, self._store)
        if lacking := self._missing_units(held, {}):
            return self._outcome(ExperimentEnd.DISTURBED, len(lacking))
        self._store.end_experiment(self._plan.experiment, datetime.now(UTC))
        return self._outcome(ExperimentEnd.COMPLETE, 0)

    def _missing_units(self, held: Sequence[Run], tries: Mapping[SlotKey, int]) -> list[tuple[Slot, ...]]:
        return missing_units(self._plan, self._groups, self._usable_runs(held), tries, RUN_ATTEMPTS)

    def _ending_before_block(self, units: Sequence[Sequence[Slot]], held: Sequence[Run]) -> ExperimentOutcome | None:
        """The outcome if no further block may begin: stopped by the interim analysis, or out of budget."""
        block, until = units[0][0].block, self._control.until
        whole = complete_blocks(self._plan, self._groups, self._usable_runs(held))
        is_due = bool(whole) if self._block is None else self._block in whole
        if self._control.after_block is not None and is_due and (why := self._control.after_block()) is not None:
            self._store.end_experiment(self._plan.experiment, datetime.now(UTC))
            return self._outcome(ExperimentEnd.STOPPED, len(units), why)
        needed = self._longest * sum(unit[0].block == block for unit in units)
        if until is not None and self._block is not None and time.monotonic() + needed > until:
            return self._outcome(ExperimentEnd.BUDGET, len(units))
        return None

    def _make_unit(self, slots: Sequence[Slot], held: Sequence[Run]) -> list[StoredRun]:
        """Make and store the runs of slots that are measured together."""
        if self._control.before_unit is not None:
            self._control.before_unit()
        keys = [(slot.block, slot.side, slot.group) for slot in slots]
        begin = time.monotonic()
        made = make_runs(
            slots,
            self._groups[slots[0].group],
            self._workloads,
            self._sides,
            self._setup,
            experiment=self._plan.experiment,
            attempt=1 + max(sum(_slot_key(run) == key for run in held) for key in keys),
        )
        seconds = time.monotonic() - begin
        self._longest = max(self._longest, seconds)
        self._tries.update(keys)
        placed = [_with_place(each, self._plan, self._control.way, seconds / len(made)) for each in made]
        marked = _mark_void(placed, [self._why_void(each.run) for each in placed])
        self._store.add_runs([each.run for each in marked], log_as=None)
        ids = {run.label: run.id for run in find_plan_runs(self._plan, self._store) if run.id is not None}
        return [StoredRun(each, ids[each.run.label], each.run.void, seconds) for each in marked]

    def _usable_runs(self, held: Sequence[Run]) -> list[Run]:
        return [run for run in held if self._why_void(run) is None]

    def _why_void(self, run: Run) -> str | None:
        return self._control.why_void(run) or missing_trials(run, self._plan, self._groups, self._setup.levels)

    def _outcome(self, ending: ExperimentEnd, missing: int, why: str | None = None) -> ExperimentOutcome:
        return ExperimentOutcome(ending, tuple(self._stored), missing, why)


def find_plan_runs(plan: ExperimentPlan, store: Repository) -> list[Run]:
    """All stored runs of the plan, also those that do not count."""
    suites = dict.fromkeys(plan.suite_of(side) for side in plan.versions)
    testbed = None if plan.hosts else plan.testbed
    return [run for suite in suites for run in store.experiment_runs(plan.experiment, testbed=testbed, suite=suite)]


def _with_place(made: MadeRun, plan: ExperimentPlan, way: str | None, seconds: float) -> MadeRun:
    if made.run.place is None:
        return made
    place = replace(
        made.run.place,
        suite_digest=plan.suite_digest,
        way=way,
        seconds=seconds,
        most_blocks=plan.most_blocks,
        locked_clock_mhz=plan.lock_clocks,
    )
    return replace(made, run=replace(made.run, place=place))


def _mark_void(made: Sequence[MadeRun], reasons: Sequence[str | None]) -> list[MadeRun]:
    """Runs that were made together count together. A failed run is never void: its failure is evidence."""
    first = next((reason for reason in reasons if reason is not None), None)
    if first is None:
        return list(made)
    return [
        each
        if each.run.failure is not None
        else replace(each, run=replace(each.run, void=own or f"made beside a run that does not count: {first}"))
        for each, own in zip(made, reasons, strict=True)
    ]


def complete_blocks(plan: ExperimentPlan, groups: Mapping[str, ServerGroup], counted: Sequence[Run]) -> set[int]:
    """Blocks whose runs all count and have trials. A comparison leaves out the others."""
    made = {_slot_key(run) for run in counted if run.failure is None}
    return {
        block
        for block in plan.block_numbers
        if all((block, side, group) in made for side in plan.versions for group in groups)
    }


def missing_trials(
    run: Run, plan: ExperimentPlan, groups: Mapping[str, ServerGroup], levels: Mapping[str, Sequence[float]]
) -> str | None:
    """Why a run has too few valid trials, because the client was the bottleneck; None if it has all."""
    if run.failure is not None or run.place is None:
        return None
    usable = Counter(trial.scenario for trial in run.trials)
    for scenario in groups[run.place.group].scenarios:
        wanted = plan.trials * max(1, len(levels.get(scenario.name, ())))
        if usable[scenario.name] < wanted:
            return f"{usable[scenario.name]} of {wanted} trials of {scenario.name} could be used"
    return None


def _slot_key(run: Run) -> SlotKey | None:
    return None if run.place is None else (run.place.block, run.place.side, run.place.group)


def is_failing(stored: Sequence[StoredRun]) -> bool:
    """Whether the last runs of one side failed, so often that more would show the same."""
    for side in {each.made.slot.side for each in stored}:
        # A setting that a server does not start with is no evidence about its version: once is enough.
        limit = 1 if side == COUNTER_TEST else MAX_FAILED_RUNS
        last = [each.made.run.failure for each in stored if each.made.slot.side == side][-limit:]
        if len(last) == limit and all(last):
            return True
    return False
