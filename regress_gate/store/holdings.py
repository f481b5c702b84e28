"""What the store answers besides runs: what is held, what an import did, what is pinned. Plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from regress_gate.model.run import Run, RunKey, SuiteRef
from regress_gate.model.version import Version
from regress_gate.text import natural_key


class HoldingOrigin(StrEnum):
    STORE = "store"
    SHIPPED = "shipped"


@dataclass(frozen=True, slots=True)
class Holding:
    """What is held of one version on one testbed for one suite."""

    version: Version
    testbed: str
    suite: SuiteRef
    runs: int
    trials: int
    scenarios: int
    """Different scenarios among the trials."""
    first: datetime | None
    """When the first trial was made, or imported where the source does not say. None: no trials and no dates."""
    last: datetime | None
    pinned: bool
    origin: HoldingOrigin


@dataclass(frozen=True, slots=True)
class DuplicateResult:
    """A result that was not stored, because it already is."""

    path: str
    position: int
    run: int | None
    """The run that has it; None when it came earlier in the same import."""


@dataclass(frozen=True, slots=True)
class RunMismatch:
    """A stored run with results that an import wanted in another run."""

    run: int
    stored: RunKey
    asked: RunKey


@dataclass(frozen=True, slots=True)
class AddedRuns:
    """What one import changed."""

    new: tuple[int, ...]
    """Ids of runs that were not there before."""
    extended: tuple[int, ...]
    """Ids of runs that were there and have got trials or facts."""
    trials: int
    duplicates: tuple[DuplicateResult, ...]
    elsewhere: tuple[RunMismatch, ...] = ()
    """Of the duplicates, those that stay in another run than this import says."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that is kept and that the ref `pinned` may mean."""

    version: Version
    """As it was asked for: what it leaves open (commit, variant) may be anything."""
    pinned_at: datetime


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """A plan of runs that has been begun; its runs name it in their place."""

    id: str
    begun: datetime
    plan: Mapping[str, Any]
    """What was to be measured, as JSON values."""
    ended: datetime | None = None
    """None: interrupted, or still at work."""


@dataclass(frozen=True, slots=True)
class StoreInfo:
    location: str
    """Path or URL, without a password."""
    revision: str
    size: int | None
    """Bytes on disk; None for a database on a server."""
    builds: int
    testbeds: int
    suites: int
    runs: int
    trials: int
    samples: int
    """Trials with per-request samples."""
    pins: int


def run_order(run: Run) -> tuple[object, ...]:
    """The order in which runs are given everywhere: by version text, testbed, suite, start, then label."""
    started = "" if run.started is None else run.started.isoformat()
    return (*_order(run.version, run.testbed.name, run.suite), started, natural_key(run.label))


def holding_order(holding: Holding) -> tuple[object, ...]:
    return _order(holding.version, holding.testbed, holding.suite)


def _order(version: Version, testbed: str, suite: SuiteRef) -> tuple[object, ...]:
    return (natural_key(str(version)), testbed, suite.name, suite.version)


def holdings_of(runs: Sequence[Run], pins: Sequence[Version] = ()) -> list[Holding]:
    """The holdings that shipped runs make up."""
    groups: dict[tuple[Version, str, SuiteRef], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.version, run.testbed.name, run.suite), []).append(run)
    return [
        Holding(
            version=version,
            testbed=testbed,
            suite=suite,
            runs=len(group),
            trials=sum(len(run.trials) for run in group),
            scenarios=len({trial.scenario for run in group for trial in run.trials}),
            first=min(times, default=None),
            last=max(times, default=None),
            pinned=any(version.matches(pin) for pin in pins),
            origin=HoldingOrigin.SHIPPED,
        )
        for (version, testbed, suite), group in groups.items()
        for times in [[time for run in group for time in _times(run)]]
    ]


def _times(run: Run) -> list[datetime]:
    if not run.trials:
        return [] if run.started is None else [run.started]
    return [trial.started or trial.source.imported_at for trial in run.trials]
