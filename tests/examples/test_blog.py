"""The blog that came from RQ: its commands, its server and its worker as real processes, on the drivers people have."""

from __future__ import annotations

import os
import re
import sys
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import warm_start
from browsing import SECONDS, Browser, wait_for
from free_ports import free_port
from kept_database import Server, url_by

BLOG = Path(__file__).parents[2] / "examples" / "blog"
POSTS = 230

Flask = Callable[..., str]


@pytest.fixture(scope="module", params=["sqlite", "psycopg", "psycopg2"])
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An empty database of the blog's, by each driver. The tests share it, since they sign in as different users."""
    folder = tmp_path_factory.mktemp("blog")
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{folder}/blog.db"
        else:
            server: Server = request.getfixturevalue("server")
            url = url_by(request.param, stack.enter_context(server.empty_database()))
        yield {**os.environ, "DATABASE_URL": url, "FLASK_APP": "blog", "BLOG_EXPORTS": str(folder)}


@pytest.fixture(scope="module")
def folder(environment: dict[str, str]) -> Path:
    """Where the blog's files are."""
    return Path(environment["BLOG_EXPORTS"])


@pytest.fixture(scope="module")
def flask(environment: dict[str, str]) -> Flask:
    """Runs a command of the application; what it printed."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "flask", *arguments]
        ran = warm_start.run(command, cwd=BLOG, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    return run


@pytest.fixture(scope="module")
def migrations(flask: Flask, folder: Path) -> Path:
    """The blog's own migrations, made after the tables of the jobs were there."""
    made = folder / "migrations"
    flask("jobs", "init")
    for step in (["init"], ["migrate", "-m", "the blog"], ["upgrade"]):
        flask("db", step[0], "--directory", str(made), *step[1:])
    flask("seed", "--posts", str(POSTS))
    return made


@pytest.fixture(scope="module")
def address(environment: dict[str, str], migrations: Path, folder: Path) -> Iterator[str]:
    """Where the blog is served, beside its worker."""
    port = free_port()
    command = [sys.executable, "-m", "flask"]
    with (folder / "worker.log").open("w") as log:
        processes = [
            warm_start.Popen([*command, "run", "--port", str(port)], cwd=BLOG, env=environment),
            warm_start.Popen([*command, "jobs", "worker"], cwd=BLOG, env=environment, stderr=log),
        ]
    found = f"http://127.0.0.1:{port}"

    def served() -> str | None:
        try:
            return Browser(found).get("/")
        except OSError:
            return None

    try:
        wait_for(served)
        yield found
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(SECONDS)


@pytest.fixture
def browser(address: str) -> Browser:
    """A browser in which nobody has signed in, on the blog's first page."""
    made = Browser(address)
    made.get("/")
    return made


@pytest.mark.slow
def test_an_export_is_asked_for_watched_and_fetched(browser: Browser, migrations: Path, folder: Path) -> None:
    [revision] = (migrations / "versions").glob("*.py")
    assert "create_table('user'" in revision.read_text()
    assert "sloppy_" not in revision.read_text()

    browser.post("/sign-in", name="ada", password="demo")
    browser.post("/exports", form="jsonl")
    export = browser.url
    wait_for(lambda: "ready" in browser.get(export))
    assert f"{POSTS} posts" in browser.text
    assert len(browser.get(f"{export}/file").splitlines()) == POSTS

    # What cannot work is dead at once, told to the log, and the blog's own row says so.
    browser.get("/")
    browser.post("/exports", form="docx")
    failed = browser.url
    wait_for(lambda: "failed" in browser.get(failed))
    wait_for(lambda: "KeyError" in (folder / "worker.log").read_text())

    page = browser.get("/admin/jobs/dead")
    assert "export-posts" in page
    assert "KeyError" in page
    # The row of the blog is ready a moment before the job has succeeded.
    succeeded = "/admin/jobs/jobs?status=succeeded"
    [job] = wait_for(lambda: set(re.findall(r"/admin/jobs/jobs/(job_\w+)", browser.get(succeeded))))
    shown = browser.get(f"/admin/jobs/jobs/{job}")
    assert "rows" in shown
    assert str(POSTS) in shown
    assert "ada" in shown


@pytest.mark.slow
def test_the_admin_pages_are_for_administrators(browser: Browser) -> None:
    browser.post("/sign-in", name="bob", password="demo")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        browser.get("/admin/jobs/")
