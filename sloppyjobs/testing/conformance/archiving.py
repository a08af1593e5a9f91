"""The archive: searched by id, key, name and time; one job's page; and restored as a new job, once."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest

from sloppyjobs import errors
from sloppyjobs.domain.model import Job
from sloppyjobs.domain.retry import Retry
from sloppyjobs.jobs import Jobs
from sloppyjobs.storage.clock import FakeClock
from sloppyjobs.testing.conformance.records import count

DAY = timedelta(days=1)
SECRET = "hunter2-in-a-payload"  # noqa: S105


def _archived(jobs: Jobs, clock: FakeClock, name: str = "work", payload: Any = None, **options: Any) -> Job:
    """A job that has run, was deleted and is in the archive."""
    if jobs.definitions.get(name) is None:
        jobs.declare(name, redact=("token",))
    job = jobs.enqueue(name, payload, **options)
    [claim] = jobs.claim("w", names=(name,), queues=("*",))
    jobs.complete(claim, {"done": True})
    jobs.admin.delete(job.id)
    clock.advance(2 * DAY)
    assert jobs.admin.purge(archive=True).jobs == 1
    return job


def _found(jobs: Jobs, **wanted: Any) -> list[str]:
    return [one.id for one in jobs.admin.search_archive(**wanted)]


def test_the_archive_is_searched_by_id_key_name_and_time(jobs: Jobs, clock: FakeClock) -> None:
    one = _archived(jobs, clock, business_key="order:1", queue="a")
    two = _archived(jobs, clock, idempotency_key="order:1", queue="b")
    three = _archived(jobs, clock, "other", queue="a")
    assert _found(jobs) == [three.id, two.id, one.id]
    assert _found(jobs, id=two.id) == [two.id]
    assert _found(jobs, id=f"{two.id[:14]}…{two.id[-4:]}") == [two.id]
    assert _found(jobs, key="order:1") == [two.id, one.id]
    assert _found(jobs, business_key="order:1") == [one.id]
    assert _found(jobs, idempotency_key="order:1") == [two.id]
    assert _found(jobs, name="work") == [two.id, one.id]
    assert _found(jobs, name="work", queue="b") == [two.id]
    assert _found(jobs, created_from=two.created_at) == [three.id, two.id]
    assert _found(jobs, created_to=two.created_at) == [one.id]
    assert _found(jobs, name="work", created_from=two.created_at, created_to=three.created_at) == [two.id]
    assert _found(jobs, scope=["b"]) == [two.id]
    assert _found(jobs, key="order:1", name="other") == _found(jobs, id="job_none") == []


def test_a_key_that_is_both_kinds_is_found_once(jobs: Jobs, clock: FakeClock) -> None:
    both = _archived(jobs, clock, business_key="k", idempotency_key="k")
    other = _archived(jobs, clock, idempotency_key="k")
    assert _found(jobs, key="k") == [other.id, both.id]


def test_a_search_has_pages_in_both_directions(jobs: Jobs, clock: FakeClock) -> None:
    made = [_archived(jobs, clock).id for _ in range(5)][::-1]
    first = jobs.admin.search_archive(name="work", page_size=2)
    second = jobs.admin.search_archive(name="work", page_size=2, cursor=first.next_cursor)
    last = jobs.admin.search_archive(name="work", page_size=2, cursor=second.next_cursor)
    assert [[one.id for one in page] for page in (first, second, last)] == [made[:2], made[2:4], made[4:]]
    assert last.next_cursor is None
    back = jobs.admin.search_archive(name="work", page_size=2, cursor=last.previous_cursor)
    assert [one.id for one in back] == made[2:4]
    with pytest.raises(errors.InvalidOption, match="cursor"):
        jobs.admin.search_archive(name="other", cursor=first.next_cursor)


@pytest.mark.parametrize(
    "wanted", [{"page_size": 0}, {"created_from": "yesterday"}, {"key": ""}, {"name": "x" * 200}, {"scope": "queue"}]
)
def test_a_search_that_cannot_work_is_refused_by_name(jobs: Jobs, wanted: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidOption, match=next(iter(wanted))):
        jobs.admin.search_archive(**wanted)


def test_rows_and_page_say_how_it_ended_and_hide_secrets(jobs: Jobs, clock: FakeClock) -> None:
    job = _archived(jobs, clock, payload={"token": SECRET, "order": 7}, tags=("eu",), principal="grace")
    [row] = jobs.admin.search_archive()
    assert (row.id, row.status, row.ended_as, row.archived_at) == (job.id, "deleted", "succeeded", clock.now())
    assert row.payload_preview is not None
    assert row.payload_preview.available
    page = jobs.admin.get_archived(job.id)
    assert [one.event_type for one in page.events] == ["created", "claimed", "succeeded", "deleted"]
    assert [one.status for one in page.attempts] == ["succeeded"]
    assert page.payload_preview.text.count("7") == 1
    assert (page.result, page.tags, page.principal) == ({"done": True}, ("eu",), "grace")
    assert (page.readable, page.more, page.restored_as) == (True, False, None)
    assert SECRET not in repr(row) + repr(page)


def test_a_job_that_is_not_archived_is_unknown_here(jobs: Jobs) -> None:
    jobs.declare("work")
    job = jobs.enqueue("work")
    for one in (job.id, "job_none", ""):
        with pytest.raises(errors.UnknownJob):
            jobs.admin.get_archived(one)
        with pytest.raises(errors.UnknownJob):
            jobs.admin.restore(one)


def test_an_archived_job_is_restored_as_a_new_one(jobs: Jobs, clock: FakeClock) -> None:
    old = _archived(
        jobs, clock, payload={"order": 7}, queue="q", priority=5, timeout=9, retry=Retry(max_attempts=7),
        correlation_id="c", metadata={"team": "x"}, tags=("eu",), principal="grace", idempotency_key="once",
        business_key="order:7", expires=60,
    )  # fmt: skip
    new = jobs.admin.restore(old.id, actor="ada", reason="again")
    assert new.id != old.id
    assert (new.name, new.queue, new.priority, new.timeout, new.max_attempts) == ("work", "q", 5, 9, 7)
    assert (new.correlation_id, new.principal, new.tags) == ("c", "grace", ("eu",))
    assert (new.status, new.attempt_count, new.run_at) == ("queued", 0, clock.now())
    assert (new.business_key, new.idempotency_key, new.expires_at) == ("order:7", None, None)
    assert new.metadata == {"team": "x", "restored_from": old.id}
    [claim] = jobs.claim("w", queues=("q",))
    assert (claim.id, claim.payload, claim.retry.max_attempts) == (new.id, {"order": 7}, 7)
    kept = jobs.admin.get_archived(old.id)
    assert (kept.restored_as, kept.restored_at) == (new.id, clock.now())
    [entry] = jobs.admin.audit(target=old.id, action="restore")
    assert (entry.actor, entry.reason, entry.detail) == ("ada", "again", {"new": new.id})
    assert [job.id for job in jobs.admin.list_jobs(tag="eu")] == [new.id]


def test_once_is_once_until_the_restored_job_has_ended(jobs: Jobs, clock: FakeClock) -> None:
    old = _archived(jobs, clock)
    first = jobs.admin.restore(old.id)
    with pytest.raises(errors.InvalidTransition, match=f"as {first.id}, which is queued"):
        jobs.admin.restore(old.id)
    assert count(jobs, "jobs") == 1
    jobs.admin.cancel(first.id)
    second = jobs.admin.restore(old.id)
    assert jobs.admin.get_archived(old.id).restored_as == second.id
    assert len(jobs.admin.audit(target=old.id, action="restore").items) == 2


def test_a_restore_is_refused_while_its_business_key_is_taken(jobs: Jobs, clock: FakeClock) -> None:
    old = _archived(jobs, clock, business_key="order:7")
    live = jobs.enqueue("work", business_key="order:7")
    with pytest.raises(errors.KeyConflict, match=live.id):
        jobs.admin.restore(old.id)
    assert count(jobs, "jobs") == 1
    assert jobs.admin.get_archived(old.id).restored_as is None
    assert jobs.admin.audit(action="restore").items == ()
    jobs.admin.cancel(live.id)
    assert jobs.admin.restore(old.id).business_key == "order:7"


def test_a_process_that_does_not_know_the_name_restores_it_too(jobs: Jobs, clock: FakeClock) -> None:
    old = _archived(jobs, clock, "elsewhere", {"n": 1})
    stranger = Jobs(jobs.storage)
    new = stranger.admin.restore(old.id)
    assert (new.name, new.status, new.max_attempts) == ("elsewhere", "queued", 3)


def test_two_who_restore_at_once_make_one_job(jobs: Jobs, clock: FakeClock) -> None:
    old = _archived(jobs, clock)
    barrier, answers = Barrier(4), list[str]()

    def restore() -> None:
        barrier.wait()
        try:
            answers.append(jobs.admin.restore(old.id).id)
        except errors.InvalidTransition:
            answers.append("refused")

    threads = [Thread(target=restore) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [made] = [answer for answer in answers if answer != "refused"]
    assert len(answers) == 4
    assert [job.id for job in jobs.storage.inspection.jobs()] == [made]
    assert jobs.admin.get_archived(old.id).restored_as == made
    assert len(jobs.admin.audit(action="restore").items) == 1
