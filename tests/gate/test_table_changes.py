"""Change points of a table: which are reported, by direction and smallest size."""

import numpy as np
import pytest

from regress_gate.errors import InputError
from regress_gate.gate.table_changes import DetectionRequest, SmallestChange, find_changes, is_worse
from regress_gate.ingest.table_series import TableSeries
from regress_gate.model.metric import Direction
from regress_gate.stats.changepoints import ChangePoint


def series(before=100.0, after=120.0, *, points=40, variances=None):
    noise = np.random.default_rng(7).normal(0, 0.5, 2 * points)
    values = np.repeat([before, after], points) + noise
    return TableSeries((), values, variances, None, 1)


def told(given, **asked):
    return [change.kind for change in find_changes(given, DetectionRequest(**asked)).changes]


def test_a_clear_step_is_found_at_its_place_with_its_size():
    (change,) = find_changes(series(), DetectionRequest()).changes
    assert abs(change.index - 40) <= 1
    assert change.relative
    assert change.change == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    ("direction", "after", "expected"),
    [
        (None, 120.0, ["step"]),
        (None, 80.0, ["step"]),
        (Direction.LOWER, 120.0, ["step"]),
        (Direction.LOWER, 80.0, []),
        (Direction.HIGHER, 120.0, []),
        (Direction.HIGHER, 80.0, ["step"]),
    ],
)
def test_changes_for_the_better_are_reported_only_when_asked_for(direction, after, expected):
    given = series(after=after)
    found = find_changes(given, DetectionRequest(direction))
    assert [change.kind for change in found.changes] == expected
    assert found.improvements == (not expected)
    assert told(given, direction=direction, improvements=True) == ["step"]


def test_a_changed_scatter_is_neither_worse_nor_better():
    change = ChangePoint(5, (4, 6), "variance", None, None, 0.99, True)
    assert is_worse(change, Direction.LOWER) is None


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (SmallestChange(0.15), ["step"]),
        (SmallestChange(0.25), []),
        (SmallestChange(15, is_share=False), ["step"]),
        (SmallestChange(25, is_share=False), []),
    ],
)
def test_a_change_is_reported_from_the_size_that_matters(least, expected):
    assert told(series(), least=least) == expected


@pytest.mark.parametrize(("size", "expected"), [(15, ["step"]), (25, [])])
def test_where_values_are_not_positive_the_size_is_in_their_unit(size, expected):
    assert told(series(-10, 10), least=SmallestChange(size, is_share=False)) == expected


def test_a_percentage_of_values_that_have_none_is_refused():
    with pytest.raises(InputError, match=r"zero or negative.*without %"):
        find_changes(series(-10, 10), DetectionRequest(least=SmallestChange(0.02)))


def test_a_short_series_says_so():
    short = find_changes(TableSeries((), np.array([1.0, np.nan, *[2.0] * 6]), None, None, 1), DetectionRequest())
    assert (short.changes, short.is_too_short) == ((), True)
    assert not find_changes(series(), DetectionRequest()).is_too_short
