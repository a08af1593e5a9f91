"""Screenshots of the pages in light, dark and narrow: ``make screenshots``. With ``--all``, of every page."""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask import Flask
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from werkzeug.serving import make_server

import webui
from sloppyjobs import Jobs

sys.path.insert(0, str(Path(__file__).parent))
import scene
from browser import FLAGS, ROOT, chromium

_ANONYMOUS = """(pairs) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    for (const [from, to] of pairs) walker.currentNode.nodeValue = walker.currentNode.nodeValue.replaceAll(from, to);
}"""
"""Takes this machine's folder and name out of the pictures."""
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "job-dead": "/jobs/{dead}",
    "job-running": "/jobs/{running}",
    "dead": "/dead",
    "queues": "/queues",
    "queue": "/queues/emails",
    "recurring": "/recurring",
    "schedule": "/recurring/nightly-rollup",
    "workers": "/workers",
    "locks": "/locks",
    "audit": "/audit",
    "confirm": "/dead/retry?cause=1&error_type={kind}&error_frame={frame}",
}
KEPT = {
    "overview-light",
    "overview-dark",
    "jobs-light",
    "job-dead-light",
    "dead-light",
    "queues-dark",
    "schedule-light",
    "jobs-narrow",
}
"""Those that the documentation shows; the rest is made only when all are asked for."""


def serve(jobs: Jobs) -> tuple[Any, str]:
    """A server in a thread, and its address."""
    app = Flask("host")
    app.secret_key = "screenshots"
    app.register_blueprint(webui.create_blueprint(jobs, webui.AllowAll()), url_prefix="/jobs-admin")
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/jobs-admin"


def _picture(page: Page, url: str, file: Path, *, whole: bool) -> None:
    page.goto(url)
    page.wait_for_load_state("load")
    page.evaluate(_ANONYMOUS, [[str(ROOT), "/srv/shop"], [socket.gethostname(), "app-1"]])
    page.screenshot(path=file, full_page=whole)
    with Image.open(file) as picture:
        picture.convert("RGB").save(file, optimize=True)


def take(browser: Browser, base: str, folder: Path, names: dict[str, str], wanted: set[str] | None) -> None:
    """Every page, three times."""
    for suffix, scheme, width, height in (
        ("light", "light", 1360, 900),
        ("dark", "dark", 1360, 900),
        ("narrow", "light", 360, 780),
    ):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
        page = context.new_page()
        for name, path in PAGES.items():
            if wanted is None or f"{name}-{suffix}" in wanted:
                url = base + path.format(**names)
                _picture(page, url, folder / f"{name}-{suffix}.png", whole=wanted is None)
        context.close()


def main(folder: Path, *, everything: bool) -> None:
    """Play the scene, open every page."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        url = f"sqlite:///{scratch}/scene.db"
        scene.nights(url, datetime.now(UTC) - timedelta(hours=2))
        scene.history(url, datetime.now(UTC))
        jobs = Jobs(url)
        scene.play(jobs)
        worker = jobs.create_worker(id="app-1:4127", queues=("emails", "media", "rollups"), concurrency=6)
        worker.start()
        server, base = serve(jobs)
        group = jobs.admin.dead_groups()[0]
        names = {
            "dead": jobs.admin.list_jobs("dead", name="send-email")[0].id,
            "running": jobs.admin.list_jobs("processing")[0].id,
            "kind": group.error_type or "",
            "frame": group.error_frame or "",
        }
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        take(browser, base, folder, names, None if everything else KEPT)
        browser.close()
        server.shutdown()
        worker.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots"), everything="--all" in sys.argv)
