"""Attribution of losses to records: cases with known answers, and calibrated probabilities."""

import math
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regress_gate.known.joining.attribution import (
    OWN,
    UNSIZED_CENTER,
    UNSIZED_SHARED,
    Attribution,
    attribute_losses,
    issue_prior,
)
from regress_gate.known.matching.signature import ObservedLoss, family_of, log_loss
from regress_gate.known.records.loading import load_records
from regress_gate.model.issue import IssueFinding
from regress_gate.model.metric import METRICS
from regress_gate.model.result import IssueObservation
from regress_gate.model.suite import Workload
from tests.factories.joining_world import World, scores, tally
from tests.factories.runs import make_finding

LOSSES = {"c1": 1, "c8": 8, "c64": 64}


def measured(**changes: float) -> list[ObservedLoss]:
    """A suite of three scenarios; `c1_ttft=0.4` is a change of +40 % there. All others stayed as they were."""
    units = []
    for scenario, concurrency in LOSSES.items():
        for short, metric in (("ttft", "ttft_median"), ("tpot", "tpot_median"), ("throughput", "output_throughput")):
            loss = log_loss(metric, changes.get(f"{scenario}_{short}", 0.0))
            units.append(a_unit(scenario, metric, loss, concurrency))
    return units


def a_unit(
    scenario: str, metric: str, loss: float, concurrency: int | None = None, error: float = 0.01
) -> ObservedLoss:
    name = f"{scenario}/{metric}"
    return ObservedLoss(
        scenario=scenario,
        family=family_of(metric, at_rate=False),
        metric=metric,
        workload=Workload(concurrency=concurrency),
        loss=loss,
        standard_error=error,
        bounds=(loss - 1.645 * error, loss + 1.645 * error),
        margin=math.log(1.05),
        text=name,
        regressions=(name,) if loss > 0.03 else (),
    )


def claims(number: int, *parts: dict[str, Any], **changes: Any) -> IssueFinding:
    return make_finding(f"VLLM-{number}", signature=list(parts), **changes)


def loses(metric: str, *change: float, at: str | None = None) -> dict[str, Any]:
    data: dict[str, Any] = {"metric": metric, "direction": "worse"}
    if change:
        data["change"] = list(change)
    if at is not None:
        data["workload"] = {"concurrency": at}
    return data


def joined(findings: list[IssueFinding], units: list[ObservedLoss]) -> Attribution:
    return attribute_losses(findings, units, lambda *_: None)


def score(found: Attribution, number: int) -> float:
    standing = found.standings.get(f"VLLM-{number}")
    return 0.0 if standing is None or standing.score is None else standing.score


TTFT_OF_FEW = claims(1, loses("ttft", 0.3, 0.6, at="<=8"))
DECOYS = [
    claims(2, loses("tpot", 0.2, 0.3)),
    claims(3, loses("ttft", 0.4, 0.5, at=">=64")),
    claims(4, loses("peak_memory", 0.1, 0.1)),
    claims(5, loses("output_throughput", 0.5, 0.6)),
    claims(6, loses("ttft", 0.3, 0.6, at="<=8"), effect="carried"),
    claims(7, loses("ttft", 0.3, 0.6, at="<=8"), applies="no"),
]


