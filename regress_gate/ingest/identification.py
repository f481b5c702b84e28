"""Identity of each result of one import: collects the sources, finds duplicates, derives scenario names.

The rules that combine the sources are in identity.py. Reports all missing identity in one error. Not for results that
are in the store: the store finds those by their bytes and numbers.
"""

import os
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from regress_gate.errors import InputError
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_client import TEST_KEY
from regress_gate.ingest.grouping import CompleteResult
from regress_gate.ingest.identity import IDENTITY_KEYS, Identity, IdentityFlags, identify
from regress_gate.ingest.interface import SIDECAR_NAME, FileOutcome, FileReport, Reader, Reading
from regress_gate.ingest.selection import Candidate
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.measurement.same_measurement import MeasurementIndex
from regress_gate.model.metric import METRICS
from regress_gate.model.run import IMPORTED_SUITE, TrialSource
from regress_gate.model.testbed import Testbed
from regress_gate.text import MAX_NAME, MAX_PATH, excerpt, plural, slugify

if TYPE_CHECKING:
    from regress_gate.ingest.sidecar import SidecarFile


class KnownResult(NamedTuple):
    """A result that was read before."""

    path: str
    where: str
    """The path, and the position of the result in the file."""
    reading: Reading
    identity: Identity
    sha256: str
    """Of the file."""


