"""What is known about a `vllm bench` client besides its result: its arguments, and its release.

vLLM's CI writes `<test>.commands` beside `<test>.json`: the command lines of server and client, and the machine. Only
stated arguments are taken; defaults of the benchmark are not filled in. The release of the client is in no result file,
only in `--client-version` or the metadata. If the workload or a definition changed between releases, their results have
different definitions and are not compared. Not for the version of the server.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.version import Version

from regress_gate.ingest.identity import CLIENT_KEYS, VERSION_KEYS
from regress_gate.ingest.interface import Context, FileOutcome, Reading, UnusedResult
from regress_gate.text import excerpt, is_valid_name, quoted

TEST_KEY = "test"
"""Key of a workload: the name of a test of vLLM's CI, which is also the name of the scenario."""

_MAX_LINE = 20_000
"""Characters of a command line that are parsed."""
_COUNTS = ("batch_size", "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
_RANDOM = ("random", None)
_COUNT = re.compile(r"[0-9]{1,12}")
_RATIO = re.compile(r"[01](?:\.[0-9]{1,12})?")


@dataclass(frozen=True, slots=True)
class Commands:
    """What the commands of a result state."""

    workload: Mapping[str, Any] = field(default_factory=dict)
    """Facts for a Reading's workload."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


_NO_COMMANDS = Commands()


def workload_from_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The workload stated by the arguments of a benchmark (by name, with underscores). Invalid values are left out.

    The lengths of the random dataset have defaults that other datasets ignore, so they count with that dataset only.
    """
    facts: dict[str, Any] = {}
    dataset = arguments.get("dataset_name")
    path = arguments.get("dataset_path")
    name = f"hf-{path.rpartition('/')[2]}" if dataset == "hf" and isinstance(path, str) else dataset
    if isinstance(name, str) and is_valid_name(name):
        facts["dataset"] = name
    for name in ("input_len", "output_len"):
        value = _count(arguments.get(name))
        if value is None and dataset in _RANDOM:
            value = _count(arguments.get(f"random_{name}"))
        if value is not None:
            facts[name] = value
    if dataset in _RANDOM:
        if prefix := _count(arguments.get("random_prefix_len")):
            facts["prefix_len"] = prefix
        if ratio := _ratio(arguments.get("random_range_ratio")):
            facts["range_ratio"] = ratio
    for name in _COUNTS:
        if (value := _count(arguments.get(name))) is not None:
            facts[name] = value
    return facts


def parse_command(line: str) -> dict[str, Any]:
    """Options of a shell command by name, with underscores; a bare flag is true. Raises ValueError for open quotes."""
    return parse_words(shlex.split(line[:_MAX_LINE]))


def parse_words(words: Sequence[str]) -> dict[str, Any]:
    """The same for a command that is already split."""
    options: dict[str, Any] = {}
    for index, word in enumerate(words):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        following = words[index + 1] if index + 1 < len(words) else "--"
        options[name.replace("-", "_")] = value if equals else True if following.startswith("--") else following
    return options


def served_model(line: str, options: Mapping[str, Any]) -> str | None:
    """The model of a command: its option, or the word after `vllm serve`."""
    model = options.get("model")
    if isinstance(model, str):
        return excerpt(model)
    served = re.search(r"\bvllm\s+serve\s+([^\s-]\S*)", line[:_MAX_LINE])
    return excerpt(served[1]) if served else None


def read_commands(file_name: str, context: Context) -> Commands:
    """The commands beside a result of that file name; empty if there are none."""
    stem = file_name.removesuffix(".json").removesuffix(".pytorch")
    beside = context.beside(f"{stem}.commands")
    if beside is None:
        return _NO_COMMANDS
    data = beside.documents[0] if len(beside.documents) == 1 else None
    if not isinstance(data, dict):
        return Commands(
            notes=(f"{excerpt(stem)}.commands beside it is not the JSON object of vLLM's CI and is not used",)
        )
    workload: dict[str, Any] = {}
    notes: list[str] = []
    for key in ("server_command", "client_command", "latency_command", "throughput_command", "startup_command"):
        line = data.get(key)
        if not isinstance(line, str):
            continue
        try:
            options = parse_command(line)
        except ValueError:
            notes.append(f"the {key} beside it cannot be read and is not used")
            continue
        if (model := served_model(line, options)) is not None:
            workload["model"] = model
        # The lengths of the engine are limits; the arguments of a server do not describe the workload.
        if key != "server_command":
            workload |= workload_from_arguments(options)
        workload |= {name: value for name in _COUNTS[1:] if (value := _count(options.get(name))) is not None}
    if workload:
        workload[TEST_KEY] = excerpt(stem)
    if data.get("adaptive_search"):
        notes.append("a probe of an adaptive search: earlier results chose its concurrency")
    gpu = uniform_accelerator(data.get("gpu_type"))
    return Commands(workload, {} if gpu is None else {"gpu_type": gpu}, tuple(notes))


def add_commands(result: Reading | UnusedResult, commands: Commands) -> Reading | UnusedResult:
    """The reading with what the commands add; what the result states has precedence."""
    if commands is _NO_COMMANDS or isinstance(result, UnusedResult):
        return result
    return replace(
        result,
        workload={**result.workload, **{k: v for k, v in commands.workload.items() if result.workload.get(k) is None}},
        metadata={**commands.metadata, **result.metadata},
        notes=(*result.notes, *commands.notes),
    )


def uniform_accelerator(value: object) -> str | None:
    """The accelerator, from a line for each device (`H100`, newline, `H100`) or `8xH100`; None for a mixture."""
    if not isinstance(value, str):
        return None
    names = {re.sub(r"^[0-9]{1,4}x(?=.)", "", line.strip()) for line in value[:_MAX_LINE].splitlines() if line.strip()}
    only = names.pop() if len(names) == 1 else ""
    return only if is_valid_name(only) else None


def _count(value: object) -> int | None:
    if isinstance(value, str) and _COUNT.fullmatch(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _ratio(value: object) -> float | None:
    """A fraction from 0 to 1; None for anything else, such as separate ratios for input and output."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not _RATIO.fullmatch(str(value)):
        return None
    return float(value)


_DEFINITIONS_SINCE = (
    ((0, 20), "vllm-bench-0.20"),
    ((0, 15), "vllm-bench-0.15"),
    ((0, 7), "vllm-bench-0.7"),
    ((0, 0), "vllm-bench-0.6"),
)
"""First release of each key of DEFINITIONS, newest first."""

_CLIENT_VERSION = re.compile(
    r"(?<![\w.])v?(\d{1,4}\.\d{1,4}(?:\.\d{1,4}){0,2}(?:(?:a|b|rc)\d{1,4})?(\.?dev\d{1,6})?)(?!\w|\.\w)"
)
_UNKNOWN_CLIENT_NOTE = (
    "the client's version is not stated: since 0.15 the client leaves the temperature to the server, since 0.20 it "
    "counts input tokens as the server does; --client-version keeps such results apart"
)


def client_release(text: str) -> Version | None:
    """The release in `0.19.1` or `vllm 0.19.1 bench serve`; None without one and for a development build.

    A development build is numbered after the last tag, so its number does not identify its changes.
    """
    matches = _CLIENT_VERSION.findall(text[:200])
    return Version(matches[0][0]) if len(matches) == 1 and not matches[0][1] else None


def definitions_of(release: Version) -> str:
    """The key of DEFINITIONS for a release of the client."""
    return next(key for since, key in _DEFINITIONS_SINCE if release.release[:2] >= since)


def add_client_definitions(result: Reading | UnusedResult, context: Context) -> Reading | UnusedResult:
    """The reading with the definitions of its client's release; a note if the release should be stated and is not."""
    if isinstance(result, UnusedResult):
        return result
    if context.client_version is None and not result.metadata:
        return result
    in_file = next((result.metadata[key] for key in CLIENT_KEYS if key in result.metadata), None)
    stated = in_file if context.client_version is None else context.client_version
    if stated is None:
        versioned = any(key in result.metadata for key in VERSION_KEYS if key != "version")
        return replace(result, notes=(*result.notes, _UNKNOWN_CLIENT_NOTE)) if versioned else result
    release = client_release(stated)
    other = None if in_file is None else client_release(in_file)
    if release is not None and other is not None and release != other:
        return UnusedResult(
            result.position,
            FileOutcome.REFUSED,
            f"the client is {quoted(stated)} by --client-version and {quoted(in_file)} by metadata; "
            "correct one of them",
        )
    if release is None:
        note = (
            f"the client is {quoted(stated)}, which is no release of vLLM: what it sends and counts is taken as unknown"
        )
        return replace(result, notes=(*result.notes, note))
    return replace(result, definitions=definitions_of(release), metadata={"client_version": stated, **result.metadata})
