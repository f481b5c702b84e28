"""What an accelerator's name says about its platform and its level of instructions. Not for spelling: see `names`.

Levels are from NVIDIA's list of compute capabilities (developer.nvidia.com/cuda-gpus, and cuda-legacy-gpus) and from
AMD's tables of GPU specifications (rocm.docs.amd.com, "GPU hardware specifications"). Parts made for one market (H800,
H20, A800, L20) have the level of those that they are variants of. A part that is not listed says nothing.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import TypeVar

from regress_gate.model.deployment import GPU_LEVEL, Platform


@dataclass(frozen=True, slots=True)
class Identity:
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
def identify(accelerator: str) -> Identity:
    """What is known of the part behind a name, as people and drivers write it."""
    if level := gpu_level(accelerator):
        return Identity(platform_of(level), level)
    # `8xRTX5090` is written in one, `Intel(R) Arc(TM)` with signs between.
    text = re.sub(r"\((?:r|tm)\)", " ", without_count(accelerator).casefold())
    text = " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\brtx(?=\w)", "rtx ", text)))
    if level := _first_match(text, _LEVELS):
        return Identity(platform_of(level), level)
    return Identity(_first_match(text, _PLATFORMS))


def _first_match(text: str, table: dict[KeyT, str]) -> KeyT | None:
    return next((key for key, parts in table.items() if re.search(rf"\b(?:{parts})\b", text)), None)


# Words that vendors put before or after the name of the part itself.
_FILLER = {"nvidia", "amd", "instinct", "geforce", "rtx", "tesla", "gpu", "accelerator"}
_COUNT = re.compile(r"^\s*\d+\s*[x×*]\s*(?=\D)", re.IGNORECASE)  # "8x H200", never the "4090" of "4090 x 4"


def without_count(accelerator: str) -> str:
    """`H200` for `8x H200`."""
    return _COUNT.sub("", accelerator)


def _accelerator_words(text: str) -> list[str]:
    """The part's name in one word, then what qualifies it: `RTX PRO 6000 Blackwell` is [pro6000, blackwell]."""
    words = [word for word in re.split(r"[^a-z0-9*?]+", without_count(text).casefold()) if word]
    words = [word for word in words if word not in _FILLER] or words
    name = ""
    while words and not re.search(r"\d", name):
        name += words.pop(0)
    name = re.sub(r"^(?:nvidia|geforce|rtx)+(?=.)", "", name)  # written in one: RTX4090
    while words and words[0] in ("ti", "super"):  # a 4070 Ti is not a 4070
        name += words.pop(0)
    return [name, *words] if name else []


def accelerator_matches(pattern: str, name: str) -> bool:
    """Whether the name is of the part that the pattern means: `H200` is `NVIDIA H200 141GB`, never `H20` or `GH200`."""
    wanted, given = _accelerator_words(pattern), _accelerator_words(name)
    if not wanted or not given or not fnmatchcase(given[0], wanted[0]):
        return False
    return all(any(fnmatchcase(word, qualifier) for word in given[1:]) for qualifier in wanted[1:])
