"""A stand-in for the amdsmi module, with the answers of an MI300X. What a GPU does not know is None and raises."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class AmdSmiException(Exception):  # noqa: N818 - the module's own name
    pass


@dataclass
class FakeAmdGpu:
    name: str | None = "AMD Instinct MI300X"
    violations: dict[str, Any] | None = field(default_factory=lambda: violations())
    clock: dict[str, Any] | None = field(default_factory=lambda: {"clk": 2100, "max_clk": 2100, "min_clk": 132})
    power: dict[str, Any] | None = field(
        default_factory=lambda: {"current_socket_power": 680, "average_socket_power": "N/A"}
    )
    celsius: int | None = 61
    processes: list[Any] | None = field(default_factory=list)
    memory: int | str = 196_592
    driver: str = "6.12.12"
    cap: int | None = 750_000_000


def violations(**active: object) -> dict[str, Any]:
    names = ("ppt_pwr", "socket_thrm", "prochot_thrm", "vr_thrm", "hbm_thrm")
    return {f"active_{name}": active.get(name, False) for name in names}


class FakeAmdSmi:
    """Counts how often it is opened, because it must be closed as often."""

    AmdSmiException = AmdSmiException
    AmdSmiClkType = SimpleNamespace(GFX="gfx")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hotspot")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current")

    def __init__(self, *gpus: FakeAmdGpu, driver: bool = True) -> None:
        self.gpus = list(gpus)
        self.driver = driver
        self.open = 0

    def amdsmi_init(self) -> None:
        if not self.driver:
            raise AmdSmiException("AMDSMI_STATUS_NOT_INIT")
        self.open += 1

    def amdsmi_shut_down(self) -> None:
        self.open -= 1

    def amdsmi_get_processor_handles(self) -> list[FakeAmdGpu]:
        if not self.open:
            raise AmdSmiException("AMDSMI_STATUS_NOT_INIT")
        return self.gpus

    def amdsmi_get_gpu_asic_info(self, gpu: FakeAmdGpu) -> dict[str, Any]:
        return {"market_name": _known(gpu.name)}

    def amdsmi_get_gpu_driver_info(self, gpu: FakeAmdGpu) -> dict[str, Any]:
        return {"driver_name": "amdgpu", "driver_version": gpu.driver}

    def amdsmi_get_gpu_vram_info(self, gpu: FakeAmdGpu) -> dict[str, Any]:
        return {"vram_size": gpu.memory}

    def amdsmi_get_clock_info(self, gpu: FakeAmdGpu, kind: str) -> Any:
        assert kind == "gfx"
        return _known(gpu.clock)

    def amdsmi_get_power_info(self, gpu: FakeAmdGpu) -> Any:
        return _known(gpu.power)

    def amdsmi_get_power_cap_info(self, gpu: FakeAmdGpu) -> dict[str, Any]:
        return {"power_cap": _known(gpu.cap), "default_power_cap": 750_000_000, "dpm_cap": 2100}

    def amdsmi_get_temp_metric(self, gpu: FakeAmdGpu, sensor: str, metric: str) -> Any:
        assert (sensor, metric) == ("hotspot", "current")
        return _known(gpu.celsius)

    def amdsmi_get_violation_status(self, gpu: FakeAmdGpu) -> Any:
        return _known(gpu.violations)

    def amdsmi_get_gpu_process_list(self, gpu: FakeAmdGpu) -> Any:
        return _known(gpu.processes)


def _known(value: Any) -> Any:
    if value is None:
        raise AmdSmiException("AMDSMI_STATUS_NOT_SUPPORTED")
    return value
