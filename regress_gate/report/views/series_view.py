"""The series of a comparison: all gated verdicts at a glance, the series that decide in full, and the rest on demand.

Changes are shown as they happened: throughput that rises is positive, and the words say whether that is better or
worse. Not for the order of the report, which is `result_view`'s.
"""

import math
from collections import Counter
from collections.abc import Sequence
from enum import Enum

from regress_gate.model.metric import METRICS
from regress_gate.model.result import Result, SeriesResult, Verdict
from regress_gate.report.document import (
    Block,
    Cell,
    Column,
    Detail,
    Grid,
    GridColumn,
    GridRow,
    Inline,
    Line,
    Pair,
    Pairs,
    Paragraph,
    Row,
    RowGroup,
    Section,
    Style,
    Styled,
    Table,
)
from regress_gate.report.views import units
from regress_gate.text import clip, plural

MOST_DECISIVE = 8
"""Series that are worse or undecided, and stand in full on a terminal."""
MOST_GRID_ROWS = 12
"""Scenarios above which a terminal shows only those with something worse or undecided."""
_LONGEST_METRIC = 26
_LONGEST_NAME = 44
_LONGEST_VALUES = 30

_VERDICT_ORDER = [Verdict.REGRESSION, Verdict.UNDECIDED, Verdict.WITHIN_MARGIN, Verdict.IMPROVEMENT]
_VERDICT_STYLE = {
    Verdict.REGRESSION: Style.BAD,
    Verdict.IMPROVEMENT: Style.GOOD,
    Verdict.WITHIN_MARGIN: Style.PLAIN,
    Verdict.UNDECIDED: Style.WARNING,
}
_SIGNS = {
    verdict: Styled(sign, _VERDICT_STYLE[verdict])
    for verdict, sign in (
        (Verdict.REGRESSION, "✗"),
        (Verdict.UNDECIDED, "?"),
        (Verdict.WITHIN_MARGIN, "✓"),
        (Verdict.IMPROVEMENT, "▲"),
    )
}
_LEGEND = "* gates the decision. ± is the spread between runs, n their number."


class SeriesFilter(Enum):
    """Which series get a row. A regression always does, whether it gates or not."""

    WORRYING = 0
    """Gated ones that are worse or undecided."""
    GATED = 1
    ALL = 2


def split_series(series: Sequence[SeriesResult], which: SeriesFilter) -> tuple[list[SeriesResult], list[SeriesResult]]:
    """The series that get a row, and those that do not."""
    return [one for one in series if _is_shown(one, which)], [one for one in series if not _is_shown(one, which)]


def _is_shown(one: SeriesResult, which: SeriesFilter) -> bool:
    if one.verdict is Verdict.REGRESSION or which is SeriesFilter.ALL:
        return True
    return one.gated and (which is SeriesFilter.GATED or one.verdict is Verdict.UNDECIDED)


def series_section(result: Result, detail: Detail) -> Section:
    if not result.series:
        return Section("Series", (Paragraph("No series was measured on both sides."),))
    blocks: list[Block] = [Paragraph(series_tally(result.series, detail)), *_grid(result.series, detail)]
    if detail.is_page:
        blocks += _page_series(result.series, detail)
    elif detail.verbose:
        blocks += [*full_table(result.series), Paragraph(Styled(_LEGEND, Style.MUTED))]
    else:
        blocks += _terminal_series(result.series)
    return Section("Series", tuple(blocks))


def series_tally(series: Sequence[SeriesResult], detail: Detail) -> Line:
    """`3 gated series: ✗ 1 regression, ✓ 2 within_margin.` It is the legend of the grid, too."""
    gated = Counter(one.verdict for one in series if one.gated)
    parts: list[Inline] = [f"{gated.total()} gated series"]
    for verdict in filter(gated.get, _VERDICT_ORDER):
        adjective = verdict if verdict in (Verdict.WITHIN_MARGIN, Verdict.UNDECIDED) else None
        parts += [": " if len(parts) == 1 else ", ", _SIGNS[verdict], f" {plural(gated[verdict], verdict, adjective)}"]
    parts.append(".")
    if not detail.is_page and not detail.verbose:
        others = len(series) - gated.total()
        rest = f"{plural(others, 'more does not gate', 'more do not gate')}; " if others else ""
        parts.append(f" {rest}-v shows all in full.")
    return tuple(parts)


