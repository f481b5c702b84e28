"""The suites that come with the program: each is whole, can be served and sent, and keeps what it promises."""

import re
import subprocess
import sys

import pytest

from regress_gate.bench.experiment.experiment_plan import suite_digest
from regress_gate.bench.load.pass_requests import load_workloads
from regress_gate.bench.provision.interface import ServeRequest, serve_arguments
from regress_gate.gate.planning import plan_runs
from regress_gate.known.matching.scope import in_region
from regress_gate.known.records.loading import load_records
from regress_gate.model.documents import parse_yaml
from regress_gate.model.policy import Policy, PolicyOverrides
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import Scenario, Suite, Workload
from regress_gate.store.combined import ShippedBaselines
from regress_gate.suites import shipped_suites
from regress_gate.suites.lint import lint_suite
from tests.cli.conftest import ROOT

FOLDER = ROOT / "regress_gate" / "suites"
SUITES = shipped_suites()
RECORDS = {record.id: record for record in load_records()}
OF_ISSUE_3 = [suite for name, suite in SUITES.items() if name != "cpu-demo"]

every = pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))


@every
def test_it_stands_in_the_file_of_its_name_and_lints_without_a_complaint(suite: Suite):
    assert [str(one) for one in lint_suite(FOLDER / f"{suite.name}.yaml", RECORDS)] == []


@every
def test_the_load_client_can_send_it(suite: Suite):
    assert [scenario.name for scenario, _ in load_workloads(suite)] == [scenario.name for scenario in suite.scenarios]


@every
def test_one_server_start_serves_all_of_it(suite: Suite):
    requests = [
        ServeRequest(server.model, "served", server.engine_args, server.env)
        for server in (scenario.server for scenario in suite.scenarios)
    ]
    (line,) = {tuple(serve_arguments(request, 8000)) for request in requests}
    assert line[0] == suite.scenarios[0].server.model
    assert all(word.startswith("--") for word in line[1:])


@pytest.mark.parametrize("suite", OF_ISSUE_3, ids=lambda suite: suite.name)
def test_every_scenario_has_its_reason_and_known_issues(suite: Suite):
    assert suite.accelerator
    for scenario in suite.scenarios:
        assert scenario.why
        assert "sees" in scenario.model_fields_set


@pytest.mark.parametrize("suite", OF_ISSUE_3, ids=lambda suite: suite.name)
def test_what_a_scenario_claims_to_see_bites_where_it_is(suite: Suite):
    """The record's signature has a part whose region holds the scenario's workload, on the suite's accelerator."""
    for scenario in suite.scenarios:
        for issue in (RECORDS[name] for name in scenario.sees):
            assert suite.accelerator in (issue.scope.accelerator or [suite.accelerator])
            assert any(part.workload is None or in_region(part.workload, scenario.workload) for part in issue.signature)


def test_the_tiny_suite_has_the_shapes_of_load_that_matter():
    loads = {scenario.name: scenario.workload for scenario in SUITES["cpu-tiny"].scenarios}
    assert len(loads) >= 6
    assert {loads[name].concurrency for name in ("c1", "c4", "c16")} == {1, 4, 16}
    assert loads["prefix"].prefix_len > 0.8 * loads["prefix"].input_len
    assert loads["rate"].request_rate


def test_the_measured_suite_is_the_one_of_the_shipped_baselines():
    """Runs of a suite that was edited under the same version are not compared."""
    places = [run.place for run in ShippedBaselines().runs(suite=SuiteRef("cpu-tiny", SUITES["cpu-tiny"].version))]
    digests = {place.suite_digest for place in places if place and place.suite_digest}
    assert digests == {suite_digest(SUITES["cpu-tiny"])}


GPU_SUITES = sorted(name for name, suite in SUITES.items() if suite.accelerator != "cpu")


def test_every_gpu_suite_says_what_it_costs_as_the_model_of_the_machine_does():
    assert all(SUITES[name].cost for name in GPU_SUITES)
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "suite_cost.py"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("GPU minutes")) == (0, len(GPU_SUITES)), done.stdout


