"""Which of a percentile and its variance-reduced form decides whether the loss is within the margin."""

from dataclasses import replace

import numpy as np
import pytest

from regress_gate.model.result import Verdict
from tests.factories.series import as_series, judge

MARGIN = 0.1
UNSURE, SURE, SURER = 0.06, 0.03, 0.01
"""Spreads between runs."""
RUNS = 5


def values(spread, loss):
    """Shape (sides, runs, scenarios), of exactly this spread. Only the first of the scenarios has lost anything, and
    what is luck in one is not so in the others, so that their mean is well known."""
    run = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) / np.sqrt(2.5)
    ours = spread * np.column_stack([np.roll(run, at) for at in range(RUNS)])
    return np.array([ours, ours + loss * (np.arange(RUNS) == 0)])


def judged(plain, variance_reduced):
    series = as_series(*plain[..., None], margin=MARGIN)
    return judge([replace(data, variance_reduced=tuple(variance_reduced[:, :, at])) for at, data in enumerate(series)])[
        0
    ]


def test_the_steadied_one_shows_what_the_plain_one_is_too_noisy_for():
    found = judged(values(UNSURE, 0.05), values(SURE, 0.01))
    assert found.verdict is Verdict.WITHIN_MARGIN
    assert found.change == pytest.approx(np.expm1(0.01))
    assert "without that +5.1%" in found.notes[0]


def test_a_plain_one_that_was_lucky_does_not_pass_what_the_surer_one_does_not_show():
    found = judged(values(UNSURE, 0.0), values(SURE, 0.09))
    assert found.verdict is Verdict.UNDECIDED
    assert found.change == pytest.approx(np.expm1(0.09))
    assert found.interval[0] < found.change < found.interval[1]
    assert found.interval[1] > MARGIN


def test_a_plain_one_that_is_surer_has_the_say():
    for spread, loss, verdict in ((SURER, 0.0, Verdict.WITHIN_MARGIN), (SURER, 0.09, Verdict.REGRESSION)):
        found = judged(values(spread, loss), values(SURE, 0.09 - loss))
        assert found.verdict is verdict
        assert found.change == pytest.approx(np.expm1(loss))


def test_where_both_say_the_same_the_plain_one_is_what_is_printed():
    found = judged(values(SURE, 0.02), values(SURER, 0.0))
    assert found.verdict is Verdict.WITHIN_MARGIN
    assert found.change == pytest.approx(np.expm1(0.02))
    assert found.notes == ()
