"""No rule fires on a server that is as it should be.

`clean_starts.txt.gz` has the logs of 33 starts of real vLLM servers on a CPU, 0.13.0 to 0.32.0, each with its first
lines of statistics; routes and lines of other programs are left out, and names of directories replaced. The logs of the
other releases are generated from their format strings, and are no more than that.
"""

import gzip
from pathlib import Path

import pytest
from packaging.version import Version as Pep440

from regress_gate.gate.audit.engine import RULES, answer
from regress_gate.gate.audit.observations import Observations
from regress_gate.gate.audit.rule import Answer
from regress_gate.model.version import Version
from regress_gate.vllm.log_signals import scan_log
from tests.factories.released_signals import filled, printed_forms, releases

_TEXT = gzip.decompress((Path(__file__).parent / "clean_starts.txt.gz").read_bytes()).decode()
REAL = {part.partition("\n")[0]: part.partition("\n")[2] for part in _TEXT.split("=== ")[1:]}
"""`0.19.1 start 2` to its log."""
GOOD_LINES = ("moe_tuned", "loading_weights", "graph_capture", "init_engine", "statistics", "compile_cache_hit")
"""Lines of a server that lacks nothing."""


def findings(text: str, version: str) -> list[str]:
    log = scan_log([f"{line}\n".encode() for line in text.split("\n")], "server.log")
    seen = Observations(log.facts.deployment, Version.parse(version), None, log)
    outcomes = {rule.id: answer(rule, seen) for rule in RULES}
    return [name for name, one in outcomes.items() if one.answer is Answer.FIRES]


def test_there_are_enough_logs() -> None:
    assert len(REAL) >= 30


@pytest.mark.parametrize("start", sorted(REAL))
def test_no_rule_fires_on_a_real_clean_start(start: str) -> None:
    """But PC001, for the launch lines that switch the prefix cache off."""
    expected = ["PC001"] if "'enable_prefix_caching': False" in REAL[start] else []
    assert findings(REAL[start], start.split()[0]) == expected


@pytest.mark.parametrize("release", [one for one in releases() if Pep440(one) >= Pep440("0.11")])
def test_no_rule_fires_on_a_generated_clean_start(release: str) -> None:
    head = f"Initializing a V1 LLM engine (v{release}) with config: model='m', device_config=cuda, enforce_eager=False"
    lines = ["non-default args: {'model': 'm'}", head]
    lines += [next(filled(form)) for name in GOOD_LINES for form in printed_forms(name, release)]
    text = "\n".join(f"(EngineCore pid=9) INFO 11-21 02:11:45 [x.py:1] {line}" for line in lines)
    assert findings(text, release) == []