class TestKnownAnswers:
    def test_an_injected_signature_is_found_among_decoys(self) -> None:
        found = joined([*DECOYS, TTFT_OF_FEW], measured(c1_ttft=0.45, c8_ttft=0.35))
        assert [one.issue for one in found.explanations] == ["VLLM-1", "VLLM-1"]
        standing = found.standings["VLLM-1"]
        assert standing.measured is IssueObservation.EXPLAINS
        assert standing.series == ("c1/ttft_median", "c8/ttft_median")
        assert all(score(found, number) < 0.25 for number in (2, 3, 4, 5, 6))

    def test_a_loss_without_a_claim_is_unexplained(self) -> None:
        found = joined([claims(1, loses("peak_memory", 0.2, 0.3))], measured(c64_tpot=0.2))
        (one,) = found.explanations
        assert (one.issue, one.shares) == (None, ())

    def test_an_unexplained_loss_names_the_likeliest_records(self) -> None:
        found = joined([claims(1, loses("ttft", 0.3, 0.6, at="1"))], measured(c64_ttft=0.4))
        (one,) = found.explanations
        assert one.issue is None
        assert [name for name, _ in one.shares] == ["VLLM-1"]

    def test_of_two_records_the_one_with_the_size_is_likelier(self) -> None:
        small, large = claims(1, loses("ttft", 0.02, 0.03)), claims(2, loses("ttft", 0.4, 0.6))
        everywhere = measured(c1_ttft=0.5, c8_ttft=0.5, c64_ttft=0.5)
        found = joined([small, large], everywhere)
        assert score(found, 2) > 0.8 > 0.2 > score(found, 1)

    def test_of_two_records_the_one_with_the_region_is_likelier(self) -> None:
        everywhere, few = claims(1, loses("ttft", 0.4, 0.6)), claims(2, loses("ttft", 0.4, 0.6, at="<=8"))
        found = joined([everywhere, few], measured(c1_ttft=0.5, c8_ttft=0.5))
        assert {one.issue for one in found.explanations} == {"VLLM-2"}
        assert score(found, 2) > 0.7 > 0.5 > score(found, 1)

    def test_two_issues_at_once_are_distinguished(self) -> None:
        ttft, tpot = claims(1, loses("ttft", 0.4, 0.6, at="1")), claims(2, loses("tpot", 0.1, 0.2, at=">=64"))
        found = joined([ttft, tpot], measured(c1_ttft=0.5, c64_tpot=0.15))
        assert [one.issue for one in found.explanations] == ["VLLM-1", "VLLM-2"]

    def test_indistinguishable_records_share_the_blame_and_none_explains(self) -> None:
        twins = [claims(number, loses("ttft", 0.3, 0.6, at="<=8")) for number in (1, 2)]
        (first, _) = joined(twins, measured(c1_ttft=0.45, c8_ttft=0.35)).explanations
        assert len(first.shares) == 2
        assert first.shares[0][1] == pytest.approx(first.shares[1][1])

    def test_a_loss_of_one_scenario_is_not_made_by_a_record_that_claims_all(self) -> None:
        found = joined(
            [claims(1, loses("output_throughput"))], measured(c64_ttft=0.2, c64_tpot=0.2, c64_throughput=0.17)
        )
        assert {one.issue for one in found.explanations} == {None}

    def test_the_latency_that_follows_from_a_claimed_loss_of_throughput_is_explained_too(self) -> None:
        slow = {"c1_throughput": 0.2, "c8_throughput": 0.2, "c64_throughput": 0.2, "c1_tpot": 0.25, "c8_tpot": 0.25}
        found = joined([claims(1, loses("output_throughput", 0.15, 0.25))], measured(**slow))
        assert {one.issue for one in found.explanations} == {"VLLM-1"}


class TestPriors:
    """The same signature, and one thing that makes it less likely."""

    @pytest.mark.parametrize(
        "less",
        [
            {"applies": "unknown"},
            {"applies": "mitigated"},
            {"effect": "carried"},
            {"status": "fix_in_candidate"},
            {"confidence": "low"},
        ],
    )
    def test_the_prior_is_lower_for_a_record_that(self, less: dict[str, Any]) -> None:
        part = loses("ttft", 0.3, 0.6, at="<=8")
        plain, doubtful = claims(1, part), claims(2, part, **less)
        assert issue_prior(doubtful) < issue_prior(plain)
        found = joined([plain, doubtful], measured(c1_ttft=0.45, c8_ttft=0.35))
        assert score(found, 2) < score(found, 1)

    @pytest.mark.parametrize("never", [{"applies": "no"}, {"effect": "resolved"}])
    def test_facts_for_resolved_or_inapplicable_issues_are_not_asked_for(self, never: dict[str, Any]) -> None:
        assert joined([claims(1, loses("ttft", 0.3, 0.6), **never)], measured(c1_ttft=0.45)).standings == {}


class TestOutcomeOfAClaim:
    def test_predicted_but_not_observed(self) -> None:
        standing = joined([TTFT_OF_FEW], measured()).standings["VLLM-1"]
        assert (standing.measured, standing.score) == (IssueObservation.NOT_OBSERVED, None)
        assert "c1/ttft_median" in standing.why

    def test_an_interval_that_reaches_the_smallest_claimed_size_excludes_nothing(self) -> None:
        wide = [a_unit("c1", "ttft_median", 0.0, 1, error=math.log(1.3) / 1.6)]
        assert joined([TTFT_OF_FEW], wide).standings["VLLM-1"].measured is IssueObservation.UNCLEAR

    def test_without_a_claimed_size_the_margin_must_be_excluded(self) -> None:
        unsized = claims(1, loses("ttft"))
        assert joined([unsized], measured()).standings["VLLM-1"].measured is IssueObservation.NOT_OBSERVED
        wide = [a_unit("c1", "ttft_median", 0.0, 1, error=0.1)]
        assert joined([unsized], wide).standings["VLLM-1"].measured is IssueObservation.UNCLEAR

    def test_a_region_that_the_suite_does_not_enter_is_not_testable_and_named(self) -> None:
        standing = joined([claims(1, loses("ttft", 0.3, 0.6, at=">=512"))], measured()).standings["VLLM-1"]
        assert standing.measured is IssueObservation.NOT_TESTABLE
        assert "ttft at concurrency >=512" in standing.why

    def test_a_server_outside_of_the_scope_is_not_testable_and_says_why(self) -> None:
        found = attribute_losses([TTFT_OF_FEW], measured(c1_ttft=0.45), lambda *_: "model tiny is not DeepSeek-R1")
        assert found.standings["VLLM-1"].measured is IssueObservation.NOT_TESTABLE
        assert "model tiny is not DeepSeek-R1" in found.standings["VLLM-1"].why
        assert found.explanations[0].issue is None

    def test_issues_of_both_versions_are_not_expected_in_their_difference(self) -> None:
        carried = claims(1, loses("ttft", 0.3, 0.6), effect="carried")
        assert joined([carried], measured()).standings == {}


