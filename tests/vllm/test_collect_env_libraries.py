"""Library versions in the output of `vllm collect-env`: of real builds, and of anything else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.vllm.collect_env import library_versions, parse_collect_env

CUDA = """\
INFO 11-21 08:00:00 [__init__.py:218] Automatically detected platform cuda.
Collecting environment information...
uv is set
==============================
        System Info
==============================
OS                           : Ubuntu 24.04.3 LTS (x86_64)
GCC version                  : (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0
Libc version                 : glibc-2.39

==============================
       PyTorch Info
==============================
PyTorch version              : 2.11.0+cu130
CUDA used to build PyTorch   : 13.0
ROCM used to build PyTorch   : N/A
XPU used to build PyTorch    : N/A

==============================
       CUDA / GPU Info
==============================
Is CUDA available            : True
CUDA runtime version         : 12.8.93
CUDA_MODULE_LOADING set to   :
GPU models and configuration :
GPU 0: NVIDIA H100 80GB HBM3
GPU 1: NVIDIA H100 80GB HBM3

Nvidia driver version        : 580.126.09
cuDNN version                : Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.9.8.0
/usr/lib/x86_64-linux-gnu/libcudnn_adv.so.9.8.0
/usr/lib/x86_64-linux-gnu/libcudnn_engines_runtime_compiled.so.9.8.0
HIP runtime version          : N/A
MIOpen runtime version       : N/A

==============================
Versions of relevant libraries
==============================
[pip3] nvidia-cudnn-cu13==9.13.0.50
[pip3] nvidia-nccl-cu13==2.28.9
[conda] Could not collect

==============================
     Environment Variables
==============================
NVIDIA_VISIBLE_DEVICES=all
CUDA_NOTE=one
MIOpen runtime version : 6.6.6
libcudnn.so.6.6.6
"""
"""In the shape that vLLM 0.32.0 prints."""
ROCM = """\
Collecting environment information...
PyTorch version: 2.3.0a0+git2e4abc8
CUDA used to build PyTorch: N/A
ROCM used to build PyTorch: 6.1.40093-bd86f1708
Libc version: glibc-2.35
CUDA runtime version: Could not collect
cuDNN version: Could not collect
HIP runtime version: 6.1.40093
MIOpen runtime version: 3.1.0
"""
"""As before 0.9, without headings."""
CPU = """\
Libc version                 : glibc-2.36
CUDA used to build PyTorch   : None
ROCM used to build PyTorch   : N/A
CUDA runtime version         : 12.4.131
Nvidia driver version        : Could not collect
cuDNN version                : /usr/lib/libcudnn.so.9.8.0
HIP runtime version          : N/A
"""


def versions(text: str) -> dict[str, str]:
    return library_versions(parse_collect_env(text))


def test_versions_outside_of_packages_are_read() -> None:
    assert versions(CUDA) == {
        "libc": "glibc-2.39",
        "cuda of torch": "13.0",
        "cuda runtime": "12.8.93",
        "cudnn": "9.8.0",
    }


def test_older_layouts_and_other_devices_are_read() -> None:
    assert versions(ROCM) == {
        "libc": "glibc-2.35",
        "rocm of torch": "6.1.40093-bd86f1708",
        "hip runtime": "6.1.40093",
        "miopen runtime": "3.1.0",
    }


def test_a_cuda_toolkit_is_left_out_for_cpu_builds() -> None:
    assert versions(CPU) == {"libc": "glibc-2.36"}


def test_all_versions_of_a_library_are_named() -> None:
    text = "CUDA used to build PyTorch: 12.8\n/opt/b/libcudnn.so.9.8.0\n/opt/a/libcudnn_ops_infer.so.8.9.7\n"
    assert versions(text)["cudnn"] == "8.9.7, 9.8.0"


def test_variables_are_never_taken_for_versions() -> None:
    head, heading, variables = CUDA.partition("     Environment Variables")
    assert versions(head) == versions(CUDA)
    assert versions(heading + variables) == {}


@pytest.mark.parametrize("value", ["N/A", "Could not collect", "No CUDA", "None", "", "-", "12 \x1b[31m", "9" * 200])
def test_values_that_are_not_versions_are_left_out(value: str) -> None:
    assert versions(f"Libc version                 : {value}\n") == {}


LINES = st.one_of(
    st.text(),
    st.sampled_from([*CUDA.splitlines(), *ROCM.splitlines(), *CPU.splitlines()]),
    st.builds("{}: {}".format, st.sampled_from(["Libc version", "CUDA used to build PyTorch"]), st.text()),
)


@given(st.lists(LINES).map("\n".join))
def test_whatever_is_printed_gives_short_printable_versions_or_nothing(text: str) -> None:
    for name, version in versions(text).items():
        assert name.isprintable()
        assert version.isascii()
        assert version.isprintable()
        assert any(map(str.isdigit, version))
        assert len(version) <= 100
