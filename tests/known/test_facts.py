"""Facts derived from a deployment; a default is a fact only for a complete launch line."""

import json

import pytest

from regress_gate.known.matching.facts import ENGINE_DEFAULTS, derive_facts
from regress_gate.model.deployment import ArgValue, Deployment
from regress_gate.model.version import Version
from regress_gate.store.combined import ShippedBuilds


def test_platform_and_level_follow_from_the_accelerator() -> None:
    facts = derive_facts(Deployment(accelerator="NVIDIA H200"))
    assert (facts.platform, facts.gpu_arch) == ("cuda", "sm_90")


def test_given_facts_come_before_derived_ones() -> None:
    facts = derive_facts(Deployment(accelerator="NVIDIA H200", platform="rocm", gpu_arch="SM120"))
    assert (facts.platform, facts.gpu_arch) == ("rocm", "sm_120")


def test_the_platform_follows_from_the_level_alone() -> None:
    assert derive_facts(Deployment(gpu_arch="gfx942")).platform == "rocm"


def test_the_architecture_and_what_it_decides_follow_from_the_model() -> None:
    facts = derive_facts(Deployment(model="mistralai/Mixtral-8x7B-v0.1"))
    assert facts.architecture == "MixtralForCausalLM"
    assert facts.features["moe"] is True


def test_single_arguments_say_nothing_about_the_others() -> None:
    facts = derive_facts(Deployment(engine_args={"-tp": 8}))
    assert facts.sizes == {"tensor": 8}
    assert set(facts.args) == {"tensor_parallel_size"}
    assert facts.features == {}


def test_a_complete_launch_line_makes_defaults_facts() -> None:
    facts = derive_facts(Deployment(engine_args={"-tp": 8}, complete=True))
    assert facts.sizes == {"tensor": 8, "pipeline": 1, "data": 1}
    assert facts.args["enable_expert_parallel"] is False
    off = ("lora", "speculative_decoding", "disaggregated_prefill", "structured_output")
    assert facts.features == dict.fromkeys(off, False)


@pytest.mark.parametrize("argument", ["enable_auto_tool_choice", "tool_call_parser", "guided_decoding_backend"])
def test_structured_output_may_be_in_use_where_the_server_is_set_up_for_it(argument: str) -> None:
    facts = derive_facts(Deployment(engine_args={argument: True}, complete=True))
    assert "structured_output" not in facts.features


@pytest.mark.parametrize("build", ShippedBuilds().build_configs(Version(None)), ids=lambda build: str(build.version))
def test_the_defaults_are_those_of_every_build_that_is_shipped(build) -> None:  # type: ignore[no-untyped-def]
    # `enable_lora` is null in the parser and false in the engine.
    told = {
        key: build.arguments[key].default for key in ENGINE_DEFAULTS if key in build.arguments and key != "enable_lora"
    }
    assert len(told) >= len(ENGINE_DEFAULTS) - 2
    assert told == {key: ENGINE_DEFAULTS[key] for key in told}


PRODUCER = json.dumps({"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_producer"})
NIXL = json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"})
OFFLOAD = json.dumps({"kv_connector": "OffloadingConnector", "kv_role": "kv_both"})


@pytest.mark.parametrize(
    ("argument", "value", "feature", "used"),
    [
        ("enable_lora", True, "lora", True),
        ("no_enable_prefix_caching", True, "prefix_caching", False),
        ("speculative_config", '{"method": "mtp"}', "speculative_decoding", True),
        ("kv_transfer_config", PRODUCER, "disaggregated_prefill", True),
        ("kv_transfer_config", NIXL, "disaggregated_prefill", True),
        ("kv_transfer_config", OFFLOAD, "disaggregated_prefill", None),
        ("kv_transfer_config", "{not json", "disaggregated_prefill", None),
        ("kv_transfer_config", "[1]", "disaggregated_prefill", None),
        ("task", "embed", "embedding", True),
        ("task", "score", "rerank", True),
        ("task", "rerank", "rerank", True),
        ("task", "generate", "rerank", None),
        ("language_model_only", True, "multimodal", False),
    ],
)
def test_features_follow_from_arguments(argument: str, value: ArgValue, feature: str, used: bool | None) -> None:
    assert derive_facts(Deployment(engine_args={argument: value})).features.get(feature) is used


def test_a_given_feature_comes_before_a_derived_one() -> None:
    said = Deployment(model="meta-llama/Llama-3.1-8B", features={"multimodal": True})
    assert derive_facts(said).features["multimodal"] is True


def test_dependencies_are_known_by_their_canonical_names() -> None:
    assert derive_facts(Deployment(dependencies={"FlashInfer_Python": "0.5.2"})).dependencies == {
        "flashinfer-python": "0.5.2"
    }


def test_the_python_of_an_image_of_vllm_is_known_unless_another_is_given() -> None:
    image = Deployment(distribution="vllm/vllm-openai:v0.19.1")
    assert derive_facts(image).dependencies == {"python": "3.12"}
    given = image.model_copy(update={"dependencies": {"Python": "3.10.8"}})
    assert derive_facts(given).dependencies == {"python": "3.10.8"}
    assert derive_facts(Deployment(distribution="vllm")).dependencies == {}
