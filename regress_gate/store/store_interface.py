"""Plain values of the store's interface: its location, what it holds, the results of an import, pins, experiments.

Opens nothing and imports no database code: commands that can work on the shipped baselines alone check here whether a
store exists, before they import SQLAlchemy.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote, unquote

from regress_gate.errors import InputError
from regress_gate.model.run import BlockPosition, Run, RunKey, SuiteRef, session_of
from regress_gate.model.version import Version
from regress_gate.paths import store_file
from regress_gate.redaction import redact_url
from regress_gate.text import natural_key

_SQLITE = re.compile(r"sqlite(\+pysqlite)?:///(?P<path>[^?]*)(\?.*)?", re.DOTALL)
_SERVER = re.compile(r"[A-Za-z][A-Za-z0-9_+]*://.+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A SQLite file, or a database on a server."""

    url: str
    """As given. May contain a password: never show it."""
    path: Path | None
    """The SQLite file; None for a database on a server."""

    @classmethod
    def parse(cls, url: str) -> "StoreLocation":
        """Parse a SQLAlchemy URL. Raises InputError for any other text, and for SQLite in memory."""
        if match := _SQLITE.fullmatch(url):
            path = unquote(match["path"])
            if "\0" in path:
                raise InputError("a store's path cannot contain a NUL character", where="--store")
            if path and path != ":memory:":
                return cls(url, Path(path))
        elif _SERVER.fullmatch(url) and not url.startswith("sqlite"):
            return cls(url, None)
        raise InputError(
            f"{redact_url(url)!r} names no store",
            where="--store",
            todo="write sqlite:///PATH (four slashes before an absolute path) or postgresql://USER@HOST/DATABASE",
        )

    @property
    def shown(self) -> str:
        """For messages: the path, or the URL without user, password and options."""
        return str(self.path) if self.path is not None else redact_url(self.url)

    @property
    def may_exist(self) -> bool:
        """False if there is certainly no store. Only opening it can confirm that there is one.

        An empty file is not a store: a program that is killed while it creates one leaves it behind.
        """
        try:
            return self.path is None or self.path.stat().st_size > 0
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True


def default_store_url() -> str:
    """The SQLite file in the user's data directory."""
    return "sqlite:///" + quote(str(store_file()), safe="/:\\ ")


class HoldingOrigin(StrEnum):
    STORE = "store"
    SHIPPED = "shipped"


@dataclass(frozen=True, slots=True)
class Holding:
    """The stored or shipped runs of one version on one testbed with one suite, counted."""

    version: Version
    testbed: str
    suite: SuiteRef
    runs: int
    trials: int
    scenarios: int
    """Different scenarios among the trials."""
    first: datetime | None
    """Time of the first trial, or of its import if the source has no time. None: no trials and no times."""
    last: datetime | None
    pinned: bool
    origin: HoldingOrigin


@dataclass(frozen=True, slots=True)
class DuplicateResult:
    """A result that was already stored and therefore skipped."""

    path: str
    position: int
    run: int | None
    """The run that has it; None if it came earlier in the same import."""


@dataclass(frozen=True, slots=True)
class RunMismatch:
    """A stored run with results that an import assigned to another run."""

    run: int
    stored: RunKey
    requested: RunKey


@dataclass(frozen=True, slots=True)
class AddedRuns:
    """The changes made by one import."""

    new: tuple[int, ...]
    """Ids of new runs."""
    extended: tuple[int, ...]
    """Ids of older runs that got new trials or facts."""
    trials: int
    duplicates: tuple[DuplicateResult, ...]
    mismatches: tuple[RunMismatch, ...] = ()
    """Stored runs that keep duplicates which this import assigned to another run."""
    continued: tuple[int, ...] = ()
    """Stored runs that got new results, because the import has results of them as well: the same server start."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A version that `prune` keeps and that the ref `pinned` can resolve to."""

    version: Version
    """As the user wrote it: a commit or variant that is left open matches any."""
    pinned_at: datetime


@dataclass(frozen=True, slots=True)
class StoredExperiment:
    """A plan of runs whose execution has begun; its runs name it in their `BlockPosition`."""

    id: str
    begun: datetime
    plan: Mapping[str, Any]
    """What it measures, as JSON values."""
    ended: datetime | None = None
    """None: interrupted, or still running."""


@dataclass(frozen=True, slots=True)
class UnfinishedExperiment:
    """What a comparison must know of a plan that still runs or was interrupted."""

    versions: Mapping[str, str]
    """By side."""
    blocks: int | None
    """How many are measured before anything is decided; None for a plan that is analysed after every block."""


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """What is listed of a result of `compare`; the result itself is read by its id."""

    created: datetime
    testbed: str
    suite: SuiteRef
    baseline: Version
    candidate: Version
    decision: str
    """`pass`, `fail` or `inconclusive`."""
    digest: str = ""
    """Of everything that the result says, but for when and by which release of regress-gate; '' before it is stored."""
    id: int | None = None
    """None before it is stored."""


