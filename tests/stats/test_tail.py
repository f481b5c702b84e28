"""Percentiles steadied by what the same prompts did in the other runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regress_gate.stats.tail import steadied_percentile


def requests(rng, runs, *, prompts=0.3, noise=0.05, count=200, run_cv=0.0):
    """Shape (runs, requests): logarithms of what the same prompts took in every run."""
    levels = rng.normal(0, run_cv, (runs, 1))
    return levels + rng.normal(0, prompts, count) + rng.normal(0, noise, (runs, count))


def test_a_constructed_example():
    """Prompts of effect -1, 0, 1 and a noise that is the same in both runs: its sums with the prompts, by hand.

    Taken over every pairing of the prompts 0, 1, 2 less their mean with what is left of each run (0, 0, 0 and 5, 5, 5).
    """
    logs = np.array([[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]])
    found = steadied_percentile(logs, 0.01)
    assert found == pytest.approx([2.0, 7.0])
    assert steadied_percentile(logs, 0.5) == pytest.approx([1.0, 6.0])


def test_without_an_effect_of_prompts_it_is_the_plain_percentile():
    """One value for all requests but a few: the prompts have no median effect, so only the residuals are left."""
    logs = np.zeros((5, 100))
    for run in range(5):
        logs[run, 10 * run : 10 * run + 3] = 1.0 + run
    assert steadied_percentile(logs, 0.02) == pytest.approx([1.0, 2.0, 3.0, 4.0, 5.0])
    assert steadied_percentile(logs, 0.05) == pytest.approx([0.0] * 5)


def test_it_scatters_less_than_the_percentile_of_the_requests_and_is_about_the_same():
    rng = np.random.default_rng(1)
    logs = requests(rng, 200, noise=0.2)
    steadied, plain = steadied_percentile(logs, 0.01), np.quantile(logs, 0.99, axis=1)
    assert steadied.std() < 0.6 * plain.std()
    assert steadied.mean() == pytest.approx(plain.mean(), abs=0.1)


@pytest.mark.parametrize("sent", [2, 3, 8])
def test_a_change_of_level_is_found_in_full(sent):
    logs = requests(np.random.default_rng(2), sent)
    slower = logs.copy()
    slower[-1] += 0.1
    moved = steadied_percentile(slower, 0.01) - steadied_percentile(logs, 0.01)
    assert moved[-1] == pytest.approx(0.1, abs=1e-9)
    assert moved[:-1] == pytest.approx(np.zeros(sent - 1), abs=1e-9)


def test_a_change_that_grows_with_the_prompt_and_one_of_the_noise_are_found():
    rng = np.random.default_rng(3)
    logs = requests(rng, 10, noise=0.1)
    plain = steadied_percentile(logs, 0.01)
    steeper, noisier = logs.copy(), logs.copy()
    steeper[5:] *= 1.2
    noisier[5:] += rng.normal(0, 0.3, (5, 200))
    for changed in (steeper, noisier):
        found = steadied_percentile(changed, 0.01)
        assert (found[5:] - plain[5:]).min() > 0.05
        assert abs(found[:5] - plain[:5]).max() < 0.05


def test_a_change_of_only_the_slowest_is_diluted():
    """Which is why the plain percentile has to be looked at beside it."""
    logs = requests(np.random.default_rng(4), 10)
    slower = logs.copy()
    beyond = slower[5:] > np.quantile(slower[5:], 0.98, axis=1, keepdims=True)
    slower[5:][beyond] += 0.3
    found = (steadied_percentile(slower, 0.01) - steadied_percentile(logs, 0.01))[5:].mean()
    assert found < 0.2


def test_requests_that_all_took_the_same_have_that_as_every_percentile():
    assert steadied_percentile(np.full((4, 50), 2.0), 0.01) == pytest.approx([2.0] * 4)


def test_every_pairing_of_a_prompt_and_a_residual_counts():
    """By brute force: the sums that the percentile is taken of, sorted."""
    rng = np.random.default_rng(5)
    logs = requests(rng, 3, count=40)
    centred = logs - np.median(logs, axis=1, keepdims=True)
    prompts = np.median(centred, axis=0)
    prompts = prompts - prompts.mean()
    for run, found in zip(logs, steadied_percentile(logs, 0.05), strict=True):
        slope = (run - np.median(run)) @ prompts / (prompts @ prompts)
        sums = np.sort(np.add.outer(slope * prompts, run - slope * prompts).ravel())
        assert found == pytest.approx(sums[len(sums) - 1 - int(0.05 * (len(sums) - 1))], abs=1e-12)


def test_many_requests_take_no_memory_for_all_their_pairings():
    """Of 30,000 requests these would be 900 million."""
    logs = requests(np.random.default_rng(6), 2, count=30_000)
    assert steadied_percentile(logs, 0.01) == pytest.approx(np.quantile(logs, 0.99, axis=1), abs=0.05)


seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 6), st.integers(1, 30), st.floats(-5, 5), st.sampled_from([0.01, 0.05, 0.1]))
def test_the_unit_does_not_matter(seed, runs, count, offset, tail):
    logs = requests(np.random.default_rng(seed), runs, count=count)
    assert steadied_percentile(logs + offset, tail) == pytest.approx(steadied_percentile(logs, tail) + offset, abs=1e-9)


@given(seeds, st.integers(1, 6), st.integers(1, 30))
def test_neither_the_order_of_runs_nor_that_of_requests_matters(seed, runs, count):
    rng = np.random.default_rng(seed)
    logs = requests(rng, runs, count=count)
    order, other = rng.permutation(runs), rng.permutation(count)
    shuffled = steadied_percentile(logs[order][:, other], 0.01)
    assert shuffled == pytest.approx(steadied_percentile(logs, 0.01)[order], abs=1e-9)


@given(seeds, st.integers(1, 6), st.integers(2, 30))
def test_a_percentile_further_out_is_never_smaller(seed, runs, count):
    logs = requests(np.random.default_rng(seed), runs, count=count)
    assert (steadied_percentile(logs, 0.01) >= steadied_percentile(logs, 0.1)).all()
