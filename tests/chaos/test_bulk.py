"""A bulk command whose answer to COMMIT is lost: done once, and reported as done."""

from __future__ import annotations

import pytest
from proxy import FaultyProxy

from sloppyjobs.jobs import Jobs
from sloppyjobs.testing.conformance import admin_scenes as scene


@pytest.fixture
def jobs(proxied_url: str) -> Jobs:
    return Jobs(proxied_url)


def test_a_bulk_command_whose_answer_is_lost_is_done_once(jobs: Jobs, proxy: FaultyProxy) -> None:
    scene.declared(jobs)
    jobs.enqueue_many([(scene.NAME, {})] * 20)
    mark = jobs.storage.audit.begin_command()
    find = jobs.storage.lists.find
    jobs.storage.audit.begin_command = lambda: mark  # type: ignore[method-assign]

    def find_then_lose(*arguments: object, **options: object) -> object:
        found = find(*arguments, **options)  # type: ignore[arg-type]
        proxy.drop_commit_answers()
        return found

    jobs.storage.lists.find = find_then_lose  # type: ignore[method-assign, assignment]
    result = jobs.admin.bulk("cancel", {"queue": "default"}, actor="ada")
    assert proxy.commits_dropped == 1
    assert (result.matched, result.done, result.skipped) == (20, 20, {})
    jobs.storage.lists.find = find  # type: ignore[method-assign]
    for row in jobs.admin.list_jobs(status="cancelled"):
        assert [one.event_type for one in jobs.admin.events(row.id)] == ["created", "cancelled"]
    assert len(jobs.admin.audit(actor="ada")) == 1
    jobs.storage.close()


def test_a_single_command_whose_answer_is_lost_is_done_once(jobs: Jobs, proxy: FaultyProxy) -> None:
    job = scene.dead(jobs)
    proxy.drop_commit_answers()
    assert jobs.admin.retry(job.id, actor="ada").status == "queued"
    assert proxy.commits_dropped == 1
    assert [one.event_type for one in jobs.admin.events(job.id)].count("retried") == 1
    assert len(jobs.admin.audit(actor="ada")) == 1
    jobs.storage.close()
