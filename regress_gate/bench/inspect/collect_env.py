"""What an environment uses that the metadata of its packages does not tell: CUDA, cuDNN, ROCm, the C library.

Told by `vllm collect-env`, which also prints the user's environment variables and paths: nothing but version numbers is
taken from it. Not for drivers and GPUs, which are the testbed's. NCCL it lists among the packages only.
"""

import os
import re
from collections.abc import Mapping
from itertools import takewhile

from regress_gate.bench.inspect.process import run_program
from regress_gate.bench.provision.installer import find_uv
from regress_gate.bench.provision.interface import Environment, Progress, ProvisionError
from regress_gate.bench.provision.venv import VenvEnvironment

TIME_LIMIT = 120.0
"""Seconds. It takes 12 on a quiet small machine, most of it the import of vLLM."""
MAX_OUTPUT = 1 << 20
"""Bytes; a real answer has 5,000 and some per GPU."""

_NAMES = {
    "Libc version": "libc",
    "CUDA used to build PyTorch": "cuda of torch",
    "ROCM used to build PyTorch": "rocm of torch",
    "CUDA runtime version": "cuda runtime",
    "HIP runtime version": "hip runtime",
    "MIOpen runtime version": "miopen runtime",
}
"""By the labels of vllm/collect_env.py, the same before and after its output got headings (vllm#18285)."""
_ONLY_WITH_CUDA = ("cuda runtime", "cudnn")
_VERSION = re.compile(r"(?:glibc-)?\d[\w.+-]{0,63}", re.ASCII)
"""`N/A`, `Could not collect`, `No CUDA` and `None` are none."""
_CUDNN = re.compile(r"libcudnn\w{0,40}\.so\.(\d{1,4}(?:\.\d{1,4}){1,3})", re.ASCII)
"""Of cuDNN it lists the files that the system's linker knows, one for each of its parts."""
_MAX_CUDNN = 4
_VARIABLES = "Environment Variables"
"""Heads the last part. What follows are values that anybody may have set."""


def collect_env(
    environment: Environment, *, progress: Progress | None = None, time_limit: float = TIME_LIMIT
) -> dict[str, str]:
    """Versions by plain names, `cuda runtime` for example; none where the environment is not one of ours.

    Raises ProvisionError where vLLM does not tell them, as before 0.8.5, which has no such command (vllm#16759).
    """
    if not isinstance(environment, VenvEnvironment):
        return {}
    venv, version = environment.path / "venv", environment.version
    if progress:
        progress(f"asking {version} for the libraries that it uses")
    said = run_program(
        [str(venv / "bin" / "vllm"), "collect-env"],
        venv,
        environ=_with_uv(os.environ),
        time_limit=time_limit,
        max_output=MAX_OUTPUT,
    )
    if said.code is None:
        raise ProvisionError(f"vllm collect-env of {version} did not end within {time_limit:.0f} s")
    found = read_versions(said.output.decode("utf-8", "replace"))
    if said.code or not found:
        raise ProvisionError(f"vllm collect-env of {version} tells nothing", lines=said.last_lines)
    return found


def read_versions(text: str) -> dict[str, str]:
    """The versions that the output of `vllm collect-env` tells; what is no version is left out."""
    found: dict[str, str] = {}
    cudnn: set[str] = set()
    for line in takewhile(lambda line: line.strip() != _VARIABLES, text.splitlines()):
        label, _, value = line.partition(":")
        name = _NAMES.get(label.strip())
        if name and _VERSION.fullmatch(value.strip()):
            found.setdefault(name, value.strip())
        cudnn.update(_CUDNN.findall(line))
    if cudnn:
        found["cudnn"] = ", ".join(sorted(cudnn)[:_MAX_CUDNN])
    if "cuda of torch" not in found:  # what lies on the machine without being used by this build
        found = {name: version for name, version in found.items() if name not in _ONLY_WITH_CUDA}
    return found


def _with_uv(environ: Mapping[str, str]) -> dict[str, str]:
    """collect-env fails as a whole where it finds neither pip in the environment nor uv on the path."""
    uv = find_uv(environ)
    parts = [environ.get("PATH", ""), str(uv.parent) if uv else ""]
    return {**environ, "PATH": os.pathsep.join(filter(None, parts))}
