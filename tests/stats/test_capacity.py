"""Where a curve keeps its promise, and the loss of capacity over server starts: exact cases, properties, promises."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regress_gate.stats.capacity import Capacity, capacity_loss, find_capacity, is_cliff
from tests.factories.scripts import load_script

LOADS = (10.0, 12.0, 14.0, 16.0)

shares = st.floats(0, 1)
curves = st.lists(shares, min_size=3, max_size=5)
crossings = st.lists(st.floats(5, 50).map(Capacity), min_size=3, max_size=8)
servers = st.builds(
    Capacity, st.floats(5, 50), st.sampled_from(["crossing", "crossing", "crossing", "at_least", "below"])
)


def capacity(*attainment, loads=LOADS, promise=0.95, requests=1000):
    return find_capacity(loads, attainment, [requests] * len(loads), promise)


def loss(baseline, candidate, *, paired=True, confidence=0.9):
    return capacity_loss(baseline, candidate, paired=paired, confidence=confidence, min_cv=1e-3)


def exact(*loads):
    return [Capacity(load) for load in loads]


class TestTheCapacityOfOneServer:
    def test_lies_between_the_loads_around_the_promise(self):
        found = capacity(1.0, 0.97, 0.93, 0.8)
        assert found.bound == "crossing"
        assert 12.8 < found.load < 13.2
        assert found.fall == pytest.approx(0.04)
        assert found.step == pytest.approx(math.log(14 / 12))

    def test_is_at_least_the_last_load_where_every_load_keeps_the_promise(self):
        assert capacity(1.0, 1.0, 0.99, 0.96) == Capacity(16.0, "at_least")

    def test_is_below_the_first_load_where_none_keeps_it(self):
        assert capacity(0.94, 0.9, 0.5, 0.1) == Capacity(10.0, "below")

    def test_a_dip_that_the_next_load_contradicts_is_evened_out(self):
        assert capacity(1.0, 0.94, 0.99, 0.5).load > 14
        assert capacity(1.0, 0.2, 0.99, 0.5).load < 12

    def test_requests_weigh_a_load(self):
        few_at_the_dip = find_capacity(LOADS, (1.0, 0.9, 0.97, 0.5), (1000, 10, 1000, 1000), 0.95)
        assert few_at_the_dip.load > 14
        few_after_it = find_capacity(LOADS, (1.0, 0.9, 0.97, 0.5), (1000, 1000, 10, 1000), 0.95)
        assert few_after_it.load < 12

    def test_a_promise_that_few_requests_cannot_resolve_is_crossed_at_the_last_load_that_kept_it(self):
        assert capacity(1.0, 1.0, 0.5, 0.0, promise=0.9999, requests=100).load == pytest.approx(12)

    @pytest.mark.parametrize(
        ("loads", "attainment", "promise"),
        [
            ((), (), 0.9),
            ((1.0, 1.0), (1.0, 0.5), 0.9),
            ((0.0, 1.0), (1.0, 0.5), 0.9),
            ((1.0, 2.0), (1.1, 0.5), 0.9),
            ((1.0, 2.0), (math.nan, 0.5), 0.9),
            ((1.0, 2.0), (1.0, 0.5), 1.0),
        ],
    )
    def test_nonsense_is_refused(self, loads, attainment, promise):
        with pytest.raises(ValueError, match=r"capacity|fractions"):
            find_capacity(loads, attainment, [10] * len(loads), promise)

    def test_loads_without_requests_are_refused(self):
        with pytest.raises(ValueError, match="requests"):
            find_capacity((1.0, 2.0), (1.0, 0.5), (10, 0), 0.9)

    @given(curves, st.floats(0.05, 0.99))
    def test_lies_within_the_loads(self, attainment, promise):
        loads = np.arange(1, len(attainment) + 1) * 7.0
        assert loads[0] <= capacity(*attainment, loads=loads, promise=promise).load <= loads[-1] * (1 + 1e-9)

    @given(curves, st.floats(0.01, 100))
    def test_has_the_unit_of_the_loads(self, attainment, factor):
        loads = np.arange(1, len(attainment) + 1) * 7.0
        one, scaled = capacity(*attainment, loads=loads), capacity(*attainment, loads=factor * loads)
        assert scaled.load == pytest.approx(factor * one.load)
        assert (scaled.bound, scaled.fall) == (one.bound, one.fall)

    @given(st.permutations(list(zip(LOADS, (1.0, 0.97, 0.98, 0.3), (100, 400, 300, 200), strict=True))))
    def test_does_not_depend_on_the_order_of_measuring(self, measured):
        loads, attainment, requests = zip(*measured, strict=True)
        assert find_capacity(loads, attainment, requests, 0.95) == find_capacity(
            LOADS, (1.0, 0.97, 0.98, 0.3), (100, 400, 300, 200), 0.95
        )

    @given(curves, st.integers(0, 4), st.floats(0, 1))
    def test_does_not_grow_when_a_load_keeps_less(self, attainment, where, part):
        loads = np.arange(1, len(attainment) + 1) * 7.0
        worse = list(attainment)
        worse[where % len(worse)] *= part
        before, after = (capacity(*each, loads=loads) for each in (attainment, worse))
        assert after.highest <= before.highest * (1 + 1e-9)
        assert after.lowest <= before.lowest * (1 + 1e-9)

    @given(curves, st.floats(0.05, 0.9), st.floats(0, 0.09))
    def test_does_not_grow_with_the_promise(self, attainment, promise, more):
        loads = np.arange(1, len(attainment) + 1) * 7.0
        low, high = (capacity(*attainment, loads=loads, promise=each) for each in (promise, promise + more))
        assert high.highest <= low.highest * (1 + 1e-9)
        assert high.lowest <= low.lowest * (1 + 1e-9)


class TestTheLossOverServers:
    def test_is_the_difference_of_mean_logarithms(self):
        found = loss(exact(10, 20, 40), exact(9, 18, 36))
        assert found.least == found.most == pytest.approx(-math.log(0.9))

    def test_in_blocks_the_luck_of_a_block_cancels(self):
        baseline, candidate = exact(10, 20, 40), exact(9, 18.1, 36)
        in_blocks, apart = (loss(baseline, candidate, paired=paired) for paired in (True, False))
        assert in_blocks.p_worse < 0.001
        assert apart.p_worse > 0.2

    def test_of_single_servers_has_no_interval(self):
        found = loss(exact(10), exact(8))
        assert (found.interval, found.p_worse, found.p_better) == (None, None, None)
        assert found.least == pytest.approx(-math.log(0.8))

    def test_equal_capacities_show_no_loss_and_no_certainty_beyond_quantised_times(self):
        found = loss(exact(10, 10, 10), exact(10, 10, 10))
        assert found.interval[0] < 0 < found.interval[1]

    def test_a_candidate_below_all_loads_has_lost_at_least_that_much(self):
        found = loss(exact(10, 10.1, 9.9, 10), [Capacity(8.0, "below")] * 4)
        assert found.least == pytest.approx(math.log(10 / 8), abs=0.01)
        assert found.most == found.interval[1] == math.inf
        assert found.p_worse < 0.001

    def test_a_candidate_beyond_all_loads_has_lost_at_most_that_much(self):
        found = loss(exact(10, 10.1, 9.9, 10), [Capacity(12.0, "at_least")] * 4)
        assert found.most == pytest.approx(math.log(10 / 12), abs=0.01)
        assert found.least == found.interval[0] == -math.inf
        assert found.p_better < 0.001
        assert found.p_worse == 1

    def test_where_no_server_of_either_side_crosses_nothing_is_known(self):
        found = loss([Capacity(12.0, "at_least")] * 4, [Capacity(12.0, "at_least")] * 4)
        assert (found.least, found.most, found.interval) == (-math.inf, math.inf, None)

    def test_one_lucky_server_of_six_does_not_take_the_end_of_the_interval(self):
        baseline = [*exact(10, 10.2, 9.8, 10.1, 9.9), Capacity(12.0, "at_least")]
        found = loss(baseline, exact(10, 10.1, 9.9, 10, 10.2, 9.8))
        assert -0.1 < found.interval[0] < found.interval[1] < 0.1
        three = [*exact(10, 10.2, 9.8), *[Capacity(12.0, "at_least")] * 3]
        assert loss(three, exact(10, 10.1, 9.9, 10, 10.2, 9.8)).interval[1] == math.inf

    def test_sides_that_do_not_fit_are_refused(self):
        with pytest.raises(ValueError, match="servers"):
            loss(exact(10, 11), exact(10))
        with pytest.raises(ValueError, match="servers"):
            loss([], exact(10), paired=False)

    @given(crossings, st.data(), st.booleans())
    def test_exchanging_the_sides_turns_it_round(self, baseline, data, paired):
        candidate = data.draw(st.permutations(baseline))
        one, other = loss(baseline, candidate, paired=paired), loss(candidate, baseline, paired=paired)
        assert one.least == pytest.approx(-other.most, abs=1e-9)
        assert one.interval == pytest.approx((-other.interval[1], -other.interval[0]), abs=1e-9)
        assert one.p_worse == pytest.approx(other.p_better, abs=1e-9)

    @given(st.lists(st.tuples(servers, servers), min_size=2, max_size=8), st.randoms(use_true_random=False))
    def test_does_not_depend_on_the_order_of_the_blocks(self, blocks, random):
        shuffled = list(blocks)
        random.shuffle(shuffled)
        one, other = (loss(*(list(side) for side in zip(*each, strict=True))) for each in (blocks, shuffled))
        assert (one.least, one.most) == (pytest.approx(other.least), pytest.approx(other.most))
        assert one.interval == (None if other.interval is None else pytest.approx(other.interval))

    @given(st.lists(st.tuples(servers, servers), min_size=2, max_size=8), st.floats(0.1, 10), st.booleans())
    def test_does_not_depend_on_the_unit_of_the_loads(self, blocks, factor, paired):
        sides = [list(side) for side in zip(*blocks, strict=True)]
        scaled = [[Capacity(factor * each.load, each.bound) for each in side] for side in sides]
        one, other = loss(*sides, paired=paired), loss(*scaled, paired=paired)
        assert (one.least, one.most) == (pytest.approx(other.least, abs=1e-9), pytest.approx(other.most, abs=1e-9))

    @given(st.lists(st.tuples(servers, servers), min_size=2, max_size=8), st.booleans())
    def test_the_least_is_never_more_than_the_most(self, blocks, paired):
        found = loss(*(list(side) for side in zip(*blocks, strict=True)), paired=paired)
        assert found.least <= found.most + 1e-9
        if found.interval is not None:
            assert found.interval[0] <= found.least
            assert found.most <= found.interval[1]

    @given(crossings, st.floats(0.5, 0.99), st.booleans())
    def test_a_smaller_candidate_is_never_judged_more_kindly(self, baseline, factor, paired):
        smaller = [Capacity(factor * each.load) for each in baseline]
        assume(len({each.load for each in baseline}) > 1)
        equal, less = (loss(baseline, each, paired=paired) for each in (baseline, smaller))
        assert less.least > equal.least
        assert less.p_worse <= equal.p_worse


class TestCliffs:
    def test_half_of_the_requests_lost_within_a_step_is_a_cliff(self):
        assert is_cliff([capacity(1.0, 1.0, 0.3, 0.0), capacity(1.0, 0.99, 0.4, 0.1)])
        assert not is_cliff([capacity(1.0, 0.98, 0.9, 0.7), capacity(1.0, 0.99, 0.93, 0.8)])

    def test_servers_without_a_crossing_do_not_say(self):
        assert not is_cliff([Capacity(16.0, "at_least")])

    def test_a_cliff_within_one_step_is_not_known_better_than_the_step(self):
        cliff = [capacity(1.0, 1.0, 0.0, 0.0)] * 6
        low, high = loss(cliff, cliff).interval
        assert -math.log(14 / 12) < low < -0.05
        assert 0.05 < high < math.log(14 / 12)

    def test_servers_that_scatter_over_steps_resolve_it(self):
        one, other = capacity(1.0, 1.0, 0.0, 0.0), capacity(1.0, 1.0, 1.0, 0.0)
        scattered = [one, other, one, other, one, other]
        low, high = loss(scattered, scattered).interval
        assert high - low < 0.01


@pytest.fixture(scope="module")
def simulation():
    """benchmarks/capacity.py as a module."""
    return load_script("benchmarks/capacity.py")


@pytest.mark.slow
class TestPromises:
    """By simulation with the draws of benchmarks/capacity.py. Bounds leave room for the luck of 600 gates."""

    @pytest.mark.parametrize("shape", ["SLOPE", "CLIFF"])
    def test_a_capacity_loss_of_a_tenth_is_found_in_six_blocks(self, simulation, shape):
        case = simulation.Case(0.10, getattr(simulation, shape))
        assert simulation.simulate(case, 600).failed >= 0.80

    @pytest.mark.parametrize("shape", ["SLOPE", "CLIFF"])
    def test_a_loss_of_a_fifth_has_an_upper_end(self, simulation, shape):
        case = simulation.Case(0.20, getattr(simulation, shape))
        assert simulation.simulate(case, 300).bounded >= 0.90

    @pytest.mark.parametrize("shape", ["SLOPE", "CLIFF"])
    @pytest.mark.parametrize("blocks", [4, 6])
    def test_equal_versions_rarely_fail(self, simulation, shape, blocks):
        case = simulation.Case(0.0, getattr(simulation, shape), blocks=blocks)
        assert simulation.simulate(case, 600).failed <= 0.072

    @pytest.mark.parametrize("correlation", [0.005, 0.01, 0.02])
    @pytest.mark.parametrize("loss", [0.0, 0.05])
    def test_intervals_hold_the_true_loss_as_often_as_they_say(self, simulation, loss, correlation):
        assert 0.925 <= simulation.coverage(simulation.Case(loss, correlation=correlation), 600) <= 0.975
