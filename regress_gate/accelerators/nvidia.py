"""NVIDIA GPUs: names, builds for CUDA, containers. Reading the driver's library is in `nvml`.

Levels are from NVIDIA's list of compute capabilities (developer.nvidia.com/cuda-gpus, and cuda-legacy-gpus). Parts made
for one market (H800, H20, A800, L20) have the level of the part that they are variants of.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

from regress_gate.accelerators import nvml
from regress_gate.accelerators.interface import IMAGE_REGISTRY, Accelerators, Family, Watcher


class Nvidia(Family):
    title = "NVIDIA GPUs"
    platform = "cuda"
    device_type = "cuda"
    variant = None
    variant_pattern = r"cu\d{3}"
    levels: ClassVar[Mapping[str, str]] = {
        "sm_121": r"gb10|dgx spark",
        "sm_120": r"rtx pro ?\d[05]00|(rtx )?50[5-9]0",
        "sm_110": r"thor|jetson t[45]000",
        "sm_103": r"g?b300",
        "sm_100": r"b100|g?b200",
        "sm_90": r"gh200|h100|h200|h800|h20z?",
        "sm_89": r"l4|l20|l40[sg]?|rtx \d[05]00 ada|(rtx )?40[5-9]0",
        "sm_87": r"orin",
        "sm_86": r"a2|a10g?|a16|a40|a[2-6]000|(rtx )?30[5-9]0",
        "sm_80": r"a30|a100|a800",
        "sm_75": r"t4|titan rtx|quadro rtx \d000|(rtx )?20[678]0|gtx 16\d0",
        "sm_70": r"v100s?|gv100|titan v",
    }
    level_prefix = "sm_"
    brands = r"nvidia|geforce|tesla|quadro"
    filler_words = frozenset({"nvidia", "geforce", "rtx", "tesla"})
    name_prefixes = r"nvidia|geforce|rtx"
    visible_variables = ("CUDA_VISIBLE_DEVICES",)
    how_to_watch = "pip install 'vllm-regress-gate[gpu]'"

    def images(self, tag: str, variant: str | None, *, release: bool) -> tuple[str, ...]:
        if variant is not None:
            tag = f"{tag}-{variant}" if release else f"{variant}-{tag}"
        return (f"{IMAGE_REGISTRY}/vllm-openai:{tag}",)

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        if podman:
            return [f"--device=nvidia.com/gpu={each}" for each in devices.split(",")]
        # The engine reads the value as CSV, in which the commas of a list need quotes.
        return ["--gpus=all" if devices == "all" else f'--gpus="device={devices}"']

    def find(self) -> Accelerators | None:
        """By the driver's library if its Python module is installed, else by the driver's program."""
        return nvml.find() or _find_by_program()

    def visible_devices(self, environment: Mapping[str, str], *, first: int | None) -> tuple[int, ...]:
        return nvml.visible_devices(environment, first=first)

    def can_watch(self) -> bool:
        with nvml.nvml() as library:
            return library is not None

    @contextmanager
    def watch(self, numbers: Sequence[int]) -> Iterator[Watcher | None]:
        with nvml.nvml() as library:
            yield nvml.NvmlWatcher.of(library, numbers) if library is not None else None


def _find_by_program() -> Accelerators | None:
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - the driver's own program
            [program, "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode:
        return None
    rows = [line.rpartition(",") for line in answer.stdout.splitlines() if "," in line]
    if not rows:
        return None
    names = dict.fromkeys(name.strip() for name, _, _ in rows)
    return Accelerators(" + ".join(names), len(rows), rows[0][2].strip() or None)
