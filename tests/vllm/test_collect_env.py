"""The facts in the output of `vllm collect-env`, in its older and newer layout, and that no secret is among them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.errors import InputError
from regress_gate.model.version import Version
from regress_gate.vllm.collect_env import deployment_from_collect_env

CUDA = """\
Collecting environment information...
==============================
        System Info
==============================
OS                           : Ubuntu 24.04.3 LTS (x86_64)
Libc version                 : glibc-2.39

==============================
       PyTorch Info
==============================
PyTorch version              : 2.11.0+cu130
CUDA used to build PyTorch   : 13.0
ROCM used to build PyTorch   : N/A

==============================
      Python Environment
==============================
Python version               : 3.12.13 (main, Jan  2 2026, 11:38:05) [GCC 13.3.0] (64-bit runtime)

==============================
       CUDA / GPU Info
==============================
GPU models and configuration :
GPU 0: NVIDIA H100 80GB HBM3
GPU 1: NVIDIA H100 80GB HBM3

Nvidia driver version        : 580.126.09

==============================
Versions of relevant libraries
==============================
[pip3] flashinfer-python==0.5.2
[pip3] torch==2.11.0+cu130
[pip3] triton==3.5.1
[conda] Could not collect

==============================
         vLLM Info
==============================
ROCM Version                 : Could not collect
vLLM Version                 : 0.19.1
vLLM Build Flags:
  CUDA Archs: Not Set; ROCm: Disabled; XPU: Disabled

==============================
     Environment Variables
==============================
VLLM_USE_DEEP_GEMM=0
NVIDIA_VISIBLE_DEVICES=all
VLLM_API_KEY=sk-verysecret
HF_TOKEN=hf_abcdefghijk
"""
ROCM = """\
Collecting environment information...
PyTorch version: 2.7.0a0+git2e4abc8
CUDA used to build PyTorch: N/A
ROCM used to build PyTorch: 6.3.42133-1b9c17779
GPU models and configuration: AMD Instinct MI300X (gfx942:sramecc+:xnack-)
Nvidia driver version: Could not collect
[pip3] torch==2.7.0a0+git2e4abc8
[conda] triton                    3.3.0                    pypi_0    pypi
vLLM Version: 0.9.2.dev6+g84166fee9 (git sha: 84166fee9)

VLLM_ROCM_USE_AITER=1
"""


def test_a_new_output() -> None:
    facts = deployment_from_collect_env(CUDA, "env.txt")
    assert facts.version == Version.parse("0.19.1")
    assert facts.deployment.accelerator == "NVIDIA H100 80GB HBM3"
    assert facts.deployment.platform == "cuda"
    assert facts.deployment.dependencies == {
        "flashinfer-python": "0.5.2",
        "torch": "2.11.0+cu130",
        "triton": "3.5.1",
        "nvidia-driver": "580.126.09",
        "python": "3.12.13",
    }
    assert facts.deployment.env == {"VLLM_USE_DEEP_GEMM": "0", "NVIDIA_VISIBLE_DEVICES": "all"}


def test_an_old_output_without_headings() -> None:
    facts = deployment_from_collect_env(ROCM, "env.txt")
    assert facts.version == Version("0.9.2.dev6", "84166fee9")
    assert (facts.deployment.accelerator, facts.deployment.gpu_arch) == ("AMD Instinct MI300X", "gfx942")
    assert facts.deployment.platform == "rocm"
    assert facts.deployment.dependencies == {"torch": "2.7.0a0+git2e4abc8", "triton": "3.3.0"}
    assert facts.deployment.env == {"VLLM_ROCM_USE_AITER": "1"}


def test_no_secret_is_taken() -> None:
    assert "verysecret" not in str(deployment_from_collect_env(CUDA, "env.txt"))
    assert "hf_abc" not in str(deployment_from_collect_env(CUDA, "env.txt"))


def test_a_build_for_cpu_is_no_gpu_deployment() -> None:
    text = CUDA.replace("vLLM Version                 : 0.19.1", "vLLM Version                 : 0.19.1+cpu")
    assert deployment_from_collect_env(text, "env.txt").deployment.platform == "cpu"


def test_several_kinds_of_gpus_are_left_to_the_user() -> None:
    facts = deployment_from_collect_env(CUDA.replace("GPU 1: NVIDIA H100 80GB HBM3", "GPU 1: NVIDIA T1000"), "env.txt")
    assert facts.deployment.accelerator is None
    (note,) = facts.notes
    assert "--accelerator" in note


@pytest.mark.parametrize("text", ["", "hello", "[1, 2]", "A=B\n"])
def test_a_text_without_facts_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"env\.txt: no facts about a deployment found"):
        deployment_from_collect_env(text, "env.txt")


@given(st.lists(st.one_of(st.text(), st.sampled_from([*CUDA.splitlines(), *ROCM.splitlines()]))))
def test_any_text_can_be_parsed(lines: list[str]) -> None:
    try:
        facts = deployment_from_collect_env("\n".join(lines), "env.txt")
    except InputError:
        return
    assert "verysecret" not in str(facts)


def test_the_only_gpu_may_stand_on_the_line_of_its_label() -> None:
    text = "GPU models and configuration: GPU 0: NVIDIA H200\nvLLM Version: 0.20.0\n"
    assert deployment_from_collect_env(text, "env.txt").deployment.accelerator == "NVIDIA H200"
