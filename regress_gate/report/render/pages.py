"""HTML pages: the Jinja environment that escapes, the style sheet, and the policy by which a page loads nothing.

Every text that a template shows is cleaned and shortened here before it is escaped, so that no template can forget it.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from regress_gate.report.figures import theme_css
from regress_gate.text import excerpt, one_line

_TEMPLATES = Path(__file__).parent / "templates"
LONGEST_TEXT = 4_000
"""Characters of one text; a longer one loses its end."""


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates of this package. `base.html` is the frame of every page, `style.css` its only style sheet."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES, encoding="utf-8"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{theme_css(dark=True)}\n}}\n"
    style = (_TEMPLATES / "style.css").read_text(encoding="utf-8") + dark
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    made.globals["style"] = Markup(style)  # nosec B704 # noqa: S704 - a file of this package
    made.globals["style_source"] = f"'sha256-{digest}'"
    return made


def clean(text: str) -> str:
    """The text on one line, without control characters and secrets; a space at either end is kept."""
    if text == " ":
        return text
    shown = one_line(excerpt(text, LONGEST_TEXT))
    return " " * text.startswith(" ") + shown + " " * text.endswith(" ") if shown else ""


def _finalize(value: Any) -> Any:
    return clean(value) if type(value) is str else value  # not of Markup, which a template has made
