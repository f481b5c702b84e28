"""The `code` of known issues, evaluated on builds: on all published releases, to prove the records, and on the build
that a user wants to move to. Builds are read, never imported."""

import io
import re
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from packaging.version import Version as Pep440

from regress_gate.bench.inspect.published_wheels import (
    DISTRIBUTION,
    WheelFiles,
    cached_members,
    published_versions,
)
from regress_gate.bench.inspect.source_arguments import read_sources
from regress_gate.bench.inspect.wheel_metadata import ANY_MACHINE, X86_64, DemandedVersions, demanded_versions
from regress_gate.bench.provision.docker import image_sources
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.errors import InputError
from regress_gate.files import read_bounded, write_output_file
from regress_gate.known.matching.versions import BuildSource, ReadFile
from regress_gate.known.records.loading import find_record, load_records
from regress_gate.known.records.releases import BUILDS_NAME, BuildProof, shipped_releases, table_text
from regress_gate.model.issue import KnownIssue
from regress_gate.model.version import Version
from regress_gate.paths import shipped_directory, wheel_members_directory
from regress_gate.vllm.build_config import BuildConfig
from regress_gate.vllm.release_tables import build_config

Advance = Callable[[int, int], None] | None
"""Called with the releases that are read and those that are wanted."""
FIRST_RELEASE = "0.6.0"
"""Older ones are not read unless they are asked for."""
_MAX_SOURCE = 16 << 20
_OWN_NAME = re.compile(r"vllm(?:_(?:cpu|rocm|tpu|xpu))?-([^-/]+?)(?:\.dist-info|-)")
"""A wheel, or the metadata, of vLLM itself and of none of its plugins."""
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

    `wanted` is a range of releases: `0.6.0..`, `0.11.0..0.12.0`; empty: all since FIRST_RELEASE.
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
        metadata = f"{DISTRIBUTION}-{release}.dist-info/METADATA"  # a wheel for CPUs demands other packages
        source = BuildSource(
            read,
            lambda: build_config(Version.parse(release)),
            lambda: demanded_versions(read(metadata), [X86_64]),
        )
        return {record.id: source.has_fault(record) for record in records}


# The build that a user wants to move to


@dataclass(frozen=True, slots=True)
class CandidateBuild:
    name: str
    """As it was given: a path or an image."""
    version: Version | None
    """None: the build does not say."""
    source: BuildSource
    config: Callable[[], BuildConfig]
    """Its arguments and variables, as its source declares them."""


def open_build(given: str, environ: Mapping[str, str]) -> CandidateBuild:
    """A build in a virtual environment, a site-packages directory, an unpacked source tree, a wheel file, or else the
    container image of that name.

    Raises InputError for a path without vLLM, ProvisionError for an image that cannot be read.
    """
    path = Path(given).expanduser()
    if path.is_dir():
        root = _package_root(path)
        names = [one.name for one in root.glob("vllm*.dist-info")]
        return _build(given, names, lambda file: _read_text(root / file))
    if path.is_file():
        return _open_archive(given, io.BytesIO(path.read_bytes()), [path.name])
    if given.startswith((".", "/", "~")):
        raise InputError("there is no such file or directory", where=given)
    return _open_archive(given, io.BytesIO(image_sources(given, environ)), [])


def _open_archive(given: str, content: io.BytesIO, names: Sequence[str]) -> CandidateBuild:
    try:
        files = WheelFiles(zipfile.ZipFile(content))
    except zipfile.BadZipFile:
        raise InputError("is no wheel", where=given, todo="give a wheel, a directory or an image") from None
    if "vllm/__init__.py" not in files.names:
        raise InputError("holds no vLLM", where=given)
    return _build(given, [*names, *files.names], files.text)


def _package_root(path: Path) -> Path:
    """The directory that holds the package `vllm`."""
    inside = [path, *sorted(path.glob("lib*/python*/site-packages")), *([path.parent] if path.name == "vllm" else [])]
    for root in inside:
        if (root / "vllm" / "__init__.py").is_file():
            return root
    todo = "give a virtual environment, its site-packages, or a source tree"
    raise InputError("holds no vLLM", where=path, todo=todo)


def _read_text(path: Path) -> str | None:
    try:
        content = read_bounded(path, _MAX_SOURCE)
    except OSError:
        return None
    return None if content is None else content.decode("utf-8", "replace")


def _build(given: str, names: Sequence[str], read: ReadFile) -> CandidateBuild:
    version = _version_of(names, read)

    @cache
    def config() -> BuildConfig:
        tables = read_sources(read)
        return BuildConfig(
            version=version or Version("0"),
            arguments=tables.arguments,
            env=tables.env,
            packages={},
            unread=tables.problems,
        )

    def demanded() -> DemandedVersions | None:
        folders = {name.partition("/")[0] for name in names}
        own = [name for name in folders if name.endswith(".dist-info") and _OWN_NAME.match(name)]
        return demanded_versions(read(f"{own[0]}/METADATA"), ANY_MACHINE) if len(own) == 1 else None

    return CandidateBuild(given, version, BuildSource(read, config, demanded), config)


def _version_of(names: Sequence[str], read: ReadFile) -> Version | None:
    """By its own `_version.py`, which has the commit of a nightly, else by its metadata or the name of its wheel."""
    written = re.search(r"""^__version__\b.*?["']([^"']+)["']""", read("vllm/_version.py") or "", re.MULTILINE)
    found = [written[1]] if written else []
    found += [match[1] for name in names if (match := _OWN_NAME.match(name))]
    for text in found:
        with suppress(InputError):
            return Version.parse(text)
    return None
