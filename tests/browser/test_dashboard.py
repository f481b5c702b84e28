"""The dashboard in a real browser: opened as files, in all widths and colours, and its charts by mouse and keyboard."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from regress_gate.app.settings import Settings
from regress_gate.app.site import build_site
from regress_gate.model.testbed import Testbed
from regress_gate.store.repository import open_store
from tests.factories.dashboards import long_history, nightly
from tests.factories.watched_stores import watched_store

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)>'\"</script><script>alert(2)</script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped baselines, a long history, one with hostile names, and a watch."""
    folder = tmp_path_factory.mktemp("dashboard")
    store = watched_store(folder / "store.db", datetime.now(UTC), HOSTILE)
    with open_store(store, create=False) as repository:
        repository.add_runs(long_history(120, ("chat", "code"), step_at=80))
        repository.add_runs(long_history(70, (HOSTILE,), testbed=Testbed(HOSTILE, accelerator=HOSTILE), step_at=40))
    build_site(Settings(store_flag=store, environment={}), folder / "site")
    return folder / "site"


def kinds(site: Path) -> dict[str, Path]:
    """One page of each kind, and those of the hostile place."""
    lab, hostile = (
        next(path for path in (site / "places").iterdir() if path.name.startswith(name)) for name in ("lab", "img")
    )
    shipped = next((site / "places").glob("cpu-2core*"))
    return {
        "index": site / "index.html",
        "watch": site / "watch.html",
        "place": shipped / "index.html",
        "series": next((shipped / "series").glob("c4-ttft-median*")),
        "issues": shipped / "known-issues.html",
        "long": next((lab / "series").glob("chat-ttft-median*")),
        "changes": lab / "changes.html",
        "comparison": next((lab / "comparisons").glob("*.html")),
        "hostile": hostile / "index.html",
        "hostile series": next((hostile / "series").glob("*ttft-median*")),
    }


PAGES = ("index", "watch", "place", "series", "issues", "long", "changes", "comparison", "hostile", "hostile series")


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_asks_for_nothing_complains_of_nothing_and_can_be_read_by_all(visit: Any, site: Path, kind: str) -> None:
    visit.open(kinds(site)[kind])
    visit.unfold()
    for width, scheme in ((1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")):
        visit.show(width=width, scheme=scheme)
        assert visit.violations() == [], (kind, width, scheme)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    assert visit.requests == [kinds(site)[kind].as_uri()]
    assert visit.complaints == []


def test_a_long_history_is_zoomed_and_moved_by_the_keyboard_alone(visit: Any, site: Path) -> None:
    visit.show()
    visit.open(kinds(site)["long"])
    status = visit.page.locator(".zoom [role=status]")
    whole = f"{nightly(0)} to {nightly(119)}, 120 points, 1 change"
    assert status.inner_text() == whole
    plot = visit.page.locator(".zoom .plot")
    for _ in range(20):
        if visit.page.evaluate("document.activeElement.className") == "plot":
            break
        visit.page.keyboard.press("Tab")
    assert visit.page.evaluate("document.activeElement.className") == "plot"
    visit.page.keyboard.press("+")
    assert status.inner_text() == f"{nightly(30)} to {nightly(89)}, 60 points, 1 change"
    visit.page.keyboard.press("ArrowLeft")
    assert status.inner_text() == f"{nightly(15)} to {nightly(74)}, 60 points, 0 changes"
    for _ in range(9):
        visit.page.keyboard.press("ArrowRight")
    assert nightly(119) in status.inner_text()
    visit.page.keyboard.press("-")
    visit.page.keyboard.press("-")
    assert status.inner_text() == whole
    assert plot.locator("canvas").count() == 1
    assert visit.complaints == []


def test_a_long_history_is_zoomed_by_buttons_and_mouse(visit: Any, site: Path) -> None:
    visit.show()
    visit.open(kinds(site)["long"])
    status = visit.page.locator(".zoom [role=status]")
    visit.page.get_by_role("button", name="Zoom in").click()
    assert "60 points" in status.inner_text()
    visit.page.get_by_role("button", name="Show all").click()
    assert "120 points" in status.inner_text()
    area = visit.page.locator(".u-over").bounding_box()
    visit.page.mouse.move(area["x"] + area["width"] * 0.5, area["y"] + 50)
    visit.page.mouse.down()
    visit.page.mouse.move(area["x"] + area["width"] * 0.75, area["y"] + 60)
    visit.page.mouse.up()
    assert "30 points" in status.inner_text()


def test_without_scripts_a_long_history_has_its_picture_and_its_numbers(chromium: Any, site: Path) -> None:
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(kinds(site)["long"].as_uri())
    assert page.locator("figure svg").is_visible()
    assert page.locator("table").count() == 1
    assert page.locator(".zoom button").count() == 0
    context.close()


def test_a_walk_from_the_first_page_to_a_finding_and_back(visit: Any, site: Path) -> None:
    visit.open(site / "index.html")
    visit.page.get_by_role("link", name="soak@1 on lab", exact=True).click()
    visit.page.get_by_role("link", name="chat/ttft_median").first.click()
    assert "chat" in visit.page.locator("h1").inner_text()
    visit.page.get_by_role("link", name="regress-gate").click()
    assert visit.page.url == (site / "index.html").as_uri()
    assert visit.complaints == []
