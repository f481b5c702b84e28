"""What the name of an accelerator says: its family, its platform and instruction level, and its build of vLLM.

Also when two names mean the same part: people write `NVIDIA H200 141GB` where a record says `H200`. A name that no
family recognises says nothing; it may be a typing error.
"""

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from regress_gate.accelerators.interface import Family
from regress_gate.accelerators.registry import FAMILIES, family_of_level
from regress_gate.model.deployment import GPU_LEVEL, Platform

_FILLER_WORDS = frozenset({"gpu", "accelerator"}).union(*(family.filler_words for family in FAMILIES))
_NAME_PREFIX = re.compile(rf"^(?:{'|'.join(filter(None, (family.name_prefixes for family in FAMILIES)))})+(?=.)")
_CARRIER = re.compile(rf"\b(?:{'|'.join(filter(None, (family.carriers for family in FAMILIES)))})")
_COUNT = re.compile(r"^\s*\d+\s*[x×*]\s*(?=\D)", re.IGNORECASE)  # "8x H200", never the "4090" of "4090 x 4"
_TRADEMARK = re.compile(r"\((?:r|tm)\)", re.IGNORECASE)  # Intel(R) Arc(TM)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a name says. None: the name does not say it, or the platform has no levels."""

    platform: Platform | None = None
    gpu_arch: str | None = None
    """`sm_90`, `gfx942`."""


def gpu_level(text: str) -> str | None:
    """`sm_120` for `SM120`, `sm-120a` and `sm_120`; `gfx942` for itself; None if the text is no level."""
    found = re.fullmatch(GPU_LEVEL, text.strip())
    if found is None:
        return None
    return f"sm_{found[1]}" if found[1] else found[2].lower()


def platform_of(level: str) -> Platform | None:
    """The platform that has an instruction level."""
    family = family_of_level(level)
    return family.platform if family else None


@cache
def identify(accelerator: str) -> Identity:
    """What is known of a part by its name, as people and drivers write it, or by its level."""
    family, level = recognise(accelerator)
    return Identity(family.platform, level) if family else Identity()


@cache
def recognise(accelerator: str) -> tuple[Family | None, str | None]:
    """The family of a part and its instruction level, by its name or its level; None: not known."""
    if level := gpu_level(accelerator):
        return family_of_level(level), level
    # `8xRTX5090` is written in one word.
    text = _TRADEMARK.sub(" ", without_count(accelerator)).casefold()
    text = " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\brtx(?=\w)", "rtx ", text)))
    for family in FAMILIES:
        for level, parts in family.levels.items():
            if _has_word(text, parts):
                return family, level
        if _has_word(text, family.parts):
            return family, None
    return next((family for family in FAMILIES if _has_word(text, family.brands)), None), None


def _has_word(text: str, words: str) -> bool:
    return bool(words) and re.search(rf"\b(?:{words})\b", text) is not None


def accelerator_matches(pattern: str, name: str) -> bool:
    """Whether the name is of the part that the pattern means: `H200` is `NVIDIA H200 141GB`, never `H20` or `GH200`."""
    families = recognise(pattern)[0], recognise(name)[0]
    if None not in families and families[0] is not families[1]:  # NVIDIA's A2 is not an Ascend A2
        return False
    wanted, given = _part_words(pattern), _part_words(name)
    if not wanted or not given or not fnmatchcase(given[0], wanted[0]):
        return False
    return all(any(fnmatchcase(word, qualifier) for word in given[1:]) for qualifier in wanted[1:])


def without_count(accelerator: str) -> str:
    """`H200` for `8x H200`."""
    return _COUNT.sub("", accelerator)


def _part_words(text: str) -> list[str]:
    """The part's name in one word, then what qualifies it: `RTX PRO 6000 Blackwell` is [pro6000, blackwell]."""
    text = _CARRIER.sub("", _TRADEMARK.sub(" ", without_count(text)).casefold())
    words = [word for word in re.split(r"[^a-z0-9*?]+", text) if word]
    words = [word for word in words if word not in _FILLER_WORDS] or words
    name = ""
    while words and not re.search(r"\d", name):
        name += words.pop(0)
    name = _NAME_PREFIX.sub("", name)  # written in one: RTX4090
    while words and words[0] in ("ti", "super"):  # a 4070 Ti is not a 4070
        name += words.pop(0)
    return [name, *words] if name else []
