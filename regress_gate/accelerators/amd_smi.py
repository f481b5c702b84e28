"""AMD's system management library, through its Python module `amdsmi`, if it and a driver are installed.

Any part may be missing on a machine, and any fact on a device: what cannot be read is None. The module answers "N/A"
for values that a device does not have. Names and units are those of amdsmi's Python reference (rocm.docs.amd.com).
"""

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from regress_gate.accelerators.interface import Accelerators, DeviceSample

_HARMFUL_VIOLATIONS = ("active_prochot_thrm", "active_socket_thrm", "active_vr_thrm", "active_hbm_thrm")
"""Reasons for a lower clock: a protection of the processor, and heat of socket, voltage regulators and memory. The
power limit (`active_ppt_pwr`) is left out, because a GPU under full load always runs at it."""


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


def find() -> Accelerators | None:
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
        memory, clock = _common(megabytes), _common(clocks)
        return Accelerators(
            " + ".join(dict.fromkeys(str(name) for name in names)),
            len(handles),
            drivers[0],
            memory_bytes=None if memory is None else round(memory * 2**20),
            max_clock_mhz=None if clock is None else round(clock),
        )


def visible_devices(asked: str | None) -> tuple[int, ...]:
    """Numbers of the GPUs that a visibility variable with this value leaves; None: the variable is not set.

    A value that is not a list of numbers (a UUID) leaves all, because what it means here is not known.
    """
    with amd_smi() as library:
        count = len(_handles(library)) if library is not None else 0
    words = None if asked is None else [word.strip() for word in asked.split(",") if word.strip()]
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
    found = _query(library, "amdsmi_get_processor_handles")
    return list(found) if found else []


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
