"""A document for a pull-request comment or a job summary on GitHub.

A document that would be too large is made again with less detail until it fits, and says what it left out. Each text
is escaped here, so that nothing from outside becomes markup, a link or a mention.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from regress_gate.report.document import (
    Bar,
    Block,
    Cell,
    Chart,
    Code,
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
from regress_gate.text import clip, one_line

# Escaping. Signs become numeric character references, which every parser reads the same way, in tables too. Where
# GitHub would act on the finished text (mentions, references, addresses), a zero-width space splits the trigger.

_MARKUP_SIGNS = re.compile(r"[\\`*<>&\[\]|~$]")
_EDGE_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_BLOCK_START = re.compile(r"^(?=(?:[-+]|#{1,6}|\d{1,9}[.)])(?:\s|$)|--|=)")
"""What opens a list, a heading or a rule when it stands first."""
_SPACE = "\u200b"
"""Has no width and parts words. `clean` leaves none in a text, so every one in it is ours."""
_TRIGGERS = re.compile(
    r"@(?=\w)"  # @user, @org/team, mail addresses
    r"|#(?=\d)"  # #12, owner/repo#12
    r"|GH(?=-\d)"  # GH-12
    r"|(?:https?|ftp|mailto|xmpp):"  # bare addresses
    r"|www(?=\.)"
    r"|:(?=[\w+-]+:)",  # :emoji:
    re.IGNORECASE,
)
_GITHUB_PAGE = re.compile(
    r"https://github\.com/([\w.-]+/[\w.-]+/(?:(?:issues|pull|discussions)/\d+|compare/[\w.-]+\.\.\.[\w.-]+))", re.ASCII
)


def escape(text: str) -> str:
    """The text as inert inline Markdown, for running text and table cells."""
    text = _BLOCK_START.sub(_SPACE, _TRIGGERS.sub(rf"\g<0>{_SPACE}", one_line(text)))
    text = _EDGE_UNDERSCORE.sub(_reference, _MARKUP_SIGNS.sub(_reference, text))
    return text.replace(_SPACE, f"&#{ord(_SPACE)};")


def _reference(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};"


def code(text: str) -> str:
    """A code span of exactly that text, to be copied. Not for table cells, where a pipe would end it."""
    text = one_line(text) or "(empty)"
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def thread(url: str) -> str:
    """A link to a thread or a range of commits on GitHub; any other address is shown as text.

    The link takes GitHub's redirecting host: a plain one would leave a cross-reference in the tracker's thread
    for every comment that this report is posted as.
    """
    if match := _GITHUB_PAGE.fullmatch(url):
        return f"[{escape(match[1])}](https://redirect.github.com/{match[1]})"
    return escape(url)


_CHART_WIDTH = 60
_BOLD = {Style.STRONG, Style.BAD}
_LADDER = (
    Detail(),
    Detail(quiet_series=False),
    Detail(quiet_series=False, quiet_issues=False),
    Detail(quiet_series=False, quiet_issues=False, rows=60, issues=20, lines=40, reasons=60, text=1000),
    Detail(quiet_series=False, quiet_issues=False, rows=25, issues=5, lines=10, reasons=25, text=300),
    # The least: at most some 35 kB even if every character needs the longest reference.
    Detail(quiet_series=False, quiet_issues=False, rows=0, issues=0, lines=0, reasons=20, text=200),
)


def render(view: View, options: RenderOptions) -> str:
    """The fullest document within `options.max_bytes`; never less than the last step of the ladder has."""
    *fuller, least = (replace(step, verbose=options.verbose) for step in _LADDER)
    for detail in fuller:
        try:
            text = _Writer(detail.text, options.max_bytes).write(view.document(detail))
        except _TooLongError:
            continue
        if len(text.encode()) <= options.max_bytes:
            return text
    return _Writer(least.text).write(view.document(least))


class _TooLongError(Exception):
    """More text than the document may have: the rest need not be written."""


class _Writer:
    """A text longer than `longest_text` loses its middle. Raises _TooLongError once all texts exceed `max_bytes`."""

    def __init__(self, longest_text: int, max_bytes: float = math.inf):
        self._longest = longest_text
        self._left = max_bytes

    def write(self, document: Document) -> str:
        title = self._line(_without_style(document.title))
        paragraphs = [f"## {title}"] if title else []
        if document.subtitle:
            paragraphs.append(self._escape(document.subtitle))
        return "\n\n".join([*paragraphs, *self._blocks(document.blocks, depth=0)]) + "\n"

    def _blocks(self, blocks: Iterable[Block], depth: int) -> list[str]:
        """Paragraphs, to be parted by empty lines."""
        return [text for block in blocks for text in self._block(block, depth)]

    def _block(self, block: Block, depth: int) -> list[str]:
        match block:
            case Paragraph():
                return [self._line(block.text)]
            case Pairs():
                return _lines(line for pair in block.pairs for line in self._pair(pair))
            case ItemList():
                marks = (f"{number}." if block.is_ordered else "-" for number in range(1, len(block.items) + 1))
                return _lines(f"{mark} {self._line(item)}" for mark, item in zip(marks, block.items, strict=True))
            case EntryList():
                return _lines(line for entry in block.entries for line in self._entry(entry))
            case Table():
                return _lines(self._table(block))
            case Grid():
                return _lines(self._grid(block))
            case Chart():
                return self._chart(block)
            case Figure():
                return self._block(Section(block.title, (block.table,)), depth)
            case Section():
                title, content = self._escape(block.title), self._blocks(block.blocks, depth + 1)
                if block.is_folded:
                    return [f"<details><summary>{title}</summary>", *content, "</details>"]
                return [f"{'####' if depth else '###'} {title}", *content]

    def _pair(self, pair: Pair) -> list[str]:
        return [
            f"- {self._escape(pair.label)}: {self._line(_without_style(pair.text))}",
            *(f"  - {self._line(_without_style(line))}" for line in pair.more),
        ]

    def _entry(self, entry: Entry) -> list[str]:
        text = f"{entry.text} ({entry.note})" if entry.note else entry.text
        name, *rest = entry.head
        strong = Styled(name.text, Style.STRONG) if isinstance(name, Styled) else name
        first = f"- {self._line((strong, *rest))}: {self._escape(text)}"
        return [first, *(f"  {line}" for pair in entry.pairs for line in self._pair(pair))]

    def _table(self, table: Table) -> list[str]:
        titles = [f"{column.title} {column.detail}".strip() for column in table.columns]
        grouped = bool(table.group_title)
        rules = ["---", *("--:" if column.is_right else "---" for column in table.columns)][not grouped :]
        lines = [_row(map(self._escape, [table.group_title, *titles][not grouped :])), _row(rules)]
        for group in table.groups:
            start = [self._escape(group.title)] if grouped else []
            lines += [_row([*start, *self._cells(row)]) for row in group.rows]
        return lines

    def _grid(self, grid: Grid) -> list[str]:
        titles = [grid.title, *(f"{column.group} {column.title}".strip() for column in grid.columns)]
        rules = ["---", *(":-:" for _ in grid.columns)]
        rows = (
            [self._escape(row.title), *("" if one is None else self._inline(one) for one in row.signs)]
            for row in grid.rows
        )
        return [_row(map(self._escape, titles)), _row(rules), *map(_row, rows)]

    def _chart(self, chart: Chart) -> list[str]:
        """Preformatted: GitHub shows no picture that does not lie somewhere, and takes none through its interface."""
        if chart.is_small or not any(map(math.isfinite, chart.values)):
            return [code(_sparkline(Sparkline(chart.values, _CHART_WIDTH)))]
        import numpy as np  # as above

        from regress_gate.report.render.text_chart import chart as draw  # with numpy, as above

        ends = _plain(chart.first), _plain(chart.last)
        lines = draw(np.array(chart.values), chart.marks, ends, _CHART_WIDTH, label=lambda x: _plain(chart.write(x)))
        return ["\n".join(["```text", *lines, "```"])]

    def _cells(self, row: Row) -> list[str]:
        cells = []
        for number, one in enumerate(row.cells):
            cell = one if isinstance(one, Cell) else Cell(one)
            text = self._inline(Styled(cell.text.text, Style.PLAIN) if isinstance(cell.text, Code) else cell.text)
            mark = f"{self._escape(row.mark)} " if row.mark and not number else ""
            cells.append(f"{mark}{text} {self._escape(cell.detail)}".strip())
        return cells

    def _line(self, line: Line) -> str:
        return "".join(map(self._inline, parts_of(line))).strip()

    def _inline(self, part: Inline) -> str:
        match part:
            case Code(text):
                return code(clip(text, self._longest))
            case Link(url):
                return thread(clip(url, self._longest))
            case Sparkline():
                return self._escape(_sparkline(part))
            case Bar():
                from regress_gate.report.render.text_chart import bar  # with numpy, as above

                return self._escape(bar(part.value, part.largest, part.width))
            case str(text):
                return self._escape(text)
            case Styled(text, style):
                escaped = self._escape(text)
                return f"**{escaped}**" if style in _BOLD and escaped.strip() else escaped

    def _escape(self, text: str) -> str:
        """With a space kept at either end."""
        escaped = escape(clip(text, self._longest))
        self._left -= len(escaped)
        if self._left < 0:
            raise _TooLongError
        if not escaped:
            return " " if text == " " else ""
        return " " * text.startswith(" ") + escaped + " " * text.endswith(" ")


def _without_style(line: Line) -> Line:
    return tuple(part.text if isinstance(part, Styled) else part for part in parts_of(line))


def _sparkline(part: Sparkline) -> str:
    import numpy as np  # slow to import, and few reports have a chart

    from regress_gate.report.render.text_chart import sparkline  # with numpy, as above

    return sparkline(np.array(part.values), part.width, least_span=part.least_span)


def _plain(text: str) -> str:
    """For a fenced block, which a fence in it would end."""
    return clip(one_line(text).replace("`", "'"), _CHART_WIDTH)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _lines(lines: Iterable[str]) -> list[str]:
    text = "\n".join(lines)
    return [text] if text else []