# At a glance


def _grid(series: Sequence[SeriesResult], detail: Detail) -> list[Block]:
    """One sign for each gated series: a row is a scenario, a column a metric."""
    gated = [one for one in series if one.gated]
    known = list(METRICS)
    metrics = sorted(
        {one.metric for one in gated}, key=lambda name: known.index(name) if name in METRICS else len(known)
    )
    signs: dict[str, dict[str, Styled]] = {}
    for one in gated:
        signs.setdefault(one.scenario, {})[one.metric] = _SIGNS[one.verdict]
    worrying = {one.scenario for one in split_series(gated, SeriesFilter.WORRYING)[0]}
    is_long = not detail.verbose and not detail.is_page and len(signs) > MOST_GRID_ROWS
    shown = [name for name in signs if name in worrying or not (is_long or not detail.quiet_series)][: detail.rows]
    blocks: list[Block] = []
    if shown:
        blocks.append(
            Grid(
                title="scenario",
                columns=tuple(_grid_column(name) for name in metrics),
                rows=tuple(GridRow(name, tuple(map(signs[name].get, metrics))) for name in shown),
                meanings=tuple((sign.text, verdict.replace("_", " ")) for verdict, sign in _SIGNS.items()),
            )
        )
    if is_long and (rest := len(signs) - len(shown)):
        blocks.append(Paragraph(f"{plural(rest, 'more scenario')} with nothing worse or undecided"))
    return blocks


def _grid_column(metric: str) -> GridColumn:
    """`ttft_median` as `median` below `ttft`."""
    group, _, title = metric.rpartition("_")
    return GridColumn(title, group)


# In full


def _terminal_series(series: Sequence[SeriesResult]) -> list[Block]:
    worrying = decisive_series(series)
    shown = worrying[:MOST_DECISIVE] or nearest_series(series)
    blocks = _decisive_table(shown, is_worrying=bool(worrying), is_page=False)
    hidden = len(worrying) - len(shown)
    return [*blocks, *([Paragraph(f"and {hidden} more worse or undecided: -v shows them")] if hidden > 0 else [])]


def _page_series(series: Sequence[SeriesResult], detail: Detail) -> list[Block]:
    worrying = decisive_series(series)
    _, quiet = split_series(series, SeriesFilter.WORRYING)
    quiet_gated, others = split_series(quiet, SeriesFilter.GATED)
    decisive = worrying or nearest_series(series)
    blocks = _decisive_table(decisive[: detail.rows], is_worrying=bool(worrying), is_page=True)
    if detail.quiet_series:
        for title, rest in (
            ("Gated series that are within their margins", quiet_gated),
            ("Series that do not gate", others),
        ):
            shown = rest[: detail.quiet_rows]
            blocks += [Section(title, tuple(full_table(shown)), is_folded=True)] if shown else []
    return blocks


def decisive_series(series: Sequence[SeriesResult]) -> list[SeriesResult]:
    """Those that are worse or undecided: the gated first, in each the regressions first, the largest losses first."""
    return worst_first(split_series(series, SeriesFilter.WORRYING)[0])


def worst_first(series: Sequence[SeriesResult]) -> list[SeriesResult]:
    """The gated first, in each the regressions first, then what is undecided; of each the largest losses first."""
    return sorted(series, key=lambda one: (not one.gated, _VERDICT_ORDER.index(one.verdict), -_share_of_margin(one)))


def nearest_series(series: Sequence[SeriesResult]) -> list[SeriesResult]:
    """The gated series that came nearest to its margin, if one changed: one that got worse, if there is one."""
    changed = sorted((one for one in series if one.gated and one.change), key=lambda one: -_share_of_margin(one))
    worse = [one for one in changed if one.change is not None and one.change > 0]
    return (worse or changed)[:1]


def _share_of_margin(one: SeriesResult) -> float:
    """The estimated loss of a regression, the largest possible loss of any other series, as a share of its margin."""
    largest = None if one.interval is None else one.interval[1]
    loss = one.change if one.verdict is Verdict.REGRESSION else largest
    return math.inf if loss is None or one.margin <= 0 else loss / one.margin


