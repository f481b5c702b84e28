"""Known issues in the result of a comparison: what explains a regression, and what was not seen."""

from collections.abc import Mapping
from typing import Any

import pytest

from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, IssueObservation, KnownIssueOut, Result, Verdict
from regress_gate.model.run import IMPORTED_SUITE
from regress_gate.model.suite import Images, RecordedPrompts, RecordedTrace, Scenario, ServerConfig, Suite, Workload
from tests.factories.runs import SUITE, make_finding, make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides

RIPPLE = [1.0, 1.01, 0.99, 1.0, 1.005, 0.995]
POLICY = Policy(metrics=("ttft_median", "tpot_median", "output_throughput", "failed_requests"))
CONCURRENCY = {"c1": 1, "c64": 64}
NOTHING: Mapping[str, Any] = {}
TTFT_OF_ONE = {"metric": "ttft", "direction": "worse", "change": [0.3, 0.6], "workload": {"concurrency": "1"}}


def suite(model: str = "org/Model", **servers: ServerConfig) -> Suite:
    return Suite(
        name=SUITE.name,
        version=SUITE.version,
        description="made up",
        scenarios=[
            Scenario(
                name=name,
                server=servers.get(name, ServerConfig(model=model)),
                workload=Workload(concurrency=concurrency),
            )
            for name, concurrency in CONCURRENCY.items()
        ],
    )


def side(version: str, said: Mapping[str, Any] = NOTHING, **factors: float) -> Any:
    """Six runs of both scenarios; `c1_ttft_median=1.4` makes that one 1.4 times as large. `said` of every workload."""
    levels = {"ttft_median": 0.1, "ttft_p99": 0.2, "tpot_median": 0.01, "output_throughput": 1000.0}
    return make_side_of(
        version,
        *(
            make_run(
                str(number),
                version,
                *(
                    make_trial(
                        name,
                        workload={"max_concurrency": concurrency, **said},
                        **{
                            metric: level * ripple * factors.get(f"{name}_{metric}", 1.0)
                            for metric, level in levels.items()
                        },
                    )
                    for name, concurrency in CONCURRENCY.items()
                ),
            )
            for number, ripple in enumerate(RIPPLE)
        ),
    )


def decide(
    *findings: Any,
    definition: Suite | None = None,
    imported: bool = False,
    said: Mapping[str, Any] = NOTHING,
    **factors: float,
) -> Result:
    return decide_sides(
        side("0.19.0", said),
        side("0.19.1", said, **factors),
        suite=IMPORTED_SUITE if imported else SUITE,
        definition=None if imported else definition or suite(),
        policy=POLICY,
        findings=findings,
    )


def the(result: Result, name: str) -> KnownIssueOut:
    (one,) = [issue for issue in result.known_issues if issue.id == name]
    return one


def finding(number: int = 1, *parts: dict[str, Any], **changes: Any) -> Any:
    return make_finding(f"VLLM-{number}", signature=list(parts) or [TTFT_OF_ONE], severity="low", **changes)


class TestExplanations:
    def test_a_regression_names_the_issue_that_made_it(self) -> None:
        decoy = finding(2, {"metric": "tpot", "direction": "worse", "change": [0.2, 0.3]})
        result = decide(finding(), decoy, c1_ttft_median=1.4)
        (one,) = result.explanations
        assert (one.series, one.issue) == (["c1/ttft_median"], "VLLM-1")
        assert one.causes[0].probability > 0.8
        issue = the(result, "VLLM-1")
        assert issue.measured is IssueObservation.EXPLAINS
        assert issue.matched_series == ["c1/ttft_median"]
        assert issue.score is not None
        assert 0.8 < issue.score < 1
        assert the(result, "VLLM-2").measured is IssueObservation.NOT_OBSERVED

    def test_statistics_of_one_metric_are_one_piece_of_evidence(self) -> None:
        result = decide(finding(), c1_ttft_median=1.4, c1_ttft_p99=1.4)
        assert {one.name for one in result.series if one.verdict is Verdict.REGRESSION} >= {"c1/ttft_median"}
        (one,) = result.explanations
        assert the(result, "VLLM-1").matched_series == one.series

    def test_what_no_record_claims_is_unexplained(self) -> None:
        result = decide(finding(), c64_tpot_median=1.4)
        (one,) = result.explanations
        assert (one.series, one.issue) == (["c64/tpot_median"], None)
        assert the(result, "VLLM-1").measured is IssueObservation.NOT_OBSERVED

    def test_explaining_a_regression_does_not_excuse_it(self) -> None:
        assert decide(finding(), c1_ttft_median=1.4).decision is Decision.FAIL

    def test_without_a_regression_there_is_nothing_to_explain(self) -> None:
        result = decide(finding())
        assert result.explanations == []
        assert the(result, "VLLM-1").matched_series == []


