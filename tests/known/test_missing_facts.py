"""Of many missing facts, those that would decide the most issues are named."""

from typing import Any

import pytest

from regress_gate.known.matching.findings import match_issues, missing_facts_text, rank_missing_facts
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies
from regress_gate.model.version import Version
from tests.factories.records import IN_SCOPE, affected, record

MODEL = {"model": ["org/Model*"]}
RECORDS = [
    record(id="VLLM-1", scope=MODEL),
    record(id="VLLM-2", scope={**MODEL, "accelerator": ["H200"]}),
    record(id="VLLM-3", scope={"engine_args": {"block_size": 64}}),
    record(id="VLLM-4", scope=MODEL, affected=[affected({"introduced": "0.18.0"}, {"fixed": "0.20.0"})]),
]


def test_flags_are_named_by_how_many_issues_wait_for_them() -> None:
    found = match_issues(RECORDS, Deployment(), Version.parse("0.19.0"), Version.parse("0.20.0"))
    assert missing_facts_text(found) == (
        "Known issues need more facts; most wanted: --serve-command or --deployment (3), --accelerator (1)."
    )


def test_with_the_whole_launch_line_single_flags_are_named() -> None:
    found = match_issues(RECORDS, Deployment(complete=True), Version.parse("0.19.0"), Version.parse("0.20.0"))
    assert missing_facts_text(found, complete=True) == (
        "Known issues need more facts; most wanted: --model (2), --engine-arg block_size (1), --accelerator (1)."
    )


def test_facts_for_the_decision_are_named_first() -> None:
    found = match_issues(RECORDS, Deployment(), Version.parse("0.19.0"), Version.parse("0.20.0"))
    assert missing_facts_text(found, {"VLLM-3"}, complete=True).endswith(
        "most wanted: --engine-arg block_size (1), --model (2), --accelerator (1)."
    )
    decides = [(("--accelerator",), True), (("--model",), False), (("--model",), False)]
    assert rank_missing_facts(decides) == [("--accelerator", 1), ("--serve-command or --deployment", 2)]


def test_what_settles_issues_alone_comes_before_what_many_need_among_others() -> None:
    missing = [(("--accelerator",), False), (("--quantization", "--env A"), False), (("--env A", "--env B"), False)]
    assert rank_missing_facts(missing) == [
        ("--accelerator", 1),
        ("--env A", 2),
        ("--env B", 1),
        ("--quantization", 1),
    ]


def test_the_launch_line_goes_before_a_single_fact_that_settles_no_more() -> None:
    missing = [(("--accelerator",), False), (("--model", "--engine-arg tensor_parallel_size"), False)]
    assert rank_missing_facts(missing) == [("--serve-command or --deployment", 1), ("--accelerator", 1)]


def test_a_whole_launch_line_is_recognised_by_what_is_not_missing() -> None:
    assert rank_missing_facts([(("--engine-arg block_size",), False)]) == [("--engine-arg block_size", 1)]


def test_nothing_is_asked_where_everything_is_stated() -> None:
    assert missing_facts_text(match_issues(RECORDS[:2], IN_SCOPE, None, Version.parse("0.20.0"))) == ""


