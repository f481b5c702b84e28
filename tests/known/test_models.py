"""Facts that follow from a model's name and architecture, and facts that do not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.known.matching.models import architecture_of, features_of, list_families


@pytest.mark.parametrize(
    ("model", "architecture"),
    [
        ("deepseek-ai/DeepSeek-R1-0528", "DeepseekV3ForCausalLM"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "LlamaForCausalLM"),
        ("/models/DeepSeek-R1", "DeepseekV3ForCausalLM"),
        ("nvidia/DeepSeek-R1-FP4", "DeepseekV3ForCausalLM"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "MixtralForCausalLM"),
        ("meta-llama/Llama-3.1-8B-Instruct", "LlamaForCausalLM"),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1_5", "DeciLMForCausalLM"),
        ("nvidia/Llama-3.1-Nemotron-Nano-8B-v1", "LlamaForCausalLM"),
        ("meta-llama/Llama-3.2-11B-Vision-Instruct", "MllamaForConditionalGeneration"),
        ("Qwen/Qwen3-32B", "Qwen3ForCausalLM"),
        ("Qwen/Qwen3-30B-A3B", "Qwen3MoeForCausalLM"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3NextForCausalLM"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen2_5_VLForConditionalGeneration"),
        ("openai/gpt-oss-120b", "GptOssForCausalLM"),
        ("Qwen/Qwen3-32B-AWQ-4bit", "Qwen3ForCausalLM"),
        ("microsoft/Phi-3-vision-128k-instruct", "Phi3VForCausalLM"),
        ("microsoft/Phi-4-mini-instruct", "Phi3ForCausalLM"),
        ("google/gemma-4-12B-it", "Gemma4UnifiedForConditionalGeneration"),
        ("google/gemma-4-31B-it", "Gemma4ForConditionalGeneration"),
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "Mistral3ForConditionalGeneration"),
        ("mistralai/Pixtral-12B-2409", "PixtralForConditionalGeneration"),
        ("mistral-community/pixtral-12b", "LlavaForConditionalGeneration"),
        ("OpenGVLab/InternVL3-8B", "InternVLChatModel"),
        ("OpenGVLab/InternVL3-8B-hf", "InternVLForConditionalGeneration"),
        ("nvidia/Llama-3.1-Nemotron-Nano-VL-8B-V1", "Llama_Nemotron_Nano_VL"),
        ("openai/whisper-large-v3", "WhisperForConditionalGeneration"),
        ("THUDM/glm-4-9b-chat", "ChatGLMModel"),
        ("somebody/a-model-of-their-own", None),
    ],
)
def test_a_family_has_one_architecture(model: str, architecture: str | None) -> None:
    assert architecture_of(model) == architecture


@pytest.mark.parametrize(("name", "architecture"), list_families())
def test_no_wider_name_hides_a_family(name: str, architecture: str) -> None:
    example = name.replace("[0-9]", "3").replace("[2348]", "4").replace("*", "2")
    assert architecture_of(re.sub(r"\[(.)[^]]*\]", r"\1", example)) == architecture


def test_a_dense_text_model_has_neither_experts_nor_pictures() -> None:
    features = features_of("LlamaForCausalLM", "meta-llama/Llama-3.1-8B-Instruct")
    assert features == {
        "moe": False,
        "hybrid_model": False,
        "multimodal": False,
        "embedding": False,
        "rerank": False,
    }


@pytest.mark.parametrize(
    ("architecture", "feature", "used"),
    [
        ("MixtralForCausalLM", "moe", True),
        ("DeepseekV3ForCausalLM", "moe", True),
        ("Qwen3NextForCausalLM", "hybrid_model", True),
        ("MixtralForCausalLM", "hybrid_model", False),
        ("Qwen2_5_VLForConditionalGeneration", "multimodal", None),
        ("Qwen2_5_VLForConditionalGeneration", "moe", False),
        ("Qwen3_5ForConditionalGeneration", "moe", False),
        ("Qwen3_5ForConditionalGeneration", "hybrid_model", True),
        ("Gemma4ForConditionalGeneration", "moe", None),
        ("SomethingNewForCausalLM", "moe", None),
        ("MixtralForCausalLM", "multimodal", False),
        ("SomethingNewForCausalLM", "multimodal", False),
        ("Gemma4ForConditionalGeneration", "hybrid_model", False),
        ("Phi3VForCausalLM", "multimodal", None),
        ("DeepseekOCRForCausalLM", "multimodal", None),
        ("WhisperForConditionalGeneration", "multimodal", True),
        ("MistralModel", "embedding", True),
    ],
)
def test_an_architecture_decides_what_it_is_known_for(architecture: str, feature: str, used: bool | None) -> None:
    assert features_of(architecture, None).get(feature) is used  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("model", "has_experts"),
    [
        ("google/gemma-4-26B-A4B-it", True),
        ("cyankiwi/gemma-4-26B-A4B-it-AWQ-4bit", True),
        ("google/gemma-4-31B-it", False),
        ("google/gemma-4-E4B-it", False),
        ("/models/gemma-4-26b", None),
        ("OpenGVLab/InternVL3-8B", False),
        ("OpenGVLab/InternVL3_5-30B-A3B", True),
        ("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", True),
        ("nvidia/NVIDIA-Nemotron-Nano-9B-v2", None),
    ],
)
def test_a_name_may_say_whether_there_are_experts(model: str, has_experts: bool | None) -> None:
    assert features_of(architecture_of(model), model).get("moe") is has_experts


@pytest.mark.parametrize("model", ["Qwen/Qwen3-Embedding-8B", "Qwen/Qwen3-Reranker-8B", "/models/bge_m3"])
def test_a_name_of_an_embedding_model_leaves_open_what_it_serves(model: str) -> None:
    assert "embedding" not in features_of("Qwen3ForCausalLM", model)


def test_an_architecture_goes_before_what_a_name_says() -> None:
    assert features_of("Qwen3ForCausalLM", "org/8B-distilled-from-235B-A22B")["moe"] is False


@given(st.text(), st.text())
def test_any_text_may_be_asked_about(architecture: str, model: str) -> None:
    architecture_of(model)
    features_of(architecture, model)


@pytest.mark.parametrize("model", ["BAAI/bge-m3", "BAAI/bge-large-en-v1.5", "intfloat/multilingual-e5-large"])
def test_an_encoder_has_no_experts(model: str) -> None:
    assert features_of(architecture_of(model), model)["moe"] is False


@pytest.mark.parametrize("model", ["BAAI/bge-m3", "/models/bge-m3", "BAAI/bge-large-en-v1.5"])
def test_an_encoder_without_a_head_embeds(model: str) -> None:
    features = features_of(architecture_of(model), model)
    assert features["embedding"] is True
    assert "rerank" not in features  # texts can be compared by their embeddings


def test_an_encoder_with_a_head_leaves_open_what_it_serves() -> None:
    model = "BAAI/bge-reranker-v2-m3"
    assert not {"embedding", "rerank"} & features_of(architecture_of(model), model).keys()