@pytest.mark.parametrize("name", GPU_SUITES)
class TestAGpuSuite:
    def test_has_a_scenario_of_objectives_whose_arrivals_do_not_wait(self, name: str):
        assert [one.name for one in SUITES[name].scenarios if one.workload.slo and one.workload.request_rate]

    def test_gates_the_share_of_requests_that_meet_the_objectives(self, name: str):
        gate = Policy().over(SUITES[name].gate)
        planned = plan_runs([], gate, SUITES[name], blocks=SUITES[name].blocks or 8, have=0, stops_early=True)
        promised = {one.name for one in SUITES[name].scenarios if one.workload.slo and one.workload.capacity is None}
        assert {one.scenario for one in planned.series if one.metric == "slo_attainment"} == promised

    @pytest.mark.parametrize("cv", [0.02, 0.03])
    def test_promises_an_unchanged_version_a_pass_within_eight_blocks(self, name: str, cv: float):
        suite = SUITES[name]
        assert suite.blocks is not None
        assert suite.blocks <= 8
        assert suite.gate.expected_cv == 0.02
        policy = Policy().over(suite.gate, PolicyOverrides(expected_cv=cv))
        plan = plan_runs([], policy, suite, blocks=suite.blocks, have=0, stops_early=True)
        assert [series.name for series in plan.series if series.stays_undecided] == []
        assert plan.likely_end is not None
        assert plan.likely_end.unchanged is not None
        assert plan.gpu_minutes


def hardest_of_each_kind() -> list[str]:
    """Suites of the same gate, blocks and sorts of scenarios differ in the simulation only by the number of requests of
    which a share meets the objectives: the fewer, the wider it scatters."""

    def kind(name: str) -> tuple[object, ...]:
        loads = [scenario.workload for scenario in SUITES[name].scenarios]
        sorts = [(load.slo is not None, load.capacity) for load in loads]
        return Policy().over(SUITES[name].gate).model_dump_json(), SUITES[name].blocks, *sorts

    def requests(name: str) -> int:
        return min(one.workload.num_requests or 0 for one in SUITES[name].scenarios if one.workload.slo)

    hardest = {kind(name): name for name in sorted(GPU_SUITES, key=requests, reverse=True)}
    return sorted(hardest.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", hardest_of_each_kind())
def test_a_gpu_suite_passes_an_unchanged_version_and_fails_one_that_lost_twice_its_margin(name: str):
    script = ROOT / "benchmarks" / "suite_promise.py"
    done = subprocess.run([sys.executable, script, "--suite", name], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_suites_that_were_never_measured_start_with_a_notice():
    for file in FOLDER.glob("*.yaml"):
        if not file.name.startswith("cpu-"):
            assert "never measured" in file.read_text(encoding="utf-8").splitlines()[0]


@pytest.mark.parametrize("name", GPU_SUITES)
def test_a_gpu_suite_names_the_source_of_its_shape_or_objectives(name: str):
    head = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").partition("\nname:")[0]
    assert "https://" in head
    assert "Objectives: " in head or "objectives: " in head


def test_the_request_settings_of_a_suite_reach_the_client():
    sent = {
        (suite, scenario.name): workload
        for suite in ("h100-lora", "h100-structured-output", "l4-embed", "l4-rerank")
        for scenario, workload in load_workloads(SUITES[suite])
    }
    assert sent["h100-lora", "lora-c1"].lora_adapters == ("sql",)
    choice = sent["h100-structured-output", "choice"]
    assert (choice.ignore_eos, choice.output_len) == (False, 16)
    assert choice.extra_body == {"structured_outputs": {"choice": ["approve", "reject", "escalate"]}}
    assert (sent["l4-embed", "query"].api, sent["l4-embed", "query"].output_len) == ("embeddings", 0)
    assert (sent["l4-rerank", "rate"].api, sent["l4-rerank", "rate"].documents) == ("rerank", 10)


def test_the_documentation_names_every_suite_and_every_key_of_a_workload():
    text = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    for name in (*SUITES, *Workload.model_fields, *Scenario.model_fields, *Suite.model_fields):
        assert f"`{name}" in text, name


def test_the_examples_of_the_documentation_are_accepted():
    text = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    examples = [parse_yaml(example, "docs").data for example in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    workloads = [
        Workload.model_validate(example.get("workload", example)) for example in examples if "scenarios" not in example
    ]
    [mix] = [example for example in examples if "scenarios" in example]
    mixed = Suite.model_validate({"name": "docs", "version": "1", "description": "docs", **mix})
    assert [each.name for each in mixed.mixes()["peak"]] == ["chat", "batch"]
    recorded, replayed, talking, chat, images, structured = workloads
    assert [each.missing for each in (recorded, replayed, talking, chat, images)] == [[]] * 5
    assert talking.longest == 2250 + 150
    assert (chat.api, images.images.count if images.images else 0) == ("chat", 1)
    assert structured.ignore_eos is False
