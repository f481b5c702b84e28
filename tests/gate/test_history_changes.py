"""Which versions changed a series: change points over many, neighbours compared over few."""

import numpy as np
import pytest

from regress_gate.gate.history import HistoryFilter, history_lines
from regress_gate.gate.history_changes import ChangeMethod, find_line_changes, without_improvements
from regress_gate.gate.sides import sides_by_version
from regress_gate.model.policy import Policy
from regress_gate.model.run import BlockPosition
from regress_gate.model.suite import ConditionLimits
from tests.factories.runs import make_run, make_trial
from tests.stats.simulation import simulated

RIPPLE = (0.0, 0.004, -0.004, 0.002, -0.002)


def history(levels, *, runs=5, metrics=("ttft_median",), name="ttft_median", experiment=None, ripple=RIPPLE):
    """A line of versions 0.1.0, 0.2.0, … with those levels of one metric and a spread of 0.3 % between runs."""
    made = []
    for place, level in enumerate(levels, 1):
        for number, luck in enumerate(ripple[:runs], 1):
            trial = make_trial(**{"output_throughput": None, "ttft_median": None, name: level * (1 + luck)})
            at = None if experiment is None else BlockPosition(experiment, number, place, "single")
            made.append(make_run(str(number), f"0.{place}.0", trial, place=at))
    (line,) = history_lines(sides_by_version(made, ConditionLimits()), Policy(), HistoryFilter(metrics))
    return line


def changes(line, **policy):
    return find_line_changes(line, Policy(**policy), ConditionLimits())


def test_with_few_versions_neighbours_are_compared_and_the_step_is_named():
    found = changes(history([0.1, 0.1, 0.134, 0.134]))
    (change,) = found.found
    assert (found.way, found.series, found.steps) == (ChangeMethod.NEIGHBOURS, 1, 3)
    assert (change.name, change.kind, change.at, change.since) == ("c8/ttft_median", "step", 2, (1, 2))
    assert change.loss == pytest.approx(0.34, abs=0.01)
    assert change.interval[0] < 0.34 < change.interval[1]
    assert change.is_worse
    assert change.probability is None


def test_with_eight_versions_change_points_are_looked_for():
    found = changes(history([0.1] * 10 + [0.134] * 10))
    (change,) = found.found
    assert (found.way, found.series, found.steps) == (ChangeMethod.CHANGE_POINTS, 1, 1)
    assert change.since[0] < change.at <= change.since[1]
    assert change.since[0] <= 9 <= change.at <= 11
    assert change.loss == pytest.approx(0.34, abs=0.03)
    assert 0.5 < change.probability <= 1


def test_the_newest_of_many_versions_is_compared_with_the_one_before_it():
    (change,) = changes(history([0.1] * 12 + [0.134])).found
    assert (change.at, change.since, change.probability) == (12, (11, 12), None)
    assert change.loss == pytest.approx(0.34, abs=0.01)


@pytest.mark.parametrize("count", [2, 10], ids=["neighbours", "change points"])
@pytest.mark.parametrize(
    ("name", "levels", "worse"),
    [
        ("ttft_median", (0.1, 0.134), True),
        ("ttft_median", (0.134, 0.1), False),
        ("output_throughput", (1000, 800), True),
        ("output_throughput", (800, 1000), False),
        ("failed_requests", (0.02, 0.2), True),
        ("failed_requests", (0.2, 0.02), False),
    ],
)
def test_a_loss_is_positive_for_every_metric(name, levels, worse, count):
    line = history(np.repeat(levels, count), name=name, metrics=[name])
    (change,) = changes(line).found
    assert change.is_worse is worse
    assert (change.loss > 0) is worse
    assert change.interval[0] <= change.loss <= change.interval[1]
    kept, hidden = without_improvements(changes(line))
    assert (len(kept.found), hidden) == ((1, 0) if worse else (0, 1))


@pytest.mark.parametrize("count", [2, 10], ids=["neighbours", "change points"])
def test_a_change_below_half_the_margin_is_not_reported(count):
    line = history(np.repeat([0.1, 0.102], count), ripple=[luck / 10 for luck in RIPPLE])
    assert changes(line).found == ()
    assert len(changes(line, margins={"ttft_median": 0.01}).found) == 1


def test_a_fraction_changes_by_a_difference_and_not_by_a_ratio():
    (change,) = changes(history([0.02] * 10 + [0.06] * 10, name="failed_requests", metrics=["failed_requests"])).found
    assert change.loss == pytest.approx(0.04, abs=0.005)


def test_a_zero_where_a_ratio_is_formed_is_said():
    found = changes(history([0.1] * 10 + [0.0] * 10))
    assert (found.series, found.found) == (0, ())
    assert found.notes[:1] == ("1 series has a value that is zero or negative: no ratio can be formed",)


def test_one_run_a_version_shows_nothing_and_is_said():
    found = changes(history([0.1, 0.2, 0.2], runs=1))
    assert found.found == ()
    assert found.notes[0] == "one run shows nothing, and these versions have only one: 0.1.0, 0.2.0, 0.3.0"