class TestWhatTheSuiteCanShow:
    def test_another_model_on_the_scenarios_server_cannot(self) -> None:
        result = decide(finding(scope={"model": ["org/Other"]}), c1_ttft_median=1.4)
        issue = the(result, "VLLM-1")
        assert issue.measured is IssueObservation.NOT_TESTABLE
        assert "org/Model is not org/Other" in issue.measured_why
        assert result.explanations[0].issue is None

    def test_each_scenario_is_held_against_its_own_server(self) -> None:
        fast = ServerConfig(model="org/Model", engine_args={"moe_backend": "cutlass"})
        own = ServerConfig(model="org/Model", engine_args={"moe_backend": "triton"})
        needs = finding(
            1,
            {"metric": "ttft", "direction": "worse", "change": [0.3, 0.6]},
            scope={"engine_args": {"moe_backend": "triton"}},
        )
        both = suite(c1=own, c64=fast)
        (with_it,) = decide(needs, definition=both, c1_ttft_median=1.4).explanations
        (without,) = decide(needs, definition=both, c64_ttft_median=1.4).explanations
        assert (with_it.issue, without.issue) == ("VLLM-1", None)
        assert without.causes == []

    def test_another_machine_cannot(self) -> None:
        result = decide(finding(scope={"accelerator": ["MI300X"]}), c1_ttft_median=1.4)
        assert the(result, "VLLM-1").measured is IssueObservation.NOT_TESTABLE

    def test_imported_results_say_their_own_concurrency(self) -> None:
        result = decide(finding(), imported=True, c1_ttft_median=1.4, c64_tpot_median=1.4)
        assert {one.series[0]: one.issue for one in result.explanations} == {
            "c1/ttft_median": "VLLM-1",
            "c64/tpot_median": None,
        }

    @pytest.mark.parametrize(
        "recorded",
        [
            {"dataset": RecordedPrompts(format="custom", file="a.jsonl")},
            {"trace": RecordedTrace(file="a.jsonl")},
            {"api": "chat", "input_len": 64, "images": Images(width=1024, height=1024)},
        ],
    )
    def test_recorded_prompts_and_images_are_as_long_as_they_were_measured(self, recorded: dict[str, Any]) -> None:
        """A loss in prompts as long as those of a record is more likely its doing than one in shorter ones."""
        workload = Workload(**recorded, concurrency=1, num_requests=10)
        scenario = Scenario(name="c1", server=ServerConfig(model="org/Model"), workload=workload)
        definition = suite().model_copy(update={"scenarios": [scenario, suite().scenarios[1]]})
        long = finding(1, {**TTFT_OF_ONE, "workload": {"input_len": ">=1000"}})

        def probability(tokens: float) -> float:
            said = {"mean_input_tokens": tokens, "mean_output_tokens": 20.0}
            (one,) = decide(long, definition=definition, said=said, c1_ttft_median=1.4).explanations
            return one.causes[0].probability

        assert probability(1500.4) > probability(900.0)

    @pytest.mark.parametrize("effect", ["carried", "resolved"])
    def test_only_what_the_move_brings_is_looked_for(self, effect: str) -> None:
        issue = the(decide(finding(effect=effect)), "VLLM-1")
        assert (issue.measured, issue.score) == (None, None)

    def test_a_record_that_claims_nothing_is_left_alone(self) -> None:
        silent = make_finding("VLLM-1", severity="low")
        assert the(decide(silent, c1_ttft_median=1.4), "VLLM-1").measured is None
