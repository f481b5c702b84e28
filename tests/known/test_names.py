"""Names with different spellings of one model, quantization or value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.known.matching import names
from regress_gate.model.deployment import ArgValue


@given(st.text(), st.text())
def test_any_text_can_be_compared(one: str, other: str) -> None:
    names.model_matches(one, other)
    names.quantization_matches(one, other)
    names.same_value(one, other)
    names.same_env_value(one, other)
    names.backend_matches(one, other)
    names.text_matches(one, other)


@pytest.mark.parametrize(
    ("pattern", "model", "matches"),
    [
        ("deepseek-ai/DeepSeek-R1*", "deepseek-ai/DeepSeek-R1", True),
        ("deepseek-ai/DeepSeek-R1*", "deepseek-ai/DeepSeek-R1-0528", True),
        ("deepseek-ai/DeepSeek-R1*", "DEEPSEEK-AI/deepseek-r1", True),
        ("deepseek-ai/DeepSeek-R1*", "DeepSeek-R1-0528", True),
        ("deepseek-ai/DeepSeek-R1*", "/models/DeepSeek-R1", True),
        ("deepseek-ai/DeepSeek-R1*", "/models/deepseek-ai/DeepSeek-R1/", True),
        ("deepseek-ai/DeepSeek-R1*", "./DeepSeek-R1", True),
        ("deepseek-ai/DeepSeek-R1*", "/hub/models--deepseek-ai--DeepSeek-R1/snapshots/4236a6af", True),
        ("MiniMaxAI/MiniMax-M2*", "/data/models/MiniMaxAI__MiniMax-M2.7", True),
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B", False),
        ("deepseek-ai/DeepSeek-R1*", "deepseek-ai/DeepSeek-V3", False),
        ("deepseek-ai/DeepSeek-R1*", "/models/DeepSeek-V3", False),
        ("deepseek-ai/DeepSeek-R1*", "nvidia/DeepSeek-R1-FP4", None),
        ("*gemma-4-26B-A4B*AWQ*", "cyankiwi/gemma-4-26B-A4B-it-AWQ-4bit", True),
        ("*gemma-4-26B-A4B*AWQ*", "google/gemma-4-26B-A4B-it", False),
        ("distil-whisper/*", "distil-whisper/distil-large-v3", True),
        ("distil-whisper/*", "meta-llama/Llama-3.1-8B", False),
        ("distil-whisper/*", "/models/distil-large-v3", None),
        ("org/Model", "", False),
        ("s3://*", "s3://bucket/Llama-3.1-8B", True),
        ("s3://*", "gs://bucket/Llama-3.1-8B", False),
        ("s3://*", "/models/Llama-3.1-8B", False),
    ],
)
def test_models_by_glob_family_and_local_path(pattern: str, model: str, matches: bool | None) -> None:
    assert names.model_matches(pattern, model) is matches


@pytest.mark.parametrize(
    ("pattern", "given_name", "matches"),
    [
        ("fp8*", "FP8", True),
        ("fp8*", "fp8_e4m3", True),
        ("*fp8*", "w8a8-FP8", True),
        ("fp8*", "none", False),
        ("fp8*", "bf16", False),
        ("none", "BF16", True),
        ("none", "bfloat16", True),
        ("none", "fp8", False),
        ("fp8*", "awq", False),
        ("fp8*", "compressed-tensors", None),
        ("fp8*", "compressed_tensors", None),
        ("compressed-tensors", "compressed_tensors", True),
        ("none", "compressed-tensors", False),
        ("none", "auto", False),
    ],
)
def test_quantizations(pattern: str, given_name: str, matches: bool | None) -> None:
    assert names.quantization_matches(pattern, given_name) is matches


@pytest.mark.parametrize("name", ["fp8", "FP8_E4M3", "none", "bf16", "int4-awq", "w4a16", "nvfp4", "auto-gptq", "gguf"])
def test_a_quantization_that_holds_a_known_name_is_known(name: str) -> None:
    assert names.unknown_quantization(name) == ""


def test_one_that_is_not_known_is_said_with_the_nearest() -> None:
    said = "quantization 'fp88' is not known here (did you mean 'fp8'?)"
    assert names.unknown_quantization("fp88") == said
    assert names.unknown_quantization("ours") == "quantization 'ours' is not known here"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (8, "8", True),
        (8, 8.0, True),
        (True, "true", True),
        (True, "False", False),
        ("Triton", "triton", True),
        ("flashinfer-cutlass", "flashinfer_cutlass", True),
        (0.9, "0.90", True),
        (8, 16, False),
        (True, 1, False),
        ("nan", "nan", True),
    ],
)
def test_engine_argument_values(one: str | int | float | bool, other: str | int | float | bool, same: bool) -> None:
    assert names.same_value(one, other) is same


def test_engine_arguments_are_known_by_their_full_names() -> None:
    given_args: dict[str, ArgValue] = {
        "--tensor-parallel-size": 8,
        "-ep": True,
        "no_enable_prefix_caching": True,
        "q": "fp8",
    }
    assert names.canonical_args(given_args) == {
        "tensor_parallel_size": 8,
        "enable_expert_parallel": True,
        "enable_prefix_caching": False,
        "quantization": "fp8",
    }
    assert names.canonical_args({"O": '{"mode": 3}'}) == {"compilation_config.mode": 3}


@pytest.mark.parametrize(
    ("value", "taken"),
    [
        (
            '{"mode": 3, "pass": {"fuse": true}, "sizes": [1, 2]}',
            {"a.mode": 3, "a.pass.fuse": True, "a.sizes": "[1, 2]"},
        ),
        ("{}", {"a": "{}"}),
        ('{"mode": null}', {"a.mode": "null"}),
        ("{not json", {"a": "{not json"}),
        ("[1]", {"a": "[1]"}),
        ("{" * 100_000, {"a": "{" * 100_000}),
    ],
)
def test_arguments_that_are_json_objects_are_flattened(value: str, taken: dict[str, ArgValue]) -> None:
    assert names.canonical_args({"a": value}) == taken


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("FLASH_ATTN", "Flash Attention", True),
        ("FLEX_ATTENTION", "FlexAttention", True),
        ("deepgemm", "DEEP_GEMM", True),
        ("FLASHINFER", "FlashInfer", True),
        ("FLASHINFER", "FLASHINFER_MLA", False),
        ("FLASHINFER*", "FLASHINFER_MLA", True),
    ],
)
def test_backends_in_the_words_of_logs_and_flags(pattern: str, name: str, matches: bool) -> None:
    assert names.backend_matches(pattern, name) is matches


def test_variables_are_on_or_off_in_either_spelling() -> None:
    assert names.same_env_value("1", "True")
    assert names.same_env_value("false", "0")
    assert not names.same_env_value("1", "0")
