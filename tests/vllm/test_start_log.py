"""Facts in start logs of many versions; nothing is assumed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.vllm.start_log import StartLog, StartupSplit, kv_cache_tokens, parse_metrics, read_start_log

ANSI = "\x1b[0;36m(APIServer pid=31)\x1b[0;0m "
OLD_CPU = f"""\
{ANSI}INFO 11-21 02:40:46 [api_server.py:1351] vLLM API server version 0.13.0
{ANSI}INFO 11-21 02:40:46 [utils.py:253] non-default args: {{'port': 8110, 'model': './m', 'dtype': 'float32', \
'served_model_name': ['tiny'], 'compilation_config': CompilationConfig(mode=<Mode.NONE: 0>, sizes=[1, 2])}}
{ANSI}INFO 11-21 02:40:57 [model.py:514] Resolved architecture: LlamaForCausalLM
(EngineCore_DP0 pid=32) INFO 11-21 02:41:07 [core.py:93] Initializing a V1 LLM engine (v0.13.0) with config: \
model='./m', speculative_config=None, dtype=torch.float32, pass_config={{'a': 1, 'b': [1, 2]}}, enforce_eager=True
(EngineCore_DP0 pid=32) INFO 11-21 02:41:09 [default_loader.py:308] Loading weights took 0.03 seconds
(EngineCore_DP0 pid=32) INFO 11-21 02:41:09 [kv_cache_utils.py:1291] GPU KV cache size: 174,720 tokens
(EngineCore_DP0 pid=32) INFO 11-21 02:41:09 [kv_cache_utils.py:1296] \
Maximum concurrency for 1,024 tokens per request: 170.62x
(EngineCore_DP0 pid=32) INFO 11-21 02:41:09 [core.py:259] \
init engine (profile, create kv cache, warmup model) took 0.44 seconds
"""
NEW_CPU = """\
(APIServer pid=97) INFO 11-21 02:11:13 [api_utils.py:347]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0
(APIServer pid=97) WARNING 11-21 02:11:27 [vllm.py:725] \
Model Runner V2 requires Triton; using the V1 model runner instead.
(Worker pid=99) INFO 11-21 02:11:58 [default_loader.py:501] Loading weights took 0.06 seconds
(EngineCore pid=98) INFO 11-21 02:11:59 [utils.py:347] Using LBHNC KV cache layout.
(EngineCore pid=98) INFO 11-21 02:11:59 [kv_cache_utils.py:2327] CPU KV cache size: 174,720 tokens, \
Maximum concurrency for 1,024 tokens per request: 170.62x
(EngineCore pid=98) INFO 11-21 02:12:00 [core.py:402] init engine (profile, create kv cache, warmup model) took 0.77 s
"""
GPU = """\
(Worker_TP0 pid=8) INFO 06-14 04:57:13 [cuda.py:334] Using FLASH_ATTN attention backend out of potential backends: \
['FLASH_ATTN', 'FLASHINFER', 'TRITON_ATTN'].
(Worker_TP0 pid=8) INFO 06-14 04:57:13 [flash_attn.py:593] Using FlashAttention version 3
(Worker_TP0 pid=8) INFO 06-14 04:57:13 [fp8.py:419] Using MARLIN Fp8 MoE backend out of potential backends: ['AITER'].
(Worker_TP0 pid=8) INFO 06-14 04:57:13 [topk.py:55] Using FlashInfer for top-p & top-k sampling.
(Worker_TP0 pid=8) INFO 06-14 04:57:20 [default_loader.py:384] Loading weights took 6.10 seconds
(Worker_TP1 pid=9) INFO 06-14 04:57:21 [default_loader.py:384] Loading weights took 7.25 seconds
(Worker_TP0 pid=8) INFO 06-14 04:57:21 [gpu_model_runner.py:3001] Model loading took 55.22 GiB memory and 8.5 seconds
(Worker_TP0 pid=8) INFO 06-14 04:58:00 [monitor.py:34] torch.compile takes 33.12 s in total
(EngineCore_DP0 pid=4) INFO 06-14 04:58:05 [kv_cache_utils.py:1087] GPU KV cache size: 49,152 tokens
(EngineCore_DP1 pid=5) INFO 06-14 04:58:05 [kv_cache_utils.py:1087] GPU KV cache size: 49,168 tokens
(Worker_TP0 pid=8) INFO 06-14 04:58:20 [gpu_model_runner.py:3480] Graph capturing finished in 8 secs, took 0.31 GiB
(EngineCore_DP0 pid=4) INFO 06-14 04:58:21 [core.py:259] \
init engine (profile, create kv cache, warmup model) took 70.62 s (compilation: 42.18 s)
"""


def test_an_old_cpu_log() -> None:
    log = read_start_log(OLD_CPU)
    assert log.version == "0.13.0"
    assert log.architecture == "LlamaForCausalLM"
    assert log.non_default_args == {
        "port": 8110,
        "model": "./m",
        "dtype": "float32",
        "served_model_name": ["tiny"],
        "compilation_config": "CompilationConfig(mode=<Mode.NONE: 0>, sizes=[1, 2])",
    }
    assert log.config["dtype"] == "torch.float32"
    assert log.config["pass_config"] == "{'a': 1, 'b': [1, 2]}"
    assert (log.kv_cache_tokens, log.max_concurrency) == (174720, 170.62)
    assert log.split == StartupSplit(load_weights=0.03, init_engine=0.44)


def test_a_new_cpu_log() -> None:
    log = read_start_log(NEW_CPU)
    assert log.version == "0.32.0"
    assert log.backends == {"model_runner": "V1", "kv_cache_layout": "LBHNC"}
    assert (log.kv_cache_tokens, log.max_concurrency) == (174720, 170.62)
    assert log.split == StartupSplit(load_weights=0.06, init_engine=0.77)


def test_a_gpu_log_over_several_processes() -> None:
    log = read_start_log(GPU)
    assert log.backends == {
        "attention": "FLASH_ATTN",
        "flash_attention_version": "3",
        "moe": "MARLIN",
        "sampler": "FlashInfer",
    }
    assert log.kv_cache_tokens == 49152 + 49168  # two engines
    assert log.weights_bytes == pytest.approx(55.22 * 2**30)
    assert log.split == StartupSplit(7.25, 8.5, 42.18, 8.0, 70.62)  # the slowest of the workers


@pytest.mark.parametrize(
    ("line", "name", "backend"),
    [
        ("Using AttentionBackendEnum.TRITON_ATTN backend.", "attention", "TRITON_ATTN"),
        ("Using Flash Attention backend on V1 engine.", "attention", "Flash Attention"),
        ("Using HND KV cache layout for CPU_ATTN backend.", "attention", "CPU_ATTN"),
        ("Using AttentionBackendEnum.TORCH_SDPA for MMEncoderAttention.", "attention_encoder", "TORCH_SDPA"),
        ("Using FLASH_ATTN MLA prefill backend.", "attention_mla_prefill", "FLASH_ATTN"),
        ("Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of potential backends: [].", "moe", "FLASHINFER_CUTLASS"),
        ("Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM", "linear", "FlashInferCutlassNvFp4LinearKernel"),
        ("Using V2 Model Runner", "model_runner", "V2"),
    ],
)
def test_backends_in_the_words_of_many_versions(line: str, name: str, backend: str) -> None:
    assert read_start_log(f"(EngineCore pid=1) INFO 11-21 02:11:59 [x.py:1] {line}").backends[name] == backend


def test_nothing_is_assumed() -> None:
    assert read_start_log("") == read_start_log("hello\n\n") == StartLog()


@given(
    st.text(alphabet="Using KV cachesize:tokns[](){}'\"=,.1g\n\\ ", max_size=300), st.sampled_from([OLD_CPU, GPU, ""])
)
def test_any_log_can_be_read(noise: str, log: str) -> None:
    read_start_log(noise + log[:200] + noise)
    read_start_log(f"INFO 11-21 02:40:46 [utils.py:253] non-default args: {{{noise}}}")
    read_start_log("Initializing a V1 LLM engine (v1) with config: " + noise)


METRICS = """\
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",cache_dtype="auto",engine="0",num_gpu_blocks="1365"} 1.0
vllm:num_requests_running{engine="0",model_name="a\\"b, {c}"} 0.0
process_start_time_seconds 1.79524131635e+09
garbage
"""


def test_metrics_are_read_with_their_labels() -> None:
    samples = parse_metrics(METRICS)
    assert [sample.name for sample in samples] == [
        "vllm:cache_config_info",
        "vllm:num_requests_running",
        "process_start_time_seconds",
    ]
    assert samples[1].labels == {"engine": "0", "model_name": 'a"b, {c}'}
    assert kv_cache_tokens(samples) == 174720


@pytest.mark.parametrize("text", ["", 'vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1.0'])
def test_a_cache_that_is_not_reported_is_unknown(text: Any) -> None:
    assert kv_cache_tokens(parse_metrics(text)) is None


def test_engines_are_told_apart_whatever_collected_the_log() -> None:
    lines = [
        f"vllm-1  | (EngineCore_DP{n} pid={n}) INFO 11-21 02:41:09 [x.py:1] GPU KV cache size: 100 tokens"
        for n in (0, 1)
    ]
    assert read_start_log("\n".join(lines)).kv_cache_tokens == 200


def test_tokens_a_step_are_read() -> None:
    line = "(APIServer pid=7) INFO 11-21 02:40:57 [scheduler.py:230] Chunked prefill is enabled with "
    assert read_start_log(f"{line}max_num_batched_tokens=2048.").max_num_batched_tokens == 2048
