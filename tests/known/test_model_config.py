"""The facts in a model's `config.json`; a name that is not a directory gives none."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.known.matching.models import from_model_config, read_model_directory

DENSE = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", "num_hidden_layers": 32}
MOE = {"architectures": ["DeepseekV3ForCausalLM"], "n_routed_experts": 256}


def weights(kind: str, bits: int, activations: int | None = None, **more: Any) -> dict[str, Any]:
    group: dict[str, Any] = {"weights": {"type": kind, "num_bits": bits, **more}, "input_activations": None}
    if activations is not None:
        group["input_activations"] = {"type": kind, "num_bits": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}


@pytest.mark.parametrize(
    ("quantization", "name"),
    [
        (None, "none"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "awq"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt"}, "modelopt"),
        ({"quant_algo": "FP8_PB_WO"}, "fp8-pb-wo"),
        (weights("float", 8), "fp8"),
        (weights("int", 8), "int8-w8a16"),
        (weights("int", 8, activations=8), "int8-w8a8"),
        (weights("int", 4), "int4-w4a16"),
        (weights("float", 4, group_size=16), "nvfp4"),
        (weights("float", 4, group_size=32), "mxfp4"),
        (weights("float", 3), "compressed-tensors"),
        ({"quant_method": "compressed-tensors"}, "compressed-tensors"),
        ("fp8", None),
    ],
)
def test_what_holds_the_weights(quantization: Any, name: str | None) -> None:
    config = DENSE if quantization is None else {**DENSE, "quantization_config": quantization}
    assert from_model_config(config).quantization == name


def test_experts_are_seen_and_their_format_with_them() -> None:
    told = from_model_config({**MOE, "quantization_config": {"quant_method": "fp8"}})
    assert told.features["moe"] is True
    assert told.moe_quantization == "fp8"
    assert from_model_config(DENSE).features == {"moe": False, "multimodal": False}


def test_the_text_part_of_a_model_with_pictures_counts() -> None:
    config = {"architectures": ["XForConditionalGeneration"], "vision_config": {}, "text_config": {"num_experts": 8}}
    assert from_model_config(config).features == {"moe": True}


def test_layers_without_full_attention_make_a_hybrid() -> None:
    mixed = {**DENSE, "layer_types": ["linear_attention", "full_attention"]}
    assert from_model_config(mixed).features["hybrid_model"] is True
    assert from_model_config({**DENSE, "layer_types": ["full_attention"]}).features["hybrid_model"] is False


def test_a_kv_cache_that_the_checkpoint_asks_for() -> None:
    config = {
        **DENSE,
        "quantization_config": {**weights("float", 8), "kv_cache_scheme": {"type": "float", "num_bits": 8}},
    }
    assert from_model_config(config).kv_cache_dtype == "fp8"


def test_a_directory_is_read_and_a_name_is_not(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    told = read_model_directory(str(tmp_path))
    assert told is not None
    assert told.architecture == "LlamaForCausalLM"
    assert read_model_directory("meta-llama/Llama-3.1-8B") is None
    assert read_model_directory("~nobody-of-that-name/model") is None
    assert read_model_directory("x" * 5000) is None


@pytest.mark.parametrize(
    ("variable", "below"), [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")]
)
def test_what_hugging_faces_cache_has_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    downloads = tmp_path / below / "models--org--Some-Model_1.5"
    for commit, architecture in (("0a1b", "LlamaForCausalLM"), ("2c3d", "MixtralForCausalLM")):
        (downloads / "snapshots" / commit).mkdir(parents=True)
        (downloads / "snapshots" / commit / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    assert read_model_directory("org/Some-Model_1.5") is None
    (downloads / "refs").mkdir()
    (downloads / "refs" / "main").write_text("2c3d")
    told = read_model_directory("org/Some-Model_1.5")
    assert told is not None
    assert told.architecture == "MixtralForCausalLM"
    assert read_model_directory("org/Other") is None
    for damaged in (b"4e5f", b"", b"\xff\xfe", b"\0"):
        (downloads / "refs" / "main").write_bytes(damaged)
        assert read_model_directory("org/Some-Model_1.5") is None


@pytest.mark.parametrize(
    ("content", "what"),
    [("{", "is not JSON"), ('["\\ud800"]', "is not JSON"), ("[]", "is not a model's configuration")],
)
def test_a_configuration_that_is_none_is_refused(tmp_path: Path, content: str, what: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(InputError, match=what):
        read_model_directory(str(tmp_path))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
KEYS = st.sampled_from(["architectures", "quantization_config", "text_config", "layer_types", "num_experts"])


@given(st.dictionaries(KEYS, JSON))
def test_no_configuration_is_too_strange(config: dict[str, Any]) -> None:
    from_model_config(config)
