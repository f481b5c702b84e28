"""Printed numbers that a harness put into JSON: read where they are vLLM's own and complete."""

import pytest

from regress_gate.ingest.content import parse_content
from regress_gate.ingest.formats.vllm_console_json import VllmConsoleJson
from regress_gate.ingest.formats.vllm_serve_console import VllmServeConsole
from regress_gate.ingest.interface import Context
from tests.factories.serve_results import console, made_up
from tests.ingest.formats.reading import read, reading, refusal
from tests.ingest.formats.vllm_family import MODEL, harness_row, quoting

ROWS = VllmConsoleJson()


def test_printed_labels_as_keys_are_read_in_seconds():
    found = reading(ROWS, [harness_row()])
    assert found.metrics == pytest.approx(
        {
            "ttft_mean": 0.08324,
            "tpot_mean": 0.00812,
            "itl_mean": 0.00811,
            "request_throughput": 4.0,
            "output_throughput": 200.0,
            "failed_requests": 0.0,
        }
    )
    assert (found.completed, found.duration) == (80, 20.0)


def test_the_command_states_the_workload():
    assert reading(ROWS, [harness_row()]).workload == {
        "model": MODEL,
        "max_concurrency": 4,
        "num_prompts": 80,
        "mean_input_tokens": 100.0,
        "mean_output_tokens": 50.0,
        "dataset": "hf-mt-bench",
    }


def test_rows_of_phases_keep_their_variant_apart():
    phases = {"phases": [{"variant": name, "bench": [harness_row()]} for name in ("mtp", "nomtp")]}
    assert [found.workload["variant"] for found in read(ROWS, phases)] == ["mtp", "nomtp"]


def test_a_quoted_block_is_read_as_if_it_had_been_pasted():
    found = reading(ROWS, quoting())
    text = parse_content("x.txt", console(made_up(6)).encode())
    (pasted,) = VllmServeConsole().read(text, Context())
    assert found.metrics == pasted.metrics
    assert found.workload["model"] == MODEL


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ok": False, "detail": "server unresponsive"}, "its ok is false: server unresponsive"),
        ({"metrics": {"request_throughput_req_s": 1.0}}, "does not say how many requests succeeded"),
        ({"metrics": harness_row()["metrics"] | {"successful_requests": 0}}, "no request succeeded"),
        ({"metrics": harness_row()["metrics"] | {"successful_requests": 81}}, "more than the 80 of num_prompts"),
        ({"metrics": harness_row()["metrics"] | {"mean_ttft_ms": 83240}}, "longer than the whole run"),
    ],
)
def test_rows_that_are_no_measurements_are_refused(change, why):
    assert why in refusal(ROWS, [harness_row(**change)])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"status": "error", "error": "Server crashed"}, "its status is 'error': Server crashed"),
        ({"raw_output": ""}, "does not say how many requests succeeded"),
        ({"raw_output": console(made_up(6))[:-60]}, "was cut off"),
        ({"agent_raw": console(made_up(7))}, "quotes 2 printed results"),
        ({"raw_output": console(made_up(6)) + console(made_up(7))}, "a text with 2 printed results"),
    ],
)
def test_records_without_one_whole_result_are_refused(change, why):
    assert why in refusal(ROWS, quoting(**change))
