"""Reads the text of a deployment file as the program does."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from regress_gate.vllm.deployed_server import DeployedServer
from regress_gate.vllm.deployment_files import read_deployments

ReadText = Callable[..., list[DeployedServer]]


@pytest.fixture
def read(tmp_path: Path) -> ReadText:
    def read_text(text: str, name: str = "deploy.txt") -> list[DeployedServer]:
        path = tmp_path / name
        path.write_text(dedent(text), encoding="utf-8")
        return read_deployments(str(path))

    return read_text


@pytest.fixture
def read_one(read: ReadText) -> Callable[..., DeployedServer]:
    def read_text(text: str, name: str = "deploy.txt") -> DeployedServer:
        (server,) = read(text, name)
        return server

    return read_text
