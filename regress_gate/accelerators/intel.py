"""Intel GPUs (Arc, Data Center GPU Max): names, images for XPU, containers, and what their drivers `xe` and `i915` tell
in /sys. vLLM publishes no XPU wheels.

The files are those of Linux: Documentation/ABI/testing/sysfs-driver-intel-xe-hwmon and -i915-hwmon (energy and
temperature), the comments of drivers/gpu/drm/xe/xe_gt_freq.c and xe_gt_throttle.c, and
drivers/gpu/drm/i915/gt/intel_gt_sysfs_pm.c (clock and throttling). Any may be missing, by driver, kernel and GPU: what
cannot be read is None. They say neither how a GPU is called nor which processes compute on it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from regress_gate.accelerators.interface import IMAGE_REGISTRY, DeviceSample, Family, Watcher
from regress_gate.errors import InputError

_DRM = Path("/sys/class/drm")
_DRIVERS = ("xe", "i915")
_CLOCKS = ("device/tile*/gt*/freq0/act_freq", "gt/gt*/rps_act_freq_mhz")
"""Below a card, in MHz, by xe and by i915: of each part of the GPU."""
_THROTTLE_REASONS = ("device/tile*/gt*/freq0/throttle/reason_", "gt/gt*/throttle_reason_")
_HARMFUL_REASONS = (
    "thermal",
    "prochot",
    "ratl",
    "vr_thermalert",
    "vr_thermal",
    "soc_thermal",
    "mem_thermal",
    "soc_avg_thermal",
)
"""Heat of the GPU, its memory and its voltage regulators, and the protection of the processor. The limits of power and
current (`pl1`, `pl2`, `pl4`, `vr_tdc`…) are left out, because a GPU under full load always runs at one of them."""
_ENERGY = ("energy1_input", "energy2_input")
"""Microjoules since the driver was loaded: of the card, else of the package."""


class Intel(Family):
    title = "Intel GPUs"
    platform = "xpu"
    device_type = "xpu"
    variant = "xpu"
    variant_pattern = "xpu"
    parts = r"xpu|arc|b5[78]0|b[5-7]0|a7[57]0|max 1[15]\d0|flex 1[47]0|battlemage|bmg|ponte vecchio|pvc"
    filler_words = frozenset({"intel"})
    visible_variables = ("ZE_AFFINITY_MASK",)
    watches_processes = False
    stands_beside_others = True

    def images(self, tag: str, variant: str | None, *, release: bool) -> tuple[str, ...]:
        del variant, release
        return (f"{IMAGE_REGISTRY}/vllm-openai-xpu:{tag}",)

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        del podman
        if devices != "all":
            raise InputError("one Intel GPU cannot be given to a container alone", where="gpus", todo="write all")
        return ["--device=/dev/dri", "--volume=/dev/dri/by-path:/dev/dri/by-path", "--group-add=video"]

    def visible_devices(self, environment: Mapping[str, str], *, first: int | None) -> tuple[int, ...]:
        """All that can be watched: in which order a server numbers them is not known here."""
        del environment, first
        return tuple(range(len(_cards())))

    def can_watch(self) -> bool:
        return bool(_cards())

    @contextmanager
    def watch(self, numbers: Sequence[int]) -> Iterator[Watcher | None]:
        cards = _cards()
        is_there = bool(numbers) and max(numbers) < len(cards)
        yield SysfsWatcher([cards[number] for number in numbers]) if is_there else None


@dataclass(slots=True)
class _Card:
    path: Path
    """`/sys/class/drm/card0`."""
    sensors: Path
    """Its directory of hwmon."""
    energy: tuple[float, float] | None = None
    """Joules when they were read last, and the time (time.monotonic)."""

    def clock(self) -> float | None:
        """The highest of its parts, as i915 sums them up for a card."""
        return max(_numbers(self.path, *_CLOCKS), default=None)

    def throttled(self) -> bool | None:
        patterns = (before + reason for before in _THROTTLE_REASONS for reason in _HARMFUL_REASONS)
        reasons = _numbers(self.path, *patterns)
        return any(reasons) if reasons else None

    def watts(self) -> float | None:
        """The mean since the last call; None at the first, and where the counter began anew."""
        joules = next((number / 1e6 for name in _ENERGY for number in _numbers(self.sensors, name)), None)
        before, now = self.energy, time.monotonic()
        self.energy = None if joules is None else (joules, now)
        if joules is None or before is None or joules < before[0] or now <= before[1]:
            return None
        return (joules - before[0]) / (now - before[1])

    def celsius(self) -> float | None:
        return max((number / 1000 for number in _numbers(self.sensors, "temp*_input")), default=None)


@dataclass(slots=True)
class SysfsWatcher:
    """Some cards of this machine."""

    cards: list[_Card] = field(default_factory=list)

    def sample(self) -> DeviceSample:
        throttled = [card.throttled() for card in self.cards]
        clocks = [clock for card in self.cards if (clock := card.clock()) is not None]
        power = [watts for card in self.cards if (watts := card.watts()) is not None]
        heat = [celsius for card in self.cards if (celsius := card.celsius()) is not None]
        count = len(self.cards)
        return DeviceSample(
            at=time.monotonic(),
            throttled=None if None in throttled else any(throttled),
            clock_mhz=sum(clocks) / count if len(clocks) == count else None,
            power_watts=sum(power) / count if len(power) == count else None,
            temperature_celsius=max(heat) if len(heat) == count else None,
            processes=None,
        )


def _cards() -> list[_Card]:
    """Cards with sensors, in the order of their addresses: graphics that are part of a processor have none."""
    found: dict[str, _Card] = {}
    for path in _DRM.glob("card*"):
        if not path.name.removeprefix("card").isdecimal():  # a connector: card0-DP-1
            continue
        device = path / "device"
        try:
            driver, address = (device / "driver").resolve(strict=True).name, device.resolve(strict=True).name
        except OSError:
            continue
        sensors = [each for each in sorted(device.glob("hwmon/hwmon*")) if _is_of_card(each)]
        if driver in _DRIVERS and sensors:
            found[address] = _Card(path, sensors[0])
    return [found[address] for address in sorted(found)]


def _is_of_card(sensors: Path) -> bool:
    """i915 has further ones for parts of a card, `i915_gt0`."""
    try:
        name = (sensors / "name").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        name = ""
    return "_gt" not in name and any((sensors / each).is_file() for each in _ENERGY)


def _numbers(directory: Path, *patterns: str) -> list[float]:
    """Of all files that fit; those that cannot be read, or hold no number, are left out."""
    numbers = []
    for pattern in patterns:
        for path in directory.glob(pattern):
            try:
                numbers.append(float(int(path.read_text(encoding="ascii"))))
            except (OSError, ValueError):  # the GPU sleeps, or the driver cannot say it
                continue
    return numbers
