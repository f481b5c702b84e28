"""What is said of one scope key: its verdict and its reason, in the same words for all keys."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from regress_gate.model.deployment import ArgValue


@dataclass(frozen=True, slots=True)
class Key:
    """One scope key held against the deployment. `holds` is None for a fact that is missing."""

    holds: bool | None
    why: str
    """Both values, or the fact that is missing with the flag that gives it."""
    flag: str | None = None
    """The flag that gives a missing fact: `--model`, `--engine-arg kv_cache_dtype`."""


def missing(what: str, flags: str) -> Key:
    """A fact that is not given. `flags` names ways to give it, the plainest first: `--gpu-arch or --accelerator`."""
    return Key(None, f"{what} ({flags})", re.split(r" or |=", flags)[0])


def listed_or_missing(
    what: str,
    given: str | None,
    patterns: Sequence[str],
    flag: str,
    matches: Callable[[str, str], bool | None],
    noun: str | None = None,
) -> Key:
    """A name held against patterns. `flag` gives the name where it is missing, `noun` is what it is then called."""
    if given is None:
        return missing(f"the {noun or what} is not known", flag)
    holds = any_holds(matches(pattern, given) for pattern in patterns)
    if holds is None:
        return missing(f"{what} {given} does not say whether it is {any_of(patterns)}", flag)
    return Key(holds, said(what, given, patterns, holds))


def said(what: str, given: str, wanted: Sequence[str], holds: bool) -> str:
    """`accelerator H200`, `accelerator H200 is not B200 or GB200`."""
    return f"{what} {given}" if holds else f"{what} {given} is not {any_of(wanted)}"


def any_of(values: Iterable[str]) -> str:
    return " or ".join(values)


def shown(value: ArgValue) -> str:
    """An argument's value as it is typed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def any_holds(verdicts: Iterable[bool | None]) -> bool | None:
    """True if one is, else None if one is unknown, else False."""
    seen = set(verdicts)
    return True if True in seen else None if None in seen else False