OPT_INS = [
    {"engine_args": {"enable_sleep_mode": True}},
    {"env": {"VLLM_BATCH_INVARIANT": "1"}},
    {"features": ["speculative_decoding"]},
    {"engine_args": {"kv_transfer_config": "x"}},
    {"engine_args": {"kv_transfer_config.kv_connector": "NixlConnector"}},
    {"engine_args": {"distributed_executor_backend": "ray"}},
    {"env": {"VLLM_MXFP4_USE_MARLIN": ["1", "0"]}},
    {"env": {"VLLM_USE_FLASHINFER_MOE_FP8": "1"}},
    {"env": {"VLLM_FLASHINFER_MOE_BACKEND": ["throughput", "latency", "masked_gemm"]}},
    {"env": {"VLLM_ROCM_CUSTOM_PAGED_ATTN": "0"}},
    {"dependencies": {"nixl-cu12": ">=0"}},
    {"dependencies": {"LLaMAFactory": ">=0.9.4"}},
    {"distribution": ["*djl-inference*", "*lmi19*"]},
]
RARE_CPUS = ({"accelerator": ["Apple*"]}, {"accelerator": ["Power10*", "ppc64le"]})
NO_OPT_INS = [
    {"engine_args": {"block_size": 64}},
    {"engine_args": {"distributed_executor_backend": "mp"}},
    {"engine_args": {"enable_prefix_caching": True}},
    {"env": {"VLLM_ROCM_USE_AITER": "1"}},
    {"env": {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}},
    {"env": {"VLLM_USE_FLASHINFER_SAMPLER": "1"}},
    {"env": {"VLLM_USE_V1": "1"}},
    {"features": ["multimodal"]},
    {"dependencies": {"transformers": ">=5"}},
]
H200 = Deployment(accelerator="H200")
CARRIED, NEW = ("0.21.0", "0.22.0"), ("0.19.0", "0.20.0")


def applies(scope: dict[str, Any], move: tuple[str, str], deployment: Deployment, severity: str = "medium") -> Applies:
    issue = record(scope=scope, severity=severity, workarounds=[])
    (found,) = match_issues([issue], deployment, *map(Version.parse, move))
    return found.applies


@pytest.mark.parametrize("scope", OPT_INS)
def test_an_opt_in_that_nothing_mentions_is_off_where_it_cannot_block(scope: dict[str, Any]) -> None:
    assert applies(scope, CARRIED, H200) is Applies.NO
    assert applies(scope, NEW, H200.model_copy(update={"complete": True})) is Applies.NO


@pytest.mark.parametrize("scope", OPT_INS)
def test_an_opt_in_is_asked_for_where_it_could_matter(scope: dict[str, Any]) -> None:
    assert applies(scope, NEW, H200) is Applies.UNKNOWN
    assert applies(scope, CARRIED, H200, "high") is Applies.UNKNOWN
    issue = record(scope=scope, severity="medium", workarounds=[])
    (without_base,) = match_issues([issue], H200, None, Version.parse("0.22.0"))
    assert without_base.applies is Applies.UNKNOWN


def test_a_severe_issue_behind_an_opt_in_variable_is_asked_for_with_the_whole_launch_line_too() -> None:
    whole = H200.model_copy(update={"complete": True})
    assert applies({"env": {"VLLM_BATCH_INVARIANT": "1"}}, NEW, whole, "high") is Applies.UNKNOWN


@pytest.mark.parametrize("scope", RARE_CPUS)
def test_a_cpu_on_which_few_serve_is_named_by_who_does(scope: dict[str, Any]) -> None:
    on_cpu = Deployment(platform="cpu", complete=True)
    assert applies(scope, NEW, on_cpu) is Applies.NO
    assert applies(scope, NEW, on_cpu, "high") is Applies.UNKNOWN
    assert applies({"accelerator": ["Graviton*"]}, NEW, on_cpu) is Applies.UNKNOWN


@pytest.mark.parametrize("scope", NO_OPT_INS)
def test_what_may_be_on_without_being_asked_for_is_no_opt_in(scope: dict[str, Any]) -> None:
    assert applies(scope, CARRIED, H200) is Applies.UNKNOWN


def test_a_part_of_an_argument_that_is_set_otherwise_is_asked_for() -> None:
    drafts = H200.model_copy(update={"engine_args": {"speculative_config.model": "a/draft"}})
    assert applies({"engine_args": {"speculative_config.method": "mtp"}}, CARRIED, drafts) is Applies.UNKNOWN


def test_an_opt_in_that_is_stated_counts() -> None:
    on = H200.model_copy(update={"env": {"VLLM_BATCH_INVARIANT": "1"}})
    assert applies({"env": {"VLLM_BATCH_INVARIANT": "1"}}, CARRIED, on) is Applies.YES
