"""The facts of a machine stay the same from run to run."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from regress_gate.accelerators.interface import Accelerators
from regress_gate.accelerators.registry import find_accelerators
from regress_gate.bench.machine import fingerprint as module
from regress_gate.bench.machine.fingerprint import fingerprint
from regress_gate.model.testbed import compare_testbeds
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml

SMI = "#!/bin/sh\nprintf 'NVIDIA H200, 570.86.15\\nNVIDIA H200, 570.86.15\\n'\n"


def test_this_machine_is_comparable_to_itself() -> None:
    bed = fingerprint(accelerator="cpu")
    assert compare_testbeds(bed, fingerprint(accelerator="cpu")).comparable
    assert bed.cpu
    assert bed.cpu_count is not None
    assert 1 <= bed.cpu_count <= (os.cpu_count() or 1)
    assert bed.memory_bytes is not None
    assert 0 < bed.memory_bytes <= psutil.virtual_memory().total
    assert bed.accelerator == "cpu"
    assert bed.python == ".".join(map(str, sys.version_info[:3]))
    assert fingerprint("mine", accelerator="cpu").name == "mine"


def test_accelerators_are_read_from_the_drivers_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert find_accelerators() == Accelerators("NVIDIA H200", 2, "570.86.15")
    bed = fingerprint()
    assert (bed.accelerator, bed.accelerator_count, bed.driver) == ("NVIDIA H200", 2, "570.86.15")
    program.write_text("#!/bin/sh\necho NVIDIA-SMI has failed\nexit 9\n")
    assert find_accelerators() is None


def test_the_drivers_library_gives_more_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeNvml(FakeGpu(), FakeGpu())
    monkeypatch.setitem(sys.modules, "pynvml", library)
    bed = fingerprint()
    assert (bed.accelerator, bed.accelerator_count, bed.driver) == ("NVIDIA H200", 2, "570.86.15")
    assert (bed.accelerator_sm, bed.accelerator_memory_bytes) == ("9.0", 143_771 * 2**20)
    assert (bed.accelerator_max_clock_mhz, bed.accelerator_power_limit_watts) == (1980, 700)
    assert library.open == 0


def test_a_found_accelerator_goes_before_the_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(name="NVIDIA A100-SXM4-40GB")))
    bed = fingerprint(accelerator="H100")
    assert (bed.accelerator, bed.accelerator_count) == ("NVIDIA A100-SXM4-40GB", 1)


def test_an_accelerator_that_is_not_found_has_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_accelerators", lambda: None)
    bed = fingerprint(accelerator="MI300X")
    assert (bed.accelerator, bed.accelerator_count) == ("MI300X", None)


def test_the_default_name_differs_for_cpu_and_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.platform, "node", lambda: "node3")
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(name="NVIDIA H100 80GB HBM3")))
    assert fingerprint(accelerator="cpu").name == fingerprint(accelerator="CPU").name == "node3"
    assert fingerprint(accelerator="H100").name == fingerprint().name == "node3-h100-80gb-hbm3"
    assert fingerprint("mine").name == "mine"


def test_facts_in_which_accelerators_differ_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    few = FakeGpu(name="NVIDIA L4", capability=(8, 9), limit=None)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu(limit=None), few))
    found = find_accelerators()
    assert found == Accelerators("NVIDIA H200 + NVIDIA L4", 2, "570.86.15", None, 143_771 * 2**20, 1980, None)


@pytest.mark.parametrize("library", [FakeNvml(), FakeNvml(FakeGpu(name=None)), FakeNvml(FakeGpu(), driver=False)])
def test_the_drivers_program_is_used_if_the_library_finds_nothing(
    monkeypatch: pytest.MonkeyPatch, library: FakeNvml
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setenv("PATH", "")
    assert find_accelerators() is None


@pytest.mark.parametrize(
    ("quota", "limit", "cores", "memory"),
    [("150000 100000", str(2**20), 2, 2**20), ("max 100000", "max", None, None), ("0 0", "", None, None)],
)
def test_a_containers_limits_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, limit: str, cores: int | None, memory: int | None
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    (tmp_path / "memory.max").write_text(limit)
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    monkeypatch.setattr(module, "_CGROUP", tmp_path)
    assert module.usable_cores() == (free if cores is None else min(free, cores))
    assert module.usable_memory() == (psutil.virtual_memory().total if memory is None else memory)


def test_the_name_of_a_cpu_that_is_not_in_proc_comes_from_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_options: "processor : 0\nFeatures : fp asimd sve\n")
    monkeypatch.setattr(module, "_cpu_brand", lambda: "Neoverse-V2")
    assert module.cpu_name() == "Neoverse-V2 (asimd sve)"
