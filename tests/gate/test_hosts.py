"""Comparisons over several hosts of one class: what is paired, what is refused, and what is said of each host."""

from dataclasses import replace

import numpy as np
import pytest

from regress_gate.errors import InputError
from regress_gate.gate.comparison_choice import check_one_class
from regress_gate.gate.replicates import make_replicates, pair_runs
from regress_gate.model.policy import Policy
from regress_gate.model.result import Decision, ReasonCode
from regress_gate.model.testbed import is_wanted_testbed
from regress_gate.stats.estimate import estimate_level
from regress_gate.stats.hosts import find_deviating, find_outlying, host_means
from tests.factories.fleets import NEW, OLD, fleet_sides, host_runs
from tests.factories.runs import TESTBED, make_run, make_side_of
from tests.gate.deciding import decide_sides

SEED = 7


def rng():
    return np.random.default_rng(SEED)


def on(name, **facts):
    return replace(TESTBED, name=name, **facts)


class TestPairs:
    def test_a_block_is_of_one_host_even_if_two_have_its_number(self):
        runs = host_runs(rng(), (1, 1))
        old = [replace(run, place=replace(run.place, block=1)) for run in runs if str(run.version) == OLD]
        new = [replace(run, place=replace(run.place, block=1)) for run in runs if str(run.version) == NEW]
        assert pair_runs(old[:1], new[1:]).blocks == 0
        pairing = pair_runs(old, new)
        rows = make_replicates(pairing.baseline, pairing.candidate, paired=True)
        assert (pairing.blocks, list(rows.baseline)) == (2, [("e", 1, "h0"), ("e", 1, "h1")])

    def test_hosts_without_a_shared_block_are_not_compared(self):
        sides = [
            make_side_of(version, *(make_run(name, version, testbed=on(name)) for name in ("h0", "h1")))
            for version in (OLD, NEW)
        ]
        result = decide_sides(*sides, policy=Policy())
        assert (result.decision, result.reasons[0].code) == (Decision.INCONCLUSIVE, ReasonCode.INCOMPARABLE)
        assert "of several hosts and of no block that both versions share" in result.reasons[0].text
        forced = decide_sides(*sides, policy=Policy(), allow_incomparable=True)
        assert forced.series
        assert any("--allow-incomparable" in warning for warning in forced.warnings)

    def test_the_level_of_a_host_does_not_change_the_decision(self):
        quiet, loud = (
            decide_sides(*fleet_sides(rng(), (3, 3), host_cv=host_cv), policy=Policy()) for host_cv in (0.0, 0.3)
        )
        assert [one.change for one in quiet.series] == pytest.approx([one.change for one in loud.series])
        assert [one.interval for one in quiet.series] == [pytest.approx(one.interval) for one in loud.series]
        assert quiet.decision == loud.decision


class TestClass:
    def test_hosts_are_of_one_class_if_their_hardware_is_known_and_the_same(self):
        check_one_class([on("h0"), on("h1", driver="560.1"), on("h0")])
        with pytest.raises(InputError, match="h0 and h2 are not of one class: cpu_count is 16 and 32"):
            check_one_class([on("h0"), on("h1"), on("h2", cpu_count=32, memory_bytes=1)])
        with pytest.raises(InputError, match="accelerator is H200 and unknown"):
            check_one_class([on("h0"), on("h1", accelerator=None)])

    def test_a_name_a_pattern_or_several_say_which_testbeds(self):
        wanted = [is_wanted_testbed("h100-2", given) for given in ((), ("h100-2",), ("h100-*",), ("a", "h100-?"))]
        assert wanted == [True] * 4
        assert is_wanted_testbed("a[1]", ("a[1]",))
        assert not is_wanted_testbed("h200-1", ("h100-*", "lab"))


