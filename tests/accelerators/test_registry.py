"""The families of accelerators, and that a new one is a module and a line of the registry."""

import sys

import pytest

from regress_gate.accelerators import registry
from regress_gate.accelerators.interface import Family
from regress_gate.accelerators.registry import (
    FAMILIES,
    default_family,
    family_of_device,
    family_of_level,
    family_of_variant,
)
from regress_gate.bench.provision.containers import device_arguments
from regress_gate.bench.provision.docker import published_images
from regress_gate.errors import InputError
from regress_gate.model.version import Version


class Abacus(Family):
    """All that a new family must say."""

    title = "abaci"
    platform = "other"
    device_type = "abacus"
    variant = "abacus"
    variant_pattern = "abacus"
    parts = r"abacus ?\w*"


@pytest.fixture
def with_abacus(monkeypatch: pytest.MonkeyPatch) -> None:
    families = (Abacus(), *FAMILIES)
    for module in [each for name, each in sys.modules.items() if name.startswith("regress_gate.")]:
        if getattr(module, "FAMILIES", None) is FAMILIES:
            monkeypatch.setattr(module, "FAMILIES", families)
    registry.identify.cache_clear()
    registry.recognise.cache_clear()
    yield
    registry.identify.cache_clear()
    registry.recognise.cache_clear()


@pytest.mark.usefixtures("with_abacus")
def test_a_new_family_is_a_class_and_a_line() -> None:
    from regress_gate.accelerators.registry import default_variant, unwatched_note

    assert registry.identify("Abacus Z9").platform == "other"
    assert default_variant("2x Abacus") == "abacus"
    assert unwatched_note("Abacus Z9") == (
        "abaci cannot be watched here: throttling and other processes are not recorded"
    )
    with pytest.raises(InputError, match="cannot give abaci to a container; use a launch line"):
        device_arguments("all", "abacus", podman=False)
    with pytest.raises(InputError, match=r"no images of 0\.19\.1 are published for abacus"):
        published_images(Version.parse("0.19.1"), "abacus")


@pytest.mark.parametrize(
    ("variant", "platform"),
    [
        ("cu129", "cuda"),
        ("rocm", "rocm"),
        ("rocm721", "rocm"),
        ("rocm7.2", "rocm"),
        ("cpu", "cpu"),
        ("xpu", "xpu"),
        ("tpu", "tpu"),
        ("ascend", "ascend"),
        ("gaudi", "gaudi"),
        ("hpu", "gaudi"),
    ],
)
def test_a_build_is_for_one_family(variant: str, platform: str) -> None:
    family = family_of_variant(variant)
    assert family is not None
    assert family.platform == platform
    assert [each for each in FAMILIES if each.is_variant(variant)] == [family]


@pytest.mark.parametrize("variant", [None, "cuda", "mine", "cu12"])
def test_a_build_of_another_name_is_of_no_family(variant: str | None) -> None:
    assert family_of_variant(variant) is None


def test_the_default_build_is_for_nvidia() -> None:
    assert default_family().platform == "cuda"


def test_what_two_families_share_says_neither() -> None:
    assert family_of_device("cuda") is None
    device = family_of_device("hpu")
    assert device is not None
    assert device.platform == "gaudi"


def test_levels_belong_to_families() -> None:
    assert [family_of_level(level).platform for level in ("sm_90", "gfx942")] == ["cuda", "rocm"]  # type: ignore[union-attr]
    assert family_of_level("x1") is None


def test_every_module_of_a_family_is_in_the_registry() -> None:
    from pathlib import Path

    modules = {type(family).__module__.rpartition(".")[2] for family in FAMILIES}
    defined = {
        path.stem for path in Path(registry.__file__).parent.glob("*.py") if "(Family):" in path.read_text("utf-8")
    }
    assert modules == defined
