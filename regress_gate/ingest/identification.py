"""Identity for each result of one import: which sources speak of it, what was read before, and what nobody said.

The rules by which sources are weighed are in identity.py; this module collects what they say.
"""

import os
import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from regress_gate.errors import InputError
from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_client import TEST_KEY
from regress_gate.ingest.grouping import CompleteResult
from regress_gate.ingest.identity import IDENTITY_KEYS, Identity, IdentityFlags, identify
from regress_gate.ingest.import_result import FileOutcome, FileReport
from regress_gate.ingest.interface import Reader, Reading
from regress_gate.ingest.selection import Candidate
from regress_gate.ingest.sidecar import SIDECAR_NAME, SidecarFile, read_sidecar
from regress_gate.measurement.plausibility import RefusalError
from regress_gate.model.metric import METRICS
from regress_gate.model.run import IMPORTED_SUITE, TrialSource
from regress_gate.model.testbed import Testbed
from regress_gate.text import MAX_NAME, MAX_PATH, excerpt, plural, slugify

# MERGED regress_gate.ingest.copies: Results that were read before: the same bytes, or the same numbers, are one
# measurement wherever they lie.  Not for results that are in the store: those are known by their bytes alone.


_TIMED_METRICS = frozenset(name for name, metric in METRICS.items() if metric.unit in ("s", "1/s"))
_DISTINCTIVE_DIGITS = 10
"""Digits of times and rates from which on two measurements do not have all of them in common."""


class KnownResult(NamedTuple):
    """A result that was read."""

    path: str
    where: str
    """The path, and which result of the file."""
    reading: Reading
    identity: Identity


