"""A record's claim about one scenario and family of metrics, and how direct it is."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.known.matching.signature import Claim, ObservedLoss, claim_on, family_of, is_measurable_in, log_loss
from regress_gate.model.metric import METRICS
from regress_gate.model.suite import Workload
from tests.factories.records import record


def unit(metric: str, **workload: Any) -> ObservedLoss:
    sent = Workload.model_validate(workload)
    family = family_of(metric, at_rate=sent.request_rate is not None)
    return ObservedLoss("s", family, metric, sent, 0.0, 0.01, (-0.02, 0.02), math.log(1.05), f"s/{metric}")


def part(metric: str, direction: str = "worse", **more: Any) -> dict[str, Any]:
    return {"metric": metric, "direction": direction, **more}


class TestTheCommonScale:
    def test_half_more_latency_and_a_third_less_throughput_are_the_same_loss(self) -> None:
        assert log_loss("ttft_median", 0.5) == pytest.approx(log_loss("output_throughput", 1 / 3))

    @given(st.sampled_from([*METRICS, "accuracy_gsm8k", "ttft"]), st.floats(-5, 5), st.floats(-5, 5))
    def test_it_keeps_the_order_and_is_finite_for_any_size(self, name: str, one: float, other: float) -> None:
        low, high = sorted((log_loss(name, one), log_loss(name, other)))
        assert math.isfinite(low)
        assert math.isfinite(high)
        assert (one <= other) == (log_loss(name, one) <= log_loss(name, other)) or low == high

    def test_no_change_is_no_loss(self) -> None:
        assert {log_loss(name, 0.0) for name in METRICS} == {0.0}


class TestFamilies:
    @pytest.mark.parametrize(
        ("metric", "family"),
        [("ttft_p99", "ttft"), ("tpot", "decode"), ("itl_mean", "decode"), ("e2el_median", "requests")],
    )
    def test_latencies_belong_to_the_part_of_a_request_that_they_time(self, metric: str, family: str) -> None:
        assert family_of(metric, at_rate=False) == family

    def test_throughput_of_a_closed_loop_is_latency_but_at_a_given_rate_it_is_not(self) -> None:
        assert family_of("output_throughput", at_rate=False) == family_of("e2el_mean", at_rate=False)
        assert family_of("output_throughput", at_rate=True) == "throughput"


class TestClaims:
    ISSUE = record(
        scope={"workload": {"concurrency": "<=16"}},
        signature=[part("ttft", change=[0.3, 0.5], workload={"concurrency": "<=8"})],
    )

    def test_inside_the_region_the_size_is_claimed(self) -> None:
        claim = claim_on(self.ISSUE, unit("ttft_median", concurrency=4))
        assert claim == Claim(0, "worse", (pytest.approx(math.log(1.3)), pytest.approx(math.log(1.5))))

    def test_a_workload_in_scope_but_outside_of_the_claimed_region_is_an_indirect_claim(self) -> None:
        claim = claim_on(self.ISSUE, unit("ttft_median", concurrency=12))
        assert claim is not None
        assert not claim.is_direct

    def test_a_workload_outside_of_the_scope_has_no_claim(self) -> None:
        assert claim_on(self.ISSUE, unit("ttft_median", concurrency=64)) is None

    def test_a_number_that_is_not_known_makes_the_claim_indirect(self) -> None:
        claim = claim_on(self.ISSUE, unit("ttft_median"))
        assert claim is not None
        assert not claim.is_direct

    @pytest.mark.parametrize(
        ("metric", "steps"), [("e2el_median", 1), ("output_throughput", 1), ("tpot_median", 2), ("ttft_p99", 1)]
    )
    def test_other_latencies_follow_indirectly(self, metric: str, steps: int) -> None:
        inside, outside = (claim_on(self.ISSUE, unit(metric, concurrency=c)) for c in (4, 12))
        assert inside is not None
        assert outside is not None
        assert (inside.steps, outside.steps) == (steps, steps + 1)

    def test_memory_does_not_follow_from_pace(self) -> None:
        assert claim_on(self.ISSUE, unit("peak_memory", concurrency=4)) is None

    def test_a_tail_is_not_direct_evidence_for_a_claim_on_the_body(self) -> None:
        claim = claim_on(self.ISSUE, unit("ttft_p99", concurrency=4))
        assert claim is not None
        assert not claim.is_direct
        tail = record(signature=[part("ttft_p99")])
        claim = claim_on(tail, unit("ttft_p99", concurrency=4))
        assert claim is not None
        assert claim.is_direct

    def test_a_signature_region_counts_beyond_the_scope_region(self) -> None:
        issue = record(
            scope={"workload": {"concurrency": "<=8"}},
            signature=[part("ttft"), part("output_throughput", "better", workload={"concurrency": ">=16"})],
        )
        claim = claim_on(issue, unit("output_throughput", concurrency=32))
        assert claim == Claim(0, "better", None)

    def test_throughput_at_a_given_rate_is_claimed_only_with_a_named_rate(self) -> None:
        any_load = record(signature=[part("output_throughput")])
        assert claim_on(any_load, unit("output_throughput", request_rate=4)) is None
        at_rate = record(signature=[part("output_throughput", workload={"request_rate": ">=4"})])
        claim = claim_on(at_rate, unit("output_throughput", request_rate=4))
        assert claim is not None
        assert claim.is_direct

    def test_the_score_of_another_task_says_only_that_answers_got_worse(self) -> None:
        issue = record(kind="accuracy", signature=[part("accuracy_gsm8k", change=[0.3, 0.4])])
        assert claim_on(issue, unit("accuracy_agreement")) == Claim(1, "worse", None)

    def test_nothing_is_claimed_without_a_signature(self) -> None:
        assert claim_on(record(signature=[]), unit("ttft_median")) is None


class TestMeasurableLosses:
    def test_only_workloads_inside_of_the_region_of_a_loss(self) -> None:
        issue = TestClaims.ISSUE
        assert is_measurable_in(issue, Workload(concurrency=8))
        assert not is_measurable_in(issue, Workload(concurrency=12))
        assert not is_measurable_in(issue, Workload())

    def test_a_given_rate_hides_a_loss_of_throughput(self) -> None:
        issue = record(signature=[part("output_throughput")])
        assert is_measurable_in(issue, Workload(concurrency=8))
        assert not is_measurable_in(issue, Workload(request_rate=4))
