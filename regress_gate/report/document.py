"""A report as a tree of frozen values: what it says, in which order. Not how it looks: that is a renderer's task.

A view (`views/`) turns the result of a command into a `Document`, a renderer (`render/`) turns a `Document` into text.
All texts in a document are raw: a renderer cleans and escapes each of them, so a view never escapes anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from regress_gate.report.findings import Findings
    from regress_gate.report.plots import Plot


class Style(Enum):
    """What a text means to the reader; a renderer chooses the colour or the weight."""

    PLAIN = "plain"
    STRONG = "strong"
    MUTED = "muted"
    GOOD = "good"
    BAD = "bad"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Styled:
    """A piece of text with a meaning."""

    text: str
    style: Style


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be copied and typed exactly."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """An address; a renderer makes a link only of an address that it knows to be harmless."""

    url: str


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A series as one line of blocks. NaN is a missing value."""

    values: tuple[float, ...]
    width: int
    """Signs at most; of more values, each sign is the median of a part."""
    least_span: float = 0.0
    """The height of all signs stands for at least this range of values."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from zero, `width` signs long for `largest`."""

    value: float
    largest: float
    width: int


Inline = str | Styled | Code | Link | Sparkline | Bar
Line = Inline | tuple[Inline, ...]
"""One line of text. The parts of a tuple follow each other directly; a space at the border of a part is kept."""


def parts_of(line: Line) -> tuple[Inline, ...]:
    return line if isinstance(line, tuple) else (line,)


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: Line
    is_lead: bool = False
    """The one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A label with its text."""

    label: str
    text: Line
    more: tuple[Line, ...] = ()
    """Further lines that belong to the text, each on its own."""


@dataclass(frozen=True, slots=True)
class Pairs:
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True)
class ItemList:
    items: tuple[Line, ...]
    is_ordered: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A finding with a name: `VLLM-28882, high performance: summary`, and what is known of it."""

    head: tuple[Inline, ...]
    text: str
    note: str = ""
    """Stands in parentheses after the text."""
    pairs: tuple[Pair, ...] = ()
    is_short: bool = False
    """One line where the width allows it: the text is cut, the head and the note are not."""


@dataclass(frozen=True, slots=True)
class EntryList:
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Column:
    title: str = ""
    detail: str = ""
    """Title of the details of its cells."""
    below: int | None = None
    """Where the width is small, the cells stand below those of this column (its index)."""
    is_optional: bool = False
    """Left out where the width is small."""
    is_right: bool = False
    """Numbers stand right."""
    is_short: bool = False
    """Its title and its cells are short words, which paper does not break."""
    max_width: int | None = None
    """A longer text loses its middle."""


@dataclass(frozen=True, slots=True)
class Cell:
    text: Inline
    detail: str = ""
    """What belongs to the text, as an uncertainty belongs to a number; a second line where the width is small."""


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[Cell | Inline, ...]
    mark: str = ""
    """One sign before the first cell."""
    is_muted: bool = False


@dataclass(frozen=True, slots=True)
class RowGroup:
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    groups: tuple[RowGroup, ...]
    group_title: str = ""
    """What the groups are, for renderers that give them a column; empty for a table without groups."""
    is_wrapped: bool = True
    """False for lists that people pipe into other programs: a row is one line, however wide."""

    @classmethod
    def of(cls, columns: tuple[Column, ...], rows: tuple[Row, ...], *, is_wrapped: bool = True) -> Table:
        """A table without groups."""
        return cls(columns, (RowGroup("", rows),), is_wrapped=is_wrapped)

    @property
    def rows(self) -> Iterator[Row]:
        for group in self.groups:
            yield from group.rows


@dataclass(frozen=True, slots=True)
class GridColumn:
    title: str
    group: str = ""
    """Stands once above neighbouring columns that share it."""


@dataclass(frozen=True, slots=True)
class GridRow:
    title: str
    signs: tuple[Styled | None, ...]
    """One for each column; None where there is nothing."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Many findings at a glance: one sign in each cell. The text beside it explains the signs."""

    title: str
    """What the rows are."""
    columns: tuple[GridColumn, ...]
    rows: tuple[GridRow, ...]
    meanings: tuple[tuple[str, str], ...] = ()
    """Each sign with its word, for readers who hear the page."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A series as a picture."""

    values: tuple[float, ...]
    """NaN is a missing value."""
    first: str
    last: str
    """Names of the first and the last point."""
    marks: tuple[int, ...] = ()
    """Indices of points that are pointed out, in the order of their numbers."""
    write: Callable[[float], str] = field(default="{:.4g}".format, compare=False)
    """Writes a value of the axis."""
    is_small: bool = False
    """One line is enough."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture for formats that can show one, with its numbers as a table; `report.figures` draws it."""

    name: str
    """What `--figure` calls it; unique in its document."""
    title: str
    description: str
    """What is to be seen, for those who cannot see it."""
    plot: Plot
    table: Table


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    blocks: tuple[Block, ...]
    is_folded: bool = False
    """Not needed for a decision: closed where the format can close it."""


Block = Paragraph | Pairs | ItemList | EntryList | Table | Grid | Chart | Figure | Section


@dataclass(frozen=True, slots=True)
class Document:
    title: Line
    blocks: tuple[Block, ...]
    subtitle: str = ""
    name: str = ""
    """What kind of report this is; the title of a page whose document has none."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much a document contains, as its renderer wants it. Limits count entries, or characters of one text."""

    verbose: bool = False
    """Everything in full."""
    is_page: bool = True
    """Read from its top, with parts that can be folded; else a terminal, where the end is what is still seen."""
    figures: bool = False
    """With `Figure` blocks."""
    is_full: bool = False
    """A page without a narrow limit: what others only count is in it, folded."""
    quiet_series: bool = True
    """Series that are no worse, or that do not gate."""
    quiet_issues: bool = True
    """Issues that the move does not bring and that do not block."""
    rows: int = 10_000
    quiet_rows: int = 10_000
    """Of the series that `quiet_series` speaks of."""
    issues: int = 10_000
    lines: int = 10_000
    """Facts, waivers, warnings."""
    reasons: int = 10_000
    text: int = 10_000


class View(ABC):
    """The result of a command, ready for any renderer."""

    ascii_json: ClassVar[bool] = False
    """Whether the JSON is escaped to ASCII, so that any terminal, log or locale can carry it."""

    @property
    def figure_titles(self) -> Mapping[str, str]:
        """The pictures that such a report can have, by name, the first of them first."""
        return {}

    @abstractmethod
    def document(self, detail: Detail) -> Document:
        """For people."""

    @abstractmethod
    def data(self) -> Any:
        """For programs: plain values as JSON has them."""

    def findings(self) -> Findings | None:
        """For test reports, alerts and annotations; None: there is nothing in it that passes or fails."""
        return None
