"""The task of a worker and its result, as JSON documents: all that a block needs, and nothing that is secret.

No database, because the runs come back through the engine: in the form of an exported baseline.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regress_gate import __version__
from regress_gate.bench.experiment.experiment_plan import ExperimentPlan
from regress_gate.bench.fleet.executor import FleetError
from regress_gate.model.run import Run
from regress_gate.model.testbed import Testbed
from regress_gate.store.baseline_file import dump_baseline, load_baseline


@dataclass(frozen=True, slots=True)
class BlockTask:
    suite: Mapping[str, Any]
    """The whole suite, as JSON. Files that it names (recorded traffic) have the same path on every host."""
    testbed: str | None
    """The name of the host; None: as it names itself."""
    plan: Mapping[str, Any] | None = None
    """Of the experiment; None: only say which machine it is."""
    prune: Mapping[str, Any] | None = None
    """Only find, or delete, what is old on the host: see `app.fleet.prune_hosts`."""
    block: int = 0
    attempt: int = 0
    """From 1; counts all attempts at the block, also those that were lost."""
    provisioning: Mapping[str, Any] = field(default_factory=dict)
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Rates of the scenarios whose capacity is asked for, where they are known."""
    ready_within: float = 0.0
    wait_for_machine: float = 0.0

    def as_text(self) -> str:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps({"tool_version": __version__, **fields})

    @classmethod
    def from_text(cls, text: str) -> "BlockTask":
        """The inverse. Raises FleetError for the task of another version of this program."""
        data = json.loads(text)
        asked = data.pop("tool_version", None)
        if asked != __version__:
            raise FleetError(
                f"regress-gate {asked} asks for a block, and its host has {__version__}; install one version everywhere"
            )
        return cls(**data)

    def block_plan(self, testbed: str) -> ExperimentPlan:
        """The plan of this block alone, on the host."""
        plan = ExperimentPlan.from_document(self.plan or {})
        return replace(plan, testbed=testbed, hosts=(), only_block=self.block)


ATTEMPT_MARK = "/attempt-"
"""Before the number, in the labels of runs of a block that is not made for the first time."""


@dataclass(frozen=True, slots=True)
class BlockResult:
    testbed: Testbed | None = None
    runs: tuple[Run, ...] = ()
    error: str | None = None
    """Why the host could not measure. No statement about a version."""
    old_files: Mapping[str, int] | None = None
    """What the host has that is old, or has deleted, counted."""

    def as_text(self) -> str:
        """The document. Raises InputError for values that cannot be stored."""
        alike: dict[Any, list[Run]] = {}
        for run in self.runs:
            alike.setdefault((run.version, run.suite), []).append(run)
        files = [dump_baseline(runs) for runs in alike.values()]
        testbed = None if self.testbed is None else {"name": self.testbed.name, **self.testbed.facts}
        return json.dumps({"testbed": testbed, "runs": files, "error": self.error, "old_files": self.old_files})

    @classmethod
    def from_text(cls, text: str, where: str) -> "BlockResult":
        """The inverse, the runs in the order in which they were made. Raises InputError for anything else."""
        data = json.loads(text)
        runs = [run for file in data["runs"] for run in load_baseline(file, where)]
        runs.sort(key=lambda run: (run.started is not None and run.started.timestamp()) or 0.0)
        testbed = None if data["testbed"] is None else Testbed(**data["testbed"])
        return cls(testbed, tuple(runs), data["error"], data.get("old_files"))

    def labelled(self, attempt: int) -> "BlockResult":
        """The runs with labels that no other attempt at the block has."""
        if attempt == 1:
            return self
        runs = (replace(run, label=f"{run.label}{ATTEMPT_MARK}{attempt}") for run in self.runs)
        return replace(self, runs=tuple(runs))


def attempt_of(run: Run) -> int:
    """The attempt at its block in which a stored run was made."""
    mark, number = run.label.rpartition(ATTEMPT_MARK)[1:]
    return int(number) if mark and number.isdecimal() else 1
