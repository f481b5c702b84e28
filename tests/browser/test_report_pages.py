"""Every report in a real browser: it loads nothing, runs nothing, and is usable by everybody on every screen."""

import http.server
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from regress_gate.report import render
from regress_gate.report.document import View
from regress_gate.report.views.result_view import ResultView
from tests.browser.conftest import Visit
from tests.factories.results import EVERY_KIND, crowded, failing
from tests.factories.views import EVERY_VIEW

pytestmark = pytest.mark.browser

HOSTILE = (
    '</style></title><script>alert(1)</script><img src=x onerror=alert(2)>"'
    ' onmouseover="alert(3)" \'><svg onload=alert(4)>'
    "<a href=javascript:alert(5)>x</a><iframe srcdoc='<script>alert(6)</script>'></iframe>"
    "<base href=//evil.example>"
    "<link rel=stylesheet href=//evil.example/x.css><meta http-equiv=refresh content='0;url=//evil.example'>"
    "<form action=//evil.example><input autofocus onfocus=alert(7)> \u202eabc\x00\x1b[31m " + "endless" * 60
)
RESULTS = {**EVERY_KIND, "crowded": partial(crowded, 8)}
PAGES: dict[str, Callable[[], View]] = {
    **{f"view-{name}": partial(build, "some words of text") for name, build in EVERY_VIEW.items()},
    **{f"hostile-{name}": partial(build, HOSTILE) for name, build in EVERY_VIEW.items()},
    **{f"result-{name}": partial(lambda make: ResultView(make()), build) for name, build in RESULTS.items()},
}
NARROW = 360
LOOKS = ((1280, "light"), (1280, "dark"), (NARROW, "light"), (NARROW, "dark"))
JENKINS = "sandbox allow-same-origin; default-src 'none'; img-src 'self'; style-src 'self'; font-src 'self';"
"""What Jenkins sends with every file of a build: neither scripts nor the page's own style."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_works_for_everybody(name: str, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(PAGES[name](), "html"), encoding="utf-8")
    visit.open(file)
    assert visit.requests == [file.as_uri()]
    visit.unfold()
    for width, scheme in LOOKS:
        visit.show(width=width, scheme=scheme)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        # Hostile texts change no colour and no part: one look is enough.
        if (width, scheme) in (LOOKS[:1] if name.startswith("hostile") else LOOKS[:3]):
            assert visit.violations() == []
    assert visit.complaints == []
    assert visit.requests == [file.as_uri()]


@pytest.mark.parametrize("name", EVERY_VIEW)
def test_the_browser_reads_a_hostile_page_as_it_reads_a_harmless_one(name: str, visit: Visit, tmp_path: Path) -> None:
    shapes = []
    for text in ("some words", HOSTILE):
        file = tmp_path / "report.html"
        file.write_text(render(EVERY_VIEW[name](text), "html"), encoding="utf-8")
        visit.open(file)
        shapes.append(
            visit.page.evaluate(
                "[...document.querySelectorAll(':not(svg *)')]"
                ".map(one => one.tagName + ' ' + one.getAttributeNames().join(' '))"
            )
        )
    assert shapes[0] == shapes[1]


def test_what_is_folded_is_printed(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(render(ResultView(failing()), "html"), encoding="utf-8")
    visit.open(file)
    folded = "[...document.querySelectorAll('details > :not(summary)')]"
    visible = f"{folded}.map(each => each.checkVisibility({{contentVisibilityAuto: true}}))"
    assert not any(visit.page.evaluate(visible))
    visit.show(media="print")
    visit.open(file)
    assert all(visit.page.evaluate(visible))


@pytest.fixture
def jenkins(tmp_path: Path) -> Iterator[str]:
    """Serves a folder as Jenkins serves the files of a build."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", JENKINS)
            super().end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=tmp_path))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/report.html"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_page_is_readable_where_its_style_is_blocked(visit: Visit, tmp_path: Path, jenkins: str) -> None:
    (tmp_path / "report.html").write_text(render(ResultView(failing()), "html"), encoding="utf-8")
    visit.open(jenkins)
    assert "Refused to apply inline style" in " ".join(visit.complaints) or visit.complaints
    pictures = "[...document.querySelectorAll('svg')]"
    width = "map(each => each.getBoundingClientRect().width)"
    sizes = visit.page.evaluate(f"{pictures}.filter(each => !each.closest('[hidden]')).{width}")
    assert all(0 < size < 1200 for size in sizes)
    # Of a picture with a form for narrow screens, one form is shown.
    assert not any(visit.page.evaluate(f"{pictures}.filter(each => each.closest('[hidden]')).{width}"))
    assert visit.page.evaluate("getComputedStyle(document.querySelector('.shape path')).fill") == "rgb(163, 63, 0)"
    visit.show(width=1280)
    assert visit.page.evaluate("document.querySelector('h1').checkVisibility()")
