"""Huawei Ascend NPUs, and the Atlas servers that hold them: names and containers.

Their vLLM is vLLM with the plugin vllm-ascend, which has images of its own: name one with --image.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from regress_gate.accelerators.interface import Family
from regress_gate.errors import InputError

_MANAGERS = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_DRIVER_FILES = (
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/version.info",
    "/etc/ascend_install.info",
)
"""Of the host, as vllm-ascend's documentation mounts them."""


class Ascend(Family):
    title = "Ascend NPUs"
    platform = "ascend"
    device_type = "npu"
    variant = "ascend"
    variant_pattern = "ascend"
    parts = r"ascend\w*|atlas|910[abc]\d?|310p\d?"
    brands = r"huawei|npu"
    filler_words = frozenset({"huawei", "ascend"})
    name_prefixes = r"ascend(?=a?\d)"
    aliases: ClassVar[Mapping[str, str]] = {r"910c|910_93\d\d": "a3", r"atlas 300i (?:duo|pro)": "310p3"}
    carriers = r"atlas \d\w* (?=a\d)"
    visible_variables = ("ASCEND_RT_VISIBLE_DEVICES",)

    def container_arguments(self, devices: str, *, podman: bool) -> list[str]:
        del podman
        numbers = _present() if devices == "all" else devices.split(",")
        if not numbers or not all(number.isdecimal() for number in numbers):
            raise InputError(f"{devices!r} names no Ascend NPUs", where="gpus", todo="write their numbers: 0,1")
        return [
            *(f"--device=/dev/davinci{number}" for number in numbers),
            *(f"--device={path}" for path in _MANAGERS),
            *(f"--volume={path}:{path}:ro" for path in _DRIVER_FILES),
        ]


def _present() -> list[str]:
    numbers = (re.fullmatch(r"davinci(\d+)", path.name) for path in Path("/dev").glob("davinci*"))
    return sorted((match[1] for match in numbers if match), key=int)
