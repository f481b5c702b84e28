"""A program for the Python of a vLLM environment; it imports nothing but the standard library and vLLM.

Writes one JSON object to standard output: `arguments`, `env`, `packages`, and `missing` with the reasons why a part is
missing. Builds the parser of `vllm serve` and reads the table of variables; loads no model and uses no device. vLLM's
modules are imported by name because they have moved: the parser's was
`vllm.entrypoints.openai.cli_args` in 0.19 and `vllm.entrypoints.launchers.cli_args` in 0.32.
"""

import argparse
import dataclasses
import enum
import importlib
import importlib.metadata
import json
import os
import re
import socket
import sys
import tempfile
import traceback
import typing
from pathlib import Path
from typing import Any

COMPUTED = "<computed>"
"""In place of a default that depends on the machine."""
GROUP = "<group>"
"""In place of a group of settings; its keys have entries of their own."""
REQUIRED = "<required>"
MAX_DEPTH = 3
"""Levels of groups in groups."""
MAX_TEXT = 400
"""Characters of the text of a default or a deprecation."""
_PARSER_MODULES = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
_DEPRECATED = re.compile(
    r"^deprecated\b|\b(is|are|been) (now )?deprecated|\(deprecated|deprecated:|been replaced by|will be removed", re.I
)
"""vLLM's wordings for a deprecated argument; the help of other arguments also mentions deprecated things."""


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON that is equal on every machine: sets sorted, classes by name, no addresses, no paths."""
    if isinstance(value, enum.Enum):
        return plain(value.value if isinstance(value.value, (str, int)) else value.name)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, str):
        return COMPUTED if any(place in value for place in _places()) else value[:MAX_TEXT]
    if depth > 4:
        return f"<{type(value).__name__}>"
    if isinstance(value, dict):
        return {str(plain(key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item, depth + 1) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, type):
        return value.__qualname__
    if dataclasses.is_dataclass(value):
        return GROUP
    return f"<{type(value).__name__}>"


def _places() -> list[str]:
    """Directories of this machine, which must not appear in values."""
    places = [sys.prefix, str(Path.home()), os.environ.get("HOME", ""), tempfile.gettempdir(), str(Path.cwd())]
    return [place for place in places if len(place) > 1]


def serve_parser() -> argparse.ArgumentParser:
    """The parser of `vllm serve`, built as vLLM's command line builds it."""
    # vLLM reads the help of its arguments only if help is requested, and leaves out `--model` for `serve`.
    sys.argv = ["vllm", "--help"]
    try:
        serve = importlib.import_module("vllm.entrypoints.cli.serve")
        subparsers = _flexible_parser().add_subparsers()
        return typing.cast(argparse.ArgumentParser, serve.cmd_init()[0].subparser_init(subparsers))
    except Exception:  # other builds lay this out otherwise: try the older places, and if none has it, raise this error
        for name in _PARSER_MODULES:
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            return typing.cast(argparse.ArgumentParser, module.make_arg_parser(_flexible_parser()))
        raise


def _flexible_parser() -> Any:
    for name in ("vllm.utils.argparse_utils", "vllm.utils"):
        try:
            return importlib.import_module(name).FlexibleArgumentParser()
        except (ImportError, AttributeError):
            continue
    raise ImportError("FlexibleArgumentParser is in none of the known modules of vLLM")