class TestHosts:
    def test_each_has_its_blocks_its_level_and_its_change(self):
        result = decide_sides(*fleet_sides(rng(), (3, 3, 2), loss=0.02, host_cv=0.08), policy=Policy())
        assert [(host.name, host.blocks, host.notes) for host in result.hosts] == [
            ("h0", 3, []),
            ("h1", 3, []),
            ("h2", 2, []),
        ]
        assert np.mean([np.log1p(host.level) for host in result.hosts]) == pytest.approx(0, abs=1e-9)
        for host in result.hosts:
            assert host.level_interval[0] < host.level < host.level_interval[1]
            assert host.change_interval[0] < host.change < host.change_interval[1]
        assert result.testbed.name == "h0, h1, h2"
        assert {run.testbed for run in result.runs} == {"h0", "h1", "h2"}

    def test_one_that_changes_differently_is_named_in_its_notes_and_the_warnings(self):
        result = decide_sides(*fleet_sides(rng(), (4, 4, 4), odd=0.2), policy=Policy())
        (note,) = result.hosts[0].notes
        assert note.startswith(
            "differs from the other hosts by more than chance allows: its change over all series is 2"
        )
        assert f"h0 {note}" in result.warnings
        assert not any(host.notes for host in result.hosts[1:])

    def test_with_one_block_each_nothing_is_said_of_a_spread(self):
        hosts = decide_sides(*fleet_sides(rng(), (1, 1, 1), odd=0.5), policy=Policy()).hosts
        assert [(host.blocks, host.level_interval, host.change_interval) for host in hosts] == [(1, None, None)] * 3
        assert not any(host.notes for host in hosts)

    def test_what_differs_besides_the_hardware_is_a_warning(self):
        facts = [{"driver": "550"}, {"driver": "550"}, {"driver": "560"}]
        result = decide_sides(*fleet_sides(rng(), (2, 2, 2), facts=facts), policy=Policy())
        assert "driver is not the same on all hosts: 550 on h0, h1; 560 on h2" in result.warnings
        assert result.testbed.comparable
        assert result.testbed.differences == []

    def test_one_testbed_has_none(self):
        result = decide_sides(*fleet_sides(rng(), (4,)), policy=Policy())
        assert result.hosts == []
        assert {run.testbed for run in result.runs} == {None}


class TestStatistics:
    def test_one_that_is_far_off_does_not_make_the_others_odd(self):
        hosts = np.repeat(np.arange(4), 3)
        scores = np.where(hosts == 2, 1.0, 0.0) + np.tile([-0.01, 0.0, 0.01], 4)
        found = find_deviating(host_means(scores[:, None], hosts, np.array([1e-6])), 0.05)
        assert [one.host for one in found] == [2]
        assert found[0].difference == pytest.approx(1.0)

    def test_of_two_that_differ_both_are_named(self):
        hosts = np.repeat(np.arange(2), 3)
        scores = hosts + np.tile([-0.01, 0.0, 0.01], 2)
        assert [one.host for one in find_deviating(host_means(scores[:, None], hosts, np.array([1e-6])), 0.05)] == [
            0,
            1,
        ]

    def test_a_level_is_odd_only_beyond_what_the_others_differ_by(self):
        assert find_outlying([0.0, 0.05, -0.05, 0.03, -0.02, 0.01, 0.9], 0.05) == [6]
        assert find_outlying([0.0, 0.05, -0.05, 0.03, -0.02, 0.01, 0.1], 0.05) == []
        assert find_outlying([0.0, 1.0], 0.05) == []

    def test_the_level_of_a_fleet_has_the_host_for_its_unit(self):
        values = np.array([0.10, 0.101, 0.099, 0.12, 0.121, 0.119, 0.09, 0.091, 0.089])
        hosts = ["a"] * 3 + ["b"] * 3 + ["c"] * 3
        pooled = estimate_level(values, confidence=0.9, alike=[values])
        fleet = estimate_level(values, confidence=0.9, alike=[values], hosts=hosts)
        alone = estimate_level(np.exp(np.log(values).reshape(3, 3).mean(axis=1)), confidence=0.9)
        assert fleet.interval == pytest.approx(alone.interval)
        assert fleet.runs == 9
        assert fleet.interval[1] - fleet.interval[0] > 2 * (pooled.interval[1] - pooled.interval[0])

    def test_a_share_of_a_fleet_has_it_too(self):
        values = np.array([0.99, 0.98, 0.90, 0.91])
        fleet = estimate_level(values, confidence=0.9, requests=200, hosts=["a", "a", "b", "b"])
        pooled = estimate_level(values, confidence=0.9, requests=200)
        assert fleet.interval[0] < pooled.interval[0]
        assert fleet.runs == 4
