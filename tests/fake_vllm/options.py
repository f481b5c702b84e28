"""The command line of the fake server. For when others start it, more flags come from the environment:

FAKE_VLLM_ARGS holds flags; FAKE_VLLM_BEHAVIOUR names a JSON file of flags by version, `{"0.19.1": ["--tpot=0.01"]}`, of
which those of `--vllm-version` are taken, so that one launch line serves versions that differ. Whatever comes later
wins: a file may even make a version report another one.
"""

import argparse
import fcntl
import json
import os
import shlex
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Options:
    """The values of all flags; the fields are those of --help."""

    model: str
    host: str
    port: int
    served_model_name: str
    lora_modules: list[str]
    """`NAME=PATH` of adapters, which are served by their names."""
    vllm_version: str
    seed: int
    startup_delay: float
    ttft: float
    tpot: float
    prefill_time: float
    forget_prefixes: bool
    jitter: float
    run_spread: float
    batch_slowdown: float
    max_num_seqs: int
    tokens_per_chunk: int
    whole_at_once: bool
    tokens_per_request: int
    preempt_every: int | None
    preemption_cost: float
    max_cudagraph_capture_size: int | None
    num_gpu_blocks_override: int | None
    metrics_lines: int
    metrics_busy: float
    uncaptured_slowdown: float
    moe_backend: str | None
    slow_moe_backend: str | None
    slow_moe_factor: float
    kv_cache_tokens: int
    memory_mb: float
    output_noise: float
    logprob_drift: float
    starts: Path | None
    faulty_start: list[int]
    die_at_start: str | None
    never_ready: bool
    reject_arg: list[str]
    ignore_sigterm: bool
    child: str | None
    die_after: int | None
    lose_engine_after: int | None
    stay: bool
    unhealthy_after: int | None
    hang_after: int | None
    error_burst: tuple[int, int] | None
    garbage_every: int | None
    no_usage_every: int | None
    cut_every: int | None
    disorder_every: int | None
    short_every: int | None
    tokenize: str
    template_tokens: int
    image_tokens: int
    reasoning_key: str | None
    refuse_images: bool
    leak_mb: float
    launch_flags: tuple[str, ...]
    """Flags of real vLLM that have an effect here."""
    engine_args: tuple[str, ...]
    """Flags of real vLLM that mean nothing here, kept for the start log."""


