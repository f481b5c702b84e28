"""AMD GPUs: names, builds for ROCm, containers. Reading the driver's library is in `amd_smi`.

Levels are from AMD's tables of GPU specifications (rocm.docs.amd.com, "GPU hardware specifications").
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from regress_gate.accelerators import amd_smi
from regress_gate.accelerators.interface import IMAGE_REGISTRY, Accelerators, Family, Watcher
from regress_gate.errors import InputError


class Amd(Family):
    title = "AMD GPUs"
    platform = "rocm"
    device_type = "cuda"
    variant = "rocm"
    variant_pattern = r"rocm\d*(\.\d+)*"
    levels: ClassVar[Mapping[str, str]] = {
        "gfx950": r"mi350x|mi355x",
        "gfx942": r"mi300[ax]|mi308x|mi325x",
        "gfx90a": r"mi210|mi250x?",
        "gfx908": r"mi100",
        "gfx906": r"mi50|mi60",
        "gfx1201": r"rx 9070|r9700",
        "gfx1200": r"rx 9060",
        "gfx1151": r"strix halo|ryzen ai max|8060s",
        "gfx1100": r"rx 7900|w7900|w7800",
        "gfx1030": r"rx 6[89]00|w6800",
    }
    level_prefix = "gfx"
    brands = r"amd|instinct|radeon"
    filler_words = frozenset({"amd", "instinct"})
    wheel_tree = "rocm/"
    visible_variables = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    how_to_watch = "pip install amdsmi, in the version of your ROCm,"

    def images(self, tag: str, variant: str | None, *, release: bool) -> tuple[str, ...]:
        del variant, release
        return (f"{IMAGE_REGISTRY}/vllm-openai-rocm:{tag}",)

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        del podman
        if devices != "all":
            raise InputError("one AMD GPU cannot be given to a container alone", where="gpus", todo="write all")
        return ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=video"]

    def find(self) -> Accelerators | None:
        return amd_smi.find()

    def visible_devices(self, environment: Mapping[str, str], *, first: int | None) -> tuple[int, ...]:
        asked = next((environment[name] for name in self.visible_variables if name in environment), None)
        return amd_smi.visible_devices(asked)[:first]

    def can_watch(self) -> bool:
        with amd_smi.amd_smi() as library:
            return library is not None

    @contextmanager
    def watch(self, numbers: Sequence[int]) -> Iterator[Watcher | None]:
        with amd_smi.amd_smi() as library:
            yield amd_smi.AmdSmiWatcher.of(library, numbers) if library is not None else None
