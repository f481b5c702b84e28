"""A sheet to draw on: text that fits its place, lines, areas and marks, written as SVG.

ElementTree writes the markup, so that every element is closed and every text and attribute escaped. Coordinates are
rounded to a tenth of a pixel, which keeps files small and equal on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET  # nosec B405 - written, never read

from rich.cells import cell_len

from regress_gate.text import excerpt, one_line

WIDTH = 800.0
"""Of a picture; heights differ."""
NARROW = 340.0
"""Of a picture for a telephone, which no page has to make smaller or to scroll."""
EDGE = 12.0
"""Free space at the sides."""
_LONGEST_TEXT = 2000
"""Characters of a text that is not drawn but can be read with the pointer."""
_MOST_LINES = 8
SMALL, NORMAL, LARGE = 11.0, 12.0, 16.0
"""Sizes of text in pixels."""

PALETTE: dict[str, tuple[str, str]] = {
    # The four of verdicts and the two of sides are from Okabe and Ito, "Color Universal Design" (2008), which people
    # with any common colour blindness tell apart: https://jfly.uni-koeln.de/color/. Each is at least 3:1 on its paper.
    "paper": ("#ffffff", "#16191d"),
    "ink": ("#1f2328", "#e6e8ea"),
    "muted": ("#59636e", "#a3adb8"),
    "grid": ("#dde1e6", "#343b43"),
    "beyond": ("#fbe8de", "#38261d"),
    "gain": ("#dff2ea", "#17332a"),
    "changed": ("#e8ecf1", "#2a313a"),
    "regression": ("#d55e00", "#d55e00"),
    "undecided": ("#1f2328", "#e6e8ea"),
    "within_margin": ("#0072b2", "#56b4e9"),
    "improvement": ("#009e73", "#009e73"),
    "baseline": ("#0072b2", "#56b4e9"),
    "candidate": ("#d55e00", "#d55e00"),
    "issue": ("#b0578d", "#cc79a7"),
}
"""Name of a colour to its value on a light and on a dark page."""


def number(value: float) -> str:
    """A coordinate. Raises ValueError for one that is not finite: nothing can be drawn there."""
    if not math.isfinite(value):
        raise ValueError("a coordinate is not finite")
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


# Text

_EM = {
    **dict.fromkeys("ijl|.,:;'IJ ", 0.34),
    **dict.fromkeys('()[]frt"/\\-!', 0.46),
    **dict.fromkeys("mwMW%@+=<>~^#±−×", 1.0),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&", 0.79),
}
"""Widths of characters in sizes of the text, rounded up from DejaVu Sans, the widest of the usual fonts."""
_ASCII, _OTHER, _WIDE = 0.65, 1.0, 1.25
_BOLD = 1.12


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """At least the width in pixels of a text in any usual font."""
    return sum(map(_em, text)) * size * (_BOLD if bold else 1.0)


def _em(character: str) -> float:
    if (known := _EM.get(character)) is not None:
        return known
    return _ASCII if character.isascii() else (0.0, _OTHER, _WIDE)[cell_len(character)]


def fit(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """The text, without its middle where it would be wider than that. Empty where not even an ellipsis fits."""
    if text_width(text, size, bold=bold) <= width:
        return text
    least, most = 0, len(text)
    while least < most:  # the largest number of characters that fit
        kept = (least + most + 1) // 2
        least, most = (
            (kept, most) if text_width(_shortened(text, kept), size, bold=bold) <= width else (least, kept - 1)
        )
    return _shortened(text, least) if least else ""


def _shortened(text: str, kept: int) -> str:
    head = (kept + 1) // 2
    return f"{text[:head].rstrip()}…{text[len(text) - (kept - head) :].lstrip()}"


def _whole(text: str) -> str:
    return one_line(excerpt(text, _LONGEST_TEXT))


# Drawing


class Canvas:
    """One picture, drawn from its top: `y` is where the next part begins."""

    def __init__(self, title: str, description: str, *, heading: bool, font: str, width: float = WIDTH):
        self.width = width
        self.title, self.description = _whole(title), _whole(description)
        self.root = ET.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "version": "1.1",
                "role": "img",
                "font-family": font,
                "font-size": number(NORMAL),
                **painted(fill="ink"),
            },
        )
        self.root.text = "\n"
        self.note(self.root, self.title)
        ET.SubElement(self.root, "desc").text = self.description
        self._paper = self.area(0, 0, width, 0, "paper")
        self.y = EDGE
        if heading:
            self.text(EDGE, self.y + LARGE, self.title, size=LARGE, bold=True, width=width - 2 * EDGE)
            self.y += LARGE + 14

    def as_text(self) -> str:
        """The SVG, of the height that was used."""
        height = number(self.y + EDGE)
        self.root.set("viewBox", f"0 0 {number(self.width)} {height}")
        self.root.set("width", number(self.width))
        self.root.set("height", height)
        self._paper.set("height", height)
        for element in self.root.iter():
            element.tail = element.tail or "\n"
        return ET.tostring(self.root, encoding="unicode")

    def note(self, element: ET.Element, text: str) -> None:
        """What a pointer over the element shows."""
        ET.SubElement(element, "title").text = _whole(text)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        width: float,
        size: float = NORMAL,
        anchor: str = "start",
        colour: str = "ink",
        bold: bool = False,
    ) -> None:
        """Text on the line `y`, at most `width` wide: a longer one loses its middle and is in full below a pointer."""
        whole = _whole(text)
        shown = fit(whole, width, size, bold=bold)
        if not shown:
            return
        attributes = {"x": number(x), "y": number(y), **(painted(fill=colour) if colour != "ink" else {})}
        if size != NORMAL:
            attributes["font-size"] = number(size)
        if anchor != "start":
            attributes["text-anchor"] = anchor
        if bold:
            attributes["font-weight"] = "bold"
        element = ET.SubElement(self.root, "text", attributes)
        if shown == whole:
            element.text = shown
        else:
            self.note(element, whole)
            element[0].tail = shown

    def paragraph(self, x: float, text: str, *, width: float, size: float = SMALL, colour: str = "muted") -> None:
        """Lines of text from `y` down, as many as a reader of a picture bears."""
        lines = wrapped(_whole(text), width, size)
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES - 1 :] = ["…"]
        for line in lines:
            self.y += size + 4
            self.text(x, self.y, line, width=width, size=size, colour=colour)

    def area(self, x: float, y: float, width: float, height: float, colour: str) -> ET.Element:
        place = {"x": number(x), "y": number(y), "width": number(width), "height": number(height)}
        return ET.SubElement(self.root, "rect", place | painted(fill=colour))

    def lines(
        self, lines: Iterable[Sequence[tuple[float, float]]], colour: str, *, width: float = 1.0, dashes: str = ""
    ) -> None:
        """Lines through points, as one element."""
        if not (drawn := "".join(map(path, lines))):
            return
        attributes = {"d": drawn, **painted(fill=None, stroke=colour)}
        if width != 1:
            attributes["stroke-width"] = number(width)
        if dashes:
            attributes["stroke-dasharray"] = dashes
        ET.SubElement(self.root, "path", attributes)

    def band(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """A filled outline through which what lies below can be seen."""
        ET.SubElement(self.root, "path", {"d": path(points) + "z", "fill-opacity": "0.2", **painted(fill=colour)})

    def mark(self, x: float, y: float, sign: Sign, note: str = "") -> None:
        """`note`: what a pointer over the mark shows."""
        is_line = sign.shape in ("cross", "bar")
        colours = (None, sign.colour) if is_line else ("paper", sign.colour) if sign.is_hollow else (sign.colour, "")
        attributes = {"d": sign.path(x, y), **painted(fill=colours[0], stroke=colours[1])}
        if colours[1]:
            attributes["stroke-width"] = "1.6"
        element = ET.SubElement(self.root, "path", attributes)
        if note:
            self.note(element, note)

    def legend(self, items: Iterable[tuple[Sign | str, str]]) -> None:
        """What the signs mean; a text in the place of a sign names a colour that areas or lines have."""
        x = EDGE
        self.y += 10
        for sign, text in items:
            width = text_width(text, NORMAL)
            if x > EDGE and x + 16 + width > self.width - EDGE:
                x, self.y = EDGE, self.y + 18
            if isinstance(sign, Sign):
                self.mark(x + 6, self.y - 4, sign)
            elif sign:
                self.area(x, self.y - 9, 12, 9, sign)
            shift = 17 if sign else 0
            self.text(x + shift, self.y, text, width=self.width - EDGE - x - shift, colour="ink" if sign else "muted")
            x += shift + width + 16
        self.y += 10


def painted(fill: str | None = "", stroke: str | None = "") -> dict[str, str]:
    """Attributes for colours of the palette, with the classes by which a page recolours them. None: no such paint."""
    attributes: dict[str, str] = {}
    classes = []
    for kind, name in (("fill", fill), ("stroke", stroke)):
        if name:
            attributes[kind] = PALETTE[name][0]
            classes.append(f"{kind}-{name}")
        elif name is None:
            attributes[kind] = "none"
    return attributes | ({"class": " ".join(classes)} if classes else {})


def path(points: Sequence[tuple[float, float]]) -> str:
    """A line through the points."""
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def wrapped(text: str, width: float, size: float) -> list[str]:
    """The text in lines of at most that width; a longer word has a line for itself."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(longer := f"{lines[-1]} {word}", size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


# Marks

_SHAPES = {
    "square": "M{l} {t}h8v8h-8z",
    "diamond": "M{x} {u}l5 5-5 5-5-5z",
    "circle": "M{l} {y}a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "triangle": "M{x} {u}l5 9h-10z",
    "cross": "M{l} {t}l8 8m0-8l-8 8",
    "bar": "M{x} {u}v10",
}


@dataclass(frozen=True, slots=True)
class Sign:
    """A mark of some 8 pixels. Its shape tells it apart where its colour does not."""

    shape: str
    colour: str
    is_hollow: bool = False

    def path(self, x: float, y: float) -> str:
        places = {"x": x, "y": y, "l": x - 4, "t": y - 4, "u": y - 5}
        return _SHAPES[self.shape].format_map({name: number(place) for name, place in places.items()})
