"""Whether a build would start with the user's arguments and read the user's variables.

By what its argument parser accepts and its sources read. Not for values that a build refuses later, when it knows the
model and the machine.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from regress_gate.accelerators.registry import identify
from regress_gate.model.deployment import Deployment
from regress_gate.model.version import Version
from regress_gate.text import did_you_mean, nearest
from regress_gate.vllm import release_tables
from regress_gate.vllm.build_config import Argument, ArgumentIndex, BuildConfig, argument_key

_ENV_CHECK = "fail_on_environ_validation"
"""The argument with which vLLM refuses to start for a VLLM_ variable that it does not know; else it only warns."""
_PLUGIN_VARIABLE = re.compile(r"VLLM_(ASCEND|GAUDI|HPU|RBLN|SPYRE|NEURON|METAL|TPU|KUNLUN|MUSA|CAMBRICON|OMNI|FL)_\w+")
"""Variables of platform plugins, which are packages of their own."""
_NEAR_VARIABLE = 0.85
"""Least similarity of a variable's name that counts as misspelt. VLLM_MODEL and VLLM_VERSION are below it."""
SUCCESSOR = re.compile(
    r"(?:\buse|replaced (?:by|with)|in favou?r of|renamed to)\s+[`'\"]?(-{0,2}[A-Za-z][\w.-]*\w)", re.I
)
"""The new name in vLLM's own text about a deprecation."""
_REMOVAL = re.compile(r"\bv?(\d+\.\d+(?:\.\d+)?)\b")


class RefusalKind(StrEnum):
    FLAG = "flag"
    """There is no such argument."""
    CHOICE = "choice"
    """The value is not one of the choices."""
    VALUE = "value"
    """It needs a value and has none, or the other way round."""
    VARIABLE = "variable"
    """It reads no variable of this name."""


@dataclass(frozen=True, slots=True)
class LaunchProblem:
    code: RefusalKind
    key: str
    """As the user wrote it, with underscores for dashes."""
    text: str
    """One line, which names the build."""
    hint: str = ""
    """The name that may have been meant, or what became of a variable that other versions read."""
    ignored: bool = False
    """The build starts, and what was given has no effect."""

    def __str__(self) -> str:
        return self.text + self.hint


@dataclass(frozen=True, slots=True)
class LaunchTest:
    """Whether a candidate takes a launch line."""

    problems: Sequence[LaunchProblem]
    """What the candidate refuses, or ignores although the baseline reads it."""
    notices: Sequence[str] = ()
    """What works and should be known: deprecations, and variables and keys without effect that no known baseline reads.
    One line each."""
    untested: str = ""
    """Why the line, or a part of it, was not tested; empty if it was."""


def try_launch_line(
    baseline: BuildConfig | None,
    candidate: BuildConfig | None,
    version: Version,
    deployment: Deployment,
) -> LaunchTest:
    """Try the arguments and variables on the candidate, which is `version`; None: its arguments are not known.

    vLLM only warns about a variable that it does not read, so it is a problem where the baseline reads it; else, as far
    as is known, the move changes nothing. People keep variables of their own under such names (VLLM_MODEL,
    VLLM_VERSION). It is always a problem where vLLM is told to refuse unknown variables.
    """
    engine_args, unknown_args = deployment.engine_args, deployment.unknown_args
    env = (*deployment.env, *deployment.unknown_env)
    if not engine_args and not unknown_args and not any(name.startswith("VLLM_") for name in env):
        return LaunchTest(())
    if is_fork(deployment.distribution):
        what = f"{deployment.distribution} may have other arguments than vLLM's own release"
        return LaunchTest((), untested=f"the launch line was not tested: {what}")
    if candidate is None:
        nearest_known = release_tables.nearest_release(version)
        return LaunchTest(
            (),
            untested=f"the launch line was not tested: the arguments of {version} are not known "
            f"(the nearest known release is {nearest_known})",
        )
    problems, notices, untested = [], _deprecations(candidate, engine_args), ""
    refused_before = set() if baseline is None else _refused(baseline, engine_args, env, unknown_args)
    for problem in find_launch_problems(candidate, engine_args, env, unknown_args):
        if _is_unsure(problem, candidate):
            untested = f"{flag_text(problem.key)} was not tested: not all arguments of {version} could be read"
            continue
        if problem.code is RefusalKind.FLAG and _takes_plugins(deployment) and not _known_name(problem):
            notices.append(f"{problem.text}; it may be an argument of the platform's plugin")
            continue
        explained = _explained(problem, baseline, candidate)
        if problem.ignored and baseline is not None and _is_idle(problem, baseline):
            notices.append(f"{problem}, and {baseline.version} does not read it either")
        elif problem.ignored and problem.code is RefusalKind.VARIABLE and not (baseline and baseline.env):
            notices.append(f"{explained}; whether the version that runs reads it is not known (--from RELEASE)")
        elif baseline is not None and (problem.code, problem.key) in refused_before:
            not_running = f"{baseline.version} does not take it either, so it is not the line that runs"
            problems.append(replace(explained, text=f"{explained}; {not_running}"))
        else:
            problems.append(explained)
    if "config" in engine_args:
        notices.append("what is in the file of --config is not known here, so it was not tested")
    if baseline is not None:
        problems += _names_gone(baseline, candidate, engine_args)
    return LaunchTest(tuple(problems), tuple(notices), untested)


