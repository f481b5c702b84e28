"""Scenarios that would show what a suite does not: in the issue's region, on the deployment's server, and sendable."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from regress_gate.known.joining.suggestions import Suggestions, is_testable, suggest_scenarios, suite_text
from regress_gate.known.matching.facts import derive_facts
from regress_gate.known.matching.findings import exclusion_reasons, match_facts, match_issues
from regress_gate.known.matching.signature import is_measurable_in
from regress_gate.known.records.loading import load_records
from regress_gate.model.deployment import Deployment
from regress_gate.model.issue import Applies, IssueFinding
from regress_gate.model.suite import Scenario, ServerConfig, Suite, Workload
from regress_gate.model.version import Version
from regress_gate.suites import load_suite
from regress_gate.suites.lint import lint_suite
from tests.factories.runs import make_finding

RECORDS = load_records()
OURS = Deployment(accelerator="H200", model="org/Model-8B", engine_args={"max_model_len": 8192}, env={"A": "1"})


def loses(**more: Any) -> dict[str, Any]:
    return {"metric": "ttft", "direction": "worse", **more}


def found(*parts: dict[str, Any], number: int = 1, **changes: Any) -> IssueFinding:
    return make_finding(f"VLLM-{number}", signature=list(parts), **changes)


def suggested(*findings: IssueFinding, deployment: Deployment = OURS, has_baseline: bool = True) -> Suggestions:
    return suggest_scenarios(findings, deployment, lambda _: False, has_baseline=has_baseline)


class TestTheScenario:
    def test_it_has_the_deployments_server_and_says_what_it_is_for(self) -> None:
        (one,) = suggested(found(loses())).scenarios
        assert one.server == ServerConfig(model="org/Model-8B", engine_args={"max_model_len": 8192}, env={"A": "1"})
        assert one.sees == ["VLLM-1"]
        assert one.why is not None
        assert one.why.startswith("VLLM-1: ")

    def test_what_the_scope_asks_for_is_set(self) -> None:
        scope = {
            "model": ["org/Model*", "org/Named"],
            "engine_args": {"moe_backend": ["triton", "cutlass"]},
            "env": {"VLLM_X": "1"},
            "parallel": {"tensor": ">=4", "expert": True},
        }
        (one,) = suggested(found(loses(), scope=scope), deployment=Deployment()).scenarios
        assert one.server.model == "org/Named"
        assert one.server.engine_args == {
            "moe_backend": "triton",
            "tensor_parallel_size": 4,
            "enable_expert_parallel": True,
        }
        assert one.server.env == {"VLLM_X": "1"}

    @pytest.mark.parametrize(
        ("condition", "concurrency"), [("1", 1), ("<=8", 8), ("<8", 7), (">8", 9), (">=512", 512), ("==3", 3)]
    )
    def test_it_lies_in_the_region(self, condition: str, concurrency: int) -> None:
        (one,) = suggested(found(loses(workload={"concurrency": condition}))).scenarios
        assert one.workload.concurrency == concurrency
        assert (one.workload.num_requests or 0) >= max(100, concurrency)

    def test_scope_and_signature_hold_together(self) -> None:
        finding = found(
            loses(workload={"concurrency": ">=4"}), scope={"workload": {"concurrency": ">=16", "input_len": ">=4000"}}
        )
        (one,) = suggested(finding).scenarios
        assert (one.workload.concurrency, one.workload.input_len) == (16, 4000)

    def test_an_ordinary_prompt_is_cut_to_what_the_server_takes(self) -> None:
        short = OURS.model_copy(update={"engine_args": {"max_model_len": 512}})
        (one,) = suggested(found(loses()), deployment=short).scenarios
        assert (one.workload.input_len or 0) + (one.workload.output_len or 0) <= 512

    def test_an_issue_without_a_region_shares_a_scenario(self) -> None:
        (one,) = suggested(found(loses()), found(loses(workload={"concurrency": "1"}), number=2)).scenarios
        assert (one.sees, one.workload.concurrency) == (["VLLM-2", "VLLM-1"], 1)
        assert one.why is not None
        assert "VLLM-2, VLLM-1" in one.why

    def test_issues_of_different_regions_or_servers_do_not_share(self) -> None:
        few, many = (found(loses(workload={"concurrency": c}), number=n) for n, c in ((1, "1"), (2, ">=64")))
        other = found(loses(), number=3, scope={"env": {"VLLM_X": "1"}})
        assert [one.sees for one in suggested(few, many, other).scenarios] == [["VLLM-1"], ["VLLM-2"], ["VLLM-3"]]

    def test_an_encoder_is_sent_what_it_takes(self) -> None:
        (one,) = suggested(found({**loses(), "metric": "e2el"}, scope={"features": ["embedding"]})).scenarios
        assert (one.workload.api, one.workload.output_len) == ("embeddings", None)
        (one,) = suggested(found({**loses(), "metric": "e2el"}, scope={"features": ["rerank"]})).scenarios
        assert (one.workload.api, one.workload.documents) == ("rerank", 10)


class TestWhichIssuesGetAScenario:
    @pytest.mark.parametrize(
        "changes", [{"applies": "unknown"}, {"applies": "no"}, {"effect": "resolved"}, {"effect": "carried"}]
    )
    def test_only_what_applies_and_comes_with_the_move(self, changes: dict[str, Any]) -> None:
        assert suggested(found(loses(), **changes)) == Suggestions((), ())

    def test_without_a_baseline_everything_the_version_has(self) -> None:
        assert suggested(found(loses(), effect="carried"), has_baseline=False).scenarios

    @pytest.mark.parametrize("parts", [[], [{"metric": "ttft", "direction": "better"}]])
    def test_an_issue_without_a_claimed_loss_needs_no_scenario(self, parts: list[dict[str, Any]]) -> None:
        assert suggested(found(*parts)) == Suggestions((), ())

    def test_an_issue_that_the_suite_shows_needs_no_scenario(self) -> None:
        scenario = Scenario(name="c8", server=ServerConfig(model="m"), workload=Workload(concurrency=8))
        suite = Suite(name="s", version="1", description="made up", scenarios=[scenario])
        finding = found(loses(workload={"concurrency": "<=8"}))
        assert is_testable(finding.issue, suite.scenarios, exclusion_reasons(suite, "H200"))
        other_model = found(loses(workload={"concurrency": "<=8"}), scope={"model": ["org/Other"]})
        assert not is_testable(other_model.issue, suite.scenarios, exclusion_reasons(suite, "H200"))
        other_place = found(loses(workload={"concurrency": ">=64"}))
        assert not is_testable(other_place.issue, suite.scenarios, exclusion_reasons(suite, "H200"))

    @pytest.mark.parametrize(
        ("finding", "deployment", "why"),
        [
            (found(loses()), Deployment(), "the model is not known"),
            (found(loses(), scope={"features": ["lora"]}), OURS, "needs lora"),
            (found(loses(), scope={"features": ["speculative_decoding"]}), OURS, "speculative_config"),
            (found(loses(workload={"input_len": ">=100000"})), OURS, "longer than max_model_len (8192)"),
            (
                found(loses(workload={"concurrency": "<=8"}), scope={"workload": {"concurrency": ">=16"}}),
                OURS,
                "contradict",
            ),
        ],
    )
    def test_an_issue_without_a_scenario_has_a_reason(
        self, finding: IssueFinding, deployment: Deployment, why: str
    ) -> None:
        result = suggested(finding, deployment=deployment)
        assert result.scenarios == ()
        assert result.impossible[0].startswith("VLLM-1: ")
        assert why in result.impossible[0]


class TestTheSuite:
    def test_it_is_one_that_the_linter_accepts(self, tmp_path: Path) -> None:
        finding = found(loses(workload={"concurrency": "<=8"}))
        file = tmp_path / "suggested.yaml"
        file.write_text(suite_text(suggested(finding), OURS, "0.20.0"), encoding="utf-8")
        assert lint_suite(file, ["VLLM-1"]) == []
        assert load_suite(str(file)).scenarios[0].sees == ["VLLM-1"]

    def test_nothing_to_suggest_is_said_in_comments(self) -> None:
        text = suite_text(Suggestions((), ()), OURS, "0.20.0")
        assert text.startswith("# No further scenario")
        assert yaml.safe_load(text) is None
        text = suite_text(Suggestions((), ("VLLM-1: it needs lora",)), OURS, "0.20.0")
        assert text == "# No scenario for VLLM-1: it needs lora\n"

    @pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.id)
    def test_each_shipped_record_gets_a_scenario_that_shows_it_or_a_reason(self, record: Any, tmp_path: Path) -> None:
        """As if it applied to a deployment of which nothing but the model is known."""
        finding = make_finding(record.id)
        finding = IssueFinding(record, Applies.YES, "", finding.status, "", finding.effect, "")
        concrete = next((name for name in record.scope.model or [] if not set(name) & set("*?[")), "org/Model")
        accelerator = next(iter(record.scope.accelerator or []), None)
        deployment = Deployment(model=concrete, accelerator=accelerator)
        result = suggested(finding, deployment=deployment)
        assert len(result.scenarios) + len(result.impossible) == any(p.direction == "worse" for p in record.signature)
        for scenario in result.scenarios:
            assert is_measurable_in(record, scenario.workload)
            server = Deployment(
                accelerator=accelerator,
                model=concrete,
                engine_args=scenario.server.engine_args,
                env=scenario.server.env,
            )
            held, why = match_facts(record, derive_facts(server), [scenario.workload])
            assert held is not Applies.NO or "model" in why or "architecture" in why or "in use" in why, why
        file = tmp_path / "suggested.yaml"
        file.write_text(suite_text(result, deployment, "0.20.0"), encoding="utf-8")
        if result.scenarios:
            assert [complaint for complaint in lint_suite(file, [record.id]) if complaint.severity == "error"] == []


def test_the_h200_moe_default_gets_a_scenario_for_one_client() -> None:
    deployment = Deployment(accelerator="H200", model="mistralai/Mixtral-8x7B-v0.1", quantization="none")
    moved = match_issues(RECORDS, deployment, Version.parse("0.19.1"), Version.parse("0.20.0"))
    scenarios = suggested(*moved, deployment=deployment).scenarios
    (one,) = [scenario for scenario in scenarios if "VLLM-41306" in scenario.sees]
    assert one.workload.concurrency == 1
