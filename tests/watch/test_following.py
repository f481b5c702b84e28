"""What is followed from look to look, and when others are told of it."""

from datetime import date
from typing import Any

import pytest

from regress_gate.model.result import SeriesResult, Verdict
from regress_gate.model.version import Version
from regress_gate.watch.finding import FindingState
from regress_gate.watch.following import BEYOND_DOUBT, Followed, LookPlace, follow
from tests.factories.results import a_result, a_series

PINNED = Version.parse("0.40.0")
NIGHTLY = ("0.40.1.dev100+g1111111aa", "0.40.1.dev200+g2222222bb", "0.40.1.dev300+g3333333cc")


def worse(metric: str = "ttft_median", q_worse: float = 0.02) -> SeriesResult:
    series = a_series("c8", metric, change=0.12, interval=(0.05, 0.2), verdict=Verdict.REGRESSION)
    return series.model_copy(update={"q_worse": q_worse})


def within(metric: str = "ttft_median") -> SeriesResult:
    return a_series("c8", metric)


def undecided(metric: str = "ttft_median") -> SeriesResult:
    return a_series("c8", metric, verdict=Verdict.UNDECIDED)


def unmeasured(metric: str = "ttft_median") -> SeriesResult:
    return a_series("c8", metric, change=None, interval=None, verdict=Verdict.UNDECIDED)


def look(before: list[Followed], *series: SeriesResult, build: str = NIGHTLY[0], **changes: Any) -> list[Followed]:
    place = LookPlace("lab", "small@1", Version.parse(build), PINNED, date(2027, 1, 4), "small.yaml", **changes)
    return follow(before, a_result(series=list(series)), place)


def test_a_regression_is_a_finding_when_a_second_look_sees_it_too() -> None:
    (once,) = look([], worse())
    assert (once.is_confirmed, once.finding.state, once.finding.looks) == (False, FindingState.SEEN, 1)
    (twice,) = look([once], worse(), build=NIGHTLY[1])
    assert (twice.is_confirmed, twice.finding.looks, str(twice.finding.first_bad)) == (True, 2, NIGHTLY[0])


def test_one_look_is_enough_beyond_the_doubt_of_a_year_of_looks() -> None:
    (one,) = look([], worse(q_worse=BEYOND_DOUBT))
    assert one.is_confirmed


def test_percentiles_of_a_metric_are_one_finding() -> None:
    (one,) = look([], worse("ttft_median"), worse("ttft_p99"))
    assert {series.metric for series in one.finding.series} == {"ttft_median", "ttft_p99"}


@pytest.mark.parametrize("series", [[undecided()], [within("ttft_median"), undecided("ttft_p99")], []])
def test_a_finding_that_is_not_shown_to_be_gone_is_followed_on(series: list[SeriesResult]) -> None:
    followed = look(look([], worse(q_worse=BEYOND_DOUBT)), *series, build=NIGHTLY[1])
    assert [one.finding.state for one in followed] == [FindingState.UNKNOWN]


@pytest.mark.parametrize("series", [[unmeasured()], [within("ttft_median"), unmeasured("ttft_p99")], []])
def test_a_suspicion_waits_for_a_look_that_measures_it(series: list[SeriesResult]) -> None:
    (waiting,) = look(look([], worse()), *series, build=NIGHTLY[1])
    assert (waiting.finding.state, waiting.is_confirmed) == (FindingState.UNKNOWN, False)
    (confirmed,) = look([waiting], worse(), build=NIGHTLY[2])
    assert confirmed.is_confirmed


def test_a_suspicion_that_the_next_look_measures_and_does_not_see_is_no_finding_of_a_later_look() -> None:
    (gone,) = look(look([], worse()), undecided(), build=NIGHTLY[1])
    assert (gone.is_gone, gone.is_confirmed) == (True, False)
    (once,) = look([gone], worse(), build=NIGHTLY[2])
    assert (once.is_confirmed, once.finding.looks, str(once.finding.first_bad)) == (False, 1, NIGHTLY[2])


def test_what_is_gone_is_said_once_and_is_another_finding_if_it_comes_back() -> None:
    seen = look(look([], worse()), worse(), build=NIGHTLY[1])
    (gone,) = look(seen, within(), build=NIGHTLY[2])
    assert (gone.finding.state, gone.is_confirmed) == (FindingState.GONE, True)
    assert look([gone], within(), build=NIGHTLY[2]) == []
    (back,) = look([gone], worse(), build=NIGHTLY[2])
    assert (back.is_confirmed, back.finding.looks, str(back.finding.first_bad)) == (False, 1, NIGHTLY[2])


def test_a_suspicion_that_the_next_look_shows_to_be_within_its_margin_is_gone() -> None:
    (gone,) = look(look([], worse()), within(), build=NIGHTLY[1])
    assert (gone.is_gone, gone.is_confirmed) == (True, False)
    assert look([gone], within(), build=NIGHTLY[2]) == []


@pytest.mark.parametrize("release", ["0.41.0", "0.41.0rc1"])
def test_a_release_that_was_cut_before_a_nightlys_regression_does_not_show_it_to_be_gone(release: str) -> None:
    seen = look([], worse())
    (still,) = look(seen, within(), build=release)
    assert still.finding.state is FindingState.UNKNOWN
    (confirmed,) = look([still], worse(), build=NIGHTLY[1])
    assert (confirmed.is_confirmed, confirmed.finding.looks) == (True, 2)


def test_a_release_shows_that_the_regression_of_a_candidate_is_gone_and_a_nightly_does_not() -> None:
    seen = look([], worse(), build="0.41.0rc1")
    assert [one.finding.state for one in look(seen, within())] == [FindingState.UNKNOWN]
    assert [one.finding.state for one in look(seen, within(), build="0.41.0")] == [FindingState.GONE]


def test_what_is_followed_comes_back_from_the_store_as_it_was() -> None:
    followed = look([], worse(), worse("tpot_median"))
    assert [Followed.from_json(one.to_json()) for one in followed] == followed
