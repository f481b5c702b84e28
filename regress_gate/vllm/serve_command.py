"""Parsing a `vllm serve` line from a script into facts about a deployment.

Which words are values depends on the arguments of vLLM: the known builds decide, and an unknown flag takes the next
word as its value. Nothing is run or expanded, and no file is read but that of `with_config_file`.
"""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from regress_gate.errors import InputError
from regress_gate.files import read_bounded
from regress_gate.model.deployment import Deployment
from regress_gate.model.documents import parse_yaml
from regress_gate.text import excerpt
from regress_gate.vllm.build_config import Argument, ArgumentIndex, BuildConfig, argument_key
from regress_gate.vllm.shell_words import is_open, is_wholly_open, shown

_WHERE = "--serve-command"
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_NEGATIVE_NUMBER = re.compile(r"-\d+(\.\d*)?|-\.\d+")
_LEVEL = re.compile(r"-O=?([^.].*)", re.DOTALL)
_NAMES_MODEL = re.compile(r"model|repo|checkpoint|ckpt|path|uri|url|dir|name|id\b", re.IGNORECASE)
MOST_CONFIG_BYTES = 1024 * 1024
API_SERVER = "vllm.entrypoints.openai.api_server"
"""The module that started a server before `vllm serve`."""


@dataclass
class _Reading:
    model: str | None = None
    engine_args: dict[str, str | None] = field(default_factory=dict)
    """Values as written; None for a flag without a value."""
    lists: dict[str, list[str]] = field(default_factory=dict)
    is_complete: bool = True
    """False: words that are not known may be further arguments."""


def with_config_file(line: str, directory: Path) -> str:
    """The line with the arguments of the file that `--config` names in the place where vLLM puts them: before those of
    the line, which win. Relative names are looked up in the directory. As it was if it names no file that is here.

    Raises InputError for a file that vLLM could not read either.
    """
    words = _words(line)
    place = next((at for at, word in enumerate(words) if word == "--config" or word.startswith("--config=")), None)
    if place is None:
        return line
    length = 1 if "=" in words[place] else 2
    path = directory / "".join(words[place : place + length]).removeprefix("--config").removeprefix("=")
    if is_open(str(path)) or not path.is_file():
        return line
    start = len(words) - len(_arguments(list(words)))
    names_model = not words[start].startswith("-")
    added = [word for word in _words_of_config(path) if not (names_model and word.startswith("--model="))]
    rest = words[:place] + words[place + length :]
    return shlex.join([*rest[: start + names_model], *added, *rest[start + names_model :]])


def _words_of_config(path: Path) -> Iterator[str]:
    """As vLLM 0.6 to 0.33 do (`load_config_file`): a switch that is off says nothing."""
    if path.suffix not in (".yaml", ".yml"):
        raise InputError("vLLM takes a file of --config only by the ending .yaml or .yml", where=path)
    try:
        content = read_bounded(path, MOST_CONFIG_BYTES)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None
    if content is None:
        raise InputError(f"is larger than {MOST_CONFIG_BYTES} bytes", where=path, todo="give the file of --config")
    text = content.decode(errors="replace")
    parse_yaml(text, path)  # refuses what is not YAML, with the line, and what would grow without bound
    data = yaml.safe_load(text)  # the values as vLLM reads them: `no` is false
    if not isinstance(data, dict):
        raise InputError("holds no arguments; write one `argument: value` on each line", where=path)
    for key, value in data.items():
        if isinstance(value, bool):
            yield from [f"--{key}"] * value
        elif isinstance(value, list):
            yield from [f"--{key}", *map(str, value)] if value else ()
        else:
            yield f"--{key}={json.dumps(value) if isinstance(value, dict) else value}"


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line.replace("\\\r\n", " ").replace("\\\n", " "))
    except ValueError as error:
        raise InputError(f"cannot be read: {str(error).lower()}", where=_WHERE) from None


def parse_serve_command(line: str, builds: Sequence[BuildConfig] = ()) -> Deployment:
    """The model, engine arguments and variables of a line. Of a repeated flag the last one counts, as for vLLM, unless
    the flag collects values.

    Raises InputError for a line that does not start a vLLM server.
    """
    words = _words(line)
    env: dict[str, str] = {}
    while words and (words[0] in ("env", "exec", "nohup") or _ASSIGNMENT.fullmatch(words[0])):
        if match := _ASSIGNMENT.fullmatch(words.pop(0)):
            env[match[1]] = match[2]
    variables = Deployment.from_flags(env=tuple(f"{key}={value}" for key, value in env.items())).env
    parsed = parse_serve_words(_arguments(words), builds)
    return parsed.model_copy(update={"env": variables, "complete": False})


