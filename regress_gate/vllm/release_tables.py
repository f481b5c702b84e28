"""The arguments, variables and dependencies of every release of vLLM since 0.8.5, known without installing one.

They were read from the published wheels (`regress-gate diff-config --refresh`) and are shipped as one file, in which a
line is an argument, a variable or a dependency with the releases in which it changed. Not for builds between releases,
and not for what an installed build says of itself: that is in `baselines/builds`.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion
from packaging.version import Version as Pep440

from regress_gate.errors import InputError
from regress_gate.files import replace_file
from regress_gate.model.version import Channel, Version, version_key
from regress_gate.paths import release_tables_directory
from regress_gate.vllm.build_config import Argument, ArgumentIndex, BuildConfig

TABLE_FILE = Path(__file__).with_name("release_tables.json")
FIRST_RELEASE = "0.8.5"
SUCCESSORS: Mapping[str, str] = {
    "O": "--compilation-config",
    "disable_log_requests": "--no-enable-log-requests",
    "disable_mm_preprocessor_cache": "--mm-processor-cache-gb 0",
    "enable_multimodal_encoder_data_parallel": "--mm-encoder-tp-mode data",
    "eplb_log_balancedness": "--eplb-config.log_balancedness",
    "eplb_step_interval": "--eplb-config.step_interval",
    "eplb_window_size": "--eplb-config.window_size",
    "guided_decoding_backend": "--structured-outputs-config.backend",
    "guided_decoding_disable_additional_properties": "--structured-outputs-config.disable_additional_properties",
    "guided_decoding_disable_any_whitespace": "--structured-outputs-config.disable_any_whitespace",
    "guided_decoding_disable_fallback": "--structured-outputs-config.disable_fallback",
    "num_redundant_experts": "--eplb-config.num_redundant_experts",
    "override_pooler_config": "--pooler-config",
    "rope_scaling": "--hf-overrides",
    "rope_theta": "--hf-overrides",
    "task": "--runner",
    "compilation_config.level": "--compilation-config.mode",
    "compilation_config.full_cuda_graph": "--compilation-config.cudagraph_mode",
    "compilation_config.use_cudagraph": "--compilation-config.cudagraph_mode",
    "VLLM_ALL2ALL_BACKEND": "--all2all-backend",
    "VLLM_ATTENTION_BACKEND": "--attention-backend",
    "VLLM_DISABLE_FLASHINFER_PREFILL": "--attention-config.disable_flashinfer_prefill",
    "VLLM_DISABLE_NCCL_FOR_DP_SYNCHRONIZATION": "--disable-nccl-for-dp-synchronization",
    "VLLM_FLASHINFER_DISABLE_Q_QUANTIZATION": "--attention-config.disable_flashinfer_q_quantization",
    "VLLM_FLASHINFER_MOE_BACKEND": "--moe-backend",
    "VLLM_FLASH_ATTN_MAX_NUM_SPLITS_FOR_CUDA_GRAPH": ("--attention-config.flash_attn_max_num_splits_for_cuda_graph"),
    "VLLM_FLASH_ATTN_VERSION": "--attention-config.flash_attn_version",
    "VLLM_MM_HASHER_ALGORITHM": "--mm-hasher-algorithm",
    "VLLM_MM_INPUT_CACHE_GIB": "--mm-processor-cache-gb",
    "VLLM_MXFP4_USE_MARLIN": "--moe-backend marlin",
    "VLLM_NVFP4_GEMM_BACKEND": "--linear-backend",
    "VLLM_PREFIX_CACHE_RETENTION_INTERVAL": "--prefix-cache-retention-interval",
    "VLLM_TORCH_PROFILER_DIR": "--profiler-config.torch_profiler_dir",
    "VLLM_TORCH_PROFILER_RECORD_SHAPES": "--profiler-config.torch_profiler_record_shapes",
    "VLLM_TORCH_PROFILER_WITH_FLOPS": "--profiler-config.torch_profiler_with_flops",
    "VLLM_TORCH_PROFILER_WITH_PROFILE_MEMORY": "--profiler-config.torch_profiler_with_memory",
    "VLLM_TORCH_PROFILER_WITH_STACK": "--profiler-config.torch_profiler_with_stack",
    "VLLM_TRITON_ATTN_USE_TD": "VLLM_TRITON_USE_TD",
    "VLLM_USE_AITER_UNIFIED_ATTENTION": "VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION",
    "VLLM_USE_CUDNN_PREFILL": "--attention-config.use_cudnn_prefill",
    "VLLM_USE_FLASHINFER_MOE_FP16": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_FP4": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_FP8": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": "--moe-backend",
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8": "--moe-backend flashinfer_trtllm",
    "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS": "--moe-backend flashinfer_cutlass",
    "VLLM_USE_NVFP4_CT_EMULATIONS": "--linear-backend emulation",
    "VLLM_USE_TRTLLM_ATTENTION": "--attention-config.use_trtllm_attention",
    "VLLM_USE_TRTLLM_RAGGED_DEEPSEEK_PREFILL": "--attention-config.use_trtllm_ragged_deepseek_prefill",
    "VLLM_V1_USE_PREFILL_DECODE_ATTENTION": "--attention-config.use_prefill_decode_attention",
}
"""New names that vLLM's own texts about deprecations do not give, or give only in its log: of variables and arguments.
One counts only where the candidate has it."""
_PARTS = ("arguments", "env", "mentioned", "requirements", "cpu_requirements")
_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class ReadRelease:
    """What was read of one release."""

    version: str
    wheel: str
    """Name of the file."""
    sha256: str
    """As its index gives it."""
    config: BuildConfig
    cpu_requirements: Mapping[str, str]
    """Those of the CPU build; empty if there is none."""


def build_config(version: Version) -> BuildConfig | None:
    """What is known of a release, or of another build that was read here, whatever its variant; else None.

    Its version is the one asked for. Raises InputError if the file of a build that the user read is damaged.
    """
    if version.number is None:
        return None
    if version.channel is Channel.RELEASE and version.number in _shipped()["releases"]:
        return _shipped_config(version)
    path = _own_table(version)
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return _from_table(_parse(content, path), version)


@lru_cache(maxsize=64)  # a recommendation asks for one build again with every release
def _shipped_config(version: Version) -> BuildConfig:
    return _from_table(_shipped(), version)


def _own_table(version: Version) -> Path:
    """The file of a build that the user read. Builds that are no releases have a folder of their own."""
    if version.channel is Channel.RELEASE:
        return release_tables_directory() / f"{version.number}.json"
    name = f"{version.number}+g{version.commit}" if version.commit is not None else str(version.number)
    return release_tables_directory() / "builds" / f"{name}.json"


def known_releases() -> list[Version]:
    """The releases of the shipped table and those that the user read, the oldest first."""
    names = {*_shipped()["releases"], *(path.stem for path in release_tables_directory().glob("*.json"))}
    return sorted(
        (Version.parse(name) for name in names if _order(name) is not None), key=lambda one: Pep440(str(one.number))
    )


def nearest_release(version: Version) -> Version:
    """The newest known release that is not newer than the build; the newest of all for one known by its commit."""
    releases = known_releases()
    if version.number is None:
        return releases[-1]
    key = Pep440(version.number)
    older = [one for one in releases if Pep440(str(one.number)) <= key]
    return older[-1] if older else releases[0]


def names_of(part: str) -> Collection[str]:
    """All names of a part of the shipped table, of whatever release."""
    names: Collection[str] = _shipped()[part].keys()
    return names


def env_defaults(name: str) -> list[Any]:
    """Every default that a variable had in a release of the shipped table; empty for a variable that is not in it."""
    return [step[1] for step in _shipped()["env"].get(name, ()) if len(step) > 1]


def argument_defaults(name: str) -> list[Any]:
    """Every default that an argument had in a release of the shipped table; empty for an argument that is not in it."""
    return [step[1].get("default") for step in _shipped()["arguments"].get(name, ()) if len(step) > 1]


def absence_text(part: str, name: str, version: Version) -> str:
    """Why a release lacks a name that others have: `removed in 0.31.0`, `new in 0.24.0`; empty for unknown names."""
    steps = _shipped()[part].get(name, ())
    if version.order_key is None or not steps:
        return ""
    gone = [step[0] for step in steps if len(step) == 1 and version_key(step[0]) <= version.order_key]
    if gone:
        return f"removed in {gone[-1]}"
    return f"new in {steps[0][0]}" if version_key(steps[0][0]) > version.order_key else ""


@cache
def any_release() -> BuildConfig:
    """Every argument and variable that any known release had, each as the last one had it. For reading a launch line
    whose version is not known."""
    table = _shipped()
    last: dict[str, dict[str, list[list[Any]]]] = {
        part: {name: [[FIRST_RELEASE, next(step[1] for step in reversed(steps) if len(step) > 1)]] for name, steps in
               table[part].items()}
        for part in _PARTS
    }  # fmt: skip
    newest = _sorted(table["releases"])[-1]
    return _from_table({**table, **last}, Version(newest))


@cache
def _any_index() -> ArgumentIndex:
    return ArgumentIndex(any_release().arguments)


def ever_known(key: str) -> str | None:
    """The name of the argument that a flag means in some release, by its whole name."""
    index = _any_index()
    return index.find(key) if key in index.keys else None


def last_argument(key: str) -> Argument | None:
    """The argument of a flag as the last release that had it had it."""
    name = ever_known(key)
    return None if name is None else any_release().arguments[name]


_ABSENT = object()


def _order(text: str) -> Pep440 | None:
    try:
        return Pep440(text)
    except InvalidVersion:
        return None


def _sorted(releases: Iterable[str]) -> list[str]:
    return sorted(releases, key=Pep440)


@cache
def _shipped() -> dict[str, Any]:
    return _parse(TABLE_FILE.read_bytes(), TABLE_FILE)


def _parse(content: bytes, where: Path) -> dict[str, Any]:
    try:
        table = json.loads(content) if len(content) <= _MAX_BYTES else None
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict) or not all(isinstance(table.get(part), dict) for part in ("releases", *_PARTS)):
        raise InputError("is no table of releases", where=where, todo="delete it, or read the release again")
    return table


def _at(steps: Iterable[list[Any]], release: Pep440) -> Any:
    """The value in a release: that of the last step up to it."""
    value: Any = _ABSENT
    for step in steps:
        if version_key(step[0]) > release:
            break
        value = step[1] if len(step) > 1 else _ABSENT
    return value


def _from_table(table: Mapping[str, Any], version: Version) -> BuildConfig:
    number = str(version.number)
    release = Pep440(number)

    def part(name: str) -> dict[str, Any]:
        found = {key: _at(steps, release) for key, steps in table[name].items()}
        return {key: value for key, value in found.items() if value is not _ABSENT}

    arguments = part("arguments")
    requirements = part("cpu_requirements" if version.variant == "cpu" else "requirements")
    # What is shipped was validated when it was written: validating it again takes ten times as long as reading it.
    make: Callable[..., Argument] = Argument.model_construct
    return BuildConfig.model_construct(
        schema_version="1",
        version=version,
        arguments={name: make(**_argument(name, entry)) for name, entry in arguments.items()},
        env=part("env"),
        packages={},
        requirements=requirements,
        mentioned=frozenset(part("mentioned")),
        unread=tuple(table["releases"][number].get("unread", ())),
    )


def _argument(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(entry)
    if fields.pop("switch", False):
        fields |= {"flags": _flags(name, switch=True), "values": "none"}
    fields.setdefault("flags", _flags(name))
    for key in ("flags", "choices", "names"):
        if key in fields:
            fields[key] = tuple(fields[key])
    return fields


def _flags(name: str, *, switch: bool = False) -> tuple[str, ...]:
    """The flags that an argument of this name usually has."""
    group, dot, inner = name.partition(".")
    flag = f"--{group.replace('_', '-')}{dot}{inner}"
    return (flag, f"--no-{flag[2:]}") if switch else (flag,)


# Writing


def table_of(releases: Iterable[ReadRelease]) -> dict[str, Any]:
    """The table of releases, in the order of their versions."""
    ordered = sorted(releases, key=lambda one: Pep440(one.version))
    table: dict[str, Any] = {
        "schema_version": "1",
        "made_by": "regress-gate diff-config --refresh --write FILE",
        "releases": {
            one.version: {
                "wheel": one.wheel,
                "sha256": one.sha256,
                **({"unread": list(one.config.unread)} if one.config.unread else {}),
            }
            for one in ordered
        },
    }
    for part in _PARTS:
        found = [(one.version, _part(one, part)) for one in ordered]
        table[part] = {name: _steps(name, found) for name in sorted({name for _, values in found for name in values})}
    return table


def _part(release: ReadRelease, part: str) -> Mapping[str, Any]:
    if part == "cpu_requirements":
        return release.cpu_requirements
    if part == "mentioned":
        return dict.fromkeys(sorted(release.config.mentioned), True)
    if part == "arguments":
        document = release.config.as_document()["arguments"]
        return {name: _compact(name, entry) for name, entry in document.items()}
    return dict(release.config.as_document().get(part, {}))


def _steps(name: str, releases: Iterable[tuple[str, Mapping[str, Any]]]) -> list[list[Any]]:
    """The releases in which the entry changed, each with its value; without one where it is gone."""
    steps: list[list[Any]] = []
    before: Any = _ABSENT
    for version, values in releases:
        value = values.get(name, _ABSENT)
        if value is not before and (_ABSENT in (value, before) or not _equal(value, before)):
            steps.append([version] if value is _ABSENT else [version, value])
        before = value
    return steps


def _equal(first: Any, second: Any) -> bool:
    """As JSON: `True` is not 1."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def _compact(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(entry)
    if tuple(fields["flags"]) == _flags(name, switch=True) and fields.get("values") == "none":
        fields = {"switch": True, **{key: value for key, value in fields.items() if key not in ("flags", "values")}}
    elif tuple(fields["flags"]) == _flags(name):
        del fields["flags"]
    return fields


def dump_table(table: Mapping[str, Any]) -> str:
    """The text of the file: a line is a release, an argument, a variable or a dependency."""
    lines = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            inner = ",\n".join(f"  {_json(name)}: {_json(item)}" for name, item in value.items())
            lines.append(f" {_json(key)}: {{\n{inner}\n }}" if value else f" {_json(key)}: {{}}")
        else:
            lines.append(f" {_json(key)}: {_json(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def keep_release(release: ReadRelease) -> Path:
    """Keep a release or another build for this user, beside those that are shipped. Raises InputError if it cannot be
    written."""
    path = _own_table(release.config.version)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, dump_table(table_of([release])))
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", where=path) from None
    return path


def shipped_releases_read() -> list[ReadRelease]:
    """The releases of the shipped table as they were read, to write them again beside newer ones."""
    table = _shipped()
    rows = []
    for number, entry in table["releases"].items():
        config = _from_table(table, Version.parse(number))
        cpu = {name: _at(steps, Pep440(number)) for name, steps in table["cpu_requirements"].items()}
        rows.append(
            ReadRelease(
                number,
                entry["wheel"],
                entry["sha256"],
                config,
                {name: value for name, value in cpu.items() if value is not _ABSENT},
            )
        )
    return rows
