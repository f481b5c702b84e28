"""Executables that stand for other tools: they keep their command line and leave the files that they are given."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from regress_gate.bench.drivers import find_driver
from regress_gate.bench.load.load_workload import LoadWorkload
from regress_gate.bench.load.result import LoadResult
from tests.bench.load.conftest import start  # noqa: F401 - a fixture

RECORDED = Path(__file__).with_name("recorded")
"""Results that the real tools wrote on a real server, cut to four requests and to what the drivers look at."""

TOOL = """#!{python}
import json, os, sys
from pathlib import Path
told = json.loads(Path(__file__).with_suffix(".json").read_text())
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print(told["version"])
    sys.exit(0)
Path(__file__).with_suffix(".called").write_text(json.dumps(dict(arguments=arguments, path=os.getenv("PYTHONPATH"))))
for name, content in told["files"].items():
    Path(name).write_text(content)
print(told["says"])
sys.exit(told["status"])
"""


@dataclass(frozen=True, slots=True)
class Tool:
    """One such executable; it writes its files into the folder in which it is started."""

    driver: str
    path: Path

    def measure(self, url: str = "http://127.0.0.1:9", *, model: str = "tiny", **workload: Any) -> LoadResult:
        what = LoadWorkload(**{"input_len": 128, "output_len": 32, "num_requests": 4, "concurrency": 4, **workload})
        driver = find_driver(self.driver, self.path)
        return driver.measure(url, model, what, scenario="c4", ordinal=2, tokenizer="org/model")

    @property
    def called(self) -> dict[str, Any]:
        """With `arguments` and the PYTHONPATH that it saw."""
        return json.loads(self.path.with_suffix(".called").read_text())


@pytest.fixture
def tool(tmp_path: Path) -> Callable[..., Tool]:
    def make(
        driver: str, files: dict[str, str], *, status: int = 0, says: str = "all done", version: str = "0.32.0+cpu"
    ) -> Tool:
        path = tmp_path / driver
        told = {"files": files, "status": status, "says": says, "version": version}
        path.with_suffix(".json").write_text(json.dumps(told))
        path.write_text(TOOL.format(python=sys.executable))
        path.chmod(0o755)
        return Tool(driver, path)

    return make


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()