def parse_serve_words(words: Sequence[str], builds: Sequence[BuildConfig] = (), *, where: str = _WHERE) -> Deployment:
    """The words after `vllm serve`. `complete` says whether they are all: words may stand for more that is not known
    (`shell_words`), and `--config` names a file with more."""
    reading = _Reading()
    indexes = [(build, ArgumentIndex(build.arguments)) for build in builds]
    waiting = list(words)
    while waiting:
        _read_one(waiting, reading, indexes, where)
    for key, values in reading.lists.items():
        reading.engine_args[key] = values[0] if len(values) == 1 else json.dumps(values, ensure_ascii=False)
    unknown = [key for key, value in reading.engine_args.items() if value is not None and is_open(value)]
    known = {key: value for key, value in reading.engine_args.items() if key not in unknown}
    model = reading.model or known.pop("model", None)
    deployment = Deployment.from_flags(
        model=None if model is None or is_open(model) else model,
        quantization=known.get("quantization"),
        engine_args=tuple(key if value is None else f"{key}={value}" for key, value in known.items()),
    )
    complete = reading.is_complete and "config" not in reading.engine_args
    unknown_args = tuple(key for key in unknown if key != "model")
    return deployment.model_copy(update={"complete": complete, "unknown_args": unknown_args})


def _arguments(words: list[str]) -> list[str]:
    """The words after `vllm serve`, or after the module that was used before it."""
    for place, word in enumerate(words[:-1]):
        if word.rpartition("/")[2] == "vllm" and words[place + 1] == "serve":
            return words[place + 2 :]
        if word == "-m" and words[place + 1] == API_SERVER:
            return words[place + 2 :]
    raise InputError("no `vllm serve` found", where=_WHERE, todo="write the line from `vllm serve` on")


def _read_one(
    words: list[str], reading: _Reading, indexes: Sequence[tuple[BuildConfig, ArgumentIndex]], where: str
) -> None:
    word = words.pop(0)
    if word == "-O" and words and re.fullmatch("[0-3]", words[0]):
        word += words.pop(0)
    if level := _LEVEL.fullmatch(word):
        reading.engine_args["optimization_level"] = level[1]
        return
    if not word.startswith("-") or word == "-" or _NEGATIVE_NUMBER.fullmatch(word):
        if is_wholly_open(word) and (reading.model is not None or "model" in reading.engine_args):
            reading.is_complete = False
        elif reading.model is None:
            reading.model = word
            # `vllm serve ${ARGS}`: the model and more.
            reading.is_complete &= not is_wholly_open(word) or _NAMES_MODEL.search(shown(word)) is not None
        else:
            raise InputError(
                f"{excerpt(word, 60)!r} belongs to no argument", where=where, todo="quote values with spaces"
            )
        return
    flag, equals, value = word.partition("=")
    if is_open(flag):  # which argument it is
        reading.is_complete = False
        return
    key, argument = _known(argument_key(flag), indexes)
    if equals:
        values = [value]
    elif argument is None or "." in key:
        values = list(_taken(words, 1))
    else:
        values = list(_taken(words, {"none": 0, "one": 1, "optional": 1, "many": len(words)}[argument.values]))
    if argument is not None and argument.values == "many":
        reading.lists.setdefault(key, []).extend(values)
    elif values:
        reading.engine_args[key] = values[0]
    elif key.startswith("no_") and (argument is None or argument.values == "none"):
        reading.engine_args[key.removeprefix("no_")] = "false"
    else:
        reading.engine_args[key] = None


def _known(key: str, indexes: Sequence[tuple[BuildConfig, ArgumentIndex]]) -> tuple[str, Argument | None]:
    """The key in its long form, and the argument of the first build that has it.

    `-O` with an object or a key is that of the first build, or none: releases before 0.12 take it for
    `--compilation-config`, and 0.12 still takes a key.
    """
    is_former = re.fullmatch(r"O(\..+)?", key) is not None
    if is_former and indexes and str(indexes[0][0].version.number).startswith("0.12."):
        key = re.sub(r"^O\.", "compilation_config.", key)
    for build, index in indexes[:1] if is_former else indexes:
        if name := index.find(key):
            argument = build.arguments[name]
            if key.startswith("no_") and f"--{key.replace('_', '-')}" in argument.flags:
                return key, argument
            _, dot, inner = key.partition(".")
            long = next((flag for flag in argument.flags if flag.startswith("--")), argument.flags[0])
            group = argument_key(long).partition(".")[0]
            return group + dot + inner, argument
    return key, None


def _taken(words: list[str], most: int) -> Iterator[str]:
    while words and most and (not words[0].startswith("-") or _NEGATIVE_NUMBER.fullmatch(words[0]) or words[0] == "-"):
        yield words.pop(0)
        most -= 1
