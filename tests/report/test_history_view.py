"""A history as its readers see it."""

import json
import unicodedata
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from regress_gate.gate.history import HistoryFilter, history_lines
from regress_gate.gate.history_changes import ChangeMethod, HistoryChange, HistoryChanges
from regress_gate.gate.sides import sides_by_version
from regress_gate.model.metric import Scale
from regress_gate.model.policy import Policy
from regress_gate.model.suite import ConditionLimits
from regress_gate.report import RenderOptions, render
from regress_gate.report.views.history_view import MAX_VERSION_ROWS, HistoryView
from regress_gate.report.views.history_words import LineView, day_texts, days_note, line_change_text
from tests.factories.runs import make_run, make_trial

from .strategies import hostile_text


def history_table(found, options=None):
    return render(found, "table", options)


def history_markdown(found, options=None):
    return render(found, "markdown", options)


LEVELS = {"0.19.0": 0.1, "0.19.1": 0.1, "0.24.0": 0.134, "0.32.0": 0.134}


def line(levels=LEVELS, metrics=("ttft_median",), scenario="c8", scenarios=()):
    runs = [
        make_run(
            str(number),
            version,
            make_trial(
                scenario,
                ttft_median=level * (1 + 0.01 * number),
                tpot_median=level / 10,
                itl_p99=level / 5,
                output_throughput=123.0,
            ),
            started=datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day),
        )
        for day, (version, level) in enumerate(levels.items())
        for number in (-1, 1)
    ]
    void = make_run("9", next(iter(levels)), void="a neighbour was loud")
    (found,) = history_lines(
        sides_by_version([*runs, void], ConditionLimits()), Policy(), HistoryFilter(metrics, scenarios)
    )
    return found


STEP = HistoryChange("c8", "ttft_median", Scale.RATIO, "step", 2, (1, 2), 0.34, (0.31, 0.371), None)
BETTER = HistoryChange("c8", "output_throughput", Scale.RATIO, "ramp", 2, (0, 3), -0.1, (-0.12, None), 0.97)
SCATTER = HistoryChange("c8", "ttft_median", Scale.RATIO, "variance", 3, (2, 3), None, None, 0.9)
FOUND = HistoryChanges(
    ChangeMethod.NEIGHBOURS, 1, 3, (STEP,), ("not measured side by side, so that days differ too: 0.19.1 → 0.24.0",)
)


def view(changes=FOUND, improvements=0, **how):
    return HistoryView("chat@1", "bench-1", [LineView(line(**how), changes, improvements)])


DETAILED = """\
chat@1 on bench-1

4 versions
  0.19.0  2 runs from 2026-11-01; not counted: 1 void (a neighbour was loud)
  0.19.1  2 runs from 2026-11-02
  0.24.0  2 runs from 2026-11-03
  0.32.0  2 runs from 2026-11-04

  c8/ttft_median, lower is better:
  0.19.0  99.99 ms  ±1.4% n=2  ██████████████████
  0.19.1  99.99 ms  ±1.4% n=2  ██████████████████
  0.24.0  134.0 ms  ±1.4% n=2  ████████████████████████
  0.32.0  134.0 ms  ±1.4% n=2  ████████████████████████

Changes [95% interval]
  c8/ttft_median  step of +34.0% [+31.0, +37.1], worse, at 0.24.0, between
                  0.19.1 and 0.24.0
  compared 1 series on 3 steps between neighbouring versions, with one
  false-alarm budget (too few versions for change points)
  1 improvement is not shown; --improvements shows it
  not measured side by side, so that days differ too: 0.19.1 → 0.24.0
"""
OVERVIEW = """\
  series                      first                  last
  c8/ttft_median        ▁▁██  99.99 ms ±1.4% n=2     134.0 ms ±1.4% n=2
  c8/tpot_median        ▁▁██  10.00 ms ±0.0% n=2     13.40 ms ±0.0% n=2
  c8/itl_p99            ▁▁██  20.00 ms ±0.0% n=2     26.80 ms ±0.0% n=2
  c8/output_throughput  ▄▄▄▄  123.0 tok/s ±0.0% n=2  123.0 tok/s ±0.0% n=2
"""


