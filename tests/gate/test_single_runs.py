"""What a result holds of single runs, for its pictures: every run in the order of time, and distributions."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
import scipy.stats

from regress_gate.gate.series_comparison import quantiles_of_runs
from regress_gate.model.policy import Policy
from regress_gate.model.run import BlockPosition, RunFailure
from regress_gate.model.samples import Samples
from tests.factories.runs import NOW, make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides


def side(version, ttfts, *, hours, **changes):
    runs = [
        make_run(str(n), version, make_trial(ttft_median=ttft), started=NOW + timedelta(hours=hour), **changes)
        for n, (ttft, hour) in enumerate(zip(ttfts, hours, strict=True), 1)
    ]
    return make_side_of(version, *runs)


def of_metric(result, name="ttft_median"):
    return next(one for one in result.series if one.metric == name)


def test_runs_of_both_sides_stand_in_the_order_of_time_with_their_values():
    result = decide_sides(
        side("0.19.0", (0.1, 0.11), hours=(0, 3)), side("0.19.1", (0.12, 0.13), hours=(1, 2)), policy=Policy()
    )
    assert [(run.side, run.run) for run in result.runs] == [
        ("baseline", "1"), ("candidate", "1"), ("candidate", "2"), ("baseline", "2"),
    ]  # fmt: skip
    assert of_metric(result).run_values == [0.1, 0.12, 0.13, 0.11]
    assert [run.started for run in result.runs] == [NOW + timedelta(hours=hour) for hour in range(4)]
    assert all(one.run_values == [] for one in result.series if not one.gated)


def test_what_does_not_count_is_there_with_its_reason():
    void = make_run("void", "0.19.1", make_trial(ttft_median=0.5), void="other processes were busy")
    failed = make_run("failed", "0.19.1", failure=RunFailure("died_at_start", "the server died"))
    counted = [make_run(str(n), "0.19.1", make_trial(ttft_median=0.1 + n / 1000)) for n in range(2)]
    candidate = make_side_of("0.19.1", *counted, void, replace(failed, trials=()))
    result = decide_sides(side("0.19.0", (0.1, 0.11), hours=(0, 1)), candidate, policy=Policy())
    runs = {run.run: run for run in result.runs if run.side == "candidate"}
    assert {name: run.state for name, run in runs.items()} == {
        "0": "counted", "1": "counted", "void": "void", "failed": "failed",
    }  # fmt: skip
    assert (runs["void"].why, runs["failed"].why) == ("other processes were busy", "the server died")
    values = dict(zip((run.run for run in result.runs), of_metric(result).run_values, strict=True))
    assert (values["void"], values["failed"]) == (0.5, None)


def test_runs_of_a_block_share_its_number_and_others_are_left_out():
    def run(version, place, block, position, hour):
        block_place = None if block is None else BlockPosition("e", block, position, place)
        label = f"{version}-{hour}"
        trial = make_trial(ttft_median=0.1 + hour / 1000)
        return make_run(label, version, trial, place=block_place, started=NOW + timedelta(hours=hour))

    baseline = make_side_of(
        "0.19.0",
        *(run("0.19.0", "baseline", b, 1 + b % 2, 2 * b + b % 2) for b in (1, 2)),
        run("0.19.0", "", None, 1, 9),
    )
    candidate = make_side_of("0.19.1", *(run("0.19.1", "candidate", b, 2 - b % 2, 2 * b + 1 - b % 2) for b in (1, 2)))
    result = decide_sides(baseline, candidate, policy=Policy())
    assert [(run.side, run.block, run.state) for run in result.runs] == [
        ("candidate", 1, "counted"), ("baseline", 1, "counted"),
        ("baseline", 2, "counted"), ("candidate", 2, "counted"),
        ("baseline", None, "left_out"),
    ]  # fmt: skip
    assert result.runs[-1].why == "not made in a block with the other version"


def test_only_the_newest_hundred_runs_are_kept():
    many = side("0.19.0", [0.1 + n / 1e5 for n in range(120)], hours=range(120))
    result = decide_sides(many, side("0.19.1", (0.12, 0.13), hours=(200, 201)), policy=Policy())
    assert len(result.runs) == len(of_metric(result).run_values) == 100
    assert [run.side for run in result.runs[-2:]] == ["candidate", "candidate"]


def requests(scale, seed, count=200):
    ttft = scale * np.exp(0.3 * np.random.default_rng(seed).standard_normal(count))
    return Samples(
        ttft=ttft,
        itl=np.full(3 * count, 0.01),
        itl_start=np.arange(count + 1) * 3,
        input_tokens=np.full(count, 128),
        output_tokens=np.full(count, 4),
        ok=np.arange(count) > 0,
    )


def with_requests(version, scale, seeds):
    runs = [
        make_run(str(seed), version, replace(make_trial(), samples=requests(scale, seed)), started=NOW)
        for seed in seeds
    ]
    return make_side_of(version, *runs), [run.trials[0].samples for run in runs]


def test_a_distribution_is_of_each_runs_own_requests():
    baseline, ours = with_requests("0.19.0", 0.1, (1, 2, 3))
    candidate, _ = with_requests("0.19.1", 0.2, (4, 5))
    found = {one.latency: one for one in decide_sides(baseline, candidate, policy=Policy()).distributions}
    assert set(found) == {"ttft", "tpot", "e2el"}
    ttft = found["ttft"]
    assert (ttft.source, ttft.baseline.runs, ttft.candidate.runs) == ("samples", 3, 2)
    assert ttft.levels[0] == 0.01
    assert ttft.levels[-1] == 0.99
    medians = [float(np.median(each.ttft[each.ok])) for each in ours]
    middle = ttft.levels.index(0.5)
    assert ttft.baseline.values[middle] == pytest.approx(np.exp(np.log(medians).mean()), rel=1e-5)
    assert ttft.baseline.lowest[middle] == pytest.approx(min(medians), rel=1e-5)
    assert ttft.baseline.highest[middle] == pytest.approx(max(medians), rel=1e-5)
    assert found["tpot"].candidate.values[middle] == pytest.approx(0.01)
    logs = np.log(medians)
    half = scipy.stats.t.ppf(0.95, 2) * logs.std(ddof=1) / np.sqrt(3)
    assert ttft.baseline.interval_low[middle] == pytest.approx(np.exp(logs.mean() - half), rel=1e-5)
    assert ttft.baseline.interval_high[middle] == pytest.approx(np.exp(logs.mean() + half), rel=1e-5)


def test_one_run_has_no_interval_and_far_apart_runs_have_a_finite_one():
    baseline, _ = with_requests("0.19.0", 0.1, (1,))
    candidate, _ = with_requests("0.19.1", 0.2, (4, 5))
    (one, *_) = decide_sides(baseline, candidate, policy=Policy()).distributions
    assert (one.baseline.interval_low, one.baseline.interval_high) == ([], [])
    assert len(one.candidate.interval_low) == len(one.levels)
    apart = quantiles_of_runs(np.array([[1e-9, -1.0], [1e12, 3.0]]))
    assert all(np.isfinite([*apart.interval_low, *apart.interval_high]))
    assert apart.interval_low[1] < -1 < 3 < apart.interval_high[1]


def test_few_requests_have_no_far_percentiles():
    runs = [
        [replace(make_trial(), samples=requests(0.1, seed, count=20)) for seed in seeds] for seeds in ((1, 2), (3, 4))
    ]
    sides = [
        make_side_of(version, *(make_run(str(n), version, trial) for n, trial in enumerate(trials)))
        for version, trials in zip(("0.19.0", "0.19.1"), runs, strict=True)
    ]
    levels = decide_sides(*sides, policy=Policy()).distributions[0].levels
    assert (levels[0], levels[-1]) == (0.1, 0.9)


def test_without_stored_requests_the_stored_percentiles_are_taken_as_far_as_requests_support_them():
    def made(version, scale):
        trial = make_trial(
            completed=50, ttft_median=scale, ttft_p90=1.5 * scale, ttft_p95=1.7 * scale, ttft_p99=2 * scale
        )
        return make_side_of(version, *(make_run(str(n), version, trial, started=NOW) for n in range(2)))

    (found,) = decide_sides(made("0.19.0", 0.1), made("0.19.1", 0.2), policy=Policy()).distributions
    assert (found.latency, found.source, found.levels) == ("ttft", "summary", [0.5, 0.9, 0.95])
    assert found.candidate.values == pytest.approx([0.2, 0.3, 0.34])
