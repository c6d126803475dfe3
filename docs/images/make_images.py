"""Make the pictures of the README from what `make demo` wrote; `make images` runs this.

    python docs/images/make_images.py demo-out

Needs playwright and a Chromium in PATH.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path
from unittest import mock

from playwright.sync_api import sync_playwright
from rich.console import Console

from opscope.cli import main
from opscope.cli.views import console as shown

IMAGES = Path(__file__).parent
WIDTH = 118
SCREENS = ((390, 844), (1440, 900), (1920, 1080))


def picture_of_report(page_file: Path) -> None:
    """The report at a laptop's width: overview, findings, memory; the overview on other screens."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
        page.goto(page_file.resolve().as_uri())
        page.wait_for_selector("#opscope[data-ready=true]")
        page.screenshot(path=IMAGES / "report.png")
        for panel in ("findings", "memory"):
            page.click(f"[data-tab={panel}]")
            page.screenshot(path=IMAGES / f"{panel}.png")
        for width, height in SCREENS:
            for scheme in ("light", "dark"):
                size = {"width": width, "height": height}
                page = browser.new_page(viewport=size, color_scheme=scheme)
                page.goto(page_file.resolve().as_uri())
                page.wait_for_selector("#opscope[data-ready=true]")
                page.screenshot(path=IMAGES / f"report-{width}-{scheme}.png")
        browser.close()


def picture_of_summary(trace: Path) -> None:
    """What `opscope summary` prints on a terminal."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with mock.patch.object(shown, "console_for", lambda _stream: console):
        main(["summary", str(trace), "--row-limit", "8"])
    title = f"opscope summary {trace.name}"
    console.save_svg(str(IMAGES / "summary.svg"), title=title)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    picture_of_report(folder / "train_digits.html")
    picture_of_summary(folder / "train_digits.opscope")