def _burst(text: str) -> tuple[int, int]:
    start, _, count = text.partition(":")
    return int(start), int(count)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fake_vllm",
        description="A fake vLLM server. Prints port=N on stdout, a vLLM-like start log on stderr. "
        "GET /fake/requests shows what arrived and when it was answered (monotonic clock).",
        epilog="Times are in seconds, requests are counted from 1, EVERY N means requests N, 2N, … "
        "Beginning with `serve MODEL`, flags of real vLLM are accepted and ignored. "
        "More flags are read from the environment variable FAKE_VLLM_ARGS, and by version from the JSON file that "
        "FAKE_VLLM_BEHAVIOUR names.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=8000, help="0: any free one")
    add("--served-model-name", help="default: the model's name")
    add("--lora-modules", nargs="*", default=[], metavar="NAME=PATH", help="adapters, served by their names")
    add("--vllm-version", default="0.19.1", help="what /version reports")
    add("--seed", type=int, default=0, help="of jitter and run spread")
    add("--starts", type=Path, metavar="FILE", help="count starts in it; the count is added to --seed")
    add("--kv-cache-tokens", type=int, default=174720, help="what log and /metrics report")
    add("--memory-mb", type=float, default=0.0, metavar="MB", help="memory held from the start on")
    add("--output-noise", type=float, default=0.0, metavar="X", help="share of prompts whose tokens change")
    add("--logprob-drift", type=float, default=0.0, metavar="X", help="how much lower logprobs are on average")
    add("--startup-delay", type=float, default=0.0, help="until it listens; before that, connections are refused")
    timing = parser.add_argument_group("latency model")
    timing.add_argument("--ttft", type=float, default=0.02, help="time to first token")
    timing.add_argument("--tpot", type=float, default=0.005, help="time per further token")
    timing.add_argument(
        "--prefill-time", type=float, default=0.0, help="time that each token of a prompt adds, if it is not cached"
    )
    timing.add_argument("--forget-prefixes", action="store_true", help="have no prefix cache")
    timing.add_argument("--jitter", type=float, default=0.0, help="coefficient of variation of every single delay")
    timing.add_argument("--run-spread", type=float, default=0.0, help="log-normal spread of one factor for all delays")
    timing.add_argument("--batch-slowdown", type=float, default=0.0, help="X: each other running request adds X delays")
    timing.add_argument("--max-num-seqs", type=int, default=256, help="requests that run at once; others wait")
    timing.add_argument("--tokens-per-chunk", type=int, default=1, help="as speculative decoding sends them")
    timing.add_argument("--whole-at-once", action="store_true", help="take no time for answers that are not streamed")
    cause = parser.add_argument_group("causes of slowness, which log and /metrics show as a real server's do")
    cause.add_argument(
        "--tokens-per-request", type=int, default=0, metavar="N", help="that many of --kv-cache-tokens; 0: none"
    )
    cause.add_argument("--preempt-every", type=int, metavar="N", help="preempt these requests once")
    cause.add_argument("--preemption-cost", type=float, default=0.1, help="time that a preemption adds")
    cause.add_argument(
        "--max-cudagraph-capture-size", type=int, metavar="N", help="largest batch that runs in a graph, as vLLM's"
    )
    cause.add_argument("--num-gpu-blocks-override", type=int, metavar="N", help="16 tokens of KV cache each, as vLLM's")
    cause.add_argument("--uncaptured-slowdown", type=float, default=2.0, metavar="X", help="of larger batches")
    cause.add_argument("--metrics-lines", type=int, default=0, metavar="N", help="further lines of /metrics")
    cause.add_argument("--metrics-busy", type=float, default=0.0, help="time of the event loop that /metrics takes")
    cause.add_argument("--moe-backend", metavar="NAME", help="what the log says of it, as vLLM's")
    cause.add_argument("--slow-moe-backend", metavar="NAME", help="one with which everything takes longer")
    cause.add_argument("--slow-moe-factor", type=float, default=1.5, metavar="X", help="how much longer")
    fault = parser.add_argument_group("faults")
    fault.add_argument(
        "--faulty-start",
        type=int,
        action="append",
        default=[],
        metavar="N",
        help="have faults only in the Nth start that --starts has counted; may be repeated",
    )
    fault.add_argument(
        "--die-at-start",
        nargs="?",
        const="memory",
        choices=("memory", "import", "killed", "illegal", "silent"),
        help="die after --startup-delay: with a traceback, by a signal, or without any output",
    )
    fault.add_argument("--never-ready", action="store_true", help="run and never listen")
    fault.add_argument(
        "--reject-arg", action="append", default=[], metavar="NAME", help="refuse this engine argument; repeatable"
    )
    fault.add_argument("--ignore-sigterm", action="store_true", help="ignore SIGTERM and SIGINT")
    fault.add_argument("--child", choices=("stubborn", "runaway"), help="start a process that is hard to end")
    fault.add_argument("--die-after", type=int, metavar="N", help="engine error and exit when request N+1 arrives")
    fault.add_argument(
        "--lose-engine-after",
        type=int,
        metavar="N",
        help="from request N+1 on as if the engine had been killed: unhealthy, errors, and the end after a second",
    )
    fault.add_argument("--stay", action="store_true", help="do not end after --lose-engine-after")
    fault.add_argument("--unhealthy-after", type=int, metavar="N", help="/health says 503 from request N+1 on")
    fault.add_argument("--hang-after", type=int, metavar="N", help="never answer requests after N")
    fault.add_argument("--error-burst", type=_burst, metavar="N:COUNT", help="HTTP 503 for COUNT requests from N on")
    fault.add_argument("--garbage-every", type=int, metavar="N", help="send an event that is not JSON")
    fault.add_argument("--no-usage-every", type=int, metavar="N", help="leave out the usage")
    fault.add_argument("--cut-every", type=int, metavar="N", help="close the connection in the middle of the answer")
    fault.add_argument("--disorder-every", type=int, metavar="N", help="finish the answer, then send its last token")
    fault.add_argument("--short-every", type=int, metavar="N", help="half the requested tokens, without an error")
    fault.add_argument(
        "--tokenize", choices=("words", "missing", "garbage", "hang"), default="words", help="how it counts tokens"
    )
    fault.add_argument("--template-tokens", type=int, default=5, metavar="N", help="what a chat's template adds")
    fault.add_argument("--image-tokens", type=int, default=64, metavar="N", help="what an image of a chat costs")
    fault.add_argument(
        "--reasoning-key", choices=("reasoning", "reasoning_content"), help="half of a chat is reasoning"
    )
    fault.add_argument("--refuse-images", action="store_true", help="the model has no eyes")
    fault.add_argument("--leak-mb", type=float, default=0.0, metavar="MB", help="memory growth per request")
    return parser


