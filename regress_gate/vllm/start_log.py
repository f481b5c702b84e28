"""The start log of a vLLM server: its launch line, resolved settings, chosen backends and start-up times.

Also as facts about a deployment, and the size of the KV cache in `/metrics`. Every fact is optional and none is
assumed. The wording has changed with nearly every version; a line that is not recognised loses its fact and nothing
else.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any, get_args

from regress_gate.accelerators.registry import FAMILIES, family_of_device
from regress_gate.errors import InputError
from regress_gate.model.deployment import ArgValue, Backend, Deployment, DeploymentFacts, Platform
from regress_gate.model.version import Version
from regress_gate.redaction import mask, names_secret
from regress_gate.vllm.log_lines import drop_collector, strip_prefix

_VERSION = re.compile(
    r"vLLM (?:API )?server version (?P<a>[^\s,]+)|[^█]*█.*\bversion (?P<b>\S+)|version (?P<c>\d\S*)"
    r"|Initializing a V\d LLM engine \(v?(?P<d>[^)]+)\)"
)
_NON_DEFAULT = re.compile(r"non-default args: (\{.*\})")
_CONFIG = re.compile(r"Initializing a V\d LLM engine \([^)]*\) with config: (.*)")
_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?)"
_KV_CACHE = re.compile(r"\bKV cache size: (\d{1,3}(?:,\d{3}){1,4}|\d{1,12}) tokens")
_CONCURRENCY = re.compile(rf"Maximum concurrency for [\d,]+ tokens per request: {_NUMBER}x")
_CAPTURE_SIZES = re.compile(
    r"max_(?:cudagraph_)?capture_size'?[:=] ?(\d{1,6})\b|cudagraph_capture_sizes'?[:=] ?\[([\d, ]+)\]"
)
_CHUNKED = re.compile(r"Chunked prefill is enabled with max_num_batched_tokens=(\d{1,9})\b")
_ARCHITECTURE = re.compile(r"Resolved architecture: (\w+)")
_WEIGHTS = re.compile(rf"Loading (?:model )?weights took {_NUMBER} ?s")
_MODEL = re.compile(rf"Model loading took {_NUMBER} ?Gi?B(?: memory)?(?: and {_NUMBER} ?s)?")
_COMPILE = re.compile(rf"(?:\[[^\]]*\] )?torch\.compile (?:takes|took) {_NUMBER} ?s(?: in total)?")
_CAPTURE = re.compile(rf"Graph capturing finished in {_NUMBER} ?s(?:ecs)?")
_ENGINE = re.compile(rf"init engine \(.*\) took {_NUMBER} ?s(?:econds)?(?: \(compilation: {_NUMBER} ?s)?")
_PROCESS = re.compile(r"^\((\S+) pid=(\d+)\)")

_BACKENDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("attention", re.compile(r"Using (\w+) attention backend\b")),
    ("attention", re.compile(r"Using (?:AttentionBackendEnum\.|_Backend\.)(\w+) backend\b")),
    # On ROCm and the CPU: by name, and from 0.14 to 0.18 in words.
    ("attention", re.compile(r"Using ([A-Z][A-Z\d_]+) backend(?:\.$| out of potential| \(selected via)")),
    ("attention", re.compile(r"Using ([A-Z][\w/]*(?: \w+)* (?:Attention|MLA)) backend\.$")),
    ("attention", re.compile(r"Using (\w[\w /]*?) backend on V\d engine")),
    ("attention", re.compile(r"Using \w+ KV cache layout for (\w+) backend")),
    ("attention_encoder", re.compile(r"Using AttentionBackendEnum\.(\w+) for MMEncoderAttention")),
    ("attention_mla_prefill", re.compile(r"Using (\w+) MLA prefill backend")),
    ("flash_attention_version", re.compile(r"Using FlashAttention version (\d+)")),
    ("kv_cache_layout", re.compile(r"Using (\w+) KV cache layout")),
    ("moe", re.compile(r"Using '?(\w[\w ()]*?)'?(?: W4A8 Int8| \w+)? MoE backend\b")),
    ("linear", re.compile(r"Using (\w+(?:LinearKernel|Kernel)) for ")),
    ("sampler", re.compile(r"Using (?:the )?(\w[\w ]*?) for top-p & top-k sampling")),
    ("model_runner", re.compile(r".*[Uu]sing (?:the )?(V\d) [Mm]odel [Rr]unner")),
)


_METRIC_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)(?: \S+)?")
_METRIC_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_RESOLVED = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "enforce_eager",
    "kv_cache_dtype",
    "enable_prefix_caching",
    "enable_chunked_prefill",
)
"""Keys of the printed configuration that are engine arguments of the same name and meaning."""
_NOT_THE_ENGINE = {"model", "model_tag", "host", "port", "uds", "served_model_name", "chat_template", "download_dir"}
_DETECTED = re.compile(r"Automatically detected platform (\w+)")
_UNTUNED = re.compile(r"Using default MoE config\. .*?([^/'\s]+\.json)")
_DEVICE = re.compile(r"device_name=([^,]+?)(?:,|\.json)")


@dataclass(frozen=True, slots=True)
class StartupSplit:
    """Parts of the start-up time, in seconds; the slowest process counts."""

    load_weights: float | None = None
    load_model: float | None = None
    """Loading the weights, and their processing."""
    compile: float | None = None
    capture_graphs: float | None = None
    init_engine: float | None = None
    """Profiling, KV cache and warm-up, including compilation and capture."""


@dataclass(frozen=True, slots=True)
class StartLog:
    """The facts in the log."""

    version: str | None = None
    architecture: str | None = None
    non_default_args: Mapping[str, Any] | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    """The engine's configuration after defaults were filled in, as printed: `dtype` → `torch.float32`."""
    backends: Mapping[str, str] = field(default_factory=dict)
    """The chosen implementation of each part: attention, moe, sampler, kv_cache_layout…"""
    kv_cache_tokens: int | None = None
    """Sum over all engines."""
    max_concurrency: float | None = None
    """Requests of full length that fit in the KV cache of one engine."""
    weights_bytes: float | None = None
    """Per device."""
    split: StartupSplit = StartupSplit()
    max_capture_size: int | None = None
    """The largest batch for which a graph is captured."""
    max_num_batched_tokens: int | None = None
    """Tokens a step, where prompts are processed in chunks."""


