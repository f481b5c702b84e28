"""The pictures: what they look like, as files to be opened, and what holds for every one of them."""

import math
import re
import struct
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from itertools import combinations

import pytest
import resvg_py
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from regress_gate.errors import InputError
from regress_gate.model.result import LoadCurveOut, Result, Verdict
from regress_gate.report import RenderOptions, render_content
from regress_gate.report.document import Column, Detail, Figure, Table
from regress_gate.report.figures import draw_svg, theme_css
from regress_gate.report.figures.canvas import PALETTE, text_width
from regress_gate.report.figures.timeline import shape_points
from regress_gate.report.plots import (
    IntervalGroup,
    IntervalPlot,
    IntervalRow,
    LoadPanel,
    LoadPlot,
    LoadPoint,
    NoisePlot,
    NoiseRow,
    Plot,
    PointState,
    QuantileLine,
    QuantilePanel,
    QuantilePlot,
    RunMark,
    RunPanel,
    RunPlot,
    RunState,
    Side,
    TimelineChange,
    TimelineFlag,
    TimelinePanel,
    TimelinePlot,
)
from regress_gate.report.render.picture import figures_of
from regress_gate.report.views.result_view import ResultView
from tests.factories.results import EVERY_KIND, a_load_curve, a_result, a_series, checked, failing, passing
from tests.factories.views import EVERY_VIEW

from .strategies import hostile_text

SVG = "{http://www.w3.org/2000/svg}"


