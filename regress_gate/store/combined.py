"""All runs that can be compared: the user's store, if there is one, and the baselines shipped with the program.

For commands that only read. A run that is in both counts as the store's. Without a store, no database code is imported.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from regress_gate.errors import InputError, RegressGateError
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.version import Version
from regress_gate.paths import shipped_directory
from regress_gate.store import baseline_file
from regress_gate.store.store_interface import Holding, Pin, StoreLocation, holding_order, holdings_of, run_order
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
            if not baseline_file.may_hold_runs(path.name, version=version, testbed=testbed, suite=suite):
                continue
            try:
                content = path.read_bytes()
            except OSError as error:
                raise InputError(f"cannot be read ({error.strerror})", where=path) from None
            runs += [
                run
                for run in baseline_file.load_baseline(content, path, with_samples=with_samples)
                if (version is None or run.version.matches(version))
                and testbed in (None, run.testbed.name)
                and suite in (None, run.suite)
            ]
        return sorted(runs, key=run_order)

    def inventory(self) -> list[Holding]:
        """What the files hold, per version, testbed and suite."""
        return sorted(holdings_of(self.runs()), key=holding_order)


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
        from regress_gate.store.repository import find_store

        store = find_store(url)
    return CombinedStore(store, ShippedBaselines() if shipped is None else shipped)


class CombinedStore:
    """The user's store over the shipped baselines. A context manager: closing it closes the store."""

    def __init__(self, store: "Repository | None", shipped: ShippedBaselines):
        self.store = store
        """None: there is no store."""
        self._shipped = shipped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

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
        keys = {run.key for run in stored}
        return sorted([*stored, *(run for run in shipped if run.key not in keys)], key=run_order)

    def run(self, id_: int, *, with_samples: bool = False) -> Run | None:
        """The stored run that the ref `run:ID` names."""
        return None if self.store is None else self.store.run(id_, with_samples=with_samples)

    def inventory(self) -> list[Holding]:
        """The holdings by version, testbed, suite and origin. A run that is in both is the store's."""
        keys = set() if self.store is None else self.store.keys()
        pins = [pin.version for pin in self.pinned()]
        stored = [] if self.store is None else self.store.inventory()
        shipped = holdings_of([run for run in self._shipped.runs() if run.key not in keys], pins)
        return sorted([*stored, *shipped], key=lambda holding: (holding_order(holding), holding.origin))

    def pinned(self) -> list[Pin]:
        """All pins, the newest first."""
        return [] if self.store is None else self.store.pinned()
