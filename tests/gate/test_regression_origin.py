"""The candidate in its version history: which version a regression came with."""

from datetime import UTC, datetime

import pytest

from regress_gate.gate.regression_origin import (
    HISTORY_VERSIONS,
    add_regression_origins,
    choose_history,
    find_regression_origins,
)
from regress_gate.gate.series_comparison import compare_all_series
from regress_gate.model.policy import Policy
from regress_gate.model.run import SuiteRef
from regress_gate.model.suite import ConditionLimits
from regress_gate.model.version import Version
from regress_gate.store.store_interface import Holding, HoldingOrigin
from tests.factories.runs import make_run, make_side_of, make_trial
from tests.gate.deciding import decide_sides

RIPPLE = (0.0, 0.004, -0.004, 0.002, -0.002)


def side(version, level, *, runs=5, day=None, **more):
    started = None if day is None else datetime(2026, 11, day, tzinfo=UTC)
    made = [
        make_run(
            str(n),
            version,
            make_trial(ttft_median=level * (1 + luck), output_throughput=1000 + n),
            started=started,
            **more,
        )
        for n, luck in enumerate(RIPPLE[:runs], 1)
    ]
    return make_side_of(version, *made)


def origins(baseline, candidate, *history):
    series = compare_all_series(baseline, candidate, Policy()).series
    return find_regression_origins(baseline, candidate, history, series, Policy(), ConditionLimits())


OLD, NEW = side("0.19.0", 0.1), side("0.32.0", 0.134)


def test_an_older_step_is_named_and_is_not_the_candidates():
    (origin,) = origins(OLD, NEW, side("0.19.1", 0.1), side("0.24.0", 0.134))
    assert origin.is_older
    assert origin.series == "c8/ttft_median"
    assert origin.text == "this step came with 0.24.0, not with 0.32.0"
    document = origin.as_out().model_dump()
    assert [each["version"] for each in document.pop("versions")] == ["0.19.0", "0.19.1", "0.24.0", "0.32.0"]
    assert document == {
        "series": "c8/ttft_median",
        "kind": "step",
        "version": "0.24.0",
        "after": "0.19.1",
        "untold": [],
        "is_candidates": False,
        "before_baseline": None,
        "text": origin.text,
    }


def test_a_step_of_the_candidates_own_is_reported_where_the_versions_between_are_without_it():
    (origin,) = origins(OLD, NEW, side("0.24.0", 0.1))
    assert not origin.is_older
    assert origin.text == "this step came with 0.32.0: 0.24.0 is without it"


def test_versions_that_cannot_be_placed_leave_a_range():
    halfway = side("0.22.0", 0.1158)
    (origin,) = origins(OLD, NEW, halfway, side("0.24.0", 0.134))
    assert origin.text == ("this step came after 0.19.0 and with 0.24.0 at the latest, not with 0.32.0")
    (origin,) = origins(OLD, NEW, side("0.20.0", 0.1), halfway)
    assert origin.text == "this step came after 0.20.0; the runs of 0.22.0 do not show whether they have it"


def test_what_was_repaired_in_between_came_back_later():
    (origin,) = origins(OLD, NEW, side("0.20.0", 0.134), side("0.21.0", 0.1), side("0.24.0", 0.134))
    assert (str(origin.after), str(origin.at)) == ("0.21.0", "0.24.0")


def test_a_version_before_the_baseline_that_stood_where_the_candidate_stands_is_reported():
    (origin,) = origins(OLD, NEW, side("0.18.0", 0.134))
    assert origin.text == "0.18.0, before the baseline, was at the level of 0.32.0"
    (origin,) = origins(OLD, NEW, side("0.18.0", 0.134), side("0.24.0", 0.134))
    assert origin.text == (
        "this step came with 0.24.0, not with 0.32.0; 0.18.0, before the baseline, was at the level of 0.32.0"
    )
    assert origins(OLD, NEW, side("0.18.0", 0.1)) == []


def test_nightlies_are_placed_by_the_day_they_were_measured():
    ends = side("commit:aaaaaaa", 0.1, day=1), side("0.33.0.dev9", 0.134, day=9)
    (origin,) = origins(*ends, side("commit:bbbbbbb", 0.134, day=5), side("0.33.0.dev7", 0.1, day=3))
    assert (str(origin.after), str(origin.at)) == ("0.33.0.dev7", "commit:bbbbbbb")


def test_a_way_back_is_walked_from_the_baseline_too():
    (origin,) = origins(side("0.32.0", 0.1), side("0.19.0", 0.134), side("0.20.0", 0.134), side("0.31.0", 0.1))
    assert (str(origin.after), str(origin.at)) == ("0.31.0", "0.20.0")


@pytest.mark.parametrize(
    "history",
    [
        [],
        [side("0.24.0+cu129", 0.134)],
        [side("commit:bbbbbbb", 0.134)],
        [side("0.33.0", 0.134)],
        [side("0.24.0", 0.134, void="a neighbour was loud")],
        [OLD, NEW],
    ],
    ids=["nothing", "another variant", "no order", "newer", "void", "the two themselves"],
)
def test_what_stands_in_no_order_between_the_two_says_nothing(history):
    assert origins(OLD, NEW, *history) == []


