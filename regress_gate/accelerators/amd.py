"""AMD GPUs: names, builds for ROCm, containers, and the system management library (AMD SMI).

Levels are from AMD's tables of GPU specifications (rocm.docs.amd.com, "GPU hardware specifications"). The library is
used through its Python module `amdsmi`, if it and a driver are installed; names and units are those of its reference.
Any part may be missing on a machine, and any fact on a device, for which the module answers "N/A": what cannot be read
is None.
"""

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Self

from regress_gate.accelerators.interface import IMAGE_REGISTRY, Accelerators, DeviceSample, Family, Watcher
from regress_gate.errors import InputError

_HARMFUL_VIOLATIONS = ("active_prochot_thrm", "active_socket_thrm", "active_vr_thrm", "active_hbm_thrm")
"""Reasons for a lower clock: a protection of the processor, and heat of socket, voltage regulators and memory. The
power limit (`active_ppt_pwr`) is left out, because a GPU under full load always runs at it."""

_LEAST_MICROWATTS = 1e5
"""No GPU has a limit of so many watts, or of so few microwatts."""


class Amd(Family):
    title = "AMD GPUs"
    platform = "rocm"
    device_type = "cuda"
    variant = "rocm"
    variant_pattern = r"rocm\d*(\.\d+)*"
    levels: ClassVar[Mapping[str, str]] = {
        "gfx950": r"mi350x|mi355x",
        "gfx942": r"mi300[ax]|mi308x|mi325x",
        "gfx90a": r"mi210|mi250x?",
        "gfx908": r"mi100",
        "gfx906": r"mi50|mi60",
        "gfx1201": r"rx 9070|r9700",
        "gfx1200": r"rx 9060",
        "gfx1151": r"strix halo|ryzen ai max|8060s",
        "gfx1150": r"strix point|890m",
        "gfx1101": r"rx 7[78]00|w7700",
        "gfx1100": r"rx 7900|w7900|w7800",
        "gfx1030": r"rx 6[89]00|w6800",
    }
    level_prefix = "gfx"
    brands = r"amd|instinct|radeon"
    filler_words = frozenset({"amd", "instinct"})
    wheel_tree = "rocm/"
    visible_variables = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    kubernetes_resource = "amd.com/gpu"
    how_to_watch = "pip install amdsmi, in the version of your ROCm,"

    def images(self, tag: str, variant: str | None, *, release: bool) -> tuple[str, ...]:
        del variant, release
        return (f"{IMAGE_REGISTRY}/vllm-openai-rocm:{tag}",)

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        del podman
        if devices != "all":
            raise InputError("one AMD GPU cannot be given to a container alone", where="gpus", todo="write all")
        return ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=video"]

    def find(self) -> Accelerators | None:
        return find_gpus()

    def visible_devices(self, environment: Mapping[str, str], *, first: int | None) -> tuple[int, ...]:
        setting = next((environment[name] for name in self.visible_variables if name in environment), None)
        return visible_gpus(setting)[:first]

    def can_watch(self) -> bool:
        with amd_smi() as library:
            return library is not None

    @contextmanager
    def watch(self, numbers: Sequence[int]) -> Iterator[Watcher | None]:
        with amd_smi() as library:
            yield AmdSmiWatcher.of(library, numbers) if library is not None else None


@contextmanager
def amd_smi() -> Iterator[Any | None]:
    """The library, initialised while this is entered; None if it or a driver is missing."""
    library = _module()
    if library is not None:
        try:
            library.amdsmi_init()
        except library.AmdSmiException:
            library = None
    try:
        yield library
    finally:
        if library is not None:
            with suppress(library.AmdSmiException):
                library.amdsmi_shut_down()


def find_gpus() -> Accelerators | None:
    """All GPUs of this machine; None if the library finds none."""
    with amd_smi() as library:
        if library is None:
            return None
        handles = _handles(library)
        names = [_text(_query(library, "amdsmi_get_gpu_asic_info", handle, part="market_name")) for handle in handles]
        if not names or not all(names):
            return None
        drivers = [
            _text(_query(library, "amdsmi_get_gpu_driver_info", each, part="driver_version")) for each in handles
        ]
        megabytes = {_number(_query(library, "amdsmi_get_gpu_vram_info", each, part="vram_size")) for each in handles}
        clocks = {_clock(library, handle, "max_clk") for handle in handles}
        caps = {_power_cap(library, handle) for handle in handles}
        memory, clock, cap = _common(megabytes), _common(clocks), _common(caps)
        return Accelerators(
            " + ".join(dict.fromkeys(str(name) for name in names)),
            len(handles),
            drivers[0],
            memory_bytes=None if memory is None else round(memory * 2**20),
            max_clock_mhz=None if clock is None else round(clock),
            power_limit_watts=None if cap is None else round(cap),
        )


