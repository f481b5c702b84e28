"""The capacity of a real vLLM: equal to itself, and lower where the server may take fewer sequences at once.

Only with `pytest -m real_vllm`. By benchmarks/capacity_vllm.py, with fewer blocks and requests. The guards against a
busy machine are tested elsewhere and are off here.
"""

import os
from pathlib import Path

import pytest

from tests.factories.scripts import ROOT, load_script

pytestmark = pytest.mark.real_vllm

VERSION = os.environ.get("REGRESS_GATE_REAL_VLLM", "0.32.0")
BLOCKS, REQUESTS = 2, 60


def test_a_version_carries_what_it_carries_and_less_with_fewer_sequences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    script = load_script("benchmarks/capacity_vllm.py")
    script.PROGRAM = "tests.cli.measuring.unguarded"
    script.write(tmp_path, VERSION, REQUESTS)
    again = script.compare(tmp_path, VERSION, "again", BLOCKS)
    assert again.exit_code in (0, 3), again
    few = script.compare(tmp_path, VERSION, "few", BLOCKS)
    assert few.exit_code == 1, few
    assert few.change is not None
    assert few.change > 0.2
    assert "fewer requests" in few.text
