"""NVIDIA GPUs: names, builds for CUDA, containers, and the management library (NVML).

Levels are from NVIDIA's list of compute capabilities (developer.nvidia.com/cuda-gpus, and cuda-legacy-gpus). Parts made
for one market (H800, H20, A800, L20) have the level of the part that they are variants of. NVML is used through its
Python module `pynvml`, if it and a driver are installed. Any part may be missing on a machine, and any fact on a
device: what cannot be read is None.
"""

import importlib
import shutil
import subprocess
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Self

from regress_gate.accelerators.interface import (
    IMAGE_REGISTRY,
    Accelerators,
    ClockLockError,
    DeviceSample,
    Family,
    Watcher,
)

HARMFUL_THROTTLE_REASONS = 0x08 | 0x20 | 0x40 | 0x80
"""Of the reasons for a clock below the highest (nvml.h): hardware slowdown, thermal slowdown by software and by
hardware, and the power supply's brake; each takes a GPU out of the state in which it would serve. The other reasons
belong to that state: idle (0x01), clocks that an administrator set (0x02, on both sides alike), and the power cap
(0x04), at which a GPU under full load always runs. NVML may also report hardware slowdown while clocks change, so one
sample with it proves nothing; the share of the samples does."""
_SM_CLOCK = 1
"""Of the clocks that can be read, the one of the multiprocessors (nvml.h)."""
_REASONS = ("nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetCurrentClocksEventReasons")
_TEMPERATURE = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature")
_RELEASE = "nvmlDeviceResetGpuLockedClocks"
_MIG_ENABLED = 1
"""Of the modes of a GPU, now and after the next reset (nvml.h)."""
_SENSOR = 0
"""On the GPU itself."""


class Nvidia(Family):
    title = "NVIDIA GPUs"
    platform = "cuda"
    device_type = "cuda"
    variant = None
    variant_pattern = r"cu\d{3}"
    levels: ClassVar[Mapping[str, str]] = {
        "sm_121": r"gb10|dgx spark",
        "sm_120": r"rtx pro ?\d[05]00|(rtx )?50[5-9]0",
        "sm_110": r"thor|jetson t[45]000",
        "sm_103": r"g?b300",
        "sm_100": r"b100|g?b200|grace blackwell",
        "sm_90": r"gh200|grace hopper|h100|h200|h800|h20z?",
        "sm_89": r"l4|l20|l40[sg]?|rtx \d[05]00 ada|(rtx )?40[5-9]0",
        "sm_87": r"orin",
        "sm_86": r"a2|a10g?|a16|a40|a[2-6]000|(rtx )?30[5-9]0",
        "sm_80": r"a30|a100|a800",
        "sm_75": r"t4|titan rtx|quadro rtx \d000|(rtx )?20[678]0|gtx 16\d0",
        "sm_70": r"v100s?|gv100|titan v",
    }
    level_prefix = "sm_"
    brands = r"nvidia|geforce|tesla|quadro"
    filler_words = frozenset({"nvidia", "geforce", "rtx", "tesla"})
    name_prefixes = r"nvidia|geforce|rtx"
    visible_variables = ("CUDA_VISIBLE_DEVICES",)
    kubernetes_resource = "nvidia.com/gpu"
    how_to_watch = "pip install 'vllm-regress-gate[gpu]'"

    def images(self, tag: str, variant: str | None, *, release: bool) -> tuple[str, ...]:
        if variant is not None:
            tag = f"{tag}-{variant}" if release else f"{variant}-{tag}"
        return (f"{IMAGE_REGISTRY}/vllm-openai:{tag}",)

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        if podman:
            return [f"--device=nvidia.com/gpu={each}" for each in devices.split(",")]
        # The engine reads the value as CSV, in which the commas of a list need quotes.
        return ["--gpus=all" if devices == "all" else f'--gpus="device={devices}"']

    def find(self) -> Accelerators | None:
        """By the driver's library if its Python module is installed, else by the driver's program."""
        return _find_by_library() or _find_by_program()

    def visible_devices(self, environment: Mapping[str, str], *, first: int | None) -> tuple[int, ...]:
        return visible_gpus(environment, first=first)

    def can_watch(self) -> bool:
        with nvml() as library:
            return library is not None

    @contextmanager
    def watch(self, numbers: Sequence[int]) -> Iterator[Watcher | None]:
        with nvml() as library:
            yield NvmlWatcher.of(library, numbers) if library is not None else None

    @contextmanager
    def lock_clocks(self, numbers: Sequence[int], mhz: int) -> Iterator[None]:
        """Volta and newer, and only root may. The library stays open: a driver without persistence mode forgets what it
        was set to when the last program closes that."""
        with nvml() as library:
            locked: list[int] = []
            for number in numbers:
                if trouble := _call(library, "nvmlDeviceSetGpuLockedClocks", number, mhz, mhz):
                    for each in locked:
                        _call(library, _RELEASE, each)
                    raise ClockLockError(
                        f"the clocks of GPU {number} cannot be locked to {mhz} MHz ({trouble}); lock them as root "
                        f"(nvidia-smi --lock-gpu-clocks={mhz}), and leave --lock-clocks out"
                    )
                locked.append(number)
            yield

    def release_clocks(self, numbers: Sequence[int]) -> None:
        with nvml() as library:
            troubles = {number: _call(library, _RELEASE, number) for number in numbers}
        for number, trouble in troubles.items():
            if trouble:
                raise ClockLockError(
                    f"the clocks of GPU {number} may still be locked ({trouble}); release them as root "
                    "(nvidia-smi --reset-gpu-clocks)"
                )


