"""The plan of an experiment, run by run: blocks with one run of each version, in alternating order. Pure functions."""

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from regress_gate.bench.load.pass_requests import read_scenario_trace
from regress_gate.model.deployment import ArgValue
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.suite import Scenario, ServerConfig, Suite

BASELINE, CANDIDATE, SINGLE = "baseline", "candidate", "single"
COUNTER_TEST = "counter_test"
"""The side of a plan whose servers are given another setting than the suite's."""

MOST_PROBES = 8
"""Of the search for a capacity, on a server start of its own."""
LEVELS = (0.70, 0.82, 0.91, 1.01, 1.12)
"""Rates that are measured, as parts of the one that was found. The lowest still brackets a loss of a fifth."""


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """What a server is given over the configuration of the suite and the dependencies of its build."""

    engine_args: Mapping[str, ArgValue]
    env: Mapping[str, str]
    packages: Mapping[str, str] = field(default_factory=dict)
    """Versions of dependencies, in place of those that the build demands."""

    @property
    def digest(self) -> str:
        """Tells settings apart; independent of their order."""
        text = json.dumps([sorted(each.items()) for each in (self.engine_args, self.env, self.packages)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def over(self, server: ServerConfig) -> ServerConfig:
        """The configuration with the setting."""
        arguments, env = {**server.engine_args, **self.engine_args}, {**server.env, **self.env}
        return server.model_copy(update={"engine_args": arguments, "env": env})


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Scenarios of a suite that need the same server, and so share a start."""

    name: str
    """The scenario name of the run's own metrics (start-up time, memory)."""
    server: ServerConfig
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True, slots=True)
class Slot:
    """One run of the plan."""

    block: int
    position: int
    """In the block, from 1."""
    side: str
    group: str

    @property
    def side_in_words(self) -> str:
        return self.side.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    experiment: str
    suite: SuiteRef
    suite_digest: str
    """Digest of the suite's content. An edited suite of the same version is another experiment."""
    testbed: str
    versions: Mapping[str, str]
    """Side → requested version, in the order of the odd blocks."""
    blocks: int
    trials: int
    """Passes of each scenario in a run."""
    resident: bool
    """Whether the servers of a block run at the same time and their trials alternate."""
    driver: str | None = None
    """Another tool that measures; None: the tool's own client."""
    most_blocks: int | None = None
    """The most blocks of a design with an interim analysis after each block, including blocks stored before; None: one
    analysis after all blocks."""
    counter_test: ServerSetting | None = None
    """What servers of the side COUNTER_TEST are given. Runs of such a plan are stored under suites of their own, so
    that no comparison of the suite takes them."""
    hosts: tuple[str, ...] = ()
    """Names and patterns of the hosts of a fleet that make the blocks, each a testbed of its own; empty: `testbed`
    makes all. `testbed` then only says which hosts were asked for."""
    lock_clocks: int | None = None
    """What the clocks of the GPUs are locked to while a host measures, in MHz; None: they are left alone."""
    only_block: int | None = None
    """The block that one host of a fleet makes; None: all. Never stored with a plan."""

    @property
    def block_numbers(self) -> Sequence[int]:
        """In the order of measuring."""
        return range(1, self.blocks + 1) if self.only_block is None else (self.only_block,)

    def suite_of(self, side: str) -> SuiteRef:
        """What the runs of a side are stored under."""
        if self.counter_test is None:
            return self.suite
        return self.suite.counter_test(self.counter_test.digest) if side == COUNTER_TEST else self.suite.counter_test()

    def setting_of(self, side: str) -> ServerSetting | None:
        """None: the servers of the side are started as the suite says."""
        return self.counter_test if side == COUNTER_TEST else None

    def units(self, groups: Iterable[str]) -> Iterator[tuple[Slot, ...]]:
        """Units in the order of measuring: a run, or the runs of a block with resident servers.

        Even blocks reverse the sides, so that neither is always second.
        """
        names = list(groups)
        for block in self.block_numbers:
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
        setting = data.get("counter_test")
        setting = None if setting is None else ServerSetting(**setting)
        versions = dict(data["versions"])
        suite, hosts = SuiteRef(**data["suite"]), tuple(data.get("hosts", ()))
        return cls(**{**data, "suite": suite, "versions": versions, "counter_test": setting, "hosts": hosts})


_LATER_KEYS = ("capacity", "trace", "burstiness", "phases", "conversation", "images")
"""Keys of workloads that suites had not always. Where none is given, the digest is that from before there were any."""


def suite_digest(suite: Suite) -> str:
    """SHA-256 of what is measured and how it is judged, independent of the file's formatting.

    A trace counts by the requests that are sent of it, not by the name of its file. Raises InputError if it cannot be
    read.
    """
    left_out: dict[str, Any] = {"blocks": True, "cost": True}
    if not suite.gate.slo:  # so that runs from before there were objectives still belong to their suites
        left_out["gate"] = {"slo"}
    workloads = [scenario.workload for scenario in suite.scenarios]
    unused: dict[str, Any] = {
        key: True for key in _LATER_KEYS if all(getattr(workload, key) is None for workload in workloads)
    }
    if "trace" not in unused:
        unused["trace"] = {"file"}
    left_out["scenarios"] = {"__all__": {"workload": unused}}
    if all(scenario.together is None for scenario in suite.scenarios):
        left_out["scenarios"]["__all__"]["together"] = True
    digest = hashlib.sha256(suite.model_dump_json(exclude=left_out).encode())
    for scenario in suite.scenarios:
        if (trace := read_scenario_trace(scenario)) is not None:
            digest.update(trace.sha256.encode())
    return digest.hexdigest()


def server_groups(suite: Suite) -> list[ServerGroup]:
    """The groups in the order of the suite."""
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
    """Units without a counting run that were tried less than `limit` times, in the order of measuring.

    A failed run counts, because its failure is evidence. Resident runs count together or not at all.
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
    """Sorts by time, and differs even within one second."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
