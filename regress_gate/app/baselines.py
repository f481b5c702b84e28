"""Pin, export, import and prune stored versions. Opens the database; for looking only, see `store_queries`."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from regress_gate.app.old_files import OldFiles, find_old_files
from regress_gate.app.settings import Settings
from regress_gate.app.store_queries import is_selected, stored_versions
from regress_gate.errors import InputError, NoDataError
from regress_gate.files import write_output_file
from regress_gate.gate.sides import make_side
from regress_gate.model.run import Run, SuiteRef
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Version
from regress_gate.store.baseline_file import baseline_file_name, dump_baseline, load_baseline
from regress_gate.store.comparisons import of_holding
from regress_gate.store.repository import Repository, find_store, open_store
from regress_gate.store.store_interface import AddedRuns, Expired, Holding
from regress_gate.suites import find_shipped_suite
from regress_gate.text import plural, slugify

if TYPE_CHECKING:
    from regress_gate.app.fleet import HostFiles


@dataclass(frozen=True, slots=True)
class ExportedFile:
    path: Path | None
    """None: every run was left out."""
    version: Version
    runs: int
    void: int
    """Runs that were left out."""


def pin_version(version: Version, settings: Settings, *, unmeasured: bool = False) -> bool:
    """Keep a version from pruning. False if it was pinned already. Raises NoDataError if it has no runs and is not said
    to be `unmeasured`."""
    is_held = unmeasured or any(one.version.matches(version) for one in stored_versions(settings, everything=True))
    if not is_held:
        todo = "--unmeasured pins it for the watch, which measures it; see `regress-gate baseline list`"
        raise NoDataError(f"no stored runs for {version}; {todo}")
    with open_store(str(settings.store_url.value), create=True) as store:
        return store.pin(version)


def unpin_version(version: Version, settings: Settings) -> None:
    """Raises InputError if the version is not pinned."""
    with open_store(str(settings.store_url.value), create=False) as store:
        if not store.unpin(version):
            pins = ", ".join(str(pin.version) for pin in store.pinned()) or "nothing"
            raise InputError(f"{version} is not pinned (pinned: {pins})")


def export_baselines(
    settings: Settings, version: Version | None, directory: Path, *, undisturbed: bool = False
) -> Iterator[ExportedFile]:
    """Write the stored runs as readable JSON, a file for each version, testbed and suite; what each file holds.

    `undisturbed` leaves out runs that are void by the conditions of their suite. Raises NoDataError if nothing is
    selected.
    """
    with open_store(str(settings.store_url.value), create=False) as store:
        held = _selected(store, settings, version)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made ({error.strerror})", where=directory) from None
        for holding in held:
            yield _export(store, holding, directory, undisturbed=undisturbed)


def _selected(store: Repository, settings: Settings, version: Version | None) -> list[Holding]:
    held = [
        holding
        for holding in store.inventory()
        if (version is None or holding.version.matches(version)) and is_selected(holding, settings)
    ]
    if not held:
        raise NoDataError("the store holds nothing like that; see `regress-gate baseline list`")
    return held


def _export(store: Repository, holding: Holding, directory: Path, *, undisturbed: bool) -> ExportedFile:
    kept, left_out = _runs_of(store, holding, undisturbed=undisturbed)
    if not kept:
        return ExportedFile(None, holding.version, 0, left_out)
    path = directory / baseline_file_name(holding.version, holding.testbed, holding.suite)
    write_output_file(path, dump_baseline(kept))
    return ExportedFile(path, holding.version, len(kept), left_out)


def _runs_of(store: Repository, holding: Holding, *, undisturbed: bool) -> tuple[list[Run], int]:
    """The runs to be exported, and how many are left out."""
    stored = store.runs(version=holding.version, testbed=holding.testbed, suite=holding.suite, with_samples=True)
    runs = [run for run in stored if run.version == holding.version]
    kept = runs
    if undisturbed:
        suite = find_shipped_suite(holding.suite)
        kept = list(make_side(holding.version, runs, suite.conditions if suite else ConditionLimits()).counted)
    return kept, len(runs) - len(kept)


@dataclass(frozen=True, slots=True)
class SharedRuns:
    """What an export to a branch came to."""

    runs: int
    """That were to be there."""
    added: int
    void: int
    """Left out."""


def export_to_branch(
    settings: Settings,
    version: Version | None,
    branch: str,
    environment: Mapping[str, str],
    *,
    undisturbed: bool = False,
) -> SharedRuns:
    """Add the stored runs that a branch of the repository lacks, a file for each, in one commit.

    Raises NoDataError if nothing is selected, GitHubError if GitHub cannot be written to.
    """
    # With PyGithub, which no other use case here needs.
    from regress_gate.app.publish import repository_client
    from regress_gate.publish.data_branch import FOLDER, DataBranch, append_files

    client, repository = repository_client(environment)
    target, void = DataBranch(repository, branch), 0
    files: dict[str, str] = {}
    with open_store(str(settings.store_url.value), create=False) as store:
        for holding in _selected(store, settings, version):
            kept, left_out = _runs_of(store, holding, undisturbed=undisturbed)
            void += left_out
            files |= {f"{FOLDER}{name}": text for name, text in _files_of_runs(holding, kept)}
    with client:
        added = append_files(client, target, files, f"Add {plural(len(files), 'run')}")
    return SharedRuns(len(files), added, void)


def _files_of_runs(holding: Holding, runs: Iterable[Run]) -> Iterator[tuple[str, str]]:
    """Name and text of a file for each run. Equal runs have the same name, and different runs different ones."""
    folder = baseline_file_name(holding.version, holding.testbed, holding.suite).removesuffix(".json")
    for run in runs:
        text = dump_baseline([run])
        # Two machines may give two runs the same label.
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        yield f"{folder}/{slugify(run.label)[:80]}-{digest}.json", text


SPOOL_STORE = ".store.db"
"""The store of a spool, by which a measurement goes on. `import` passes it over, as all hidden files."""


@contextmanager
def spooled(settings: Settings, spool: Path) -> Iterator[Settings]:
    """The settings to measure with, so that the runs lie in files of the directory `spool` at the end, however it ends:
    one for each, for `import` on a machine that has the store.

    Raises InputError for a directory that cannot be written to, and where a store is named as well.
    """
    if settings.store_flag is not None:
        raise InputError("a spool is measured into, not a store", where="--spool", todo="leave --store out")
    try:
        spool.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made ({error.strerror})", where=spool) from None
    own = replace(settings, store_flag=str((spool / SPOOL_STORE).absolute()))
    try:
        yield own
    finally:
        _write_spool(str(own.store_url.value), spool)


def _write_spool(url: str, spool: Path) -> None:
    """Write the runs that have no file yet. A file is whole or not there."""
    store = find_store(url)
    if store is None:
        return
    with store:
        for holding in store.inventory():
            for name, text in _files_of_runs(holding, _runs_of(store, holding, undisturbed=False)[0]):
                path = spool / name
                path.parent.mkdir(exist_ok=True)
                if not path.exists():
                    write_output_file(path, text)


def import_from_branch(settings: Settings, branch: str, environment: Mapping[str, str]) -> tuple[AddedRuns, str]:
    """Store the runs of a branch, all or none; what was added, and to which store. The same errors, and InputError."""
    from regress_gate.app.publish import repository_client  # as above
    from regress_gate.publish.data_branch import DataBranch, read_files  # as above

    client, repository = repository_client(environment)
    with client:
        files = read_files(client, DataBranch(repository, branch))
    runs = [run for path, content in sorted(files.items()) for run in load_baseline(content, f"{branch}:{path}")]
    with open_store(str(settings.store_url.value), create=True) as store:
        return store.add_runs(runs), store.location.shown


def import_baselines(settings: Settings, files: Iterable[Path]) -> tuple[AddedRuns, str]:
    """Store exported files, all or none; what was added, and to which store."""
    runs = [run for path in files for run in load_baseline(path.read_bytes(), path)]
    with open_store(str(settings.store_url.value), create=True) as store:
        return store.add_runs(runs), store.location.shown


@dataclass(frozen=True)
class Pruning:
    """Versions that would be deleted, and the means to delete them."""

    holdings: Sequence[Holding]
    is_pinned: bool
    """Nothing would be deleted because the version is pinned."""
    comparisons: Sequence[int]
    """Of each holding the stored comparisons that would be deleted with it; one of two holdings counts at both."""
    _store: Repository
    _selection: tuple[Version | None, str | None, SuiteRef | None, int]

    def delete(self) -> int:
        """The number of deleted runs."""
        version, testbed, suite, keep = self._selection
        gone = self._store.prune(version=version, testbed=testbed, suite=suite, keep=keep)
        return sum(holding.runs for holding in gone)


@contextmanager
def plan_pruning(settings: Settings, version: Version | None, keep: int) -> Iterator[Pruning]:
    """The versions that are not pinned: one, or all but the newest `keep` of each testbed and suite.

    Raises InputError if neither is given, or if the suite of the settings is not exactly one stored suite.
    """
    if version is None and not keep:
        raise InputError("nothing is selected", todo="name a VERSION, or how many to --keep")
    with open_store(str(settings.store_url.value), create=False) as store:
        held = store.inventory()
        suite = _find_suite(settings.suite.value, [holding.suite for holding in held])
        testbed = settings.testbed.value
        going = store.prune(version=version, testbed=testbed, suite=suite, keep=keep, dry_run=True)
        is_pinned = version is not None and any(h.version.matches(version) and h.pinned for h in held)
        compared = store.comparisons() if going else []
        counts = [sum(of_holding(one, holding) for one in compared) for holding in going]
        yield Pruning(going, not going and is_pinned, counts, store, (version, testbed, suite, keep))


@dataclass(frozen=True)
class AgePruning:
    """What is older than a time and may go, and the means to delete it."""

    expired: Expired
    files: OldFiles
    """On this machine: logs of experiments that are as old, and what killed tasks have left."""
    hosts: "Sequence[HostFiles]"
    """The same on the hosts of a fleet."""
    _store: Repository
    _keep: int
    _on: str | None

    def __bool__(self) -> bool:
        return bool(self.expired.run_ids or self.files or any(host for host in self.hosts))

    def delete(self) -> "tuple[Expired, list[HostFiles]]":
        """What is deleted now, in the store and on hosts. Raises InputError for a file that cannot be deleted; the
        store is done with by then."""
        gone = self._store.prune_expired(self.expired.before, keep=self._keep)
        self.files.delete(gone.kept_experiments)
        return gone, _prune_hosts(self._on, gone, delete=True)


@contextmanager
def plan_age_pruning(settings: Settings, older_than: float, keep: int, on: str | None = None) -> Iterator[AgePruning]:
    """What was measured more than `older_than` seconds ago and may go: see `retention.find_expired`. `on`: an engine,
    whose hosts say what they have."""
    before = datetime.now(UTC) - timedelta(seconds=older_than)
    with open_store(str(settings.store_url.value), create=False) as store:
        expired = store.prune_expired(before, keep=keep, dry_run=True)
        files = find_old_files(before, expired.kept_experiments)
        yield AgePruning(expired, files, _prune_hosts(on, expired, delete=False), store, keep, on)


def _prune_hosts(on: str | None, expired: Expired, *, delete: bool) -> "list[HostFiles]":
    if on is None:
        return []
    from regress_gate.app.fleet import prune_hosts  # with the statistics

    return prune_hosts(on, expired.before, expired.kept_experiments, delete=delete)


def _find_suite(name: str | None, held: Sequence[SuiteRef]) -> SuiteRef | None:
    if name is None:
        return None
    suites = sorted({suite for suite in held if name in (suite.name, str(suite))}, key=str)
    if len(suites) != 1:
        listed = ", ".join(str(suite) for suite in suites or sorted(set(held), key=str)) or "none"
        raise InputError(
            f"{name!r} names {len(suites)} stored suites", where="--suite", todo=f"choose one of: {listed}"
        )
    return suites[0]