class DuplicateIndex:
    """Remembers the results of one import."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        """Of files that hold what was read in another place."""
        self._by_hash: dict[str, KnownResult] = {}
        self._by_numbers: dict[tuple[object, ...], list[KnownResult]] = {}

    def of_bytes(self, sha256: str) -> KnownResult | None:
        """The first result that was read from such bytes."""
        return self._by_hash.get(sha256)

    def of_numbers(self, sha256: str, new: KnownResult) -> KnownResult | None:
        """An earlier result with all numbers of this one, which is remembered where there is none."""
        self._by_hash.setdefault(sha256, new)
        reading = new.reading
        numbers = (reading.duration, reading.completed, reading.failed, frozenset(reading.metrics.values()))
        alike = self._by_numbers.setdefault(numbers, [])
        for seen in alike:
            if seen.reading.metrics == reading.metrics and _is_distinctive(reading):
                return seen
        alike.append(new)
        return None

    def told(self, path: str, what: str, place: str, seen: KnownResult, here: Identity) -> tuple[FileOutcome, str]:
        """A copy is skipped; one whose place says that it is something else is an error: one of them is misplaced."""
        self.paths.add(path)
        for field in ("version", "testbed", "suite", "scenario", "run"):
            mine, theirs = getattr(here, field), getattr(seen.identity, field)
            if mine != theirs:
                which = f"its {field} is {_field_text(mine)} here and {_field_text(theirs)} there"
                return FileOutcome.REFUSED, f"the same {what} as {place}, but {which}: one is misplaced"
        return FileOutcome.SKIPPED, f"the same {what} as {place}"


def _is_distinctive(reading: Reading) -> bool:
    """Whether no other result has these numbers by chance, as scores, sizes and coarse times may come again."""
    timed = {value for name, value in reading.metrics.items() if name in _TIMED_METRICS}
    if reading.duration is not None:
        timed.add(reading.duration)
    return sum(map(_digits, timed)) >= _DISTINCTIVE_DIGITS


def _digits(value: float) -> int:
    """How many it takes to write the value, without the noise of a change of units."""
    return len(f"{value:.11e}".partition("e")[0].replace(".", "").rstrip("0"))


def _field_text(value: object) -> str:
    return "not stated" if value is None else value.name if isinstance(value, Testbed) else str(value)


# MERGED regress_gate.ingest.scenario_name: A scenario's name when nobody gives one: made of what the result itself
# says of its workload, and of nothing else.  `tiny-c8-inf-n48` is model tiny, at most 8 requests at once, no rate
# limit, 48 requests. The name has to come out the same for every version, so measured numbers (mean input length…)
# are not in it.


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
"""Measured, so they are not in the name."""


def derive_scenario_name(workload: Mapping[str, Any]) -> str | None:
    """The derived name; None where the result does not even say which model was served.

    A test of vLLM's CI has a name already, which tells its server from others too.
    """
    keys = tuple(key for key in workload if key not in _MEASURED_KEYS)
    values = [workload[key] for key in keys]
    try:
        return _derive_name(keys, *values)
    except TypeError:  # a value that cannot be remembered
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
    """Last part of a model id or path; the model's own name for a path into the hub's cache."""
    path = model.rstrip("/")
    cached = _HUB_CACHE.search(path)
    name = cached[1].rpartition("--")[2] if cached else path.rpartition("/")[2]
    return slugify(name)


_MAX_KNOWN_IDENTITIES = 1000
_UNCLEAR = frozenset(name for name in METRICS if name.startswith("unclear_"))
_MAX_LISTED_FILES = 3
"""How many files a message about many of them names."""


class IdentifiedResult(NamedTuple):
    """A usable result with what its sources say; version, testbed or scenario may still be missing."""

    where: str
    """Path, and which result of the file, for messages."""
    name: str
    """Of the file, without folders."""
    position: int | None
    """Which result of the file; None where it holds one."""
    reading: Reading
    identity: Identity
    scenario: str | None
    source: TrialSource
    sidecar: SidecarFile | None


class Identifier:
    """Identifies the results of one import, and remembers them so that none is taken twice."""

    def __init__(self, flags: IdentityFlags, imported_at: datetime) -> None:
        self._flags, self._imported_at = flags, imported_at
        self.copies = DuplicateIndex()
        self._sidecars: dict[str, SidecarFile | None] = {}
        """By folder, as a path names it and as it is really called."""
        self._identities: dict[tuple[object, ...], Identity] = {}
        """What was said before of results that the same sources speak of: most of an import."""

    def same_bytes(self, candidate: Candidate, content: Content) -> tuple[FileOutcome, str] | None:
        """Outcome and reason for a copy of a file that was read before; None for a new one."""
        if (seen := self.copies.of_bytes(content.sha256)) is None:
            return None
        try:
            here = self._identity(candidate, self._sidecar(candidate), seen.reading)
        except RefusalError as refusal:
            return FileOutcome.REFUSED, str(refusal)
        return self.copies.told(excerpt(candidate.shown, MAX_PATH), "bytes", seen.path, seen, here)

    def identify(
        self, candidate: Candidate, content: Content, reader: Reader, reading: Reading, position: int | None
    ) -> IdentifiedResult | FileReport:
        """The result with its identity; a report where sources contradict each other or it was read before."""
        path = excerpt(candidate.shown, MAX_PATH)
        try:
            sidecar = self._sidecar(candidate)
            identity = self._identity(candidate, sidecar, reading)
        except RefusalError as refusal:
            return FileReport(path, FileOutcome.REFUSED, reader.name, str(refusal), reading.notes, position)
        where = path if position is None else f"{path} (result {position + 1})"
        seen = KnownResult(path, where, reading, identity)
        if (other := self.copies.of_numbers(content.sha256, seen)) is not None:
            outcome, reason = self.copies.told(path, "numbers", other.where, other, identity)
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

    def _identity(self, candidate: Candidate, sidecar: SidecarFile | None, reading: Reading) -> Identity:
        given = reading.metadata
        metadata = {key: value for key, value in given.items() if key in IDENTITY_KEYS} if given else given
        path = self._from_path(candidate)
        place = None if sidecar is None else sidecar.path
        key = (place, reading.trial, tuple(metadata.items()), tuple(path.items()))
        if (known := self._identities.get(key)) is not None:
            return known
        identity = identify(self._flags, metadata, reading.trial, None if sidecar is None else sidecar.content, path)
        if len(self._identities) < _MAX_KNOWN_IDENTITIES:
            self._identities[key] = identity
        return identity

    def _from_path(self, candidate: Candidate) -> Mapping[str, str]:
        pattern = self._flags.pattern
        if pattern is None or candidate.is_stdin:
            return {}
        # Not resolved: a link's own place speaks, not its target's.
        if (values := pattern.match(candidate.path.absolute())) is None:
            raise RefusalError(f"its path does not end like --pattern {pattern.text}")
        return values

    def _sidecar(self, candidate: Candidate) -> SidecarFile | None:
        if candidate.is_stdin:
            return None
        folder = candidate.folder
        if folder not in self._sidecars:
            # By whatever path results are reached, what lies beside them speaks of one server start.
            real = os.path.realpath(folder)
            if real not in self._sidecars:
                self._sidecars[real] = _sidecar_beside(candidate)
            self._sidecars[folder] = self._sidecars[real]
        return self._sidecars[folder]


def _sidecar_beside(candidate: Candidate) -> SidecarFile | None:
    if (other := candidate.beside(SIDECAR_NAME)) is None:
        return None
    try:
        return read_sidecar(other.path, other.open)
    except InputError as error:
        raise RefusalError(f"its {SIDECAR_NAME} is not usable: {error}") from None


def complete_identities(found: list[IdentifiedResult]) -> list[CompleteResult]:
    """Items with full identity. Raises InputError listing, over all files, what nobody said and how to say it."""
    missing: dict[str, list[str]] = {"version": [], "testbed": [], "scenario": []}
    items = []
    for result in found:
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
        if unclear := _results_with_unclear_metrics(found):
            missing["client-version"] = unclear
        raise InputError(_all_missing_text(missing), todo=_remedy_text(missing))
    return items


def unclear_metrics_note(found: list[IdentifiedResult]) -> str | None:
    """A note on the results whose metrics nobody can tell apart without the version of their client."""
    if not (unclear := _results_with_unclear_metrics(found)):
        return None
    return f"{_missing_text('client-version', unclear)}; give --client-version VERSION to have them compared"


def _results_with_unclear_metrics(found: list[IdentifiedResult]) -> list[str]:
    """Results with a metric that the client's version would make clear, as their notes say."""
    return [
        result.where
        for result in found
        if result.identity.client is None
        and not _UNCLEAR.isdisjoint(result.reading.metrics)
        and any("--client-version" in note for note in result.reading.notes)
    ]


def _all_missing_text(missing: Mapping[str, list[str]]) -> str:
    """What is missing, with the files that lack it; those of a list that was just given are not named again."""
    told = []
    before: list[str] | None = None
    for what, files in missing.items():
        told.append(_missing_text(what, files, named=files != before))
        before = files
    return "; ".join(told)


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
