"""Carries out a plan: unit after unit, each stored when it is whole, until nothing is missing, the time is up, or
whoever is asked after every block says that it is enough.

What is stored is never a part of a run, so whatever ends this (Ctrl-C, a crash, a reboot), the plan can be carried on
with what is missing. Not for making a plan, and not for judging what was measured.
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
"""Times that a run is made whose conditions make it void."""
MAX_FAILED_RUNS = 2
"""Failed runs in a row of one side after which the plan ends: more would say the same."""


class ExperimentEnd(StrEnum):
    COMPLETE = "complete"
    BUDGET = "budget"
    """The next block would not have ended in time."""
    DISTURBED = "disturbed"
    """What is missing was tried as often as it may be, and was void each time."""
    FAILING = "failing"
    """One side fails again and again."""
    STOPPED = "stopped"
    """Who was asked after a block wanted no more of them."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run that was made and stored."""

    made: MadeRun
    id: int
    void: str | None
    """Why it does not count."""
    seconds: float
    """Of the unit that it was made in."""


@dataclass(frozen=True, slots=True)
class ExperimentOutcome:
    ending: ExperimentEnd
    stored: tuple[StoredRun, ...]
    missing: int
    """Units that the plan still lacks."""
    why: str | None = None
    """Why it was stopped; None where it was not."""


SlotKey = tuple[int, str, str]
"""Block, side and group of a slot."""

RunListener = Callable[[StoredRun, int, int], None]
"""Told each run that was stored, the units that are done in this call, and how many were to be."""

AfterBlock = Callable[[], str | None]
"""Asked between blocks: why no more of them are wanted, or None to go on."""


def run_experiment(
    plan: ExperimentPlan,
    suite: Suite,
    sides: Mapping[str, ExperimentSide],
    bench: ExperimentSetup,
    store: Repository,
    *,
    why_void: Callable[[Run], str | None],
    way: str | None = None,
    until: float | None = None,
    before_unit: Callable[[], None] | None = None,
    watcher: RunListener | None = None,
    after_block: AfterBlock | None = None,
) -> ExperimentOutcome:
    """Make what the plan lacks. `until` (time.monotonic) is when the last block should have ended; blocks are never
    left half made for it, and the first one is made in any case. `why_void` says why a run does not count; such a run
    is stored with the reason, and made again. `way` is how the versions were got. `after_block` is asked after every
    block of which each run counts and none failed, and before the first one where an earlier call made such blocks;
    what it stops is ended, and cannot be resumed.

    Raises what make_runs raises; what was stored before stays.
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
            bench,
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
    """All runs of the plan that are stored, also those that do not count."""
    found = store.runs(testbed=plan.testbed, suite=plan.suite)
    return [run for run in found if run.place is not None and run.place.experiment == plan.experiment]


def _with_place(made: MadeRun, plan: ExperimentPlan, way: str | None, seconds: float) -> MadeRun:
    if made.run.place is None:
        return made
    place = replace(
        made.run.place, suite_digest=plan.suite_digest, way=way, seconds=seconds, most_blocks=plan.most_blocks
    )
    return replace(made, run=replace(made.run, place=place))


def _mark_void(made: Sequence[MadeRun], reasons: Sequence[str | None]) -> list[MadeRun]:
    """Runs that were made together count together. A failed one stays what it is: that it failed counts."""
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
    """Those of which every run counts and has numbers: without one, a comparison leaves out the run beside it."""
    made = {_slot_key(run) for run in counted if run.failure is None}
    return {
        block
        for block in range(1, plan.blocks + 1)
        if all((block, side, group) in made for side in plan.versions for group in groups)
    }


def _missing_trials(run: Run, plan: ExperimentPlan, groups: Mapping[str, ServerGroup]) -> str | None:
    """A run whose trials were measured but could not all be used, because the client was the bottleneck."""
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
