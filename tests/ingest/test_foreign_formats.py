"""Files of known tools that are no measurements are refused by name, so that nobody wonders what is wrong with them."""

import json

import pytest

from regress_gate.ingest.interface import FileOutcome
from tests.factories.serve_results import import_all, write

KNOWN = {
    "a test suite definition of vLLM's CI": [
        {"defaults": {}, "tests": []},
        [{"test_name": "serving", "server_parameters": {}}],
    ],
    "an adaptive search of vLLM's CI": [{"sla_ttft_ms": 3000, "final_last_pass": {}}],
    "a table of ISO-Bench": [{"baseline_raw": [], "human_raw": []}],
    "a `vllm bench mm-processor` result": [{"completed": 3, "mm_processor_stats": {}}],
    "as `vllm bench forward` writes": [[{"case": "prefill", "mean_us": 12.5}]],
}
CASES = [(name, data) for name, examples in KNOWN.items() for data in examples]


@pytest.mark.parametrize(("name", "data"), CASES)
def test_the_refusal_says_what_the_file_is(tmp_path, name, data):
    (report,) = import_all(write(tmp_path / "result.json", json.dumps(data))).files
    assert report.outcome is FileOutcome.REFUSED
    assert name in report.reason


def test_such_a_file_in_a_folder_is_refused_not_skipped(tmp_path):
    write(tmp_path / "r.json", json.dumps(CASES[0][1]))
    assert not import_all(tmp_path).complete
