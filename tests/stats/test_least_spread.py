"""The least spread that is assumed: counts repeat exactly, times never do."""

import pytest

from regress_gate.model.metric import METRICS
from regress_gate.stats.estimate import MIN_COUNT_CV, MIN_TIMING_CV, least_spread


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("peak_memory", MIN_COUNT_CV),
        ("kv_cache_tokens", MIN_COUNT_CV),
        ("ttft_p99", MIN_TIMING_CV),
        ("output_throughput", MIN_TIMING_CV),
        ("failed_requests", MIN_TIMING_CV),
    ],
)
def test_the_unit_decides(name: str, least: float) -> None:
    assert least_spread(METRICS[name]) == least
    assert MIN_COUNT_CV < MIN_TIMING_CV