def test_what_was_not_measured_side_by_side_is_said():
    assert changes(history([0.1, 0.1])).notes == ("not measured side by side, so conditions may differ: 0.1.0 → 0.2.0",)
    assert changes(history([0.1, 0.1], experiment="e1")).notes == ()


def test_a_version_of_which_no_run_counts_is_passed_over():
    line = history([0.1, 0.134])
    made = [run for side in line.sides for run in side.runs]
    void = make_run("1", "0.1.5", make_trial(ttft_median=9.0), void="the neighbour was loud")
    (line,) = history_lines(
        sides_by_version([*made, void], ConditionLimits()), Policy(), HistoryFilter(["ttft_median"])
    )
    (change,) = changes(line).found
    assert change.since == (0, 2)


def test_versions_that_are_not_comparable_are_not_held_against_each_other():
    old = [make_run(str(n), "0.1.0", make_trial(ttft_median=0.1 + n * 1e-4), load=0.0) for n in range(4)]
    new = [make_run(str(n), "0.2.0", make_trial(ttft_median=0.2 + n * 1e-4), load=5.0) for n in range(4)]
    (line,) = history_lines(sides_by_version([*old, *new], ConditionLimits()), Policy(), HistoryFilter())
    found = changes(line)
    assert (found.steps, found.found) == (0, ())
    assert found.notes[0].startswith("0.1.0 and 0.2.0 are not comparable, so not compared: ")


def test_what_was_not_asked_for_is_no_member_of_the_family():
    random = np.random.default_rng(5)
    luck = {(scenario, n): float(np.exp(random.normal(0, 0.02))) for scenario in range(40) for n in range(4)}

    def asked_for_c7(scenarios):
        made = [
            make_run(str(n), version, *(make_trial(f"c{s}", ttft_median=level * luck[s, n]) for s in scenarios))
            for version, level in (("0.1.0", 0.1), ("0.2.0", 0.15))
            for n in range(4)
        ]
        (line,) = history_lines(
            sides_by_version(made, ConditionLimits()), Policy(), HistoryFilter(["ttft_median"], ["c7"])
        )
        return changes(line)

    assert asked_for_c7(range(40)) == asked_for_c7([7])
    assert len(asked_for_c7([7]).found) == 1


def test_many_versions_across_two_machines_are_said_to_be():
    made = [
        make_run(str(n), f"0.{place}.0", make_trial(ttft_median=0.1 + n * 1e-4), load=0.0 if place < 6 else 5.0)
        for place in range(12)
        for n in range(2)
    ]
    (line,) = history_lines(sides_by_version(made, ConditionLimits()), Policy(), HistoryFilter(["ttft_median"]))
    (note,) = [note for note in changes(line).notes if "not comparable" in note]
    assert note.startswith("0.5.0 and 0.6.0 are not comparable: ")


def test_a_single_version_has_no_step():
    found = changes(history([0.1]))
    assert (found.steps, found.found, found.notes) == (0, (), ())


@simulated("histories", quick=30, full=300)
def test_an_unchanged_young_history_raises_hardly_any_alarm(histories):
    # Histories of 5 versions, 4 runs each that scatter by 2 %: any step at all is a false alarm.
    random, alarms = np.random.default_rng(20261121), 0
    for _ in range(histories):
        made = [
            make_run(str(n), f"0.{place}.0", make_trial(ttft_median=float(np.exp(random.normal(0, 0.02)))))
            for place in range(1, 6)
            for n in range(4)
        ]
        (line,) = history_lines(sides_by_version(made, ConditionLimits()), Policy(), HistoryFilter())
        alarms += bool(changes(line).found)
    # Worse and better are each a family of its own, at 5 % together over the four steps.
    assert alarms / histories <= 0.10 + 3 * (0.10 * 0.90 / histories) ** 0.5


def test_each_series_of_a_long_history_has_its_changes_and_what_was_left_out_is_counted():
    """Of five series two step, two have too few versions, and one is zero, where a ratio is formed."""
    made = []
    for place in range(1, 21):
        level = 0.1 if place <= 10 else 0.134
        values = {"ttft_median": level, "tpot_median": level / 10, "itl_median": 0.0}
        values |= {"ttft_p99": 0.2, "tpot_p99": 0.02} if place <= 3 else {}
        for number, luck in enumerate(RIPPLE, 1):
            steady = {name: value * (1 + luck) for name, value in values.items()}
            made.append(make_run(str(number), f"0.{place}.0", make_trial(output_throughput=None, **steady)))
    wanted = ("ttft_median", "tpot_median", "itl_median", "ttft_p99", "tpot_p99")
    (line,) = history_lines(sides_by_version(made, ConditionLimits()), Policy(), HistoryFilter(wanted))
    found = changes(line)
    assert found.series == 2
    assert {change.metric for change in found.found} == {"ttft_median", "tpot_median"}
    assert [note.partition(" ")[0] for note in found.notes[:2]] == ["2", "1"]
    assert "fewer than" in found.notes[0]
    assert "zero or negative" in found.notes[1]
    assert not any("zero or negative" in note for note in changes(history([0.1] * 20)).notes)