_OFFICIAL = re.compile(
    r"vllm(-cpu)?|(docker\.io/)?vllm/vllm-(openai|tpu)\S*|\S*/vllm-(cpu-)?(release|ci)-repo\S*", re.I
)
_PLUGIN_PLATFORMS = ("ascend", "gaudi", "tpu", "other")


def is_fork(distribution: str | None) -> bool:
    """Whether a distribution or image is something else than a build of vLLM's own releases."""
    return distribution is not None and _OFFICIAL.fullmatch(distribution) is None


def _takes_plugins(deployment: Deployment) -> bool:
    """Whether the platform comes from a package of its own, which may add arguments."""
    platform = deployment.platform
    if platform is None and deployment.accelerator is not None:
        platform = identify(deployment.accelerator).platform
    return platform in _PLUGIN_PLATFORMS


def find_launch_problems(
    config: BuildConfig, engine_args: Mapping[str, Any], env: Iterable[str], unknown_args: Iterable[str] = ()
) -> list[LaunchProblem]:
    """What the build's parser refuses, and the variables that it does not read. Of `unknown_args` the values are not
    known, of `env` they do not matter."""
    index, unknown_args = ArgumentIndex(config.arguments), frozenset(unknown_args)
    problems = []
    for given, value in {**dict.fromkeys(unknown_args), **engine_args}.items() if config.arguments else ():
        key = argument_key(given)
        name = index.find(key)
        if name is None and key.startswith("no_") and value in (True, None):
            name, value = index.find(key.removeprefix("no_")), False
        if name is None and key == "optimization_level" and index.find("O") is not None:
            continue  # `-O3`, which older releases take as a level of their compilation configuration
        if name is None:
            problems.append(_unknown(config, index, key))
        elif "." not in key and given not in unknown_args:
            problems += _value_problems(config, config.arguments[name], key, value)
            problems += _group_problems(config, index, name, value)
    if config.env:
        refuses = engine_args.get(_ENV_CHECK) is True
        problems += [
            LaunchProblem(
                RefusalKind.VARIABLE,
                name,
                f"{config.version} refuses the unknown variable {name}"
                if refuses
                else f"{config.version} does not read the variable {name}",
                _variable_hint(config, name),
                ignored=not refuses,
            )
            for name in env
            if name.startswith("VLLM_") and not _reads(config, name)
        ]
    return problems


def _reads(config: BuildConfig, variable: str) -> bool:
    return variable in config.env or variable in config.mentioned or _PLUGIN_VARIABLE.fullmatch(variable) is not None


def _refused(
    config: BuildConfig, engine_args: Mapping[str, Any], env: Iterable[str], unknown_args: Iterable[str]
) -> set[tuple[RefusalKind, str]]:
    """What surely keeps the build from starting."""
    problems = find_launch_problems(config, engine_args, env, unknown_args)
    return {(one.code, one.key) for one in problems if not one.ignored and not _is_unsure(one, config)}


def _is_unsure(problem: LaunchProblem, config: BuildConfig) -> bool:
    """Whether the build may have the argument after all, because not all of its arguments could be read."""
    return problem.code is RefusalKind.FLAG and bool(config.unread)


def _is_idle(problem: LaunchProblem, baseline: BuildConfig) -> bool:
    """Whether what the candidate ignores has no effect in the baseline either, so that the move changes nothing."""
    if problem.code is RefusalKind.VARIABLE:
        return bool(baseline.env) and not _reads(baseline, problem.key)
    return any(one.key == problem.key and one.ignored for one in find_launch_problems(baseline, {problem.key: ""}, ()))


def _variable_hint(config: BuildConfig, name: str) -> str:
    known = release_tables.names_of("env")
    if name in known:
        became = _became(config, name)
        return f" ({became})" if became else ""
    if (near := nearest(name, config.env, cutoff=_NEAR_VARIABLE)) is not None:
        return f" (did you mean {near}?)"
    gone = nearest(name, known, cutoff=_NEAR_VARIABLE)
    return "" if gone is None else f" (did you mean {gone}, {_became(config, gone)}?)"


