"""`compare --attribute`: what would undo a cause is measured, and decides whether it was one."""

from itertools import count
from types import SimpleNamespace

import pytest

from regress_gate.app import attribution, experiment
from regress_gate.bench.experiment.experiment_plan import ExperimentPlan
from regress_gate.bench.experiment.experiment_runner import find_plan_runs
from regress_gate.errors import InputError
from regress_gate.store.repository import find_store
from tests.cli.measuring.test_causes import SUITE, USUAL
from tests.cli.measuring.test_interrupted import read_until
from tests.fake_vllm.environment import FakeProvisioner, write_behaviour

pytestmark = pytest.mark.slow

SLOW_BACKEND = ["--moe-backend=CUTLASS", "--slow-moe-backend=CUTLASS"]
INNOCENT_BACKEND = ["--moe-backend=CUTLASS", "--tpot=0.018"]
STEADY = (*USUAL, "--jitter=0", "--run-spread=0.002")
COMPARE = ("compare", "0.19.0", "0.19.1", "--measure", "--runs", 3)


@pytest.fixture(autouse=True)
def simulated(lab):
    lab.suite.write_text(SUITE.replace("0.05", "0.15"))
    lab.simulate_load()
    yield
    assert lab.servers() == []


def compared(lab, *options):
    outcome = lab(*COMPARE, "--format", "json", *options)
    assert outcome.code == 1, outcome
    return outcome.json


def counter_runs(lab):
    """Those of counter-tests, which only who names their suites is given."""
    with find_store(f"sqlite:///{lab.gate.store}") as store:
        plans = [ExperimentPlan.from_document(each.plan) for each in store.experiments()]
        return [run for plan in plans if plan.counter_test for run in find_plan_runs(plan, store)]


def first_tests(result):
    return [one["observed"][0]["counter_test"] for one in result["explanations"]]


def test_the_flag_that_restores_the_old_speed_is_measured(lab):
    lab.behave({"0.19.1": SLOW_BACKEND}, usual=STEADY)
    result = compared(lab, "--attribute")
    assert all(one["measured"] for one in result["explanations"])
    for test in first_tests(result):
        assert test["outcome"] == "restores"
        for series in test["measured"]:
            assert series["from_baseline"]["verdict"] in ("within_margin", "improvement")
            assert series["to_candidate"]["verdict"] == "regression"
            assert series["to_candidate"]["runs"] >= 2
            low, high = series["to_candidate"]["interval"]
            assert low < series["to_candidate"]["change"] < high


def test_a_change_that_is_not_the_cause_does_not_restore(lab):
    lab.behave({"0.19.1": INNOCENT_BACKEND}, usual=STEADY)
    result = compared(lab, "--attribute")
    assert not any(one["measured"] for one in result["explanations"])
    assert {test["outcome"] for test in first_tests(result)} == {"does_not_restore"}


def test_a_smaller_cache_given_to_the_baseline_reproduces_the_loss(lab):
    lab.behave({"0.19.1": ["--kv-cache-tokens=4800"]}, usual=STEADY)
    result = compared(lab, "--attribute")
    (outcome,) = {test["outcome"] for test in first_tests(result) if test["side"] == "baseline"}
    assert outcome == "restores"


def test_a_server_that_does_not_start_with_the_flag_confirms_nothing(lab):
    lab.behave({"0.19.1": [*SLOW_BACKEND, "--reject-arg=moe_backend"]}, usual=STEADY)
    result = compared(lab, "--attribute")
    assert not any(one["measured"] for one in result["explanations"])
    (test, *_) = first_tests(result)
    assert test["outcome"] == "failed"
    assert "moe" in test["outcome_text"]
    assert result["failed_runs"] == []


def test_runs_of_a_counter_test_enter_no_other_comparison_of_the_versions(lab):
    lab.behave({"0.19.1": SLOW_BACKEND}, usual=STEADY)
    result = compared(lab, "--attribute")
    assert counter_runs(lab)
    again = lab("compare", "0.19.0", "0.19.1", "--format", "json").json
    for key in ("decision", "exit_code", "reasons", "series", "baseline", "candidate"):
        assert again[key] == result[key]
    assert "more than one way" not in lab.gate("compare", "0.19.0", "0.19.1").err  # without --suite: there is one
    assert "counter" not in lab.gate("baseline", "list").out
    assert {run.suite.version for run in lab.runs()} == {"1"}


def test_a_stored_counter_test_is_not_measured_again(lab):
    lab.behave({"0.19.1": SLOW_BACKEND}, usual=STEADY)
    first = compared(lab, "--attribute")
    outcome = lab(*COMPARE, "--format", "json", "--attribute")
    assert "runs are stored; nothing was measured" in outcome.err
    assert outcome.json["explanations"] == first["explanations"]


