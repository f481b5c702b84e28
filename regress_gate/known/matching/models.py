"""Derives an architecture and features from a model's name. Not for: quantization, which no name gives reliably.

Architectures of families are those of the `config.json` in the publishers' own repositories on huggingface.co; traits
of architectures follow vLLM's table of supported models (docs.vllm.ai/en/latest/models/supported_models). Models and
architectures that are not listed give nothing.
"""

import re
from functools import cache

from regress_gate.known.matching import names
from regress_gate.model.deployment import Feature

_FAMILIES: tuple[tuple[str, str], ...] = (
    # The narrower name comes first: a distillation has its student's architecture.
    ("deepseek-ai/deepseek-r1-distill-llama*", "LlamaForCausalLM"),
    ("deepseek-ai/deepseek-r1-distill-qwen*", "Qwen2ForCausalLM"),
    ("deepseek-ai/deepseek-r1-0528-qwen3-8b", "Qwen3ForCausalLM"),
    ("deepseek-ai/deepseek-v3.2*", "DeepseekV32ForCausalLM"),
    ("deepseek-ai/deepseek-r1*", "DeepseekV3ForCausalLM"),
    ("deepseek-ai/deepseek-v3*", "DeepseekV3ForCausalLM"),
    ("deepseek-ai/deepseek-v2*", "DeepseekV2ForCausalLM"),
    ("moonshotai/kimi-k2.5*", "KimiK25ForConditionalGeneration"),
    ("moonshotai/kimi-k2*", "DeepseekV3ForCausalLM"),
    ("moonshotai/kimi-linear*", "KimiLinearForCausalLM"),
    ("mistralai/mixtral*", "MixtralForCausalLM"),
    ("mistralai/mistral-7b*", "MistralForCausalLM"),
    ("mistralai/mistral-nemo*", "MistralForCausalLM"),
    ("mistralai/mistral-large-instruct-24*", "MistralForCausalLM"),
    ("meta-llama/llama-4*", "Llama4ForConditionalGeneration"),
    ("meta-llama/llama-3.2-*-vision*", "MllamaForConditionalGeneration"),
    ("meta-llama/llama-[23]*", "LlamaForCausalLM"),
    ("meta-llama/meta-llama-3*", "LlamaForCausalLM"),
    ("openai/gpt-oss*", "GptOssForCausalLM"),
    ("qwen/qwen3-next*", "Qwen3NextForCausalLM"),
    ("qwen/qwen3-coder-next*", "Qwen3NextForCausalLM"),
    ("qwen/qwen3-vl-*-a[0-9]*b*", "Qwen3VLMoeForConditionalGeneration"),
    ("qwen/qwen3-vl-[2348]*", "Qwen3VLForConditionalGeneration"),
    ("qwen/qwen3-omni*", "Qwen3OmniMoeForConditionalGeneration"),
    ("qwen/qwen3.[56]-*-a[0-9]*b*", "Qwen3_5MoeForConditionalGeneration"),
    ("qwen/qwen3.[56]-*", "Qwen3_5ForConditionalGeneration"),
    ("qwen/qwen3-coder-*-a[0-9]*b*", "Qwen3MoeForCausalLM"),
    ("qwen/qwen3-*b-a[0-9]*b*", "Qwen3MoeForCausalLM"),
    ("qwen/qwen3-embedding*", "Qwen3ForCausalLM"),
    ("qwen/qwen3-reranker*", "Qwen3ForCausalLM"),
    ("qwen/qwen3-[0-9]*b*", "Qwen3ForCausalLM"),
    ("qwen/qwen2.5-vl*", "Qwen2_5_VLForConditionalGeneration"),
    ("qwen/qwen2-vl*", "Qwen2VLForConditionalGeneration"),
    ("qwen/qwen2.5-[0-9]*b*", "Qwen2ForCausalLM"),
    ("qwen/qwen2.5-coder*", "Qwen2ForCausalLM"),
    ("qwen/qwen2-57b-a14b*", "Qwen2MoeForCausalLM"),
    ("qwen/qwen2-[0-9]*b*", "Qwen2ForCausalLM"),
    ("qwen/qwen1.5-moe*", "Qwen2MoeForCausalLM"),
    ("qwen/qwq-32b*", "Qwen2ForCausalLM"),
    ("google/gemma-4*", "Gemma4ForConditionalGeneration"),
    ("google/gemma-3n*", "Gemma3nForConditionalGeneration"),
    ("google/gemma-3-1b*", "Gemma3ForCausalLM"),
    ("google/gemma-3-270m*", "Gemma3ForCausalLM"),
    ("google/gemma-3-*", "Gemma3ForConditionalGeneration"),
    ("google/gemma-2-*", "Gemma2ForCausalLM"),
    ("zai-org/glm-4.6v-flash*", "Glm4vForConditionalGeneration"),
    ("zai-org/glm-4.[56]v*", "Glm4vMoeForConditionalGeneration"),
    ("zai-org/glm-4.7-flash*", "Glm4MoeLiteForCausalLM"),
    ("zai-org/glm-4.[567]*", "Glm4MoeForCausalLM"),
    ("zai-org/glm-5*", "GlmMoeDsaForCausalLM"),
    ("minimaxai/minimax-m2*", "MiniMaxM2ForCausalLM"),
    ("minimaxai/minimax-text-01*", "MiniMaxText01ForCausalLM"),
    ("nvidia/*nemotron*-vl*", "NemotronH_Nano_VL_V2"),
    ("nvidia/*nemotron-3-*", "NemotronHForCausalLM"),
    ("nvidia/nvidia-nemotron-nano-*", "NemotronHForCausalLM"),
    ("nvidia/nemotron-h*", "NemotronHForCausalLM"),
    ("microsoft/phi-4", "Phi3ForCausalLM"),
    ("microsoft/phi-3-mini-*", "Phi3ForCausalLM"),
    ("microsoft/phi-3-medium-*", "Phi3ForCausalLM"),
    ("microsoft/phi-3.5-moe*", "PhiMoEForCausalLM"),
    ("microsoft/phi-3.5-mini*", "Phi3ForCausalLM"),
    ("ai21labs/*jamba*", "JambaForCausalLM"),
    ("ibm-granite/granite-4.0-h*", "GraniteMoeHybridForCausalLM"),
    ("facebook/opt-*", "OPTForCausalLM"),
    ("tiiuae/falcon-h1*", "FalconH1ForCausalLM"),
)

