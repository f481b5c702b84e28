"""An HTML page as its elements, read strictly: what is not closed in order is an error."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}
TEXT_ATTRIBUTES = {"aria-label", "title", "data-label"}
"""They hold texts of the document, which nothing acts on."""


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    depth: int
    is_pictured: bool
    """Inside an svg element."""
    text: list[str] = field(default_factory=list)

    @property
    def content(self) -> str:
        return "".join(self.text)


class HtmlPage(HTMLParser):
    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open[-1].tag

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"{tag} has an attribute twice"
        is_pictured = any(one.tag == "svg" for one in self._open)
        element = Element(tag, {name: value or "" for name, value in attrs}, len(self._open), is_pictured)
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"comment {data!r}")

    def all(self, *tags: str) -> list[Element]:
        return [element for element in self.elements if element.tag in tags]

    @property
    def text(self) -> str:
        return " ".join(self.all("body")[0].content.split())

    @property
    def shape(self) -> list[tuple[object, ...]]:
        """Every element with its depth and attributes, without the texts; pictures only as their outermost element.

        What is in a picture, and so its height, depends on its texts: one that is too long is shortened or takes
        several lines.
        """
        return [
            (
                one.tag,
                one.depth,
                *(
                    (name, None if name in TEXT_ATTRIBUTES or one.tag == "svg" else value)
                    for name, value in one.attributes.items()
                ),
            )
            for one in self.elements
            if one.tag != "style" and not one.is_pictured
        ]