def _became(config: BuildConfig, variable: str) -> str:
    """The successor of a variable that the build does not read, else since or until when others read it."""
    successor = successor_of(variable, RefusalKind.VARIABLE, None, config)
    return f"now {successor}" if successor else release_tables.absence_text("env", variable, config.version)


def _explained(problem: LaunchProblem, baseline: BuildConfig | None, candidate: BuildConfig) -> LaunchProblem:
    """With what became of a name that other releases know."""
    successor = successor_of(problem.key, problem.code, baseline, candidate)
    parts = [problem.text]
    name = _known_name(problem)
    absence = "" if name is None else release_tables.absence_text(*name, candidate.version)
    if successor:
        parts.append(f"it is now {successor}")
    elif absence:
        parts.append(absence)
    elif problem.hint:
        parts[0] += problem.hint
    if baseline is not None and problem.code is RefusalKind.VARIABLE and _reads(baseline, problem.key):
        parts.append(f"{baseline.version} reads it")
    return LaunchProblem(problem.code, problem.key, "; ".join(parts), ignored=problem.ignored)


def _known_name(problem: LaunchProblem) -> tuple[str, str] | None:
    """The part and the name under which other releases know what is missing."""
    if problem.code is RefusalKind.VARIABLE:
        return ("env", problem.key)
    if problem.code is not RefusalKind.FLAG:
        return None
    name = release_tables.ever_known(problem.key)
    return None if name is None else ("arguments", name)


def successor_of(key: str, code: RefusalKind, baseline: BuildConfig | None, candidate: BuildConfig) -> str | None:
    """The new name of an argument or variable that the candidate does not have, where there is one."""
    index = ArgumentIndex(candidate.arguments)
    if key.startswith("O."):
        long = f"compilation_config{key[1:]}"
        return successor_of(long, code, baseline, candidate) or (
            f"--compilation-config{key[1:]}" if index.find(long) else None
        )
    if (named := release_tables.SUCCESSORS.get(key)) is not None:
        if named.startswith("VLLM_"):
            return named if named in candidate.env else None
        return named if index.find(argument_key(named.split()[0])) is not None else None
    if code is not RefusalKind.FLAG:
        return None
    known = [] if baseline is None else [baseline.arguments]
    last = release_tables.last_argument(key)
    for arguments in known:
        if (name := ArgumentIndex(arguments).find(key)) is not None:
            last = arguments[name]
    return None if last is None else successor_named(last, index, candidate)


def successor_named(argument: Argument, index: ArgumentIndex, candidate: BuildConfig) -> str | None:
    """The flag that vLLM's own deprecation named in place of the argument, where the candidate has it."""
    group = argument.flags[0].lstrip("-").rpartition(".")[0]
    for match in SUCCESSOR.finditer(argument.deprecated or ""):
        # Keys of a group are named without the group.
        name = index.find(argument_key(f"{group}.{match[1]}")) if group else None
        name = name or index.find(argument_key(match[1]))
        if name is not None:
            return candidate.arguments[name].flags[0]
    return None


def _deprecations(candidate: BuildConfig, engine_args: Mapping[str, Any]) -> list[str]:
    index = ArgumentIndex(candidate.arguments)
    notices = []
    for given in engine_args:
        key = argument_key(given)
        name = index.find(key) or index.find(key.removeprefix("no_"))
        argument = None if name is None else candidate.arguments[name]
        if argument is not None and argument.deprecated:
            text = "" if argument.deprecated == "deprecated" else f": {argument.deprecated}"
            notices.append(f"{flag_text(key)} is deprecated in {candidate.version}{text}")
    return notices


def _names_gone(baseline: BuildConfig, candidate: BuildConfig, engine_args: Mapping[str, Any]) -> list[LaunchProblem]:
    """Values of vLLM's own lists that the baseline names and the candidate no longer does."""
    before, after = ArgumentIndex(baseline.arguments), ArgumentIndex(candidate.arguments)
    problems = []
    for given, value in engine_args.items():
        key = argument_key(given)
        old, new = before.find(key), after.find(key)
        if old is None or new is None or not isinstance(value, str):
            continue
        was = baseline.arguments[old].names or baseline.arguments[old].choices
        now = candidate.arguments[new].names
        if was is not None and now is not None and _spelled(value, was) and not _spelled(value, now):
            text = f"{candidate.version} no longer has {value!r} for {flag_text(key)}; {baseline.version} has it"
            problems.append(LaunchProblem(RefusalKind.CHOICE, key, text))
    return problems


def _spelled(value: str, names: Sequence[str]) -> bool:
    return value.lower().replace("-", "_") in {name.lower().replace("-", "_") for name in names}


def flag_text(key: str) -> str:
    """`max_model_len` as it is typed."""
    group, dot, inner = key.partition(".")
    return f"{'-' if len(group) == 1 else '--'}{group.replace('_', '-')}{dot}{inner}"


