"""Makes docs/report.png anew: the beginning of the page that the README's command writes, as Chromium shows it.

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


def main() -> None:
    from playwright.sync_api import sync_playwright  # an extra

    browser_path = which("chromium") or which("chromium-browser") or which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_path = Path(folder, "report.html")
        command = [sys.executable, "-m", "regress_gate", *COMMAND, f"html:{page_path}", "--store", f"{folder}/none.db"]
        subprocess.run(command, check=True, cwd=folder)
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(page_path.as_uri())
        page.screenshot(path=ROOT / "docs" / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
