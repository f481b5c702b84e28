"""The dashboard's Atom feed (RFC 4287): changes for the worse, and decisions that are no pass. Ids stay as they are.

An entry's id is made from what it is about, not from where it stands or when the feed is built.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5
from xml.etree import ElementTree as ET  # nosec B405 - written, never read

from regress_gate.text import one_line

MOST_ENTRIES = 100
ATOM = "http://www.w3.org/2005/Atom"
_AUTHOR = "regress-gate"


@dataclass(frozen=True, slots=True)
class FeedEntry:
    key: tuple[str, ...]
    """What it is about: never used for anything else."""
    title: str
    text: str
    page: str
    """Relative to the dashboard's first page."""
    time: datetime


def stable_id(*key: str) -> str:
    """The same for the same key, in every build and on every machine."""
    return uuid5(NAMESPACE_URL, "regress-gate:" + "\0".join(key).encode("utf-8", "backslashreplace").decode()).urn


def render_feed(entries: Sequence[FeedEntry], *, identity: str, title: str, base_url: str | None) -> str:
    """The newest entries. `base_url`: where the dashboard stands; without it links are relative to the feed."""
    ET.register_namespace("", ATOM)
    feed = ET.Element(f"{{{ATOM}}}feed")
    base = "" if base_url is None else base_url
    newest = sorted(entries, key=lambda entry: (entry.time, entry.key), reverse=True)[:MOST_ENTRIES]
    _text(feed, "id", stable_id("feed", identity))
    _text(feed, "title", title)
    _text(feed, "updated", _time(max((entry.time for entry in newest), default=datetime(2020, 1, 1, tzinfo=UTC))))
    _text(ET.SubElement(feed, f"{{{ATOM}}}author"), "name", _AUTHOR)
    _link(feed, "self", f"{base}feed.xml", "application/atom+xml")
    _link(feed, "alternate", f"{base}index.html", "text/html")
    for entry in newest:
        item = ET.SubElement(feed, f"{{{ATOM}}}entry")
        _text(item, "id", stable_id(*entry.key))
        _text(item, "title", entry.title)
        _text(item, "updated", _time(entry.time))
        _text(item, "summary", entry.text)
        _link(item, "alternate", f"{base}{entry.page}", "text/html")
    ET.indent(feed)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(feed, encoding="unicode") + "\n"


def _text(parent: ET.Element, name: str, text: str) -> None:
    ET.SubElement(parent, f"{{{ATOM}}}{name}").text = one_line(text)


def _link(parent: ET.Element, relation: str, address: str, kind: str) -> None:
    ET.SubElement(parent, f"{{{ATOM}}}link", {"rel": relation, "href": address, "type": kind})


def _time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
