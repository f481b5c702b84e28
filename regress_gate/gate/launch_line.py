"""Whether a build would start with the user's arguments, by what its argument parser accepts.

Not for values that a build refuses later, when it knows the model and the machine.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from regress_gate.text import did_you_mean, nearest
from regress_gate.vllm.build_config import Argument, ArgumentIndex, BuildConfig, argument_key

_ENV_CHECK = "fail_on_environ_validation"
"""The argument with which vLLM refuses to start for a VLLM_ variable that it does not know; else it only warns."""


class RefusalKind(StrEnum):
    FLAG = "flag"
    """There is no such argument."""
    CHOICE = "choice"
    """The value is not one of the choices."""
    VALUE = "value"
    """It needs a value and has none, or the other way round."""
    VARIABLE = "variable"


@dataclass(frozen=True, slots=True)
class LaunchProblem:
    code: RefusalKind
    key: str
    """As the user wrote it, with underscores for dashes."""
    text: str
    """One line, which names the build."""
    hint: str = ""
    """A flag that may have been meant. Not shown where the flag is right for another version."""

    def __str__(self) -> str:
        return self.text + self.hint


def launch_problem_texts(config: BuildConfig, engine_args: Mapping[str, Any], env: Mapping[str, str]) -> list[str]:
    """Why the build would not start, one line each; empty if its parser accepts everything or is not known."""
    return [str(problem) for problem in find_launch_problems(config, engine_args, env)]


def find_launch_problems(
    config: BuildConfig, engine_args: Mapping[str, Any], env: Mapping[str, str]
) -> list[LaunchProblem]:
    index = ArgumentIndex(config.arguments)
    problems = []
    for given, value in engine_args.items() if config.arguments else ():
        key = argument_key(given)
        name = index.find(key)
        if name is None and key.startswith("no_") and value is True:
            name, value = index.find(key.removeprefix("no_")), False
        if name is None:
            problems.append(_unknown(config, index, key))
        elif "." not in key:
            problems += _value_problems(config, config.arguments[name], key, value)
            problems += _group_problems(config, index, name, value)
    if config.env and engine_args.get(_ENV_CHECK) is True:
        problems += [
            LaunchProblem(RefusalKind.VARIABLE, name, f"{config.version} refuses the unknown variable {name}")
            for name in env
            if name.startswith("VLLM_") and name not in config.env
        ]
    return problems


def flag_text(key: str) -> str:
    """`max_model_len` as it is typed."""
    group, dot, inner = key.partition(".")
    return f"--{group.replace('_', '-')}{dot}{inner}"


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
    if argument.choices is None or isinstance(value, bool):
        return []
    refused = [one for one in _words(value, argument) if one not in argument.choices]
    if not refused:
        return []
    return problem(RefusalKind.CHOICE, f"cannot be {refused[0]!r}{did_you_mean(refused[0], argument.choices)}")


def _words(value: Any, argument: Argument) -> list[str]:
    if argument.values == "many" and isinstance(value, str) and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