def test_a_few_series_get_a_row_for_every_version():
    assert history_table(view(improvements=1), RenderOptions()) == DETAILED


def test_many_series_get_a_line_each():
    text = history_table(view(None, metrics=("*_median", "itl_p99", "output_throughput")), RenderOptions())
    assert OVERVIEW in text
    assert "Changes" not in text


def test_a_narrow_terminal_shows_the_last_value_only():
    text = history_table(view(None, metrics=("*_median", "itl_p99", "output_throughput")), RenderOptions(width=60))
    assert "  c8/ttft_median        ▁▁██  134.0 ms ±1.4% n=2\n" in text
    assert "99.99" not in text


def test_of_many_versions_without_a_value_no_chart_is_drawn():
    one = line(levels={f"0.{number}.0": 0.1 for number in range(MAX_VERSION_ROWS + 1)})
    empty = replace(one, series=tuple(replace(each, values=each.values * np.nan) for each in one.series))
    text = history_table(HistoryView("chat@1", "bench-1", [LineView(empty, None)]), RenderOptions())
    assert text.endswith("c8/ttft_median, lower is better:\n")


def test_names_are_never_broken_to_fit_a_column():
    change = HistoryChange(
        "tiny-c4-inf-n100", "output_throughput", Scale.RATIO, "step", 1, (0, 1), 0.34, (0.31, 0.37), None
    )
    found = HistoryChanges(ChangeMethod.NEIGHBOURS, 4, 3, (change,), ())
    text = history_table(view(found, metrics=("*",), scenario="tiny-c4-inf-n100"), RenderOptions(width=40))
    assert "  tiny-c4-inf-n100/ttft_median  134.0 ms\n  ±1.4% n=2\n      ▁▁██\n" in text
    assert "  tiny-c4-inf-n100/output_throughput\n    step of −34.0%" in text


def test_of_many_versions_a_chart_is_drawn():
    levels = {f"0.{number}.0": 0.1 if number < 20 else 0.134 for number in range(MAX_VERSION_ROWS + 6)}
    mark = HistoryChange("c8", "ttft_median", Scale.RATIO, "step", 20, (19, 20), 0.34, (0.31, 0.37), 0.99)
    found = HistoryChanges(ChangeMethod.CHANGE_POINTS, 1, 0, (mark,), ())
    text = history_table(view(found, levels=levels), RenderOptions())
    assert "\n  0.0.0 to 0.29.0  60 runs\n" in text
    assert "^1" in text
    assert "  134.0 ms │" in text
    assert "searched 1 series over 30 versions for change points" in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (STEP, "step of +34.0% [+31.0, +37.1], worse, at 0.24.0, between 0.19.1 and 0.24.0"),
        (BETTER, "ramp of +10.0% [?, +12.0], better, at 0.24.0, from 0.19.0 to 0.32.0; probability 0.97"),
        (SCATTER, "change of scatter, at 0.32.0, between 0.24.0 and 0.32.0; probability 0.90"),
    ],
)
def test_a_change_is_named_by_its_versions(change, expected):
    assert line_change_text(line(), change) == expected


def test_throughput_that_falls_is_negative_and_worse():
    change = replace(STEP, metric="output_throughput", loss=0.1, interval=(0.08, 0.12))
    assert line_change_text(line(), change).startswith("step of −10.0% [−12.0, −8.0], worse")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            HistoryChanges(ChangeMethod.NEIGHBOURS, 2, 3, (), ()),
            "none found: compared 2 series on 3 steps between neighbouring",
        ),
        (
            HistoryChanges(ChangeMethod.NEIGHBOURS, 2, 0, (), ()),
            "nothing to compare: changes need two versions with comparable runs",
        ),
        (
            HistoryChanges(ChangeMethod.CHANGE_POINTS, 2, 0, (), ()),
            "none found: searched 2 series over 4 versions for change points",
        ),
    ],
)
def test_finding_nothing_says_what_was_looked_at(found, said):
    assert said in " ".join(history_table(view(found), RenderOptions()).split())
    assert said in history_markdown(view(found), RenderOptions())


