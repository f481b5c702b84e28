"""The families of accelerators, found by a name, a level, a build of vLLM, or on this machine.

A new family is one module and one line here. People write `NVIDIA H200 141GB` where a record says `H200`: names are
compared here too. A name that no family recognises says nothing; it may be a typing error. Not for locking accelerators
(`bench.machine.reservation`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import product

from regress_gate.accelerators.amd import Amd
from regress_gate.accelerators.ascend import Ascend
from regress_gate.accelerators.cpu import Cpu
from regress_gate.accelerators.gaudi import Gaudi
from regress_gate.accelerators.intel import Intel
from regress_gate.accelerators.interface import Accelerators, Family, Watcher
from regress_gate.accelerators.nvidia import Nvidia
from regress_gate.accelerators.tpu import Tpu
from regress_gate.accelerators.trainium import Trainium
from regress_gate.model.deployment import GPU_LEVEL, Platform
from regress_gate.text import excerpt, nearest

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
_BY_DEVICES = sorted(FAMILIES, key=lambda family: family.stands_beside_others)
"""In the order in which a machine is looked at for devices that serve."""
VISIBLE_VARIABLES = tuple(dict.fromkeys(name for family in FAMILIES for name in family.visible_variables))
"""Environment variables that limit the devices of a server, of all families."""
_FILLER_WORDS = frozenset({"gpu", "accelerator"}).union(*(family.filler_words for family in FAMILIES))
_NAME_PREFIX = re.compile(rf"^(?:{'|'.join(filter(None, (family.name_prefixes for family in FAMILIES)))})+(?=.)")
_CARRIER = re.compile(rf"\b(?:{'|'.join(filter(None, (family.carriers for family in FAMILIES)))})")
_ALIASES = tuple(
    (re.compile(rf"(?<![0-9])(?:{names})(?![a-z0-9])"), part)
    for family in FAMILIES
    for names, part in family.aliases.items()
)
_COUNT = re.compile(r"^\s*\d+\s*[x×*]\s*(?=\D)", re.IGNORECASE)  # "8x H200", never the "4090" of "4090 x 4"
_IN_NAMES = " 0123456789abcdefghijklmnopqrstuvwxyz"
_NAME_TOKEN = re.compile(r"(\([a-z ]+\)|\[[a-z0-9-]+\]|[a-z0-9 ])(\??)")
_TRADEMARK = re.compile(r"\((?:r|tm)\)", re.IGNORECASE)  # Intel(R) Arc(TM)


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


@dataclass(frozen=True, slots=True)
class Identity:
    """What a name says. None: the name does not say it, or the platform has no levels."""

    platform: Platform | None = None
    gpu_arch: str | None = None
    """`sm_90`, `gfx942`."""


def gpu_level(text: str) -> str | None:
    """`sm_120` for `SM120`, `sm-120a` and `sm_120`; `gfx942` for itself; None if the text is no level."""
    match = re.fullmatch(GPU_LEVEL, text.strip())
    if match is None:
        return None
    return f"sm_{match[1]}" if match[1] else match[2].lower()


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
    if not wanted or not given:
        return False
    if not re.search(r"[a-z0-9]", wanted[0]):  # `RTX*`: of a line, not of a part, whose name begins after that
        return any(fnmatchcase(word, pattern.casefold()) for word in re.split(r"[^a-z0-9]+", name.casefold()))
    if not fnmatchcase(given[0], wanted[0]):
        return False
    return all(any(fnmatchcase(word, qualifier) for word in given[1:]) for qualifier in wanted[1:])


def is_same_part(one: str, other: str) -> bool:
    """Whether two names are of one part, whatever qualifies it: an H100 NVL is an H100."""
    return _part_words(one)[:1] == _part_words(other)[:1]


def unknown_accelerator(name: str | None) -> str:
    """`accelerator 'H1000' is not known here (did you mean 'H100'?)`; empty for one that some family recognises, and
    without a name."""
    if name is None or recognise(name)[0] is not None:
        return ""
    near = nearest(without_count(name).strip().upper(), _part_names())
    return f"accelerator {excerpt(name, 60)!r} is not known here" + (f" (did you mean {near!r}?)" if near else "")


@cache
def _part_names() -> tuple[str, ...]:
    """The parts that have a level, as people write them: `L40`, `L40S` for `l40s?`."""
    names = [name for family in FAMILIES for names in family.levels.values() for name in names.split("|")]
    choices = [
        [_choices(token, optional) for token, optional in _NAME_TOKEN.findall(name)]
        for name in names
        if re.fullmatch(f"(?:{_NAME_TOKEN.pattern})+", name)
    ]
    return tuple("".join(picked).upper() for tokens in choices for picked in product(*tokens))


def _choices(token: str, optional: str) -> list[str]:
    """What a token of a pattern may stand for: a character, one of several (`[ax]`), or words (`(rtx )`)."""
    texts = [token[1:-1]] if token.startswith("(") else [one for one in _IN_NAMES if re.fullmatch(token, one)]
    return [*texts, ""] if optional else texts


def without_count(accelerator: str) -> str:
    """`H200` for `8x H200`."""
    return _COUNT.sub("", accelerator)


def _part_words(text: str) -> list[str]:
    """The part's name in one word, then what qualifies it: `RTX PRO 6000 Blackwell` is [pro6000, blackwell]."""
    text = _CARRIER.sub("", _TRADEMARK.sub(" ", without_count(text)).casefold())
    for names, part in _ALIASES:
        text = names.sub(part, text)
    words = [word for word in re.split(r"[^a-z0-9*?]+", text) if word]
    words = [word for word in words if word not in _FILLER_WORDS] or words
    name = ""
    while words and not re.search(r"\d", name):
        name += words.pop(0)
    name = _NAME_PREFIX.sub("", name)  # written in one: RTX4090
    while words and words[0] in ("ti", "super"):  # a 4070 Ti is not a 4070
        name += words.pop(0)
    return [name, *words] if name else []


