"""Run an experiment on the hosts of a fleet: one block on one host, at most one at a time on each.

The loop alone writes to the store, a block at once, so that a block is stored once or not at all, whatever becomes of a
host. A result of an attempt that was given up is never read. Not for how a block is made, nor for the engines.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from regress_gate.bench.experiment.capacity_search import known_levels
from regress_gate.bench.experiment.experiment_plan import ExperimentPlan, Slot, missing_units, server_groups
from regress_gate.bench.experiment.experiment_runner import (
    MAX_FAILED_RUNS,
    ExperimentControl,
    ExperimentEnd,
    ExperimentOutcome,
    StoredRun,
    complete_blocks,
    find_plan_runs,
    is_failing,
    missing_trials,
)
from regress_gate.bench.experiment.run_maker import MadeRun
from regress_gate.bench.fleet.block_task import BlockResult, attempt_of
from regress_gate.bench.fleet.executor import FleetError, TaskReport, TaskState
from regress_gate.bench.fleet.fleet import BUSY_REST, Fleet, FleetMember
from regress_gate.errors import RegressGateError, StoreError
from regress_gate.model.run import Run
from regress_gate.model.suite import Suite
from regress_gate.store.repository import Repository

BLOCK_ATTEMPTS = 5
"""Times that a block is begun in one call, if it is lost with its host each time."""
HOST_WAIT = 120.0
"""Seconds to wait for a host when there is none: one that was lost may come back."""
WAIT_FOR_HOST = 120.0
"""Seconds that a block waits for a host which is busy otherwise before another one gets it."""
_POLL = 0.2
AFTER_DECISION = "came after the decision"

Levels = Mapping[str, Sequence[float]]
TaskMaker = Callable[[FleetMember, int, int, Levels], str]
"""The text of the task: for a host, a block, an attempt, and the known levels of capacities."""


def run_on_fleet(
    plan: ExperimentPlan,
    suite: Suite,
    fleet: Fleet,
    store: Repository,
    control: ExperimentControl,
    make_task: TaskMaker,
    seconds_a_block: float | None = None,
) -> ExperimentOutcome:
    """Make the missing blocks of the plan. Whatever ends it, no task is left on any host. `seconds_a_block`: those of
    earlier blocks; None: not known.

    Raises FleetError if the engine is gone, or no host is left. Stored blocks stay.
    """
    loop = _FleetLoop(plan, suite, fleet, store, control, make_task, seconds_a_block)
    try:
        return loop.run()
    finally:
        loop.cancel_all()


class _FleetLoop:
    """One call of `run_on_fleet`. The store alone says which blocks are missing."""

    def __init__(
        self,
        plan: ExperimentPlan,
        suite: Suite,
        fleet: Fleet,
        store: Repository,
        control: ExperimentControl,
        make_task: TaskMaker,
        seconds: float | None,
    ) -> None:
        self._seconds = seconds
        self._plan = plan
        self._fleet = fleet
        self._store = store
        self._control = control
        self._make_task = make_task
        self._groups = {group.name: group for group in server_groups(suite)}
        self._searches = any(scenario.workload.capacity is not None for scenario in suite.scenarios)
        """Whether the first block finds levels that the others need."""
        self._held: list[Run] = []
        self._stored: list[StoredRun] = []
        self._attempts: dict[int, int] = {}
        """The last attempt at each block."""
        self._lost: Counter[int] = Counter()
        self._void: set[int] = set()
        """Blocks that were made in this call and do not count."""
        self._begun: dict[int, float] = {}
        self._longest = 0.0
        """Seconds of the longest block so far."""
        self._hosts_seen = time.monotonic()
        self._wanted = 0

    def run(self) -> ExperimentOutcome:
        self._fleet.admit = self._store.check_testbed
        self._read_store()
        if self._complete() and (why := self._look_at_data()) is not None:
            return self._stop(why)
        self._wanted = len(self._missing())
        while self._missing():
            self._fleet.refresh()
            self._begin_blocks()
            if not self._in_flight and self._nothing_to_begin():
                break
            ending = self._collect()
            if ending is not None:
                return ending
            time.sleep(_POLL)
        if missing := self._missing():
            lost = any(self._lost[block] >= BLOCK_ATTEMPTS for block in missing)
            if self._is_out_of_budget():
                return self._outcome(ExperimentEnd.BUDGET)
            return self._outcome(ExperimentEnd.LOST if lost else ExperimentEnd.DISTURBED)
        self._store.end_experiment(self._plan.experiment, datetime.now(UTC))
        return self._outcome(ExperimentEnd.COMPLETE)

    def cancel_all(self) -> None:
        for member in self._in_flight:
            self._fleet.release(member)

    @property
    def _in_flight(self) -> list[FleetMember]:
        return [member for member in self._fleet.members if member.block is not None]

    def _read_store(self) -> None:
        self._held = find_plan_runs(self._plan, self._store)
        self._fleet.go_on_from(dict.fromkeys(run.testbed for run in self._held))

    def _usable(self, runs: Sequence[Run]) -> list[Run]:
        return [run for run in runs if self._why_void(run) is None]

    def _why_void(self, run: Run) -> str | None:
        return self._control.why_void(run) or missing_trials(run, self._plan, self._groups, self._levels())

    def _levels(self) -> dict[str, tuple[float, ...]]:
        return known_levels(self._held) if self._searches else {}

    def _missing_units(self) -> list[tuple[Slot, ...]]:
        return missing_units(self._plan, self._groups, self._usable(self._held), {}, 1)

    def _missing(self) -> list[int]:
        """Blocks of the plan that are not whole."""
        return list(dict.fromkeys(unit[0].block for unit in self._missing_units()))

    def _complete(self) -> set[int]:
        return complete_blocks(self._plan, self._groups, self._usable(self._held))

    def _is_out_of_budget(self) -> bool:
        until = self._control.until
        return until is not None and bool(self._attempts) and time.monotonic() + self._longest > until

    def _waiting(self) -> list[int]:
        """Blocks that are to be begun, in order."""
        flying = {member.block for member in self._in_flight}
        waiting = [
            block
            for block in self._missing()
            if block not in flying and block not in self._void and self._lost[block] < BLOCK_ATTEMPTS
        ]
        if self._searches and not self._levels():
            return [] if flying else waiting[:1]
        return waiting

    def _begin_blocks(self) -> None:
        if self._fleet.may_have_hosts:
            self._hosts_seen = time.monotonic()
        if self._is_out_of_budget():
            return
        for block, member in zip(self._waiting(), self._fleet.idle(), strict=False):
            before = max((attempt_of(run) for run in self._held if run.place and run.place.block == block), default=0)
            attempt = self._attempts[block] = 1 + max(before, self._attempts.get(block, 0))
            task = self._make_task(member, block, attempt, self._levels())
            name = f"{self._plan.experiment}-{block}-{attempt}"
            member.handle = self._fleet.executor.submit(
                member.host, task, name, alone=True, seconds=self._longest or self._seconds
            )
            member.block, member.attempt = block, attempt
            self._begun[block] = time.monotonic()
            self._fleet.progress.host(member.name, f"block {block}: waiting for the host")

    def _nothing_to_begin(self) -> bool:
        """Whether the end has come. Raises FleetError if hosts are wanted and none comes."""
        if self._is_out_of_budget() or not self._waiting():
            return True
        out = self._fleet.left_out
        if time.monotonic() - self._hosts_seen > HOST_WAIT or (out and not self._fleet.may_have_hosts):
            raise FleetError(f"no host is left to measure on ({out or 'none is up'}); mend one and go on with --resume")
        return False

    def _collect(self) -> ExperimentOutcome | None:
        """Store the blocks that have ended since. The outcome if the experiment ends with one of them."""
        for member in self._in_flight:
            report = self._fleet.executor.look(member.handle)
            self._pass_on(member, report)
            if report.state is TaskState.WAITING:
                self._give_up_waiting(member)
                continue
            member.waits_since = None
            if report.state is TaskState.RUNNING:
                continue
            block, attempt = member.block or 0, member.attempt
            self._fleet.release(member)
            if report.state is TaskState.LOST:
                self._note_lost(member, block, report.text)
                continue
            if not self._take(member, block, attempt, report.text):
                continue
            if self._is_failing():
                return self._outcome(ExperimentEnd.FAILING)
            if block in self._complete() and (why := self._look_at_data()) is not None:
                self._store_late()
                return self._stop(why)
        return None

    def _give_up_waiting(self, member: FleetMember) -> None:
        """Take the block from a host that is busy otherwise, where another has nothing to do or the time is up."""
        member.waits_since = member.waits_since or time.monotonic()
        if time.monotonic() - member.waits_since < WAIT_FOR_HOST:
            return
        if self._is_out_of_budget() or (self._fleet.idle() and not self._waiting()):
            self._fleet.progress.note(f"{member.name} is busy otherwise; another host makes block {member.block}")
            self._fleet.release(member)
            member.rests_until = time.monotonic() + BUSY_REST

    def _is_failing(self) -> bool:
        """As for a single machine; but of several hosts, one alone may be at fault."""
        if not is_failing(self._stored):
            return False
        last = [entry.made.run for entry in self._stored if entry.made.run.failure is not None][-MAX_FAILED_RUNS:]
        return len(self._fleet.names) == 1 or len({run.testbed.name for run in last}) > 1

    def _pass_on(self, member: FleetMember, report: TaskReport) -> None:
        """What the worker says, beside its host's name."""
        progress = self._fleet.progress
        for kind, text, *_ in report.lines:
            if kind == "say":
                progress.host(member.name, f"block {member.block}: {text}")
            else:
                (progress.warn if kind == "warn" else progress.note)(f"{member.name}: {text}")

    def _note_lost(self, member: FleetMember, block: int, why: str) -> None:
        self._lost[block] += 1
        self._fleet.progress.warn(f"block {block} was lost on {member.name}: {why}")
        self._fleet.note_loss(member, why)

    def _take(self, member: FleetMember, block: int, attempt: int, text: str, *, void: str | None = None) -> bool:
        """Store the runs of a result; False for a host that could not measure."""
        try:
            result = BlockResult.from_text(text, f"the result of {member.name}").labelled(attempt)
            if result.error is None and result.testbed is not None:
                self._store.check_testbed(result.testbed)
        except StoreError:  # no fault of the host
            raise
        except RegressGateError as error:
            result = BlockResult(error=str(error))
        if result.error is not None:
            self._fleet.progress.warn(f"{member.name} could not measure block {block}: {result.error}")
            self._fleet.note_loss(member, result.error)
            return False
        member.losses = 0
        runs = self._mark(result.runs, void)
        self._store.add_runs(runs, log_as=None)
        self._read_store()
        self._longest = max(self._longest, time.monotonic() - self._begun[block])
        if block in self._missing() and void is None:
            self._void.add(block)
        self._report(runs)
        self._leave_out_sick()
        return True

    def _leave_out_sick(self) -> None:
        """Hosts on which no server of any version works, where another host has one that does: they are at fault."""
        working = {run.testbed.name for run in self._held if run.failure is None}
        failures = {run.testbed.name: run.failure for run in self._held if run.failure is not None}
        for member in self._fleet.members:
            failure = failures.get(member.name)
            if working and failure is not None and member.name not in working and not member.left_out:
                self._fleet.leave_out(member, f"no server of any version works there, the last: {failure.text}")

    def _mark(self, runs: Sequence[Run], void: str | None) -> list[Run]:
        """A block counts as a whole or not at all: two hosts never share one. Failed runs are evidence all the same,
        even late ones: a version that crashes is not saved by a decision about its speed."""
        usable = self._usable(runs)
        done = {(run.place.side, run.place.group) for run in usable if run.place}
        if void is None and len(done) < len(self._plan.versions) * len(self._groups):
            void = "another run of its block does not count"
        if void is None:
            return list(runs)
        return [run if run.failure is not None or run.void is not None else replace(run, void=void) for run in runs]

    def _report(self, runs: Sequence[Run]) -> None:
        ids = {run.key: run.id for run in self._held}
        done = self._wanted - len(self._missing())
        for run in runs:
            place = run.place
            assert place is not None  # noqa: S101 - all runs of a plan have one
            slot = Slot(place.block, place.position, place.side, place.group)
            entry = StoredRun(MadeRun(slot, run), ids[run.key] or 0, self._why_void(run), place.seconds or 0.0)
            self._stored.append(entry)
            if self._control.on_stored is not None:
                self._control.on_stored(entry, done, self._wanted)

    def _look_at_data(self) -> str | None:
        return None if self._control.after_block is None else self._control.after_block()

    def _store_late(self) -> None:
        """Blocks that have ended by now are kept, but change nothing that was decided."""
        for member in self._in_flight:
            report = self._fleet.executor.look(member.handle)
            if report.state is TaskState.DONE:
                block, attempt = member.block or 0, member.attempt
                self._fleet.release(member)
                self._take(member, block, attempt, report.text, void=AFTER_DECISION)

    def _stop(self, why: str) -> ExperimentOutcome:
        self._store.end_experiment(self._plan.experiment, datetime.now(UTC))
        return self._outcome(ExperimentEnd.STOPPED, why)

    def _outcome(self, ending: ExperimentEnd, why: str | None = None) -> ExperimentOutcome:
        return ExperimentOutcome(ending, tuple(self._stored), len(self._missing_units()), why)
