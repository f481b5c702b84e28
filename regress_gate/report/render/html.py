"""A document as one HTML page that runs no script and loads nothing: for a browser, the files of a CI job, a printer.

Everything is in the page, folded where it is not needed for the decision, up to a size that browsers take well. The
markup is in `templates/blocks.html`; this module says which part of a document becomes which part of the page.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from regress_gate.report.document import (
    Bar,
    Block,
    Cell,
    Chart,
    Code,
    Column,
    Detail,
    Document,
    Entry,
    EntryList,
    Figure,
    Grid,
    Inline,
    ItemList,
    Line,
    Link,
    Pair,
    Pairs,
    Paragraph,
    Section,
    Sparkline,
    Style,
    Styled,
    Table,
    View,
    parts_of,
)
from regress_gate.report.figures import draw_svg, has_narrow_form
from regress_gate.report.figures.timeline import shape_points
from regress_gate.report.render.output_formats import RenderOptions
from regress_gate.report.render.pages import clean, environment

MAX_BYTES = 2_000_000
"""Of a page. A browser shows a larger one too, but slowly."""
_LADDER = (
    Detail(is_full=True, figures=True),
    Detail(is_full=True, figures=True, rows=1000, quiet_rows=1000),
    Detail(is_full=True, figures=True, rows=1000, quiet_rows=1000, issues=250),
    Detail(is_full=True, figures=True, rows=1000, quiet_rows=1000, issues=100),
    Detail(is_full=True, figures=True, rows=300, quiet_rows=0, issues=100, lines=300, reasons=100),
    Detail(figures=True, rows=100, quiet_series=False, quiet_issues=False, issues=50, lines=100, reasons=50),
)
_NAME = "regress-gate"
_TONES = {Style.GOOD: "good", Style.BAD: "bad", Style.WARNING: "warning"}
_DEEPEST_HEADING = 6
_BAR_SCALE = 4
"""Pixels for each sign that a bar is long on a terminal."""
_SPARKLINE_SIZE = 120, 24
_CHART_SIZE = 600, 96
_LINKED = re.compile(
    r"https://github\.com/(?P<name>[\w.-]+/[\w.-]+"
    r"(?:/(?:issues|pull|discussions)/\d+|/compare/[\w.-]+\.\.\.[\w.-]+|/commit/[0-9a-f]{7,40}|/releases/tag/[\w.+-]+)?)",
    re.ASCII,
)


def render(view: View, options: RenderOptions) -> str:
    """The fullest page within `MAX_BYTES`; never less than the last step of the ladder has."""
    return render_page(view, options, environment().get_template("report.html"))


def render_page(
    view: View, options: RenderOptions, template: Template, *, max_bytes: int = MAX_BYTES, **context: Any
) -> str:
    """`render` with a template that extends `report.html`, what that needs besides, and a limit of its own."""
    for step in _LADDER:
        parts = _Writer().write(view.document(replace(step, verbose=options.verbose)))
        page = template.render({**context, **parts})
        if len(page.encode()) <= max_bytes:
            break
    if options.encoding.replace("_", "-").lower() not in ("utf-8", "utf8"):
        # The page says that it is UTF-8; ASCII is that in every encoding.
        return page.encode("ascii", "xmlcharrefreplace").decode()
    return page


@dataclass(frozen=True, slots=True)
class _Cell:
    text: Any
    detail: str
    label: str
    """Title of the column, where there is no room for a head above the cells."""
    is_head: bool
    classes: str


_VERDICT = re.compile("[A-Z][A-Z ]*: ")
"""What stands out before the rest of a heading. Names of versions and files may have a colon, too."""


class _Writer:
    def __init__(self) -> None:
        self._macros: Any = environment().get_template("blocks.html").module
        self._title = ""
        self._names: Counter[str] = Counter()
        self._contents: list[tuple[str, str]] = []

    def write(self, document: Document) -> dict[str, Any]:
        """The parts of the page, as `report.html` names them."""
        heading = _plain(document.title) or document.name or _NAME
        tone = next((_TONES.get(part.style, "") for part in parts_of(document.title) if isinstance(part, Styled)), "")
        word, _, rest = heading.partition(": ") if tone and _VERDICT.match(heading) else ("", "", heading)
        self._title = document.name or _NAME
        leads = [block for block in document.blocks if isinstance(block, Paragraph) and block.is_lead]
        content = self._blocks([block for block in document.blocks if block not in leads], depth=0)
        return {
            "page_title": " · ".join(dict.fromkeys(filter(None, (heading, document.subtitle, _NAME)))),
            "tone": tone,
            "shape": self._macros.shape(tone),
            "word": word if rest else "",
            "heading": rest or heading,
            "subtitle": document.subtitle,
            "lead": Markup(" ").join(self._line(block.text) for block in leads),
            "contents": self._contents,
            "content": content,
        }

    def _blocks(self, blocks: Iterable[Block], depth: int) -> Markup:
        return Markup("").join(self._block(block, depth) for block in blocks)

    def _block(self, block: Block, depth: int) -> Markup:
        match block:
            case Paragraph():
                markup = self._macros.paragraph(self._line(block.text))
            case Pairs():
                markup = self._pairs(block.pairs)
            case ItemList():
                markup = self._macros.items([self._line(item) for item in block.items], block.is_ordered)
            case EntryList():
                markup = self._entries(block.entries, depth)
            case Table():
                markup = self._table(block)
            case Grid():
                markup = self._grid(block)
            case Chart():
                markup = self._chart(block)
            case Figure():
                markup = self._figure(block, depth)
            case Section():
                return self._section(block, depth)
        return Markup(markup)  # nosec B704 # noqa: S704 - of our own templates

    def _section(self, section: Section, depth: int) -> Markup:
        id_ = ""
        if not depth:
            id_ = f"part-{len(self._contents) + 1}"
            self._contents.append((id_, section.title))
        before, self._title = self._title, section.title
        content = self._blocks(section.blocks, depth + 1)
        self._title = before
        level = _heading(depth)
        markup: Markup = self._macros.section(id_, level, section.title, content, section.is_folded)
        return markup

    def _figure(self, figure: Figure, depth: int) -> Any:
        picture = Markup(draw_svg(figure, heading=False))  # nosec B704 # noqa: S704 - it escapes its texts
        before, self._title = self._title, figure.title
        table = self._table(figure.table, is_cards=False)  # wide, and read beside the picture
        self._title = before
        narrow = ""
        if has_narrow_form(figure):
            narrow = Markup(draw_svg(figure, heading=False, is_narrow=True))  # nosec B704 # noqa: S704 - as above
        return self._macros.figure(_heading(depth), figure.title, figure.description, picture, narrow, table)

    def _pairs(self, pairs: Iterable[Pair]) -> Any:
        return self._macros.pairs(
            [(pair.label, [self._line(line) for line in (pair.text, *pair.more)]) for pair in pairs]
        )

    def _entries(self, entries: Sequence[Entry], depth: int) -> Any:
        rows = [
            (
                self._line(entry.head),
                entry.text,
                entry.note,
                self._pairs(entry.pairs) if entry.pairs else "",
                entry.is_short,
            )
            for entry in entries
        ]
        return self._macros.entries(rows, _heading(depth))

    def _table(self, table: Table, *, is_cards: bool = True) -> Any:
        """`is_cards`: a narrow page shows each row as a card; else the table scrolls."""
        columns = table.columns
        has_heads = any(column.title.strip() for column in columns)
        groups = []
        for group in table.groups:
            rows = []
            for row in group.rows:
                cells = []
                for index, (one, column) in enumerate(zip(row.cells, columns, strict=True)):
                    cell = one if isinstance(one, Cell) else Cell(one)
                    text = self._inline(cell.text)
                    if row.mark and not index:
                        text = Markup("{} {}").format(row.mark, text)
                    is_head = has_heads and not index and bool(text)
                    label = "" if is_head or not text else column.title.strip()
                    classes = _classes(column, is_head=is_head)
                    cells.append(_Cell(text, cell.detail, label, is_head, classes))
                rows.append({"cells": cells, "is_muted": row.is_muted})
            groups.append({"title": group.title, "rows": rows})
        heads = [(column.title.strip(), column.detail, _classes(column)) for column in columns]
        return self._macros.table(self._name(), heads, groups, is_cards)

    def _grid(self, grid: Grid) -> Any:
        meanings = dict(grid.meanings)
        rows = [
            (
                row.title,
                [
                    ""
                    if sign is None
                    else self._macros.sign(sign.text, sign.style.value, meanings.get(sign.text, sign.text))
                    for sign in row.signs
                ],
            )
            for row in grid.rows
        ]
        return self._macros.grid(self._name(), grid.title, grid.columns, rows)

    def _name(self) -> str:
        """Of a table: that of the section it stands in, with a number where the section has several."""
        self._names[self._title] += 1
        number = self._names[self._title]
        return self._title if number == 1 else f"{self._title} ({number})"

    def _line(self, line: Line) -> Markup:
        return Markup("").join(map(self._inline, parts_of(line))).strip()

    def _inline(self, part: Inline) -> Markup:
        match part:
            case str():
                return Markup.escape(clean(part))
            case Styled(text, style):
                markup = text if style is Style.PLAIN else self._macros.styled(text, style.value)
            case Code(text):
                markup = self._macros.code(text)
            case Link(url):
                match = _LINKED.fullmatch(url)
                markup = self._macros.link(url, match["name"]) if match else url
            case Sparkline():
                markup = self._polyline(part.values, part.least_span, *_SPARKLINE_SIZE)
            case Bar():
                length = 0.0 if part.largest <= 0 else min(max(part.value / part.largest, 0.0), 1.0)
                width = part.width * _BAR_SCALE
                markup = self._macros.bar(width, f"{length * width:.1f}")
        return markup if isinstance(markup, Markup) else Markup.escape(clean(markup))

    def _chart(self, chart: Chart) -> Any:
        """A line between the names of its ends: where a view has a picture for a page, it gives that."""
        line = self._polyline(chart.values, 0.0, *(_SPARKLINE_SIZE if chart.is_small else _CHART_SIZE))
        return self._macros.paragraph(Markup("{} {} {}").format(clean(chart.first), line, clean(chart.last)))

    def _polyline(self, values: Sequence[float], least_span: float, width: int, height: int) -> Any:
        known = [value for value in values if math.isfinite(value)]
        if not known:
            return "no values"
        low, high = min(known), max(known)
        span = max(high - low, least_span) or 1.0
        base = (low + high - span) / 2
        step = (width - 6) / max(len(values) - 1, 1)
        points = [
            (f"{3 + index * step:.1f}", f"{height - 3 - (values[index] - base) / span * (height - 6):.1f}")
            if math.isfinite(values[index])
            else None
            for index in shape_points(values, parts=width // 4)
        ]
        lines, dots = _runs(points)
        label = f"{len(known)} values"
        if known[0]:
            label += f", the last {(known[-1] - known[0]) / abs(known[0]):+.1%} from the first"
        return self._macros.sparkline(lines, dots, width, height, label)


def _runs(points: Sequence[tuple[str, str] | None]) -> tuple[list[str], list[tuple[str, str]]]:
    """Lines through neighbouring points, and the points that have no neighbour."""
    lines: list[list[tuple[str, str]]] = [[]]
    for point in points:
        if point is None:
            lines.append([])
        else:
            lines[-1].append(point)
    dots = [line[0] for line in lines if len(line) == 1]
    return [" ".join(",".join(point) for point in line) for line in lines if len(line) > 1], dots


def _classes(column: Column, *, is_head: bool = False) -> str:
    """Of a cell: `number` stands right, the words of `short` are broken nowhere. A head of a row is never a number."""
    return " ".join(["number"] * (column.is_right and not is_head) + ["short"] * column.is_short)


def _heading(depth: int) -> int:
    """The level of a heading below the page's own."""
    return min(depth + 2, _DEEPEST_HEADING)


def _plain(line: Line) -> str:
    return "".join(part if isinstance(part, str) else getattr(part, "text", "") for part in parts_of(line))
