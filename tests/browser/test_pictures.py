"""The pictures in a real browser, with its real fonts: no text lies on another or is cut."""

from pathlib import Path
from typing import Any

import pytest

PICTURES = Path(__file__).parents[1] / "report" / "__snapshots__" / "test_figures"
TEXTS = """() => [...document.querySelectorAll('text')].map(text => {
    const box = text.getBBox();
    return {text: text.textContent, left: box.x, right: box.x + box.width, top: box.y, bottom: box.y + box.height};
})"""
LEADING = 3.0
"""Pixels of a text's box above and below its letters."""

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.stem)
def test_every_text_of_a_picture_has_its_place(chromium: Any, path: Path) -> None:
    page = chromium.new_page()
    page.goto(path.as_uri())
    texts = page.evaluate(TEXTS)
    width, height = page.evaluate("['width', 'height'].map(side => +document.documentElement.getAttribute(side))")
    page.close()
    assert texts
    for place, one in enumerate(texts):
        assert one["left"] >= 0, one
        assert one["right"] <= width, one
        assert one["bottom"] <= height, one
        for other in texts[place + 1 :]:
            beside = one["right"] <= other["left"] or other["right"] <= one["left"]
            upper, lower = sorted((one, other), key=lambda text: text["top"])
            below = upper["bottom"] - LEADING <= lower["top"] + LEADING
            assert beside or below, (one, other)
