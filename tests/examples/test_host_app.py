"""The host application, served and with a worker beside it, as real processes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm_start
from browsing import SECONDS, Browser, wait_for
from free_ports import free_port

APP = Path(__file__).parents[2] / "examples" / "host_app" / "app.py"


@pytest.fixture
def browser(sqlite_url: str) -> Iterator[Browser]:
    port = free_port()
    flask = [sys.executable, "-m", "flask", "--app", str(APP)]
    environment = {**os.environ, "DATABASE_URL": sqlite_url}
    processes = [warm_start.Popen([*flask, "run", "--port", str(port)], env=environment)]
    browser = Browser(f"http://127.0.0.1:{port}")

    def served() -> str | None:
        try:
            return browser.get("/")
        except OSError:
            return None

    try:
        # One after the other: both fill the empty database with people.
        wait_for(served)
        processes.append(warm_start.Popen([*flask, "jobs", "worker"], env=environment))
        yield browser
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(SECONDS)


@pytest.mark.slow
def test_an_order_becomes_a_job_that_an_operator_sees_succeed(browser: Browser) -> None:
    browser.get("/")
    browser.post("/orders", email="ada@example.com")
    browser.get("/login")
    browser.post("/login", name="ada", password="demo")

    def job() -> str | None:
        found = re.search(r'href="(/staff/jobs/jobs/job_[^"/]+)"', browser.get("/staff/jobs/jobs?status=succeeded"))
        return found[1] if found else None

    page = browser.get(wait_for(job))
    assert "send-receipt" in page
    assert "delivered_to" in page
