"""What a view says to programs that know tests, alerts and annotations: cases, each with an outcome, and findings.

JUnit XML, SARIF, GitHub's workflow commands and `ci publish` are made from these values and from nothing else. All
texts are raw: who writes them escapes them. Not for what people read, which is a `document`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from regress_gate import __version__
from regress_gate.model.issue import Severity

if TYPE_CHECKING:
    from regress_gate.model.result import DeploymentOut

STANDARD_PLACE = "regress-gate.toml"
"""Where a finding is placed that belongs to no known line: every SARIF result needs a file."""


class Level(Enum):
    """How much a finding matters. The order here is the order of a report."""

    ERROR = "error"
    """It speaks against the move."""
    WARNING = "warning"
    """It may, or it limits the answer."""
    NOTE = "note"


class Outcome(Enum):
    """Of a case, in the words of JUnit."""

    PASSED = "passed"
    FAILURE = "failure"
    """It was tried, and it is worse."""
    ERROR = "error"
    """The tool itself could not try it."""
    SKIPPED = "skipped"
    """Shown neither way: undecided, not covered, or waived."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that was put to the test."""

    group: str
    """The scenario, or what the case is about: `known issues`."""
    name: str
    """The metric, or the name of what was tried. Unique in its group."""
    outcome: Outcome
    kind: str = ""
    """One word for why it did not pass: `regression`, `undecided`, `waived`."""
    message: str = ""
    """One line: why it did not pass; also what there is to say of one that did."""
    details: tuple[str, ...] = ()
    """Further lines."""
    numbers: tuple[tuple[str, float | int | str], ...] = ()
    """Name to value, in the units of the JSON format."""


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file that the user keeps."""

    file: str
    """As the user named it."""
    line: int | None = None

    @classmethod
    def parse(cls, where: str) -> Location | None:
        """Read `compose.yaml:7`; None for what is no file: `standard input:7`."""
        file, colon, line = where.rpartition(":")
        if not colon or not line.isascii() or not line.isdigit():
            file, line = where, ""
        if not file.strip() or file == "standard input":
            return None
        number = int(line[:9]) if line else 0
        return cls(file, number or None)

    def in_repository(self) -> Location:
        """The same place by its path from the top of the repository, which is what GitHub knows files by."""
        return replace(self, file=repository_path(self.file))


def repository_path(file: str) -> str:
    """The path of a file from the top of the git repository around it; unchanged where there is none around it."""
    path = Path(os.path.abspath(file))  # noqa: PTH100 - resolve() would follow links out of the repository
    for folder in path.parents:
        if (folder / ".git").exists():
            return path.relative_to(folder).as_posix()
    return file


_FLAG = re.compile(r"--[A-Za-z][\w.-]*\w")


def place_in_deployment(server: DeploymentOut | None, *texts: str) -> Location | None:
    """The line of the first argument that the texts name and the file sets; without one, the line of the image."""
    location = None if server is None else Location.parse(server.where)
    if server is None or location is None:
        return None
    lines = {name.replace("_", "-"): line for name, line in server.lines.items()}
    named = (flag.replace("_", "-") for text in texts for flag in _FLAG.findall(text))
    image = server.lines.get("image", location.line)
    return replace(location, line=next((lines[flag] for flag in named if flag in lines), image))


def deployment_key(server: DeploymentOut | None) -> tuple[str, ...]:
    """What tells the findings of a server from those of another: its name and its file, whatever their lines are."""
    location = None if server is None else Location.parse(server.where)
    return () if server is None else (server.name, location.file if location else "")


@dataclass(frozen=True, slots=True)
class Rule:
    """What kind of finding it is: a known issue, or a reason of the gate."""

    id: str
    """`VLLM-28882`, `regression`."""
    title: str
    """One sentence."""
    level: Level
    """Of its findings, where nothing about one of them says otherwise."""
    text: str = ""
    """What it means and what to do, for people."""
    url: str | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suppression:
    """A waiver that covers a finding."""

    owner: str
    until: date
    reason: str

    @property
    def text(self) -> str:
        return f"waived until {self.until.isoformat()} by {self.owner}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, at one place."""

    rule: Rule
    level: Level
    title: str
    """A few words."""
    text: str
    """One sentence."""
    details: tuple[str, ...] = ()
    """Further lines: evidence, workarounds, where to read on."""
    subject: str = ""
    """What it is about, where that is no file: `chat-c8/ttft_p99`."""
    location: Location | None = None
    fingerprint: tuple[str, ...] = ()
    """What makes it the same finding tomorrow, whatever its numbers and lines are then."""
    suppression: Suppression | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a view says."""

    name: str
    """What was done: `compare 0.19.0 → 0.20.1`."""
    headline: str
    """The answer in a few words."""
    advice: str
    """One sentence: what to do."""
    level: Level
    """Of the answer itself."""
    cases: tuple[Case, ...] = ()
    findings: tuple[Finding, ...] = ()
    """The worst first; those that are waived last."""
    created: datetime | None = None
    """When it was decided; None: not kept."""
    category: str = field(kw_only=True)
    """The command: `compare`. Alerts of one category replace each other."""
    tool_version: str = field(default=__version__, kw_only=True)
    """Of the regress-gate that decided."""


_LEVELS = list(Level)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By level, the waived ones last; equal ones stay in their order."""
    return tuple(sorted(findings, key=lambda one: (one.suppression is not None, _LEVELS.index(one.level))))


def worst_level(levels: Iterable[Level]) -> Level:
    return min(levels, key=_LEVELS.index, default=Level.NOTE)


def severity_level(severity: Severity) -> Level:
    """Critical and high are errors, medium is a warning, low is a note."""
    if severity in (Severity.CRITICAL, Severity.HIGH):
        return Level.ERROR
    return Level.WARNING if severity is Severity.MEDIUM else Level.NOTE


def at_most(level: Level, limit: Level) -> Level:
    """The level, or the limit where that is milder."""
    return max(level, limit, key=_LEVELS.index)
