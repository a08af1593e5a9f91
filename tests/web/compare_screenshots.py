"""What a change does to the look of the pages: ``make compare BASE=main``; ``PAGES="jobs queues"`` for these alone.

Serves one scene with the code of another commit and with the present one, takes every page at several widths, light
and dark, and prints which share of the pixels differs. Pictures of those that differ, side by side, are kept in
``var/compare``. The clock stands still and relative times are masked, so that equal code gives equal pictures.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))
from browser import FLAGS, ROOT, chromium
from shots import PAGES

NOW = datetime(2026, 3, 27, 14, 2, 31, tzinfo=UTC)
WIDTHS = (390, 700, 1024, 1366)
SCHEMES = ("light", "dark")
_TOLERATED = 16
_DIFFERS = [0] * _TOLERATED + [255] * (256 - _TOLERATED)
"""Of a channel's 256 levels, what a browser may draw otherwise without a reason: the edges of curves."""
_MASK = """() => {
  for (const time of document.querySelectorAll("time[data-rel], time[data-age]")) time.textContent = "12 min";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    node.nodeValue = node.nodeValue.replace(/(job|worker)_[0-9a-z]{8,}(…[0-9a-z]+)?/g, "$1_0");
  }
}"""
"""Takes out what differs between two runs of the same code: how long ago, and the random part of ids."""


class Difference(NamedTuple):
    """A page that was drawn twice."""

    page: str
    width: int
    scheme: str
    share: float


# The process that serves one side; its library is the one that PYTHONPATH names.


def serve(file: str) -> None:
    """Play the scene in a file that is not there yet, and serve it until standard input ends."""
    import threading

    import scene
    from flask import Flask
    from werkzeug.serving import make_server

    import webui
    from sloppyjobs import Jobs, storage
    from sloppyjobs.storage import FakeClock

    url, new = f"sqlite:///{file}", not Path(file).exists()
    if new:
        scene.nights(url, NOW - timedelta(hours=2))
        scene.history(url, NOW)
    jobs = Jobs(storage.from_url(url, clock=FakeClock(NOW)))
    scene.play(jobs) if new else scene.define(jobs)
    app = Flask("host")
    app.secret_key = "compare"
    app.register_blueprint(webui.create_blueprint(jobs, webui.AllowAll()), url_prefix="/a")
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    dead, running = jobs.admin.list_jobs("dead", name="send-email")[0].id, jobs.admin.list_jobs("processing")[0].id
    sys.stdout.write(f"READY {server.server_port} {dead} {running}\n")
    sys.stdout.flush()
    sys.stdin.read()


class Side(NamedTuple):
    """One of the two that are compared."""

    base: str
    names: dict[str, str]


@contextmanager
def served(tree: Path, file: Path) -> Iterator[Side]:
    """A scene, served by the code in a folder."""
    command = [sys.executable, __file__, "--serve", str(file)]
    environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{Path(__file__).parent}"}
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("READY "):
                _, port, dead, running = line.split()
                yield Side(f"http://127.0.0.1:{port}/a", {"dead": dead, "running": running})
                break
        else:
            raise SystemExit(f"the code in {tree} did not start")
    finally:
        process.terminate()
        process.wait()


@contextmanager
def checked_out(reference: str, folder: Path) -> Iterator[Path]:
    """The code of a commit, with the scripts from npm that are here."""
    tree = folder / "base"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), reference], check=True)
    try:
        if (ROOT / "static" / "vendor").is_dir():
            shutil.copytree(ROOT / "static" / "vendor", tree / "static" / "vendor", dirs_exist_ok=True)
        yield tree
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def schema_version(tree: Path) -> str:
    """The version of the tables that the code in a folder wants."""
    told = "from sloppyjobs.storage.schema.version import VERSION; print(VERSION)"
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, "-c", told], env=environment, cwd=tree, check=True, capture_output=True, text=True
    ).stdout.strip()


# Pictures


def picture(page: Page, side: Side, path: str, file: Path) -> None:
    """One page of one side."""
    page.goto(side.base + path.format(**side.names))
    page.evaluate(_MASK)
    page.screenshot(path=file, full_page=True, animations="disabled")


def difference(one: Path, other: Path, shown: Path) -> float:
    """The share of pixels that differ; a picture of both beside each other where there are any."""
    with Image.open(one) as first, Image.open(other) as second:
        width, height = max(first.width, second.width), max(first.height, second.height)
        sides = [Image.new("RGB", (width, height), "#808080") for _ in range(2)]
        sides[0].paste(first.convert("RGB"))
        sides[1].paste(second.convert("RGB"))
    red, green, blue = ImageChops.difference(*sides).split()
    changed = ImageChops.lighter(ImageChops.lighter(red, green), blue).point(_DIFFERS)
    share = changed.histogram()[255] / (width * height)
    if share:
        both = Image.new("RGB", (3 * width + 40, height), "#808080")
        for place, part in enumerate((*sides, changed.convert("RGB"))):
            both.paste(part, (place * (width + 20), 0))
        both.save(shown, optimize=True)
    return share


def compare(
    browser: Browser, sides: tuple[Side, Side], pages: dict[str, str], folder: Path, scratch: Path
) -> Iterator[Difference]:
    """Pages of both sides."""
    for width in WIDTHS:
        for scheme in SCHEMES:
            options: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
            context = browser.new_context(**options)
            page = context.new_page()
            # Timers stand still too: nothing is polled while the pictures are taken.
            page.clock.install(time=NOW)
            page.clock.pause_at(NOW + timedelta(seconds=1))
            for name, path in pages.items():
                files = (scratch / "one.png", scratch / "other.png")
                for side, file in zip(sides, files, strict=True):
                    picture(page, side, path, file)
                yield Difference(name, width, scheme, difference(*files, folder / f"{name}-{width}-{scheme}.png"))
            context.close()


def main(reference: str, pages: dict[str, str], folder: Path) -> None:
    """Print a table of the pages and how much of them differs."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        scratch = Path(name)
        tree = stack.enter_context(checked_out(reference, scratch))
        now = stack.enter_context(served(ROOT, scratch / "now.db"))
        file = scratch / "base.db"
        if schema_version(tree) == schema_version(ROOT):
            with closing(sqlite3.connect(scratch / "now.db")) as source, closing(sqlite3.connect(file)) as copy:
                source.backup(copy)
        base = stack.enter_context(served(tree, file))
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        sys.stdout.write(f"{'page':<18}{'width':>6}  {'scheme':<7}differs\n")
        for one in compare(browser, (base, now), pages, folder, scratch):
            sys.stdout.write(f"{one.page:<18}{one.width:>6}  {one.scheme:<7}{100 * one.share:6.2f} %\n")
            sys.stdout.flush()
        browser.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        chosen = sys.argv[2:] or list(PAGES)
        main(sys.argv[1] if len(sys.argv) > 1 else "main", {one: PAGES[one] for one in chosen}, ROOT / "var/compare")
