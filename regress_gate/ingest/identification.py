"""Identity for each result of one import: which sources speak of it, what was read before, and what nobody said.

The rules by which sources are weighed are in identity.py; this module collects what they say.
"""

import os
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from regress_gate.errors import InputError
from regress_gate.ingest.candidate import Candidate
from regress_gate.ingest.content import Content
from regress_gate.ingest.copies import Copies, Seen
from regress_gate.ingest.grouping import Item
from regress_gate.ingest.identity import IDENTITY_KEYS, Identity, IdentityFlags, identify
from regress_gate.ingest.interface import Reader, Reading, RefusalError
from regress_gate.ingest.reports import FileReport, Outcome
from regress_gate.ingest.scenario_name import scenario_name
from regress_gate.ingest.sidecar import SIDECAR_NAME, SidecarFile, read_sidecar
from regress_gate.ingest.text import MAX_PATH, clean, plural
from regress_gate.model.metric import METRICS
from regress_gate.model.run import IMPORTED_SUITE, Source

_REMEMBERED = 1000
_UNCLEAR = frozenset(name for name in METRICS if name.startswith("unclear_"))
_NAMED_FILES = 3
"""How many files a message about many of them names."""


class Found(NamedTuple):
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
    source: Source
    sidecar: SidecarFile | None


class Identifier:
    """Identifies the results of one import, and remembers them so that none is taken twice."""

    def __init__(self, flags: IdentityFlags, imported_at: datetime) -> None:
        self._flags, self._imported_at = flags, imported_at
        self.copies = Copies()
        self._sidecars: dict[str, SidecarFile | None] = {}
        """By folder, as a path names it and as it is really called."""
        self._identities: dict[tuple[object, ...], Identity] = {}
        """What was said before of results that the same sources speak of: most of an import."""

    def same_bytes(self, candidate: Candidate, content: Content) -> tuple[Outcome, str] | None:
        """Outcome and reason for a copy of a file that was read before; None for a new one."""
        if (seen := self.copies.of_bytes(content.sha256)) is None:
            return None
        try:
            here = self._identity(candidate, self._sidecar(candidate), seen.reading)
        except RefusalError as refusal:
            return Outcome.REFUSED, str(refusal)
        return self.copies.told(clean(candidate.shown, MAX_PATH), "bytes", seen.path, seen, here)

    def identify(
        self, candidate: Candidate, content: Content, reader: Reader, reading: Reading, position: int | None
    ) -> Found | FileReport:
        """The result with its identity; a report where sources contradict each other or it was read before."""
        path = clean(candidate.shown, MAX_PATH)
        try:
            sidecar = self._sidecar(candidate)
            identity = self._identity(candidate, sidecar, reading)
        except RefusalError as refusal:
            return FileReport(path, Outcome.REFUSED, reader.name, str(refusal), reading.notes, position)
        where = path if position is None else f"{path} (result {position + 1})"
        seen = Seen(path, where, reading, identity)
        if (other := self.copies.of_numbers(content.sha256, seen)) is not None:
            outcome, reason = self.copies.told(path, "numbers", other.where, other, identity)
            return FileReport(path, outcome, reader.name, reason, position=position)
        source = Source(
            sha256=content.sha256,
            position=reading.position,
            path=path,
            format=reader.name,
            imported_at=self._imported_at,
            tool=reader.tool,
            client_version=None if identity.client is None else clean(identity.client),
        )
        scenario = identity.scenario or scenario_name(reading.workload)
        return Found(where, candidate.name, position, reading, identity, scenario, source, sidecar)

    def _identity(self, candidate: Candidate, sidecar: SidecarFile | None, reading: Reading) -> Identity:
        given = reading.metadata
        metadata = {key: value for key, value in given.items() if key in IDENTITY_KEYS} if given else given
        path = self._from_path(candidate)
        place = None if sidecar is None else sidecar.path
        key = (place, reading.trial, tuple(metadata.items()), tuple(path.items()))
        if (known := self._identities.get(key)) is not None:
            return known
        identity = identify(self._flags, metadata, reading.trial, None if sidecar is None else sidecar.content, path)
        if len(self._identities) < _REMEMBERED:
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


def complete(found: list[Found]) -> list[Item]:
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
            Item(
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
        if unclear := _unclear(found):
            missing["client-version"] = unclear
        raise InputError(_all_asked_for(missing), todo=_how(missing))
    return items


def unclear_metrics(found: list[Found]) -> str | None:
    """A note on the results whose metrics nobody can tell apart without the version of their client."""
    if not (unclear := _unclear(found)):
        return None
    return f"{_asked_for('client-version', unclear)}; give --client-version VERSION to have them compared"


def _unclear(found: list[Found]) -> list[str]:
    """Results with a metric that the client's version would make clear, as their notes say."""
    return [
        result.where
        for result in found
        if result.identity.client is None
        and not _UNCLEAR.isdisjoint(result.reading.metrics)
        and any("--client-version" in note for note in result.reading.notes)
    ]


def _all_asked_for(missing: Mapping[str, list[str]]) -> str:
    """What is missing, with the files that lack it; those of a list that was just given are not named again."""
    told = []
    before: list[str] | None = None
    for what, files in missing.items():
        told.append(_asked_for(what, files, named=files != before))
        before = files
    return "; ".join(told)


def _asked_for(what: str, files: list[str], *, named: bool = True) -> str:
    meaning = {
        "version": "the vLLM version that was measured",
        "testbed": "the testbed (the machine)",
        "scenario": "a scenario, or a model to name it by,",
        "client-version": "the version of the client, without which some metrics are unclear,",
    }
    lacking = f"{meaning[what]} is not stated by "
    if not named:
        return f"{lacking}the same"
    some = ", ".join(files[:_NAMED_FILES]) + (", …" if len(files) > _NAMED_FILES else "")
    return f"{lacking}{plural(len(files), 'result')} ({some})"


def _how(missing: Mapping[str, list[str]]) -> str:
    flags = " and ".join(f"--{what} {what.rpartition('-')[2].upper()}" for what in missing)
    fields = "/".join(f"{{{what}}}" for what in missing if what != "client-version")
    written = [what for what in missing if what in ("version", "testbed")]
    sidecar = f", or write a {SIDECAR_NAME} with {' and '.join(written)} beside them" if written else ""
    return f"give {flags}, or --pattern with {fields}{sidecar}"
