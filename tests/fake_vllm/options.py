"""The command line of the fake server. FAKE_VLLM_ARGS in the environment adds to it, for when others start it."""

import argparse
import os
import shlex
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Options:
    """Everything the server was told; the fields are the flags of --help."""

    model: str
    host: str
    port: int
    served_model_name: str
    vllm_version: str
    seed: int
    startup_delay: float
    ttft: float
    tpot: float
    jitter: float
    run_spread: float
    batch_slowdown: float
    max_num_seqs: int
    tokens_per_chunk: int
    die_at_start: bool
    die_after: int | None
    hang_after: int | None
    error_burst: tuple[int, int] | None
    garbage_every: int | None
    no_usage_every: int | None
    cut_every: int | None
    disorder_every: int | None
    short_every: int | None
    leak_mb: float
    engine_args: tuple[str, ...]
    """Flags of real vLLM that mean nothing here, kept for the start log."""


def _burst(text: str) -> tuple[int, int]:
    start, _, count = text.partition(":")
    return int(start), int(count)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fake_vllm",
        description="A fake vLLM server. Prints port=N on stdout, a vLLM-like start log on stderr. "
        "GET /fake/requests tells what arrived and when it was answered (monotonic clock).",
        epilog="Times are in seconds, requests are counted from 1, EVERY N means requests N, 2N, … "
        "Beginning with `serve MODEL`, flags of real vLLM are accepted and ignored. "
        "More flags are read from the environment variable FAKE_VLLM_ARGS.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=8000, help="0: any free one")
    add("--served-model-name", help="default: the model's name")
    add("--vllm-version", default="0.19.1", help="what /version says")
    add("--seed", type=int, default=0, help="of jitter and run spread")
    add("--startup-delay", type=float, default=0.0, help="until it listens; before that, connections are refused")
    timing = parser.add_argument_group("latency model")
    timing.add_argument("--ttft", type=float, default=0.02, help="time to first token")
    timing.add_argument("--tpot", type=float, default=0.005, help="time per further token")
    timing.add_argument("--jitter", type=float, default=0.0, help="coefficient of variation of every single delay")
    timing.add_argument("--run-spread", type=float, default=0.0, help="log-normal spread of one factor for all delays")
    timing.add_argument("--batch-slowdown", type=float, default=0.0, help="X: each other running request adds X delays")
    timing.add_argument("--max-num-seqs", type=int, default=256, help="requests that run at once; others wait")
    timing.add_argument("--tokens-per-chunk", type=int, default=1, help="as speculative decoding sends them")
    fault = parser.add_argument_group("faults")
    fault.add_argument("--die-at-start", action="store_true", help="exit 1 with a traceback after --startup-delay")
    fault.add_argument("--die-after", type=int, metavar="N", help="exit when request N+1 arrives")
    fault.add_argument("--hang-after", type=int, metavar="N", help="never answer requests after N")
    fault.add_argument("--error-burst", type=_burst, metavar="N:COUNT", help="HTTP 503 for COUNT requests from N on")
    fault.add_argument("--garbage-every", type=int, metavar="N", help="send an event that is no JSON")
    fault.add_argument("--no-usage-every", type=int, metavar="N", help="leave the usage out")
    fault.add_argument("--cut-every", type=int, metavar="N", help="close the connection in the middle of the answer")
    fault.add_argument("--disorder-every", type=int, metavar="N", help="finish the answer, then send its last token")
    fault.add_argument("--short-every", type=int, metavar="N", help="half the tokens asked for, as if all were well")
    fault.add_argument("--leak-mb", type=float, default=0.0, metavar="MB", help="memory growth per request")
    return parser


def parse(argv: list[str]) -> Options:
    arguments = [*argv, *shlex.split(os.environ.get("FAKE_VLLM_ARGS", ""))]
    model = "tiny"
    known = parser()
    engine_args: list[str] = []
    if arguments[:1] == ["serve"]:
        model, arguments = arguments[1], arguments[2:]
        found, engine_args = known.parse_known_args(arguments)
    else:
        found = known.parse_args(arguments)
    values: dict[str, Any] = vars(found)
    values["served_model_name"] = values["served_model_name"] or model
    return Options(model=model, engine_args=tuple(engine_args), **values)
