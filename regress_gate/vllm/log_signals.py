"""The log lines that rules on a server's speed read, by name, and their search in a log of any length.

A signal has a literal, which is searched first because that is fast, and a pattern for the line without its prefix.
`versions` are the releases that print such a line; tests compare them with the format strings of published releases.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment, DeploymentFacts
from regress_gate.redaction import mask
from regress_gate.text import clip, one_line
from regress_gate.vllm.log_lines import strip_prefix
from regress_gate.vllm.start_log import StartLog, facts_of_start, read_start_log

_NUMBER = r"(\d{1,12}(?:\.\d{1,6})?)"
RELEASES = ">=0.11,<0.34"
"""Whose lines were read from the published wheels: what another release prints is not known."""


@dataclass(frozen=True, slots=True)
class LogSignal:
    literal: str
    """Part of every such line."""
    pattern: str
    """Matches the beginning of the line after its prefix; its groups are what a rule reads."""
    versions: str = ""
    """Releases that print it, as a PEP 440 specifier; empty: all since 0.11."""


SIGNALS: Mapping[str, LogSignal] = {
    # Kernels
    "moe_default": LogSignal(
        "Using default MoE config.",
        r"Using default MoE config\. Performance might be sub-optimal! Config file not found at (.+)",
    ),
    "moe_tuned": LogSignal("for MoE layer.", r"Using configuration from (.+) for MoE layer\."),
    "moe_backend": LogSignal("MoE backend", r"Using '?(\w[\w ()]*?)'? (?:\w+ )?MoE backend\b", ">=0.15"),
    "block_fp8_default": LogSignal(
        "Using default W8A8 Block FP8 kernel config.",
        r"Using default W8A8 Block FP8 kernel config\. Performance might be sub-optimal! Config file not found at (.+)",
    ),
    "block_int8_default": LogSignal(
        "Using default W8A8 Block INT8 kernel config.",
        r"Using default W8A8 Block INT8 kernel config\. Performance might be sub-optimal! Config file not "
        r"found at (.+)",
        ">=0.11,<0.28",
    ),
    "mamba_default": LogSignal(
        "Using default Mamba SSU config.",
        r"Using default Mamba SSU config\. Performance might be sub-optimal!(?: Config file not found at (.+))?",
        ">=0.22",
    ),
    "lora_default": LogSignal("Using default LoRA kernel configs", r"Using default LoRA kernel configs", ">=0.11.1"),
    "deep_gemm_off": LogSignal("Auto-disabled DeepGemm", r"Auto-disabled DeepGemm for model_type=(\S+)", ">=0.18.1"),
    "attention_backend": LogSignal(
        "attention backend out of potential backends",
        r"Using (\w+) attention backend out of potential backends: (.+)",
        ">=0.12",
    ),
    "sampler_fallback": LogSignal(
        "FlashInfer top-p/top-k sampling",
        r"FlashInfer top-p/top-k sampling ((?:unavailable:|not supported) .*; falling back|disabled via)",
        ">=0.21",
    ),
    "no_custom_all_reduce": LogSignal("Custom allreduce is disabled", r"Custom allreduce is disabled (.+)"),
    "no_native_fp8": LogSignal("native support for FP8", r"Your GPU does not have native support for FP8 computation"),
    # Cache
    "concurrency": LogSignal(
        "Maximum concurrency for",
        rf"(?:.*, )?Maximum concurrency for ([\d,]+) tokens per request: {_NUMBER}x",
    ),
    "graph_memory": LogSignal(
        "CUDA graph memory profiling is enabled",
        rf"CUDA graph memory profiling is enabled .*--gpu-memory-utilization={_NUMBER} is equivalent to "
        rf"--gpu-memory-utilization={_NUMBER} without",
        ">=0.18",
    ),
    "hybrid_cache_off": LogSignal(
        "Turning off hybrid kv cache manager", r"Turning off hybrid kv cache manager (.+)", ">=0.11.1"
    ),
    "chunked_local_off": LogSignal(
        "latency regression when using chunked local",
        r"There is a latency regression when using chunked local attention with the hybrid KV cache manager",
    ),
    "fp8_cache_prefill": LogSignal(
        "prefill queries are not", r"FP8 KV cache is enabled but prefill queries are not quantized", ">=0.20"
    ),
    "prefix_cache_off": LogSignal("Disabling prefix caching", r"Disabling prefix caching(?: for|:) (.+)", ">=0.13"),
    # Scheduling
    "async_off": LogSignal(
        "sync scheduling",
        r"Async scheduling (?:will be disabled|is disabled|not supported|is not (?:yet supported|compatible))(.*)",
        ">=0.11.1",
    ),
    "custom_scheduler": LogSignal(
        "subclassed Scheduler instead of AsyncScheduler", r"Using custom scheduler class (\S+)\. .*", ">=0.24"
    ),
    # Graphs
    "eager": LogSignal(
        "Enforce eager set", r"Enforce eager set, (?:disabling torch\.compile|overriding optimization level)", ">=0.12"
    ),
    "graphs_off": LogSignal("Cudagraph is disabled under eager mode", r"Cudagraph is disabled under eager mode"),
    "capture_skipped": LogSignal("Skipping CUDA graph capture", r"Skipping CUDA graph capture"),
    "encoder_capture_skipped": LogSignal(
        "Skipping encoder and decoder CUDA graph capture", r"Skipping encoder and decoder CUDA graph capture", ">=0.28"
    ),
    "graph_mode_overridden": LogSignal(
        "cudagraph_mode", r"(?:.*)(?:Overriding|[Ss]etting|disabling) cudagraph_mode(.*)"
    ),
    "capture_capped": LogSignal(
        "Capping cudagraph capture sizes",
        r"Capping cudagraph capture sizes from max (\d{1,12}) to (\d{1,12}) to fit Mamba cache blocks",
        ">=0.18,<0.20",
    ),
    "compiled": LogSignal("torch.compile", rf"(?:.*)torch\.compile (?:took|takes) {_NUMBER} s"),
    "compile_cache_hit": LogSignal(
        "Directly load", r"(?:.*)Directly load (?:AOT compilation|the compiled graph|the \S+ graph)"
    ),
    # Settings
    "unknown_variable": LogSignal(
        "Unknown vLLM environment variable", r"Unknown vLLM environment variable detected: (\S+)", ">=0.17"
    ),
}

START_LINES = 20_000
"""Lines after the start of a server among which lines about the start are searched."""
MOST_MATCHES = 20
"""Lines of one signal that are kept."""
LONGEST_LINE = 65_536
_MOST_HELD = 2**25
"""Bytes of a start that are kept; a start has some hundred thousand."""
_MOST_READ = 2**20
"""Bytes that are read at once: a longer line counts as several."""
_LONGEST_EVIDENCE = 400
_START = b"non-default args: "
_ARGUMENTS = re.compile(r"(?:[\w./]+:\d+\] )?non-default args: ")
"""With the place in the source where the former engine has it."""
_BEFORE_START = 60
"""Lines before the arguments that belong to the same start: the banner with the version."""
_BANNER = re.compile(rb"\bversion v?\d")
_HAS_GRAPHS = ("compiled", "compile_cache_hit")
_V0_WORDINGS = (
    (re.compile(r"^((?:\([^()]*\) )?[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d) ([\w./]+:\d+\])", re.MULTILINE), r"\1 [\2"),
    (re.compile(r"\] Initializing an LLM engine \("), "] Initializing a V0 LLM engine ("),
    (re.compile(r"\] Using (\w[\w ]*?) backend\.?$", re.MULTILINE), r"] Using \1 backend on V0 engine"),
)
"""Wordings of engine V0 (up to 0.7), and the later wordings for the same."""
_STATISTICS = b"Avg prompt throughput: "
_PREEMPTED = b"Preemptions: "
_IDLE = b"Running: 0 reqs, Waiting: 0 reqs, "
_STATISTICS_LINE = re.compile(
    rb"Avg prompt throughput: [\d.]+ tokens/s, Avg generation throughput: [\d.]+ tokens/s, "
    rb"Running: (\d{1,12}) reqs, Waiting: (\d{1,12}) reqs(?:, Deferred: \d+ reqs)?"
    rb"(?:, KV fetch: [^,]*, [^,]*, [^,]*)?(?:, Preemptions: (\d{1,12}))?, \w+ KV cache usage: "
    + _NUMBER.encode()
    + rb"%(?:, Prefix cache hit rate: "
    + _NUMBER.encode()
    + rb"%)?"
)
RECENT_LINES = 360
"""Lines of statistics under load that count, the last of the log: an hour of one engine. How the server did before is
no finding about now."""
HIGH_USAGE = 95.0
"""Percent of the KV cache."""
LOW_USAGE = 50.0


@dataclass(frozen=True, slots=True)
class LogLine:
    number: int
    """From 1."""
    text: str
    """Without its prefix and without secrets."""
    groups: tuple[str, ...] = ()
    """Of the signal's pattern; empty text for a group that did not take part."""


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """What the last periodic lines of a running server say, of its last start."""

    lines: int
    """With a request running or waiting."""
    preemptions: int
    preempting_lines: int
    high_usage_lines: int
    """With the KV cache above 95 %."""
    waiting_with_room_lines: int
    """With requests waiting while the KV cache is below 50 %."""
    peak_running: int
    peak_waiting: int
    peak_usage: float
    """Percent."""
    hit_rate: float | None
    """Of the prefix cache, percent, in the last line that has it."""
    most_preempting: LogLine | None
    most_used: LogLine | None
    most_waiting: LogLine | None


