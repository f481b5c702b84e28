"""A folder of wheels as the only source, and a provisioner with a cache beside it."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from regress_gate.bench.provision.venv import VenvProvisioner
from tests.bench.provision.wheels import make_cpu_build


@dataclass
class World:
    wheels: Path
    cache: Path
    environ: dict[str, str]
    said: list[str] = field(default_factory=list)

    def provisioner(self, **options: Any) -> VenvProvisioner:
        return VenvProvisioner(**{"variant": "cpu", "directory": self.cache, "environ": self.environ, **options})

    @property
    def installs(self) -> int:
        return sum(line.startswith("installing") for line in self.said)


@pytest.fixture
def world(tmp_path: Path) -> World:
    wheels = tmp_path / "wheels"
    make_cpu_build(wheels)
    return World(wheels, tmp_path / "cache", offline(tmp_path, wheels))


def offline(home: Path, wheels: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "PIP_NO_CACHE_DIR": "1",
        "UV_CACHE_DIR": str(home / "uv-cache"),
    }