class DuplicateIndex:
    """Finds results that were read before in this import: the same bytes or the same numbers."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        """Files whose results were read elsewhere."""
        self.first_files: dict[str, str] = {}
        """By hash, of files that have results of an earlier file: the hash of the first such file. Both were written
        beside the same server start."""
        self.misplaced: dict[str, str] = {}
        """By hash, of files with results of an earlier file under another identity: why they are refused."""
        self._by_hash: dict[str, KnownResult] = {}
        self._by_numbers = MeasurementIndex[KnownResult]()

    def of_bytes(self, sha256: str) -> KnownResult | None:
        """The first result that was read from these bytes."""
        return self._by_hash.get(sha256)

    def of_numbers(self, new: KnownResult) -> KnownResult | None:
        """An earlier result that is the same measurement; if there is none, remembers this one and returns None."""
        self._by_hash.setdefault(new.sha256, new)
        seen = next(self._by_numbers.matches(new.reading), None)
        if seen is None:
            self._by_numbers.add(new.reading, new)
        elif seen.sha256 != new.sha256:
            self.first_files.setdefault(new.sha256, self.first_files.get(seen.sha256, seen.sha256))
        return seen

    def outcome_of_copy(
        self, path: str, what: str, place: str, seen: KnownResult, here: Identity
    ) -> tuple[FileOutcome, str]:
        """Skip a copy; refuse it if its identity differs from that of the first, because one of them is misplaced."""
        self.paths.add(path)
        for field in ("version", "testbed", "suite", "scenario", "run"):
            mine, theirs = getattr(here, field), getattr(seen.identity, field)
            if mine != theirs:
                which = f"its {field} is {_field_text(mine)} here and {_field_text(theirs)} there"
                return FileOutcome.REFUSED, f"the same {what} as {place}, but {which}: one is misplaced"
        return FileOutcome.SKIPPED, f"the same {what} as {place}"


def _field_text(value: object) -> str:
    return "not stated" if value is None else value.name if isinstance(value, Testbed) else str(value)


_HUB_CACHE = re.compile(r"(?:^|/)models--([^/]+)/snapshots/[0-9a-f]+$")
_COMMON_KEYS = (
    "model",
    "request_rate",
    "max_concurrency",
    "num_prompts",
    "burstiness",
    "mean_input_tokens",
    "mean_output_tokens",
    "ramp_up_strategy",
    "ramp_up_start_rps",
    "ramp_up_end_rps",
)


_MEASURED_KEYS = frozenset(["mean_input_tokens", "mean_output_tokens"])
"""These are measured and differ between versions, so the name must not contain them."""


def derive_scenario_name(workload: Mapping[str, Any]) -> str | None:
    """A scenario name made from the workload that a result states; None if it does not state the model.

    `tiny-c8-inf-n48` is model tiny, at most 8 requests at once, no rate limit, 48 requests. The name is the same for
    every version. A test of vLLM's CI keeps its own name, which also identifies its server.
    """
    keys = tuple(key for key in workload if key not in _MEASURED_KEYS)
    values = [workload[key] for key in keys]
    try:
        return _derive_name(keys, *values)
    except TypeError:  # a value that cannot be a cache key
        return _derive_name.__wrapped__(keys, *values)


@lru_cache(maxsize=1000, typed=True)
def _derive_name(keys: tuple[str, ...], *values: Any) -> str | None:
    workload = dict(zip(keys, values, strict=True))
    if isinstance(test := workload.get(TEST_KEY), str) and (name := slugify(test)):
        return name if len(name) <= MAX_NAME else None
    model = workload.get("model")
    if not model or not (parts := [_model_name(model)])[0]:
        return None
    if "max_concurrency" in workload:
        limit = workload["max_concurrency"]
        parts.append("unlimited" if limit is None else f"c{limit}")
    if "request_rate" in workload:
        rate = workload["request_rate"]
        parts.append("inf" if rate is None else f"r{rate:g}")
    if workload.get("burstiness", 1) != 1:
        parts.append(f"b{workload['burstiness']:g}")
    if strategy := workload.get("ramp_up_strategy"):
        parts.append(f"{strategy}{workload.get('ramp_up_start_rps')}to{workload.get('ramp_up_end_rps')}")
    if "num_prompts" in workload:
        parts.append(f"n{workload['num_prompts']}")
    own = {key: value for key, value in workload.items() if key not in _COMMON_KEYS}
    name = _join_parts([*parts, *(f"{key}={value}" for key, value in own.items())])
    if len(name) > MAX_NAME:
        name = _join_parts([*parts, *map(str, own.values())])
    return name if len(name) <= MAX_NAME else None


def _join_parts(parts: list[str]) -> str:
    return "-".join(filter(None, map(slugify, parts)))


@lru_cache(maxsize=1000)
def _model_name(model: str) -> str:
    """The last part of a model id or path; for a path in the Hugging Face cache, the name of the model."""
    path = model.rstrip("/")
    cached = _HUB_CACHE.search(path)
    name = cached[1].rpartition("--")[2] if cached else path.rpartition("/")[2]
    return slugify(name)


_MAX_KNOWN_IDENTITIES = 1000
_UNCLEAR = frozenset(name for name in METRICS if name.startswith("unclear_"))
_MAX_LISTED_FILES = 3
"""Files that a message lists by name."""


class IdentifiedResult(NamedTuple):
    """A usable result with the identity that its sources state; version, testbed or scenario may still be missing."""

    where: str
    """Path and position in the file, for messages."""
    name: str
    """Of the file, without folders."""
    position: int | None
    """Position in the file; None if the file holds one result."""
    reading: Reading
    identity: Identity
    scenario: str | None
    source: TrialSource
    sidecar: "SidecarFile | None"


class Identifier:
    """Identifies the results of one import, and finds those that it has seen before."""

    def __init__(self, flags: IdentityFlags, imported_at: datetime) -> None:
        self.flags, self._imported_at = flags, imported_at
        self.duplicates = DuplicateIndex()
        self._sidecars: dict[str, SidecarFile | None] = {}
        """By folder, as the user's path names it and as resolved."""
        self._identities: dict[tuple[object, ...], Identity] = {}
        """By sources: most results of an import have the same."""

    def same_bytes(self, candidate: Candidate, content: Content) -> tuple[FileOutcome, str] | None:
        """Outcome and reason for a copy of a file that was read before; None for a new file."""
        if (seen := self.duplicates.of_bytes(content.sha256)) is None:
            return None
        try:
            here = self._identity(candidate, self._sidecar(candidate), seen.reading)
        except RefusalError as refusal:
            return FileOutcome.REFUSED, str(refusal)
        return self.duplicates.outcome_of_copy(excerpt(candidate.shown, MAX_PATH), "bytes", seen.path, seen, here)

    def identify(
        self, candidate: Candidate, content: Content, reader: Reader, reading: Reading, position: int | None
    ) -> IdentifiedResult | FileReport:
        """The result with its identity; a report if its sources contradict each other or it was read before."""
        path = excerpt(candidate.shown, MAX_PATH)
        try:
            sidecar = self._sidecar(candidate)
            identity = self._identity(candidate, sidecar, reading)
        except RefusalError as refusal:
            return FileReport(path, FileOutcome.REFUSED, reader.name, str(refusal), reading.notes, position)
        where = path if position is None else f"{path} (result {position + 1})"
        seen = KnownResult(path, where, reading, identity, content.sha256)
        if (other := self.duplicates.of_numbers(seen)) is not None:
            outcome, reason = self.duplicates.outcome_of_copy(path, "numbers", other.where, other, identity)
            if outcome is FileOutcome.REFUSED and other.sha256 != content.sha256:
                self.duplicates.misplaced.setdefault(content.sha256, reason)
            return FileReport(path, outcome, reader.name, reason, position=position)
        source = TrialSource(
            sha256=content.sha256,
            position=reading.position,
            path=path,
            format=reader.name,
            imported_at=self._imported_at,
            tool=reader.tool,
            client_version=None if identity.client is None else excerpt(identity.client),
        )
        scenario = identity.scenario or derive_scenario_name(reading.workload)
        return IdentifiedResult(where, candidate.name, position, reading, identity, scenario, source, sidecar)

    def _identity(self, candidate: Candidate, sidecar: "SidecarFile | None", reading: Reading) -> Identity:
        given = reading.metadata
        metadata = {key: value for key, value in given.items() if key in IDENTITY_KEYS} if given else given
        path = self._from_path(candidate)
        place = None if sidecar is None else sidecar.path
        key = (place, reading.trial, tuple(metadata.items()), tuple(path.items()))
        if (known := self._identities.get(key)) is not None:
            return known
        identity = identify(self.flags, metadata, reading.trial, None if sidecar is None else sidecar.content, path)
        if len(self._identities) < _MAX_KNOWN_IDENTITIES:
            self._identities[key] = identity
        return identity

    def _from_path(self, candidate: Candidate) -> Mapping[str, str]:
        pattern = self.flags.pattern
        if pattern is None or candidate.is_stdin:
            return {}
        # Not resolved: the location of a link counts, not that of its target.
        if (values := pattern.match(candidate.path.absolute())) is None:
            raise RefusalError(f"its path does not end like --pattern {pattern.text}")
        return values

    def _sidecar(self, candidate: Candidate) -> "SidecarFile | None":
        if candidate.is_stdin:
            return None
        folder = candidate.folder
        if folder not in self._sidecars:
            # One folder reached by several paths has one sidecar, which describes one server start.
            real = os.path.realpath(folder)
            if real not in self._sidecars:
                self._sidecars[real] = _sidecar_beside(candidate)
            self._sidecars[folder] = self._sidecars[real]
        return self._sidecars[folder]