class TestEvidenceIsNotCountedTwice:
    def test_many_scenarios_that_agree_leave_room_for_another_cause(self) -> None:
        """With nine independent pieces of evidence the odds would grow by a factor in each; they share one size."""
        doubted = claims(1, loses("ttft", 1.0, 1.2), confidence="low", applies="unknown")
        scenarios = {f"s{number}": number for number in range(1, 10)}
        far = [a_unit(name, "ttft_median", log_loss("ttft_median", 0.1), c) for name, c in scenarios.items()]
        assert score(joined([doubted], far), 1) < 0.2


class TestProbabilities:
    parts = st.builds(
        lambda metric, size, region: loses(metric, *size, **({} if region is None else {"at": region})),
        st.sampled_from(["ttft", "tpot", "output_throughput", "e2el_p99"]),
        st.sampled_from([(), (0.1, 0.2), (0.01, 0.9)]),
        st.sampled_from([None, "1", "<=8", ">=64"]),
    )
    changes = st.dictionaries(
        st.sampled_from([f"{s}_{m}" for s in LOSSES for m in ("ttft", "tpot", "throughput")]),
        st.floats(-0.5, 0.9),
    )

    @settings(max_examples=50, deadline=None)
    @given(st.lists(parts, min_size=1, max_size=4), changes)
    def test_scores_are_probabilities_for_any_measurements_in_any_order(
        self, parts: list[dict[str, Any]], changes: dict[str, float]
    ) -> None:
        findings = [claims(number, part) for number, part in enumerate(parts, 1)]
        units = measured(**changes)
        found = joined(findings, units)
        for one in found.explanations:
            assert sum(share for _, share in one.shares) <= 1 + 1e-9
        turned = joined(findings[::-1], units[::-1])
        for name, standing in found.standings.items():
            other = turned.standings[name]
            assert other.measured is standing.measured
            assert other.score == (None if standing.score is None else pytest.approx(standing.score, abs=1e-9))
            assert standing.score is None or 0 <= standing.score <= 1 + 1e-9

    @pytest.mark.slow
    def test_among_scores_near_p_about_a_share_p_is_right(self) -> None:
        for row in tally(scores(World(), 500, seed=7)):
            if row.scores >= 40:
                share = row.right / row.scores
                chance = 3 * math.sqrt(row.mean * (1 - row.mean) / row.scores)
                assert abs(share - row.mean) < 0.05 + chance, row

    @pytest.mark.slow
    def test_where_sizes_scatter_more_widely_than_assumed_high_scores_stay_mostly_right(self) -> None:
        pairs = scores(World(sizes=1.5), 250, seed=8)
        sure = [right for value, right in pairs if value >= 0.8]
        assert len(sure) > 60
        assert sum(sure) / len(sure) > 0.75


class TestSourcesOfTheAssumptions:
    """The assumptions that are said to be those of the shipped records are."""

    SIZED: ClassVar = [
        sorted(abs(log_loss(part.metric, end)) for end in part.change)
        for issue in load_records()
        for part in issue.signature
        if part.change is not None and part.direction == "worse" and not part.metric.startswith("accuracy_")
        if part.metric not in METRICS or not METRICS[part.metric].per_run
        if min(part.change) > 0
    ]

    def test_median_and_spread_of_sizes(self) -> None:
        middles = sorted((math.log(low) + math.log(high)) / 2 for low, high in self.SIZED)
        median, mean = middles[len(middles) // 2], sum(middles) / len(middles)
        spread = math.sqrt(sum((one - mean) ** 2 for one in middles) / (len(middles) - 1))
        assert median == pytest.approx(UNSIZED_CENTER, abs=0.35)
        assert spread == pytest.approx(UNSIZED_SHARED, abs=0.25)

    def test_spread_within_one_record(self) -> None:
        """Of the two ends of a range, where they differ by more than rounding (a fifth)."""
        apart = [math.log(high / low) for low, high in self.SIZED if math.log(high / low) > 0.2]
        assert math.sqrt(sum(one**2 / 2 for one in apart) / len(apart)) == pytest.approx(OWN[0], abs=0.15)
