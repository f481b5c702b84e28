"""Run by the Python of a vLLM environment, alone, with nothing but the standard library and vLLM itself.

Writes one JSON object to the standard output it was given: `arguments`, `env`, `packages`, and `missing`, which says
why a part is not there. Builds the parser of `vllm serve` and reads the table of variables; loads no model, asks no
device. vLLM's own modules are reached by name because they have moved: the parser's was
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
"""In place of a default that the machine, and not the build, decides."""
GROUP = "<group>"
"""In place of a group of settings, whose keys are listed by themselves one level down."""
REQUIRED = "<required>"
MAX_DEPTH = 3
"""Of groups in groups."""
MAX_TEXT = 400
"""Characters of a default's text, and of a deprecation."""
_PARSER_MODULES = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
_DEPRECATED = re.compile(
    r"^deprecated\b|\b(is|are|been) (now )?deprecated|\(deprecated|deprecated:|been replaced by|will be removed", re.I
)
"""How vLLM's documentation says it of an argument; many a living one mentions deprecated things."""


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON that is the same on every machine: sets sorted, classes by name, no addresses, no paths."""
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
    """Directories of this machine."""
    places = [sys.prefix, str(Path.home()), os.environ.get("HOME", ""), tempfile.gettempdir(), str(Path.cwd())]
    return [place for place in places if len(place) > 1]


def serve_parser() -> argparse.ArgumentParser:
    """The parser of `vllm serve`, made by vLLM as its command line makes it."""
    # vLLM reads the documentation of its arguments only where help is asked for, and leaves `--model` out for `serve`.
    sys.argv = ["vllm", "--help"]
    try:
        serve = importlib.import_module("vllm.entrypoints.cli.serve")
        subparsers = _flexible_parser().add_subparsers()
        return typing.cast(argparse.ArgumentParser, serve.cmd_init()[0].subparser_init(subparsers))
    except Exception:
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
    raise ImportError("vLLM has no FlexibleArgumentParser where it used to be")


def read_arguments(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """By destination. A group of settings (`compilation_config`) has one entry more for each of its keys."""
    hints = _engine_hints()
    deprecated: set[argparse.Action] = getattr(parser, "_deprecated", set())
    found: dict[str, Any] = {}
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
        if action.dest in found:  # one destination, two actions: `--x` and `--disable-x`
            entry["flags"] = found[action.dest]["flags"] + entry["flags"]
        found[action.dest] = entry
        flag = next((flag for flag in action.option_strings if flag.startswith("--")), action.option_strings[0])
        for key, default in _group_defaults(group).items():
            found[f"{action.dest}.{key}"] = {"flags": [f"{flag}.{key}"], "default": default}
    return found


def _values(action: argparse.Action) -> str:
    if action.nargs == 0:
        return "none"
    if action.nargs == "?":
        return "optional"
    appends = isinstance(action, (argparse._AppendAction, argparse._ExtendAction))
    return "many" if action.nargs in ("*", "+") or isinstance(action.nargs, int) or appends else "one"


def _deprecation(action: argparse.Action, flagged: bool) -> str | None:
    """What the documentation says of its deprecation; a mere "deprecated" where only the parser knows."""
    text = " ".join((action.help or "").split()).replace("%%", "%")
    sentences = re.split(r"(?<=[.!])\s+(?=[A-Z`-])", text)
    said = [number for number, sentence in enumerate(sentences) if _DEPRECATED.search(sentence)]
    if said:
        return " ".join(sentences[said[0] : said[-1] + 2])[:MAX_TEXT]
    return "deprecated" if flagged else None


def _engine_hints() -> dict[str, Any]:
    """The types of the engine's arguments, one by one: a name that is there for type checkers alone spoils only one."""
    try:
        module = importlib.import_module("vllm.engine.arg_utils")
        engine = getattr(module, "AsyncEngineArgs", None) or module.EngineArgs
        return {field.name: _resolved(field.name, field.type, vars(module)) for field in dataclasses.fields(engine)}
    except Exception:
        traceback.print_exc()
        return {}


def _resolved(name: str, hint: Any, names: dict[str, Any]) -> Any:
    try:
        return eval(hint, names) if isinstance(hint, str) else hint  # noqa: S307 - an annotation of vLLM's own
    except Exception as error:  # an annotation may run any code; it costs its own hint and nothing else
        sys.stderr.write(f"the type of {name}, {hint}, cannot be read: {error!r}\n")
        return None


def _dataclass_in(hint: Any) -> type | None:
    if dataclasses.is_dataclass(hint):
        return hint if isinstance(hint, type) else None
    inner = (_dataclass_in(part) for part in typing.get_args(hint))
    return next((part for part in inner if part is not None), None)


def _group_defaults(group: type | None, depth: int = 0) -> dict[str, Any]:
    """What each key of a group is when nobody sets it, dotted for groups in groups.

    Read from the class: an object may have put something in place of what nobody set.
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
    """Of a field of the standard library's dataclasses or of pydantic's."""
    if callable(info.default_factory):
        try:
            return plain(info.default_factory())
        except Exception:  # what only the machine that serves can make
            return COMPUTED
    undefined = info.default is dataclasses.MISSING or type(info.default).__name__ == "PydanticUndefinedType"
    return REQUIRED if undefined else plain(info.default)


def read_env(table: dict[str, Any]) -> dict[str, Any]:
    """Each variable's value when nothing is set; computed where two unlike machines give two values."""
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
    found = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            found[re.sub(r"[-_.]+", "-", str(name)).lower()] = str(distribution.version)
    return dict(sorted(found.items()))


def main() -> None:
    # vLLM, and what it imports, may print to standard output: only the answer goes there.
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
        except BaseException as error:  # a build may call sys.exit; what the other parts give is still worth having
            traceback.print_exc()
            document["missing"][part] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAX_TEXT]
    json.dump(document, answer)
    answer.close()


if __name__ == "__main__":
    main()
