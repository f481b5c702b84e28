"""Makes docs/report.png and docs/dashboard.png anew, as Chromium shows them: the beginning of the page that the
README's command writes, and of a dashboard of the shipped baselines.

    python -m pip install -e '.[browser]' && python .ci/screenshot.py

Needs Debian's Chromium, or another one on PATH.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which

ROOT = Path(__file__).parents[1]
COMMAND = ["compare", "v0.24.0", "v0.32.0", "--quiet", "--output"]
SIZE = {"width": 1000, "height": 1010}
PAIRS = [("v0.19.0", "v0.19.1"), ("v0.24.0", "v0.32.0"), ("v0.19.1", "v0.24.0")]


def main() -> None:
    from playwright.sync_api import sync_playwright  # an extra

    browser_path = which("chromium") or which("chromium-browser") or which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_path = Path(folder, "report.html")
        regress_gate(folder, *COMMAND, f"html:{page_path}", "--store", f"{folder}/none.db")
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(page_path.as_uri())
        page.screenshot(path=ROOT / "docs" / "report.png")
        place_path = make_dashboard(folder)
        page.set_viewport_size({"width": 1000, "height": 1560})
        page.goto(place_path.as_uri())
        page.screenshot(path=ROOT / "docs" / "dashboard.png")
        browser.close()


def make_dashboard(folder: str) -> Path:
    """The page of the shipped baselines, with comparisons."""
    store = ("--store", f"{folder}/store.db")
    regress_gate(folder, "baseline", "pin", "v0.19.0", *store)  # makes the store that keeps them
    for pair in PAIRS:
        regress_gate(folder, "compare", *pair, "--report-only", "--quiet", *store)
    regress_gate(folder, "site", "--out", f"{folder}/site", *store)
    return next(Path(folder, "site", "places").glob("cpu-2core*")) / "index.html"


def regress_gate(folder: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "regress_gate", *arguments], check=True, cwd=folder)


if __name__ == "__main__":
    main()