def visible_gpus(setting: str | None) -> tuple[int, ...]:
    """Numbers of the GPUs that a visibility variable with this value leaves; None: the variable is not set.

    A value that is not a list of numbers (a UUID) leaves all, because what it means here is not known.
    """
    with amd_smi() as library:
        count = len(_handles(library)) if library is not None else 0
    words = None if setting is None else [word.strip() for word in setting.split(",") if word.strip()]
    if words is None or not all(word.isdecimal() for word in words):
        return tuple(range(count))
    return tuple(dict.fromkeys(int(word) for word in words if int(word) < count))


class AmdSmiWatcher:
    """Some GPUs of this machine, by their numbers in the library."""

    def __init__(self, library: Any, handles: Sequence[Any]) -> None:
        self._library = library
        self._handles = handles

    @classmethod
    def of(cls, library: Any, numbers: Sequence[int]) -> Self | None:
        """None if one of the GPUs is not there."""
        handles = _handles(library)
        if not numbers or max(numbers) >= len(handles):
            return None
        return cls(library, [handles[number] for number in numbers])

    def sample(self) -> DeviceSample:
        library = self._library
        throttled = self._all(lambda each: _throttled(library, each))
        clocks = self._all(lambda each: _clock(library, each, "clk", "cur_clk"))
        power = self._all(lambda each: _power(library, each))
        heat = self._all(lambda each: _temperature(library, each))
        processes = self._all(lambda each: _processes(library, each))
        return DeviceSample(
            at=time.monotonic(),
            throttled=None if throttled is None else any(throttled),
            clock_mhz=None if clocks is None else sum(clocks) / len(clocks),
            power_watts=None if power is None else sum(power) / len(power),
            temperature_celsius=None if heat is None else max(heat),
            processes=None if processes is None else frozenset().union(*processes),
        )

    def _all(self, read: Callable[[Any], Any]) -> list[Any] | None:
        answers = [read(handle) for handle in self._handles]
        return None if None in answers else answers


def _handles(library: Any) -> list[Any]:
    handles = _query(library, "amdsmi_get_processor_handles")
    return list(handles) if handles else []


def _throttled(library: Any, handle: Any) -> bool | None:
    """None on GPUs before MI300, which do not report it."""
    status = _query(library, "amdsmi_get_violation_status", handle)
    flags = [status.get(name) if isinstance(status, dict) else None for name in _HARMFUL_VIOLATIONS]
    known = [bool(flag) for flag in flags if isinstance(flag, int)]
    return any(known) if known else None


def _clock(library: Any, handle: Any, *names: str) -> float | None:
    kind = getattr(getattr(library, "AmdSmiClkType", None), "GFX", None)
    answer = _query(library, "amdsmi_get_clock_info", handle, kind)
    return _first_number(answer, *names)


def _power(library: Any, handle: Any) -> float | None:
    """Of the socket, in watts: MI300 and later report the current power, earlier GPUs an average."""
    answer = _query(library, "amdsmi_get_power_info", handle)
    return _first_number(answer, "current_socket_power", "average_socket_power")


def _power_cap(library: Any, handle: Any) -> float | None:
    """The limit in watts that a GPU is set to: the module gives microwatts, and watts on hosts of virtual machines."""
    cap = _number(_query(library, "amdsmi_get_power_cap_info", handle, part="power_cap"))
    return None if not cap else cap / 1e6 if cap >= _LEAST_MICROWATTS else cap


def _temperature(library: Any, handle: Any) -> float | None:
    sensors, metrics = (
        getattr(library, "AmdSmiTemperatureType", None),
        getattr(library, "AmdSmiTemperatureMetric", None),
    )
    sensor, metric = getattr(sensors, "HOTSPOT", None), getattr(metrics, "CURRENT", None)
    return _number(_query(library, "amdsmi_get_temp_metric", handle, sensor, metric))


def _processes(library: Any, handle: Any) -> frozenset[int] | None:
    listed = _query(library, "amdsmi_get_gpu_process_list", handle)
    if not isinstance(listed, list) or not all(isinstance(each, dict) and "pid" in each for each in listed):
        return None  # older modules list handles in place of processes
    return frozenset(int(each["pid"]) for each in listed)


def _query(library: Any, name: str, *arguments: Any, part: str | None = None) -> Any | None:
    """The answer of a function, or a part of it; None if module, driver or device does not have it."""
    try:
        answer = getattr(library, name)(*arguments)
    except (AttributeError, library.AmdSmiException):
        return None
    if part is None:
        return answer
    return answer.get(part) if isinstance(answer, dict) else None


def _first_number(answer: Any, *names: str) -> float | None:
    numbers = (_number(answer.get(name)) for name in names) if isinstance(answer, dict) else ()
    return next((number for number in numbers if number is not None), None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value not in ("", "N/A") else None


def _common(values: set[float | None]) -> float | None:
    return next(iter(values)) if len(values) == 1 else None


def _module() -> Any | None:
    try:
        return importlib.import_module("amdsmi")
    except (ImportError, OSError, KeyError):  # OSError, KeyError: the module is there, ROCm's library is not
        return None
