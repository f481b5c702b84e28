"""The accelerators of this machine: which there are, which of them a server uses, and watching them.

Not for locking them (`bench.machine.reservation`), and not for judging what was seen: the suite has limits.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from regress_gate.accelerators.identification import recognise
from regress_gate.accelerators.interface import Accelerators, Watcher
from regress_gate.accelerators.registry import FAMILIES

VISIBLE_VARIABLES = tuple(dict.fromkeys(name for family in FAMILIES for name in family.visible_variables))
"""Environment variables that limit the devices of a server, of all families."""


def find_accelerators() -> Accelerators | None:
    """All accelerators of this machine; None: none was found."""
    return next((found for family in FAMILIES if (found := family.find())), None)


def default_variant(accelerator: str | None) -> str | None:
    """The build of vLLM for an accelerator (None: for this machine); None is vLLM's default build.

    An accelerator that no family recognises gets the default build, a machine without accelerators the one for CPU.
    """
    if accelerator is None:
        found = find_accelerators()
        if found is None:
            return "cpu"
        accelerator = found.name
    family = recognise(accelerator)[0]
    return family.variant if family else None


def visible_devices(environment: Mapping[str, str], *, first: int | None = None) -> tuple[int, ...]:
    """Numbers of the accelerators that a server with this environment uses, at most the `first` ones (None: all).

    Empty: none that this tool knows of.
    """
    numbers = (family.visible_devices(environment, first=first) for family in FAMILIES)
    return next((found for found in numbers if found), ())


def visible_setting(environment: Mapping[str, str]) -> str | None:
    """The devices that an environment limits a server to, as its variable lists them; None: it does not."""
    return next((environment[name] for name in VISIBLE_VARIABLES if name in environment), None)


@contextmanager
def watch_devices(numbers: Sequence[int]) -> Iterator[Watcher | None]:
    """A watcher of the accelerators with these numbers; None if they cannot be watched."""
    for family in FAMILIES:
        with family.watch(numbers) as watcher:
            if watcher is not None:
                yield watcher
                return
    yield None


def unwatched_note(accelerator: str | None) -> str | None:
    """What a run on this accelerator will not record, and what to do about it; None if it is watched or is a CPU."""
    family = recognise(accelerator)[0] if accelerator else None
    if accelerator is None or (family is not None and (family.platform == "cpu" or family.can_watch())):
        return None
    what = family.title if family else accelerator
    if family is None or family.how_to_watch is None:
        return f"{what} cannot be watched here: throttling and other processes are not recorded"
    return f"throttling and other processes on the {what} are not recorded: {family.how_to_watch} to have them watched"