def find_accelerators() -> Accelerators | None:
    """All accelerators of this machine; None: none was found."""
    return next((accelerators for family in FAMILIES if (accelerators := family.find())), None)


def default_variant(accelerator: str | None) -> str | None:
    """The build of vLLM for an accelerator (None: for this machine); None is vLLM's default build.

    An accelerator that no family recognises gets the default build, a machine without accelerators the one for CPU.
    """
    if accelerator is None:
        accelerators = find_accelerators()
        if accelerators is None:
            return "cpu"
        accelerator = accelerators.name
    family = recognise(accelerator)[0]
    return family.variant if family else None


def visible_devices(environment: Mapping[str, str], *, first: int | None = None) -> tuple[int, ...]:
    """Numbers of the accelerators that a server with this environment uses, at most the `first` ones (None: all).

    Empty: none that this tool knows of.
    """
    numbers = (family.visible_devices(environment, first=first) for family in _BY_DEVICES)
    return next((devices for devices in numbers if devices), ())


def visible_setting(environment: Mapping[str, str]) -> str | None:
    """The devices that an environment limits a server to, as its variable lists them; None: it does not."""
    return next((environment[name] for name in VISIBLE_VARIABLES if name in environment), None)


@contextmanager
def watch_devices(numbers: Sequence[int]) -> Iterator[Watcher | None]:
    """A watcher of the accelerators with these numbers; None if they cannot be watched."""
    for family in _BY_DEVICES:
        with family.watch(numbers) as watcher:
            if watcher is not None:
                yield watcher
                return
    yield None


def unwatched_note(accelerator: str | None) -> str | None:
    """What a run on this accelerator will not record, and what to do about it; None if it is watched or is a CPU."""
    family = recognise(accelerator)[0] if accelerator else None
    if accelerator is None or (family is not None and family.platform == "cpu"):
        return None
    if family is not None and family.can_watch():
        return None if family.watches_processes else f"other processes on the {family.title} are not recorded"
    what = family.title if family else accelerator
    if family is None or family.how_to_watch is None:
        return f"{what} cannot be watched here: throttling and other processes are not recorded"
    return f"throttling and other processes on the {what} are not recorded: {family.how_to_watch} to have them watched"
