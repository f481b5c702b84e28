"""The fake server as a provisioned version, for what takes a provisioner or a launch line."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from regress_gate.bench.provision.interface import (
    Environment,
    Launch,
    Progress,
    Provisioner,
    ServeRequest,
    serve_arguments,
)
from regress_gate.model.version import Version

ROOT = Path(__file__).parents[2]


def launch_line() -> str:
    """For a provisioner that takes a command: whatever version is asked for, this serves it."""
    return (
        f"{sys.executable} -m tests.fake_vllm serve {{model}} --port={{port}} "
        "--served-model-name={served_model_name} --vllm-version={version} {engine_args}"
    )


def write_behaviour(directory: Path, behaviour: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Have versions behave; the variables that a server's environment needs for it, and to be found from anywhere.

    Starts are counted in the directory, over all versions, so that no two of them have the same luck.
    """
    path = directory / "behaviour.json"
    starts = f"--starts={directory / 'starts'}"
    path.write_text(json.dumps({version: [starts, *flags] for version, flags in behaviour.items()}), encoding="utf-8")
    return {"FAKE_VLLM_BEHAVIOUR": str(path), "PYTHONPATH": str(ROOT)}


class FakeEnvironment(Environment):
    """Looks like a verified installation: the version is known before the start, all runs in one process group."""

    def __init__(self, version: Version, variables: Mapping[str, str]) -> None:
        self.version: Version = version
        self.libraries = {"torch": "2.10.0"}
        self._variables = variables

    def launch(self, request: ServeRequest, port: int) -> Launch:
        command = (sys.executable, "-m", "tests.fake_vllm", "serve", *serve_arguments(request, port))
        return Launch(
            (*command, f"--vllm-version={self.version}"),
            {**os.environ, **self._variables, **request.env},
        )


class FakeProvisioner(Provisioner):
    """Has every version. `variables` are those of `write_behaviour`."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def provision(self, version: Version, *, progress: Progress | None = None) -> FakeEnvironment:
        if progress:
            progress(f"installing vllm=={version}")
        return FakeEnvironment(version, self._variables)
