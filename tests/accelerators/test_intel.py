"""Intel GPUs as their drivers show them in /sys.

The tree has the files that Linux documents: sysfs-driver-intel-xe-hwmon and sysfs-driver-intel-i915-hwmon below
Documentation/ABI/testing, the comments of drivers/gpu/drm/xe/xe_gt_freq.c and xe_gt_throttle.c, and
drivers/gpu/drm/i915/gt/intel_gt_sysfs_pm.c. The numbers are made up; no Intel GPU was there to record them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from regress_gate.accelerators import intel
from regress_gate.accelerators.interface import DeviceSample
from regress_gate.accelerators.registry import unwatched_note, visible_devices, watch_devices
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml

XE = {
    "hwmon/hwmon4/name": "xe",
    "hwmon/hwmon4/energy1_input": "1000000000",
    "hwmon/hwmon4/energy2_input": "999",
    "hwmon/hwmon4/power1_max": "190000000",
    "hwmon/hwmon4/temp2_input": "61000",
    "hwmon/hwmon4/temp3_input": "74000",
    "hwmon/hwmon4/fan1_input": "1500",
    "tile0/gt0/freq0/act_freq": "2850",
    "tile0/gt0/freq0/max_freq": "2900",
    "tile0/gt1/freq0/act_freq": "0",
    "tile0/gt0/freq0/throttle/status": "1",
    "tile0/gt0/freq0/throttle/reason_pl1": "1",
    "tile0/gt0/freq0/throttle/reason_thermal": "0",
    "tile0/gt0/freq0/throttle/reason_prochot": "0",
    "tile0/gt0/freq0/throttle/reason_vr_tdc": "1",
}
"""Files of a device with the driver xe."""
I915 = {
    "hwmon/hwmon1/name": "i915_gt0",
    "hwmon/hwmon1/energy1_input": "7",
    "hwmon/hwmon2/name": "i915",
    "hwmon/hwmon2/energy1_input": "500000000",
}
I915_CARD = {
    "gt/gt0/rps_act_freq_mhz": "2400",
    "gt/gt0/rps_max_freq_mhz": "2450",
    "gt/gt0/throttle_reason_status": "1",
    "gt/gt0/throttle_reason_pl2": "1",
    "gt/gt0/throttle_reason_thermal": "1",
}
"""Files of a card with the driver i915, beside its device's."""
AddCard = Callable[..., Path]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddCard:
    """Adds a card to this machine, by number, address, driver, and files of device and card; returns its device."""
    monkeypatch.setattr(intel, "_DRM", tmp_path / "class" / "drm")

    def write(directory: Path, files: dict[str, str]) -> None:
        for name, text in files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(f"{text}\n")

    def add(number: int, address: str, driver: str, files: dict[str, str], own: dict[str, str] | None = None) -> Path:
        device, card = tmp_path / "devices" / address, tmp_path / "class" / "drm" / f"card{number}"
        drivers = tmp_path / "drivers" / driver
        for directory in (device, card, drivers, card.with_name(f"card{number}-DP-1")):
            directory.mkdir(parents=True, exist_ok=True)
        (card / "device").symlink_to(device)
        (device / "driver").symlink_to(drivers)
        write(device, files)
        write(card, own or {})
        return device

    return add


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The moment that it is."""
    now = [100.0]
    monkeypatch.setattr(intel.time, "monotonic", lambda: now[0])
    return now


def test_a_card_is_watched_through_the_files_of_its_driver(add: AddCard, clock: list[float]) -> None:
    device = add(1, "0000:03:00.0", "xe", XE)
    assert visible_devices({}) == (0,)
    with watch_devices([0]) as watcher:
        assert watcher is not None
        first = watcher.sample()
        assert first == DeviceSample(100.0, False, 2850.0, None, 74.0, None), "power needs two readings"
        clock[0] += 2
        (device / "hwmon/hwmon4/energy1_input").write_text("1360000000\n")
        (device / "tile0/gt0/freq0/throttle/reason_thermal").write_text("1\n")
        assert watcher.sample() == DeviceSample(102.0, True, 2850.0, 180.0, 74.0, None)
        clock[0] += 1
        (device / "hwmon/hwmon4/energy1_input").write_text("5\n")
        assert watcher.sample().power_watts is None, "the counter began anew"


def test_the_driver_i915_has_them_elsewhere_and_knows_no_temperature(add: AddCard, clock: list[float]) -> None:
    device = add(0, "0000:4d:00.0", "i915", I915, I915_CARD)
    with watch_devices([0]) as watcher:
        assert watcher is not None
        assert watcher.sample() == DeviceSample(100.0, True, 2400.0, None, None, None)
        clock[0] += 0.5
        (device / "hwmon/hwmon2/energy1_input").write_text("560000000\n")
        assert watcher.sample().power_watts == pytest.approx(120.0)


def test_of_several_cards_the_mean_and_the_hottest_count_and_what_one_lacks_is_unknown(
    add: AddCard, clock: list[float]
) -> None:
    add(2, "0000:03:00.0", "xe", XE)
    second = add(1, "0000:8a:00.0", "xe", {**XE, "tile0/gt0/freq0/act_freq": "2650"})
    with watch_devices([0, 1]) as watcher:
        assert watcher is not None
        assert watcher.sample() == DeviceSample(clock[0], False, 2750.0, None, 74.0, None)
        for name in ("tile0/gt0/freq0/act_freq", "tile0/gt1/freq0/act_freq", "hwmon/hwmon4/temp2_input"):
            (second / name).write_text("\n")
        for name in ("tile0/gt0/freq0/throttle/reason_thermal", "hwmon/hwmon4/temp3_input"):
            (second / name).unlink()
        (second / "tile0/gt0/freq0/throttle/reason_prochot").write_text("not a number\n")
        assert watcher.sample() == DeviceSample(clock[0], None, None, None, None, None)


def test_graphics_of_a_processor_and_cards_of_others_are_not_watched(add: AddCard) -> None:
    add(0, "0000:00:02.0", "i915", {}, I915_CARD)
    add(1, "0000:04:00.0", "amdgpu", {"hwmon/hwmon0/name": "amdgpu", "hwmon/hwmon0/energy1_input": "1"})
    assert visible_devices({}) == ()
    with watch_devices([0]) as watcher:
        assert watcher is None
    assert unwatched_note("Intel Arc B580") == (
        "Intel GPUs cannot be watched here: throttling and other processes are not recorded"
    )


def test_what_is_not_recorded_is_said(add: AddCard) -> None:
    add(0, "0000:03:00.0", "xe", XE)
    assert unwatched_note("Intel Arc B580") == "other processes on the Intel GPUs are not recorded"


def test_beside_gpus_that_serve_those_of_the_displays_do_not_count(
    add: AddCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(0, "0000:03:00.0", "xe", XE)
    monkeypatch.setitem(__import__("sys").modules, "pynvml", FakeNvml(FakeGpu(clock=1980), FakeGpu(clock=1980)))
    assert visible_devices({}) == (0, 1)
    with watch_devices([0]) as watcher:
        assert watcher is not None
        assert watcher.sample().clock_mhz == 1980.0
