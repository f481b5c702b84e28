"""What is to be measured, run by run: blocks of versions side by side, in alternating order. Pure."""

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.suite import Scenario, ServerConfig, Suite

BASELINE, CANDIDATE, SINGLE = "baseline", "candidate", "single"


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """The scenarios of a suite that one server start serves, because they want the same server."""

    name: str
    """Under which the run's own metrics (start-up time, memory) are reported."""
    server: ServerConfig
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One run that is wanted."""

    block: int
    position: int
    """In the block, from 1."""
    side: str
    group: str


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    experiment: str
    suite: SuiteRef
    suite_digest: str
    """Of what the suite says: one that was edited under the same version is another experiment."""
    testbed: str
    versions: Mapping[str, str]
    """Side → version as it was asked for, in the order of the odd blocks."""
    blocks: int
    trials: int
    """Passes of each scenario in a run."""
    resident: bool
    """Whether the servers of a block are up at once and their trials take turns."""
    driver: str | None = None
    """Another tool that measures; None: our own client."""
    most_blocks: int | None = None
    """Blocks that a decision can rest on at most, with those stored before, where it is asked for after every block;
    None: looked at once, when all blocks are made."""

    def units(self, groups: Iterable[str]) -> Iterator[tuple[Slot, ...]]:
        """What is measured together, in the order of measuring: a run, or the runs of a block whose servers are
        resident. Even blocks go through the sides backwards, so that neither is always the second."""
        names = list(groups)
        for block in range(1, self.blocks + 1):
            sides = list(self.versions)[:: 1 if block % 2 else -1]
            position = 0
            for group in names:
                slots = []
                for side in sides:
                    position += 1
                    slots.append(Slot(block, position, side, group))
                if self.resident:
                    yield tuple(slots)
                else:
                    yield from ((slot,) for slot in slots)

    def as_document(self) -> dict[str, Any]:
        return {**asdict(self), "versions": [list(pair) for pair in self.versions.items()]}

    @classmethod
    def from_document(cls, data: Mapping[str, Any]) -> "ExperimentPlan":
        """The inverse of `as_document`. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(**{**data, "suite": SuiteRef(**data["suite"]), "versions": dict(data["versions"])})


def suite_digest(suite: Suite) -> str:
    """SHA-256 of what it says, whatever its file looks like."""
    return hashlib.sha256(suite.model_dump_json().encode()).hexdigest()


def server_groups(suite: Suite) -> list[ServerGroup]:
    """In the order of the suite."""
    groups: list[tuple[ServerConfig, list[Scenario]]] = []
    for scenario in suite.scenarios:
        for server, members in groups:
            if server == scenario.server:
                members.append(scenario)
                break
        else:
            groups.append((scenario.server, [scenario]))
    if len(groups) == 1:
        return [ServerGroup("server", groups[0][0], tuple(groups[0][1]))]
    return [ServerGroup(f"server-{members[0].name}", server, tuple(members)) for server, members in groups]


def missing_units(
    plan: ExperimentPlan,
    groups: Iterable[str],
    counted: Iterable[Run],
    attempts: Mapping[tuple[int, str, str], int],
    limit: int,
) -> list[tuple[Slot, ...]]:
    """The units of which no run counts yet and that have not been tried `limit` times, in the order of measuring.

    A run that failed counts: it says what it can say. Resident runs count together or not at all.
    """
    done = {
        (run.place.block, run.place.side, run.place.group)
        for run in counted
        if run.place is not None and run.place.experiment == plan.experiment
    }
    return [
        unit
        for unit in plan.units(groups)
        if not all((slot.block, slot.side, slot.group) in done for slot in unit)
        and all(attempts.get((slot.block, slot.side, slot.group), 0) < limit for slot in unit)
    ]


def new_experiment_id(now: datetime) -> str:
    """Sorts by time, and is another one even within a second."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
