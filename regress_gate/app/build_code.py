"""The `code` of known issues, evaluated on builds: on all published releases, to prove the records."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version as Pep440

from regress_gate.bench.inspect.published_wheels import DISTRIBUTION, cached_members, published_versions
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.errors import InputError
from regress_gate.files import write_output_file
from regress_gate.known.matching.versions import BuildSource
from regress_gate.known.records.loading import find_record, load_records
from regress_gate.known.records.releases import BUILDS_NAME, BuildProof, shipped_releases, table_text
from regress_gate.model.issue import KnownIssue
from regress_gate.model.version import Version
from regress_gate.paths import shipped_directory, wheel_members_directory
from regress_gate.vllm.release_tables import build_config

Advance = Callable[[int, int], None] | None
"""Called with the releases that are read and those that are wanted."""
FIRST_RELEASE = "0.8.0"
"""Older ones are not read unless they are asked for."""
_AT_ONCE = 4
"""Releases that are read at once: the time goes into waiting for the index."""


@dataclass(frozen=True, slots=True)
class ProvedRecords:
    proofs: Sequence[BuildProof]
    releases: Sequence[str]
    """The oldest first."""
    problems: Mapping[str, str]
    """Release to why it could not be read."""
    written: Path | None

    @property
    def disagree(self) -> bool:
        return any(proof.disagreements for proof in self.proofs)


def prove_records(
    ids: Sequence[str],
    wanted: str,
    *,
    directory: Path | None,
    write: bool,
    offline: bool,
    environ: Mapping[str, str],
    advance: Advance = None,
) -> ProvedRecords:
    """Evaluate the `code` of the records (all that have one, or those named) on published releases.

    `wanted` is a range of releases: `0.8.0..`, `0.11.0..0.12.0`; empty: all since FIRST_RELEASE.
    `write` keeps the table there, for all records and releases. Raises InputError, and ProvisionError if it is not
    known which releases there are, or a table would not be whole.
    """
    if write and (ids or wanted):
        raise InputError(
            "the table is of all records and releases", where="--write", todo="leave out IDs and --releases"
        )
    chosen = _records(ids, directory)
    known = [str(one) for one in shipped_releases()] if offline else published_versions(DISTRIBUTION, environ)
    releases = _in_range(known, wanted or f"{FIRST_RELEASE}..")
    found: dict[str, dict[str, bool | None]] = {}
    problems: dict[str, str] = {}

    def evaluate(release: str) -> None:
        try:
            found[release] = _evaluate(chosen, release, environ, offline=offline)
        except ProvisionError as error:
            problems[release] = str(error)
        if advance:
            advance(len(found) + len(problems), len(releases))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(evaluate, releases))
    read = [release for release in releases if release in found]
    proofs = [BuildProof(issue, {release: found[release][issue.id] for release in read}) for issue in chosen]
    if write and problems:
        release, why = next(iter(problems.items()))
        raise ProvisionError(f"no table is written: {release} was not read: {why}")
    path = (directory or shipped_directory("known_issues")) / BUILDS_NAME if write else None
    if path is not None:
        write_output_file(path, table_text(proofs, read, datetime.now(UTC).date()))
    return ProvedRecords(proofs, read, dict(sorted(problems.items(), key=lambda item: Pep440(item[0]))), path)


def _records(ids: Sequence[str], directory: Path | None) -> list[KnownIssue]:
    if not ids:
        return [record for record in load_records(directory) if record.code]
    chosen = [find_record(name, directory) for name in ids]
    for record in chosen:
        if not record.code:
            raise InputError(f"{record.id} has no `code`", todo="write its conditions first")
    return chosen


def _in_range(releases: Collection[str], wanted: str) -> list[str]:
    """`0.8.0..0.11.2`, open at one end, or one release. Raises InputError for anything else, and if none is in it."""
    first, dots, last = wanted.partition("..")
    low, high = (Version.parse(text).order_key if text else None for text in (first, last if dots else first))
    if low is None and high is None:
        raise InputError(f"{wanted!r} is no range", where="--releases", todo="write 0.8.0.. or 0.8.0..0.11.2")
    keys = sorted(Pep440(text) for text in releases)
    found = [str(key) for key in keys if (low is None or key >= low) and (high is None or key <= high)]
    if not found:
        raise InputError(f"no release is in {wanted}", where="--releases")
    return found


def _evaluate(
    records: Sequence[KnownIssue], release: str, environ: Mapping[str, str], *, offline: bool
) -> dict[str, bool | None]:
    with cached_members(release, environ, wheel_members_directory(), offline=offline) as read:
        source = BuildSource(read, lambda: build_config(Version.parse(release)))
        return {record.id: source.has_fault(record) for record in records}
