"""A real Chromium with axe-core. `.ci/run` installs both and runs these tests; elsewhere they are left out."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # only where these tests are asked for

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert path, f"none of these is on PATH: {', '.join(BROWSERS)}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    from axe_playwright_python.base import AXE_SCRIPT  # as above

    return AXE_SCRIPT


class Visit:
    """A page in the browser, with all that it asked for and complained of."""

    def __init__(self, page: Any, axe: str):
        self.page = page
        self._axe = axe
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("popup", lambda popup: self.complaints.append(f"popup {popup.url}"))

    def open(self, address: Path | str) -> None:
        self.requests.clear()
        self.complaints.clear()
        self.page.goto(address.as_uri() if isinstance(address, Path) else address)

    def unfold(self) -> None:
        """What is folded is checked too."""
        self.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")

    def show(self, *, width: int = 1280, scheme: str = "light", media: str = "screen") -> None:
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.emulate_media(color_scheme=scheme, media=media)

    def violations(self) -> list[str]:
        """What axe-core finds with all of its rules, as `rule: element, element`."""
        self.page.evaluate(self._axe)
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        return [f"{one['id']}: {', '.join(node['html'][:200] for node in one['nodes'][:3])}" for one in found]


@pytest.fixture
def visit(chromium: Any, axe: str) -> Iterator[Visit]:
    context = chromium.new_context(java_script_enabled=True, bypass_csp=False)
    yield Visit(context.new_page(), axe)
    context.close()
