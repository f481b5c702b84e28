"""What vLLM prints while it starts, as far as the tool reads it."""

import os
import sys
import time

from tests.fake_vllm.options import Options


def say(line: str, process: str = "APIServer") -> None:
    sys.stderr.write(f"({process} pid={os.getpid()}) {line}\n")
    sys.stderr.flush()


def info(place: str, text: str, process: str = "APIServer") -> None:
    say(f"INFO {time.strftime('%m-%d %H:%M:%S')} [{place}] {text}", process)


def starting(options: Options) -> None:
    info("utils.py:299", f"version {options.vllm_version}")
    info("utils.py:299", f"model   {options.model}")
    info("utils.py:233", f"non-default args: {{'model': {options.model!r}, 'argv': {list(options.engine_args)}}}")
    info("model.py:549", "Resolved architecture: LlamaForCausalLM")
    engine = "EngineCore"
    info(
        "core.py:105",
        f"Initializing a V1 LLM engine (v{options.vllm_version}) with config: model={options.model!r}",
        engine,
    )
    info("default_loader.py:384", "Loading weights took 0.09 seconds", engine)


def started(options: Options, port: int) -> None:
    engine = "EngineCore"
    info("kv_cache_utils.py:1319", "GPU KV cache size: 174,720 tokens", engine)
    info("kv_cache_utils.py:1324", "Maximum concurrency for 1,024 tokens per request: 170.62x", engine)
    took = f"{options.startup_delay:.2f} seconds"
    info("core.py:283", f"init engine (profile, create kv cache, warmup model) took {took}", engine)
    info("api_server.py:596", f"Starting vLLM server on http://{options.host}:{port}")
    say(f"INFO:     Started server process [{os.getpid()}]")
    say("INFO:     Waiting for application startup.")
    say("INFO:     Application startup complete.")


def died() -> None:
    say("Traceback (most recent call last):", "EngineCore")
    say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "EngineCore")
    say("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")
