"""When the requests of all runs allow a variance-reduced percentile, and when they do not."""

from dataclasses import replace

import numpy as np
import pytest

from regress_gate.gate.replicates import make_replicates
from regress_gate.gate.series_inputs import REQUEST_LATENCIES, needs_samples, variance_reduced_percentile
from regress_gate.model.samples import Samples
from regress_gate.stats.estimate import variance_reduced_percentiles
from tests.factories.runs import make_run, make_trial

KEY, ORDINALS = ("c8", "ttft_p99"), {"c8": {1}}


def samples(ttft, *, gap=0.01, tokens=4, input_tokens=None):
    count = len(ttft)
    return Samples(
        ttft=np.asarray(ttft, dtype=float),
        itl=np.full(count * (tokens - 1), gap),
        itl_start=np.arange(count + 1) * (tokens - 1),
        input_tokens=np.full(count, 128) if input_tokens is None else np.asarray(input_tokens),
        output_tokens=np.full(count, tokens),
        ok=np.ones(count, dtype=bool),
    )


def drawn(seed, runs, count=120, **how):
    rng = np.random.default_rng(seed)
    prompts = np.random.default_rng(99).normal(0, 0.3, count)
    return [samples(0.1 * np.exp(prompts + rng.normal(0, 0.05, count)), **how) for _ in range(runs)]


def side(version, found, **changes):
    return [
        make_run(f"{version}-{number}", version, replace(make_trial(), samples=each), **changes)
        for number, each in enumerate(found)
    ]


def of(ours, theirs, key=KEY, ordinals=ORDINALS):
    return variance_reduced_percentile(
        make_replicates(side("0.19.0", ours), side("0.19.1", theirs), paired=False), key, ordinals
    )


def test_it_is_the_steadied_percentile_of_all_runs_together_one_value_a_run():
    ours, theirs = drawn(1, 2), drawn(2, 3)
    left, right = of(ours, theirs)
    together = variance_reduced_percentiles(*(np.log([each.ttft for each in side]) for side in (ours, theirs)), 0.01)
    assert left == pytest.approx(together[0])
    assert right == pytest.approx(together[1])


def test_requests_that_failed_in_any_run_are_left_out_of_all():
    ours, theirs = drawn(1, 2), drawn(2, 2)
    broken = ours[0].ttft.copy()
    broken[7] = 100.0
    failed = replace(ours[0], ttft=broken, ok=np.arange(len(broken)) != 7)
    without = [samples(np.delete(each.ttft, 7)) for each in (*ours, *theirs)]
    left, right = of([failed, ours[1]], theirs)
    expected = of(without[:2], without[2:])
    assert left == pytest.approx(expected[0])
    assert right == pytest.approx(expected[1])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (drawn(1, 2), drawn(2, 2, count=119)),
        (drawn(1, 2), drawn(2, 2, input_tokens=np.arange(120))),
        (drawn(1, 2), [*drawn(2, 1), None]),
        (drawn(1, 2, count=99), drawn(2, 2, count=99)),
    ],
    ids=["other number", "other prompts", "a run without samples", "too few for a p99"],
)
def test_requests_that_do_not_allow_it_give_none(ours, theirs):
    assert of(ours, theirs) is None


@pytest.mark.parametrize("name", ["ttft_mean", "ttft_median", "itl_p99", "output_throughput"])
def test_only_percentiles_of_what_every_request_has_one_of_are_steadied(name):
    assert of(drawn(1, 2), drawn(2, 2), ("c8", name)) is None
    assert not needs_samples([name])


def test_a_percentile_among_many_metrics_asks_for_samples():
    assert needs_samples(["output_throughput", "tpot_p99"])


def test_several_trials_of_a_run_are_averaged():
    ours, theirs = drawn(1, 2), drawn(2, 2)
    slower = [samples(each.ttft * 1.1) for each in (*ours, *theirs)]
    runs = [
        make_run(
            f"{number}",
            "0.19.0" if number < 2 else "0.19.1",
            replace(make_trial(ordinal=1), samples=first),
            replace(make_trial(ordinal=2), samples=second),
        )
        for number, (first, second) in enumerate(zip((*ours, *theirs), slower, strict=True))
    ]
    made = make_replicates(runs[:2], runs[2:], paired=False)
    one, both = (
        variance_reduced_percentile(made, KEY, {"c8": {1}}),
        variance_reduced_percentile(made, KEY, {"c8": {1, 2}}),
    )
    assert both[0] == pytest.approx(one[0] + np.log(1.1) / 2)
    assert both[1] == pytest.approx(one[1] + np.log(1.1) / 2)


def test_what_a_request_took_is_read_from_its_gaps():
    found = samples([0.5, 0.7], gap=0.02, tokens=6)
    assert REQUEST_LATENCIES["ttft"](found) == pytest.approx([0.5, 0.7])
    assert REQUEST_LATENCIES["tpot"](found) == pytest.approx([0.02, 0.02])
    assert REQUEST_LATENCIES["e2el"](found) == pytest.approx([0.6, 0.8])


def test_a_request_of_one_token_has_no_time_per_token_and_does_no_harm():
    assert REQUEST_LATENCIES["tpot"](samples([0.5], tokens=1)) == pytest.approx([0.0])


def test_a_client_that_kept_no_gaps_does_not_tell_when_a_request_ended():
    """GuideLLM's requests have a time to first token and no gaps: their e2el is not what the samples sum to."""
    made = [
        [replace(each, itl=np.zeros(0), itl_start=np.zeros(len(each) + 1, dtype=int)) for each in drawn(seed, 2)]
        for seed in (1, 2)
    ]
    assert of(*made) is not None
    assert of(*made, key=("c8", "e2el_p99")) is None
    assert of(*made, key=("c8", "tpot_p99")) is None