def read_start_log(text: str) -> StartLog:
    """The recognised facts. Any text has a result."""
    version: str | None = None
    architecture: str | None = None
    arguments: Mapping[str, Any] | None = None
    config: Mapping[str, str] = {}
    backends: dict[str, str] = {}
    tokens: dict[str, int] = {}
    seconds: dict[str, float] = {}
    concurrency: float | None = None
    weights: float | None = None
    captured: int | None = None
    batched: int | None = None

    def longest(name: str, value: str | None) -> None:
        if value is not None:
            seconds[name] = max(float(value), seconds.get(name, 0.0))

    for raw in text.split("\n"):
        line = strip_prefix(raw)
        if not line:
            continue
        if version is None and (match := _VERSION.match(line)):
            version = next(group for group in match.groups() if group).lstrip("v")
        if match := _NON_DEFAULT.match(line):
            arguments = arguments or _printed_arguments(match[1])
        elif match := _CONFIG.match(line):
            config = config or dict(_pairs(match[1], "="))
            captured = captured or _max_capture_size(match[1])
        elif match := _CHUNKED.match(line):
            batched = batched or int(match[1])
        elif match := _ARCHITECTURE.match(line):
            architecture = architecture or match[1]
        elif match := _WEIGHTS.match(line):
            longest("load_weights", match[1])
        elif match := _MODEL.match(line):
            weights = float(match[1]) or weights
            longest("load_model", match[2])
        elif match := _COMPILE.match(line):
            longest("compile", match[1])
        elif match := _CAPTURE.match(line):
            longest("capture_graphs", match[1])
        elif match := _ENGINE.match(line):
            longest("init_engine", match[1])
            longest("compile", match[2])
        if match := _KV_CACHE.search(line):
            engine = _PROCESS.match(drop_collector(raw))
            tokens[engine[1] if engine else ""] = int(match[1].replace(",", ""))
        if concurrency is None and (match := _CONCURRENCY.search(line)):
            concurrency = float(match[1])
        for name, pattern in _BACKENDS:
            if name not in backends and (match := pattern.match(line)):
                backends[name] = match[1]
    return StartLog(
        version=version,
        architecture=architecture,
        non_default_args=arguments,
        config=config,
        backends=backends,
        kv_cache_tokens=sum(tokens.values()) if tokens else None,
        max_concurrency=concurrency,
        weights_bytes=None if weights is None else weights * 2**30,
        split=StartupSplit(**seconds),
        max_capture_size=captured,
        max_num_batched_tokens=batched,
    )


def _max_capture_size(config: str) -> int | None:
    """Of a printed configuration: stated, or the largest of the sizes."""
    found: list[int] = []
    for match in _CAPTURE_SIZES.finditer(config):
        if match[1]:
            return int(match[1])
        found += [int(size) for size in match[2].split(",") if 0 < len(size.strip()) < 7 and size.strip().isdecimal()]
    return max(found, default=None)


def _printed_arguments(text: str) -> dict[str, Any]:
    """A printed dictionary. Values that are not literals stay text."""
    return {str(_literal(key)): _literal(value) for key, value in _pairs(text[1:-1], ":")}


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _pairs(text: str, sign: str) -> Iterator[tuple[str, str]]:
    """Split `key=value, key=value`; commas and signs inside brackets and quotes do not count."""
    for part in _outermost(text, ","):
        cut = next(_positions(part, sign), None)
        if cut is not None:
            yield part[:cut].strip(), part[cut + 1 :].strip()


