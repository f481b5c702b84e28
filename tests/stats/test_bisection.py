"""Where a step lies, and which run comes next: exact cases, properties, and (marked slow) the promises."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.stats.bisection import (
    BLOCK_RUNS,
    MOST_END_RUNS,
    Conclusion,
    Goal,
    NextRun,
    Observation,
    VariancePrior,
    choose_failing_run,
    choose_run,
    compare_ends,
    find_two_steps,
    locate_failure,
    locate_step,
    most_likely_pair,
    next_block,
)
from regress_gate.stats.search_length import SearchCase, SearchEnd
from tests.factories.scripts import load_script

QUIET = VariancePrior(variance=1e-4, freedom=20.0)
"""Noise of one per cent."""


def ends(count: int, *, step: float = 0.1, runs: int = 4) -> list[Observation]:
    """Blocks of both ends, as `compare` leaves them; the noise alternates."""
    return [
        Observation(position, side * step + 0.005 * (-1) ** block, block)
        for block in range(1, runs + 1)
        for side, position in enumerate((0, count - 1))
    ]


def test_the_posterior_is_the_formula_where_blocks_have_no_effect():
    """One run a block: block effects only add to the noise, so that all ratios give the same shape."""
    values = {0: (0.0, 0.1, -0.1), 1: (0.05,), 2: (1.1,), 3: (1.0, 0.9)}
    held = [
        Observation(place, value, block)
        for block, (place, value) in enumerate((place, value) for place, several in values.items() for value in several)
    ]
    prior = VariancePrior(0.01, 5.0)
    expected = []
    for change in range(3):
        good = [v for place, several in values.items() for v in several if place <= change]
        bad = [v for place, several in values.items() for v in several if place > change]
        rss = sum((v - np.mean(side)) ** 2 for side in (good, bad) for v in side)
        freedom = 5.0 + len(held) - 2
        expected.append(-0.5 * math.log(len(good) * len(bad)) - freedom / 2 * math.log(5.0 * 0.01 + rss))
    posterior = locate_step(held, 4, prior=prior)
    ratios = np.log(posterior.probabilities) - np.log(posterior.probabilities[1])
    # The prior's variance does not scale with the blocks' ratio: the shape moves a little.
    assert ratios == pytest.approx(np.array(expected) - expected[1], rel=0.25)
    assert posterior.step == pytest.approx(0.98, abs=0.03)


def test_places_between_two_measured_versions_are_as_likely():
    held = [*ends(9), Observation(4, 0.1, 5)]
    probabilities = locate_step(held, 9, prior=QUIET).probabilities
    assert probabilities.sum() == pytest.approx(1.0)
    assert np.ptp(probabilities[:4]) == 0
    assert np.ptp(probabilities[4:]) == 0
    assert probabilities[:4].sum() > 0.99


def test_the_prior_over_places_counts():
    log_prior = np.log([0.1, 0.7, 0.1, 0.1])
    probabilities = locate_step(ends(5), 5, prior=QUIET, log_prior=log_prior).probabilities
    assert probabilities == pytest.approx([0.1, 0.7, 0.1, 0.1])


def test_the_window_is_the_shortest_that_holds_the_step():
    posterior = locate_step([*ends(9), Observation(4, 0.1, 5), Observation(2, 0.0, 5)], 9, prior=QUIET)
    assert posterior.window() == (2, 4)


def test_both_ends_are_needed():
    with pytest.raises(ValueError, match="both ends"):
        locate_step([Observation(0, 0.0, 1), Observation(1, 1.0, 1)], 5)


def test_a_drifting_machine_is_seen_through():
    """Each block is shifted by more than the step; beside its own reference, every probe is clear."""
    shifts = [0.0, 0.6, -0.5, 0.4, -0.3]
    held = [
        Observation(place, (0.1 if place > 5 else 0.0) + shift + 0.003 * (-1) ** (place + block), block)
        for block, shift in enumerate(shifts)
        for place in (0, 10, (3, 4, 5, 6, 7)[block])
    ]
    posterior = locate_step(held, 11, prior=QUIET)
    assert most_likely_pair(posterior, np.arange(11))[:2] == (5, 6)
    assert posterior.probabilities[5] > 0.9


def test_the_first_runs_are_of_the_ends_in_one_block():
    first = choose_run([], 10)
    assert first == NextRun(0, Goal.ENDS)
    held = [Observation(0, 0.0, next_block([], 0, 10))]
    assert choose_run(held, 10) == NextRun(9, Goal.ENDS)
    assert next_block(held, 9, 10) == 1
    held.append(Observation(9, 0.1, 1))
    assert next_block(held, 0, 10) == 2


def test_the_middle_is_probed_and_the_range_narrows_to_the_step():
    held, count, change = ends(101), 101, 37
    goals = []
    while isinstance(choice := choose_run(held, count, prior=QUIET), NextRun):
        goals.append(choice.goal)
        value = (0.1 if choice.position > change else 0.0) + 0.004 * (-1) ** len(held)
        held.append(Observation(choice.position, value, next_block(held, choice.position, count)))
        assert len(goals) < 40
    assert choice is Conclusion.FOUND
    assert most_likely_pair(locate_step(held, count, prior=QUIET), np.arange(count))[:2] == (37, 38)
    assert goals[0] is Goal.PROBE
    assert goals.count(Goal.CONFIRM) >= 1
    assert all(sum(entry.position == place for entry in held) >= 2 for place in (37, 38))


def test_no_block_is_longer_than_a_reference_is_near():
    held = [*ends(1001), *(Observation(500 + place, 0.1, 5) for place in range(BLOCK_RUNS - 1)), Observation(0, 0.0, 5)]
    choice = choose_run(held, 1001, prior=QUIET)
    assert isinstance(choice, NextRun)
    assert choice.position in (0, 1000)


def test_after_a_long_pause_an_end_is_measured_again():
    choice = choose_run(ends(50), 50, prior=QUIET, block_open=False)
    assert choice == NextRun(0, Goal.PIN)


def test_versions_that_cannot_be_tested_are_merged():
    held, count, change = ends(9), 9, 4
    while isinstance(choice := choose_run(held, count, prior=QUIET, testable=lambda place: place in (2, 6)), NextRun):
        assert choice.position in (0, 2, 6, 8)
        value = (0.1 if choice.position > change else 0.0) + 0.004 * (-1) ** len(held)
        held.append(Observation(choice.position, value, next_block(held, choice.position, count)))
    assert choice is Conclusion.FOUND
    low, high, mass = most_likely_pair(locate_step(held, count, prior=QUIET), np.array([0, 2, 6, 8]))
    assert (low, high) == (2, 6)
    assert mass > 0.95


def test_neighbours_need_no_probe():
    assert choose_run(ends(2), 2, prior=QUIET) is Conclusion.FOUND


def test_ends_that_do_not_differ_are_measured_again_and_then_given_up():
    held, count = [], 30
    while isinstance(choice := choose_run(held, count, prior=QUIET), NextRun):
        held.append(
            Observation(choice.position, 0.01 * (-1) ** (len(held) // 2), next_block(held, choice.position, count))
        )
        assert len(held) < 40
    assert choice is Conclusion.NO_STEP
    assert sum(entry.position == 0 for entry in held) == MOST_END_RUNS
    assert {entry.position for entry in held} - {0, 29}, "two steps that cancel are looked for inside"


def test_two_steps_that_cancel_are_said():
    held, count = [], 30
    while isinstance(choice := choose_run(held, count, prior=QUIET), NextRun):
        value = (0.2 if 8 < choice.position < 22 else 0.0) + 0.005 * (-1) ** len(held)
        held.append(Observation(choice.position, value, next_block(held, choice.position, count)))
        assert len(held) < 40
    assert choice is Conclusion.TWO_STEPS
    found = find_two_steps(held, QUIET)
    assert found is not None
    assert found.places[0] < 9 <= found.places[1]
    assert found.changes == pytest.approx((0.2, -0.2), abs=0.01)


def test_two_steps_in_one_direction_are_said():
    probes = [Observation(place, 0.15, 5) for place in (8, 9, 10, 11)]
    held = [*ends(20, step=0.3), Observation(0, 0.002, 5), *probes]
    assert find_two_steps(held, QUIET) is not None
    while isinstance(choice := choose_run(held, 20, prior=QUIET), NextRun):
        value = 0.15 * ((choice.position > 5) + (choice.position > 14)) + 0.003 * (-1) ** len(held)
        held.append(Observation(choice.position, value, next_block(held, choice.position, 20)))
    assert choice is Conclusion.TWO_STEPS


def test_a_step_that_is_small_beside_the_other_one_does_not_hide_it():
    """As peak memory of real builds: 3.00 GB, 3.82 and then 3.91, each start within a thousandth of the others."""
    held, levels = [], (0.0, 0.0, 0.242, 0.265, 0.265)
    while isinstance(choice := choose_run(held, len(levels)), NextRun):
        value = levels[choice.position] + 0.001 * (-1) ** len(held)
        held.append(Observation(choice.position, value, next_block(held, choice.position, len(levels))))
        assert len(held) < 20
    assert choice is Conclusion.FOUND
    assert np.argmax(locate_step(held, len(levels)).probabilities) == 1
    beside = find_two_steps(held)
    assert beside is not None
    assert not beside.are_comparable
    assert (beside.places, beside.smaller) == ((1, 2), 1)


def test_ends_that_were_never_measured_beside_each_other_are_before_anything_is_concluded():
    """Peak memory of real builds, in GB: it rose with the second build, and is nearly gone in the last, whose runs
    stand alone: a machine that changed its state would look like that."""
    held = [
        Observation(position, math.log(value), block)
        for position, value, block in (
            (0, 3.0031, 1), (3, 3.9178, 1), (0, 3.0024, 2), (3, 3.9091, 2), (2, 3.9349, 2), (0, 2.9961, 3),
            (1, 3.8075, 3), (1, 3.8321, 3), (5, 3.1447, 4), (5, 3.1456, 5),
        )
    ]  # fmt: skip
    choice = choose_run(held, 6)
    assert choice == NextRun(0, Goal.ENDS)
    levels = (3.000, 3.820, 3.935, 3.913, 3.150, 3.145)
    while isinstance(choice, NextRun):
        value = math.log(levels[choice.position]) + 0.001 * (-1) ** len(held)
        held.append(Observation(choice.position, value, next_block(held, choice.position, 6)))
        choice = choose_run(held, 6)
        assert len(held) < 20
    assert held[10].block == 5
    assert choice is Conclusion.TWO_STEPS


def test_the_ends_say_how_much_they_differ_and_how_sure_that_is():
    found = compare_ends(ends(5), 5, QUIET)
    assert found is not None
    assert found.difference == pytest.approx(0.1, abs=1e-6)
    assert found.interval[0] < 0.1 < found.interval[1]
    assert found.p_value < 1e-4
    assert found.runs == (4, 4)
    assert compare_ends([Observation(0, 1.0, 1)], 5) is None


def test_values_that_repeat_exactly_are_no_division_by_zero():
    held = [Observation(place, float(place > 0), block) for block in (1, 2) for place in (0, 4)]
    choice = choose_run(held, 5)
    assert isinstance(choice, NextRun)
    assert choice.position == 2


def test_a_crash_is_repeated_once_and_then_halves():
    """The good end serves, the bad end crashes twice; every probe that crashes is tried again."""
    outcomes, count, change = [], 33, 20
    while isinstance(choice := choose_failing_run(outcomes, count), NextRun):
        outcomes.append((choice.position, choice.position > change))
        assert len(outcomes) < 30
    assert choice is Conclusion.FOUND
    posterior = locate_failure(outcomes, count)
    assert most_likely_pair(posterior, np.arange(count))[:2] == (20, 21)
    failed = [position for position, has_failed in outcomes if has_failed]
    assert all(failed.count(position) >= 2 for position in failed)


def test_a_bad_end_that_serves_again_is_no_crash_to_be_found():
    outcomes = []
    while isinstance(choice := choose_failing_run(outcomes, 9), NextRun):
        outcomes.append((choice.position, False))
    assert choice is Conclusion.NO_STEP
    assert len(outcomes) < 10


@given(st.integers(2, 40), st.lists(st.tuples(st.integers(0, 39), st.floats(-10, 10)), max_size=30))
def test_a_posterior_is_always_one(count, probes):
    held = [Observation(min(place, count - 1), value, index // 3) for index, (place, value) in enumerate(probes)]
    held += [Observation(0, 0.0, 99), Observation(count - 1, 1.0, 99)]
    posterior = locate_step(held, count)
    assert posterior.probabilities.sum() == pytest.approx(1.0)
    assert (posterior.probabilities >= 0).all()
    low, high = posterior.window()
    assert 0 <= low < high < count


@pytest.fixture(scope="module")
def simulation():
    """benchmarks/bisect_search.py as a module."""
    return load_script("benchmarks/bisect_search.py")


@pytest.mark.slow
class TestPromises:
    """By simulation; benchmarks/bisect_search.py has the table. Bounds leave room for the luck of 300 searches."""

    def test_the_commit_of_411_is_found_in_twenty_runs(self, simulation):
        found = simulation.search_many(SearchCase(412, 2.5), 300, 1, 1)
        assert np.mean([each.runs for each in found]) <= 20.8
        assert simulation.right_share(found) >= 0.955

    @pytest.mark.parametrize(("commits", "step"), [(64, 1.7), (350, 2.0), (411, 2.5), (350, 3.0), (411, 4.0)])
    def test_of_those_that_are_located_the_promised_share_is_right(self, simulation, commits, step):
        found = simulation.search_many(SearchCase(commits + 1, step), 150, 1000, 1)
        assert simulation.coverage(found) >= 0.92

    def test_where_there_is_no_step_that_is_said(self, simulation):
        found = simulation.search_many(SearchCase(412, 0.0), 200, 1, 1)
        assert sum(each.end is SearchEnd.NO_STEP for each in found) >= 0.93 * len(found)