def test_the_document_holds_points_changes_and_what_was_looked_at():
    found = view().data()
    (one,) = found["lines"]
    assert (found["suite"], found["testbed"], one["order"], one["variant"]) == ("chat@1", "bench-1", "version", None)
    assert one["versions"][0] == {
        "version": "0.19.0",
        "runs": 2,
        "void_runs": 1,
        "failed_runs": 0,
        "first": "2026-11-01T00:00:00+00:00",
        "released": None,
        "void_reason": "a neighbour was loud",
    }
    (series,) = one["series"]
    assert [point["version"] for point in series["points"]] == list(LEVELS)
    assert [point["value"] for point in series["points"]] == pytest.approx([0.1, 0.1, 0.134, 0.134], rel=1e-3)
    assert found["change_points"] == [
        {
            "scenario": "c8",
            "metric": "ttft_median",
            "kind": "step",
            "version": "0.24.0",
            "index": 2,
            "between": ["0.19.1", "0.24.0"],
            "change": 0.34,
            "natural_change": 0.34,
            "interval": [0.31, 0.371],
            "probability": None,
            "worse": True,
            "line": 0,
        }
    ]
    assert one["looked_at"]["way"] == "neighbours"
    json.dumps(found, allow_nan=False)
    assert view(None).data()["lines"][0]["looked_at"] is None


def test_a_version_without_a_value_is_null_and_shown_as_such():
    runs = [make_run("1", "0.19.0"), make_run("1", "0.19.1", make_trial(ttft_median=None))]
    (one,) = history_lines(sides_by_version(runs, ConditionLimits()), Policy(), HistoryFilter(["ttft_median"]))
    found = HistoryView("chat@1", "bench-1", [LineView(one, None)])
    points = found.data()["lines"][0]["series"][0]["points"]
    assert points[1] == {"version": "0.19.1", "value": None, "runs": 0, "cv": None, "values": []}
    assert "0.19.1  n/a" in history_table(found, RenderOptions())


@given(hostile_text.filter(bool), st.sampled_from([40, 80]))
def test_imported_text_is_never_executed_by_the_terminal(text, width):
    change = HistoryChange(text, "ttft_median", Scale.RATIO, "step", 1, (0, 1), 0.34, (0.31, 0.37), None)
    found = HistoryChanges(ChangeMethod.NEIGHBOURS, 1, 1, (change,), (text,))
    for metrics in (("ttft_median",), ("*",)):
        shown = HistoryView(text, text, [LineView(line(scenario=text, metrics=metrics), found)])
        table = history_table(shown, RenderOptions(width=width))
        assert all(cell_len(row) <= width for row in table.splitlines())
        assert not [sign for sign in table if sign != "\n" and unicodedata.category(sign) in ("Cc", "Cf", "Cs")]
        history_markdown(shown, RenderOptions())


def test_a_picture_has_the_days_of_releases_and_says_what_its_days_are():
    one, changes = line(), HistoryChanges(ChangeMethod.NEIGHBOURS, 0, 0, (), ())
    released = [date(2026, 1, 1 + place) for place in range(len(one.versions))]
    shown = HistoryView("chat@1", "bench-1", [LineView(one, changes, released=released)])
    svg = render(shown, "svg")
    assert "2026-01-01" in svg
    assert "2026-11-01" not in svg
    assert "Across: versions, with the day of their release." in svg
    assert "2026-11-01" in render(shown, "html")  # the table has the first run as well
    measured = render(HistoryView("chat@1", "bench-1", [LineView(one, changes)]), "svg")
    assert "2026-11-01" in measured
    assert "with the day of their first run." in measured


def test_a_line_of_releases_and_of_other_builds_has_days_of_both_kinds():
    runs = [
        make_run("1", "0.19.0", started=datetime(2026, 11, 1, tzinfo=UTC)),
        make_run("1", "0.19.1rc1", started=datetime(2026, 11, 2, tzinfo=UTC)),
    ]
    (one,) = history_lines(sides_by_version(runs, ConditionLimits()), Policy(), HistoryFilter(["ttft_median"]))
    view = LineView(one, None, released=[date(2026, 4, 3), None])
    assert day_texts(view) == ("2026-04-03", "2026-11-02")
    assert days_note([view]) == "with the day of a release, and of other builds that of their first run"
