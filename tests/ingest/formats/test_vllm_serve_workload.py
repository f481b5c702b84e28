"""What a result of `vllm bench serve` says of its workload is taken as it is, but made fit to be stored and shown."""

import pytest

from regress_gate.ingest.content import Content
from regress_gate.ingest.formats.vllm_serve import VllmServe
from regress_gate.ingest.formats.vllm_serve_console import VllmServeConsole
from regress_gate.ingest.interface import Context, Reading
from tests.factories.serve_results import console, made_up, plain
from tests.ingest.formats.reading import reading, refusal


def test_swept_texts_are_cleaned():
    found = reading(VllmServe(), plain(made_up(5), run_number=0, kv_cache_dtype="fp8\u202e\x00", note="x" * 5000))
    assert found.workload["kv_cache_dtype"].isprintable()
    assert len(found.workload["note"]) < 300


@pytest.mark.parametrize(
    ("line", "burstiness"),
    [
        ("1.0 (Poisson process)", 1.0),
        ("0.50 (Gamma distribution)", 0.5),
        ("1,000", 1000.0),
        ("None", None),
        ("inf", None),
    ],
)
def test_the_printed_burstiness_is_a_number_or_nothing(line, burstiness):
    text = f"Burstiness factor: {line}\n{console(made_up(5))}"
    (found,) = VllmServeConsole().read(Content("", "", text=text), Context())
    assert isinstance(found, Reading)
    assert found.workload.get("burstiness") == burstiness


def test_a_burstiness_that_no_client_takes_is_refused():
    assert "burstiness is -1" in refusal(VllmServe(), plain(made_up(5), burstiness=-1))


@pytest.mark.parametrize("key", ["max_concurrent_requests", "max_output_tokens_per_s", "rtfx", "std_ttft_ms"])
def test_peaks_by_the_second_and_spreads_are_neither_metrics_nor_workload(key):
    """A peak may exceed the limit on requests in flight, and may be lower than the mean rate."""
    found, other = (reading(VllmServe(), plain(made_up(5), **{key: value})) for value in (6.0, 4321.0))
    assert (found.metrics, found.workload) == (other.metrics, other.workload)


@pytest.mark.parametrize("key", ["max_concurrent_requests", "std_itl_ms", "spec_decode_acceptance_rate"])
def test_what_was_measured_is_no_swept_parameter(key):
    found, other = (reading(VllmServe(), plain(made_up(5), run_number=0, **{key: value})) for value in (6.0, 4321.0))
    assert found.workload == other.workload