def _decisive_table(series: Sequence[SeriesResult], *, is_worrying: bool, is_page: bool) -> list[Block]:
    """On a terminal the scenario stands beside or below the metric, because a row must not be too wide."""
    if not series:
        return []
    notes: dict[str, int] = {}
    title = "worse or undecided" if is_worrying else "nearest to its margin"
    first = Column(title, max_width=_LONGEST_NAME) if is_page else Column(title, "scenario", max_width=_LONGEST_METRIC)
    rows = (
        _row(one, one.name, "", notes) if is_page else _row(one, one.metric, clip(one.scenario, _LONGEST_METRIC), notes)
        for one in series
    )
    return [Table.of(_columns(series, first), tuple(rows)), *_footnotes(notes)]


def full_table(series: Sequence[SeriesResult]) -> list[Block]:
    """By scenario; in each the gated series first, the worst of them first; then footnotes."""
    notes: dict[str, int] = {}
    scenarios: dict[str, list[SeriesResult]] = {}
    for one in series:
        scenarios.setdefault(one.scenario, []).append(one)
    table = Table(
        columns=_columns(series, Column("metric", max_width=_LONGEST_METRIC)),
        groups=tuple(
            RowGroup(
                name, tuple(_row(one, one.metric, "", notes, has_mark=True) for one in sorted(members, key=_row_order))
            )
            for name, members in scenarios.items()
        ),
        group_title="scenario",
    )
    return [table, *_footnotes(notes)]


def _row_order(one: SeriesResult) -> tuple[bool, int]:
    return not one.gated, _VERDICT_ORDER.index(one.verdict)


def _columns(series: Sequence[SeriesResult], first: Column) -> tuple[Column, ...]:
    return (
        first,
        Column("baseline → candidate", "± cv, n", max_width=_LONGEST_VALUES),
        Column("change", f"[{confidence_text(series)} interval]"),
        Column("margin", below=0),
        Column("verdict", "(runs a side)"),
    )


def _footnotes(notes: dict[str, int]) -> list[Block]:
    pairs = tuple(Pair(f"[{number}]", note) for note, number in notes.items())
    return [Pairs(pairs)] if pairs else []


def _row(one: SeriesResult, name: str, detail: str, notes: dict[str, int], *, has_mark: bool = False) -> Row:
    """`notes`: footnotes with their numbers; those of this series are added."""
    numbers = [str(notes.setdefault(note, len(notes) + 1)) for note in one.notes]
    remark = "" if one.gated or has_mark else "does not gate"
    return Row(
        (
            Cell(name, f"{detail} [{','.join(numbers)}]".strip() if numbers else detail),
            Cell(
                units.both_values((one.baseline.mean, one.candidate.mean), one.unit, one.metric),
                units.spreads((one.baseline.cv, one.candidate.cv), (one.baseline.runs, one.candidate.runs)),
            ),
            Cell(Styled(change_text(one), _change_style(one)), units.interval(one.natural_interval)),
            units.margin(one.margin, one.scale),
            Cell(Styled(one.verdict.value, _VERDICT_STYLE[one.verdict]), _runs_needed(one) or remark),
        ),
        mark="*" if one.gated and has_mark else "",
        is_muted=not one.gated,
    )


def change_text(one: SeriesResult) -> str:
    """`+24.7% better`: what happened, and whether that is good."""
    shown = units.change(one.natural_change, one.scale)
    if one.change is None or units.change(0.0, one.scale) == shown:
        return shown
    return f"{shown} {'worse' if one.change > 0 else 'better'}"


def _change_style(one: SeriesResult) -> Style:
    """A colour only for what is shown: where the interval leaves no doubt of the direction."""
    low, high = one.interval or (None, None)
    if low is not None and low > 0:
        return Style.BAD if one.verdict is Verdict.REGRESSION else Style.WARNING
    return Style.GOOD if high is not None and high < 0 else Style.PLAIN


def _runs_needed(one: SeriesResult) -> str:
    """`needs 4 more`, of the side that has fewer; empty if decided or not known."""
    if one.verdict is not Verdict.UNDECIDED or one.runs_needed is None:
        return ""
    more = one.runs_needed - min(one.baseline.runs, one.candidate.runs)
    return f"needs {more} more" if more > 0 else ""


def confidence_text(series: Sequence[SeriesResult]) -> str:
    """`95%`; the two ends where the series differ in it."""
    levels = sorted({one.confidence for one in series})
    return " to ".join(units.percent(level) for level in (levels[:1] + levels[1:][-1:]))
