"""A stand-in for the pynvml module, with what an H200 answers. What a GPU does not know is None and raises."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


@dataclass
class FakeGpu:
    name: str | None = "NVIDIA H200"
    uuid: str | None = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
    reasons: int | None = 0
    clock: int | None = 1980
    milliwatts: int | None = 512_000
    celsius: int | None = 61
    pids: list[int] | None = field(default_factory=list)
    memory: int | None = 143_771 * 2**20
    capability: tuple[int, int] | None = (9, 0)
    limit: int | None = 700_000
    slices: list["FakeGpu"] | None = None
    """MIG devices; None: the GPU is not cut."""
    locked: tuple[int, int] | None = None
    """The least and the highest clock that it was locked to."""
    refuses: str | None = None
    """Why its clocks cannot be set."""


class FakeNvml:
    """Counts how often it is opened, because it must be closed as often."""

    NVMLError = NVMLError

    def __init__(self, *gpus: FakeGpu, driver: bool = True, persistence: bool = False) -> None:
        self.gpus = list(gpus)
        self.driver = driver
        self.persistence = persistence
        self.open = 0

    def nvmlInit(self) -> None:  # noqa: N802 - the module's own names, here and below
        if not self.driver:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1
        for gpu in self.gpus if not (self.open or self.persistence) else ():
            gpu.locked = None  # so forgets a driver that no program uses any more

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"570.86.15"

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> FakeGpu:  # noqa: N802
        if not self.open or number >= len(self.gpus):
            raise NVMLError("Invalid Argument")
        return self.gpus[number]

    def nvmlDeviceGetHandleByUUID(self, identity: str) -> str:  # noqa: N802
        if identity != "MIG-of-the-second":
            raise NVMLError("Not Found")
        return identity

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, _: str) -> FakeGpu:  # noqa: N802
        return self.gpus[1]

    def nvmlDeviceGetMigMode(self, gpu: FakeGpu) -> list[int]:  # noqa: N802
        return [int(gpu.slices is not None)] * 2

    def nvmlDeviceGetMaxMigDeviceCount(self, _: FakeGpu) -> int:  # noqa: N802
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, number: int) -> FakeGpu:  # noqa: N802
        if number >= len(gpu.slices or ()):
            raise NVMLError("Not Found")
        return (gpu.slices or [])[number]

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, _: int) -> int:  # noqa: N802
        if gpu.clock is None:
            raise NVMLError("Not Supported")
        return gpu.locked[1] if gpu.locked else gpu.clock

    def nvmlDeviceSetGpuLockedClocks(self, gpu: FakeGpu, least: int, most: int) -> None:  # noqa: N802
        self._set(gpu, (least, most))

    def nvmlDeviceResetGpuLockedClocks(self, gpu: FakeGpu) -> None:  # noqa: N802
        self._set(gpu, None)

    def _set(self, gpu: FakeGpu, clocks: tuple[int, int] | None) -> None:
        """As root, unless the GPU refuses it."""
        if not self.open:
            raise NVMLError("Uninitialized")
        if gpu.refuses is not None:
            raise NVMLError(gpu.refuses)
        gpu.locked = clocks

    def nvmlDeviceGetIndex(self, gpu: FakeGpu) -> int:  # noqa: N802
        return next(number for number, each in enumerate(self.gpus) if each is gpu)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        fields = {
            "nvmlDeviceGetName": "name",
            "nvmlDeviceGetUUID": "uuid",
            "nvmlDeviceGetCurrentClocksThrottleReasons": "reasons",
            "nvmlDeviceGetMaxClockInfo": "clock",
            "nvmlDeviceGetPowerUsage": "milliwatts",
            "nvmlDeviceGetPowerManagementLimit": "limit",
            "nvmlDeviceGetTemperature": "celsius",
            "nvmlDeviceGetCudaComputeCapability": "capability",
            "nvmlDeviceGetComputeRunningProcesses": "pids",
            "nvmlDeviceGetMemoryInfo": "memory",
        }
        if name not in fields:
            raise AttributeError(name)

        def answer(gpu: FakeGpu, *_: int) -> Any:
            value = getattr(gpu, fields[name])
            if value is None:
                raise NVMLError("Not Supported")
            if name == "nvmlDeviceGetComputeRunningProcesses":
                return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in value]
            return SimpleNamespace(total=value, used=id(gpu)) if name == "nvmlDeviceGetMemoryInfo" else value

        return answer