@contextmanager
def nvml() -> Iterator[Any | None]:
    """The library, initialised while this is entered; None if it or a driver is missing."""
    library = _module()
    if library is not None:
        try:
            library.nvmlInit()
        except library.NVMLError:
            library = None
    try:
        yield library
    finally:
        if library is not None:
            with suppress(library.NVMLError):
                library.nvmlShutdown()


def _call(library: Any | None, name: str, number: int, *values: int) -> str | None:
    """Call a function for a GPU. Why it did nothing; None: it did."""
    if library is None:
        return "its driver, or the module nvidia-ml-py, is missing"
    try:
        getattr(library, name)(library.nvmlDeviceGetHandleByIndex(number), *values)
    except AttributeError:
        return "the module nvidia-ml-py is too old"
    except library.NVMLError as error:
        return str(error)
    return None


def _find_by_library() -> Accelerators | None:
    """All GPUs of this machine, or the slices of those that are cut by MIG; None if the library finds none."""
    with nvml() as library:
        if library is None:
            return None
        count = _query(library, ("nvmlDeviceGetCount",)) or 0
        handles = [_query(library, ("nvmlDeviceGetHandleByIndex",), number) for number in range(count)]
        devices = [device for handle in handles for device in _slices(library, handle) or (handle,)]
        names = [_text(_query(library, ("nvmlDeviceGetName",), device) or "") for device in devices]
        driver = _query(library, ("nvmlSystemGetDriverVersion",))
        if not names or not all(names):
            return None

        def common(name: str, *arguments: int, part: str | None = None, of: Sequence[Any] = handles) -> Any | None:
            """The answer, or the part of it, in which all GPUs agree."""
            answers = [_query(library, (name,), device, *arguments) for device in of]
            values = {getattr(answer, part, None) if part else answer for answer in answers}
            return values.pop() if len(values) == 1 else None

        sm = common("nvmlDeviceGetCudaComputeCapability")
        memory = common("nvmlDeviceGetMemoryInfo", part="total", of=devices)
        watts = common("nvmlDeviceGetPowerManagementLimit")
        return Accelerators(
            " + ".join(dict.fromkeys(names)),
            len(devices),
            _text(driver) if driver else None,
            sm=".".join(map(str, sm)) if sm else None,
            memory_bytes=int(memory) if memory else None,
            max_clock_mhz=common("nvmlDeviceGetMaxClockInfo", _SM_CLOCK),
            power_limit_watts=round(watts / 1000) if watts else None,
        )


def _slices(library: Any, handle: Any) -> list[Any]:
    """The MIG devices of a GPU, each of which is less than the GPU: name (`… MIG 1g.10gb`) and memory are their own,
    clocks and power are the GPU's. Empty: it is not cut."""
    mode = _query(library, ("nvmlDeviceGetMigMode",), handle)
    if not mode or mode[0] != _MIG_ENABLED:
        return []
    most = _query(library, ("nvmlDeviceGetMaxMigDeviceCount",), handle) or 0
    found = (_query(library, ("nvmlDeviceGetMigDeviceHandleByIndex",), handle, number) for number in range(most))
    return [device for device in found if device is not None]