@dataclass(frozen=True, slots=True)
class StoredLook:
    """One look of the watch."""

    name: str
    """Unique in a store."""
    place: str
    """Testbed and suite: looks at one place follow each other."""
    begun: datetime
    ended: datetime | None
    """None: it was interrupted, or is still going on."""
    candidate: Version | None
    """The build that it looks at; None: none could be found."""
    data: Mapping[str, Any]
    """What it found, as JSON values."""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """What runs are held under."""

    version: Version
    testbed: str
    suite: SuiteRef


class KeptBecause(StrEnum):
    """Why runs stay when a store is pruned by age."""

    YOUNG = "younger"
    UNFINISHED = "of experiments that have not ended"
    PINNED = "pinned, or measured beside what is pinned"
    COMPARED = "compared with a pinned version, or not long ago"
    NEWEST = "of the newest versions"


@dataclass(frozen=True, slots=True)
class Expired:
    """What may go by its age."""

    before: datetime
    run_ids: tuple[int, ...]
    held: Mapping[tuple[int, int, int], int]
    """Runs that go, by the ids of build, testbed and suite."""
    places: Mapping[RunPlace, int]
    """The same, by name."""
    experiments: tuple[str, ...]
    comparisons: tuple[int, ...]
    kept: Mapping[KeptBecause, int]
    """Runs that stay."""
    kept_experiments: frozenset[str]


class ChangeKind(StrEnum):
    """What the log of a store names."""

    CREATE = "create"
    MIGRATE = "migrate"
    IMPORT = "import"
    MEASURE = "measure"
    """An experiment was begun, or servers that ran already were measured."""
    PIN = "pin"
    UNPIN = "unpin"
    PRUNE = "prune"
    WAIVE = "waive"
    """A comparison was stored in which waivers covered findings: others than in the last one of the same versions."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """Who changed what a store holds."""

    id: int
    at: datetime
    actor: str
    """Who it was, as their machine says: a name that anybody could have given."""
    role: str
    """With which role they were logged in, as the server says; '' in a file."""
    host: str
    tool_version: str
    kind: str
    """A `ChangeKind`, or one of a later release."""
    details: Mapping[str, Any]
    """What was changed, as JSON values."""


@dataclass(frozen=True, slots=True)
class StoreInfo:
    location: str
    """Path or URL, without secrets."""
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
    comparisons: int


RECENT_SESSIONS = 24
"""Sessions that a comparison learns the usual spread from. With the least that a session can have, two runs of one
version, 24 of them give 24 degrees of freedom: an interval is then 4 % wider than if the spread were known (quantiles
of t), and more history could gain no more than that (docs/statistics.md)."""
RECENT_RUNS = 120
"""At most so many runs of them: five a session, with which that is 1 %."""
SEARCHED_RUNS = 2000
"""They are looked for among so many of the newest runs: others may have no session, or no pairs."""

_Key = TypeVar("_Key")
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def choose_recent(
    newest_first: Iterable[tuple[_Key, BlockPosition | None, datetime | None]], *, paired: bool
) -> list[_Key]:
    """The runs of the newest sessions, by their key, place and start.

    `paired`: only runs that were measured beside another version, or beside the same one in a calibration.
    """
    chosen, sessions = list[_Key](), set[object]()
    for key, place, started in newest_first:
        session = session_of(place, started)
        if session is None or (paired and (place is None or place.side not in ("baseline", "candidate"))):
            continue
        if session not in sessions and len(sessions) == RECENT_SESSIONS:
            continue
        sessions.add(session)
        chosen.append(key)
        if len(chosen) == RECENT_RUNS:
            break
    return chosen


def choose_recent_runs(runs: Sequence[Run], *, paired: bool) -> list[Run]:
    """`choose_recent` of runs in memory; they keep their order."""

    def age(run: Run) -> tuple[bool, datetime, int]:
        started = run.started or _EARLIEST
        return run.started is not None, started if started.tzinfo else started.replace(tzinfo=UTC), run.id or 0

    newest = sorted(range(len(runs)), key=lambda at: age(runs[at]), reverse=True)
    heads = ((at, runs[at].place, runs[at].started) for at in newest)
    return [runs[at] for at in sorted(choose_recent(heads, paired=paired))]


class Closing(ABC):
    """Closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def run_order(run: Run) -> tuple[object, ...]:
    """Sort key of runs everywhere: version text, testbed, suite, start, then label."""
    started = "" if run.started is None else run.started.isoformat()
    return (*_order(run.version, run.testbed.name, run.suite), started, natural_key(run.label))


def holding_order(holding: Holding) -> tuple[object, ...]:
    return _order(holding.version, holding.testbed, holding.suite)


def _order(version: Version, testbed: str, suite: SuiteRef) -> tuple[object, ...]:
    return (natural_key(str(version)), testbed, suite.name, suite.version)


def holdings_of(runs: Sequence[Run], pins: Sequence[Version] = ()) -> list[Holding]:
    """The holdings of shipped runs."""
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
