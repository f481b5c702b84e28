"""The families of accelerators. A new family is one module and one line here."""

from regress_gate.accelerators.amd import Amd
from regress_gate.accelerators.ascend import Ascend
from regress_gate.accelerators.cpu import Cpu
from regress_gate.accelerators.gaudi import Gaudi
from regress_gate.accelerators.intel import Intel
from regress_gate.accelerators.interface import Family
from regress_gate.accelerators.nvidia import Nvidia
from regress_gate.accelerators.tpu import Tpu
from regress_gate.accelerators.trainium import Trainium

FAMILIES: tuple[Family, ...] = (
    Ascend(),
    Gaudi(),
    Tpu(),
    Trainium(),
    Intel(),
    Nvidia(),
    Amd(),
    Cpu(),
)
"""In the order in which a name is tried: an `Atlas 800I A2` is an Ascend before `A2` could be NVIDIA's."""


def family_of_variant(variant: str | None) -> Family | None:
    """The family that a build of vLLM is for; None for the default build and for builds of an unknown name."""
    return next((family for family in FAMILIES if family.is_variant(variant)), None)


def default_family() -> Family:
    """The family that vLLM's default build is for."""
    return next(family for family in FAMILIES if family.variant is None)


def family_of_device(device_type: str) -> Family | None:
    """The family by the `device_type` of vLLM's platform; None for `cuda`, which NVIDIA and AMD share."""
    families = [family for family in FAMILIES if family.device_type == device_type]
    return families[0] if len(families) == 1 else None


def family_of_level(level: str) -> Family | None:
    """The family that has an instruction level such as `sm_90`."""
    return next((each for each in FAMILIES if each.level_prefix and level.startswith(each.level_prefix)), None)