def _sidecar_beside(candidate: Candidate) -> "SidecarFile | None":
    if (other := candidate.beside(SIDECAR_NAME)) is None:
        return None
    from regress_gate.ingest.sidecar import read_sidecar  # with pydantic, and few folders have one

    try:
        return read_sidecar(other.path, other.open)
    except InputError as error:
        raise RefusalError(f"its {SIDECAR_NAME} is not usable: {error}") from None


def complete_identities(results: list[IdentifiedResult]) -> list[CompleteResult]:
    """The results with full identity. Raises InputError that lists all missing identity and how to give it."""
    missing: dict[str, list[str]] = {"version": [], "testbed": [], "scenario": []}
    items = []
    for result in results:
        identity, version, scenario = result.identity, result.identity.version, result.scenario
        testbed = identity.testbed if identity.testbed is not None and identity.testbed.name else None
        if version is None or testbed is None or scenario is None:
            for what, known in (("version", version), ("testbed", testbed), ("scenario", scenario)):
                if known is None:
                    missing[what].append(result.where)
            continue
        items.append(
            CompleteResult(
                where=result.where,
                name=result.name,
                position=result.position,
                reading=result.reading,
                identity=identity,
                version=version,
                testbed=testbed,
                suite=identity.suite or IMPORTED_SUITE,
                scenario=scenario,
                source=result.source,
                sidecar=result.sidecar,
            )
        )
    if missing := {what: files for what, files in missing.items() if files}:
        if unclear := _results_with_unclear_metrics(results):
            missing["client-version"] = unclear
        raise InputError(_all_missing_text(missing), todo=_remedy_text(missing))
    return items


def unclear_metrics_note(results: list[IdentifiedResult]) -> str | None:
    """A note on results that have metrics whose meaning depends on the unknown version of their client."""
    if not (unclear := _results_with_unclear_metrics(results)):
        return None
    return f"{_missing_text('client-version', unclear)}; give --client-version VERSION to have them compared"


def _results_with_unclear_metrics(results: list[IdentifiedResult]) -> list[str]:
    """Where the results stand that have such metrics; their notes ask for --client-version."""
    return [
        result.where
        for result in results
        if result.identity.client is None
        and not _UNCLEAR.isdisjoint(result.reading.metrics)
        and any("--client-version" in note for note in result.reading.notes)
    ]


def _all_missing_text(missing: Mapping[str, list[str]]) -> str:
    """What is missing and in which files; a list of files that was just given is not repeated."""
    parts = []
    before: list[str] | None = None
    for what, files in missing.items():
        parts.append(_missing_text(what, files, named=files != before))
        before = files
    return "; ".join(parts)


def _missing_text(what: str, files: list[str], *, named: bool = True) -> str:
    meaning = {
        "version": "the vLLM version that was measured",
        "testbed": "the testbed (the machine)",
        "scenario": "a scenario, or a model to name it by,",
        "client-version": "the version of the client, without which some metrics are unclear,",
    }
    lacking = f"{meaning[what]} is not stated by "
    if not named:
        return f"{lacking}the same"
    some = ", ".join(files[:_MAX_LISTED_FILES]) + (", …" if len(files) > _MAX_LISTED_FILES else "")
    return f"{lacking}{plural(len(files), 'result')} ({some})"


def _remedy_text(missing: Mapping[str, list[str]]) -> str:
    flags = " and ".join(f"--{what} {what.rpartition('-')[2].upper()}" for what in missing)
    fields = "/".join(f"{{{what}}}" for what in missing if what != "client-version")
    written = [what for what in missing if what in ("version", "testbed")]
    sidecar = f", or write a {SIDECAR_NAME} with {' and '.join(written)} beside them" if written else ""
    return f"give {flags}, or --pattern with {fields}{sidecar}"