@dataclass(frozen=True, slots=True)
class ServerLog:
    """The signals in a log, of the last start of a server in it."""

    name: str
    has_start: bool
    """Whether the log has the beginning of the start, so that what is not in it was not printed."""
    matches: Mapping[str, tuple[LogLine, ...]] = field(default_factory=dict)
    statistics: EngineStatistics | None = None
    start: StartLog | None = None
    """The facts of the start; None without one."""
    compiled_before: bool = False
    """Whether an earlier start of the same version with the same arguments had its graphs, so that they were kept if
    anything keeps them."""
    facts: DeploymentFacts = field(default_factory=lambda: DeploymentFacts(Deployment()))
    """What the start says of the deployment; without the beginning of the start, what the first lines say."""
    text: str = ""
    """Where `facts` were read."""

    def found(self, signal: str) -> tuple[LogLine, ...]:
        return self.matches.get(signal, ())


_Numbered = tuple[int, bytes]
"""A line and its number."""


class _StatisticsLine(NamedTuple):
    running: int
    waiting: int
    preemptions: int
    usage: float
    hit_rate: float | None
    number: int
    raw: bytes


def _read_statistics(lines: Iterable[_Numbered]) -> EngineStatistics | None:
    read = []
    for number, raw in lines:
        if (match := _STATISTICS_LINE.search(raw)) is not None:
            running, waiting, preempted, usage, hits = match.groups()
            hit_rate = None if hits is None else float(hits)
            read.append(
                _StatisticsLine(int(running), int(waiting), int(preempted or 0), float(usage), hit_rate, number, raw)
            )
    if not read:
        return None
    preempting, queueing = max(read, key=lambda one: one.preemptions), max(read, key=lambda one: one.waiting)
    fullest = max(read, key=lambda one: one.usage)
    return EngineStatistics(
        lines=len(read),
        preemptions=sum(one.preemptions for one in read),
        preempting_lines=sum(one.preemptions > 0 for one in read),
        high_usage_lines=sum(one.usage > HIGH_USAGE for one in read),
        waiting_with_room_lines=sum(one.waiting > 0 and one.usage < LOW_USAGE for one in read),
        peak_running=max(one.running for one in read),
        peak_waiting=queueing.waiting,
        peak_usage=fullest.usage,
        hit_rate=next((one.hit_rate for one in reversed(read) if one.hit_rate is not None), None),
        most_preempting=_line(preempting.number, preempting.raw) if preempting.preemptions else None,
        most_used=_line(fullest.number, fullest.raw),
        most_waiting=_line(queueing.number, queueing.raw) if queueing.waiting else None,
    )