def test_a_killed_counter_test_goes_on_with_what_it_lacks(lab):
    lab.behave({"0.19.1": SLOW_BACKEND}, usual=STEADY)
    with lab.start(*COMPARE, "--attribute") as process:
        read_until(process, "block 1, counter-test")
        process.kill()
    before = counter_runs(lab)
    assert [run.place.side for run in before] == ["counter_test"]
    result = compared(lab, "--attribute", "--resume")
    assert {test["outcome"] for test in first_tests(result)} == {"restores"}
    after = counter_runs(lab)
    assert {run.id for run in before} < {run.id for run in after}
    places = [(run.place.experiment, run.place.block, run.place.side) for run in after]
    assert len(set(places)) == len(places)
    assert len({experiment for experiment, _, _ in places}) == 1


@pytest.fixture
def installed(lab, monkeypatch):
    """Versions with another torch each, of which `fails` says whether one can be installed in another."""
    lab.behave({"0.19.1": ["--ttft=0.04"]}, usual=STEADY)
    variables = write_behaviour(lab.gate.directory, {"0.19.0": STEADY, "0.19.1": [*STEADY, "--ttft=0.04"]})

    def install(fails):
        class Installed(FakeProvisioner):
            def __init__(self, packages):
                super().__init__(variables)
                self.packages = packages or {}

            def provision(self, version, *, progress=None):
                if self.packages and str(version) in fails:
                    raise InputError(f"{version} cannot be installed with {self.packages}")
                environment = super().provision(version, progress=progress)
                built = {"torch": "2.9.1" if str(version) == "0.19.0" else "2.10.0"}
                environment.libraries = {**built, **self.packages}
                return environment

        monkeypatch.setattr(experiment, "make_provisioner", lambda *_, packages=None, **__: Installed(packages))
        given = ("--runs", 3, "--suite", lab.suite, "--testbed", "lab", "--format", "json")
        result = lab.gate("compare", "0.19.0", "0.19.1", "--measure", "--attribute", *given).json
        return next(cause for one in result["explanations"] for cause in one["observed"] if cause["counter_test"])

    return install


def test_a_dependency_is_tested_in_an_environment_that_has_the_old_one(lab, installed):
    tested = installed(fails=())["counter_test"]
    assert (tested["packages"], tested["outcome"]) == ({"torch": "2.9.1"}, "does_not_restore")
    found = {(run.place.side, run.libraries["torch"]) for run in counter_runs(lab)}
    assert found == {("baseline", "2.9.1"), ("candidate", "2.10.0"), ("counter_test", "2.9.1")}


def test_where_the_candidate_does_not_run_with_the_old_dependency_the_baseline_has_the_new_one(lab, installed):
    cause = installed(fails=("0.19.1",))
    tested = cause["counter_test"]
    assert (tested["side"], tested["text"], tested["outcome"]) == (
        "baseline",
        "0.19.0 with torch 2.10.0",
        "does_not_restore",
    )
    assert cause["evidence"][-1].startswith("0.19.1 with torch 2.9.1 could not be measured: ")
    found = {(run.place.side, run.libraries["torch"]) for run in counter_runs(lab)}
    assert found == {("baseline", "2.9.1"), ("candidate", "2.10.0"), ("counter_test", "2.10.0")}


def test_a_dependency_that_neither_version_runs_with_confirms_nothing(installed):
    tested = installed(fails=("0.19.0", "0.19.1"))["counter_test"]
    assert (tested["side"], tested["outcome"]) == ("baseline", "failed")


def test_a_counter_test_that_the_budget_has_no_time_for_is_not_begun(lab, monkeypatch):
    lab.behave({"0.19.1": SLOW_BACKEND}, usual=STEADY)
    assert lab(*COMPARE).code == 1
    monkeypatch.setattr(attribution, "time", SimpleNamespace(monotonic=count(step=3600).__next__))
    outcome = lab(*COMPARE, "--attribute", "--budget", "5m", "--format", "json")
    assert outcome.code == 1
    assert "the budget has no time for a block" in outcome.err
    assert {test["outcome"] for test in first_tests(outcome.json)} == {None}
    assert counter_runs(lab) == []


def test_equal_versions_have_nothing_to_attribute(lab):
    lab.behave({}, usual=STEADY)
    outcome = lab(*COMPARE, "--attribute")
    assert outcome.code == 0, outcome
    assert "nothing to measure" in outcome.err


def test_the_plan_says_how_many_more_starts_it_may_take(lab):
    outcome = lab("compare", "0.19.0", "0.19.1", "--plan", "--runs", 3, "--attribute")
    assert "at most 9 server starts for each counter-test" in outcome.out
    plan = lab("compare", "0.19.0", "0.19.1", "--plan", "--runs", 3, "--attribute", "--format", "json").json["plan"]
    assert (plan["counter_test_starts"], plan["most_counter_tests"]) == (9, 4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--attribute is for measuring"),
        (("--measure", "--url", "http://127.0.0.1:1", "--url", "http://127.0.0.1:2"), "those of --url run already"),
    ],
)
def test_without_servers_of_its_own_it_says_so_in_one_line(lab, options, said):
    outcome = lab("compare", "0.19.0", "0.19.1", "--attribute", *options)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.count("\n") == 1
