"""The command line and the variables of uv and pip."""

import os
from pathlib import Path

import pytest

from regress_gate.bench.provision.installer import Installer, configured_sources

INDEX = "https://wheels.vllm.ai/rocm/0.19.1/rocm721/"
PRINT_VARIABLES = """#!/bin/sh
echo "UV: $UV_EXTRA_INDEX_URL PIP: $PIP_EXTRA_INDEX_URL"
"""


def variables_of(tmp_path: Path, *, uv: bool, environ: dict[str, str], companion_index: str | None) -> str:
    """The variables that a stand-in for the installer gets."""
    program = tmp_path / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(PRINT_VARIABLES, encoding="utf-8")
    program.chmod(0o755)
    with (tmp_path / "lock").open("w") as lock:
        variables = {"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull, **environ}
        installer = Installer(
            tmp_path / "venv",
            tmp_path / "log",
            program,
            program if uv else None,
            variables,
            configured_sources(variables),
            use_cache=True,
            lock=lock.fileno(),
        )
        installer.install("vllm @ https://x/vllm.whl", companion_index=companion_index)
    return (tmp_path / "log").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("uv", [True, False], ids=["uv", "pip"])
def test_a_companion_index_goes_before_the_users_own(tmp_path: Path, uv: bool) -> None:
    own = {"UV_EXTRA_INDEX_URL": "https://own/simple"} if uv else {"PIP_EXTRA_INDEX_URL": "https://own/simple"}
    seen = variables_of(tmp_path, uv=uv, environ=own, companion_index=INDEX)
    assert f"{'UV' if uv else 'PIP'}: {INDEX} https://own/simple" in seen


@pytest.mark.parametrize("uv", [True, False], ids=["uv", "pip"])
def test_without_one_the_users_own_stays(tmp_path: Path, uv: bool) -> None:
    own = {"UV_EXTRA_INDEX_URL": "https://own/simple"} if uv else {"PIP_EXTRA_INDEX_URL": "https://own/simple"}
    seen = variables_of(tmp_path, uv=uv, environ=own, companion_index=None)
    assert f"{'UV' if uv else 'PIP'}: https://own/simple" in seen