def _line(number: int, raw: bytes, groups: Iterable[str | None] = ()) -> LogLine:
    text = strip_prefix(raw.decode("utf-8", "replace"))
    return LogLine(number, _shown(text), tuple(_shown(group or "") for group in groups))


def _shown(text: str) -> str:
    return clip(mask(one_line(text)), _LONGEST_EVIDENCE)


_COMPILED = {name: (signal.literal.encode(), re.compile(signal.pattern)) for name, signal in SIGNALS.items()}


def match_signals(text: str) -> dict[str, tuple[str, ...]]:
    """The signals in one line without its prefix, with the groups of their patterns."""
    found = {}
    for name, (literal, pattern) in _COMPILED.items():
        if literal.decode() in text and (match := pattern.match(text)):
            found[name] = tuple(group or "" for group in match.groups())
    return found


def read_server_log(path: Path, name: str | None = None) -> ServerLog:
    """Read a log line by line; nothing but the matches is kept. Raises InputError for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            return scan_log(iter(partial(file.readline, _MOST_READ), b""), name or str(path))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=path) from None


def scan_log(lines: Iterable[bytes], name: str) -> ServerLog:
    """The signals in the lines of a log, of the last start in it."""
    has_start, until, held = False, START_LINES, 0
    # Lines are only kept here, and read at the end: a log that every restart is appended to has hundreds of starts.
    earlier: list[_Numbered] = []
    start: list[_Numbered] = []
    statistics: deque[_Numbered] = deque(maxlen=RECENT_LINES)
    recent: deque[_Numbered] = deque(maxlen=_BEFORE_START)
    for number, raw in enumerate(lines, 1):
        if _STATISTICS in raw:
            if _IDLE not in raw or _PREEMPTED in raw:
                statistics.append((number, raw[:LONGEST_LINE]))
            continue
        if _START in raw and _is_start(raw):
            earlier = start if has_start else []
            start = _before_arguments(list(recent), has_start)
            recent.clear()
            has_start, until, held = True, number + START_LINES, 0
            statistics.clear()
        numbered = (number, raw[:LONGEST_LINE])
        recent.append(numbered)
        if number <= until and held < _MOST_HELD:
            start.append(numbered)
            held += len(numbered[1])
    text = _text_of(start)
    reworded = _reworded(text)
    now = read_start_log(reworded)
    return ServerLog(
        name,
        has_start,
        _find_signals(start, SIGNALS),
        _read_statistics(statistics),
        now if has_start else None,
        # An older start says nothing about the server that runs now, but that it had its graphs.
        bool(_find_signals(earlier, _HAS_GRAPHS)) and _is_same(read_start_log(_reworded(_text_of(earlier))), now),
        facts_of_start(now, reworded),
        text,
    )


def _is_start(raw: bytes) -> bool:
    """Not so a request that speaks of it, in a log of prompts."""
    return _ARGUMENTS.match(strip_prefix(raw[:LONGEST_LINE].decode("utf-8", "replace"))) is not None


def _text_of(start: list[_Numbered]) -> str:
    ended = (raw if raw.endswith(b"\n") else raw + b"\n" for _, raw in start)  # a line that was cut has lost its end
    return b"".join(ended).decode("utf-8", "replace")


def _reworded(text: str) -> str:
    for old, new in _V0_WORDINGS:
        text = old.sub(new, text)
    return text


def _find_signals(lines: Iterable[_Numbered], names: Iterable[str]) -> dict[str, tuple[LogLine, ...]]:
    wanted = [(name, *_COMPILED[name]) for name in names]
    found: dict[str, list[LogLine]] = {}
    for number, raw in lines:
        for name, literal, pattern in wanted:
            if literal in raw and (match := pattern.match(strip_prefix(raw.decode("utf-8", "replace")))):
                kept = found.setdefault(name, [])
                if len(kept) < MOST_MATCHES:
                    kept.append(_line(number, raw, match.groups()))
    return {name: tuple(kept) for name, kept in found.items()}


def _before_arguments(lines: list[_Numbered], has_earlier: bool) -> list[_Numbered]:
    """Of the lines before the arguments those of the same start: after an earlier start, from the banner on."""
    if not has_earlier:
        return lines
    banner = max((place for place, (_, line) in enumerate(lines) if _BANNER.search(line)), default=len(lines))
    return lines[banner:]


def _is_same(before: StartLog, now: StartLog) -> bool:
    """Whether both would compile the same graphs."""
    if now.non_default_args is None:
        return False
    return (before.version, before.non_default_args) == (now.version, now.non_default_args)
