"""vLLM builds and the refs that name them.

A `Version` is one build; a `Ref` is what a user types for a build. Releases and release candidates have an order
(PEP 440). Nightly builds have no order here: their version string counts from the last tag reachable from main while
releases live on branches, so `0.23.1rc1.dev1403` may be newer than 0.25.1 (vllm#49683). Nightlies are ordered by
commit ancestry or date, which is not in the string.
"""

import re
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Self

from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.errors import InputError

_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_VARIANT = re.compile(r"[a-z0-9]+(\.[a-z0-9]+)*")
_LOCAL_COMMIT = re.compile(r"g([0-9a-f]{7,40})")


MAX_LENGTH = 200
"""Characters of a version; the longest published ones have forty."""
_RELEASE_PARTS = 3


@lru_cache(maxsize=4096)
def version_key(number: str) -> Pep440:
    """The PEP 440 key of a version number; parsed once, because a check asks for the same ones thousands of times.

    Raises InvalidVersion.
    """
    return Pep440(number)


class Channel(StrEnum):
    """Where builds of this kind are published."""

    RELEASE = "release"
    CANDIDATE = "candidate"
    NIGHTLY = "nightly"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Version:
    """One vLLM build. Two builds are the same when number, commit and variant are."""

    number: str | None
    """Normalised PEP 440 version without the local part (`0.19.1`); None for a build known only by its commit."""
    commit: str | None = None
    """Hexadecimal commit id, 7 to 40 digits, if known."""
    variant: str | None = None
    """cpu, cu129, rocm…, if known."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `v0.19.1`, `0.20.0rc1`, `0.23.1rc1.dev1403+g4080263bb.cu129`, `0.19.0+cpu`, `commit:<sha>` or
        `commit:<sha>+cpu`.

        Raises InputError for anything else.
        """
        raw = text.strip()
        if len(raw) > MAX_LENGTH:
            raise InputError(f"{raw[:40]!r}… is too long for a version")
        if raw.lower().startswith("commit:"):
            sha, plus, flavour = raw[len("commit:") :].lower().partition("+")
            if plus and not _VARIANT.fullmatch(flavour):
                raise InputError(f"{text!r} is not a vLLM version", todo="write commit:<sha>+<variant>")
            return cls(None, _commit(sha, text), flavour or None)
        try:
            parsed = Pep440(raw)
        except InvalidVersion:
            raise InputError(
                f"{text!r} is not a vLLM version",
                todo="write a release (v0.19.1), a candidate (0.20.0rc1), a development build or commit:<sha>",
            ) from None
        commit, variant = _local(parsed.local)
        if len(parsed.release) < _RELEASE_PARTS:  # vLLM has a 0.19.0 and no 0.19, which is the same to PEP 440
            parsed = parsed.__replace__(release=(*parsed.release, 0, 0)[:_RELEASE_PARTS])
        return cls(parsed.public, commit, variant)

    @property
    def channel(self) -> Channel:
        if self.number is None:
            return Channel.COMMIT
        parsed = version_key(self.number)
        if parsed.is_devrelease:
            return Channel.NIGHTLY
        return Channel.CANDIDATE if parsed.is_prerelease else Channel.RELEASE

    @property
    def order_key(self) -> Pep440 | None:
        """PEP 440 key for releases and candidates; None if the string does not determine an order."""
        if self.number is None or self.channel is Channel.NIGHTLY:
            return None
        return version_key(self.number)

    def is_before(self, other: "Version") -> bool | None:
        """Whether this build is older than the other; None if the version strings do not determine it."""
        mine, theirs = self.order_key, other.order_key
        return None if mine is None or theirs is None else mine < theirs

    def matches(self, wanted: "Version") -> bool:
        """Whether `wanted` can mean this build: parts that `wanted` leaves open match any."""
        if wanted.number is not None and wanted.number != self.number:
            return False
        if wanted.variant is not None and wanted.variant != self.variant:
            return False
        if wanted.commit is None:
            return True
        return self.commit is not None and (
            self.commit.startswith(wanted.commit) or wanted.commit.startswith(self.commit)
        )

    def __str__(self) -> str:
        if self.number is None:
            return f"commit:{self.commit}" + (f"+{self.variant}" if self.variant else "")
        local = ".".join(([f"g{self.commit}"] if self.commit else []) + ([self.variant] if self.variant else []))
        return self.number + (f"+{local}" if local else "")


def _commit(text: str, original: str) -> str:
    if not _COMMIT.fullmatch(text):
        raise InputError(f"{original!r} does not name a commit", todo="write commit: and 7 to 40 hexadecimal digits")
    return text


def _local(local: str | None) -> tuple[str | None, str | None]:
    """Split a local version part into commit and variant; other parts stay in the variant, in their order."""
    commit, rest = None, []
    for part in (local or "").split("."):
        if (match := _LOCAL_COMMIT.fullmatch(part)) and commit is None:
            commit = match[1]
        elif part and not re.fullmatch(r"d\d{8}", part):  # d20260724: a build date, not an identity
            rest.append(part)
    return commit, ".".join(rest) or None


class RefKind(StrEnum):
    VERSION = "version"
    NIGHTLY = "nightly"
    PINNED = "pinned"
    LATEST = "latest"
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Ref:
    """What a user typed for a version. The last four kinds need the store or a registry to find the build."""

    kind: RefKind
    text: str
    version: Version | None = None
    """Set for VERSION (releases, candidates, development builds and `commit:`)."""
    day: date | None = None
    """Set for `nightly@YYYY-MM-DD`."""
    run: int | None = None
    """Set for `run:17`."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a ref of design.md section 2; raises InputError for anything else."""
        raw = text.strip().lower()
        if raw in ("nightly", "pinned", "latest"):
            return cls(RefKind(raw), text)
        if raw.startswith("nightly@"):
            try:
                return cls(RefKind.NIGHTLY, text, day=date.fromisoformat(raw[len("nightly@") :]))
            except ValueError:
                raise InputError(f"{text!r} has no valid date", todo="write nightly@YYYY-MM-DD") from None
        if raw.startswith("run:"):
            digits = raw[len("run:") :]
            if not re.fullmatch(r"[0-9]{1,18}", digits):
                raise InputError(
                    f"{text!r} does not name a run", todo="write run: and the number `baseline show` gives"
                )
            return cls(RefKind.RUN, text, run=int(digits))
        return cls(RefKind.VERSION, text, version=Version.parse(text))

    def __str__(self) -> str:
        return self.text
