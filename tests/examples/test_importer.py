"""The importer: its commands, its server and its worker as real processes, on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import warm_start
from browsing import SECONDS, Browser, wait_for
from free_ports import free_port
from kept_database import url_by

from sloppyjobs import Jobs

IMPORTER = Path(__file__).parents[2] / "examples" / "importer"
TENANTS, ROWS = 3, 6

Flask = Callable[..., str]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_url"))
    return url_by("psycopg", request.getfixturevalue("empty_postgres_url"))


@pytest.fixture
def environment(url: str) -> dict[str, str]:
    return {**os.environ, "DATABASE_URL": url, "FLASK_APP": "importer", "SECONDS_PER_ROW": "0.02"}


@pytest.fixture
def flask(environment: dict[str, str]) -> Flask:
    """Runs a command of the application; what it printed."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "flask", *arguments]
        ran = warm_start.run(command, cwd=IMPORTER, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


@pytest.fixture
def browser(flask: Flask, environment: dict[str, str]) -> Iterator[Browser]:
    """Ada's, on the first page; a worker is there too."""
    flask("init")
    port = free_port()
    command = [sys.executable, "-m", "flask"]
    processes = [
        warm_start.Popen([*command, *arguments], cwd=IMPORTER, env=environment)
        for arguments in (["run", "--port", str(port)], ["jobs", "worker"])
    ]
    made = Browser(f"http://127.0.0.1:{port}", "ada:demo")

    def served() -> str | None:
        try:
            return made.get("/")
        except OSError:
            return None

    try:
        wait_for(served)
        yield made
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(SECONDS)


@pytest.mark.slow
def test_a_file_is_imported_row_by_row_once_somebody_has_approved_it(browser: Browser, flask: Flask, url: str) -> None:
    sample = flask("sample", "--tenants", str(TENANTS), "--rows", str(ROWS))
    # By the button, on the command line, and on the job's page.
    approvers = {"ada": _by_button, "grace": _by_command(flask), "an operator": _on_the_jobs_page}
    pages = []
    for by, approve in approvers.items():
        browser.get("/")
        browser.upload("/imports", f"for-{by}.csv", sample)
        pages.append(browser.url)
        wait_for(lambda: "Waiting for an approval" in browser.get(pages[-1]))
        assert f"tenant-1: {ROWS} rows" in browser.text
        approve(browser, pages[-1])
        wait_for(lambda: "Report" in browser.get(pages[-1]))
        assert f"{TENANTS * ROWS - 1} of {TENANTS * ROWS} rows were imported" in browser.text
        assert f"line {ROWS + 1}: a price is not negative" in browser.text
        assert f"Approved by {by}." in browser.text
    jobs = Jobs(url)
    try:
        assert len(jobs.admin.list_jobs(name="report-import")) == len(approvers)
        members = [jobs.get(job.id) for job in jobs.admin.list_jobs(name="import-row", page_size=500)]
        assert Counter(job.partition_key for job in members) == {
            f"tenant-{tenant}": len(approvers) * ROWS for tenant in range(1, TENANTS + 1)
        }
        # Two of each tenant at once: of those that came together, the others had to wait.
        [limit] = jobs.admin.list_limits()
        waited = [job for job in members if any(one.to_status == "waiting" for one in jobs.admin.events(job.id))]
        assert (limit.name, limit.concurrency, bool(waited)) == ("tenant-api", 2, True)
    finally:
        jobs.storage.close()


@pytest.mark.slow
def test_a_file_may_be_refused_by_somebody_or_by_the_check(browser: Browser, flask: Flask) -> None:
    browser.upload("/imports", "unwanted.csv", "tenant,article,cents\na,b,1\n")
    page = browser.url
    wait_for(lambda: "Waiting for an approval" in browser.get(page))
    browser.post(f"{page}/refuse")
    assert "Refused." in browser.text

    browser.get("/")
    browser.upload("/imports", "wrong.csv", "article,price\nb,1\n")
    page = browser.url
    wait_for(lambda: "Not imported: the first line must be tenant,article,cents" in browser.get(page))
    assert "SLOPPY" not in flask("jobs", "batches")


def _by_button(browser: Browser, page: str) -> None:
    browser.post(f"{page}/approve")


def _by_command(flask: Flask) -> Callable[[Browser, str], None]:
    def approve(_browser: Browser, page: str) -> None:
        key = f"import:{page.rpartition('/')[2]}"
        flask("jobs", "signal", "--business-key", key, "approved", '{"by": "grace"}')

    return approve


def _on_the_jobs_page(browser: Browser, _page: str) -> None:
    found = re.search(r'href="(/admin/jobs/jobs/[^"]+)"', browser.text)
    assert found is not None
    browser.get(found[1])
    browser.post(f"{found[1]}/signal", name="approved", value="null")
