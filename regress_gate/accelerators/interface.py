"""What the tool needs to know about one family of accelerators.

One module a family holds a subclass of `Family`, and `registry` has one line for it: adding a family takes these two
files. Everything but the names and the build has a default, which says "not known" or "not possible".
"""

import re
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol

from regress_gate.errors import ExitCode, InputError, RegressGateError
from regress_gate.model.deployment import Platform

IMAGE_REGISTRY = "docker.io/vllm"
"""Where vLLM publishes images. With the registry's name, because podman has no default one."""


@dataclass(frozen=True, slots=True)
class Accelerators:
    """All accelerators of one machine, including those that a server may not use."""

    name: str
    """`NVIDIA H200`; several kinds are joined by ` + `."""
    count: int
    driver: str | None
    sm: str | None = None
    """Compute capability, `9.0`. This and the following fields are None if unknown or if the devices differ."""
    memory_bytes: int | None = None
    """Of each device."""
    max_clock_mhz: int | None = None
    """Of the compute units."""
    power_limit_watts: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """One reading of all watched devices. None: unknown for at least one of them."""

    at: float
    """On the monotonic clock."""
    throttled: bool | None
    """Whether at least one device was slowed down by heat or a hardware protection, not by its usual power limit."""
    clock_mhz: float | None
    """Mean over the devices, as the power is."""
    power_watts: float | None
    temperature_celsius: float | None
    """Of the hottest device."""
    processes: frozenset[int] | None
    """Ids of the processes that compute on them, in a process namespace that may be another one than ours."""


class ClockLockError(RegressGateError):
    """Clocks cannot be locked, or not be released."""

    exit_code = ExitCode.COULD_NOT_MEASURE


class Watcher(Protocol):
    """Reads clocks, power, temperature and processes of some devices."""

    def sample(self) -> DeviceSample: ...


class Family(ABC):
    """One family of accelerators. Regular expressions match whole words of a name in lower case."""

    title: ClassVar[str]
    """Plural, for messages: `NVIDIA GPUs`."""
    platform: ClassVar[Platform]
    """The platform of known issues."""
    device_type: ClassVar[str]
    """`device_type` of vLLM's platform: cuda, cpu, xpu…"""
    variant: ClassVar[str | None]
    """The build of vLLM for it; None: the default build."""
    variant_pattern: ClassVar[str]
    """All builds for it: `cu\\d{3}`."""

    parts: ClassVar[str] = ""
    """Names of parts that belong to no other family."""
    levels: ClassVar[Mapping[str, str]] = {}
    """Instruction level to the names of parts: `sm_90` to `h100|h200`."""
    level_prefix: ClassVar[str] = ""
    """How instruction levels begin: `sm_`, `gfx`."""
    brands: ClassVar[str] = ""
    """Words that show the family if no part is recognised."""
    filler_words: ClassVar[frozenset[str]] = frozenset()
    """Words that the vendor puts around the name of a part and that distinguish nothing."""
    name_prefixes: ClassVar[str] = ""
    """The same where people write it without a space: `RTX4090`."""
    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names of parts to the one that records write, as a replacement: `trn(\\d)` to `trainium\\1`."""
    carriers: ClassVar[str] = ""
    """Names of boards and servers that stand before the name of a part: `Atlas 800I` in `Atlas 800I A2`."""

    wheel_tree: ClassVar[str] = ""
    """Directory of the wheel index with the builds of this family; empty: the root."""
    visible_variables: ClassVar[tuple[str, ...]] = ()
    """Environment variables that limit the devices which a server uses, the strongest first."""
    kubernetes_resource: ClassVar[str | None] = None
    """What the vendor's device plugin calls the devices of a node; None: not known here."""
    how_to_watch: ClassVar[str | None] = None
    """What to install so that the devices are watched; None: this tool cannot watch them."""
    watches_processes: ClassVar[bool] = True
    """Whether a watcher sees which processes compute on the devices."""
    stands_beside_others: ClassVar[bool] = False
    """Whether a machine may have such devices for its displays, beside those that serve."""

    def is_variant(self, variant: str | None) -> bool:
        """Whether a build of that name is for this family."""
        return variant is not None and re.fullmatch(self.variant_pattern, variant) is not None

    def images(self, tag: str, variant: str | None, *, release: bool) -> tuple[str, ...]:
        """Names of published images to try, in this order; `release`: of a release, else of a nightly build."""
        del tag, variant, release
        return ()

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        """Arguments of `docker run` that give devices (`all`, or ids with commas between) to a container.

        Raises InputError if this is not possible.
        """
        del devices, podman
        raise InputError(
            f"this tool cannot give {self.title} to a container", todo="use a launch line of your own: --serve-command"
        )

    def find(self) -> Accelerators | None:
        """The devices of this machine; None: none found, or the family cannot be detected."""
        return None

    def visible_devices(self, environment: Mapping[str, str], *, first: int | None) -> tuple[int, ...]:
        """Numbers of the devices that a server with this environment uses, at most the `first` ones (None: all).

        Empty: none that this tool knows of.
        """
        del environment, first
        return ()

    def can_watch(self) -> bool:
        """Whether `watch` works on this machine, as far as the driver's library is concerned."""
        return False

    @contextmanager
    def watch(self, numbers: Sequence[int]) -> Iterator[Watcher | None]:
        """A watcher of the devices with these numbers; None if they cannot be watched."""
        del numbers
        yield None

    @contextmanager
    def lock_clocks(self, numbers: Sequence[int], mhz: int) -> Iterator[None]:
        """Have the compute units of these devices run at this clock while this is entered, and until `release_clocks`.
        Raises ClockLockError, and has then locked none."""
        del numbers, mhz
        raise ClockLockError(f"this tool cannot lock the clocks of {self.title}; leave --lock-clocks out")
        yield  # so that it is a generator

    def release_clocks(self, numbers: Sequence[int]) -> None:
        """Have the driver choose the clocks of these devices again, locked or not. Raises ClockLockError if it refuses
        that for one of them."""
        del numbers
