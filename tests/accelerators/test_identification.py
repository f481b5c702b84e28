"""The platform and level that a name of an accelerator says, and when two names mean the same part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.accelerators.registry import (
    Identity,
    accelerator_matches,
    gpu_level,
    identify,
    is_same_part,
    unknown_accelerator,
)


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("sm_70", ["Tesla V100-SXM2-32GB"]),
        ("sm_75", ["Tesla T4", "NVIDIA GeForce RTX 2080 Ti", "Quadro RTX 8000"]),
        ("sm_80", ["A100-SXM4-80GB", "NVIDIA A800-SXM4-80GB", "A30"]),
        ("sm_86", ["NVIDIA A10G", "NVIDIA RTX A6000", "RTX 3090"]),
        ("sm_89", ["L4", "NVIDIA L40S", "NVIDIA GeForce RTX 4090", "4090", "NVIDIA RTX 6000 Ada Generation"]),
        ("sm_90", ["NVIDIA H100 80GB HBM3", "8x H200", "H800", "NVIDIA H20", "NVIDIA GH200 480GB", "Grace Hopper"]),
        ("sm_100", ["B200", "NVIDIA GB200"]),
        ("sm_103", ["NVIDIA B300 SXM6 AC", "GB300"]),
        ("sm_120", ["RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000", "RTX5090", "sm120"]),
        ("sm_121", ["NVIDIA GB10", "DGX Spark", "SM_121"]),
        ("gfx90a", ["AMD Instinct MI250X", "MI210"]),
        ("gfx942", ["MI300X", "AMD Instinct MI325X", "AMD_Instinct_MI300X_OAM", "gfx942"]),
        ("gfx950", ["MI350X", "AMD Instinct MI355X"]),
        ("gfx1100", ["AMD Radeon RX 7900 XTX"]),
        ("gfx1101", ["AMD Radeon RX 7800 XT"]),
        ("gfx1150", ["AMD Radeon 890M", "Strix Point"]),
        ("gfx1151", ["Ryzen AI Max+ 395", "Strix Halo"]),
        ("gfx1201", ["AMD Radeon RX 9070 XT", "AMD Radeon AI PRO R9700"]),
    ],
)
def test_a_part_has_one_level(level: str, names: list[str]) -> None:
    platform = "rocm" if level.startswith("gfx") else "cuda"
    assert {identify(name) for name in names} == {Identity(platform, level)}


@pytest.mark.parametrize(
    ("platform", "names"),
    [
        ("cpu", ["cpu", "Intel Xeon 8480", "AMD EPYC 9654", "Ryzen 9 7950X", "Sapphire Rapids", "x86_64"]),
        ("cpu", ["Graviton4", "Neoverse-V2", "Ampere Altra", "AmpereOne", "Grace CPU", "aarch64", "Apple M4"]),
        ("cpu", ["IBM Power10", "ppc64le", "s390x", "IBM z16", "Telum II"]),
        ("tpu", ["TPU v6e", "v5e", "TPU7x", "v5litepod-8", "ct6e-standard-4t", "v7x-8", "Trillium"]),
        ("ascend", ["Ascend 910B3", "910B", "Ascend910B4", "Ascend A3", "Ascend 910C", "Ascend A2"]),
        ("ascend", ["Atlas 800I A2", "Atlas 300T A2", "Huawei Ascend 310P3"]),
        ("xpu", ["B70", "Intel(R) Arc(TM) Pro B60 Graphics", "Intel(R) Data Center GPU Max 1550"]),
        ("gaudi", ["Gaudi3", "Intel Gaudi 2", "HPU", "Intel(R) Gaudi(R) 3", "HL-325L", "Gaudi2D"]),
        ("xpu", ["Battlemage", "Ponte Vecchio", "Intel Data Center GPU Flex 170"]),
        ("other", ["Trainium", "AWS Trainium2", "trn2.48xlarge", "Inferentia2"]),
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
    ("name", "near"),
    [("H1000", "H100"), ("8x H1000", "H100"), ("mi3000x", "MI300X"), ("RTX 40900", "RTX 4090"), ("L40SS", "L40S")],
)
def test_a_name_that_is_not_known_is_said_with_the_nearest(name: str, near: str) -> None:
    assert unknown_accelerator(name) == f"accelerator {name!r} is not known here (did you mean {near!r}?)"


def test_a_name_like_no_other_is_said_alone_and_a_known_one_not_at_all() -> None:
    assert unknown_accelerator("quantum") == "accelerator 'quantum' is not known here"
    for name in (None, "NVIDIA H100 80GB HBM3", "nvidia", "cpu", "v6e", "Gaudi 3"):
        assert unknown_accelerator(name) == ""


def test_what_qualifies_a_part_makes_no_other_part() -> None:
    assert is_same_part("H100 NVL", "NVIDIA H100 80GB HBM3")
    assert is_same_part("MI300X", "AMD Instinct MI300X OAM")
    assert not is_same_part("H100", "NVIDIA H200")
    assert not is_same_part("A10", "A10G")


@pytest.mark.parametrize(
    ("text", "level"), [("SM120", "sm_120"), ("sm-120a", "sm_120"), ("GFX942", "gfx942"), ("H100", None), ("sm", None)]
)
def test_levels_are_written_in_several_ways(text: str, level: str | None) -> None:
    assert gpu_level(text) == level


@given(st.text())
def test_any_text_may_be_asked_about(text: str) -> None:
    identify(text)


SAME_ACCELERATOR = [
    ("H200", ["NVIDIA H200", "nvidia-h200", "H200-SXM", "H200 141GB", "h200", "8x H200", "8xNVIDIA H200 NVL"]),
    ("H20", ["NVIDIA H20", "H20-3e", "H20 96GB"]),
    ("H100", ["NVIDIA H100 80GB HBM3", "H100 PCIe", "H100-NVL"]),
    ("RTX PRO 6000", ["NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000", "rtxpro6000"]),
    ("RTX 5090", ["NVIDIA GeForce RTX 5090", "5090", "RTX5090"]),
    ("MI300X", ["AMD Instinct MI300X", "mi300x", "AMD_Instinct_MI300X_OAM"]),
    ("MI3*", ["MI300X", "AMD Instinct MI325X"]),
    ("SM120", ["sm_120", "SM120"]),
    ("Ascend 910B*", ["Ascend 910B3", "910B4", "Ascend910B2"]),
    ("Gaudi 3", ["Intel Gaudi 3", "Gaudi3", "Intel(R) Gaudi(R) 3"]),
    ("Arc A770", ["Intel(R) Arc(TM) A770 Graphics", "Intel Arc A770"]),
    ("Atlas 800I A2", ["Atlas 800I A2", "Ascend A2"]),
    ("A3", ["Ascend A3", "Atlas 800I A3", "AscendA3"]),
    ("910C", ["Ascend 910C", "Huawei Ascend 910C", "Ascend910C"]),
    ("A3", ["Ascend 910C", "Ascend910_9392"]),
    ("310P*", ["Atlas 300I Duo", "Ascend 310P3"]),
    ("Gaudi*", ["Intel Gaudi 2", "Gaudi3"]),
    ("Gaudi3", ["HL-325L", "HL-328"]),
    ("Gaudi2", ["HL-225", "Gaudi2D"]),
    ("v6e", ["TPU v6e", "v6e-8", "tpu-v6e-slice", "Trillium", "ct6e-standard-4t"]),
    ("v5e", ["v5litepod-8", "TPU v5 lite", "v5e-4"]),
    ("v7x", ["TPU7x", "TPU v7x", "Ironwood"]),
    ("Trainium2", ["trn2.48xlarge", "AWS Trainium 2"]),
    ("Power10*", ["IBM Power10", "POWER10"]),
    ("Xeon*", ["Intel(R) Xeon(R) Platinum 8480+"]),
    ("*B60", ["Intel(R) Arc(TM) Pro B60 Graphics"]),
    ("RTX PRO 6000 Blackwell", ["NVIDIA RTX PRO 6000 Blackwell Workstation Edition"]),
]
OTHER_ACCELERATOR = [
    ("H200", ["H20", "GH200", "H2000", "H100", "GB200"]),
    ("H20", ["H200", "H20X"]),
    ("B200", ["GB200", "B20", "B2000"]),
    ("MI300X", ["MI300A", "MI325X", "MI300"]),
    ("L40", ["L40S"]),
    ("A10", ["A100", "A10G"]),
    ("RTX PRO 6000", ["RTX 6000 Ada", "RTX PRO 5000", "A6000"]),
    ("RTX 4070", ["RTX 4070 Ti"]),
    ("A2", ["Ascend A2", "Atlas 800I A2", "Atlas 300T A2"]),
    ("Gaudi 2", ["Gaudi 3", "HL-325L", "HL-205"]),
    ("v6e", ["v5e", "TPU v5p", "TPU7x"]),
    ("A3", ["Ascend 910B3", "Atlas 800I A2"]),
    ("310P*", ["Atlas 300I A2"]),
    ("Trainium2", ["trn1.32xlarge", "inf2.xlarge"]),
    ("H200", ["", "   ", "cpu"]),
]


@pytest.mark.parametrize(("pattern", "name"), [(pattern, name) for pattern, many in SAME_ACCELERATOR for name in many])
def test_spellings_of_one_accelerator(pattern: str, name: str) -> None:
    assert accelerator_matches(pattern, name)


@pytest.mark.parametrize(("pattern", "name"), [(pattern, name) for pattern, many in OTHER_ACCELERATOR for name in many])
def test_accelerators_that_are_not_the_one_meant(pattern: str, name: str) -> None:
    assert not accelerator_matches(pattern, name)


@given(
    part=st.from_regex(r"[A-Z]{1,2}[0-9]{1,4}[A-Z]?", fullmatch=True),
    before=st.sampled_from(["", "NVIDIA ", "nvidia-", "AMD Instinct ", "8x "]),
    after=st.sampled_from(["", " 141GB", "-SXM", " NVL (PCIe)"]),
)
def test_vendor_count_and_memory_change_no_accelerator(part: str, before: str, after: str) -> None:
    assert accelerator_matches(part, before + part.lower() + after)
    assert not accelerator_matches(part, f"{before}{part}0{after}")


@given(st.text(), st.text())
def test_any_two_names_may_be_compared(one: str, other: str) -> None:
    accelerator_matches(one, other)


@pytest.mark.parametrize(
    "name", ["RTX 4090", "NVIDIA GeForce RTX 5070 Ti", "RTX4090", "RTX PRO 6000 Blackwell", "rtx 6000 ada"]
)
def test_a_pattern_of_a_line_means_its_parts(name: str) -> None:
    assert accelerator_matches("RTX*", name)


@pytest.mark.parametrize("name", ["H100", "NVIDIA A100-SXM4-80GB", "L40S", "MI300X", "GTX 1080", "cpu"])
def test_a_pattern_of_a_line_means_no_other_part(name: str) -> None:
    assert not accelerator_matches("RTX*", name)
