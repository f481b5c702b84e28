"""All runs that can be compared: the user's store, if there is one, and the baselines shipped with the program.

For commands that only read. A run that is in both counts as the store's. Without a store, no database code is imported.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regress_gate.errors import InputError, RegressGateError
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.version import Version
from regress_gate.paths import shipped_directory
from regress_gate.store.baseline_file import load_baseline, may_hold_runs
from regress_gate.store.store_interface import (
    Closing,
    Holding,
    Pin,
    StoreLocation,
    UnfinishedExperiment,
    choose_recent_runs,
    holding_order,
    holdings_of,
    run_order,
)
from regress_gate.text import natural_key
from regress_gate.vllm.build_config import BuildConfig

if TYPE_CHECKING:
    from regress_gate.store.repository import Repository


class ShippedBaselines:
    """Exported files in a directory, with the reading methods of `Repository`. Only files whose name fits are read."""

    def __init__(self, directory: Path | None = None):
        """None: the directory shipped with the program."""
        self._directory = shipped_directory("baselines") if directory is None else directory

    def runs(
        self,
        *,
        version: Version | None = None,
        testbed: str | None = None,
        suite: SuiteRef | None = None,
        with_samples: bool = False,
    ) -> list[Run]:
        """See Repository.runs. Raises InputError for a file that cannot be read."""
        runs = []
        for path in sorted(self._directory.glob("*.json")):
            if not may_hold_runs(path.name, version=version, testbed=testbed, suite=suite):
                continue
            try:
                content = path.read_bytes()
            except OSError as error:
                raise InputError(f"cannot be read ({error.strerror})", where=path) from None
            runs += [
                run
                for run in (load_baseline(content, path) if with_samples else _runs_without_samples(content, path))
                if (version is None or run.version.matches(version))
                and testbed in (None, run.testbed.name)
                and suite in (None, run.suite)
            ]
        return sorted(runs, key=run_order)

    def inventory(self) -> list[Holding]:
        """What the files hold, per version, testbed and suite."""
        return sorted(holdings_of(self.runs()), key=holding_order)


@lru_cache(maxsize=16)  # one command asks for the same runs several times
def _runs_without_samples(content: bytes, path: Path) -> list[Run]:
    return load_baseline(content, path, with_samples=False)


MAX_BUILD_CONFIG_BYTES = 1 << 20
"""Limit of a build configuration file; real ones have a tenth of it."""


def dump_build_config(config: BuildConfig) -> str:
    """The text of a build configuration file: one argument per line, to diff two versions."""
    lines = []
    for key, value in config.as_document().items():
        if isinstance(value, Mapping):
            inner = ",\n".join(f"  {_json(name)}: {_json(item)}" for name, item in value.items())
            lines.append(f" {_json(key)}: {{\n{inner}\n }}" if value else f" {_json(key)}: {{}}")
        else:
            lines.append(f" {_json(key)}: {_json(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def load_build_config(content: bytes, where: Path) -> BuildConfig:
    """Read a build configuration file. Raises InputError for anything that `dump_build_config` does not write."""
    if len(content) > MAX_BUILD_CONFIG_BYTES:
        raise InputError("is too large for a build's configuration", where=where)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError("is not JSON", where=where) from None
    return BuildConfig.from_document(document, where)


def build_config_file_name(version: Version) -> str:
    """`0.19.1+cpu.json`; for a build known by its commit, a dash replaces the colon."""
    return re.sub(r"[^A-Za-z0-9.+_-]", "-", str(version)) + ".json"


class ShippedBuilds:
    """Configurations of builds: one file per build, read only."""

    def __init__(self, directory: Path | None = None):
        """None: the directory shipped with the program."""
        self._directory = directory

    def build_configs(self, version: Version) -> list[BuildConfig]:
        """The configurations of all builds that match `version`. Raises InputError for an unreadable file."""
        configs = []
        for path in sorted(self._files()):
            if version.number is not None and not path.name.startswith(version.number):
                continue
            try:
                config = load_build_config(path.read_bytes(), path)
            except OSError as error:
                raise InputError(f"cannot be read ({error.strerror})", where=path) from None
            if config.version.matches(version):
                configs.append(config)
        return configs

    def _files(self) -> list[Path]:
        try:
            directory = shipped_directory("baselines") / "builds" if self._directory is None else self._directory
        except RegressGateError:
            return []
        return list(directory.glob("*.json"))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def open_combined_store(url: str, *, shipped: ShippedBaselines | None = None) -> "CombinedStore":
    """The store at `url`, if it exists, over the shipped baselines. Raises what `open_store` raises."""
    store = None
    if StoreLocation.parse(url).may_exist:
        from regress_gate.store.repository import find_store  # with SQLAlchemy; the shipped baselines need no database

        store = find_store(url)
    return CombinedStore(store, ShippedBaselines() if shipped is None else shipped)


class CombinedStore(Closing):
    """The user's store over the shipped baselines. A context manager: closing it closes the store."""

    def __init__(self, store: "Repository | None", shipped: ShippedBaselines):
        self.store = store
        """None: there is no store."""
        self._shipped = shipped

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def runs(
        self,
        *,
        version: Version | None = None,
        testbed: str | None = None,
        suite: SuiteRef | None = None,
        with_samples: bool = False,
    ) -> list[Run]:
        """See Repository.runs. Shipped runs have no id."""
        shipped = self._shipped.runs(version=version, testbed=testbed, suite=suite, with_samples=with_samples)
        if self.store is None:
            return shipped
        stored = self.store.runs(version=version, testbed=testbed, suite=suite, with_samples=with_samples)
        keys = {run.key for run in stored} if shipped else set()
        return sorted([*stored, *(run for run in shipped if run.key not in keys)], key=run_order)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """See Repository.one_state."""
        with nullcontext() if self.store is None else self.store.one_state():
            yield

    def unfinished_experiments(self) -> dict[str, UnfinishedExperiment]:
        """Those that still run or were interrupted, by their id."""
        unfinished = [] if self.store is None else self.store.experiments(unfinished_only=True)
        return {
            experiment.id: UnfinishedExperiment(
                {str(side): str(version) for side, version in experiment.plan.get("versions", ())},
                experiment.plan.get("blocks") if experiment.plan.get("most_blocks") is None else None,
            )
            for experiment in unfinished
        }

    def run(self, id_: int, *, with_samples: bool = False) -> Run | None:
        """The stored run that the ref `run:ID` names."""
        return None if self.store is None else self.store.run(id_, with_samples=with_samples)

    def recent_runs(
        self,
        *,
        testbed: str,
        suite: SuiteRef,
        paired: bool,
        metrics: Container[str] | None = None,
        without: Sequence[Run] = (),
    ) -> list[Run]:
        """See Repository.recent_runs; `without` are the runs that are compared. Shipped runs are read in full."""
        shipped = self._shipped.runs(testbed=testbed, suite=suite)
        stored: list[Run] = []
        if self.store is not None:
            ids = {run.id for run in without if run.id is not None}
            stored = self.store.recent_runs(testbed=testbed, suite=suite, paired=paired, metrics=metrics, without=ids)
        compared = {run.key for run in without}
        own = self._not_stored(shipped)
        others = [run for run in (*stored, *own) if run.key not in compared]
        return choose_recent_runs(sorted(others, key=run_order), paired=paired)

    def runs_by_version(self, *, testbed: str, suite: SuiteRef, metrics: Container[str]) -> Iterator[list[Run]]:
        """See Repository.runs_by_version."""
        shipped = self._not_stored(self._shipped.runs(testbed=testbed, suite=suite))
        streams: list[Iterable[list[Run]]] = [_by_version(shipped)]
        if self.store is not None:
            streams.append(self.store.runs_by_version(testbed=testbed, suite=suite, metrics=metrics))
        for _, parts in groupby(merge(*streams, key=_version_key), key=_version_key):
            yield sorted((run for part in parts for run in part), key=run_order)

    def inventory(self, versions: Sequence[Version] | None = None) -> list[Holding]:
        """The holdings by version, testbed, suite and origin; with `versions` of those that match one of them.

        A run that is in both is the store's.
        """
        pins = [pin.version for pin in self.pinned()]
        stored = [] if self.store is None else self.store.inventory(versions)
        if versions is None:
            shipped = self._shipped.runs()
        else:
            shipped = [run for version in dict.fromkeys(versions) for run in self._shipped.runs(version=version)]
            shipped = list({run.key: run for run in shipped}.values())
        held = holdings_of(self._not_stored(shipped), pins)
        return sorted([*stored, *held], key=lambda holding: (holding_order(holding), holding.origin))

    def _not_stored(self, shipped: Sequence[Run]) -> list[Run]:
        """The shipped runs that the store does not have."""
        if self.store is None:
            return list(shipped)
        places = dict.fromkeys((run.version, run.testbed.name, run.suite) for run in shipped)
        labels = {place: self.store.labels(*place) for place in places}
        return [run for run in shipped if run.label not in labels[run.version, run.testbed.name, run.suite]]

    def pinned(self) -> list[Pin]:
        """All pins, the newest first."""
        return [] if self.store is None else self.store.pinned()


def _by_version(runs: Sequence[Run]) -> list[list[Run]]:
    """In the order in which a store gives its versions."""
    groups: dict[Version, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.version, []).append(run)
    return sorted(groups.values(), key=_version_key)


def _version_key(runs: Sequence[Run]) -> tuple[object, ...]:
    return natural_key(str(runs[0].version))
