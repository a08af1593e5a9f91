"""The blog that came from RQ: its commands, its server and its worker as real processes, on the drivers people have."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browsing import SECONDS, Browser, wait_for
from free_ports import free_port

BLOG = Path(__file__).parents[2] / "examples" / "blog"
POSTS = 230

Flask = Callable[..., str]


@pytest.fixture(params=["sqlite", "psycopg", "psycopg2"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """An empty database of the blog's, by each driver."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/blog.db"
    else:
        server: str = request.getfixturevalue("empty_postgres_url")
        url = server.replace("postgresql://", f"postgresql+{request.param}://")
    return {**os.environ, "DATABASE_URL": url, "FLASK_APP": "blog", "BLOG_EXPORTS": str(tmp_path)}


@pytest.fixture
def flask(environment: dict[str, str]) -> Flask:
    """Runs a command of the application; what it printed."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "flask", *arguments]
        ran = subprocess.run(command, cwd=BLOG, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    return run


@pytest.fixture
def migrations(flask: Flask, tmp_path: Path) -> Path:
    """The blog's own migrations, made after the tables of the jobs were there."""
    folder = tmp_path / "migrations"
    flask("jobs", "init")
    for step in (["init"], ["migrate", "-m", "the blog"], ["upgrade"]):
        flask("db", step[0], "--directory", str(folder), *step[1:])
    flask("seed", "--posts", str(POSTS))
    return folder


@pytest.fixture
def browser(environment: dict[str, str], migrations: Path, tmp_path: Path) -> Iterator[Browser]:
    port = free_port()
    command = [sys.executable, "-m", "flask"]
    with (tmp_path / "worker.log").open("w") as log:
        processes = [
            subprocess.Popen([*command, "run", "--port", str(port)], cwd=BLOG, env=environment),
            subprocess.Popen([*command, "jobs", "worker"], cwd=BLOG, env=environment, stderr=log),
        ]
    browser = Browser(f"http://127.0.0.1:{port}")

    def served() -> str | None:
        try:
            return browser.get("/")
        except OSError:
            return None

    try:
        wait_for(served)
        yield browser
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(SECONDS)


@pytest.mark.slow
def test_an_export_is_asked_for_watched_and_fetched(browser: Browser, migrations: Path, tmp_path: Path) -> None:
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
    wait_for(lambda: "KeyError" in (tmp_path / "worker.log").read_text())

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
