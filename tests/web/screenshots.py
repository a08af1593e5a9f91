"""Pictures of the pages for the documentation: ``make screenshots``.

With ``--all``, of every page and state at five widths, light and dark, into a folder to look at; ``--only a,b`` of
these alone.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask import Flask
from PIL import Image
from playwright.sync_api import Browser, Error, Page, sync_playwright
from werkzeug.serving import WSGIRequestHandler, make_server

import webui
from sloppyjobs import Jobs

sys.path.insert(0, str(Path(__file__).parent))
import scene
from browser import FLAGS, ROOT, chromium
from every_page import IDS, Addresses
from shots import EVERYTHING, PAGES, SIZES, Shot

_ANONYMOUS = """(pairs) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode())
    for (const [from, to] of pairs) walker.currentNode.nodeValue = walker.currentNode.nodeValue.replaceAll(from, to);
}"""
"""Takes this machine's folder and name out of the pictures."""
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


class Viewer(webui.AllowAll):
    """Somebody who may look at jobs, and at little else."""

    def can(self, actor: Any, action: str, resource: webui.Resource) -> bool:
        """Pages of jobs and queues only."""
        return action in ("overview.view", "job.view", "queue.view", "dead.view")


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Requests are not worth a line."""


@contextmanager
def serve(jobs: Jobs, policy: Any, *, read_only: bool = False) -> Iterator[str]:
    """The address of the pages, served from a thread."""
    app = Flask("host")
    app.secret_key = "screenshots"
    app.register_blueprint(webui.create_blueprint(jobs, policy, read_only=read_only), url_prefix="/jobs-admin")
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/jobs-admin"
    finally:
        server.shutdown()


def hosts(stack: ExitStack, jobs: Jobs, folder: str) -> dict[str, str]:
    """The address of every host that a picture may name."""
    empty = Jobs(f"sqlite:///{folder}/empty.db")
    empty.storage.init()
    missing, down = Jobs(f"sqlite:///{folder}/missing.db"), Jobs(f"sqlite:///{folder}/no/such/folder.db")
    allow = webui.AllowAll()
    made = {
        "shop": serve(jobs, allow),
        "viewer": serve(jobs, Viewer()),
        "read-only": serve(jobs, allow, read_only=True),
        "no-policy": serve(jobs, None),
        "empty": serve(empty, allow),
        "no-tables": serve(missing, allow),
        "down": serve(down, allow),
    }
    return {name: stack.enter_context(host) for name, host in made.items()}


@contextmanager
def played(url: str) -> Iterator[tuple[Jobs, scene.Mailer]]:
    """The scene up to now, and a worker that goes on with it."""
    scene.nights(url, datetime.now(UTC) - timedelta(hours=2))
    scene.history(url, datetime.now(UTC))
    jobs = Jobs(url)
    mailer = scene.play(jobs)
    scene.trouble(jobs)
    worker = jobs.create_worker(id="app-1:4127", queues=("emails", "media", "rollups"), concurrency=6)
    worker.start()
    try:
        yield jobs, mailer
    finally:
        worker.stop()


def names_of(jobs: Jobs) -> dict[str, str]:
    """What the addresses of the pictures are filled with."""
    group = jobs.admin.dead_groups()[0]
    addresses = Addresses(jobs)
    return {
        **{name: addresses.id(name) for name in IDS},
        "kind": group.error_type or "",
        "frame": group.error_frame or "",
    }


def causes(page: Page, base: str, jobs: Jobs) -> dict[str, str]:
    """The pages of a cause after a canary that died again, one that succeeded, and one that waits; and before one."""
    found: dict[str, str] = {}
    for key, text in (("red", "TemplateError"), ("green", "ImportError"), ("amber", "LookupError"), ("new", "Smtp")):
        page.goto(f"{base}/dead")
        link = page.locator(".cause", has_text=text).locator("h2 a[href*='/dead/']").first
        if not link.count():
            continue
        found[f"cause_{key}"] = (link.get_attribute("href") or "").removeprefix("/jobs-admin")
        if key != "new":
            page.locator(".cause", has_text=text).get_by_role("button", name="Retry canary").click()
            page.locator("#flash .flash, main .why").first.wait_for()
        if key == "green":
            jobs.definitions.require("import-orders").handler = lambda ctx, payload: None
        if key in ("red", "green"):
            jobs.create_worker(queues=("invoices", "imports"), recurring=False).run_once()
    return found


def _picture(page: Page, url: str, shot: Shot, file: Path, *, whole: bool) -> None:
    page.goto(url)
    page.wait_for_load_state("load")
    if shot.act is not None:
        shot.act(page)
    page.evaluate(_ANONYMOUS, [[str(ROOT), "/srv/shop"], [socket.gethostname(), "app-1"]])
    page.screenshot(path=file, full_page=whole)
    with Image.open(file) as picture:
        picture.convert("RGB").save(file, optimize=True)


def take(
    browser: Browser, bases: dict[str, str], names: dict[str, str], shots: dict[str, Shot], folder: Path, size: Any
) -> None:
    """The pictures of one size and colour scheme; a state that cannot be reached is said, and left out from then on."""
    suffix, scheme, width, height, whole = size
    for name, shot in tuple(shots.items()):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(15_000)
        try:
            address = bases[shot.host] + shot.path.format(**names)
            _picture(context.new_page(), address, shot, folder / f"{name}-{suffix}.png", whole=whole)
        except (KeyError, Error, AssertionError) as error:
            sys.stderr.write(f"{name}-{suffix}: not reached: {str(error).splitlines()[0]}\n")
            del shots[name]
        finally:
            context.close()


def main(folder: Path, *, everything: bool, only: set[str]) -> None:
    """Play the scene, open every page."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright, ExitStack() as stack:
        jobs, _ = stack.enter_context(played(f"sqlite:///{scratch}/scene.db"))
        bases = hosts(stack, jobs, scratch)
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        if not everything:
            names = names_of(jobs)
            for suffix, scheme, width, height in (
                ("light", "light", 1360, 900), ("dark", "dark", 1360, 900), ("narrow", "light", 360, 780)
            ):  # fmt: skip
                shots = {name: Shot(path) for name, path in PAGES.items() if f"{name}-{suffix}" in KEPT}
                take(browser, bases, names, shots, folder, (suffix, scheme, width, height, False))
        else:
            page = browser.new_page()
            names = {**names_of(jobs), **causes(page, bases["shop"], jobs)}
            page.close()
            shots = {name: shot for name, shot in EVERYTHING.items() if not only or name in only}
            for width, height in SIZES:
                for scheme in ("light", "dark"):
                    take(browser, bases, names, shots, folder, (f"{width}-{scheme}", scheme, width, height, True))
        browser.close()


if __name__ == "__main__":
    given = [one for one in sys.argv[1:] if not one.startswith("--")]
    chosen = next((one.partition("=")[2] for one in sys.argv if one.startswith("--only=")), "")
    main(
        Path(given[0] if given else "docs/screenshots"),
        everything="--all" in sys.argv or bool(chosen),
        only=set(chosen.split(",")) - {""},
    )
