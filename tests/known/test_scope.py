"""The scope keys beyond model, accelerator, arguments and variables: each holds, does not hold, or lacks its fact."""

from typing import Any

import pytest

from regress_gate.known.matching.findings import match_scope
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies
from tests.factories.records import record

YES, NO, UNKNOWN = Applies.YES, Applies.NO, Applies.UNKNOWN
DENSE = {"model": "meta-llama/Llama-3.1-8B"}
UNLESS_SET = {"unless": [{"engine_args": {"max_num_seqs": "*"}}]}
UNLESS_VARIABLE = {"unless": [{"env": {"VLLM_USE_DEEP_GEMM": "*"}}]}


@pytest.mark.parametrize(
    ("scope", "deployment", "applies", "why"),
    [
        ({"platform": ["rocm"]}, {"accelerator": "MI300X"}, YES, "platform rocm"),
        ({"platform": ["rocm"]}, {"accelerator": "H100"}, NO, "platform cuda is not rocm"),
        ({"platform": ["rocm"]}, {}, UNKNOWN, "the platform is not known (--accelerator or --platform)"),
        ({"gpu_arch": ["sm_90"]}, {"accelerator": "H200"}, YES, "GPU level sm_90"),
        ({"gpu_arch": ["sm_12*"]}, {"accelerator": "GB10"}, YES, "GPU level sm_121"),
        ({"gpu_arch": ["sm_120"]}, {"accelerator": "H200"}, NO, "GPU level sm_90 is not sm_120"),
        ({"gpu_arch": ["gfx942"]}, {"platform": "cpu"}, NO, "platform cpu has no gfx942"),
        ({"gpu_arch": ["sm_90"]}, {"platform": "cuda"}, UNKNOWN, "(--accelerator or --gpu-arch)"),
        ({"accelerator": ["SM120"]}, {"accelerator": "RTX 5090"}, YES, "accelerator RTX 5090"),
        ({"accelerator": ["RTX 5090"]}, {"accelerator": "SM120"}, UNKNOWN, "does not say whether it is RTX 5090"),
        ({"accelerator": ["RTX 5090"]}, {"accelerator": "SM90"}, NO, "accelerator SM90 is not RTX 5090"),
        ({"accelerator": ["H200"]}, {"platform": "rocm"}, NO, "rocm is not the level of H200"),
        ({"accelerator": ["H200"]}, {"gpu_arch": "sm_120"}, NO, "sm_120 is not the level of H200"),
        ({"accelerator": ["H200"]}, {"gpu_arch": "sm_90"}, UNKNOWN, "the accelerator is not known (--accelerator)"),
        ({"architecture": ["LlamaFor*"]}, DENSE, YES, "architecture LlamaForCausalLM"),
        ({"architecture": ["Mixtral*"]}, DENSE, NO, "architecture LlamaForCausalLM is not Mixtral*"),
        ({"architecture": ["Mixtral*"]}, {"model": "a/b"}, UNKNOWN, "the architecture is not known (--architecture)"),
        ({"features": ["moe"]}, {"model": "openai/gpt-oss-20b"}, YES, "moe is in use"),
        ({"features": ["moe"]}, DENSE, NO, "moe is not in use"),
        ({"features": ["moe", "lora"]}, {**DENSE, "features": {"lora": True}}, YES, "lora is in use"),
        ({"features": ["moe", "lora"]}, DENSE, UNKNOWN, "whether lora is in use is not known (--feature lora=true or"),
        ({"features": ["lora"]}, {"complete": True}, NO, "lora is not in use"),
        ({"all_features": ["moe", "lora"]}, {**DENSE, "features": {"lora": True}}, NO, "moe is not in use"),
        ({"all_features": ["moe", "lora"]}, {"model": "openai/gpt-oss-20b"}, UNKNOWN, "whether lora is in use is not"),
        (
            {"all_features": ["moe", "lora"]},
            {"model": "openai/gpt-oss-20b", "features": {"lora": True}},
            YES,
            "moe is in use; lora is in use",
        ),
        (
            {"kv_cache_dtype": ["fp8*"]},
            {"engine_args": {"kv_cache_dtype": "fp8_e4m3"}},
            YES,
            "KV cache of type fp8_e4m3",
        ),
        ({"kv_cache_dtype": ["fp8*"]}, {"complete": True, "quantization": "none"}, NO, "KV cache of type auto is not"),
        (
            {"kv_cache_dtype": ["fp8*"]},
            {"complete": True, "quantization": "modelopt"},
            UNKNOWN,
            "the checkpoint decides",
        ),
        (
            {"kv_cache_dtype": ["fp8*"]},
            {},
            UNKNOWN,
            "the type of the KV cache is not known (--engine-arg kv_cache_dtype",
        ),
        ({"moe_quantization": ["mxfp4"]}, {"moe_quantization": "MXFP4"}, YES, "quantization of the experts MXFP4"),
        ({"moe_quantization": ["mxfp4"]}, DENSE, NO, "the model has no experts"),
        ({"moe_quantization": ["mxfp4"]}, {}, UNKNOWN, "(--moe-quantization)"),
        ({"accelerator": ["H100"]}, {"accelerator": "H1OO"}, UNKNOWN, "H1OO does not say whether it is H100"),
        ({"accelerator": ["H100"]}, {"accelerator": "Q7", "gpu_arch": "sm_90"}, UNKNOWN, "Q7 does not say"),
        ({"accelerator": ["H100"]}, {"accelerator": "Q7", "gpu_arch": "sm_120"}, NO, "accelerator Q7 is not H100"),
        ({"accelerator": ["H100"]}, {"accelerator": "Q7", "platform": "rocm"}, NO, "accelerator Q7 is not H100"),
        ({"accelerator": ["Q7"]}, {"accelerator": "Q7"}, YES, "accelerator Q7"),
        ({"parallel": {"tensor": ">=2"}}, {"engine_args": {"tp": 8}}, YES, "tensor parallel size 8 is >=2"),
        ({"parallel": {"tensor": ">=2"}}, {"complete": True}, NO, "tensor parallel size 1 is not >=2"),
        ({"parallel": {"data": ">1"}}, {}, UNKNOWN, "(--engine-arg data_parallel_size=…)"),
        ({"parallel": {"expert": True}}, {"engine_args": {"ep": True}}, YES, "engine argument enable_expert_parallel"),
        ({"parallel": {"expert": True}}, {"complete": True}, NO, "enable_expert_parallel false is not true"),
        (
            {"backends": {"attention": ["FLASHINFER"]}},
            {"backends": {"attention": "FlashInfer"}},
            YES,
            "attention backend",
        ),
        (
            {"backends": {"attention": ["FLASHINFER"]}},
            {"backends": {"attention": "FLASH_ATTN"}},
            NO,
            "is not FLASHINFER",
        ),
        ({"backends": {"attention": ["FLASHINFER"]}}, {}, UNKNOWN, "(--server-log or --backend attention=…)"),
        ({"backends": {"moe": ["deepgemm"]}}, DENSE, NO, "the model has no experts"),
        (
            {"dependencies": {"triton": "==3.5.*"}},
            {"dependencies": {"triton": "3.5.1"}},
            YES,
            "triton 3.5.1 is ==3.5.*",
        ),
        ({"dependencies": {"triton": "<3.5"}}, {"dependencies": {"triton": "3.5.1"}}, NO, "triton 3.5.1 is not <3.5"),
        ({"dependencies": {"triton": "<3.5"}}, {}, UNKNOWN, "(--collect-env or --dependency triton=…)"),
        (
            {"dependencies": {"triton": "<3.5"}},
            {"dependencies": {"triton": "own"}},
            UNKNOWN,
            "triton own is not a version",
        ),
        ({"dependencies": {"torch": "<2.9"}}, {"dependencies": {"torch": "2.9.0a0+git1"}}, NO, "is not <2.9"),
        (
            {"distribution": ["rocm/vllm*"]},
            {"distribution": "rocm/vllm:rocm6.3"},
            YES,
            "distribution rocm/vllm:rocm6.3",
        ),
        ({"distribution": ["rocm/vllm*"]}, {"distribution": "vllm"}, NO, "distribution vllm is not rocm/vllm*"),
        ({"distribution": ["rocm/vllm*"]}, {}, UNKNOWN, "the distribution is not known (--distribution)"),
        ({"engine_args": {"speculative_config": "x"}}, {"complete": True}, NO, "speculative_config is not set"),
        (
            {"engine_args": {"compilation_config.cudagraph_mode": "FULL"}},
            {"engine_args": {"compilation_config": '{"cudagraph_mode": "full"}'}},
            YES,
            "engine argument compilation_config.cudagraph_mode full",
        ),
        ({"engine_args": {"max_model_len": 8192}}, {"complete": True}, UNKNOWN, "(--engine-arg max_model_len=…)"),
        (
            {"engine_args": {"nnodes": ["2", "4"]}},
            {"complete": True},
            NO,
            "nnodes is not set, and by default not 2 or 4",
        ),
        ({"engine_args": {"nnodes": 2}}, {"complete": True, "unknown_args": ["nnodes"]}, UNKNOWN, "nnodes"),
        ({"engine_args": {"nnodes": 2}}, {}, UNKNOWN, "(--engine-arg nnodes=…)"),
        ({"engine_args": {"gpu_memory_utilization": [0.95]}}, {"complete": True}, NO, "by default not 0.95"),
        ({"engine_args": {"gpu_memory_utilization": [0.9]}}, {"complete": True}, UNKNOWN, "gpu_memory_utilization"),
        ({"engine_args": {"attention_config.use_cudnn_prefill": True}}, {"complete": True}, NO, "not true"),
        ({"engine_args": {"data_parallel_backend": "ray"}}, {"complete": True}, NO, "by default not ray"),
        ({"engine_args": {"additional_config.x": True}}, {"complete": True}, NO, "additional_config is not set"),
        # What vLLM chooses where nothing is set: some values nobody gets without asking.
        ({"engine_args": {"attention_backend": "TREE_ATTN"}}, {"complete": True}, NO, "by default not TREE_ATTN"),
        ({"engine_args": {"attention_backend": "CUSTOM"}}, {"complete": True}, NO, "by default not CUSTOM"),
        ({"engine_args": {"attention_backend": "FLASH_ATTN"}}, {"complete": True}, UNKNOWN, "attention_backend"),
        ({"engine_args": {"quantization": "experts_int8"}}, {"complete": True}, NO, "by default not experts_int8"),
        ({"engine_args": {"quantization": "gptq"}}, {"complete": True}, UNKNOWN, "quantization"),
        ({"engine_args": {"dtype": "float16"}}, {"complete": True}, UNKNOWN, "dtype"),
        ({"engine_args": {"disable_hybrid_kv_cache_manager": True}}, {"complete": True}, UNKNOWN, "hybrid"),
        ({"engine_args": {"no_such_argument": 1}}, {"complete": True}, UNKNOWN, "no_such_argument"),
        ({"env": {"VLLM_USE_V1": "0"}}, {"complete": True}, NO, "VLLM_USE_V1 is not set"),
        ({"env": {"VLLM_USE_V1": "0"}}, {}, UNKNOWN, "VLLM_USE_V1"),
        ({"env": {"VLLM_USE_V1": "0"}}, {"complete": True, "unknown_env": ["VLLM_USE_V1"]}, UNKNOWN, "VLLM_USE_V1"),
        ({"unless": [{"features": ["moe"]}]}, {"model": "openai/gpt-oss-20b"}, NO, "not with moe is in use"),
        ({"unless": [{"features": ["moe"]}]}, DENSE, YES, ""),
        ({"unless": [{"features": ["moe"]}]}, {"model": "a/b"}, UNKNOWN, "whether moe is in use is not known"),
        (
            {"platform": ["cuda"], "unless": [{"platform": ["cpu"]}, {"gpu_arch": ["sm_90"], "features": ["moe"]}]},
            {"accelerator": "H100", "model": "openai/gpt-oss-20b"},
            NO,
            "not with GPU level sm_90 and moe is in use",
        ),
        ({"unless": [{"gpu_arch": ["sm_90"], "features": ["moe"]}]}, {"accelerator": "A100"}, YES, ""),
        ({"unless": [{"features": ["lora"]}]}, {"complete": True}, YES, ""),
        (UNLESS_SET, {"engine_args": {"max_num_seqs": 2}}, NO, "not with engine argument max_num_seqs is set"),
        (UNLESS_SET, {"unknown_args": ["max_num_seqs"]}, NO, "not with engine argument max_num_seqs is set"),
        (UNLESS_SET, {"complete": True}, YES, ""),
        ({"engine_args": {"max_num_seqs": "*"}}, {"engine_args": {"max_num_seqs": 2}}, YES, "max_num_seqs is set"),
        ({"engine_args": {"moe_backend": "*"}}, {"complete": True}, NO, "moe_backend is not set"),
        ({"engine_args": {"hf_overrides": "*"}}, {"engine_args": {"hf_overrides.rope": 1}}, YES, "hf_overrides is set"),
        ({"engine_args": {"max_num_seqs": "*"}}, {}, UNKNOWN, "(--engine-arg max_num_seqs=…)"),
        ({"env": {"VLLM_USE_DEEP_GEMM": "*"}}, {"env": {"VLLM_USE_DEEP_GEMM": "0"}}, YES, "is set"),
        # Projects that start vLLM by a program of their own have no launch line of vLLM; one of them has.
        ({"distribution": ["*kserve*"]}, {}, UNKNOWN, "(--serve-command or --distribution)"),
        ({"distribution": ["*kserve*"]}, {"complete": True}, NO, "the launch line is vLLM's own"),
        ({"distribution": ["*localai*"]}, {"complete": True}, NO, "the launch line is vLLM's own"),
        ({"distribution": ["*vllm-omni*"]}, {"complete": True}, NO, "the launch line is vLLM's own"),
        ({"distribution": ["*vllm-omni*"]}, {"complete": True, "engine_args": {"omni": True}}, UNKNOWN, "distribution"),
        ({"distribution": ["*vllm-omni*"]}, {}, UNKNOWN, "distribution"),
        # A default that a complete launch line leaves in place is not set by anybody.
        ({"unless": [{"engine_args": {"moe_backend": "*"}}]}, {"complete": True}, YES, ""),
        ({"unless": [{"engine_args": {"moe_backend": "*"}}]}, {"engine_args": {"moe_backend": "auto"}}, NO, "is set"),
        (UNLESS_SET, {}, UNKNOWN, "(--engine-arg max_num_seqs=…)"),  # many launch lines set it
        ({"unless": [{"engine_args": {"moe_backend": "*"}}]}, {}, YES, ""),  # few do
        (UNLESS_VARIABLE, {"env": {"VLLM_USE_DEEP_GEMM": "1"}}, NO, "not with variable VLLM_USE_DEEP_GEMM is set"),
        (UNLESS_VARIABLE, {"unknown_env": ["VLLM_USE_DEEP_GEMM"]}, NO, "not with variable VLLM_USE_DEEP_GEMM is set"),
        (UNLESS_VARIABLE, {"complete_env": True}, YES, ""),
        (UNLESS_VARIABLE, {}, YES, ""),
    ],
)
def test_each_key(scope: dict[str, Any], deployment: dict[str, Any], applies: Applies, why: str) -> None:
    found, said = match_scope(record(scope=scope, workarounds=[]), Deployment.model_validate(deployment))
    assert found is applies
    assert why in said


@pytest.mark.parametrize("exception", [{"features": ["lora"]}, {"parallel": {"data": ">1"}}])
def test_an_exception_that_has_to_be_switched_on_excludes_nothing_while_nothing_mentions_it(
    exception: dict[str, Any],
) -> None:
    issue = record(scope={"unless": [exception]}, workarounds=[], severity="high")
    assert match_scope(issue, Deployment())[0] is YES
    unknown = Deployment(unknown_args=("data_parallel_size", "enable_lora"))
    assert match_scope(issue, unknown)[0] is UNKNOWN