def parse(argv: list[str]) -> Options:
    arguments = [*argv, *shlex.split(os.environ.get("FAKE_VLLM_ARGS", ""))]
    model = "tiny"
    serves = arguments[:1] == ["serve"]
    if serves:
        model, arguments = arguments[1], arguments[2:]
    known = parser()
    version = known.parse_known_args(arguments)[0].vllm_version
    # What a real vLLM takes wins over what a version does by default.
    arguments += [*_behaviour(version), *(launch_flags := _launch_flags(arguments) if serves else [])]
    engine_args: list[str] = []
    if serves:
        found, engine_args = known.parse_known_args(arguments)
    else:
        found = known.parse_args(arguments)
    values: dict[str, Any] = vars(found)
    values["served_model_name"] = values["served_model_name"] or model
    values["reject_arg"] = [name.lstrip("-").replace("-", "_") for name in values["reject_arg"]]
    if values["starts"]:
        start = _count(values["starts"])
        values["seed"] += start
        if values["faulty_start"] and start not in values["faulty_start"]:
            values |= {name: known.get_default(name) for name in _faults(known)}
    if values["num_gpu_blocks_override"] is not None:
        values["kv_cache_tokens"] = 16 * values["num_gpu_blocks_override"]
    return Options(model=model, engine_args=tuple(engine_args), launch_flags=tuple(launch_flags), **values)


_REAL_FLAGS = ("--max-cudagraph-capture-size", "--num-gpu-blocks-override", "--moe-backend")


def _launch_flags(arguments: list[str]) -> list[str]:
    """Flags of real vLLM that have an effect here: `--name=value`, and the adapters with a word for each."""
    found = []
    for number, word in enumerate(arguments):
        name, has_value, value = word.partition("=")
        if name == "--lora-modules":
            more = takewhile(lambda each: not each.startswith("-"), arguments[number + 1 :])
            found += [name, *([value] if has_value else more)]
        if name in _REAL_FLAGS:
            found.append(f"{name}={value if has_value else arguments[number + 1]}")
    return found


def _behaviour(version: str) -> list[str]:
    path = os.environ.get("FAKE_VLLM_BEHAVIOUR")
    return [] if not path else list(json.loads(Path(path).read_text(encoding="utf-8")).get(version, []))


def _count(path: Path) -> int:
    """1 for the first start, also where servers start at once."""
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(".")
        file.flush()
        return file.tell()


def _faults(known: argparse.ArgumentParser) -> list[str]:
    return [action.dest for group in known._action_groups if group.title == "faults" for action in group._group_actions]