def test_what_is_no_regression_is_not_placed():
    assert origins(OLD, side("0.32.0", 0.1), side("0.24.0", 0.134)) == []


def test_runs_of_one_version_have_no_history_between_them():
    assert origins(OLD, side("0.19.0", 0.134), side("0.18.0", 0.134), side("0.19.1", 0.134)) == []


def test_a_version_without_the_series_is_passed_over():
    other = make_side_of("0.24.0", make_run("1", "0.24.0", make_trial("another")))
    assert origins(OLD, NEW, other) == []
    (origin,) = origins(OLD, NEW, other, side("0.25.0", 0.134))
    assert str(origin.at) == "0.25.0"


def result(baseline, candidate):
    return decide_sides(baseline, candidate, policy=Policy())


def test_a_result_names_the_origin_beside_the_series_and_counts_them_in_one_warning():
    before = result(OLD, NEW)
    after = add_regression_origins(before, OLD, NEW, [side("0.24.0", 0.134)], Policy(), ConditionLimits())
    told = "this step came with 0.24.0, not with 0.32.0"
    (one,) = [one for one in after.series if one.name == "c8/ttft_median"]
    assert one.notes[-1] == told
    assert after.warnings == [
        *before.warnings,
        "1 of 1 regressions did not come with 0.32.0: already there in 0.24.0",
    ]
    assert [point.version for point in after.change_points] == ["0.24.0"]
    assert (after.decision, after.exit_code, after.reasons) == (before.decision, before.exit_code, before.reasons)


def test_a_baseline_that_may_be_the_exception_is_a_warning():
    after = add_regression_origins(result(OLD, NEW), OLD, NEW, [side("0.18.0", 0.134)], Policy(), ConditionLimits())
    assert after.warnings[-1] == "in 1 of 1 regressions 0.18.0 was at the level of 0.32.0: 0.19.0 may be the exception"


def test_a_step_of_the_candidates_own_is_no_warning():
    before = result(OLD, NEW)
    after = add_regression_origins(before, OLD, NEW, [side("0.24.0", 0.1)], Policy(), ConditionLimits())
    assert after.warnings == before.warnings
    assert after.series[0].notes[-1] == "this step came with 0.32.0: 0.24.0 is without it"


def test_without_a_history_a_result_stays_as_it_is():
    before = result(OLD, NEW)
    assert add_regression_origins(before, OLD, NEW, [], Policy(), ConditionLimits()) == before


def held(name, day=1):
    time = datetime(2026, 1, day, tzinfo=UTC)
    suite = SuiteRef("chat", "1")
    return Holding(Version.parse(name), "lab", suite, 5, 5, 1, time, time, False, HoldingOrigin.STORE)


def chosen(names, baseline, candidate):
    choice = choose_history([held(name) for name in names], Version.parse(baseline), Version.parse(candidate))
    return [str(version) for version in choice.read], [str(version) for version in choice.unread]


class TestWhichVersionsAreRead:
    def test_of_a_short_history_all_but_the_two(self):
        names = ["0.19.0", "0.19.1", "0.24.0", "0.32.0", "0.18.0+cpu"]
        assert chosen(names, "0.19.0", "0.32.0") == (["0.19.1", "0.24.0", "0.18.0+cpu"], [])

    def test_of_a_long_one_those_nearest_to_the_candidate_and_before_the_baseline(self):
        names = [f"0.{minor}.0" for minor in range(1, 101)]
        read, unread = chosen(names, "0.10.0", "0.90.0")
        assert len(read) == HISTORY_VERSIONS
        assert read[-4:] == ["0.9.0", "0.8.0", "0.7.0", "0.6.0"]
        assert read[:-4] == [f"0.{minor}.0" for minor in range(70, 90)]
        assert unread == [f"0.{minor}.0" for minor in range(11, 70)]

    def test_of_a_downgrade_the_same_the_other_way_round(self):
        names = [f"0.{minor}.0" for minor in range(1, 101)]
        read, unread = chosen(names, "0.90.0", "0.10.0")
        assert read == [*(f"0.{minor}.0" for minor in range(30, 10, -1)), "0.91.0", "0.92.0", "0.93.0", "0.94.0"]
        assert unread[0] == "0.89.0"

    def test_a_step_that_all_that_were_read_have_came_with_the_first_of_them_at_the_latest(self):
        unread = [Version.parse("0.20.0"), Version.parse("0.21.0")]
        series = compare_all_series(OLD, NEW, Policy()).series
        history = [side("0.24.0", 0.134)]
        (origin,) = find_regression_origins(OLD, NEW, history, series, Policy(), ConditionLimits(), unread)
        assert origin.text == "this step came after 0.19.0 and with 0.24.0 at the latest, not with 0.32.0"
        assert origin.as_out().untold == ["0.20.0", "0.21.0"]
