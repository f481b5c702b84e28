"""What `detect` found, as its readers see it."""

import json
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from regress_gate.gate.table_changes import DetectedChanges, DetectionReport, DetectionRequest
from regress_gate.ingest.table_series import Layout, TableSeries
from regress_gate.model.metric import Direction
from regress_gate.report import RenderOptions, render
from regress_gate.report.views.detection_view import MAX_CHARTS, DetectionView, change_point_text
from regress_gate.stats.changepoints import ChangePoint

from .strategies import hostile_text

STEP = ChangePoint(4, (3, 5), "step", 0.34, (0.31, 0.371), 0.991, True)
RAMP = ChangePoint(4, (2, 6), "ramp", -12.5, (-15, -10), 0.93, False)
SCATTER = ChangePoint(4, (4, 4), "variance", None, None, 0.95, True)
DAYS = tuple(f"2026-03-0{day}" for day in range(1, 9))


def series(*, group=(), times=DAYS, values=(100, 101, 99, 100, 134, 133, 135, 134), replicates=1):
    return TableSeries(group, np.array(values, dtype=float), None, times, replicates)


def detected(*changes, improvements=0, **more):
    return DetectedChanges(series(**more), changes, improvements)


def detection(*found, direction=None, time="date", groups=()):
    return DetectionReport("nightly.csv", Layout("ttft_ms", time, groups), DetectionRequest(direction), found)


def table(found, **options):
    return render(DetectionView(found), "table", RenderOptions(**options))


TABLE = """\
nightly.csv: 8 points of ttft_ms by date; lower is better

   135.0 │                ▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
         │
         │
         │
         │
         │
   99.00 │▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
                          ^1
          2026-03-01            2026-03-08
  1  step of +34.0% [+31.0, +37.1], worse, at 2026-03-05, between 2026-03-03 and
     2026-03-06; probability 0.99

1 change point; [95% intervals]
"""


def test_the_table_shows_the_series_and_a_line_for_each_change():
    assert table(detection(detected(STEP), direction=Direction.LOWER)) == TABLE


@pytest.mark.parametrize(
    ("change", "times", "expected"),
    [
        (
            STEP,
            DAYS,
            "step of +34.0% [+31.0, +37.1], at 2026-03-05, between 2026-03-03 and 2026-03-06; probability 0.99",
        ),
        (RAMP, DAYS, "ramp of -12.5 [-15, -10], at 2026-03-05, from 2026-03-02 to 2026-03-07; probability 0.93"),
        (SCATTER, None, "change of scatter, at #4, between #3 and #4; probability 0.95"),
        (replace(SCATTER, probability=0.99999), None, "change of scatter, at #4, between #3 and #4; probability >0.99"),
    ],
)
def test_a_change_is_one_sentence(change, times, expected):
    assert change_point_text(detected(change, times=times), change, None) == expected


def test_the_document_is_what_the_design_promises():
    found = DetectionView(detection(detected(STEP, SCATTER), direction=Direction.LOWER)).data()
    assert found["change_points"][0] == {
        "index": 4,
        "time": "2026-03-05",
        "change": 0.34,
        "change_interval": [0.31, 0.371],
        "relative": True,
        "interval": [3, 5],
        "kind": "step",
        "probability": 0.991,
        "worse": True,
    }
    assert [found["change_points"][1][key] for key in ("change", "change_interval", "worse")] == [None, None, None]
    assert found["series"] == [
        {
            "group": {},
            "points": 8,
            "missing": 0,
            "replicates": 1,
            "too_short": False,
            "improvements_not_told": 0,
            "times": [f"2026-03-0{day}" for day in range(1, 9)],
            "values": [100.0, 101.0, 99.0, 100.0, 134.0, 133.0, 135.0, 134.0],
        }
    ]
    json.dumps(found, allow_nan=False)


def test_changes_of_groups_name_their_group():
    found = detection(detected(STEP, group=("H200", "a")), detected(group=("L4", "a")), groups=("gpu", "host"))
    assert DetectionView(found).data()["change_points"][0]["group"] == {"gpu": "H200", "host": "a"}
    assert "gpu=H200, host=a: 8 points" in table(found)
    assert "gpu=L4" not in table(found)
    assert table(found).endswith("1 change point in 1 of 2 series; [95% intervals]\n")
    assert "### gpu=H200, host=a" in render(DetectionView(found), "markdown")


def test_many_series_get_a_line_each_and_no_chart():
    found = [detected(STEP, group=(str(number),)) for number in range(MAX_CHARTS + 1)]
    assert table(detection(*found, groups=("host",))).count("▁▁▁▁████") == MAX_CHARTS + 1


def test_the_summary_names_what_was_not_searched_and_not_shown():
    short = detected(values=(1, np.nan, 2), times=DAYS[:3], replicates=3)
    text = table(detection(short, detected(improvements=2), direction=Direction.LOWER, groups=("host",)))
    assert text.splitlines()[1:] == [
        "no change points for the worse",
        "fewer than 8 values in 1 of 2 series: too few for change points",
        "2 improvements are not shown; --improvements shows them",
        "up to 3 rows of one time were taken together as replicates",
        "1 missing value ignored",
    ]


def test_markdown_has_the_same_content():
    text = render(DetectionView(detection(detected(STEP))), "markdown")
    assert text.splitlines()[0] == "## 1 change point"
    assert "nightly.csv: 8 points of ttft_ms by date" in text
    assert "**What to do:** Look at ttft_ms first: step of +34.0%" in text
    assert "```text\n 135.0 │" in text
    assert "1. step of +34.0% &#91;+31.0, +37.1&#93;, at 2026-03-05" in text


@given(hostile_text, st.sampled_from([STEP, RAMP, SCATTER]), st.sampled_from([40, 80]))
def test_text_of_a_table_is_never_executed_by_the_terminal(text, change, width):
    one = DetectedChanges(series(group=(text,), times=(text,) * 8), (change,), 0)
    found = DetectionReport(text, Layout(text, text, (text,)), DetectionRequest(), [one])
    shown = render(DetectionView(found), "table", RenderOptions(width=width))
    assert all(cell_len(line) <= width for line in shown.splitlines())
    assert not [sign for sign in shown if sign != "\n" and unicodedata.category(sign) in ("Cc", "Cf", "Cs")]
    render(DetectionView(found), "markdown")
