"""The dashboard's templates: over those of the reports, with the policy of each page.

Every page works without a script, from a file and from any folder of a server: links are relative, styles and scripts
stand in the page, and its policy names them by their hashes.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader
from markupsafe import Markup

from regress_gate.report.document import View
from regress_gate.report.render import html
from regress_gate.report.render.output_formats import RenderOptions
from regress_gate.report.render.pages import environment as report_environment

TITLE = "regress-gate"
MAX_BYTES = 300_000
"""Of a report as a page: less than a report that stands alone, because somebody turns these pages."""
_HERE = Path(__file__).parent


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """The templates of the reports and those of the dashboard."""
    reports = report_environment()
    own = FileSystemLoader(_HERE / "templates", encoding="utf-8")
    return reports.overlay(loader=ChoiceLoader([own, reports.loader] if reports.loader else [own]))


def render_page(template: str, *, root: str, can_zoom: bool = False, **content: Any) -> str:
    """`root` leads from the page to the dashboard's folder."""
    environment = _environment()
    style = _file("templates/site.css") + (_file("uplot/uPlot.min.css") if can_zoom else "")
    policy: dict[str, Any] = {"style_source": f"{environment.globals['style_source']} {_source(style)}"}
    if can_zoom:
        # A policy by hash holds everywhere; 'self' allows no script of a page that is opened as a file.
        library, script = _file("uplot/uPlot.iife.min.js"), _file("templates/zoom.js")
        policy |= {
            "script_sources": f"{_source(library)} {_source(script)}",
            "library": Markup(library),  # nosec B704 # noqa: S704 - files of this package
            "script": Markup(script),  # nosec B704 # noqa: S704
            "licence": f"{root}uplot-license.txt",
        }
    return environment.get_template(template).render(
        page_title=" · ".join(dict.fromkeys(filter(None, (content["heading"], content.get("subtitle"), TITLE)))),
        site_style=Markup(style),  # nosec B704 # noqa: S704 - a file of this package
        feed=f"{root}feed.xml",
        **policy,
        **content,
    )


def render_view(view: View, *, trail: Sequence[tuple[str, str]]) -> str:
    """A report as one page, below a way back: targets and texts."""
    template = _environment().get_template("report_page.html")
    style = _file("templates/site.css")
    source = f"{_environment().globals['style_source']} {_source(style)}"
    styles = {"site_style": Markup(style), "style_source": source}  # nosec B704 # noqa: S704 - a file of this package
    return html.render_page(view, RenderOptions(), template, max_bytes=MAX_BYTES, trail=trail, **styles)


@lru_cache(maxsize=8)
def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


@lru_cache(maxsize=8)
def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def licence_text() -> str:
    """Of the library whose code stands in the pages."""
    return _file("uplot/LICENSE")
