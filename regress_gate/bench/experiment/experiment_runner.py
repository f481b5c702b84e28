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

from regress_gate.bench.experiment.experiment_plan import ExperimentPlan, ServerGroup, missing_units, server_groups
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
    """One side failed MAX_FAILED_RUNS times in a row."""
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


def run_experiment(
    plan: ExperimentPlan,
    suite: Suite,
    sides: Mapping[str, ExperimentSide],
    setup: ExperimentSetup,
    store: Repository,
    *,
    why_void: Callable[[Run], str | None],
    way: str | None = None,
    until: float | None = None,
    before_unit: Callable[[], None] | None = None,
    watcher: RunListener | None = None,
    after_block: AfterBlock | None = None,
) -> ExperimentOutcome:
    """Make the missing runs of the plan.

    `until` (time.monotonic) is the end of the budget. No block starts that would end later, except the first one, and
    no block is left half made. `why_void` returns why a run does not count; such a run is stored with the reason and
    made again. `way` is how the versions were provisioned. `after_block` is called after every block whose runs all
    count and did not fail, and first of all if an earlier call made such blocks. An experiment that it stops is ended
    and cannot be resumed.

    Raises what make_runs raises. Stored runs stay.
    """
    groups = {group.name: group for group in server_groups(suite)}

    def why_not(run: Run) -> str | None:
        return why_void(run) or _missing_trials(run, plan, groups)

    workloads = load_workloads(suite)
    tries: Counter[SlotKey] = Counter()
    stored: list[StoredRun] = []
    longest = 0.0
    block: int | None = None
    wanted: int | None = None
    while units := missing_units(
        plan, groups, _usable_runs(held := find_plan_runs(plan, store), why_not), tries, RUN_ATTEMPTS
    ):
        wanted = wanted or len(units)
        slots = units[0]
        if slots[0].block != block:
            whole = _complete_blocks(plan, groups, _usable_runs(held, why_not))
            if after_block is not None and (whole if block is None else block in whole):
                why = after_block()
                if why is not None:
                    store.end_experiment(plan.experiment, datetime.now(UTC))
                    return ExperimentOutcome(ExperimentEnd.STOPPED, tuple(stored), len(units), why)
            needed = longest * sum(unit[0].block == slots[0].block for unit in units)
            if until is not None and block is not None and time.monotonic() + needed > until:
                return ExperimentOutcome(ExperimentEnd.BUDGET, tuple(stored), len(units))
            block = slots[0].block
        if before_unit is not None:
            before_unit()
        keys = [(slot.block, slot.side, slot.group) for slot in slots]
        begin = time.monotonic()
        made = make_runs(
            slots,
            groups[slots[0].group],
            workloads,
            sides,
            setup,
            experiment=plan.experiment,
            attempt=1 + max(sum(_slot_key(run) == key for run in held) for key in keys),
        )
        seconds = time.monotonic() - begin
        longest = max(longest, seconds)
        tries.update(keys)
        placed = [_with_place(each, plan, way, seconds / len(made)) for each in made]
        made = _mark_void(placed, [why_not(each.run) for each in placed])
        store.add_runs([each.run for each in made])
        ids = {run.label: run.id for run in find_plan_runs(plan, store) if run.id is not None}
        for each in made:
            entry = StoredRun(each, ids[each.run.label], each.run.void, seconds)
            stored.append(entry)
            if watcher is not None:
                watcher(entry, wanted - len(units) + 1, wanted)
        if _is_failing(stored):
            return ExperimentOutcome(ExperimentEnd.FAILING, tuple(stored), len(units) - 1)
    lacking = missing_units(plan, groups, _usable_runs(find_plan_runs(plan, store), why_not), {}, RUN_ATTEMPTS)
    if lacking:
        return ExperimentOutcome(ExperimentEnd.DISTURBED, tuple(stored), len(lacking))
    store.end_experiment(plan.experiment, datetime.now(UTC))
    return ExperimentOutcome(ExperimentEnd.COMPLETE, tuple(stored), 0)


def find_plan_runs(plan: ExperimentPlan, store: Repository) -> list[Run]:
    """All stored runs of the plan, also those that do not count."""
    return store.experiment_runs(plan.experiment, testbed=plan.testbed, suite=plan.suite)


def _with_place(made: MadeRun, plan: ExperimentPlan, way: str | None, seconds: float) -> MadeRun:
    if made.run.place is None:
        return made
    place = replace(
        made.run.place, suite_digest=plan.suite_digest, way=way, seconds=seconds, most_blocks=plan.most_blocks
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


def _usable_runs(held: Sequence[Run], why_void: Callable[[Run], str | None]) -> list[Run]:
    return [run for run in held if why_void(run) is None]


def _complete_blocks(plan: ExperimentPlan, groups: Mapping[str, ServerGroup], counted: Sequence[Run]) -> set[int]:
    """Blocks whose runs all count and have trials. A comparison leaves out the others."""
    made = {_slot_key(run) for run in counted if run.failure is None}
    return {
        block
        for block in range(1, plan.blocks + 1)
        if all((block, side, group) in made for side in plan.versions for group in groups)
    }


def _missing_trials(run: Run, plan: ExperimentPlan, groups: Mapping[str, ServerGroup]) -> str | None:
    """Why a run has too few valid trials, because the client was the bottleneck; None if it has all."""
    if run.failure is not None or run.place is None:
        return None
    usable = Counter(trial.scenario for trial in run.trials)
    for scenario in groups[run.place.group].scenarios:
        if usable[scenario.name] < plan.trials:
            return f"{usable[scenario.name]} of {plan.trials} trials of {scenario.name} could be used"
    return None


def _slot_key(run: Run) -> SlotKey | None:
    return None if run.place is None else (run.place.block, run.place.side, run.place.group)


def _is_failing(stored: Sequence[StoredRun]) -> bool:
    for side in {each.made.slot.side for each in stored}:
        last = [each.made.run.failure for each in stored if each.made.slot.side == side][-MAX_FAILED_RUNS:]
        if len(last) == MAX_FAILED_RUNS and all(last):
            return True
    return False
