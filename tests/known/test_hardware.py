"""What the name of an accelerator says: platform and level, and nothing where the name is not known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.accelerators.identification import Identity, gpu_level, identify


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("sm_70", ["Tesla V100-SXM2-32GB"]),
        ("sm_75", ["Tesla T4", "NVIDIA GeForce RTX 2080 Ti", "Quadro RTX 8000"]),
        ("sm_80", ["A100-SXM4-80GB", "NVIDIA A800-SXM4-80GB", "A30"]),
        ("sm_86", ["NVIDIA A10G", "NVIDIA RTX A6000", "RTX 3090"]),
        ("sm_89", ["L4", "NVIDIA L40S", "NVIDIA GeForce RTX 4090", "4090", "NVIDIA RTX 6000 Ada Generation"]),
        ("sm_90", ["NVIDIA H100 80GB HBM3", "8x H200", "H800", "NVIDIA H20", "NVIDIA GH200 480GB"]),
        ("sm_100", ["B200", "NVIDIA GB200"]),
        ("sm_103", ["NVIDIA B300 SXM6 AC", "GB300"]),
        ("sm_120", ["RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000", "RTX5090", "sm120"]),
        ("sm_121", ["NVIDIA GB10", "DGX Spark", "SM_121"]),
        ("gfx90a", ["AMD Instinct MI250X", "MI210"]),
        ("gfx942", ["MI300X", "AMD Instinct MI325X", "AMD_Instinct_MI300X_OAM", "gfx942"]),
        ("gfx950", ["MI350X", "AMD Instinct MI355X"]),
        ("gfx1100", ["AMD Radeon RX 7900 XTX"]),
        ("gfx1201", ["AMD Radeon RX 9070 XT", "AMD Radeon AI PRO R9700"]),
    ],
)
def test_a_part_has_one_level(level: str, names: list[str]) -> None:
    platform = "rocm" if level.startswith("gfx") else "cuda"
    assert {identify(name) for name in names} == {Identity(platform, level)}


@pytest.mark.parametrize(
    ("platform", "names"),
    [
        ("cpu", ["cpu", "Intel Xeon 8480", "AMD EPYC 9654"]),
        ("tpu", ["TPU v6e", "v5e"]),
        ("ascend", ["Ascend 910B3", "910B", "Ascend910B4"]),
        ("xpu", ["Intel(R) Arc(TM) Pro B60 Graphics", "Intel(R) Data Center GPU Max 1550"]),
        ("cuda", ["GeForce GTX 1080 Ti"]),
        ("rocm", ["AMD Radeon RX 580"]),
    ],
)
def test_other_hardware_has_a_platform_and_no_level(platform: str, names: list[str]) -> None:
    assert {identify(name) for name in names} == {Identity(platform, None)}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "quantum", "RTX 6000", "H2000", "the GPU"])
def test_a_name_that_is_not_known_says_nothing(name: str) -> None:
    assert identify(name) == Identity()


@pytest.mark.parametrize(
    ("text", "level"), [("SM120", "sm_120"), ("sm-120a", "sm_120"), ("GFX942", "gfx942"), ("H100", None), ("sm", None)]
)
def test_levels_are_written_in_several_ways(text: str, level: str | None) -> None:
    assert gpu_level(text) == level


@given(st.text())
def test_any_text_may_be_asked_about(text: str) -> None:
    identify(text)