def _outermost(text: str, sign: str) -> Iterator[str]:
    begin = 0
    for position in _positions(text, sign):
        yield text[begin:position]
        begin = position + 1
    yield text[begin:]


def _positions(text: str, sign: str) -> Iterator[int]:
    depth = 0
    quote: str | None = None
    escaped = False
    for position, letter in enumerate(text):
        if quote:
            if letter == quote and not escaped:
                quote = None
            escaped = letter == "\\" and not escaped
        elif letter in "'\"":
            quote = letter
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        elif letter == sign and depth == 0:
            yield position


def facts_of_start(log: StartLog, text: str) -> DeploymentFacts:
    """What the text of a start says of the deployment, with the facts that were read in it."""
    untuned = sorted({match[1] for line in text.splitlines() if (match := _UNTUNED.search(line))})
    device = next((match[1] for name in untuned if (match := _DEVICE.search(name))), None)
    detected = _DETECTED.search(text)
    printed = Deployment(
        accelerator=None if device is None else device.replace("_", " "),
        platform=_platform(detected[1]) if detected else None,
    )
    deployment = printed.over(deployment_of_start(log))
    notes = [f"no tuned MoE configuration is used: {name} was not found" for name in untuned]
    return DeploymentFacts(deployment, _version(log.version), tuple(notes))


def deployment_of_start(log: StartLog) -> Deployment:
    """What the facts of a start say of the deployment. The launch line is complete if its arguments were printed."""
    arguments = log.non_default_args
    return Deployment(
        platform=_platform_of_device(log.config.get("device_config", "").partition(":")[0]),
        model=_model(log),
        architecture=log.architecture,
        quantization=_quantization(log),
        backends={part: log.backends[part] for part in get_args(Backend) if part in log.backends},
        engine_args={**_resolved(log.config), **_engine_args(arguments or {})},
        complete=arguments is not None,
    )


def _platform(name: str) -> Platform | None:
    """By vLLM's name of a platform: `cuda`, `rocm`; plugins are named by their device."""
    return next((family.platform for family in FAMILIES if family.platform == name), None) or _platform_of_device(name)


def _platform_of_device(device_type: str) -> Platform | None:
    """By `device_config`; None for `cuda`, which NVIDIA and AMD share."""
    family = family_of_device(device_type)
    return family.platform if family else None


def _model(log: StartLog) -> str | None:
    given = (log.non_default_args or {}).get("model")
    printed = log.config.get("model", "").strip("'\"")
    return str(given) if isinstance(given, str) else printed or None


def _quantization(log: StartLog) -> str | None:
    """The resolved quantization. `None` in the printed configuration means that the weights are not quantized."""
    printed = log.config.get("quantization")
    return None if printed is None else "none" if printed == "None" else printed.strip("'\"")


def _resolved(config: Mapping[str, str]) -> dict[str, ArgValue]:
    resolved = {key: config[key].strip("'\"") for key in _RESOLVED if config.get(key) not in (None, "None")}
    return {key: _config_value(text) for key, text in resolved.items()}


def _config_value(text: str) -> ArgValue:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if re.fullmatch(r"\d{1,9}", text) else text


def _engine_args(arguments: Mapping[str, Any]) -> dict[str, ArgValue]:
    """Arguments of the engine, structured values as JSON; without secrets and arguments of the API server."""
    engine_args: dict[str, ArgValue] = {}
    for key, value in arguments.items():
        if key in _NOT_THE_ENGINE or key.startswith("ssl_") or names_secret(key) or value is None:
            continue
        if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
            engine_args[key] = value
        else:
            engine_args[key] = mask(value if isinstance(value, str) else json.dumps(value, default=str, skipkeys=True))
    return engine_args


def _version(text: str | None) -> Version | None:
    try:
        return Version.parse(text) if text else None
    except InputError:
        return None


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One line of the text."""

    name: str
    labels: dict[str, str]
    value: float
    """NaN if it is not a number."""


def parse_metrics(text: str) -> list[MetricSample]:
    """All samples; other lines are skipped."""
    samples = []
    for line in text.splitlines():
        if not line.startswith("#") and (sample := _METRIC_SAMPLE.fullmatch(line.strip())):
            labels = {
                key: re.sub(r"\\(.)", r"\1", value) for key, value in _METRIC_LABEL.findall(sample["labels"] or "")
            }
            samples.append(MetricSample(sample["name"], labels, _metric_value(sample["value"])))
    return samples


def kv_cache_tokens(samples: list[MetricSample]) -> int | None:
    """Tokens that fit in the KV caches of all engines, from their blocks; None if the server does not report them."""
    total = 0
    for sample in samples:
        if sample.name == "vllm:cache_config_info":
            blocks, size = sample.labels.get("num_gpu_blocks", ""), sample.labels.get("block_size", "")
            if not blocks.isdecimal() or not size.isdecimal():
                return None
            total += int(blocks) * int(size)
    return total or None


def _metric_value(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan
