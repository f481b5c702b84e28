"""`vllm bench latency`, `throughput` and `startup`: seconds, without a server, and never compared with a server's."""

import pytest

from regress_gate.ingest.formats.vllm_offline import VllmLatency, VllmStartup, VllmThroughput
from tests.ingest.formats.reading import reading, refusal
from tests.ingest.formats.vllm_family import MODEL, TIMES, latency, startup, throughput


class TestLatency:
    def test_times_of_batches_are_read_in_seconds(self):
        found = reading(VllmLatency(), latency())
        assert found.metrics == pytest.approx(
            {"batch_latency_mean": 0.9, "batch_latency_median": 1.0, "batch_latency_p90": 1.5}
        )
        assert (found.completed, found.duration, found.definitions) == (None, None, "vllm-offline")
        assert found.workload == {"benchmark": "latency"}

    def test_percentiles_that_so_few_passes_cannot_have_are_left_out(self):
        found = reading(VllmLatency(), latency())
        assert found.notes == ("p95, p99 of 10 repeats left out",)
        many = reading(VllmLatency(), {"avg_latency": 0.9, "latencies": TIMES * 10})
        assert many.metrics["batch_latency_p99"] == 1.5
        assert many.notes == ()

    def test_the_model_is_known_from_0_31_on(self):
        assert reading(VllmLatency(), latency(model_id=MODEL)).workload["model"] == MODEL

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"avg_latency": 900.0}, "avg_latency says 900, its own times say 0.9: wrong unit"),
            ({"percentiles": {"99": 1500.0}}, "percentiles 99 says 1500"),
            ({"percentiles": {"x": 1.5}}, "'x', which is no percentile"),
            ({"percentiles": 3}, "percentiles is 3, not an object"),
            ({"latencies": []}, "no pass was measured"),
            ({"latencies": [0.0], "avg_latency": 0.0}, "every latency is 0"),
            ({"latencies": [1.0, 0.0]}, "which no pass can reach"),
            ({"latencies": [1.0, -1.0]}, "holds a negative time"),
            ({"latencies": [1.0, "2"]}, "latencies is not a list of numbers"),
            ({"latencies": [True]}, "latencies is not a list of numbers"),
            ({"avg_latency": None}, "avg_latency is missing"),
        ],
    )
    def test_what_cannot_be_a_measurement_is_refused(self, change, why):
        assert why in refusal(VllmLatency(), latency(**change))


class TestThroughput:
    def test_rates_are_those_of_the_whole_batch(self):
        found = reading(VllmThroughput(), throughput())
        # Prompt and output tokens together: 10240 tokens in 4 s.
        assert found.metrics == {"batch_throughput": 16.0, "total_throughput": 2560.0}
        assert (found.completed, found.duration, found.definitions) == (64, 4.0, "vllm-offline")
        assert found.workload == {"num_prompts": 64, "benchmark": "throughput"}

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"requests_per_second": 17.0}, "requests_per_second says 17, but 64 in 4 s is 16"),
            ({"tokens_per_second": 640.0}, "tokens_per_second says 640"),
            ({"num_requests": 0, "requests_per_second": 0.0}, "num_requests is 0"),
            ({"elapsed_time": 0}, "elapsed_time is 0 s"),
            ({"elapsed_time": "4"}, "elapsed_time is '4', not a number"),
        ],
    )
    def test_what_cannot_be_a_measurement_is_refused(self, change, why):
        assert why in refusal(VllmThroughput(), throughput(**change))


class TestStartup:
    def test_cold_and_warm_starts_are_metrics_of_their_own(self):
        found = reading(VllmStartup(), startup())
        assert found.metrics == {
            "cold_start_time": 60.0,
            "warm_start_time": 30.0,
            "cold_compilation_time": 20.0,
            "warm_compilation_time": 5.0,
        }
        assert "cold_start_time is the mean of 3 starts" in found.notes

    def test_the_compilation_of_an_encoder_has_no_metric(self):
        found = reading(VllmStartup(), startup(avg_cold_encoder_compilation_time=9.0))
        assert len(found.metrics) == 4

    def test_nothing_compiled_is_no_compilation_of_0_s(self):
        found = reading(VllmStartup(), startup(avg_cold_compilation_time=0.0, cold_compilation_times=[0.0, 0.0]))
        assert "cold_compilation_time" not in found.metrics
        assert "cold_compilation_time is 0 and is left out: nothing was compiled" in found.notes

    @pytest.mark.parametrize(
        ("change", "why"),
        [
            ({"avg_cold_startup_time": 60000.0}, "avg_cold_startup_time says 60000, its own times say 60"),
            ({"cold_startup_percentiles": {"50": 6.0}}, "cold_startup_percentiles 50 says 6"),
            ({"avg_warm_startup_time": 0, "warm_startup_times": []}, "which no start can reach"),
            ({"avg_warm_startup_time": -1, "warm_startup_times": []}, "is negative"),
        ],
    )
    def test_what_cannot_be_a_measurement_is_refused(self, change, why):
        assert why in refusal(VllmStartup(), startup(**change))
