"""The facts in a server's start log: launch line, resolved settings and backends, and what it warns of."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.app.deployment_facts import gather_deployment
from regress_gate.errors import InputError
from regress_gate.model.deployment import Deployment, DeploymentFacts
from regress_gate.model.version import Version
from regress_gate.vllm.log_signals import scan_log

LOG = """\
INFO 06-14 04:56:00 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid=7) INFO 06-14 04:56:10 [api_server.py:1896] vLLM API server version 0.11.0
(APIServer pid=7) INFO 06-14 04:56:10 [utils.py:233] non-default args: {'model_tag': 'Qwen/Qwen3-30B-A3B-FP8', \
'port': 8110, 'model': 'Qwen/Qwen3-30B-A3B-FP8', 'api_key': ['sk-verysecret'], 'tensor_parallel_size': 2, \
'enable_expert_parallel': True, 'speculative_config': {'method': 'mtp'}}
(APIServer pid=7) INFO 06-14 04:56:12 [model.py:547] Resolved architecture: Qwen3MoeForCausalLM
(EngineCore_DP0 pid=8) INFO 06-14 04:57:00 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: \
model='Qwen/Qwen3-30B-A3B-FP8', dtype=torch.bfloat16, tensor_parallel_size=2, pipeline_parallel_size=1, \
data_parallel_size=1, quantization=fp8, enforce_eager=False, kv_cache_dtype=auto, device_config=cuda, \
enable_prefix_caching=True
(Worker_TP0 pid=9) INFO 06-14 04:57:13 [cuda.py:334] Using FLASH_ATTN attention backend out of potential backends: [].
(Worker_TP0 pid=9) INFO 06-14 04:57:13 [topk.py:55] Using FlashInfer for top-p & top-k sampling.
(Worker_TP0 pid=9) WARNING 06-14 04:57:20 [fused_moe.py:798] Using default MoE config. Performance might be \
sub-optimal! Config file not found at ['/x/configs/E=64,N=768,device_name=NVIDIA_H20-3e,dtype=fp8_w8a8.json']
(EngineCore_DP0 pid=8) INFO 06-14 04:58:05 [kv_cache_utils.py:1087] GPU KV cache size: 49,152 tokens
"""


def told_by(text: str) -> DeploymentFacts:
    return scan_log(text.encode("utf-8", "replace").splitlines(keepends=True), "server.log").facts


def test_the_facts_of_a_log() -> None:
    told = told_by(LOG)
    deployment = told.deployment
    assert told.version == Version.parse("0.11.0")
    assert (deployment.model, deployment.architecture) == ("Qwen/Qwen3-30B-A3B-FP8", "Qwen3MoeForCausalLM")
    assert (deployment.platform, deployment.quantization) == ("cuda", "fp8")
    assert deployment.backends == {"attention": "FLASH_ATTN", "sampler": "FlashInfer"}
    assert deployment.engine_args == {
        "tensor_parallel_size": 2,
        "pipeline_parallel_size": 1,
        "data_parallel_size": 1,
        "enforce_eager": False,
        "kv_cache_dtype": "auto",
        "enable_prefix_caching": True,
        "enable_expert_parallel": True,
        "speculative_config": '{"method": "mtp"}',
    }


V0 = """\
INFO 02-14 03:51:03 llm_engine.py:237] Initializing an LLM engine (v0.6.3.post1) with config: model='org/Model-70B', \
dtype=torch.bfloat16, load_format=LoadFormat.AUTO, tensor_parallel_size=8, pipeline_parallel_size=1, \
quantization=None, enforce_eager=False, kv_cache_dtype=fp8, device_config=cuda:1, seed=0, mm_processor_kwargs=None)
INFO 02-14 03:51:04 selector.py:115] Using XFormers backend.
INFO 02-14 03:51:20 model_runner.py:1071] Loading model weights took 16.46 GB
"""


def test_a_log_of_the_former_engine() -> None:
    told = told_by(V0)
    assert told.version == Version.parse("0.6.3.post1")
    assert (told.deployment.model, told.deployment.quantization) == ("org/Model-70B", "none")
    assert told.deployment.backends == {"attention": "XFormers"}
    assert told.deployment.engine_args == {
        "tensor_parallel_size": 8,
        "pipeline_parallel_size": 1,
        "enforce_eager": False,
        "kv_cache_dtype": "fp8",
    }
    assert not told.deployment.complete


def test_its_launch_line_is_complete() -> None:
    assert told_by(LOG).deployment.complete
    without = "\n".join(line for line in LOG.splitlines() if "non-default" not in line)
    assert not told_by(without).deployment.complete


def test_a_missing_tuned_configuration_names_the_device_and_is_noted() -> None:
    told = told_by(LOG)
    assert told.deployment.accelerator == "NVIDIA H20-3e"
    assert told.notes == (
        "no tuned MoE configuration is used: E=64,N=768,device_name=NVIDIA_H20-3e,dtype=fp8_w8a8.json was not found",
    )


def test_arguments_of_any_shape_are_text() -> None:
    text = LOG.replace(
        "'tensor_parallel_size': 2", "'a': 1e999, 'b': {(1, 2): 3}, 'c': [None], 'tensor_parallel_size': 2"
    )
    args = told_by(text).deployment.engine_args
    assert (args["a"], args["b"], args["c"]) == ("Infinity", "{}", "[null]")


def test_no_secret_is_taken() -> None:
    assert "verysecret" not in str(told_by(LOG))


def test_weights_that_are_printed_as_not_quantized_are_known_to_be_so() -> None:
    text = LOG.replace("quantization=fp8", "quantization=None")
    assert told_by(text).deployment.quantization == "none"


def test_the_device_cuda_alone_leaves_the_platform_open() -> None:
    text = LOG.replace("Automatically detected platform cuda", "Automatically detected platform rocm")
    assert told_by(text).deployment.platform == "rocm"
    text = "\n".join(LOG.splitlines()[1:])
    assert told_by(text).deployment.platform is None


@pytest.mark.parametrize("text", ["", "hello", "INFO 06-14 04:56:12 nothing of a server"])
def test_a_text_without_a_start_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"server\.log: no vLLM server start found"):
        gather_deployment(Deployment(), Deployment(), server_log=tmp_path / "server.log")


def test_of_a_log_that_every_start_is_appended_to_the_last_one_counts(tmp_path: Path) -> None:
    upgraded = LOG.replace("0.11.0", "0.13.0").replace("'tensor_parallel_size': 2", "'tensor_parallel_size': 4")
    upgraded = upgraded.replace("tensor_parallel_size=2", "tensor_parallel_size=4")
    requests = "INFO 06-14 05:00:00 [loggers.py:1] a line of a long day\n" * 200_000
    (tmp_path / "server.log").write_text(LOG + requests + upgraded + requests, encoding="utf-8")
    told = gather_deployment(Deployment(), Deployment(), server_log=tmp_path / "server.log")
    assert (told.version, told.deployment.engine_args["tensor_parallel_size"]) == (Version.parse("0.13.0"), 4)


@given(st.lists(st.one_of(st.text(), st.sampled_from([*LOG.splitlines(), *V0.splitlines()]))))
def test_any_log_can_be_read(lines: list[str]) -> None:
    assert "verysecret" not in str(told_by("\n".join(lines)))


@pytest.mark.parametrize(
    ("detected", "platform"),
    [("xpu", "xpu"), ("tpu", "tpu"), ("npu", "ascend"), ("hpu", "gaudi"), ("neuron", "other"), ("unspecified", None)],
)
def test_the_platform_is_that_of_vllm_or_of_its_plugin(detected: str, platform: str | None) -> None:
    text = LOG.replace("Automatically detected platform cuda", f"Automatically detected platform {detected}")
    assert told_by(text).deployment.platform == platform
