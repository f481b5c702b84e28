"""The series of the terminal report: one line for each where the terminal is wide, two or three where it is not."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from rich.cells import cell_len
from rich.text import Text

from regress_gate.model.result import Result, Verdict
from regress_gate.report.render.terminal_canvas import GAP, Canvas
from regress_gate.report.views import result_view
from regress_gate.report.views.result_view import Row, SeriesFilter, SeriesView

_VERDICT_STYLE = {
    Verdict.REGRESSION: "bold red",
    Verdict.IMPROVEMENT: "green",
    Verdict.EQUIVALENT: "",
    Verdict.INCONCLUSIVE: "yellow",
}
_LEGEND = "Change: + is worse, for every metric. * gates the decision. ± is the spread between runs."
_LONGEST_METRIC = 26
_LONGEST_VALUE = 14


@dataclass(frozen=True, slots=True)
class _Layout:
    """A way to lay a row out in columns; the last column is the verdict."""

    header: list[str]
    cells: Callable[[Row], list[str]]
    """One text per column, its lines separated by newlines."""


def paint_series(canvas: Canvas, result: Result, *, verbose: bool) -> None:
    canvas.heading("Series")
    if not result.series:
        canvas.line("No series was measured on both sides.", indent=2)
        return
    show = (
        SeriesFilter.ALL
        if verbose
        else SeriesFilter.WORRYING
        if result_view.has_too_many_rows(result.series)
        else SeriesFilter.GATED
    )
    shown, hidden = result_view.split_series(result.series, show)
    series = result_view.series_view(shown)
    canvas.line(f"{result_view.tally(result.series)}.", indent=2)
    if series.scenarios:
        canvas.line(_LEGEND, "dim", indent=2)
        canvas.gap()
        _paint_scenarios(canvas, series)
    if series.notes:
        canvas.gap()
        canvas.pairs([(f"[{number}]", note) for number, note in enumerate(series.notes, 1)])
    if hidden:
        canvas.gap()
        canvas.line(f"Not shown: {result_view.hidden_series_text(hidden)}; -v shows them.", "dim", indent=2)


def _paint_scenarios(canvas: Canvas, series: SeriesView) -> None:
    scenarios = [(one.name, [_plain(canvas, row) for row in one.rows]) for one in series.scenarios]
    rows = [row for _, members in scenarios for row in members]
    layout, widths = _fitting_layout(canvas, rows, series.confidence)
    if layout is not None:
        canvas.columns([[Text(canvas.lines(cell), style="dim") for cell in layout.header]], widths)
    for number, (name, members) in enumerate(scenarios):
        if number or layout is not None:
            canvas.gap()
        canvas.line(canvas.shorten(name, 2 * canvas.width), "bold")
        for row in members:
            if layout is None:
                _paint_stacked(canvas, row)
            else:
                canvas.columns([_styled(layout.cells(row), row)], widths)


def _plain(canvas: Canvas, row: Row) -> Row:
    """The row with nothing in it that the terminal would obey or that would break a column."""
    mark = "* " if row.gated else "  "
    return replace(
        row,
        metric=mark + canvas.shorten(row.metric, _LONGEST_METRIC),
        baseline=canvas.shorten(row.baseline, _LONGEST_VALUE),
        baseline_spread=canvas.plain(row.baseline_spread),
        candidate=canvas.shorten(row.candidate, _LONGEST_VALUE),
        candidate_spread=canvas.plain(row.candidate_spread),
        change=canvas.plain(row.change),
        interval=canvas.plain(row.interval),
    )


def _styled(cells: list[str], row: Row) -> list[Text]:
    texts = [Text(cell, style="" if row.gated else "dim") for cell in cells]
    texts[-1].stylize(_VERDICT_STYLE[row.verdict])
    return texts


def _fitting_layout(canvas: Canvas, rows: list[Row], confidence: str) -> tuple[_Layout | None, list[int]]:
    """The layout with the fewest lines that fits, with one width per column for all scenarios; None if none fits."""
    for layout in (_one_line(confidence), _two_lines(confidence)):
        table = [[canvas.lines(cell) for cell in layout.header], *map(layout.cells, rows)]
        widths = [
            max(cell_len(line) for cell in column for line in cell.split("\n")) for column in zip(*table, strict=True)
        ]
        if sum(widths) + GAP * (len(widths) - 1) <= canvas.width:
            return layout, widths
    return None, []


def _one_line(confidence: str) -> _Layout:
    return _Layout(
        header=[
            "  metric",
            "baseline ± cv",
            "candidate ± cv",
            "change",
            f"[{confidence} interval]",
            "margin",
            "verdict (runs a side)",
        ],
        cells=lambda row: [
            row.metric,
            f"{row.baseline} {row.baseline_spread}",
            f"{row.candidate} {row.candidate_spread}",
            row.change,
            row.interval,
            row.margin,
            f"{'~ ' + row.needs if row.needs else row.verdict_word} {row.notes}".rstrip(),
        ],
    )


def _two_lines(confidence: str) -> _Layout:
    return _Layout(
        header=[
            "  metric\n  margin",
            "baseline\n± cv, n",
            "candidate\n± cv, n",
            f"change\n[{confidence} interval]",
            "verdict\n(runs a side)",
        ],
        cells=lambda row: [
            f"{row.metric}\n  {row.margin} {row.notes}",
            f"{row.baseline}\n{row.baseline_spread}",
            f"{row.candidate}\n{row.candidate_spread}",
            f"{row.change}\n{row.interval}",
            f"{row.verdict_word}\n{row.needs}",
        ],
    )


def _paint_stacked(canvas: Canvas, row: Row) -> None:
    needs = f", {row.needs} runs a side" if row.needs else ""
    head = Text.assemble(row.metric, "  ", (row.verdict_word + needs, _VERDICT_STYLE[row.verdict]))
    canvas.put(head)
    style = "" if row.gated else "dim"
    sides = f"{row.baseline} {row.baseline_spread} → {row.candidate} {row.candidate_spread}"
    canvas.line(sides, style, indent=4)
    canvas.line(f"{row.change} {row.interval}, margin {row.margin} {row.notes}", style, indent=4)
