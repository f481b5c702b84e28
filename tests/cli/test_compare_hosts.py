"""`compare` over several testbeds of one class, by names or by a pattern, from a store."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from regress_gate.store.repository import open_store
from tests.cli.test_compare import SCHEMA
from tests.factories.fleets import NEW, OLD, host_runs


def stored(gate, runs):
    """Adds the runs to the user's store, each trial from a file of its own."""
    own = []
    for run in runs:
        trials = [
            replace(
                trial,
                source=replace(
                    trial.source,
                    sha256=sha256(f"{run.testbed.name}{run.label}{trial.scenario}{trial.metrics}".encode()).hexdigest(),
                ),
            )
            for trial in run.trials
        ]
        own.append(replace(run, trials=tuple(trials)))
    with open_store(f"sqlite:///{gate.store}", create=True) as store:
        store.add_runs(own)


@pytest.fixture
def fleet(gate):
    """Two blocks on each of h0, h1 and h2, which are of one class: the candidate is 9 % slower."""
    stored(gate, host_runs(np.random.default_rng(5), (2, 2, 2), loss=0.09))
    return gate


def test_hosts_of_one_class_are_one_comparison(fleet):
    for names in (["--testbed", "h*"], ["--testbed", "h0", "--testbed", "h1", "--testbed", "h2"]):
        found = fleet("compare", OLD, NEW, *names, "--format", "json")
        SCHEMA.validate(found.json)
        assert (found.code, found.json["decision"]) == (1, "fail")
        assert [(host["name"], host["blocks"]) for host in found.json["hosts"]] == [("h0", 2), ("h1", 2), ("h2", 2)]
        assert found.json["baseline"]["runs"] == 6
        assert found.json["plan"]["paired"]
        assert found.json["testbed"]["name"] == "h0, h1, h2"


def test_the_report_has_a_line_for_each_host(fleet, snapshot):
    shown = fleet("compare", OLD, NEW, "--testbed", "h?")
    assert "testbed h0, h1, h2; 6 runs a side" in shown.out
    assert shown.out[shown.out.index("Hosts\n") : shown.out.index("Causes of")] == snapshot


def test_one_of_them_is_compared_as_ever(fleet):
    found = fleet("compare", OLD, NEW, "--testbed", "h1", "--format", "json").json
    assert (found["hosts"], found["baseline"]["runs"], found["testbed"]["name"]) == ([], 2, "h1")


def test_none_is_chosen_without_being_asked_for(fleet):
    refused = fleet("compare", OLD, NEW)
    assert refused.code == 2
    assert "can be compared in more than one way" in refused.err


def test_the_configuration_and_the_environment_may_name_several(fleet, tmp_path, monkeypatch):
    config = tmp_path / "fleet.toml"
    config.write_text('[defaults]\ntestbed = ["h0", "h[12]"]\n')
    shown = fleet("compare", OLD, NEW, "--config", config, "--format", "json")
    assert len(shown.json["hosts"]) == 3
    assert "defaults.testbed = h0, h[12]" in fleet("config", "show", "--config", config).out
    monkeypatch.setenv("REGRESS_GATE_TESTBED", "h*")
    assert len(fleet("compare", OLD, NEW, "--format", "json").json["hosts"]) == 3


def test_a_command_for_one_testbed_refuses_several(fleet):
    refused = fleet("history", "--testbed", "h*")
    assert refused.code == 2
    assert refused.error == (
        "--testbed: one testbed is wanted here, not h*; "
        "give one with --testbed; `compare` and `fleet status` take several"
    )


def test_hosts_of_another_class_are_refused_with_what_differs(fleet):
    more = host_runs(np.random.default_rng(6), (2,), facts=[{"cpu_count": 64}])
    stored(fleet, [replace(run, testbed=replace(run.testbed, name="h9")) for run in more])
    refused = fleet("compare", OLD, NEW, "--testbed", "h*")
    assert refused.code == 2
    assert "h0 and h9 are not of one class: cpu_count is 16 and 64" in refused.error
    forced = fleet("compare", OLD, NEW, "--testbed", "h*", "--allow-incomparable", "--format", "json").json
    assert not forced["testbed"]["comparable"]
    assert len(forced["hosts"]) == 4


def test_versions_that_were_never_on_one_host_are_no_pair(gate):
    runs = host_runs(np.random.default_rng(5), (2, 2))
    stored(gate, [run for run in runs if (str(run.version) == OLD) == (run.testbed.name == "h0")])
    refused = gate("compare", OLD, NEW, "--testbed", "h*")
    assert (refused.code, refused.out) == (2, "")
    assert f"{OLD} and {NEW} were not both measured on any of h*" in refused.error


def test_a_host_with_one_version_only_is_left_out_and_named(gate):
    runs = host_runs(np.random.default_rng(5), (2, 2, 2))
    stored(gate, [run for run in runs if run.testbed.name != "h2" or str(run.version) == OLD])
    found = gate("compare", OLD, NEW, "--testbed", "h*", "--format", "json").json
    assert [host["name"] for host in found["hosts"]] == ["h0", "h1"]
    assert "left out, with runs of one version only: h2" in found["warnings"]


def test_it_is_kept_with_each_of_the_hosts(fleet):
    fleet("compare", OLD, NEW, "--testbed", "h*", "-q")
    with open_store(f"sqlite:///{fleet.store}", create=False) as store:
        kept = {one.testbed: one for one in store.comparisons()}
        assert sorted(kept) == ["h0", "h1", "h2"]
        assert len(store.comparison_document(kept["h1"].id)["hosts"]) == 3
