"""A document for a terminal: lines of text within a width, with or without colour, in the signs of the encoding.

Every text is cleaned here, so that nothing from outside reaches the terminal as a command.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

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
    Row,
    Section,
    Sparkline,
    Style,
    Styled,
    Table,
    View,
    parts_of,
)
from regress_gate.report.render.output_formats import RenderOptions
from regress_gate.text import for_encoding, one_line

NARROWEST = 40
GAP = 2
_INDENT = 2
_ELLIPSIS = "…"
_LEAST_TEXT = 20
"""Columns that the text of a short entry gets at least."""
_LONGEST_SUBTITLE = 120
"""Two full commit ids and the arrow fit."""
_STYLES = {
    Style.PLAIN: "",
    Style.STRONG: "bold",
    Style.MUTED: "dim",
    Style.GOOD: "green",
    Style.BAD: "bold red",
    Style.WARNING: "yellow",
}


def render(view: View, options: RenderOptions) -> str:
    return _Writer(options).write(view.document(Detail(verbose=options.verbose, is_page=False)))


class _Writer:
    def __init__(self, options: RenderOptions):
        self.width = max(options.width, NARROWEST)
        self._encoding = options.encoding
        self._buffer = io.StringIO()
        self._console = Console(
            file=self._buffer,
            width=self.width,
            force_terminal=options.color,
            color_system="standard" if options.color else None,
            no_color=not options.color,
            legacy_windows=False,
            markup=False,
            highlight=False,
            emoji=False,
            # The options say all there is to know; the environment must not change a report a second time.
            _environ={},
        )

    def write(self, document: Document) -> str:
        title = self.text(document.title, "bold")
        if document.subtitle:
            title.append("   " + self.shorten(document.subtitle, _LONGEST_SUBTITLE), "bold")
        if title.plain:
            self.put(title)
            if document.blocks and not isinstance(document.blocks[0], Paragraph):
                self.gap()
        self._blocks(document.blocks, depth=0)
        lines = [line.rstrip() for line in self._buffer.getvalue().splitlines()]
        text = "\n".join(lines).strip("\n")
        return f"{text}\n" if text else ""

    def _blocks(self, blocks: Sequence[Block], depth: int) -> None:
        for number, block in enumerate(blocks):
            if number and _is_apart(blocks[number - 1], block, depth):
                self.gap()
            self._block(block, depth)

    def _block(self, block: Block, depth: int) -> None:
        indent = _INDENT if depth else 0
        match block:
            case Paragraph():
                self.put(self.text(block.text), indent)
            case Pairs():
                self._pairs(block.pairs, max(indent, _INDENT), self._label_width(block.pairs))
            case ItemList():
                self._items(block, max(indent, _INDENT))
            case EntryList():
                self._entries(block, indent)
            case Table():
                _TableWriter(self, block, 0 if block.group_title else indent).write()
            case Grid():
                self._grid(block, max(indent, _INDENT))
            case Chart():
                self._chart(block, max(indent, _INDENT))
            case Figure():
                self._block(Section(block.title, (block.table,)), depth)
            case Section():
                title = f"{block.title}:" if depth else block.title
                self.put(self.text(title, "underline" if depth else "bold"), indent)
                self._blocks(block.blocks, depth + 1)

    def _pairs(self, pairs: Iterable[Pair], indent: int, label_width: int) -> None:
        """Texts beside their labels; a label that leaves too little room for its text has a line for itself."""
        rows: list[list[Text]] = []
        for pair in pairs:
            label, lines = self.text(pair.label, "dim"), [self.text(line) for line in (pair.text, *pair.more)]
            if label.cell_len > self.width // 2:
                self.columns(rows, [label_width, None], indent)
                rows = []
                for line, more in ((label, 0), *((line, _INDENT) for line in lines)):
                    self.put(line, indent + more)
            else:
                rows += [[label, lines[0]], *([Text(), line] for line in lines[1:])]
        self.columns(rows, [label_width, None], indent)

    def _label_width(self, pairs: Iterable[Pair]) -> int:
        widths = (cell_len(self.plain(pair.label)) for pair in pairs)
        return max((width for width in widths if width <= self.width // 2), default=0)

    def _items(self, block: ItemList, indent: int) -> None:
        marks = [str(number) if block.is_ordered else "-" for number, _ in enumerate(block.items, 1)]
        rows = [[Text(mark), self.text(item)] for mark, item in zip(marks, block.items, strict=True)]
        self.columns(rows, [max(map(len, marks), default=0), None], indent)

    def _entries(self, block: EntryList, indent: int) -> None:
        width = self._label_width(pair for entry in block.entries for pair in entry.pairs)
        for number, entry in enumerate(block.entries):
            if number and not (entry.is_short and block.entries[number - 1].is_short):
                self.gap()
            if entry.is_short:
                self._short_entry(entry, indent)
                continue
            self.put(self.text(entry.head), indent)
            text = f"{entry.text} ({entry.note})" if entry.note else entry.text
            self.put(self.text(text), indent + _INDENT)
            self._pairs(entry.pairs, indent + _INDENT, width)

    def _short_entry(self, entry: Entry, indent: int) -> None:
        head = self.text((*entry.head, ":"))
        note = self.plain(f"({entry.note})") if entry.note else ""
        text, end = self.plain(entry.text), self.plain(_ELLIPSIS)
        room = max(self.width - indent - head.cell_len - cell_len(note) - 2, _LEAST_TEXT)
        if cell_len(text) > room:
            text = set_cell_size(text, room - len(end)).rstrip() + end
        head.append(f" {text} {note}".rstrip())
        self.put(head, indent)

    def _grid(self, grid: Grid, indent: int) -> None:
        """Columns that do not fit beside the others stand below them, with the rows that have a sign there."""
        titles = [self.shorten(row.title, self.width // 3) for row in grid.rows]
        label = self.shorten(grid.title, self.width // 3)
        first = max(map(cell_len, (label, *titles)), default=0)
        for part in self._grid_parts(grid, self.width - indent - first):
            groups = [self.plain(grid.columns[index].group) for index, _ in part]
            repeats = [number > 0 and group == groups[number - 1] for number, group in enumerate(groups)]
            shown = ["" if is_repeat else group for group, is_repeat in zip(groups, repeats, strict=True)]
            names = [self.plain(grid.columns[index].title) for index, _ in part]
            for left, heads in (("", shown), (label, names)):
                self._grid_line(Text(left, "dim"), first, [Text(head, "dim") for head in heads], part, indent)
            for row, title in zip(grid.rows, titles, strict=True):
                signs = [row.signs[index] for index, _ in part]
                if any(signs):
                    cells = [Text() if one is None else self.text(one) for one in signs]
                    self._grid_line(Text(title), first, cells, part, indent)

    def _grid_parts(self, grid: Grid, room: int) -> list[list[tuple[int, int]]]:
        """Index and width of the columns that stand side by side, for each part of the grid."""
        parts: list[list[tuple[int, int]]] = []
        left = 0
        for index, column in enumerate(grid.columns):
            width = max(cell_len(self.plain(column.title)), cell_len(self.plain(column.group)), 1)
            is_same = index > 0 and column.group == grid.columns[index - 1].group
            if parts and is_same:
                width = max(cell_len(self.plain(column.title)), 1)
            if not parts or width + GAP > left:
                width = max(width, cell_len(self.plain(column.group)))
                parts.append([])
                left = room
            parts[-1].append((index, width))
            left -= width + GAP
        return parts

    def _grid_line(
        self, title: Text, width: int, cells: Sequence[Text], part: Sequence[tuple[int, int]], indent: int
    ) -> None:
        line = Text(" " * indent, no_wrap=True) + title + " " * (width - title.cell_len)
        for cell, (_, room) in zip(cells, part, strict=True):
            line = line + " " * GAP + cell + " " * (room - cell.cell_len)
        if line.plain.strip():
            self.put_raw(line)

    def _chart(self, block: Chart, indent: int) -> None:
        import numpy as np  # slow to import, and few reports have a chart

        from regress_gate.report.render.text_chart import chart, sparkline  # with numpy, as above

        values = np.array(block.values)
        if np.isnan(values).all():
            return
        room = self.width - indent
        if block.is_small:
            lines = [sparkline(values, min(60, room), self._encoding)]
        else:
            ends = self.plain(block.first), self.plain(block.last)
            lines = chart(values, block.marks, ends, room, self._encoding, label=block.write)
        for line in lines:
            self._console.print(Text(" " * indent + for_encoding(line, self._encoding)))

    # Lines and pieces of lines

    def columns(self, rows: Sequence[Sequence[Text]], widths: Sequence[int | None], indent: int = 0) -> None:
        """Cells in columns of those widths; a column of width None takes what is left.

        Wrapped here and not by rich's tables, whose import and layout take as long as the rest of a check.
        """
        fixed = sum(width for width in widths if width is not None) + GAP * (len(widths) - 1)
        rest = max(self.width - indent - fixed, 1)
        actual = [rest if width is None else width for width in widths]
        for row in rows:
            cells = [cell.wrap(self._console, width, overflow="fold") for cell, width in zip(row, actual, strict=True)]
            for number in range(max(len(cell) for cell in cells)):
                line = Text(" " * indent, no_wrap=True)
                for cell, width in zip(cells, actual, strict=True):
                    part = cell[number] if number < len(cell) else Text()
                    part.rstrip()
                    line.append_text(part)
                    line.append(" " * (width - part.cell_len + GAP))
                self.put_raw(line)

    def put_raw(self, line: Text) -> None:
        """A line that needs no wrapping."""
        line.rstrip()
        self._console.print(line, soft_wrap=True)

    def put(self, text: Text, indent: int = 0) -> None:
        self.columns([[text]], [None], indent)

    def gap(self) -> None:
        self._console.print()

    def plain(self, value: str) -> str:
        """The text as this terminal can show it, without anything that the terminal would obey."""
        return for_encoding(one_line(value), self._encoding)

    def shorten(self, value: str, width: int) -> str:
        """The text in at most that many columns; what is too much is left out of the middle."""
        value = self.plain(value)
        if cell_len(value) <= width:
            return value
        ellipsis = self.plain(_ELLIPSIS)
        room = width - len(ellipsis)
        tail = room // 3
        head = set_cell_size(value, room - tail).rstrip()
        return head + ellipsis + set_cell_size(value[::-1], tail)[::-1].lstrip()

    def text(self, line: Line, style: str = "") -> Text:
        text = Text(style=style, overflow="fold")
        for part in parts_of(line):
            own = _STYLES[part.style] if isinstance(part, Styled) else "cyan" if isinstance(part, Code) else ""
            text.append(self._inline(part), own or None)
        return text

    def _inline(self, part: Inline) -> str:
        match part:
            case str(value) | Styled(value) | Code(value) | Link(value):
                spaces = value[:1] == " ", value[-1:] == " "
                return " " * spaces[0] + self.plain(value) + " " * (spaces[1] and value != " ")
            case Sparkline():
                import numpy as np  # slow to import, and few reports have a chart

                from regress_gate.report.render.text_chart import sparkline  # with numpy, as above

                return sparkline(np.array(part.values), part.width, self._encoding, least_span=part.least_span)
            case Bar():
                from regress_gate.report.render.text_chart import bar  # with numpy, as above

                return bar(part.value, part.largest, part.width, self._encoding)


def _is_apart(before: Block, block: Block, depth: int) -> bool:
    """Whether an empty line stands between the two."""
    if isinstance(before, Section | Table) or isinstance(block, Section | Table) or _is_tall(block):
        return True
    if not depth and isinstance(block, Pairs):
        return not isinstance(before, Pairs)
    return isinstance(block, Paragraph) and (_is_tall(before) or (not depth and not isinstance(before, Paragraph)))


def _is_tall(block: Block) -> bool:
    return isinstance(block, EntryList) and not all(entry.is_short for entry in block.entries)


@dataclass(frozen=True, slots=True)
class _Layout:
    """A table laid out in columns; each cell is a list of lines."""

    header: list[list[Text]]
    rows: list[list[list[Text]]]
    are_right: list[bool]
    gaps: list[int]
    """Columns after each."""

    @property
    def widths(self) -> list[int]:
        columns = zip(self.header, *self.rows, strict=True)
        return [max((line.cell_len for cell in column for line in cell), default=0) for column in columns]

    @property
    def width(self) -> int:
        return sum(self.widths) + sum(self.gaps[:-1])


class _TableWriter:
    """Tries layouts from the widest to the narrowest and takes the first that fits.

    One line a row, with the details in columns of their own; then without the optional columns; then with details below
    their texts; at last each row as running text. A list that is not wrapped only loses its optional columns.
    """

    def __init__(self, writer: _Writer, table: Table, indent: int):
        self._writer = writer
        self._table = table
        self._indent = indent
        self._has_marks = any(row.mark for row in table.rows)

    def write(self) -> None:
        every = list(enumerate(self._table.columns))
        needed = [(index, column) for index, column in every if not column.is_optional]
        layouts = [(every, self._wide), (needed, self._wide), (every, self._narrow), (needed, self._narrow)]
        for columns, lay_out in layouts if self._table.is_wrapped else layouts[:2]:
            layout = lay_out(columns)
            if layout.width <= self._writer.width - self._indent:
                self._put(layout)
                return
        if not self._table.is_wrapped:
            self._put(layout)
            return
        self._put_in_groups(self._put_as_text)

    def _wide(self, columns: list[tuple[int, Column]]) -> _Layout:
        header: list[list[Text]] = []
        rows: list[list[list[Text]]] = [[] for _ in self._table.rows]
        are_right = []
        gaps: list[int] = []
        for index, column in columns:
            header.append([self._title(column.title, index)])
            are_right.append(column.is_right)
            for cells, row in zip(rows, self._table.rows, strict=True):
                cells.append([self._cell(row, index)])
            gaps.append(GAP)
            if any(_as_cell(row.cells[index]).detail for row in self._table.rows):
                header.append([self._title(column.detail)])
                are_right.append(False)
                gaps[-1:] = [1, GAP]
                for cells, row in zip(rows, self._table.rows, strict=True):
                    cells.append([self._detail(row, [index])])
        return _Layout(header, rows, are_right, gaps)

    def _narrow(self, columns: list[tuple[int, Column]]) -> _Layout:
        header: list[list[Text]] = []
        rows: list[list[list[Text]]] = [[] for _ in self._table.rows]
        are_right = []
        for index, column in columns:
            if column.below is not None:
                continue
            below = [other for other, one in columns if one.below == index]
            has_second = bool(below) or any(_as_cell(row.cells[index]).detail for row in self._table.rows)
            titles = " ".join(filter(None, [column.detail, *(self._table.columns[other].title for other in below)]))
            header.append([self._title(column.title, index), *([self._title(titles, index)] if has_second else [])])
            are_right.append(column.is_right)
            for cells, row in zip(rows, self._table.rows, strict=True):
                second = [Text(self._prefix("", index)) + self._detail(row, [*below, index])] if has_second else []
                cells.append([self._cell(row, index), *second])
        return _Layout(header, rows, are_right, [GAP] * len(header))

    def _put(self, layout: _Layout) -> None:
        widths = layout.widths
        is_titled = any(title.plain.strip() for cell in layout.header for title in cell)
        if is_titled:
            self._put_row(layout.header, layout, widths)
        rows = iter(layout.rows)
        self._put_in_groups(lambda _: self._put_row(next(rows), layout, widths), is_titled=is_titled)

    def _put_in_groups(self, put: Callable[[Row], None], *, is_titled: bool = False) -> None:
        for number, group in enumerate(self._table.groups):
            if group.title:
                if number or is_titled:
                    self._writer.gap()
                title = self._writer.shorten(group.title, 2 * self._writer.width)
                self._writer.put(Text(title, "bold", overflow="fold"), self._indent)
            for row in group.rows:
                put(row)

    def _put_row(self, cells: Sequence[Sequence[Text]], layout: _Layout, widths: list[int]) -> None:
        for number in range(max(map(len, cells))):
            line = Text(" " * self._indent, no_wrap=True)
            for cell, width, is_right, gap in zip(cells, widths, layout.are_right, layout.gaps, strict=True):
                part = cell[number] if number < len(cell) else Text()
                padding = " " * (width - part.cell_len)
                line.append_text(Text(padding) + part if is_right else part + padding)
                line.append(" " * gap)
            self._writer.put_raw(line)

    def _put_as_text(self, row: Row) -> None:
        first, last = 0, len(row.cells) - 1
        head = self._cell(row, first) + "  " + self._cell(row, last) if last else self._cell(row, first)
        if detail := self._detail(row, [last]).plain:
            head.append(f", {detail} {self._writer.plain(self._table.columns[last].detail)}".rstrip())
        self._writer.put(head, self._indent)
        rest = Text(style="dim" if row.is_muted else "", overflow="fold")
        for index in range(1, last):
            if self._table.columns[index].is_optional:
                continue
            title = self._writer.plain(self._table.columns[index].title)
            words = (title, self._cell(row, index).plain, self._detail(row, [index]).plain)
            rest.append((", " if rest.plain else "") + " ".join(filter(None, words)))
        if rest.plain:
            self._writer.put(rest, self._indent + 2 * _INDENT)

    def _title(self, title: str, index: int | None = None) -> Text:
        prefix = "" if index is None else self._prefix("", index)
        return Text(prefix + self._writer.plain(title), "dim")

    def _prefix(self, mark: str, index: int) -> str:
        return f"{mark:<2}" if self._has_marks and index == 0 else ""

    def _cell(self, row: Row, index: int) -> Text:
        text = self._writer.text(_as_cell(row.cells[index]).text, "dim" if row.is_muted else "")
        limit = self._table.columns[index].max_width
        if limit is not None and text.cell_len > limit:
            text = Text(self._writer.shorten(text.plain, limit), text.style)
        return Text(self._prefix(row.mark, index)) + text

    def _detail(self, row: Row, indices: list[int]) -> Text:
        """The details of these cells; of columns that stand below another one, the texts too."""
        *below, own = indices
        words = [self._writer.plain(_as_cell(row.cells[own]).detail)]
        for index in below:
            cell = _as_cell(row.cells[index])
            words += [self._writer.text(cell.text).plain, self._writer.plain(cell.detail)]
        return Text(" ".join(filter(None, words)), "dim" if row.is_muted else "")


def _as_cell(cell: Cell | Inline) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(cell)
