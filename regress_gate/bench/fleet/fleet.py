"""The hosts of a fleet: which there are, what each is as a testbed, and what each does now.

Hosts may come and go while an experiment runs. A host that cannot measure is left out, with the reason.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from regress_gate.bench.fleet.block_task import BlockResult
from regress_gate.bench.fleet.executor import FleetError, FleetExecutor, FleetHost, TaskReport, TaskState
from regress_gate.errors import InputError, RegressGateError, StoreError
from regress_gate.model.testbed import Testbed
from regress_gate.text import natural_key

SURVEY_WITHIN = 300.0
"""Seconds within which the hosts have to say which machines they are, before a plan is made."""
_POLL = 0.2
_LIST_EVERY = 5.0
"""Seconds between two looks at the engine's list of hosts."""
HOST_LOSSES = 3
"""Tasks that a host loses one after the other until it is left out."""
LOSS_REST = 15.0
"""Seconds after a loss in which a host gets no block, so that others make it."""
BUSY_REST = 60.0
"""Seconds for which a host that is busy otherwise gets no block, while others have nothing to do."""


class FleetProgress(Protocol):
    def host(self, name: str, text: str | None) -> None: ...

    def note(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...


@dataclass(slots=True)
class FleetMember:
    """A host and what it does now."""

    host: FleetHost
    testbed: Testbed | None = None
    """None until the host has said it."""
    handle: Any = None
    """Of the task that it makes now; None: none."""
    block: int | None = None
    """The block that it makes now; None: it says which machine it is, or does nothing."""
    waits_since: float | None = None
    """Since when its task waits for the host (time.monotonic); None: it does not."""
    attempt: int = 0
    losses: int = 0
    """Tasks that it lost since it last had a result."""
    rests_until: float = 0.0
    """Gets no block before (time.monotonic): an engine needs time to notice that a host is gone."""
    left_out: str | None = None
    """Why it gets no more blocks."""

    @property
    def name(self) -> str:
        return self.testbed.name if self.testbed is not None else self.host.testbed or self.host.id


def ask_hosts(executor: FleetExecutor, task: Callable[[FleetHost], str], name: str) -> dict[str, BlockResult]:
    """What every host answers to a task that measures nothing, by its name; of one that gives no answer, why."""
    asked = {host: executor.submit(host, task(host), name, alone=False, seconds=None) for host in executor.hosts()}
    answers: dict[str, BlockResult] = {}
    deadline = time.monotonic() + SURVEY_WITHIN
    while asked:
        is_late = time.monotonic() > deadline
        for host, handle in list(asked.items()):
            report = executor.look(handle)
            if report.state in (TaskState.WAITING, TaskState.RUNNING) and not is_late:
                continue
            executor.cancel(handle)
            del asked[host]
            if report.state is TaskState.DONE:
                answer = BlockResult.from_text(report.text, host.id)
            else:
                answer = BlockResult(error=report.text or f"did not answer within {SURVEY_WITHIN:.0f} seconds")
            answers[answer.testbed.name if answer.testbed else host.testbed or host.id] = answer
        time.sleep(_POLL)
    return dict(sorted(answers.items(), key=lambda item: natural_key(item[0])))


class Fleet:
    """`survey_task` makes the task by which a host says which machine it is; `is_wanted` says, by its name, whether it
    was asked for; `check` raises InputError for one that does not belong to the others."""

    def __init__(
        self,
        executor: FleetExecutor,
        wanted: tuple[str, ...],
        survey_task: Callable[[FleetHost], str],
        is_wanted: Callable[[str], bool],
        check: Callable[[Sequence[Testbed]], None],
        progress: FleetProgress,
    ) -> None:
        self.executor = executor
        self.wanted = wanted
        self.progress = progress
        self.members: list[FleetMember] = []
        self.admit: Callable[[Testbed], None] = lambda _: None
        """Raises RegressGateError for a host whose name the store knows as another machine."""
        self.measured: set[str] = set()
        """Names of hosts of which blocks are stored, also of those that are gone."""
        self._survey_task = survey_task
        self._is_wanted = is_wanted
        self._check = check
        self._listed = float("-inf")
        self._reference: Testbed | None = None
        """What every host has to be of one class with: a host of the survey, or one that has measured before."""

    def go_on_from(self, testbeds: Iterable[Testbed]) -> None:
        """Hosts that have measured already, of which some may be gone. Raises InputError where those that are there are
        not of one class with them."""
        for testbed in testbeds:
            self.measured.add(testbed.name)
            self._check([testbed, *self.testbeds])
            self._reference = testbed

    @property
    def testbeds(self) -> list[Testbed]:
        """Of the hosts that may measure, by name."""
        known = {each.testbed.name: each.testbed for each in self.members if each.testbed and not each.left_out}
        return [known[name] for name in sorted(known, key=natural_key)]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the testbeds that may measure or have measured."""
        return tuple(sorted({*(each.name for each in self.testbeds), *self.measured}, key=natural_key))

    @property
    def left_out(self) -> str:
        """The hosts that may not measure, and why, in one line."""
        return "; ".join(dict.fromkeys(f"{each.name}: {each.left_out}" for each in self.members if each.left_out))

    def survey(self) -> None:
        """Wait until every host has said which machine it is. Raises FleetError if none can be used, InputError if they
        are not of one class."""
        deadline = time.monotonic() + SURVEY_WITHIN
        self.refresh()
        while any(each.handle is not None for each in self.members) and time.monotonic() < deadline:
            time.sleep(_POLL)
            self.refresh()
        for each in self.members:
            if each.waits_since is not None:
                self.progress.note(f"{each.name} is busy otherwise, and takes part once it is free")
            elif each.handle is not None:
                self.leave_out(each, f"did not answer within {SURVEY_WITHIN:.0f} seconds")
        if not self.testbeds:
            asked = "" if self.wanted == ("*",) else f" that is {' or '.join(self.wanted)}"
            raise FleetError(f"the engine has no host{asked}" + (f" ({self.left_out})" if self.left_out else ""))
        self._check(self.testbeds)
        self._reference = self.testbeds[0]

    def keep_one(self) -> None:
        """Use the first host alone, by name: for what is only comparable on one."""
        name = self.testbeds[0].name
        for member in self.members:
            if member.name != name:
                member.left_out = "one host is enough"
        self.wanted = (name,)
        self._is_wanted = lambda other: other == name

    def refresh(self) -> None:
        """See which hosts there are, and what new ones say. Those with a block are the loop's."""
        if time.monotonic() - self._listed >= _LIST_EVERY:
            self._list_hosts()
        for member in [each for each in self.members if each.handle is not None and each.block is None]:
            report = self.executor.look(member.handle)
            member.waits_since = time.monotonic() if report.state is TaskState.WAITING else None
            if report.state not in (TaskState.WAITING, TaskState.RUNNING):
                self.executor.cancel(member.handle)
                member.handle = None
                self._hear(member, report)

    def _list_hosts(self) -> None:
        found = {host.id: host for host in self.executor.hosts()}
        self._listed = time.monotonic()
        # A host that is gone stays while it has a task: what became of it is still asked for.
        self.members = [each for each in self.members if each.host.id in found or each.handle is not None]
        known = {each.host.id for each in self.members}
        for host in found.values():
            if host.id not in known and (host.testbed is None or self._is_wanted(host.testbed)):
                self.members.append(FleetMember(host, handle=self._ask(host)))

    def _ask(self, host: FleetHost) -> Any:
        return self.executor.submit(host, self._survey_task(host), "survey", alone=False, seconds=None)

    def _hear(self, member: FleetMember, report: TaskReport) -> None:
        """What a host says of itself."""
        if report.state is TaskState.LOST:
            self.note_loss(member, report.text)
            return
        result = BlockResult.from_text(report.text, member.host.id)
        member.testbed = result.testbed
        if result.testbed is None:
            self.leave_out(member, result.error or "does not say which machine it is")
        elif not self._is_wanted(result.testbed.name):
            member.left_out = "was not asked for"
        elif self._reference is not None:
            try:
                self._check([self._reference, result.testbed])
                self.admit(result.testbed)
            except StoreError:  # no fault of the host
                raise
            except RegressGateError as error:
                self.leave_out(member, error.what if isinstance(error, InputError) else str(error))

    def note_loss(self, member: FleetMember, why: str) -> None:
        """A task of it was lost, or could not be made there: it gets another, but not for ever."""
        member.losses += 1
        member.rests_until = time.monotonic() + LOSS_REST
        if member.losses >= HOST_LOSSES:
            self.leave_out(member, f"{member.losses} tasks came to nothing one after the other; the last: {why}")
        elif member.testbed is None:
            member.handle = self._ask(member.host)

    def leave_out(self, member: FleetMember, why: str) -> None:
        """Give it no more blocks."""
        member.left_out = why
        self.progress.warn(f"{member.name} is left out: {why}")

    def idle(self) -> list[FleetMember]:
        """Hosts that can take a block: at most one for each testbed, even where a lost host is back under another id
        before the engine has noticed the loss."""
        busy = {each.name for each in self.members if each.block is not None}
        free: dict[str, FleetMember] = {}
        for member in self.members:
            is_free = member.handle is None and not member.left_out and member.rests_until <= time.monotonic()
            if member.testbed and is_free and member.name not in busy:
                free.setdefault(member.name, member)
        return [free[name] for name in sorted(free, key=natural_key)]

    @property
    def may_have_hosts(self) -> bool:
        """Whether any host is there that is not left out."""
        return any(not each.left_out for each in self.members)

    def release(self, member: FleetMember) -> None:
        """End its task, if it has one."""
        if member.handle is not None:
            self.executor.cancel(member.handle)
        member.handle = member.block = member.waits_since = None
        self.progress.host(member.name, None)

    def close(self) -> None:
        """End all tasks and give the engine back."""
        for member in self.members:
            self.release(member)
        self.executor.close()
