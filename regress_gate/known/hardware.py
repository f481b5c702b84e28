"""What an accelerator's name says about its platform and its level of instructions. Not for spelling: see `names`.

Levels are from NVIDIA's list of compute capabilities (developer.nvidia.com/cuda-gpus, and cuda-legacy-gpus) and from
AMD's tables of GPU specifications (rocm.docs.amd.com, "GPU hardware specifications"). Parts made for one market (H800,
H20, A800, L20) have the level of those that they are variants of. A part that is not listed says nothing.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from regress_gate.known import names
from regress_gate.model.deployment import GPU_LEVEL, Platform


@dataclass(frozen=True, slots=True)
class Hardware:
    platform: Platform | None = None
    gpu_arch: str | None = None
    """`sm_90`, `gfx942`; None where the platform has no such levels."""


_LEVELS: dict[str, str] = {
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
"""Level to the names of parts, as they stand among words."""
_PLATFORMS: dict[Platform, str] = {
    "cpu": r"cpu|xeon|epyc|graviton\d*|grace",
    "tpu": r"tpu|v5e|v5p|v6e|trillium|ironwood",
    "ascend": r"ascend ?\w*|910[bc]\d?|310p\d?|npu",
    "xpu": r"xpu|arc|b580|b60|a770|max 1[15]\d0",
    "cuda": r"nvidia|geforce|tesla|quadro",
    "rocm": r"amd|instinct|radeon",
}
KeyT = TypeVar("KeyT", bound=str)


def gpu_level(text: str) -> str | None:
    """`sm_120` for `SM120`, `sm-120a` and `sm_120`; `gfx942` for itself; None for what names no level."""
    found = re.fullmatch(GPU_LEVEL, text.strip())
    if found is None:
        return None
    return f"sm_{found[1]}" if found[1] else found[2].lower()


def platform_of(level: str) -> Platform:
    return "rocm" if level.startswith("gfx") else "cuda"


@cache
def identify(accelerator: str) -> Hardware:
    """What is known of the part behind a name, as people and drivers write it."""
    if level := gpu_level(accelerator):
        return Hardware(platform_of(level), level)
    # `8xRTX5090` is written in one, `Intel(R) Arc(TM)` with signs between.
    text = re.sub(r"\((?:r|tm)\)", " ", names.without_count(accelerator).casefold())
    text = " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\brtx(?=\w)", "rtx ", text)))
    if level := _found(text, _LEVELS):
        return Hardware(platform_of(level), level)
    return Hardware(_found(text, _PLATFORMS))


def _found(text: str, table: dict[KeyT, str]) -> KeyT | None:
    return next((key for key, parts in table.items() if re.search(rf"\b(?:{parts})\b", text)), None)
