"""What operators of real deployments are told by the shipped records, in the words that they read."""

import pytest

from regress_gate.known.matching.findings import waits_for_launch_line
from tests.cli.test_known_issues import checked, issue

SM120 = ("--accelerator", "RTX PRO 6000", "--model", "Qwen/Qwen3-30B-A3B-FP8", "--quantization", "fp8")
MIXTRAL = ("--accelerator", "H200", "--model", "mistralai/Mixtral-8x7B-v0.1", "--quantization", "none")
R1 = ("--accelerator", "H200", "--model", "deepseek-ai/DeepSeek-R1", "--engine-arg", "enable_expert_parallel")
FP8_ON_MI300X = ("--accelerator", "MI300X", "--model", "zai-org/GLM-4.7-FP8", "--quantization", "fp8")
DENSE = ("--accelerator", "H100", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--quantization", "none")


OF_A_RECORD = ("  VLLM-", "  REL-")


def entry(gate, id_, *arguments):
    """The part of the terminal's report that is about one issue, as one line."""
    out = gate("check", *arguments).out
    return " ".join(out.partition(f"  {id_},")[2].partition("\n\n")[0].split())


def test_fp8_on_sm120_gets_the_crash_in_0_24(gate):
    found = issue(checked(gate, "check", "v0.24.0", "--from", "v0.23.0", *SM120), "VLLM-47130")
    assert (found["applies"], found["effect"], found["blocks"]) == ("yes", "new", True)
    assert "VLLM_USE_DEEP_GEMM=0" in entry(gate, "VLLM-47130", "v0.24.0", "--from", "v0.23.0", *SM120)


def test_mixtral_on_h200_gets_the_changed_moe_backend_in_0_20(gate):
    found = issue(checked(gate, "check", "v0.20.0", "--from", "v0.19.1", *MIXTRAL), "VLLM-41306")
    assert (found["applies"], found["effect"], found["blocks"]) == ("yes", "new", True)
    assert "--moe-backend triton" in entry(gate, "VLLM-41306", "v0.20.0", "--from", "v0.19.1", *MIXTRAL)


def test_deepseek_r1_with_expert_parallelism_is_warned_that_closed_is_not_fixed(gate):
    found = issue(checked(gate, "check", "v0.19.1", *R1), "VLLM-28882")
    assert (found["applies"], found["status"]) == ("yes", "closed_unfixed")
    assert "status closed, not known to be fixed" in entry(gate, "VLLM-28882", "v0.19.1", *R1)


@pytest.mark.parametrize("move", [("v0.14.0", "--from", "v0.13.0"), ("v0.33.0", "--from", "v0.19.1"), ("v0.33.0",)])
def test_fp8_on_mi300x_is_warned_of_a_shortcoming_that_no_version_brought(gate, move):
    found = issue(checked(gate, "check", *move, *FP8_ON_MI300X), "VLLM-31475")
    assert (found["applies"], found["effect"], found["blocks"]) == ("yes", "carried", False)
    assert "the move does not bring it" in entry(gate, "VLLM-31475", *move, *FP8_ON_MI300X, "-v")
    if "--from" in move:
        assert entry(gate, "VLLM-31475", *move, *FP8_ON_MI300X).endswith("(no version is free of it)")


def test_the_fact_that_would_decide_is_asked_for_first(gate):
    launch = ("--serve-command", "vllm serve mistralai/Mixtral-8x7B-v0.1")
    advice = checked(gate, "check", "v0.20.0", "--from", "v0.19.1", *MIXTRAL[:-2], *launch)["advice"]
    assert "most wanted: --quantization (2)" in advice


@pytest.mark.parametrize("name", ["H1OO", "Q7"])
def test_an_unknown_accelerator_is_not_taken_for_one_without_issues(gate, name):
    done = gate("check", "v0.20.0", "--from", "v0.19.1", "--accelerator", name, *MIXTRAL[2:])
    assert done.code == 3
    assert "most wanted: --accelerator" in " ".join(done.out.split())


ENDED_BY_ONE_REQUEST = "REL-0240-91"
"""Whoever may send requests to a server of this kind can end it."""
ANSWERS_OF_0_24 = ["REL-0240-510", "REL-0240-511"]
ANSWERS_OF_0_21 = ["REL-0210-510", "SEMANTICROUTER-3708"]
"""Answers and limits of every server of these releases differ from those of the one before."""


@pytest.mark.parametrize(
    ("version", "deployment", "sure"),
    [
        ("v0.24.0", DENSE, [ENDED_BY_ONE_REQUEST, *ANSWERS_OF_0_24]),
        (
            "v0.24.0",
            ("--accelerator", "A100", "--model", "TheBloke/Llama-2-70B-GPTQ", "--quantization", "gptq_marlin"),
            [ENDED_BY_ONE_REQUEST, *ANSWERS_OF_0_24],
        ),
        (
            "v0.21.0",
            ("--platform", "cpu", "--model", "meta-llama/Llama-3.1-8B-Instruct", "--quantization", "none"),
            ANSWERS_OF_0_21,
        ),
        (
            "v0.24.0",
            ("--accelerator", "MI300X", "--model", "deepseek-ai/DeepSeek-R1", "--quantization", "fp8"),
            [*ANSWERS_OF_0_24],
        ),
    ],
    ids=["H100-dense", "A100-int4", "cpu", "MI300X-fp8"],
)
def test_an_ordinary_deployment_gets_few_records(gate, version, deployment, sure):
    result = checked(gate, "check", version, *deployment)
    assert result["decision"] == "pass"
    assert [found["id"] for found in result["known_issues"] if found["applies"] == "yes"] == sure
    unknown = [found for found in result["known_issues"] if found["applies"] == "unknown"]
    alone = [found for found in unknown if not waits_for_launch_line(found["missing"])]
    assert len(alone) <= 11  # the others are settings that nothing mentions, of which no launch line is given
    entries = [line for line in gate("check", version, *deployment).out.splitlines() if line.startswith(OF_A_RECORD)]
    assert len(entries) <= 5, "opt-ins that a launch line would settle are counted in one line"
    whole = (*deployment, "--serve-command", "vllm serve " + deployment[deployment.index("--model") + 1])
    told = {
        found["id"] for found in checked(gate, "check", version, *whole)["known_issues"] if found["applies"] != "no"
    }
    assert told >= set(sure)
    assert len(told - set(sure)) <= 2


def test_without_facts_about_the_deployment_one_gets_a_report_that_fits_a_screen(gate):
    short, full = (gate("check", "v0.24.0", "--from", "v0.23.0", *more).out for more in ((), ("-v",)))
    assert len(short.splitlines()) <= 40
    assert "more: -v shows them" in short
    assert full.count("needs more facts: ") > 100


@pytest.mark.parametrize(
    "move",
    [
        ("v0.24.0", "--from", "v0.23.0"),
        ("v0.20.0", "--from", "v0.19.1"),
        ("v0.19.1",),
        ("v0.27.0", "--from", "v0.26.0"),
        ("v0.33.0",),
    ],
    ids=" ".join,
)
def test_a_dense_bf16_deployment_on_h100_gets_none_of_these(gate, move):
    out = gate("check", *move, *DENSE).out
    for number in (47130, 41306, 28882, 31475, 51884):
        assert f"VLLM-{number}" not in out


HOPPER_MOE = ("--accelerator", "H200", "--quantization", "none")
LLAMA4 = (
    "--accelerator",
    "H100",
    "--model",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "--feature",
    "multimodal=true",
)
NVFP4_MOE = ("--accelerator", "RTX PRO 6000", "--quantization", "nvfp4", "--feature", "moe=true")
ASKS_FLASHINFER = ("--env", "VLLM_USE_FLASHINFER_MOE_FP4=1")
GB300_VL = (
    "--accelerator",
    "GB300",
    "--model",
    "nvidia/Qwen3-VL-235B-A22B-Instruct-NVFP4",
    "--feature",
    "multimodal=true",
)
FOUR_4090 = ("--accelerator", "4x RTX 4090", "--model", "Qwen/Qwen3-30B-A3B", "--quantization", "none")
GEMMA = ("--accelerator", "H20", "--model", "google/gemma-3-27b-it", "--quantization", "none")
QWEN36 = ("--model", "Qwen/Qwen3.6-35B-A3B-FP8", "--quantization", "fp8")
QWEN3 = ("--accelerator", "H100", "--model", "Qwen/Qwen3-8B", "--quantization", "none")
FP8 = ("--accelerator", "H100", "--quantization", "fp8")
AITER = ("--accelerator", "MI300X", "--quantization", "none", "--env", "VLLM_ROCM_USE_AITER=1")
GLM_ON_MI355X = ("--accelerator", "MI355X", "--model", "zai-org/GLM-5.3", "--architecture", "GlmMoeDsaForCausalLM")
MI300X_GRAPHS = ("--accelerator", "MI300X", "--engine-arg", "enforce_eager=false")
H200_NVL = ("--accelerator", "H200 NVL", "--engine-arg", "tensor_parallel_size=2")
NEMOTRON_ON_L40S = ("--accelerator", "L40S", "--model", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8")
TWO_B200 = ("--accelerator", "2x B200", "--quantization", "nvfp4", "--engine-arg", "tensor_parallel_size=2")
STRUCTURED = ("--accelerator", "H100", "--feature", "structured_output=true")
ONE_H100 = ("--accelerator", "H100", "--engine-arg", "tensor_parallel_size=1")
FULL_H100 = (*ONE_H100, "--engine-arg", "gpu_memory_utilization=0.97")
TWO_STAGES = ("--engine-arg", "pipeline_parallel_size=2")
RAY = ("--accelerator", "H100", "--engine-arg", "distributed_executor_backend=ray")
V2_LITE = ("--model", "deepseek-ai/DeepSeek-V2-Lite-Chat")
PLAIN_LINE = ("--serve-command", "vllm serve meta-llama/Llama-3.1-8B-Instruct")
V4_LINE = ("--serve-command", "vllm serve deepseek-ai/DeepSeek-V4-Pro --tensor-parallel-size 8")
V4_ON_MI300X = (
    *("--accelerator", "MI300X", "--model", "deepseek-ai/DeepSeek-V4-Pro"),
    *("--engine-arg", "tensor_parallel_size=8"),
)
EXPERTS = ("--accelerator", "H200", "--engine-arg", "enable_return_routed_experts=true")
PIPELINE = ("--accelerator", "RTX 4090", "--engine-arg", "pipeline_parallel_size=2")


@pytest.mark.parametrize(
    ("move", "deployment", "id_", "applies"),
    [
        ("v0.9.2 v0.9.1", ("--accelerator", "MI300X"), "VLLM-20741", None),
        ("v0.11.0 v0.10.2", LLAMA4, "VLLM-25888", None),
        ("v0.15.0 v0.14.1", (*NVFP4_MOE, *ASKS_FLASHINFER), "VLLM-33416", "yes"),
        ("v0.15.1 v0.14.1", (*NVFP4_MOE, *ASKS_FLASHINFER), "VLLM-33416", None),
        ("v0.20.2 v0.15.1", (*NVFP4_MOE, *ASKS_FLASHINFER), "VLLM-33416", None),
        ("v0.11.0 v0.8.5", FOUR_4090, "VLLM-27782", "yes"),
        ("v0.20.0 v0.19.1", (*HOPPER_MOE, "--model", "mistralai/Mixtral-8x22B-v0.1"), "VLLM-41306", "yes"),
        ("v0.20.0 v0.19.1", (*HOPPER_MOE, "--model", "Qwen/Qwen3-235B-A22B"), "VLLM-41306", "yes"),
        ("v0.20.0 v0.19.1", (*HOPPER_MOE, "--model", "Qwen/Qwen3-30B-A3B-Instruct-2507"), "VLLM-41306", "yes"),
        ("v0.20.0 v0.19.1", (*HOPPER_MOE, "--model", "deepseek-ai/DeepSeek-V2-Lite"), "VLLM-41306", "yes"),
        ("v0.20.0 v0.19.1", (*HOPPER_MOE, "--model", "Qwen/Qwen3-8B"), "VLLM-41306", "no"),
        ("v0.20.0 v0.19.1", (*MIXTRAL, "--engine-arg", "data_parallel_size=8"), "VLLM-41306", "no"),
        ("v0.25.0 v0.24.0", ("--accelerator", "H100", "--model", "openai/gpt-oss-20b"), "VLLM-44443", "no"),
        ("v0.25.0 v0.24.0", ("--accelerator", "H100", "--model", "google/gemma-2-9b-it"), "VLLM-44443", "yes"),
        ("v0.25.0 v0.24.0", ("--accelerator", "H100", "--model", "Qwen/Qwen3-8B"), "VLLM-44443", "no"),
        ("v0.22.0 v0.21.0", QWEN3, "VLLM-39337", "yes"),
        ("v0.23.0 v0.22.1", DENSE, "VLLM-41286", "yes"),
        ("v0.25.0 v0.24.0", DENSE, "VLLM-44443", "no"),
        ("v0.29.0 v0.28.0", ("--accelerator", "H100", "--model", "openai/gpt-oss-20b"), "VLLM-53183", "yes"),
        ("v0.29.0 v0.28.0", ("--accelerator", "H100", "--model", "BAAI/bge-m3"), "VLLM-53183", "yes"),
        ("v0.26.0 v0.25.1", ("--accelerator", "H100", "--model", "google/gemma-3-1b-it"), "VLLM-44490", "yes"),
        ("v0.27.0 v0.26.0", ("--accelerator", "H100", "--model", "google/gemma-3-1b-it"), "VLLM-44490", None),
        ("v0.14.0 v0.13.0", PIPELINE, "VLLM-32782", "yes"),
        ("v0.17.0 v0.13.0", PIPELINE, "VLLM-32782", None),
        ("v0.14.0 v0.13.0", ("--platform", "cpu"), "VLLM-27679", "no"),
        ("v0.14.0 v0.13.0", PIPELINE, "VLLM-27679", "no"),
        ("v0.15.0 v0.14.1", PIPELINE, "VLLM-32359", "yes"),
        ("v0.14.0 v0.13.0", DENSE, "VLLM-27679", "yes"),
        ("v0.17.0 v0.16.0", (*FP8, "--model", "RedHatAI/Llama-3.1-8B-FP8"), "VLLM-34924", "no"),
        ("v0.17.0 v0.16.0", (*FP8, "--model", "deepseek-ai/DeepSeek-R1"), "VLLM-34924", "yes"),
        ("v0.20.0 v0.19.1", ("--accelerator", "H100", "--model", "BAAI/bge-m3"), "VLLM-38284", "no"),
        ("v0.20.0 v0.19.1", DENSE, "VLLM-38284", "no"),
        ("v0.20.0 v0.19.1", DENSE, "REL-0290-2", "yes"),
        ("v0.26.0 v0.19.1", DENSE, "REL-0290-2", None),
        ("v0.26.0 v0.19.1", DENSE, "VLLM-49224", "no"),
        ("v0.23.0 v0.22.1", ("--accelerator", "L4", *DENSE[2:]), "DJL-3055", "yes"),
        ("v0.23.0 v0.22.1", DENSE, "DJL-3055", "no"),
        ("v0.29.0 v0.22.1", ("--accelerator", "L4", *DENSE[2:]), "DJL-3055", None),
        ("v0.20.0 v0.19.1", ("--accelerator", "H100", "--model", "BAAI/bge-m3"), "REL-0290-2", "no"),
        ("v0.26.0 v0.19.1", ("--accelerator", "H100", "--model", "openai/gpt-oss-20b"), "VLLM-38284", "yes"),
        ("v0.18.0 v0.17.1", ("--accelerator", "GB200", "--distribution", "vllm"), "VERL-5964", "no"),
        ("v0.24.0 v0.23.0", (*QWEN36, "--accelerator", "H100"), "VLLM-51663", "no"),
        ("v0.24.0 v0.23.0", (*QWEN36, "--accelerator", "RTX PRO 6000"), "VLLM-51663", "yes"),
        ("v0.9.1 v0.9.0", ("--accelerator", "H100"), "SPYRE-232", "no"),
        ("v0.19.0 v0.18.1", ("--accelerator", "H100", "--model", "openai/gpt-oss-120b"), "VLLM-38778", "yes"),
        ("v0.19.0 v0.18.1", ("--accelerator", "RTX 5090", "--model", "openai/gpt-oss-120b"), "VLLM-38778", "no"),
        ("v0.14.1 v0.11.2", (*ONE_H100, "--model", "openai/gpt-oss-120b"), "VLLM-33155", "unknown"),
        ("v0.14.1 v0.11.2", (*FULL_H100, "--model", "openai/gpt-oss-120b"), "VLLM-33155", "yes"),
        ("v0.33.0 v0.11.2", (*ONE_H100, "--model", "openai/gpt-oss-120b"), "VLLM-33155", None),
        ("v0.26.0 v0.9.1", ("--accelerator", "Ascend 910B3", "--model", "Qwen/QwQ-32B"), "ASCEND-4167", None),
        ("v0.29.0 v0.28.0", ("--accelerator", "RTX 5090", "--quantization", "nvfp4"), "VLLM-55397", None),
        ("v0.12.0 v0.11.0", (*AITER, "--model", "Qwen/Qwen3-32B"), "VLLM-28598", None),
        ("v0.14.0 v0.13.0", (*AITER, "--model", "Qwen/Qwen3-Next-80B-A3B-Instruct"), "VLLM-32336", None),
        ("v0.29.0 v0.28.0", GLM_ON_MI355X, "VLLM-54924", None),
        ("v0.30.0 v0.29.0", GLM_ON_MI355X, "VLLM-54924", "yes"),
        ("v0.32.0 v0.29.0", GLM_ON_MI355X, "VLLM-54924", None),
        ("v0.26.0 v0.24.0", H200_NVL, "VLLM-48071", "yes"),
        ("v0.27.0 v0.24.0", H200_NVL, "VLLM-48071", None),
        ("v0.25.0 v0.22.1", (*TWO_B200, "--model", "nvidia/Qwen3.6-27B-NVFP4"), "VLLM-48324", "yes"),
        ("v0.25.1 v0.22.1", (*TWO_B200, "--model", "nvidia/Qwen3.6-27B-NVFP4"), "VLLM-48324", None),
        ("v0.20.1 v0.19.1", ("--model", "Qwen/Qwen3-VL-8B-Instruct", "--feature", "multimodal"), "VLLM-41485", "yes"),
        ("v0.20.2 v0.19.1", ("--model", "Qwen/Qwen3-VL-8B-Instruct", "--feature", "multimodal"), "VLLM-41485", None),
        ("v0.28.0 v0.27.1", ("--accelerator", "B200", "--engine-arg", "data_parallel_size=4"), "VLLM-52330", "yes"),
        ("v0.29.0 v0.27.1", ("--accelerator", "B200", "--engine-arg", "data_parallel_size=4"), "VLLM-52330", None),
        ("v0.26.0 v0.25.1", (*MI300X_GRAPHS, "--model", "Qwen/Qwen3-30B-A3B"), "VLLM-48526", "yes"),
        ("v0.26.0 v0.25.1", (*MI300X_GRAPHS, "--model", "Qwen/Qwen3-8B"), "VLLM-48526", "no"),
        ("v0.24.0 v0.23.0", (*STRUCTURED, "--model", "openai/gpt-oss-20b"), "VLLM-49013", "yes"),
        ("v0.24.0 v0.23.0", (*STRUCTURED, "--model", "Qwen/Qwen3-8B"), "VLLM-49013", "no"),
        ("v0.18.1 v0.17.1", ("--accelerator", "B200", "--model", "moonshotai/Kimi-K2.5"), "VLLM-38562", None),
        ("v0.19.0 v0.18.1", ("--accelerator", "B200", "--model", "moonshotai/Kimi-K2.5"), "VLLM-38562", "yes"),
        ("v0.9.0 v0.8.4", ("--accelerator", "A100", *V2_LITE), "VLLM-18561", "yes"),
        ("v0.9.0.1 v0.8.4", ("--accelerator", "A100", *V2_LITE), "VLLM-18561", None),
        ("v0.9.0 v0.8.4", ("--accelerator", "H100", *V2_LITE), "VLLM-18561", "no"),
        ("v0.11.1 v0.11.0", (*RAY, "--engine-arg", "tensor_parallel_size=16"), "VLLM-28873", "yes"),
        ("v0.11.1 v0.11.0", (*RAY, "--engine-arg", "tensor_parallel_size=8"), "VLLM-28873", "no"),
        ("v0.11.1 v0.11.0", (*RAY, *TWO_STAGES, "--engine-arg", "tensor_parallel_size=8"), "REL-0111-9", "yes"),
        ("v0.11.1 v0.11.0", (*RAY, *TWO_STAGES, "--engine-arg", "tensor_parallel_size=4"), "REL-0111-9", "no"),
        ("v0.11.1 v0.11.0", (*RAY, *TWO_STAGES, "--engine-arg", "tensor_parallel_size=16"), "REL-0111-9", "no"),
        ("v0.15.0 v0.14.1", ("--model", "baidu/ERNIE-4.5-VL-28B-A3B-PT"), "VLLM-35587", "yes"),
        ("v0.17.0 v0.14.1", ("--model", "baidu/ERNIE-4.5-VL-28B-A3B-PT"), "VLLM-35587", None),
        ("v0.22.0 v0.21.0", ("--accelerator", "RX 6800", "--quantization", "gptq"), "VLLM-45372", "yes"),
        ("v0.20.0 v0.19.1", DENSE, "REL-0200-1", "unknown"),
        ("v0.20.0 v0.19.1", (*DENSE, *PLAIN_LINE), "REL-0200-1", "yes"),
        ("v0.20.0 v0.19.1", (*DENSE, "--engine-arg", "gpu_memory_utilization=0.95"), "REL-0200-1", "no"),
        ("v0.28.0 v0.27.1", (*DENSE, "--engine-arg", "speculative_config.method=eagle3"), "VLLM-48341", "no"),
        ("v0.28.0 v0.27.1", (*DENSE, "--engine-arg", "speculative_config.method=draft_model"), "VLLM-48341", "yes"),
        ("v0.21.0 v0.20.2", RAY, "REL-0210-1", "yes"),
        ("v0.32.0 v0.31.0", DENSE, "REL-0320-1", "yes"),
        ("v0.28.0 v0.27.1", V4_ON_MI300X, "VLLM-53961", "unknown"),
        ("v0.28.0 v0.27.1", (*V4_ON_MI300X[:2], *V4_LINE), "VLLM-53961", "yes"),
        ("v0.28.0 v0.27.1", (*V4_ON_MI300X, "--engine-arg", "max_model_len=131072"), "VLLM-53961", "no"),
        ("v0.31.0 v0.30.0", (*EXPERTS, "--engine-arg", "enable_prefix_caching=false"), "REL-0310-10", "yes"),
        ("v0.31.0 v0.30.0", (*EXPERTS, "--engine-arg", "enable_prefix_caching=true"), "REL-0310-10", "no"),
        ("v0.32.0 v0.31.0", ("--architecture", "PhiForCausalLM"), "REL-0320-10", "yes"),
        ("v0.8.5 v0.8.4", DENSE, "VLLM-17567", "yes"),
        ("v0.8.5.post1 v0.8.4", DENSE, "VLLM-17567", None),
        ("v0.15.0 v0.14.1", NEMOTRON_ON_L40S, "VLLM-34356", "yes"),
        ("v0.18.0 v0.14.1", NEMOTRON_ON_L40S, "VLLM-34356", None),
    ],
)  # fmt: skip
def test_what_a_record_says_follows_the_code_of_the_releases(gate, move, deployment, id_, applies):
    """`applies`: None if neither version of the move has the issue."""
    candidate, baseline = move.split()
    result = checked(gate, "check", candidate, "--from", baseline, *deployment)
    found = {each["id"]: each["applies"] for each in result["known_issues"]}
    assert found.get(id_) == applies


@pytest.mark.parametrize(
    ("move", "deployment", "id_"),
    [
        ("v0.21.0 v0.20.2", GB300_VL, "VLLM-42096"),
        ("v0.12.0 v0.11.0", GEMMA, "VLLM-28539"),
        ("v0.24.0 v0.23.0", (*QWEN36, "--accelerator", "RTX PRO 6000"), "VLLM-51663"),
        ("v0.18.0 v0.17.1", ("--accelerator", "GB200"), "VERL-5964"),
    ],
)
def test_a_report_that_was_taken_back_or_is_weak_blocks_nobody(gate, move, deployment, id_):
    candidate, baseline = move.split()
    known = checked(gate, "check", candidate, "--from", baseline, *deployment)["known_issues"]
    assert not any(each["blocks"] for each in known if each["id"] == id_)


def test_asynchronous_scheduling_that_is_on_by_default_needs_no_flag_to_apply(gate):
    drafts = ("--feature", "speculative_decoding=true", "--engine-arg", "speculative_config.method=eagle3")
    sizes = ("--engine-arg", "tensor_parallel_size=4")
    deployment = ("--accelerator", "H200", "--model", "openai/gpt-oss-120b", *sizes, *drafts)
    assert issue(checked(gate, "check", "v0.17.1", *deployment), "VLLM-41838")["applies"] == "yes"
