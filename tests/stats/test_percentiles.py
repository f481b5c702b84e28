"""Variance-reduced percentiles, by what the same prompts did in the other runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from regress_gate.stats.estimate import variance_reduced_percentiles


def requests(rng, runs, *, prompts=0.3, noise=0.05, count=200, run_cv=0.0):
    """Shape (runs, requests): logarithms of what the same prompts took in every run."""
    levels = rng.normal(0, run_cv, (runs, 1))
    return levels + rng.normal(0, prompts, count) + rng.normal(0, noise, (runs, count))


def of_side(logs, tail=0.01):
    """Of one side, held against itself."""
    return variance_reduced_percentiles(logs, logs, tail)[0]


def test_a_constructed_example():
    """Prompts of effect -1, 0, 1, and nothing else: of all three prompts, the slowest."""
    ours, theirs = np.array([[0.0, 1.0, 2.0]]), np.array([[5.0, 6.0, 7.0]])
    for tail, effect in ((0.01, 1.0), (0.5, 0.0)):
        left, right = variance_reduced_percentiles(ours, theirs, tail)
        assert left == pytest.approx([1.0 + effect])
        assert right == pytest.approx([6.0 + effect])


def test_every_pairing_of_a_prompt_and_what_is_left_of_a_request_counts():
    """By brute force: the sums that a side's percentile is taken of, sorted; with all runs, and with each left out."""
    rng = np.random.default_rng(5)
    ours, theirs = requests(rng, 3, count=40), requests(rng, 2, count=40)
    logs = np.vstack([ours, theirs])
    centred = logs - logs.mean(axis=1, keepdims=True)
    usual = np.median(centred, axis=0)
    far = 4.5 * np.median(np.abs(centred - usual))
    prompts = usual + np.clip(centred - usual, -far, far).mean(axis=0)
    prompts = prompts - prompts.mean()

    def percentile(runs):
        effects = (runs @ prompts).mean() / (prompts @ prompts) * prompts
        sums = np.sort(np.add.outer(effects, (runs - effects).ravel()).ravel())
        return sums[len(sums) - 1 - int(0.05 * (len(sums) - 1))]

    whole = percentile(centred[:3])
    without = np.array([percentile(np.delete(centred[:3], run, axis=0)) for run in range(3)])
    expected = ours.mean(axis=1) + 3 * whole - 2 * without
    assert variance_reduced_percentiles(ours, theirs, 0.05)[0] == pytest.approx(expected, abs=1e-8)


def test_it_scatters_less_than_the_percentile_of_the_requests_and_is_about_the_same():
    logs = requests(np.random.default_rng(1), 200, noise=0.2)
    variance_reduced, plain = of_side(logs), np.quantile(logs, 0.99, axis=1)
    assert variance_reduced.std() < 0.6 * plain.std()
    assert variance_reduced.mean() == pytest.approx(plain.mean(), abs=0.1)


def test_rare_slow_requests_that_scatter_a_narrow_percentile_are_shared_by_the_runs_of_a_side():
    """Three in a thousand take a third longer: some runs of 200 have two of them, most have none or one."""
    rng = np.random.default_rng(8)
    logs = requests(rng, 40, prompts=0.04, noise=0.04)
    logs[rng.random(logs.shape) < 0.003] += 0.3
    assert of_side(logs).std() < 0.03


def test_a_prompt_of_which_one_request_took_far_longer_is_no_slow_prompt():
    """Its effect moves by three standard deviations of one request in ten, not by what that one took."""
    rng = np.random.default_rng(7)
    logs = requests(rng, 10, noise=0.05)
    logs[0, 0] += 5.0
    less = logs.copy()
    less[0, 0] -= 4.0
    found, expected = (np.array(variance_reduced_percentiles(each[5:], each[:5], 0.01)[0]) for each in (logs, less))
    assert found == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("sent", [2, 3, 8])
def test_a_change_of_level_is_found_in_full(sent):
    rng = np.random.default_rng(2)
    ours, theirs = requests(rng, sent), requests(rng, sent)
    before, after = (
        variance_reduced_percentiles(ours, theirs, 0.01),
        variance_reduced_percentiles(ours, theirs + 0.1, 0.01),
    )
    assert after[0] == pytest.approx(before[0], abs=1e-8)
    assert after[1] == pytest.approx(before[1] + 0.1, abs=1e-8)


def test_a_change_that_grows_with_the_prompt_and_one_of_the_noise_are_found():
    rng = np.random.default_rng(3)
    logs = requests(rng, 10, noise=0.1)
    ours, theirs = logs[:5], logs[5:]
    before = variance_reduced_percentiles(ours, theirs, 0.01)
    for changed in (1.2 * theirs, theirs + rng.normal(0, 0.3, (5, 200))):
        after = variance_reduced_percentiles(ours, changed, 0.01)
        assert after[1].mean() - before[1].mean() > 0.05
        assert abs(after[0].mean() - before[0].mean()) < 0.05


