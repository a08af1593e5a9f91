"""Why jobs do not run is said on the pages of queues and of job types, too."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from hosts import PREFIX, Client, make_app

import webui
from sloppyjobs import Jobs, storage
from sloppyjobs.storage import FakeClock
from sloppyjobs.testing.conformance.admin_scenes import live_worker


def _words(html: str) -> str:
    main = html.partition('<div id="live"')[2].partition("</main>")[0]
    return " ".join(re.sub(r"<[^>]+>", " ", main).split())


def _get(jobs: Jobs, path: str) -> str:
    return Client(make_app(jobs).test_client()).get(path).text


def test_a_queue_without_a_worker_says_so_with_a_command_that_is_safe_to_paste(jobs: Jobs) -> None:
    jobs.declare("export", queue="ex; ports")
    jobs.enqueue("export", {})
    live_worker(jobs, queues=("emails",))
    words = _words(_get(jobs, "/queues/ex;%20ports"))
    assert "No worker is running for ex; ports. 1 job is due. Start a worker: sloppyjobs worker" in words
    for path in ("/queues", "/queues/ex;%20ports"):
        assert "--queue &#39;ex; ports&#39;</code>" in _get(jobs, path), path
    assert "No worker is running for ex; ports." in _words(_get(jobs, "/job-types/export"))


def test_a_queue_where_nothing_is_due_misses_no_worker(jobs: Jobs) -> None:
    jobs.declare("export", queue="exports")
    jobs.enqueue("export", {}, delay=3600)
    assert "No worker" not in _words(_get(jobs, "/queues/exports"))
    assert "No worker" not in _words(_get(jobs, "/job-types/export"))


def test_a_name_that_no_worker_of_its_queue_knows_is_told_with_its_queue(jobs: Jobs) -> None:
    for name in ("export", "print"):
        jobs.declare(name, queue="exports")
        jobs.enqueue(name, {})
    live_worker(jobs, queues=("exports",), names=("print",))
    told = "No worker can run export (1 queued in exports)"
    page = _get(jobs, "/queues/exports")
    assert told in _words(page)
    assert f'href="{PREFIX}/jobs?status=queued&amp;queue=exports&amp;name=export"' in page
    assert "no worker can run export" in _words(_get(jobs, "/queues"))
    assert told in _words(_get(jobs, "/job-types/export"))
    assert "No worker" not in _words(_get(jobs, "/job-types/print"))


def test_running_jobs_that_should_have_ended_are_counted_by_queue(ready_sqlite_url: str) -> None:
    clock = FakeClock(datetime(2030, 5, 20, 12, tzinfo=UTC))
    jobs = Jobs(storage.sqlite(ready_sqlite_url, clock=clock))
    for name, queue in (("export", "exports"), ("print", "prints")):
        jobs.declare(name, queue=queue)
        jobs.enqueue(name, {})
        jobs.claim("app-1:1", queues=(queue,), lease=60 if name == "export" else 600)
    clock.advance(300)
    live_worker(jobs)
    assert "lost its worker" not in _words(_get(jobs, "/queues/prints"))
    page = _get(jobs, "/queues/exports")
    assert "1 running job has lost its worker" in _words(page)
    assert f'href="{PREFIX}/jobs?status=processing&amp;queue=exports"' in page
    jobs.storage.close()


class _Queues(webui.AllowAll):
    """Somebody who sees queues, but no jobs."""

    def can(self, actor: Any, action: str, resource: webui.Resource) -> bool:
        return action in ("overview.view", "queue.view")


def test_who_may_not_see_jobs_is_told_without_a_link_to_them(jobs: Jobs) -> None:
    jobs.declare("export", queue="exports")
    jobs.enqueue("export", {})
    live_worker(jobs, queues=("exports",), names=("print",))
    text = Client(make_app(jobs, _Queues()).test_client()).get("/queues/exports").text
    assert "No worker can run export" in text
    assert "/jobs?" not in text
