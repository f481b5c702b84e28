"""The script that reads from the sources of releases what they print and expose."""

from types import ModuleType

import pytest

from tests.factories.scripts import load_script

PATH = "vllm/v1/metrics/loggers.py"


@pytest.fixture(scope="module")
def signals() -> ModuleType:
    return load_script(".ci/signals.py")


PRINTS = '''
"""Using default MoE config in a docstring."""
def look(path, x):
    """Using default MoE config in another."""
    # Using default MoE config in a comment
    logger.warning_once("Using default "
                        "MoE config. Not at %s", path)
    logger.debug(f"Using default MoE config {x} here")
    note = "Using default MoE config " + x
    raise ValueError("Using default MoE config is an error")
'''


def test_a_line_is_found_however_its_text_is_written(signals: ModuleType) -> None:
    found = signals.read_signals([(PATH, PRINTS)], {"moe": "Using default MoE config"}, {})
    assert {(one.text, one.level) for one in found} == {
        ("Using default MoE config. Not at %s", "warning"),
        ("Using default MoE config {} here", "debug"),
        ("Using default MoE config {}", ""),
    }


def test_what_only_the_former_engine_prints_is_left_out(signals: ModuleType) -> None:
    assert not signals.read_signals([("vllm/worker/a.py", PRINTS)], {"moe": "Using default MoE config"}, {})


CREATES = """
class Logger:
    def __init__(self):
        a = self._gauge_cls(name="vllm:running")
        b = Counter(name="vllm:success_total")
        if self.show_hidden_metrics:
            c = self._gauge_cls(name="vllm:old_usage")
    def drafts(self):
        for name in ("vllm:drafts", "vllm:accepted"):
            self._counter_cls(name=name)
        logger.info("see vllm:no_metric for more")
        register("vllm::operator")
"""


def test_metrics_have_their_kind_and_the_flag_that_shows_them(signals: ModuleType) -> None:
    found = signals.read_signals([(PATH, CREATES), ("vllm/engine/metrics.py", CREATES)], {}, {})
    names = {(one.name, one.kind, one.engine) for one in found}
    assert {one for one in names if one[2] != "V0"} == {
        ("running", "gauge", "V1"),
        ("success", "counter", "V1"),
        ("old_usage", "gauge", "hidden"),
        ("drafts", "counter", "V1"),
        ("accepted", "counter", "V1"),
    }
    assert ("running", "gauge", "V0") in names


def test_the_table_has_spans_of_releases(signals: ModuleType) -> None:
    line = signals.Line("moe", "text", "info", "f.py")
    metric = signals.Metric("running", "gauge", "V1")
    found = {"0.9.0": {line}, "0.10.0": {metric}, "0.11.0": {line, metric}}
    table = signals.table_of(found, {"moe": "text"})
    assert table["releases"] == ["0.9.0", "0.10.0", "0.11.0"]
    assert table["lines"]["moe"]["forms"][0]["releases"] == [["0.9.0", "0.9.0"], ["0.11.0", None]]
    assert table["metrics"]["running"] == {"kind": "gauge", "V1": [["0.10.0", None]]}
