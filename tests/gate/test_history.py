"""Histories of runs: which versions make a line, in which order, and the value of each series on them."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from regress_gate.errors import InputError
from regress_gate.gate.history import HistoryFilter, HistoryOrder, HistoryReader, history_lines
from regress_gate.gate.sides import compare_sides, sides_by_version
from regress_gate.model.policy import Policy
from regress_gate.model.suite import ConditionLimits
from tests.factories.runs import make_run, make_trial


def lines(*runs, metrics=(), scenarios=(), limits=None):
    return history_lines(
        sides_by_version(runs, limits or ConditionLimits()), Policy(), HistoryFilter(metrics, scenarios)
    )


def on_day(day, *arguments, **more):
    return make_run(*arguments, started=datetime(2026, 11, day, tzinfo=UTC), **more)


def names(line):
    return [str(version) for version in line.versions]


def test_releases_and_candidates_stand_in_the_order_of_versions():
    runs = [on_day(day, "1", version) for day, version in enumerate(["0.10.0", "0.9.2", "0.10.0rc1", "0.9.10"], 1)]
    (line,) = lines(*runs)
    assert line.order is HistoryOrder.VERSION
    assert names(line) == ["0.9.2", "0.9.10", "0.10.0rc1", "0.10.0"]


def test_nightlies_and_commits_stand_by_the_day_of_their_first_run_and_in_a_line_of_their_own():
    new, old = "0.23.1rc1.dev1403", "commit:4080263bb"
    runs = [on_day(9, "1", new), on_day(3, "1", old), on_day(20, "2", old), on_day(1, "1", "0.24.0")]
    releases, nightlies = lines(*runs)
    assert names(releases) == ["0.24.0"]
    assert nightlies.order is HistoryOrder.DATE
    assert names(nightlies) == [old, new]


def test_variants_are_never_mixed():
    found = lines(make_run("1", "0.19.0+cpu"), make_run("1", "0.19.1+cu129"), make_run("1", "0.19.1+cpu"))
    assert [(line.variant, names(line)) for line in found] == [
        ("cpu", ["0.19.0+cpu", "0.19.1+cpu"]),
        ("cu129", ["0.19.1+cu129"]),
    ]


def test_a_point_is_the_mean_over_runs_with_their_spread():
    runs = [make_run(str(n), "0.19.0", make_trial(ttft_median=value)) for n, value in enumerate([0.1, 0.4], 1)]
    (line,) = lines(*runs, make_run("1", "0.19.1", make_trial(ttft_median=0.3)), metrics=["ttft_median"])
    (series,) = line.series
    assert series.values == pytest.approx([0.2, 0.3])
    assert series.per_version == ((0.1, 0.4), (0.3,))
    assert series.spread(0) == pytest.approx(np.std([0.1, 0.4], ddof=1) / 0.25)
    assert series.spread(1) is None
    assert series.variances is not None


@pytest.mark.parametrize(("failed", "spread"), [((0.0, 0.0), 0.0), ((-0.1, 0.1), None)])
def test_runs_that_are_equal_have_no_spread_even_around_zero(failed, spread):
    runs = [make_run(str(n), "0.19.0", make_trial(failed_requests=value)) for n, value in enumerate(failed, 1)]
    (line,) = lines(*runs, metrics=["failed_requests"])
    assert line.series[0].spread(0) == spread


def test_void_runs_are_kept_apart():
    runs = [
        make_run("1", load=0.0),
        replace(make_run("2", load=0.0), void="a neighbour woke up"),
        make_run("1", "0.19.1"),
    ]
    (line,) = lines(*runs)
    assert [(len(side.counted), len(side.void)) for side in line.sides] == [(1, 1), (1, 0)]


def test_a_version_without_a_series_has_no_value_there():
    (line,) = lines(
        make_run("1", "0.19.0", make_trial("old")), make_run("1", "0.19.1", make_trial("new")), metrics=["ttft_median"]
    )
    found = {series.scenario: series for series in line.series}
    assert found["old"].value(1) is None
    assert found["new"].value(0) is None
    assert found["new"].value(1) == 0.1


def test_only_trials_that_all_runs_have_count():
    three = [make_trial(ordinal=ordinal, ttft_median=value) for ordinal, value in enumerate([0.3, 0.1, 0.1], 1)]
    (line,) = lines(make_run("1", "0.19.0", *three), make_run("1", "0.19.1", make_trial(ttft_median=0.3)))
    (series,) = [series for series in line.series if series.metric.name == "ttft_median"]
    assert series.values == pytest.approx([0.3, 0.3])


def test_without_a_choice_the_metrics_that_gate_are_shown():
    trial = make_trial(ttft_mean=0.1, ttft_median=0.1)
    (line,) = lines(make_run("1", "0.19.0", trial))
    assert {series.metric.name for series in line.series} == {"ttft_median", "output_throughput", "failed_requests"}
    (line,) = lines(make_run("1", "0.19.0", trial), metrics=["ttft_*"])
    assert {series.metric.name for series in line.series} == {"ttft_median", "ttft_mean"}


def test_series_stand_as_people_count():
    (line,) = lines(make_run("1", "0.19.0", *(make_trial(name) for name in ("c16", "c4"))), metrics=["ttft_median"])
    assert [series.scenario for series in line.series] == ["c4", "c16"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"metrics": ["ttft_medain"]},
            "--metric: no stored run has the metric 'ttft_medain' (did you mean 'ttft_median'?",
        ),
        ({"scenarios": ["c9"]}, "--scenario: no stored run has the scenario 'c9' (known: c8)"),
    ],
)
def test_what_no_run_has_is_refused_with_the_nearest_name(asked, said):
    with pytest.raises(InputError) as refused:
        lines(make_run(), **asked)
    assert said in str(refused.value)


def test_a_history_that_is_read_version_by_version_is_the_same():
    """Of each side only numbers are kept; trials that not all runs have are read again and left out."""
    runs = [
        make_run(
            f"{version}-{n}",
            version,
            *(
                make_trial(scenario, ordinal, ttft_median=0.1 * (n + ordinal), client=client)
                for scenario in ("c1", "c8")
                for ordinal in range(1, 3 if (version, n) == ("0.19.1", 2) else 4)
            ),
            load=0.1 * n,
            started=datetime(2026, 11, n, tzinfo=UTC),
        )
        for version, client in (("0.19.0", "0.32.0"), ("0.19.1", "0.32.0"), ("0.20.0", "0.31.0"))
        for n in (1, 2, 3)
    ]
    sides = sides_by_version(runs, ConditionLimits())
    passes = []

    def read():
        passes.append(1)
        return iter(sides)

    reader = HistoryReader(read, {side.version: side for side in sides}.__getitem__)
    (whole,) = history_lines(sides, Policy(), HistoryFilter(["ttft_*"]))
    (kept,) = history_lines(reader, Policy(), HistoryFilter(["ttft_*"]))
    assert [series.name for series in kept.series] == ["c1/ttft_median", "c8/ttft_median"]
    assert [series.per_version for series in kept.series] == [series.per_version for series in whole.series]
    assert kept.series[0].per_version[0] == pytest.approx((0.25, 0.35, 0.45))
    assert len(passes) == 2
    for before, after in itertools.pairwise(range(3)):
        ours, theirs = (
            compare_sides(line.sides[before], line.sides[after], ConditionLimits()) for line in (whole, kept)
        )
        assert ours == theirs
    assert all(not trial.metrics for side in kept.sides for run in side.runs for trial in run.trials)
    assert kept.full_side(kept.versions[0]) == whole.sides[0]
