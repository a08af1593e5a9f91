"""Where the browser is, and how it is started."""

from __future__ import annotations

import shutil
from pathlib import Path

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The first is the same browser without its windows: it opens a page in a quarter of the time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ROOT = Path(__file__).parents[2]


def chromium() -> str | None:
    """The path of a Chromium on this machine, if there is one."""
    return next((found for found in map(shutil.which, _NAMES) if found), None)


def axe() -> Path | None:
    """The accessibility checker from npm, if it is installed."""
    file = ROOT / "node_modules" / "axe-core" / "axe.min.js"
    return file if file.is_file() else None
