"""What the METADATA of a wheel or of an installed package demands of other packages, without extras.

Not for: which versions are installed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.parser import HeaderParser

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

Machine = Mapping[str, str]
"""What markers ask for, by their names."""
DemandedVersions = Mapping[str, SpecifierSet | None]
"""Normalised name to the versions that are demanded, None if they are not known. Other packages are not demanded."""


def linux_machine(processor: str, python: str) -> Machine:
    """`linux_machine("x86_64", "3.12")`, which asks for no extras."""
    return {
        "platform_machine": processor, "sys_platform": "linux", "platform_system": "Linux", "extra": "",
        "python_version": python, "python_full_version": f"{python}.0",
    }  # fmt: skip


X86_64 = linux_machine("x86_64", "3.12")
"""For which every release since 0.8.5 has a wheel."""
ANY_MACHINE = tuple(
    linux_machine(processor, python)
    for processor in ("x86_64", "aarch64")
    for python in ("3.10", "3.11", "3.12", "3.13", "3.14")
)
"""For a build of which it is not known where it will run."""


def read_requirements(metadata: str) -> Iterator[Requirement | None]:
    """Every requirement, those of extras and of other machines too; None for one that nobody can read."""
    for line in HeaderParser().parsestr(metadata).get_all("Requires-Dist") or ():
        try:
            yield Requirement(line)
        except InvalidRequirement:
            yield None


def is_demanded(requirement: Requirement, machine: Machine) -> bool | None:
    """Whether a machine needs it; None if its marker cannot be evaluated."""
    try:
        return requirement.marker is None or requirement.marker.evaluate(dict(machine))
    except (UndefinedComparison, UndefinedEnvironmentName):
        return None


def demanded_versions(metadata: str | None, machines: Sequence[Machine]) -> DemandedVersions | None:
    """What all these machines need; what only some of them need is not known. None if the metadata is missing, names
    no requirement, or has one that cannot be read."""
    requirements = list(read_requirements(metadata or ""))
    named: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        if requirement is None:
            return None
        named.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    found: dict[str, SpecifierSet | None] = {}
    for name, listed in named.items():
        needs = {_needed([(is_demanded(one, machine), one) for one in listed]) for machine in machines}
        if needs != {_NOTHING}:
            found[name] = _versions(needs.pop()) if len(needs) == 1 else None
    return found if named else None


_NOTHING: frozenset[str] = frozenset()
_UNKNOWN = frozenset({"?"})


def _needed(listed: Iterable[tuple[bool | None, Requirement]]) -> frozenset[str]:
    """The specifiers of one package that one machine needs: `{""}` for any version."""
    needed = set()
    for demanded, requirement in listed:
        # An address, or `===`, names a build and no versions that could be compared.
        if demanded is None or (demanded and (requirement.url or "===" in str(requirement.specifier))):
            return _UNKNOWN
        if demanded:
            needed.add(str(requirement.specifier))
    return frozenset(needed)


def _versions(needed: frozenset[str]) -> SpecifierSet | None:
    return None if needed == _UNKNOWN else SpecifierSet(",".join(sorted(one for one in needed if one)))