def read_arguments(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Arguments by destination. Each key of a group of settings (`compilation_config`) has an entry too."""
    hints = _engine_hints()
    deprecated: set[argparse.Action] = getattr(parser, "_deprecated", set())
    arguments: dict[str, Any] = {}
    for action in parser._actions:
        if action.dest in ("help", "model_tag") or not action.option_strings:
            continue
        group = _dataclass_in(hints.get(action.dest)) or (
            type(action.default) if dataclasses.is_dataclass(action.default) else None
        )
        entry = {
            "flags": list(action.option_strings),
            "default": None if action.default is argparse.SUPPRESS else plain(action.default),
            "choices": sorted({str(plain(one)) for one in action.choices}) if action.choices else None,
            "values": _values(action),
            "deprecated": _deprecation(action, action in deprecated),
        }
        if action.dest in arguments:  # one destination, two actions: `--x` and `--disable-x`
            entry["flags"] = arguments[action.dest]["flags"] + entry["flags"]
        arguments[action.dest] = entry
        flag = next((flag for flag in action.option_strings if flag.startswith("--")), action.option_strings[0])
        keys = _group_defaults(group) if group else _group_defaults(_made_later(action.dest), MAX_DEPTH - 1)
        for key, default in keys.items():
            arguments[f"{action.dest}.{key}"] = {"flags": [f"{flag}.{key}"], "default": default}
    return arguments


def _values(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "none"
    if action.nargs == "?":
        return "optional"
    appends = isinstance(action, (argparse._AppendAction, argparse._ExtendAction))
    return "many" if action.nargs in ("*", "+") or isinstance(action.nargs, int) or appends else "one"


def _deprecation(action: argparse.Action, flagged: bool) -> str | None:
    """The sentences of the help about the deprecation; "deprecated" if only the parser marks it."""
    text = " ".join((action.help or "").split()).replace("%%", "%")
    sentences = re.split(r"(?<=[.!])\s+(?=[A-Z`-])", text)
    matching = [number for number, sentence in enumerate(sentences) if _DEPRECATED.search(sentence)]
    if matching:
        return " ".join(sentences[matching[0] : matching[-1] + 2])[:MAX_TEXT]
    return "deprecated" if flagged else None


def _engine_hints() -> dict[str, Any]:
    """The types of the engine's arguments, resolved one by one: a name for type checkers alone fails only for one."""
    try:
        module = importlib.import_module("vllm.engine.arg_utils")
        engine = getattr(module, "AsyncEngineArgs", None) or module.EngineArgs
        return {field.name: _resolved(field.name, field.type, vars(module)) for field in dataclasses.fields(engine)}
    except Exception:  # importing runs vLLM's own code: the trace goes to the log, and only the types are lost
        traceback.print_exc()
        return {}


def _resolved(name: str, hint: Any, names: dict[str, Any]) -> Any:
    try:
        return eval(hint, names) if isinstance(hint, str) else hint  # nosec B307 # noqa: S307 - an annotation of vLLM's own
    except Exception as error:  # an annotation may run any code; only its own hint is lost
        sys.stderr.write(f"the type of {name}, {hint}, cannot be read: {error!r}\n")
        return None


def _dataclass_in(hint: Any) -> type | None:
    if dataclasses.is_dataclass(hint):
        return hint if isinstance(hint, type) else None
    inner = (_dataclass_in(part) for part in typing.get_args(hint))
    return next((part for part in inner if part is not None), None)


def _made_later(name: str) -> type | None:
    """The class that vLLM makes of an argument which its parser takes as any JSON.

    What it holds of other classes is vLLM's to fill in, so its keys are read one deep.
    """
    try:
        made = importlib.import_module("vllm.config").SpeculativeConfig if name == "speculative_config" else None
    except Exception:  # importing runs vLLM's own code: the trace goes to the log, and only these keys are lost
        traceback.print_exc()
        return None
    return made if isinstance(made, type) and dataclasses.is_dataclass(made) else None


def _group_defaults(group: type | None, depth: int = 0) -> dict[str, Any]:
    """The default of each key of a group, with dots for groups in groups.

    Read from the class, because an object may have replaced a default.
    """
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(group) if group and depth < MAX_DEPTH else ():
        info = field.default if hasattr(field.default, "default_factory") else field
        if not field.init or getattr(info, "init", True) is False:
            continue
        defaults[field.name] = _default_of(info)
        inner = _dataclass_in(_resolved(field.name, field.type, vars(sys.modules[group.__module__]))) if group else None
        for key, default in _group_defaults(inner, depth + 1).items():
            defaults[f"{field.name}.{key}"] = default
    return defaults


def _default_of(info: Any) -> Any:
    """The default of a field of a dataclass, of the standard library or of pydantic."""
    if callable(info.default_factory):
        try:
            return plain(info.default_factory())
        except Exception:  # a default that only the serving machine has
            return COMPUTED
    undefined = info.default is dataclasses.MISSING or type(info.default).__name__ == "PydanticUndefinedType"
    return REQUIRED if undefined else plain(info.default)


def read_env(table: dict[str, Any]) -> dict[str, Any]:
    """The value of each variable if it is not set; `<computed>` if two simulated machines give two values."""
    first, second = _evaluate(table, 3), _evaluate(table, 48)
    return {name: first[name] if first[name] == second[name] else COMPUTED for name in sorted(table)}


def _evaluate(table: dict[str, Any], number: int) -> dict[str, Any]:
    kept = dict(os.environ), os.cpu_count, socket.gethostname, tempfile.tempdir
    os.environ.clear()
    os.environ.update({"HOME": f"/machine-{number}", "PATH": kept[0].get("PATH", "")})
    os.cpu_count = lambda: number
    socket.gethostname = lambda: f"machine-{number}"
    tempfile.tempdir = f"/machine-{number}/temporary"
    values = {}
    try:
        for name, get in table.items():
            try:
                values[str(name)] = plain(get())
            except Exception as error:
                values[str(name)] = f"<{type(error).__name__}>"
    finally:
        os.environ.clear()
        os.environ.update(kept[0])
        os.cpu_count, socket.gethostname, tempfile.tempdir = kept[1:]
    return values


def read_packages() -> dict[str, str]:
    packages = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            packages[re.sub(r"[-_.]+", "-", str(name)).lower()] = str(distribution.version)
    return dict(sorted(packages.items()))


def main() -> None:
    # vLLM and its imports may print to standard output, so that is redirected: only the answer goes there.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    document: dict[str, Any] = {"missing": {}}
    parts: dict[str, Any] = {
        "packages": read_packages,
        "arguments": lambda: read_arguments(serve_parser()),
        "env": lambda: read_env(dict(importlib.import_module("vllm.envs").environment_variables)),
    }
    for part, read in parts.items():
        try:
            document[part] = read()
        except BaseException as error:  # a build may call sys.exit; the other parts are still useful
            traceback.print_exc()
            document["missing"][part] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAX_TEXT]
    json.dump(document, answer)
    answer.close()


if __name__ == "__main__":
    main()