def test_a_change_of_only_the_slowest_is_diluted():
    """Which is why the plain percentile has to be looked at beside it."""
    logs = requests(np.random.default_rng(4), 10)
    ours, theirs = logs[:5], logs[5:].copy()
    before = variance_reduced_percentiles(ours, theirs, 0.01)[1].mean()
    theirs[theirs > np.quantile(theirs, 0.98, axis=1, keepdims=True)] += 0.3
    assert variance_reduced_percentiles(ours, theirs, 0.01)[1].mean() - before < 0.2


@pytest.mark.parametrize("way", ["level", "slope of the prompts", "noise"])
def test_a_percentile_that_is_worse_by_the_margin_is_shown_to_be_within_it_no_more_often_than_promised(way):
    """One in twenty; the 99th percentile of normal logarithms is 2.326 standard deviations above their mean."""
    rng, trials, runs, shown, margin = np.random.default_rng(9), 200, 4, 0, 0.1
    spread = {"prompts": 0.3, "noise": 0.2}
    total = np.hypot(*spread.values()) + margin / 2.326
    for _ in range(trials):
        prompts = rng.normal(0, spread["prompts"], 200)
        slope = np.sqrt(total**2 - spread["noise"] ** 2) / spread["prompts"] if way.startswith("slope") else 1.0
        noise = np.sqrt(total**2 - spread["prompts"] ** 2) if way == "noise" else spread["noise"]
        ours = prompts + rng.normal(0, spread["noise"], (runs, 200))
        theirs = slope * prompts + rng.normal(0, noise, (runs, 200)) + margin * (way == "level")
        left, right = variance_reduced_percentiles(ours, theirs, 0.01)
        error = np.sqrt((left.var(ddof=1) + right.var(ddof=1)) / runs)
        shown += right.mean() - left.mean() + scipy_stats.t.ppf(0.95, 2 * runs - 2) * error < margin
    assert scipy_stats.binomtest(int(shown), trials, 0.05, alternative="greater").pvalue > 1e-4, shown


def test_requests_that_all_took_the_same_have_that_as_every_percentile():
    assert of_side(np.full((4, 50), 2.0)) == pytest.approx([2.0] * 4)


def test_many_requests_take_no_memory_for_all_their_pairings():
    """Of 30,000 requests these would be 900 million."""
    logs = requests(np.random.default_rng(6), 2, count=30_000)
    assert of_side(logs) == pytest.approx(np.quantile(logs, 0.99, axis=1), abs=0.05)


seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=30)


def sides(seed, runs, count):
    rng = np.random.default_rng(seed)
    return requests(rng, runs, count=count), requests(rng, runs + 1, count=count)


@few
@given(seeds, st.integers(1, 4), st.integers(1, 30), st.floats(-5, 5), st.sampled_from([0.01, 0.05, 0.1]))
def test_the_unit_does_not_matter(seed, runs, count, offset, tail):
    ours, theirs = sides(seed, runs, count)
    moved, plain = (
        variance_reduced_percentiles(ours + offset, theirs + offset, tail),
        variance_reduced_percentiles(ours, theirs, tail),
    )
    for one, other in zip(moved, plain, strict=True):
        assert one == pytest.approx(other + offset, abs=1e-8)


@few
@given(seeds, st.integers(1, 4), st.integers(1, 30))
def test_neither_the_order_of_runs_nor_that_of_requests_matters(seed, runs, count):
    ours, theirs = sides(seed, runs, count)
    rng = np.random.default_rng(seed)
    order, other = rng.permutation(runs), rng.permutation(count)
    shuffled = variance_reduced_percentiles(ours[order][:, other], theirs[:, other], 0.01)
    plain = variance_reduced_percentiles(ours, theirs, 0.01)
    assert shuffled[0] == pytest.approx(plain[0][order], abs=1e-8)
    assert shuffled[1] == pytest.approx(plain[1], abs=1e-8)


@few
@given(seeds, st.integers(1, 4), st.integers(1, 30))
def test_sides_that_trade_places_trade_their_values(seed, runs, count):
    ours, theirs = sides(seed, runs, count)
    left, right = variance_reduced_percentiles(ours, theirs, 0.05)
    assert variance_reduced_percentiles(theirs, ours, 0.05)[1] == pytest.approx(left, abs=1e-8)
    assert variance_reduced_percentiles(theirs, ours, 0.05)[0] == pytest.approx(right, abs=1e-8)
