"""The Atom feed: what RFC 4287 demands, ids that stay, and texts from outside."""

import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from regress_gate.report.site.feed import ATOM, MOST_ENTRIES, FeedEntry, render_feed, stable_id

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def entry(number: int = 1, **given_: object) -> FeedEntry:
    values = {
        "key": ("change", str(number)),
        "title": f"finding {number}",
        "text": "what",
        "page": f"places/x/{number}.html#a",
        "time": NOW + timedelta(hours=number),
    }
    return FeedEntry(**{**values, **given_})  # type: ignore[arg-type]


def parsed(*entries: FeedEntry, base_url: str | None = "https://example.org/gate/") -> ET.Element:
    feed = ET.fromstring(render_feed(entries, identity="store", title="Findings", base_url=base_url).encode())
    check_feed(feed)
    return feed


def check_feed(feed: ET.Element) -> None:
    """The rules of RFC 4287 for what is used here (sections 4.1 and 4.2)."""
    name = f"{{{ATOM}}}"
    assert feed.tag == f"{name}feed"
    one = {"id", "title", "updated"}
    ids = []
    for element, needed in [(feed, one | {"author"}), *((each, one) for each in feed.iter(f"{name}entry"))]:
        tags = [child.tag.removeprefix(name) for child in element]
        assert all(tags.count(tag) == 1 for tag in needed), tags
        assert tags.count("summary") <= 1
        assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", element.findtext(f"{name}id") or "")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", element.findtext(f"{name}updated") or "")
        links = [(link.get("rel"), link.get("type")) for link in element.findall(f"{name}link")]
        assert len(set(links)) == len(links)
        assert all(link.get("href") for link in element.findall(f"{name}link"))
        ids.append(element.findtext(f"{name}id"))
    assert len(set(ids)) == len(ids)


def test_an_entry_keeps_its_id_wherever_its_page_and_its_dashboard_stand() -> None:
    first = parsed(entry())
    moved = parsed(entry(page="elsewhere.html", title="renamed"), entry(2), base_url=None)
    ids = [[each.findtext(f"{{{ATOM}}}id") for each in feed.iter(f"{{{ATOM}}}entry")] for feed in (first, moved)]
    assert ids[0][0] in ids[1]
    assert stable_id("change", "1") == "urn:uuid:9d458848-e1ad-5837-9427-321910fcced7"


def test_the_newest_stand_first_and_give_the_feed_its_time() -> None:
    feed = parsed(*(entry(number) for number in range(MOST_ENTRIES + 20)))
    titles = [each.findtext(f"{{{ATOM}}}title") for each in feed.iter(f"{{{ATOM}}}entry")]
    assert len(titles) == MOST_ENTRIES
    assert titles[0] == f"finding {MOST_ENTRIES + 19}"
    assert feed.findtext(f"{{{ATOM}}}updated") == "2026-11-27T23:00:00Z"


def test_a_feed_without_a_finding_is_valid_and_the_same_each_time() -> None:
    assert not list(parsed().iter(f"{{{ATOM}}}entry"))
    assert render_feed([], identity="a", title="t", base_url=None) == render_feed(
        [], identity="a", title="t", base_url=None
    )


def test_links_are_below_the_address_of_the_dashboard_or_relative() -> None:
    for base, expected in (
        ("https://example.org/gate/", "https://example.org/gate/places/x/1.html#a"),
        (None, "places/x/1.html#a"),
    ):
        [item] = parsed(entry(), base_url=base).iter(f"{{{ATOM}}}entry")
        link = item.find(f"{{{ATOM}}}link")
        assert link is not None
        assert link.get("href") == expected


@given(st.text(), st.text())
def test_any_text_is_well_formed(title: str, text: str) -> None:
    [item] = parsed(entry(title=title, text=text, key=(title, text))).iter(f"{{{ATOM}}}entry")
    assert item.findtext(f"{{{ATOM}}}id")
