"""How often a comparison over several hosts is wrong, and what it finds, with the gate itself on made-up fleets: levels
of hosts scatter by 5 to 10 %, servers of a block by 2 to 3 %. benchmarks/fleet_decisions.py prints a table."""

import numpy as np
import pytest

from regress_gate.gate.host_effects import class_status
from regress_gate.model.policy import Policy
from regress_gate.model.suite import ConditionLimits
from tests.factories.fleets import CHANGE, LEVEL, decided, draw, named, nights, stopped
from tests.stats.simulation import simulated


@simulated("number", quick=25, full=1000)
@pytest.mark.parametrize(("host_cv", "noise"), [(0.05, 0.02), (0.10, 0.03)])
def test_hosts_that_differ_make_no_false_fails(number: int, host_cv: float, noise: float) -> None:
    found = decided(draw(number, (2, 2, 2), host_cv=host_cv, noise=noise))
    assert found["fail"] <= 0.05 * number + 2 * np.sqrt(0.05 * number)


@simulated("number", quick=25, full=1000)
def test_three_hosts_with_two_blocks_show_what_one_with_six_shows(number: int) -> None:
    several, single = (decided(draw(number, blocks, loss=0.055))["fail"] for blocks in ((2, 2, 2), (6,)))
    assert abs(several - single) <= 3 * np.sqrt(2 * 0.25 * number)


@simulated("number", quick=10, full=500)
def test_looks_are_valid_in_whatever_order_the_hosts_finish(number: int) -> None:
    for order in ((1, 2, 3, 4, 5, 6), (1, 3, 5, 2, 4, 6)):
        found = stopped(number, order, 3, 6)
        assert found["fail"] <= 0.05 * number + 2 * np.sqrt(0.05 * number)


@simulated("number", quick=25, full=1000)
def test_a_host_with_another_change_is_found_and_no_other_is_named(number: int) -> None:
    found, wrong = named(draw(number, (3, 3, 3), odd=0.15), CHANGE)
    assert found >= 0.9 * number - 2
    assert wrong <= 0.06 * number + 2 * np.sqrt(0.06 * number)


@simulated("number", quick=25, full=1000)
def test_of_equal_hosts_hardly_any_is_named(number: int) -> None:
    results = draw(number, (2,) * 6)
    for words in (CHANGE, LEVEL):
        assert sum(named(results, words)) <= 0.05 * number + 2 * np.sqrt(0.05 * number)


@simulated("number", quick=25, full=1000)
def test_a_host_far_from_the_others_is_found_among_eight_and_not_among_three(number: int) -> None:
    assert named(draw(number, (2,) * 8, odd_level=0.5), LEVEL)[0] >= 0.8 * number - 2
    assert named(draw(number, (2,) * 3, odd_level=0.5), LEVEL)[0] <= 0.25 * number + 2


def stepped(number: int, **given: float) -> list[int]:
    """By host, in how many of so many stores with 24 nights it is said to have stepped away from the others."""
    stores = [class_status(nights(seed, 24, **given), ConditionLimits(), Policy()) for seed in range(number)]
    return [sum(bool(hosts[at].steps) for hosts in stores) for at in range(3)]


@simulated("number", quick=4, full=60)
def test_a_host_that_becomes_slower_is_named_and_no_other(number: int) -> None:
    assert sum(stepped(number)) <= 0.05 * number + 1
    own, *others = stepped(number, size=0.06, since=16)
    assert own >= 0.9 * number - 1
    assert sum(others) <= 0.05 * number + 1
