"""The build of vLLM for an accelerator, and the note for accelerators that cannot be watched."""

import sys

import pytest

from regress_gate.accelerators.registry import default_variant, unwatched_note, visible_setting
from tests.accelerators.fake_amdsmi import FakeAmdGpu, FakeAmdSmi
from tests.accelerators.fake_nvml import FakeGpu, FakeNvml


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pynvml", "amdsmi"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize(
    ("accelerator", "variant"),
    [
        ("cpu", "cpu"),
        ("CPU", "cpu"),
        ("H200", None),
        ("NVIDIA H200", None),
        ("NVIDIA H200 + NVIDIA L4", None),
        ("an accelerator of tomorrow", None),
        ("MI300X", "rocm"),
        ("AMD MI300X", "rocm"),
        ("gfx942", "rocm"),
        ("AMD Radeon PRO W7900", "rocm"),
        ("Intel(R) Arc(TM) Pro B60 Graphics", "xpu"),
        ("Ascend 910B3", "ascend"),
        ("TPU v6e", "tpu"),
        ("Gaudi3", "gaudi"),
        ("Trainium2", "neuron"),
    ],
)
def test_the_build_follows_from_the_accelerator(accelerator: str, variant: str | None) -> None:
    assert default_variant(accelerator) == variant


def test_without_a_name_the_build_follows_from_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_variant(None) == "cpu"
    monkeypatch.setitem(sys.modules, "amdsmi", FakeAmdSmi(FakeAmdGpu()))
    assert default_variant(None) == "rocm"
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu()))
    assert default_variant(None) is None


@pytest.mark.parametrize(
    ("accelerator", "note"),
    [
        (
            "NVIDIA H200",
            (
                "throttling and other processes on the NVIDIA GPUs are not recorded: "
                "pip install 'vllm-regress-gate[gpu]' to have them watched"
            ),
        ),
        (
            "AMD Instinct MI300X",
            (
                "throttling and other processes on the AMD GPUs are not recorded: "
                "pip install amdsmi, in the version of your ROCm, to have them watched"
            ),
        ),
        ("Gaudi3", "Gaudi accelerators cannot be watched here: throttling and other processes are not recorded"),
        ("Ascend 910C", "Ascend NPUs cannot be watched here: throttling and other processes are not recorded"),
        ("NPU-9000X", "Ascend NPUs cannot be watched here: throttling and other processes are not recorded"),
        ("Foo 7", "Foo 7 cannot be watched here: throttling and other processes are not recorded"),
        ("cpu", None),
        (None, None),
    ],
)
def test_an_accelerator_that_is_not_watched_is_named(accelerator: str | None, note: str | None) -> None:
    assert unwatched_note(accelerator) == note


def test_nothing_is_said_where_the_library_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", FakeAmdSmi(FakeAmdGpu()))
    assert unwatched_note("MI300X") is None
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FakeGpu()))
    assert unwatched_note("NVIDIA H200") is None


def test_the_variable_of_any_family_limits_the_devices() -> None:
    assert visible_setting({"HIP_VISIBLE_DEVICES": "1"}) == "1"
    assert visible_setting({"CUDA_VISIBLE_DEVICES": ""}) == ""
    assert visible_setting({"PATH": "/bin"}) is None