def _find_by_program() -> Accelerators | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - the driver's own program
            [program, "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode:
        return None
    rows = [line.rpartition(",") for line in answer.stdout.splitlines() if "," in line]
    if not rows:
        return None
    names = dict.fromkeys(name.strip() for name, _, _ in rows)
    return Accelerators(" + ".join(names), len(rows), rows[0][2].strip() or None)


def visible_gpus(environment: Mapping[str, str], *, first: int | None = None) -> tuple[int, ...]:
    """Numbers, as in nvidia-smi, of the GPUs that a server with this environment may use; empty if none are known.

    A server takes the `first` ones, as many as its parallelism needs; None: all. CUDA numbers GPUs of several kinds by
    speed unless CUDA_DEVICE_ORDER says otherwise, so the meaning of a number is unknown there and all of them count.
    """
    with nvml() as library:
        count = _query(library, ("nvmlDeviceGetCount",)) if library is not None else None
        if not count:
            return ()
        handles = [_query(library, ("nvmlDeviceGetHandleByIndex",), number) for number in range(count)]
        kinds = {_query(library, ("nvmlDeviceGetName",), handle) for handle in handles}
        by_speed = len(kinds) > 1 and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
        setting = environment.get("CUDA_VISIBLE_DEVICES")
        names = list(map(str, range(count))) if setting is None else [word.strip() for word in setting.split(",")]
        if by_speed and any(name.isdecimal() for name in names):
            return tuple(range(count))
        identities = [_text(_query(library, ("nvmlDeviceGetUUID",), handle) or "") for handle in handles]
        return _select(library, names, identities)[:first]


class NvmlWatcher:
    """Some GPUs of this machine, by their numbers in NVML."""

    def __init__(self, library: Any, handles: Sequence[Any]) -> None:
        self._library = library
        self._handles = handles

    @classmethod
    def of(cls, library: Any, numbers: Sequence[int]) -> Self | None:
        """None if one of the GPUs is not there."""
        handles = [_query(library, ("nvmlDeviceGetHandleByIndex",), number) for number in numbers]
        return cls(library, handles) if handles and None not in handles else None

    def sample(self) -> DeviceSample:
        reasons = self._all(*_REASONS)
        milliwatts = self._all("nvmlDeviceGetPowerUsage")
        lists = self._all("nvmlDeviceGetComputeRunningProcesses")
        clocks = self._all("nvmlDeviceGetClockInfo", argument=_SM_CLOCK)
        heat = self._all(*_TEMPERATURE, argument=_SENSOR)
        return DeviceSample(
            at=time.monotonic(),
            throttled=None if reasons is None else any(each & HARMFUL_THROTTLE_REASONS for each in reasons),
            clock_mhz=None if clocks is None else _mean(clocks),
            power_watts=None if milliwatts is None else _mean(milliwatts) / 1000,
            temperature_celsius=None if heat is None else float(max(heat)),
            processes=None if lists is None else frozenset(int(process.pid) for each in lists for process in each),
        )

    def _all(self, *names: str, argument: int | None = None) -> list[Any] | None:
        extra = () if argument is None else (argument,)
        answers = [_query(self._library, names, handle, *extra) for handle in self._handles]
        return None if None in answers else answers


def _select(library: Any, names: list[str], identities: list[str]) -> tuple[int, ...]:
    """By CUDA's rules: numbers, or a unique beginning of an identity; what follows an invalid one is not visible.

    Source: CUDA programming guide, environment variables.
    """
    chosen: list[int] = []
    for name in names:
        if name.startswith("MIG-"):
            index = _owner(library, name)
        elif name.isdecimal():
            index = int(name)
        else:
            fitting = [n for n, identity in enumerate(identities) if name and identity.startswith(name)]
            index = fitting[0] if len(fitting) == 1 else None
        if index is None or index >= len(identities):
            break
        chosen.append(index)
    return tuple(dict.fromkeys(chosen))


def _owner(library: Any, identity: str) -> int | None:
    """The GPU that a MIG slice is cut from: clocks, power and heat are those of the whole GPU."""
    part = _query(library, ("nvmlDeviceGetHandleByUUID",), identity)
    whole = part and _query(library, ("nvmlDeviceGetDeviceHandleFromMigDeviceHandle",), part)
    return _query(library, ("nvmlDeviceGetIndex",), whole) if whole else None


def _query(library: Any, names: tuple[str, ...], *arguments: Any) -> Any | None:
    """The answer of the first of these functions that module, driver and device all know; None if none does."""
    for name in names:
        try:
            return getattr(library, name)(*arguments)
        except (AttributeError, library.NVMLError):
            continue
    return None


def _text(value: str | bytes) -> str:
    """Older modules answer in bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _module() -> Any | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an old package of the same name announces its end
            return importlib.import_module("pynvml")
    except ImportError:
        return None
