"""The keys of a scope that speak of hardware: platform, accelerator, level of instructions.

A part fits a level, a level leaves the part open, and a platform rules the parts of others out.
"""

from collections.abc import Iterator, Sequence

from regress_gate.known import names
from regress_gate.known.facts import Facts
from regress_gate.known.hardware import gpu_level, identify
from regress_gate.known.key import Key, any_holds, any_of, listed_or_missing, missing, said


def platform(wanted: Sequence[str], facts: Facts) -> Iterator[Key]:
    yield listed_or_missing("platform", facts.platform, wanted, "--accelerator or --platform", str.__eq__)


def accelerator(patterns: list[str], facts: Facts) -> Iterator[Key]:
    given = facts.accelerator
    if given is None:
        if facts.platform is not None and not any(_may_be(pattern, facts) for pattern in patterns):
            yield Key(False, f"{facts.gpu_arch or facts.platform} is not the level of {any_of(patterns)}")
        else:
            yield missing("the accelerator is not known", "--accelerator")
        return
    holds = any_holds(_part_holds(pattern, given, facts) for pattern in patterns)
    if holds is None:
        yield missing(f"{given} does not say whether it is {any_of(patterns)}", "--accelerator")
    else:
        yield Key(holds, said("accelerator", given, patterns, holds))


def _part_holds(pattern: str, given: str, facts: Facts) -> bool | None:
    """A level (`SM120`) means every part of it; a part is unknown where the deployment gives only its level.

    A name of which nothing is known may be a slip of the keyboard: it rules no part out that its platform and level do
    not rule out.
    """
    if names.accelerator_matches(pattern, given):
        return True
    if level := gpu_level(pattern):
        return None if facts.gpu_arch is None and _may_be(pattern, facts) else level == facts.gpu_arch
    if identify(given).platform is None:
        return None if _may_be(pattern, facts) else False
    return None if gpu_level(given) and gpu_level(given) == identify(pattern).gpu_arch else False


def _may_be(pattern: str, facts: Facts) -> bool:
    """Whether what is known of platform and level leaves it open that the part is the one meant."""
    meant = identify(pattern)
    if meant.platform is not None and facts.platform is not None and meant.platform != facts.platform:
        return False
    return meant.gpu_arch is None or facts.gpu_arch is None or meant.gpu_arch == facts.gpu_arch


def gpu_arch(patterns: list[str], facts: Facts) -> Iterator[Key]:
    if facts.gpu_arch is None and facts.platform is not None:
        gpus = {"sm_": "cuda", "gfx": "rocm"}
        if all(gpus[pattern[:3]] != facts.platform for pattern in patterns):
            yield Key(False, f"platform {facts.platform} has no {any_of(patterns)}")
            return
    yield listed_or_missing("GPU level", facts.gpu_arch, patterns, "--accelerator or --gpu-arch", names.text_matches)
