"""Where the table is painted: lines of text within a width, with or without colour, in the signs of the terminal.

Every text goes through `text`, so that nothing from outside reaches the terminal as a command. Knows nothing of
results.
"""

import io
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from regress_gate.report.render.render_options import RenderOptions
from regress_gate.text import for_encoding, one_line

NARROWEST = 40
GAP = 2
_ELLIPSIS = "…"


class Canvas:
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
            # The options have said all there is to know; the environment must not change a report twice.
            _environ={},
        )

    def plain(self, value: str) -> str:
        """The text as this terminal can show it, without anything that the terminal would obey."""
        return for_encoding(one_line(value), self._encoding)

    def lines(self, value: str) -> str:
        """Our own words, whose line breaks and indents stay."""
        return for_encoding(value, self._encoding)

    def text(self, value: str, style: str = "") -> Text:
        return Text(self.plain(value), style=style, overflow="fold")

    def shorten(self, value: str, width: int) -> str:
        """The text, plain, in at most that many columns; what is too much is left out of the middle."""
        value = self.plain(value)
        if cell_len(value) <= width:
            return value
        ellipsis = self.plain(_ELLIPSIS)
        room = width - len(ellipsis)
        tail = room // 3
        head = set_cell_size(value, room - tail).rstrip()
        return head + ellipsis + set_cell_size(value[::-1], tail)[::-1].lstrip()

    def put(self, content: RenderableType, indent: int = 0) -> None:
        self._console.print(Padding(content, (0, 0, 0, indent), expand=False) if indent else content)

    def line(self, value: str, style: str = "", indent: int = 0) -> None:
        self.put(self.text(value, style), indent)

    def gap(self) -> None:
        self._console.print()

    def heading(self, value: str) -> None:
        self.gap()
        self.line(value, "bold")

    def pairs(self, pairs: Iterable[tuple[str, str | Text]], indent: int = 2, label_width: int = 0) -> None:
        """Labels in one column, texts beside them, wrapped under themselves."""
        rows = [
            (self.text(label, "dim"), self.text(value) if isinstance(value, str) else value) for label, value in pairs
        ]
        if not rows:
            return
        widest = max(label_width, *(label.cell_len for label, _ in rows))
        self.columns(rows, [min(widest, self.width // 3), None], indent)

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
                line.rstrip()
                self.put(line)

    def finish(self) -> str:
        lines = [line.rstrip() for line in self._buffer.getvalue().splitlines()]
        return "\n".join(lines).strip("\n") + "\n"
