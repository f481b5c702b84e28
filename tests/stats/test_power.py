"""The spread between server starts, and whether a plan keeps its promises in the comparison itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.model.metric import Direction, Scale
from regress_gate.model.result import Verdict
from regress_gate.stats.comparison import compare_series
from regress_gate.stats.design import ExpectedSeries, detectable_change, pooled_noise, shown_within
from regress_gate.stats.estimate import MIN_COUNT_CV, SeriesData
from regress_gate.stats.linear_models import estimate_order_effects
from tests.stats.simulation import simulated

LOWER, HIGHER = Direction.LOWER, Direction.HIGHER
FAMILY = 5
ERROR = {"error": 0.05 / FAMILY, "confidence": 0.95}
"""What a gate of FAMILY series demands of each."""
LATENCY = ExpectedSeries(LOWER, Scale.RATIO, margin=0.05, run_sd=0.05)
THROUGHPUT = ExpectedSeries(HIGHER, Scale.RATIO, margin=0.30, run_sd=0.13)
FAILURES = ExpectedSeries(LOWER, Scale.DIFFERENCE, margin=0.01, run_sd=0.0, level=0.02, requests=600)
AGREEMENT = ExpectedSeries(HIGHER, Scale.DIFFERENCE, margin=0.05, run_sd=0.004, level=0.97)


class TestPooledNoise:
    def test_is_the_spread_within_versions_whatever_lies_between_them(self):
        rng = np.random.default_rng(1)
        versions = [np.exp(rng.normal(level, 0.05, 40)) for level in (0.0, 1.0, 3.0)]
        noise = pooled_noise(versions, Scale.RATIO)
        assert noise is not None
        assert noise.run_sd == pytest.approx(0.05, rel=0.15)
        assert (noise.runs, noise.degrees_of_freedom) == (120, 117)

    def test_is_of_plain_values_where_a_difference_is_compared(self):
        noise = pooled_noise([np.array([0.0, 0.02]), np.array([0.0, 0.02])], Scale.DIFFERENCE)
        assert noise is not None
        assert noise.run_sd == pytest.approx(0.02 / math.sqrt(2))

    def test_is_not_known_from_one_run_a_version(self):
        assert pooled_noise([np.array([1.0]), np.array([2.0])], Scale.RATIO) is None

    def test_passes_over_versions_that_have_no_logarithm_or_one_run(self):
        noise = pooled_noise([np.array([0.0, 1.0]), np.array([5.0]), np.array([1.0, 1.1])], Scale.RATIO)
        assert noise is not None
        assert noise.runs == 2

    @given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=8), st.floats(0.1, 10))
    def test_does_not_depend_on_the_unit(self, values, factor):
        one, other = (pooled_noise([np.array(values) * unit], Scale.RATIO) for unit in (1.0, factor))
        assert one is not None
        assert other is not None
        assert one.run_sd == pytest.approx(other.run_sd, abs=1e-9)


def _values(expected: ExpectedSeries, runs: int, change: float, rng: np.random.Generator) -> np.ndarray:
    worse = change if expected.direction is LOWER else -change
    if expected.scale is Scale.RATIO:
        return np.exp(rng.normal(0, expected.run_sd, runs)) * (1 + worse)
    level = np.clip(rng.normal(expected.level + worse, expected.run_sd, runs), 0, 1)
    return rng.binomial(int(expected.requests), level) / expected.requests if expected.requests else level


def _series(expected: ExpectedSeries, runs: int, change: float, rng: np.random.Generator) -> SeriesData:
    requests = int(runs * expected.requests)
    return SeriesData(
        baseline=_values(expected, runs, 0.0, rng),
        candidate=_values(expected, runs, change, rng),
        direction=expected.direction,
        scale=expected.scale,
        margin=expected.margin,
        min_cv=expected.min_cv,
        baseline_requests=requests,
        candidate_requests=requests,
    )


def _share(expected: ExpectedSeries, runs: int, change: float, wanted: set[Verdict], draws: int) -> float:
    """How often the comparison says so of a series that changed so, beside others that did not."""
    rng, found = np.random.default_rng(7), 0
    for _ in range(draws):
        family = [_series(expected, runs, change if first else 0.0, rng) for first in [True] + [False] * (FAMILY - 1)]
        found += compare_series(family, false_alarm_budget=0.05, confidence=0.95, expected_cv=0.05)[0].verdict in wanted
    return found / draws


def _error(draws: int) -> float:
    return 4 * math.sqrt(0.8 * 0.2 / draws)


EVERY_SCALE = pytest.mark.parametrize(
    "expected",
    [LATENCY, THROUGHPUT, FAILURES, AGREEMENT],
    ids=["lower", "higher", "failures", "accuracy"],
)


class TestPromises:
    """Four in five, within four standard errors of the simulation: 72 to 88 % of 400 draws."""

    @EVERY_SCALE
    @pytest.mark.parametrize("runs", [3, 5, 12])
    @simulated("draws", quick=40, full=400)
    def test_the_loss_that_is_said_to_be_found_is_found(self, expected, runs, draws):
        loss = detectable_change(expected, runs, **ERROR)
        assert _share(expected, runs, loss, {Verdict.REGRESSION}, draws) == pytest.approx(0.8, abs=_error(draws))

    @EVERY_SCALE
    @pytest.mark.parametrize("runs", [3, 5, 12])
    @simulated("draws", quick=40, full=400)
    def test_an_unchanged_version_is_shown_to_keep_the_margin_that_is_said(self, expected, runs, draws):
        margin = shown_within(expected, runs, confidence=0.95)
        wide = replace(expected, margin=margin)
        shown = _share(wide, runs, 0.0, {Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT}, draws)
        assert shown == pytest.approx(0.8, abs=_error(draws))

    @simulated("draws", quick=40, full=400)
    def test_what_is_measured_very_well_is_sought_only_near_the_margin(self, draws):
        """The gate calls a loss of a third of the margin `within_margin`, however certain it is."""
        quiet = replace(LATENCY, run_sd=0.002)
        assert detectable_change(quiet, 20, **ERROR) == pytest.approx(quiet.margin, rel=0.1)
        assert _share(quiet, 20, quiet.margin / 3, {Verdict.REGRESSION}, draws) == 0

    def test_no_failure_in_so_many_requests_is_no_proof_of_none(self):
        never = replace(FAILURES, level=0.0, requests=100)
        assert shown_within(never, 3, confidence=0.95) > 0.01
        assert shown_within(never, 20, confidence=0.95) < 0.005

    def test_answers_that_always_repeat_are_not_known_better_than_a_thousandth_a_side(self):
        same = replace(AGREEMENT, run_sd=0.0, level=1.0)
        assert shown_within(same, 100, confidence=0.95) > 0.001 * math.sqrt(2)

    def test_a_size_in_bytes_may_be_known_exactly(self):
        exact = replace(LATENCY, run_sd=0.0, min_cv=MIN_COUNT_CV)
        assert shown_within(exact, 3, confidence=0.95) < 1e-6
        assert detectable_change(exact, 3, **ERROR) == pytest.approx(exact.margin, rel=1e-3)

    def test_one_run_shows_nothing(self):
        assert detectable_change(LATENCY, 1, **ERROR) == math.inf
        assert shown_within(LATENCY, 1, confidence=0.95) == math.inf

    def test_no_fraction_can_lose_more_than_there_is(self):
        few = replace(AGREEMENT, run_sd=0.3, level=0.5)
        assert detectable_change(few, 3, **ERROR) == math.inf

    @given(
        st.sampled_from([LOWER, HIGHER]),
        st.sampled_from(list(Scale)),
        st.floats(0.001, 0.99),
        st.floats(0, 50),
        st.floats(0, 1),
        st.integers(0, 10_000),
        st.integers(2, 60),
    )
    def test_any_spread_gives_a_size_or_none_and_never_an_error(
        self, direction, scale, margin, run_sd, level, requests, runs
    ):
        expected = ExpectedSeries(direction, scale, margin, run_sd, level=level, requests=requests)
        for size in (detectable_change(expected, runs, **ERROR), shown_within(expected, runs, confidence=0.95)):
            assert size > 0
            if scale is Scale.DIFFERENCE or direction is HIGHER:
                assert size <= 1 or size == math.inf

    @pytest.mark.parametrize("expected", [LATENCY, THROUGHPUT, AGREEMENT])
    def test_more_runs_show_more(self, expected):
        sizes = [shown_within(expected, runs, confidence=0.95) for runs in range(2, 30)]
        assert sizes == sorted(sizes, reverse=True)


BLOCKS = 6
PLACES = [(block, second) for block in range(1, BLOCKS + 1) for second in (False, True)]


def _experiment(rng, *, second=0.0, drift=0.0, run_sd=0.03):
    values = [math.exp(second * is_second + drift * block + rng.normal(0, run_sd)) for block, is_second in PLACES]
    return np.array(values)


def _effects(values, versions=None, **options):
    blocks, second = zip(*PLACES, strict=True)
    return estimate_order_effects(values, versions or ["0.19.1"] * len(PLACES), blocks, second, **options)


class TestPlaceEffects:
    def test_order_and_drift_are_found_apart(self):
        effects = _effects(_experiment(np.random.default_rng(2), second=0.20, drift=0.10, run_sd=0.01))
        assert effects.second.size == pytest.approx(math.expm1(0.20), abs=0.03)
        assert effects.drift.size == pytest.approx(math.expm1(0.10), abs=0.01)
        assert max(effects.second.p_value, effects.drift.p_value) < 1e-4

    def test_a_version_that_is_slower_is_no_effect_of_order(self):
        """Each version is second in every other block."""
        sides = ["old" if second == (block % 2 == 0) else "new" for block, second in PLACES]
        slower = np.array([1.5 if side == "new" else 1.0 for side in sides])
        effects = _effects(_experiment(np.random.default_rng(3)) * slower, sides)
        assert effects.second.size == pytest.approx(0, abs=0.05)
        assert effects.second.p_value > 0.05

    def test_without_an_effect_the_interval_leaves_out_zero_one_time_in_twenty(self):
        rng = np.random.default_rng(4)
        found = [_effects(_experiment(rng)) for _ in range(1000)]
        for effects in ([each.second for each in found], [each.drift for each in found]):
            missed = sum(not each.interval[0] < 0 < each.interval[1] for each in effects)
            assert missed == sum(each.p_value < 0.05 for each in effects)
            assert 0.025 <= missed / 1000 <= 0.075

    def test_values_that_never_differ_have_an_effect_of_zero(self):
        effects = _effects(np.full(len(PLACES), 4096.0), min_cv=MIN_COUNT_CV)
        assert effects.second.p_value > 0.5
        assert effects.drift.size == pytest.approx(0, abs=1e-9)

    def test_a_clock_that_shows_two_values_is_not_taken_at_its_word(self):
        """A ten-thousandth is no effect of order, however regularly it comes."""
        values = np.array([1.0 + 1e-4 * second for _, second in PLACES])
        assert _effects(values).second.p_value > 0.05

    @pytest.mark.parametrize("kept", [slice(0, 2), slice(0, 4), slice(0, 12, 2)], ids=["one block", "two", "no second"])
    def test_what_the_blocks_cannot_separate_is_not_reported(self, kept):
        blocks, second = zip(*PLACES[kept], strict=True)
        assert estimate_order_effects(np.full(len(blocks), 1.0), ["a"] * len(blocks), blocks, second) is None

    def test_a_value_without_logarithm_has_no_relative_effect(self):
        assert _effects(np.zeros(len(PLACES))) is None