_MOE = re.compile(
    r"moe|mixtral|dbrx|deepseekv[234]|deepseekv32|gptoss|llama4|kimi|minimax|jamba|arctic|grok|qwen3next|olmoe|"
    r"longcat|ernie4_5_moe|hunyuanv1moe|bailing|step3|mimov2",
    re.IGNORECASE,
)
_HYBRID = re.compile(
    r"jamba|mamba|bamba|nemotronh|qwen3next|qwen3_5|kimilinear|falconh1|zamba|hybrid|minimaxtext01|plamo2|lfm2|phi4flash",
    re.IGNORECASE,
)
_DENSE_TEXT = frozenset(
    {
        *("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "GemmaForCausalLM"),
        *("Gemma2ForCausalLM", "Gemma3ForCausalLM", "PhiForCausalLM", "Phi3ForCausalLM", "OPTForCausalLM"),
        *("GPT2LMHeadModel", "GPTNeoXForCausalLM", "FalconForCausalLM", "GraniteForCausalLM", "OlmoForCausalLM"),
        *("Olmo2ForCausalLM", "CohereForCausalLM", "Cohere2ForCausalLM", "StableLmForCausalLM", "InternLM2ForCausalLM"),
        *("Glm4ForCausalLM", "ChatGLMModel", "BaichuanForCausalLM", "NemotronForCausalLM", "SmolLM3ForCausalLM"),
        *(
            "MiniCPMForCausalLM",
            "SeedOssForCausalLM",
            "ApertusForCausalLM",
            "Exaone4ForCausalLM",
            "Starcoder2ForCausalLM",
        ),
    }
)
"""Transformers without experts, state-space layers or pictures."""
_POOLING = re.compile(r"\b(?:embed|embedding|embeddings|bge|gte|e5|rerank|reranker|reward|classif\w*)\b", re.IGNORECASE)


@cache
def architecture_of(model: str) -> str | None:
    """The architecture of a model by its family's name, a local copy's too; None for families that are not listed."""
    for pattern, architecture in _FAMILIES:
        if names.model_matches(pattern, model) is not False:  # what others make of the weights keeps their architecture
            return architecture
    return None


@cache
def features_of(architecture: str | None, model: str | None) -> dict[Feature, bool]:
    """What the architecture decides, and what a name like `…-Embedding` says. What is not decided is left out."""
    found: dict[Feature, bool] = {}
    if architecture is not None:
        found |= _traits(architecture)
        generates = architecture.endswith(("ForCausalLM", "ForConditionalGeneration"))
        if generates and model is not None and not _POOLING.search(model.replace("_", "-")):
            found |= {"embedding": False, "rerank": False}
    return found


def _traits(architecture: str) -> dict[Feature, bool]:
    if architecture in _DENSE_TEXT:
        return {"moe": False, "hybrid_model": False, "multimodal": False}
    found: dict[Feature, bool] = {}
    if _MOE.search(architecture):
        found["moe"] = True
    if _HYBRID.search(architecture):
        found["hybrid_model"] = True
    elif found:
        found["hybrid_model"] = False
    if architecture.endswith("ForCausalLM"):
        found["multimodal"] = False
    return found
