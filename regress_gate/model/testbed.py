"""Testbeds, and when two of them may be compared.

A testbed is the machine. The libraries of a vLLM build (torch, triton, flashinfer…) belong to the run: an upgrade
changes them, so a difference in them is reported and does not prevent a comparison.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any

MEMORY_TOLERANCE = 0.02
"""Relative difference of memory size below which two machines count as the same size (firmware reserves vary)."""


@dataclass(frozen=True, slots=True)
class Testbed:
    """A named machine. None: unknown."""

    __test__ = False  # the name is from the vocabulary, not a test class

    name: str
    accelerator: str | None = None
    accelerator_count: int | None = None
    driver: str | None = None
    cpu: str | None = None
    cpu_count: int | None = None
    """Logical cores that the server may use."""
    memory_bytes: int | None = None
    os: str | None = None
    python: str | None = None
    accelerator_sm: str | None = None
    """Compute capability of each accelerator, `9.0`: it determines the kernels."""
    accelerator_memory_bytes: int | None = None
    accelerator_max_clock_mhz: int | None = None
    accelerator_power_limit_watts: int | None = None
    """As set by an administrator; a lower limit makes the same model slower."""

    @property
    def facts(self) -> dict[str, Any]:
        """What is known, without the name."""
        known = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "name"}
        return {key: value for key, value in known.items() if value is not None}


BLOCKING_FACTS = ("accelerator", "accelerator_count", "cpu", "cpu_count", "memory_bytes")
BLOCKING_IF_KNOWN_FACTS = (
    "accelerator_sm",
    "accelerator_memory_bytes",
    "accelerator_max_clock_mhz",
    "accelerator_power_limit_watts",
)
"""Hardware facts that prevent a comparison if they differ. They may be unknown: few results contain them, and the name
of the accelerator nearly determines them."""
REPORTED_FACTS = ("driver", "os", "python")
"""Facts that change on the same machine (the last two are of the tool's own environment): differences are reported, and
the newest values are stored."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the sides of a comparison."""

    what: str
    baseline: str
    candidate: str
    blocks: bool
    """Whether it prevents a comparison."""

    def __str__(self) -> str:
        return f"{self.what}: {self.baseline} → {self.candidate}"


@dataclass(frozen=True, slots=True)
class Comparability:
    differences: tuple[Difference, ...] = field(default=())

    @property
    def comparable(self) -> bool:
        return not any(difference.blocks for difference in self.differences)


def compare_testbeds(baseline: Testbed, candidate: Testbed) -> Comparability:
    """Whether results of two machines may be compared, with every reason.

    The same name means the same machine. Machines with different names are comparable if every hardware fact is known
    on both sides and equal: an unknown fact blocks. Of the detailed facts of an accelerator, only those known on both
    sides count.
    """
    if baseline == candidate:
        return Comparability()
    differences = []
    for what in (*BLOCKING_FACTS, *BLOCKING_IF_KNOWN_FACTS, *REPORTED_FACTS):
        left, right = getattr(baseline, what), getattr(candidate, what)
        unknown = left is None or right is None
        blocks = what not in REPORTED_FACTS
        if what == "accelerator_count" and baseline.accelerator == candidate.accelerator == "cpu":
            continue  # where the CPU serves, nothing is counted
        if unknown and what in BLOCKING_FACTS and baseline.name != candidate.name:
            differences.append(Difference(what, _shown(left), _shown(right), True))
        elif not unknown and not _same(what, left, right):
            differences.append(Difference(what, _shown(left), _shown(right), blocks))
    if any(difference.blocks for difference in differences) and baseline.name != candidate.name:
        differences.insert(0, Difference("testbed", baseline.name, candidate.name, True))
    return Comparability(tuple(differences))


def is_wanted_testbed(name: str, wanted: Sequence[str]) -> bool:
    """Whether a testbed is among those that were asked for, by their names or by patterns (`h100-*`); empty: all are.

    A testbed of exactly this name is always meant, whatever characters it has.
    """
    return not wanted or any(name == each or fnmatchcase(name, each) for each in wanted)


def asks_for_several(wanted: Sequence[str]) -> bool:
    """Whether more than one testbed may be meant: several names, or a pattern."""
    return len(wanted) > 1 or any(character in each for each in wanted for character in "*?[")


def testbed_classes(testbeds: Iterable[Testbed]) -> list[list[Testbed]]:
    """Hosts whose hardware is the same, as far as `compare_testbeds` wants it known, in the order they come in."""
    classes: list[list[Testbed]] = []
    for testbed in testbeds:
        own = next((each for each in classes if compare_testbeds(each[0], testbed).comparable), None)
        if own is None:
            classes.append([testbed])
        else:
            own.append(testbed)
    return classes


def _same(what: str, left: Any, right: Any) -> bool:
    if what in ("memory_bytes", "accelerator_memory_bytes"):
        return bool(abs(left - right) <= MEMORY_TOLERANCE * max(left, right))
    return bool(left == right)


def _shown(value: Any) -> str:
    return "unknown" if value is None else str(value)
