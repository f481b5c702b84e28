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
    config = f"model={options.model!r}"
    if options.max_cudagraph_capture_size is not None:
        sizes = [1, 2, 4, *range(8, options.max_cudagraph_capture_size + 1, 8)]
        config += f", compilation_config={{'cudagraph_capture_sizes': {sizes}}}"
    info("core.py:105", f"Initializing a V1 LLM engine (v{options.vllm_version}) with config: {config}", engine)
    if options.moe_backend is not None:
        info("unquantized.py:189", f"Using '{options.moe_backend}' Unquantized MoE backend out of 3", engine)
    info("default_loader.py:384", "Loading weights took 0.09 seconds", engine)


def started(options: Options, port: int) -> None:
    engine = "EngineCore"
    info("kv_cache_utils.py:1319", f"GPU KV cache size: {options.kv_cache_tokens:,} tokens", engine)
    info(
        "kv_cache_utils.py:1324",
        f"Maximum concurrency for 1,024 tokens per request: {options.kv_cache_tokens / 1024:.2f}x",
        engine,
    )
    took = f"{options.startup_delay:.2f} seconds"
    info("core.py:283", f"init engine (profile, create kv cache, warmup model) took {took}", engine)
    info("api_server.py:596", f"Starting vLLM server on http://{options.host}:{port}")
    say(f"INFO:     Started server process [{os.getpid()}]")
    say("INFO:     Waiting for application startup.")
    say("INFO:     Application startup complete.")


def out_of_device_memory() -> None:
    say("Traceback (most recent call last):", "EngineCore")
    say("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "EngineCore")
    say("RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}")


def import_failed() -> None:
    sys.stderr.write(
        "Traceback (most recent call last):\n"
        '  File "/venv/bin/vllm", line 3, in <module>\n'
        "    from vllm.entrypoints.cli.main import main\n"
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory\n"
    )
    sys.stderr.flush()


def unrecognized(words: list[str]) -> None:
    sys.stderr.write("usage: vllm [-h] [-v]\n            {chat,complete,serve,launch,bench,collect-env}\n")
    sys.stderr.write(f"            ...\nvllm: error: unrecognized arguments: {' '.join(words)}\n")
    sys.stderr.flush()


def engine_failed() -> None:
    """The engine met an error under load and ended."""
    say("ERROR 11-21 06:56:03 [core.py:1091] EngineCore encountered a fatal error.", "EngineCore")
    say("ERROR 11-21 06:56:03 [core.py:1091] Traceback (most recent call last):", "EngineCore")
    error = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    say(f"ERROR 11-21 06:56:03 [core.py:1091] {error}", "EngineCore")
    engine_gone()


def engine_gone() -> None:
    """What the API server logs about an engine that is gone; the only lines if the engine was killed."""
    say("ERROR 11-21 06:56:03 [async_llm.py:906] AsyncLLM output_handler failed.")
    say("ERROR 11-21 06:56:03 [async_llm.py:906] Traceback (most recent call last):")
    error = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)"
    say(f"ERROR 11-21 06:56:03 [async_llm.py:906] {error} for the root cause.")