def group_keys(value: Any) -> list[str]:
    """The keys that a value of a group sets, dotted where they are nested. Its JSON may be text or already parsed."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    keys = []
    waiting = [("", value)]
    while waiting:
        prefix, group = waiting.pop()
        for key, inner in group.items() if isinstance(group, dict) else ():
            keys.append(f"{prefix}{key}")
            waiting.append((f"{prefix}{key}.", inner))
    return sorted(keys)


def _unknown(config: BuildConfig, index: ArgumentIndex, key: str) -> LaunchProblem:
    near = nearest(key, [known for known in index.keys if ("." in known) == ("." in key)], cutoff=0.8)
    hint = "" if near is None else f" (did you mean {flag_text(near)}?)"
    group = index.find(key.rpartition(".")[0]) if "." in key else None
    if group is not None and config.arguments[group].ignores_unknown:
        return LaunchProblem(RefusalKind.FLAG, key, f"{config.version} ignores {flag_text(key)}", hint, ignored=True)
    return LaunchProblem(RefusalKind.FLAG, key, f"{config.version} has no {flag_text(key)}", hint)


def _group_problems(config: BuildConfig, index: ArgumentIndex, name: str, value: Any) -> list[LaunchProblem]:
    keys = [f"{name}.{inner}" for inner in group_keys(value)]
    unknown = {key for key in keys if index.find(key) is None}
    return [_unknown(config, index, key) for key in keys if key in unknown and key.rpartition(".")[0] not in unknown]


def _value_problems(config: BuildConfig, argument: Argument, key: str, value: Any) -> list[LaunchProblem]:
    def problem(code: RefusalKind, what: str) -> list[LaunchProblem]:
        return [LaunchProblem(code, key, f"in {config.version} {flag_text(key)} {what}")]

    if value is False and not any(flag.startswith("--no-") for flag in argument.flags):
        return problem(RefusalKind.VALUE, f"cannot be switched off with {flag_text('no_' + key)}")
    if value is True and argument.values in ("one", "many"):
        return problem(RefusalKind.VALUE, "needs a value")
    if not isinstance(value, bool) and argument.values == "none":
        return problem(RefusalKind.VALUE, "takes no value")
    if isinstance(value, bool):
        return []
    if (wanted := _wanted_type(value, argument)) is not None:
        return problem(RefusalKind.VALUE, wanted)
    if argument.choices is None:
        return []
    # A function of vLLM's own may change the spelling before it looks among the choices.
    exact = argument.type is not None
    refused = [
        one
        for one in _words(value, argument)
        if one not in argument.choices
        and not (argument.optional and one in ("", "None"))
        and (exact or not _spelled(one, argument.choices))
    ]
    if not refused:
        return []
    return problem(RefusalKind.CHOICE, f"cannot be {refused[0]!r}{did_you_mean(refused[0], argument.choices)}")


_SIZE = re.compile(r"\s*([0-9_]+|[0-9]+(\.[0-9]+)?[kmgt]|[0-9]+[KMGT])\s*")
_INTEGER = re.compile(r"\s*[-+]?[0-9]+(_[0-9]+)*\s*")
_NUMBER = re.compile(
    r"\s*[-+]?([0-9]+(_[0-9]+)*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*|\s*[-+]?(inf|nan|infinity)\s*", re.I
)


def _wanted_type(value: Any, argument: Argument) -> str | None:
    """What the parser wants instead of the value; None if it takes it or its type is not known."""
    for word in _words(value, argument):
        if argument.optional and word in ("", "None"):
            continue
        match argument.type:
            case "int" if not _INTEGER.fullmatch(word):
                return f"must be a whole number, not {word!r}"
            case "float" if not _NUMBER.fullmatch(word):
                return f"must be a number, not {word!r}"
            case "size" | "size_or_auto" if not _SIZE.fullmatch(word):
                if argument.type == "size_or_auto" and word.strip().lower() in ("auto", "-1"):
                    continue
                if _INTEGER.fullmatch(word):
                    continue
                return f"must be a whole number such as 32768 or 32k, not {word!r}"
            case "json" if isinstance(value, str) and argument.values == "one" and not _is_json(word):
                return f"must be JSON, not {word!r}"
    return None


def _is_json(text: str) -> bool:
    """Sizes such as `80m` in an object are taken too, by newer releases."""
    try:
        json.loads(re.sub(r"(?<=[:\[,\s])([0-9.]+)[kKmMgGtT](?=[\s,}\]])", r"\1", text))
    except (ValueError, RecursionError):
        return False
    return True


def _words(value: Any, argument: Argument) -> list[str]:
    if argument.values == "many" and isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