class Picture(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "svg"


def figures(result: Result) -> dict[str, Figure]:
    document = ResultView(result).document(Detail(figures=True))
    return {figure.name: figure for figure in figures_of(document.blocks)}


def figure(plot: Plot, title: str = "Title", description: str = "What is seen.") -> Figure:
    return Figure("name", title, description, plot, Table.of((Column(),), ()))


PICTURES = [
    (kind, name) for kind in EVERY_KIND if kind != "check" for name in figures(EVERY_KIND[kind]()) if kind != "crowded"
]


@pytest.mark.parametrize(("kind", "name"), PICTURES, ids=["-".join(each) for each in PICTURES])
def test_picture(kind: str, name: str, snapshot: SnapshotAssertion) -> None:
    assert draw_svg(figures(EVERY_KIND[kind]())[name]) == snapshot.use_extension(Picture)


def test_the_band_of_a_distribution_is_the_interval_between_server_starts_where_the_result_has_it() -> None:
    result = failing()
    before = draw_svg(figures(result)["distributions"])
    assert "band: from the lowest run to the highest" in before
    found = []
    for one in result.distributions:
        sides = {
            name: side.model_copy(
                update={
                    "interval_low": [value * 0.99 for value in side.values],
                    "interval_high": [value * 1.01 for value in side.values],
                }
            )
            for name, side in (("baseline", one.baseline), ("candidate", one.candidate))
        }
        found.append(one.model_copy(update=sides))
    figure = figures(result.model_copy(update={"distributions": found}))["distributions"]
    assert "band: 90% interval between server starts" in draw_svg(figure)
    assert "with a band of the 90% interval between server starts" in figure.description
    panel = figure.plot.panels[0]
    assert panel.baseline.low == pytest.approx([value * 0.99 for value in panel.baseline.values])


@pytest.mark.parametrize("kind", ["fail", "crowded", "hostile"])
def test_the_intervals_have_a_form_for_a_telephone_in_which_nothing_lies_beyond_the_edge(kind: str) -> None:
    figure = figures(EVERY_KIND[kind]())["intervals"]
    picture = check_is_sound(draw_svg(figure, heading=False, is_narrow=True))
    check_texts_are_apart(picture)
    assert picture.attrib["width"] == "340"
    rows = [row for group in figure.plot.groups for row in group.rows]
    assert len(list(picture.iter(f"{SVG}text"))) >= 2 * len(rows)
    plain = draw_svg(figures(EVERY_KIND["fail"]())["intervals"], heading=False, is_narrow=True)
    assert "margin " in plain
    assert "worse" in plain


@pytest.mark.parametrize("name", ["history", "detection", "calibration"])
def test_picture_of_another_view(name: str, snapshot: SnapshotAssertion) -> None:
    (drawn,) = figures_of(EVERY_VIEW[name]("chat-c8").document(Detail(figures=True)).blocks)
    svg = draw_svg(drawn)
    check_texts_are_apart(check_is_sound(svg))
    assert svg == snapshot.use_extension(Picture)


# What holds for every picture


def texts_of(root: ET.Element) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Each shown text with its box, as wide as the text may be: left, top, right, bottom."""
    for element in root.iter(f"{SVG}text"):
        shown = (element.text or "") + "".join(child.tail or "" for child in element)
        size = float(element.get("font-size", root.get("font-size", "12")))
        width = text_width(shown, size, bold=element.get("font-weight") == "bold")
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        left = x - {"start": 0, "middle": width / 2, "end": width}[element.get("text-anchor", "start")]
        yield shown, (left, y - 0.8 * size, left + width, y + 0.2 * size)


def check_is_sound(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    assert (left, top) == (0, 0)
    assert {root.attrib["width"], root.attrib["height"]} == {f"{width:g}", f"{height:g}"}
    for element in root.iter():
        for name, low, high in (("x", 0, width), ("y", 0, height), ("width", 0, width), ("height", 0, height)):
            if name in element.attrib:
                assert low - 1 <= float(element.attrib[name]) <= high + 1, ET.tostring(element)
        for x, y in re.findall(r"[ML](\S+) ([^A-Za-z ]+)", element.get("d", "")):
            assert -6 <= float(x) <= width + 6, ET.tostring(element)
            assert -6 <= float(y) <= height + 6, ET.tostring(element)
        assert "nan" not in element.get("d", "").lower()
        assert "id" not in element.attrib
        assert not set(element.attrib) & {"style", "href", "onload", "onclick"}
    assert [child.tag for child in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "rect", "path", "text", "g"}
    for text in root.itertext():
        assert all(character.isprintable() or character == "\n" for character in text)
    return root


def check_texts_are_apart(root: ET.Element) -> None:
    width = float(root.attrib["width"])
    boxes = list(texts_of(root))
    for text, (left, _, right, _) in boxes:
        assert left >= 0, text
        assert right <= width, text
    for (one, a), (other, b) in combinations(boxes, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{one!r} lies on {other!r}"


@pytest.mark.parametrize(("kind", "name"), [*PICTURES, ("crowded", "intervals")])
def test_no_text_lies_on_another_or_beyond_the_edge(kind: str, name: str) -> None:
    check_texts_are_apart(check_is_sound(draw_svg(figures(EVERY_KIND[kind]())[name])))


numbers = st.floats(allow_infinity=False)
"""NaN is a missing number."""
shares = st.floats(allow_nan=False, allow_infinity=False)
rows = st.builds(
    IntervalRow,
    label=hostile_text,
    estimate=st.none() | shares,
    interval=st.none() | st.tuples(st.none() | shares, st.none() | shares),
    verdict=st.sampled_from(Verdict),
    change=hostile_text,
    margin=hostile_text,
)
interval_plots = st.builds(
    IntervalPlot,
    groups=st.lists(st.builds(IntervalGroup, hostile_text, st.lists(rows, max_size=5).map(tuple)), max_size=3).map(
        tuple
    ),
    confidence=hostile_text,
    note=hostile_text,
)


@st.composite
def run_plots(draw: st.DrawFn) -> RunPlot:
    mark = st.builds(
        RunMark,
        st.sampled_from(Side),
        st.sampled_from(RunState),
        st.none() | st.integers(1, 3),
        hostile_text,
        st.sampled_from(["", "2026-11-21", "2026-11-22"]),
    )
    marks = draw(st.lists(mark, max_size=12))
    values = st.lists(numbers, min_size=len(marks), max_size=len(marks)).map(tuple)
    panels = draw(st.lists(st.builds(RunPanel, hostile_text, st.just("ms"), values), max_size=4))
    return RunPlot(tuple(marks), tuple(panels), (draw(hostile_text), draw(hostile_text)), draw(hostile_text))


@st.composite
def quantile_plots(draw: st.DrawFn) -> QuantilePlot:
    levels = sorted(draw(st.sets(st.floats(0.001, 0.999), min_size=1, max_size=9)))
    values = st.lists(numbers, min_size=len(levels), max_size=len(levels)).map(tuple)
    line = st.builds(QuantileLine, values, values, values)
    panel = st.builds(QuantilePanel, hostile_text, st.just("ms"), st.just(tuple(levels)), line, line)
    return QuantilePlot(
        tuple(draw(st.lists(panel, max_size=4))), (draw(hostile_text), draw(hostile_text)), draw(hostile_text)
    )


@st.composite
def timeline_panels(draw: st.DrawFn) -> TimelinePanel:
    values = draw(st.lists(numbers, max_size=30))
    count = len(values)
    place = st.integers(0, max(0, count - 1))
    each = {"min_size": count, "max_size": count}
    change = st.builds(TimelineChange, place, place, place, hostile_text, st.none() | st.booleans())
    flag = st.builds(TimelineFlag, place, hostile_text, hostile_text)
    return TimelinePanel(
        draw(hostile_text),
        "ms",
        tuple(values),
        tuple(draw(st.lists(hostile_text, **each))),
        days=tuple(draw(st.just([]) | st.lists(st.just("2026-11-22"), **each))),
        ranges=tuple(draw(st.just([]) | st.lists(st.tuples(numbers, numbers), **each))),
        states=tuple(draw(st.just([]) | st.lists(st.sampled_from(PointState), **each))),
        changes=tuple(draw(st.lists(change, max_size=12))) if count else (),
        flags=tuple(draw(st.lists(flag, max_size=4))) if count else (),
    )


timelines = st.builds(TimelinePlot, st.lists(timeline_panels(), max_size=3).map(tuple), hostile_text, hostile_text)
numbers_of_an_interval = st.tuples(numbers, numbers)
load_points = st.lists(
    st.builds(LoadPoint, hostile_text, numbers, numbers_of_an_interval, numbers, numbers_of_an_interval), max_size=4
).map(tuple)
load_panels = st.builds(
    LoadPanel,
    hostile_text,
    hostile_text,
    hostile_text,
    hostile_text,
    load_points,
    load_points,
    st.none() | shares,
    hostile_text,
)
load_plots = st.builds(
    LoadPlot,
    st.lists(load_panels, max_size=3).map(tuple),
    st.tuples(hostile_text, hostile_text),
    hostile_text,
    hostile_text,
)
sizes = st.none() | shares
noise_plots = st.builds(
    NoisePlot, st.lists(st.builds(NoiseRow, hostile_text, sizes, sizes, shares), max_size=6).map(tuple), hostile_text
)


@given(
    plot=st.one_of(interval_plots, run_plots(), quantile_plots(), load_plots, timelines, noise_plots),
    title=hostile_text,
    description=hostile_text,
)
def test_every_plot_becomes_a_sound_picture(plot: Plot, title: str, description: str) -> None:
    check_is_sound(draw_svg(figure(plot, title, description)))


@given(
    change=st.none() | shares,
    interval=st.none() | st.tuples(st.none() | shares, st.none() | shares),
    margin=shares,
    values=st.lists(st.none() | shares, min_size=12, max_size=12),
    verdict=st.sampled_from(Verdict),
)
def test_every_result_becomes_sound_pictures(change, interval, margin, values, verdict) -> None:  # type: ignore[no-untyped-def]
    one = a_series(change=change, interval=interval, margin=margin, run_values=values, verdict=verdict)
    for each in figures(failing().model_copy(update={"series": [one]})).values():
        check_is_sound(draw_svg(each))


@given(title=hostile_text)
def test_text_is_text_and_nothing_else(title: str) -> None:
    def plot(text: str) -> IntervalPlot:
        row = IntervalRow(text, 0.5, (0.1, 0.9), Verdict.WITHIN_MARGIN, text, text)
        return IntervalPlot((IntervalGroup(text, (row,)),), "90%", "a note")

    def shapes(svg: str) -> list[str]:
        return [one.tag for one in ET.fromstring(svg).iter() if one.tag not in (f"{SVG}text", f"{SVG}title")]

    assert shapes(draw_svg(figure(plot(title), title, title))) == shapes(draw_svg(figure(plot("x"))))


# The interval plot


def interval_svg(*series: dict[str, object]) -> str:
    made = [a_series(**{"scenario": f"s{place}", **one}) for place, one in enumerate(series)]  # type: ignore[arg-type]
    return draw_svg(figures(a_result(series=made))["intervals"])


def test_a_comparison_without_gated_series_has_a_picture_that_says_so() -> None:
    assert "No series gates" in draw_svg(figures(a_result(series=[]))["intervals"])


def test_a_check_has_no_picture() -> None:
    assert figures(checked()) == {}
    with pytest.raises(InputError, match="this report has no picture"):
        render_content(ResultView(checked()), "svg")


def test_an_interval_far_beyond_the_others_ends_in_an_arrow_with_its_size() -> None:
    near = {"change": 0.0, "interval": (-0.02, 0.02), "margin": 0.05}
    wide = {**near, "interval": (-0.02, 3.0), "verdict": Verdict.UNDECIDED}
    shown = [text for text, _ in texts_of(check_is_sound(interval_svg(*[near] * 9, wide)))]
    assert "60×" in shown
    assert "1×" in shown, "the others are still told apart"


@pytest.mark.parametrize(("sign", "text"), [(1, "20× to 60×"), (-1, "−60× to −20×")], ids=["worse", "better"])
def test_an_interval_that_is_beyond_the_axis_as_a_whole_stands_at_its_end(sign: int, text: str) -> None:
    near = {"change": 0.0, "interval": (-0.02, 0.02), "margin": 0.05}
    interval = tuple(sorted((sign * 1.0, sign * 3.0)))
    far = {**near, "change": sign * 2.0, "interval": interval, "verdict": Verdict.REGRESSION}
    root = check_is_sound(interval_svg(*[near] * 9, far))
    check_texts_are_apart(root)
    (box,) = [box for shown, box in texts_of(root) if shown == text]
    assert (box[2] > 500) if sign > 0 else (box[0] < 190)


def test_an_interval_without_an_end_says_so() -> None:
    shown = [text for text, _ in texts_of(check_is_sound(interval_svg({"interval": (-0.01, None)})))]
    assert "∞" in shown


def test_a_series_without_an_interval_has_its_mark_alone() -> None:
    root = check_is_sound(interval_svg({"interval": None}))
    assert any("no interval" in text for text, _ in texts_of(root))


def test_a_series_that_could_not_be_estimated_says_so() -> None:
    root = check_is_sound(interval_svg({"change": None, "interval": None, "verdict": Verdict.UNDECIDED}))
    assert "not estimated" in [text for text, _ in texts_of(root)]


def test_percentage_points_and_percent_stand_beside_their_numbers() -> None:
    svg = interval_svg({"name": "failed_requests", "margin": 0.005, "change": 0.001}, {"name": "ttft_mean"})
    shown = {text for text, _ in texts_of(check_is_sound(svg))}
    assert {"0.5 pp", "10%"} <= shown
    assert "loss, in multiples of the series' own margin" in shown


def test_five_thousand_series_become_the_worst_sixty_and_the_picture_says_so() -> None:
    series = [{"scenario": f"s{place // 8}", "change": place / 1e6} for place in range(5000)]
    svg = interval_svg(*series)
    assert "The 60 worst of 5000 gated series." in svg
    assert len(svg) < 60_000


def test_the_shape_of_a_mark_tells_its_verdict_without_colours() -> None:
    marks = set()
    for verdict in Verdict:
        root = check_is_sound(interval_svg({"verdict": verdict}))
        path = next(
            one
            for one in root.iter(f"{SVG}path")
            if f"fill-{verdict.value}" in one.get("class", "") or ("fill-paper" in one.get("class", ""))
        )
        marks.add(re.sub(r"-?[\d.]+ ", "", path.attrib["d"]))
    assert len(marks) == len(Verdict)


# Throughput against latency


def load_figure(*curves: LoadCurveOut) -> Figure:
    return figures(failing().model_copy(update={"load_curves": list(curves)}))["loads"]


def test_each_side_has_a_mark_for_each_load_and_one_number_where_both_are_close() -> None:
    root = check_is_sound(draw_svg(load_figure(a_load_curve())))
    check_texts_are_apart(root)
    shown = [text for text, _ in texts_of(root)]
    assert [shown.count(load) for load in ("1", "8", "32", "64", "128")] == [1] * 5
    marks = [one.get("class") for one in root.iter(f"{SVG}path") if one.find(f"{SVG}title") is not None]
    assert (marks.count("fill-baseline"), marks.count("fill-candidate")) == (5, 5)


def test_a_promise_is_a_line_with_its_words() -> None:
    with_promise = draw_svg(load_figure(a_load_curve(limit=0.5)))
    assert "promise: at most 500.0 ms" in with_promise
    assert "stroke-dasharray" in with_promise
    assert "stroke-dasharray" not in draw_svg(load_figure(a_load_curve()))


def test_a_load_at_which_requests_were_never_answered_has_no_mark_but_a_row() -> None:
    curve = a_load_curve()
    never = curve.points[-1].candidate_latency.model_copy(update={"level": None, "interval": (0.9, None)})
    last = curve.points[-1].model_copy(update={"candidate_latency": never})
    drawn = load_figure(curve.model_copy(update={"points": [*curve.points[:-1], last]}))
    root = check_is_sound(draw_svg(drawn))
    marks = [one.get("class") for one in root.iter(f"{SVG}path") if one.find(f"{SVG}title") is not None]
    assert (marks.count("fill-baseline"), marks.count("fill-candidate")) == (5, 4)
    assert list(drawn.table.rows)[-1].cells[4] == "n/a"


# Long series


@given(
    values=st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=50).map(lambda some: some * 400),
    changes=st.lists(st.integers(1, 49), max_size=5),
)
def test_a_long_series_keeps_its_ends_extremes_and_changes(values: list[float], changes: list[int]) -> None:
    kept = shape_points(values, changes)
    assert kept == sorted(set(kept))
    assert {at for at in changes if at < len(values)} <= set(kept)
    known = [at for at, value in enumerate(values) if not math.isnan(value)]
    if known:
        assert {known[0], known[-1]} <= set(kept)
        of_kept = [values[at] for at in kept if not math.isnan(values[at])]
        assert (min(of_kept), max(of_kept)) == (min(values[at] for at in known), max(values[at] for at in known))


def test_ten_thousand_points_are_a_small_picture() -> None:
    values = tuple(100 + math.sin(at / 300) + (5 if at > 7000 else 0) for at in range(10_000))
    change = TimelineChange(7001, 7000, 7001, "step of +5.0%, worse", is_worse=True)
    panel = TimelinePanel("s/ttft_mean", "ms", values, tuple(map(str, range(10_000))), changes=(change,))
    svg = draw_svg(figure(TimelinePlot((panel,))))
    check_texts_are_apart(check_is_sound(svg))
    assert len(svg) < 30_000
    assert "1: step of +5.0%, worse" in svg


# Colours


def test_every_colour_has_a_rule_for_pages_and_a_value_in_the_picture() -> None:
    svg = draw_svg(figures(failing())["intervals"])
    for name in re.findall(r"(?:fill|stroke)-([a-z_]+)", svg):
        if name not in ("opacity", "width", "dasharray"):
            assert f".fill-{name}{{fill:{PALETTE[name][1]}}}" in theme_css(dark=True)
            assert f".stroke-{name}{{stroke:{PALETTE[name][0]}}}" in theme_css(dark=False)
    assert "style=" not in svg


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_and_marks_stand_out_from_what_is_behind_them(dark: bool) -> None:
    shade = {name: shades[dark] for name, shades in PALETTE.items()}
    for name in ("ink", "muted"):
        for ground in ("paper", "beyond", "gain", "changed"):
            assert contrast(shade[name], shade[ground]) >= 4.5, (name, ground)
    for name in ("regression", "undecided", "within_margin", "improvement", "baseline", "candidate", "issue"):
        assert contrast(shade[name], shade["paper"]) >= 3, name


# As files


def test_the_first_picture_is_taken_and_another_one_by_its_name() -> None:
    view = ResultView(failing())
    assert render_content(view, "svg") == draw_svg(figures(failing())["intervals"])
    assert render_content(view, "svg", RenderOptions(figure="runs")) == draw_svg(figures(failing())["runs"])


def test_an_unknown_picture_is_refused_with_the_names_of_those_that_exist() -> None:
    with pytest.raises(InputError, match=r"--figure: this report has no picture 'x' \(known: intervals, runs, dist"):
        render_content(ResultView(failing()), "svg", RenderOptions(figure="x"))
    with pytest.raises(InputError, match=r"did you mean 'intervals'"):
        render_content(ResultView(passing()), "svg", RenderOptions(figure="interval"))


def png(build: Callable[[], Result], **options: str) -> bytes:
    content = render_content(ResultView(build()), "png", RenderOptions(**options))
    assert isinstance(content, bytes)
    return content


@pytest.mark.parametrize("name", ["intervals", "runs", "distributions", "loads", "since"])
def test_a_png_has_twice_the_pixels_of_the_picture(name: str) -> None:
    content = png(failing, figure=name)
    root = ET.fromstring(draw_svg(figures(failing())[name]))
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    size = struct.unpack(">II", content[16:24])
    assert size == tuple(math.ceil(2 * float(root.attrib[side]) - 1e-6) for side in ("width", "height"))


def test_the_text_of_a_png_is_drawn() -> None:
    svg = draw_svg(figures(failing())["intervals"])
    without = re.sub(r"<text.*?</text>", "", svg, flags=re.DOTALL)
    assert len(png(failing)) > 1.5 * len(resvg_py.svg_to_bytes(svg_string=without, zoom=2))


def test_a_machine_without_fonts_is_told_that_text_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", lambda **options: draw(**options, skip_system_fonts=True))
    with pytest.warns(UserWarning, match="no font is installed, so the png has no text: install DejaVu Sans"):
        png(failing)
